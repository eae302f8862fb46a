//! The tools interface (`MPI_T_*`): its start and end, enumerations and categories. Control variables are in
//! [`crate::cvar`], performance variables in [`crate::pvar`], events in [`crate::event`].
//!
//! It needs no engine and calls no error handler: errors are returned. Output arguments may be null, which means that
//! they are not wanted (MPI-5 15.3).
use crate::abi::Abi;
use crate::args::{Opaque, Ptr, Text, TextOut};
use crate::life::{self, Level};
use crate::{cvar, pvar};
use mpi::core::Values;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What tools hold at the moment.
#[derive(Debug)]
pub struct Tools {
    /// Calls of `MPI_T_init_thread` without their `MPI_T_finalize`.
    users: u32,
    /// Had the engine started when the first of them came? Then settings can only be read. Fixed from then on: what is
    /// told of a variable must not change.
    pub late: Option<bool>,
    /// Handles of control variables: their numbers.
    pub cvars: Table<usize>,
    /// Sessions of performance variables.
    pub sessions: Table<()>,
    /// Handles of performance variables: session and number.
    pub pvars: Table<(usize, usize)>,
}

static TOOLS: Mutex<Tools> = Mutex::new(Tools {
    users: 0,
    late: None,
    cvars: Table(Vec::new()),
    sessions: Table(Vec::new()),
    pvars: Table(Vec::new()),
});

/// Why a call fails: the values of `MPI_T_ERR_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ToolError {
    NotInitialized,
    InvalidIndex,
    InvalidItem,
    InvalidHandle,
    InvalidSession,
    InvalidName,
    Invalid,
    SetNotNow,
    SetNever,
    NoStartStop,
    NoWrite,
    NotAccessible,
}

impl ToolError {
    fn code<A: Abi>(self) -> c_int {
        let code = match self {
            ToolError::NotInitialized => A::C.t_err_not_initialized,
            ToolError::InvalidIndex => A::C.t_err_invalid_index,
            ToolError::InvalidItem => A::C.t_err_invalid_item,
            ToolError::InvalidHandle => A::C.t_err_invalid_handle,
            ToolError::InvalidSession => A::C.t_err_invalid_session,
            ToolError::InvalidName => A::C.t_err_invalid_name,
            ToolError::Invalid => A::C.t_err_invalid,
            ToolError::SetNotNow => A::C.t_err_cvar_set_not_now,
            ToolError::SetNever => A::C.t_err_cvar_set_never,
            ToolError::NoStartStop => A::C.t_err_pvar_no_startstop,
            ToolError::NoWrite => A::C.t_err_pvar_no_write,
            ToolError::NotAccessible => A::C.t_err_not_accessible,
        };
        code as c_int
    }
}

/// What the body of a call gives.
pub type Told<T> = Result<T, ToolError>;

/// Objects that a tool holds. A handle is a pointer that nobody follows: the place of the object, counted from 2, since 0 is
/// the null handle and 1 stands for all handles of a session.
#[derive(Debug)]
pub struct Table<T>(Vec<Option<T>>);

/// The handle of the first object.
const FIRST_HANDLE: usize = 2;
/// `MPI_T_PVAR_ALL_HANDLES`
pub const ALL_HANDLES: Opaque = Opaque(1);

impl<T> Table<T> {
    /// Adds an object.
    pub fn add(&mut self, item: T) -> Opaque {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        match self.0.get_mut(free) {
            Some(place) => *place = Some(item),
            None => self.0.push(Some(item)),
        }
        Opaque(free + FIRST_HANDLE)
    }

    /// The object of a handle.
    pub fn get(&self, handle: Opaque) -> Option<&T> {
        self.0.get(handle.0.checked_sub(FIRST_HANDLE)?)?.as_ref()
    }

    /// Removes the object of a handle.
    pub fn remove(&mut self, handle: Opaque) -> Option<T> {
        self.0.get_mut(handle.0.checked_sub(FIRST_HANDLE)?)?.take()
    }

    /// Removes all objects but these.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.0.iter_mut().for_each(|place| *place = place.take().filter(&keep));
    }
}

fn tools() -> MutexGuard<'static, Tools> {
    TOOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the body of a function that needs an initialised interface.
pub fn told<A: Abi>(body: impl FnOnce(&mut Tools) -> Told<()>) -> c_int {
    let mut tools = tools();
    let outcome = if tools.users == 0 { Err(ToolError::NotInitialized) } else { body(&mut tools) };
    outcome.map_or_else(ToolError::code::<A>, |()| 0)
}

/// Stores what is wanted.
pub fn put<T: Copy>(place: Ptr<T>, value: T) {
    let _ = place.set(value); // null: not wanted
}

/// Stores a string: `len` says how much room there is and gets the length of all of it, both with the zero.
pub fn put_text(text: &str, place: TextOut, len: Ptr<c_int>) {
    let Ok(room) = len.get() else { return };
    if room > 0 {
        let _ = place.write(text, room as usize);
    }
    put(len, text.len() as c_int + 1);
}

/// The number of an object, checked.
pub fn index(number: c_int, count: usize) -> Told<usize> {
    usize::try_from(number).ok().filter(|number| *number < count).ok_or(ToolError::InvalidIndex)
}

/// The place of a name among others.
pub fn find<'n>(name: Text, mut names: impl Iterator<Item = &'n str>) -> Told<c_int> {
    let name = name.read().map_err(|_| ToolError::InvalidName)?;
    names.position(|known| known == name).map(|at| at as c_int).ok_or(ToolError::InvalidName)
}

/// `MPI_T_init_thread`
pub fn t_init_thread<A: Abi>(required: c_int, provided: Ptr<c_int>) -> c_int {
    let mut tools = tools();
    tools.users += 1;
    tools.late.get_or_insert_with(life::has_started);
    put(provided, life::admit_tools(Level::at_least::<A>(required)).value::<A>());
    0
}

/// `MPI_T_finalize`
pub fn t_finalize<A: Abi>() -> c_int {
    told::<A>(|tools| {
        tools.users -= 1;
        if tools.users == 0 {
            tools.cvars.retain(|_| false);
            tools.pvars.retain(|_| false);
            tools.sessions.retain(|_| false);
        }
        Ok(())
    })
}

/// The words that a setting chooses from, if it is such a one.
pub fn words(values: Values) -> Option<&'static [&'static str]> {
    match values {
        Values::Switch => Some(&["off", "on"]),
        Values::Words(words) => Some(words),
        _ => None,
    }
}

/// The enumeration of the setting of this number. A handle again is a number that nobody follows.
pub fn enum_of(setting: usize) -> Opaque {
    Opaque(setting + FIRST_HANDLE)
}

fn enumeration(handle: Opaque) -> Told<(&'static str, &'static [&'static str])> {
    let number = handle.0.checked_sub(FIRST_HANDLE).ok_or(ToolError::InvalidHandle)?;
    let setting = cvar::all().nth(number).ok_or(ToolError::InvalidHandle)?;
    Ok((setting.name, words(setting.values).ok_or(ToolError::InvalidHandle)?))
}

/// `MPI_T_enum_get_info`
pub fn t_enum_get_info<A: Abi>(
    enumtype: Opaque,
    num: Ptr<c_int>,
    name: TextOut,
    name_len: Ptr<c_int>,
) -> c_int {
    told::<A>(|_| {
        let (known, words) = enumeration(enumtype)?;
        put(num, words.len() as c_int);
        put_text(known, name, name_len);
        Ok(())
    })
}

/// `MPI_T_enum_get_item`
pub fn t_enum_get_item<A: Abi>(
    enumtype: Opaque,
    item: c_int,
    value: Ptr<c_int>,
    name: TextOut,
    name_len: Ptr<c_int>,
) -> c_int {
    told::<A>(|_| {
        let (_, words) = enumeration(enumtype)?;
        let at = index(item, words.len()).map_err(|_| ToolError::InvalidItem)?;
        put(value, item);
        put_text(words[at], name, name_len);
        Ok(())
    })
}

/// A category: its name, what it is about, and which performance variables are in it. The first has the settings.
#[derive(Debug)]
struct Category {
    name: &'static str,
    about: &'static str,
}

const SETTINGS: usize = 0;
const CATEGORIES: [Category; 5] = [
    Category { name: "settings", about: "What users may set by variables of the environment" },
    Category { name: "connections", about: "Connections to other processes and how they come about" },
    Category { name: "memory", about: "Memory for communication" },
    Category { name: "messages", about: "What was sent" },
    Category { name: "init", about: "Phases of the start of the library" },
];

fn members(category: usize) -> Vec<c_int> {
    if category == SETTINGS {
        return Vec::new();
    }
    let name = CATEGORIES[category].name;
    let all = pvar::all().enumerate();
    all.filter(|(_, stat)| pvar::category(*stat) == name).map(|(at, _)| at as c_int).collect()
}

fn put_list(list: impl Iterator<Item = c_int>, len: c_int, places: Ptr<c_int>) -> Told<()> {
    let len = usize::try_from(len).map_err(|_| ToolError::Invalid)?;
    list.take(len).enumerate().for_each(|(at, number)| _ = places.set_at(at, number));
    Ok(())
}

/// `MPI_T_category_get_num`
pub fn t_category_get_num<A: Abi>(num_cat: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        put(num_cat, CATEGORIES.len() as c_int);
        Ok(())
    })
}

/// `MPI_T_category_get_info`
#[allow(clippy::too_many_arguments)] // the standard's own list
pub fn t_category_get_info<A: Abi>(
    cat_index: c_int,
    name: TextOut,
    name_len: Ptr<c_int>,
    desc: TextOut,
    desc_len: Ptr<c_int>,
    num_cvars: Ptr<c_int>,
    num_pvars: Ptr<c_int>,
    num_categories: Ptr<c_int>,
) -> c_int {
    told::<A>(|_| {
        let at = index(cat_index, CATEGORIES.len())?;
        put_text(CATEGORIES[at].name, name, name_len);
        put_text(CATEGORIES[at].about, desc, desc_len);
        put(num_cvars, if at == SETTINGS { cvar::all().count() as c_int } else { 0 });
        put(num_pvars, members(at).len() as c_int);
        put(num_categories, 0);
        Ok(())
    })
}

/// `MPI_T_category_get_index`
pub fn t_category_get_index<A: Abi>(name: Text, cat_index: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        put(cat_index, find(name, CATEGORIES.iter().map(|category| category.name))?);
        Ok(())
    })
}

/// `MPI_T_category_get_cvars`
pub fn t_category_get_cvars<A: Abi>(cat_index: c_int, len: c_int, indices: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        let at = index(cat_index, CATEGORIES.len())?;
        let count = if at == SETTINGS { cvar::all().count() as c_int } else { 0 };
        put_list(0..count, len, indices)
    })
}

/// `MPI_T_category_get_pvars`
pub fn t_category_get_pvars<A: Abi>(cat_index: c_int, len: c_int, indices: Ptr<c_int>) -> c_int {
    told::<A>(|_| put_list(members(index(cat_index, CATEGORIES.len())?).into_iter(), len, indices))
}

/// `MPI_T_category_get_categories`: none is in another.
pub fn t_category_get_categories<A: Abi>(cat_index: c_int, len: c_int, indices: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        index(cat_index, CATEGORIES.len())?;
        put_list(std::iter::empty(), len, indices)
    })
}

/// `MPI_T_category_get_num_events`: there are none.
pub fn t_category_get_num_events<A: Abi>(cat_index: c_int, num_events: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        index(cat_index, CATEGORIES.len())?;
        put(num_events, 0);
        Ok(())
    })
}

/// `MPI_T_category_get_events`
pub fn t_category_get_events<A: Abi>(cat_index: c_int, len: c_int, indices: Ptr<c_int>) -> c_int {
    t_category_get_categories::<A>(cat_index, len, indices)
}

/// `MPI_T_category_changed`: they never do.
pub fn t_category_changed<A: Abi>(update_number: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        put(update_number, 0);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_performance_variable_is_in_one_category() {
        let mut all: Vec<c_int> = (0..CATEGORIES.len()).flat_map(members).collect();
        all.sort_unstable();
        assert_eq!(all, (0..pvar::all().count() as c_int).collect::<Vec<_>>());
    }

    #[test]
    fn handles_are_neither_null_nor_all_and_are_used_again() {
        let mut table = Table(Vec::new());
        let (a, b) = (table.add('a'), table.add('b'));
        assert!(a.0 >= FIRST_HANDLE && a != b);
        assert_eq!((table.remove(a), table.remove(a), table.get(b)), (Some('a'), None, Some(&'b')));
        assert_eq!(table.add('c'), a);
        assert!(table.get(Opaque(0)).is_none() && table.get(ALL_HANDLES).is_none());
    }
}

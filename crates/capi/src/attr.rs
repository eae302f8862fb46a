//! Attributes of communicators, datatypes and windows: keys, values and their callbacks; and the attributes that
//! `MPI_COMM_WORLD` and every window have from the start.
use crate::abi::Abi;
use crate::args::{BufMut, Opaque, Ptr};
use crate::callbacks;
use crate::engine::Call;
use crate::errors::{Failure, On, Outcome, run};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::{Carrier, Keyval, KeyvalId, Object, WinFlavor, WinId};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn handle_of<A: Abi>(object: Object) -> A::Handle {
    match object {
        Object::Comm(comm) => handles::of_comm::<A>(comm),
        Object::Type(ty) => handles::of_type::<A>(ty),
        Object::Win(win) => handles::of_win::<A>(win),
    }
}

/// Copies the attributes whose copy callback says so.
pub fn copy_all<A: Abi>(call: &mut Call<A>, from: Object, to: Object) -> Outcome<()> {
    for (key, value) in call.attrs(from)? {
        let keyval = call.keyval(key)?;
        let (object, number) = (handle_of::<A>(from), handles::of_keyval::<A>(key));
        let copied = call
            .outside(|| callbacks::copy_attr::<A>(keyval.copy, object, number, keyval.extra, value))
            .map_err(Failure::Callback)?;
        if let Some(copied) = copied {
            call.attr_set(to, key, copied)?;
        }
    }
    Ok(())
}

/// Deletes all attributes, the newest first.
pub fn delete_all<A: Abi>(call: &mut Call<A>, object: Object) -> Outcome<()> {
    for (key, value) in call.attrs(object)?.into_iter().rev() {
        let keyval = call.keyval(key)?;
        run_delete(call, object, key, keyval, value)?;
        call.attr_delete(object, key)?;
    }
    Ok(())
}

fn run_delete<A: Abi>(
    call: &mut Call<A>,
    object: Object,
    key: KeyvalId,
    keyval: Keyval,
    value: usize,
) -> Outcome<()> {
    let (handle, number) = (handle_of::<A>(object), handles::of_keyval::<A>(key));
    call.outside(|| callbacks::delete_attr::<A>(keyval.delete, handle, number, value, keyval.extra))
        .map_err(Failure::Callback)
}

fn create<A: Abi>(
    call: &mut Call<A>,
    carrier: Carrier,
    (copy, delete): (Opaque, Opaque),
    out: Ptr<c_int>,
    extra: BufMut,
) -> Outcome<()> {
    out.check()?;
    let key = call.keyval_create(Keyval { carrier, copy: copy.0, delete: delete.0, extra: extra.addr() });
    Ok(out.set(handles::of_keyval::<A>(key))?)
}

fn free_key<A: Abi>(call: &mut Call<A>, keyval: Ptr<c_int>) -> Outcome<()> {
    call.keyval_free(handles::keyval::<A>(keyval.get()?)?)?;
    Ok(keyval.set(A::C.keyval_invalid as c_int)?)
}

fn set<A: Abi>(call: &mut Call<A>, object: Object, keyval: c_int, value: BufMut) -> Outcome<()> {
    let key = handles::keyval::<A>(keyval)?;
    if let Some(former) = call.attr_get(object, key)? {
        let callbacks = call.keyval(key)?;
        run_delete(call, object, key, callbacks, former)?;
    }
    call.attr_set(object, key, value.addr())?;
    Ok(())
}

fn get<A: Abi>(call: &Call<A>, object: Object, keyval: c_int, out: BufMut, flag: Ptr<c_int>) -> Outcome<()> {
    let value = call.attr_get(object, handles::keyval::<A>(keyval)?)?;
    flag.set(value.is_some().into())?;
    value.map_or(Ok(()), |value| Ok(out.store(value)?))
}

fn delete<A: Abi>(call: &mut Call<A>, object: Object, keyval: c_int) -> Outcome<()> {
    let key = handles::keyval::<A>(keyval)?;
    if let Some(value) = call.attr_get(object, key)? {
        let callbacks = call.keyval(key)?;
        run_delete(call, object, key, callbacks, value)?;
    }
    call.attr_delete(object, key)?;
    Ok(())
}

fn comm_object<A: Abi>(call: &Call<A>, comm: A::Handle) -> Outcome<Object> {
    let id = handles::comm::<A>(comm)?;
    call.comm_size(id)?;
    Ok(Object::Comm(id))
}

fn type_object<A: Abi>(call: &Call<A>, datatype: A::Handle) -> Outcome<Object> {
    let id = handles::datatype::<A>(datatype)?;
    call.type_size(id)?;
    Ok(Object::Type(id))
}

fn win_object<A: Abi>(call: &Call<A>, win: A::Handle) -> Outcome<Object> {
    let id = handles::win::<A>(win)?;
    call.win_flavor(id)?;
    Ok(Object::Win(id))
}

macro_rules! key_functions {
    ($($carrier:ident $create:ident $free:ident $n1:literal $n2:literal),*) => {$(
        #[doc = concat!("`", $n1, "`")]
        pub fn $create<A: Abi>(copy: Opaque, delete: Opaque, keyval: Ptr<c_int>, extra_state: BufMut) -> c_int {
            run::<A>($n1, On::WORLD, |call| {
                create(call, Carrier::$carrier, (copy, delete), keyval, extra_state)
            })
        }
        #[doc = concat!("`", $n2, "`")]
        pub fn $free<A: Abi>(keyval: Ptr<c_int>) -> c_int {
            run::<A>($n2, On::WORLD, |call| free_key(call, keyval))
        }
    )*};
}

key_functions! {
    Comm comm_create_keyval comm_free_keyval "MPI_Comm_create_keyval" "MPI_Comm_free_keyval",
    Type type_create_keyval type_free_keyval "MPI_Type_create_keyval" "MPI_Type_free_keyval",
    Win win_create_keyval win_free_keyval "MPI_Win_create_keyval" "MPI_Win_free_keyval",
    Comm keyval_create keyval_free "MPI_Keyval_create" "MPI_Keyval_free"
}

macro_rules! comm_value_functions {
    ($($set:ident $get:ident $delete:ident $n1:literal $n2:literal $n3:literal),*) => {$(
        #[doc = concat!("`", $n1, "`")]
        pub fn $set<A: Abi>(comm: A::Handle, keyval: c_int, value: BufMut) -> c_int {
            run::<A>($n1, On::Comm(comm), |call| {
                let object = comm_object(call, comm)?;
                set(call, object, keyval, value)
            })
        }
        #[doc = concat!("`", $n2, "`")]
        pub fn $get<A: Abi>(comm: A::Handle, keyval: c_int, value: BufMut, flag: Ptr<c_int>) -> c_int {
            run::<A>($n2, On::Comm(comm), |call| {
                let object = comm_object(call, comm)?;
                if predefined(call, keyval, value, flag)? {
                    return Ok(());
                }
                get(call, object, keyval, value, flag)
            })
        }
        #[doc = concat!("`", $n3, "`")]
        pub fn $delete<A: Abi>(comm: A::Handle, keyval: c_int) -> c_int {
            run::<A>($n3, On::Comm(comm), |call| {
                let object = comm_object(call, comm)?;
                delete(call, object, keyval)
            })
        }
    )*};
}

comm_value_functions! {
    comm_set_attr comm_get_attr comm_delete_attr "MPI_Comm_set_attr" "MPI_Comm_get_attr" "MPI_Comm_delete_attr",
    attr_put attr_get attr_delete "MPI_Attr_put" "MPI_Attr_get" "MPI_Attr_delete"
}

/// `MPI_Type_set_attr`
pub fn type_set_attr<A: Abi>(datatype: A::Handle, keyval: c_int, value: BufMut) -> c_int {
    run::<A>("MPI_Type_set_attr", On::WORLD, |call| {
        let object = type_object(call, datatype)?;
        set(call, object, keyval, value)
    })
}

/// `MPI_Type_get_attr`
pub fn type_get_attr<A: Abi>(datatype: A::Handle, keyval: c_int, value: BufMut, flag: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Type_get_attr", On::WORLD, |call| {
        let object = type_object(call, datatype)?;
        get(call, object, keyval, value, flag)
    })
}

/// `MPI_Type_delete_attr`
pub fn type_delete_attr<A: Abi>(datatype: A::Handle, keyval: c_int) -> c_int {
    run::<A>("MPI_Type_delete_attr", On::WORLD, |call| {
        let object = type_object(call, datatype)?;
        delete(call, object, keyval)
    })
}

/// `MPI_Win_set_attr`
pub fn win_set_attr<A: Abi>(win: A::Handle, keyval: c_int, value: BufMut) -> c_int {
    run::<A>("MPI_Win_set_attr", On::Win(win), |call| {
        let object = win_object(call, win)?;
        set(call, object, keyval, value)
    })
}

/// `MPI_Win_get_attr`
pub fn win_get_attr<A: Abi>(win: A::Handle, keyval: c_int, value: BufMut, flag: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Win_get_attr", On::Win(win), |call| {
        let object = win_object(call, win)?;
        match predefined_of_win(call, handles::win::<A>(win)?, keyval)? {
            Some(word) => {
                value.store(word)?;
                Ok(flag.set(1)?)
            }
            None => get(call, object, keyval, value, flag),
        }
    })
}

/// `MPI_Win_delete_attr`
pub fn win_delete_attr<A: Abi>(win: A::Handle, keyval: c_int) -> c_int {
    run::<A>("MPI_Win_delete_attr", On::Win(win), |call| {
        let object = win_object(call, win)?;
        delete(call, object, keyval)
    })
}

/// The integers that predefined attributes of a window point to.
#[derive(Debug, Default)]
struct WinWords {
    size: AtomicI64,
    disp_unit: AtomicI32,
    flavor: AtomicI32,
    model: AtomicI32,
}

/// Those of the windows that the program has asked about. Boxed: it keeps their addresses while others come and go.
static WIN_WORDS: Mutex<BTreeMap<WinId, Box<WinWords>>> = Mutex::new(BTreeMap::new());

fn win_words() -> MutexGuard<'static, BTreeMap<WinId, Box<WinWords>>> {
    WIN_WORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The window is gone, and with it what its predefined attributes point to.
pub fn forget_win(win: WinId) {
    win_words().remove(&win);
}

/// The value of an attribute that every window has (MPI-5 12.2.6): its base, or the address of an integer.
fn predefined_of_win<A: Abi>(call: &Call<A>, win: WinId, keyval: c_int) -> Outcome<Option<usize>> {
    let keyval = i64::from(keyval as u32);
    let all = [A::C.win_base, A::C.win_size, A::C.win_disp_unit, A::C.win_create_flavor, A::C.win_model];
    if !all.contains(&keyval) {
        return Ok(None);
    }
    let (base, size, disp_unit) = call.win_memory(win)?;
    let mut table = win_words();
    let words = table.entry(win).or_default();
    let word = match keyval {
        k if k == A::C.win_base => base,
        k if k == A::C.win_size => {
            words.size.store(size, Relaxed);
            words.size.as_ptr() as usize
        }
        // The large form may have been given one that no `int` holds.
        k if k == A::C.win_disp_unit => stored(&words.disp_unit, disp_unit.min(c_int::MAX.into())),
        k if k == A::C.win_create_flavor => stored(&words.flavor, flavor::<A>(call.win_flavor(win)?)),
        _ => stored(&words.model, A::C.win_unified),
    };
    Ok(Some(word))
}

/// `MPI_WIN_FLAVOR_CREATE` and its family.
fn flavor<A: Abi>(flavor: WinFlavor) -> i64 {
    match flavor {
        WinFlavor::Create => A::C.win_flavor_create,
        WinFlavor::Allocate => A::C.win_flavor_allocate,
        WinFlavor::Shared => A::C.win_flavor_shared,
        WinFlavor::Dynamic => A::C.win_flavor_dynamic,
    }
}

/// The integer's address, with the value there.
fn stored(place: &AtomicI32, value: i64) -> usize {
    place.store(value as i32, Relaxed);
    place.as_ptr() as usize
}

/// The integers that predefined attributes point to.
static TAG_UB: AtomicI32 = AtomicI32::new(mpi::core::TAG_UB);
static HOST: AtomicI32 = AtomicI32::new(0);
static IO: AtomicI32 = AtomicI32::new(0);
static WTIME_IS_GLOBAL: AtomicI32 = AtomicI32::new(0);
static UNIVERSE_SIZE: AtomicI32 = AtomicI32::new(0);
static APPNUM: AtomicI32 = AtomicI32::new(0);
/// How many error classes and codes the program has added.
pub static LASTUSEDCODE: AtomicI32 = AtomicI32::new(0);

/// It may be busy with a spawn of another thread; meanwhile others go on.
fn wait_for_launcher<A: Abi>(call: &mut Call<A>) {
    // If it is gone, it has no answer either.
    let _ = call.until(|call| call.may_ask_launcher(ErrorClass::Other));
}

/// If the key is a predefined one, stores the address of its value.
fn predefined<A: Abi>(call: &mut Call<A>, keyval: c_int, out: BufMut, flag: Ptr<c_int>) -> Outcome<bool> {
    let place = match i64::from(keyval as u32) {
        k if k == A::C.tag_ub => Some(&TAG_UB),
        k if k == A::C.host => Some(filled(&HOST, A::C.proc_null)),
        k if k == A::C.io => Some(filled(&IO, A::C.any_source)),
        k if k == A::C.wtime_is_global => Some(&WTIME_IS_GLOBAL),
        k if k == A::C.universe_size => {
            wait_for_launcher(call);
            call.universe_size().map(|n| filled(&UNIVERSE_SIZE, n.into()))
        }
        k if k == A::C.appnum => {
            wait_for_launcher(call);
            call.appnum().map(|n| filled(&APPNUM, n.into()))
        }
        k if k == A::C.lastusedcode => {
            LASTUSEDCODE.fetch_max(A::C.err_lastcode as i32, Relaxed);
            Some(&LASTUSEDCODE)
        }
        _ => return Ok(false),
    };
    flag.set(place.is_some().into())?;
    if let Some(place) = place {
        out.store(place.as_ptr() as usize)?;
    }
    Ok(true)
}

fn filled(place: &'static AtomicI32, value: i64) -> &'static AtomicI32 {
    place.store(value as i32, Relaxed);
    place
}

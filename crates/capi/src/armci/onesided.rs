//! Put, get and accumulate, in their many forms.
use super::*;
use mpi::{ErrorClass, SendBuf};
use pgas::core::{Factor, HandleId, Later, Segments, Strides, What};

/// Most levels of strides.
const LEVELS_MAX: usize = 8;
/// What handles that are known begin with, and how many operations they let travel together.
const KNOWN: u64 = 0x6172_6d63_6968_646c;
const GATHERS: u64 = 1;

/// Which way bytes go.
#[derive(Clone, Copy)]
enum Way {
    Put,
    Get,
    Acc(Factor),
}

/// The arguments that say where rows are.
struct Rows {
    here: [i64; LEVELS_MAX],
    there: [i64; LEVELS_MAX],
    counts: [i64; LEVELS_MAX + 1],
    levels: usize,
}

impl Rows {
    #[inline(always)]
    fn of(here: Ptr<c_int>, there: Ptr<c_int>, counts: Ptr<c_int>, levels: c_int) -> Result<Rows> {
        let levels =
            usize::try_from(levels).ok().filter(|levels| *levels <= LEVELS_MAX).ok_or_else(|| {
                MpiError::new(
                    ErrorClass::Arg,
                    format!("{levels} levels of strides: there are at most {LEVELS_MAX}"),
                )
            })?;
        let mut rows =
            Rows { here: [0; LEVELS_MAX], there: [0; LEVELS_MAX], counts: [0; LEVELS_MAX + 1], levels };
        for level in 0..levels {
            rows.here[level] = here.at(level)?.into();
            rows.there[level] = there.at(level)?.into();
        }
        for level in 0..=levels {
            let count = counts.at(level)?;
            if count < 0 {
                return Err(MpiError::new(ErrorClass::Count, format!("count[{level}] is {count}")));
            }
            rows.counts[level] = count.into();
        }
        Ok(rows)
    }

    #[inline(always)]
    fn row(bytes: c_int) -> Result<Rows> {
        if bytes < 0 {
            return Err(MpiError::new(ErrorClass::Count, format!("{bytes} bytes")));
        }
        let mut rows =
            Rows { here: [0; LEVELS_MAX], there: [0; LEVELS_MAX], counts: [0; LEVELS_MAX + 1], levels: 0 };
        rows.counts[0] = bytes.into();
        Ok(rows)
    }

    #[inline(always)]
    fn strides(&self) -> Strides<'_> {
        Strides {
            here: &self.here[..self.levels],
            there: &self.there[..self.levels],
            counts: &self.counts[..=self.levels],
        }
    }

    fn is_empty(&self) -> bool {
        self.counts[..=self.levels].contains(&0)
    }
}

/// An operation on rows: the memory here and there.
#[inline]
fn transfer<A: Abi>(
    session: &mut Session,
    driver: &mut OfCall<'_, A>,
    (way, later): (Way, Later),
    (here, there): (BufMut, BufMut),
    rows: &Rows,
    rank: c_int,
) -> Result<()> {
    let what = match way {
        Way::Put => What::Put(here.source()),
        Way::Get => What::Get(here.target()),
        Way::Acc(factor) => What::Acc(here.source(), factor),
    };
    match session.core.locate(process(rank), there.addr()) {
        Ok(_) if here.is_null() && !rows.is_empty() => Err(MpiError::null_pointer()),
        Ok(place) => session.core.transfer(driver, what, place, rows.strides(), later),
        Err(_) if rows.is_empty() && process(rank) < session.core.size() => Ok(()),
        // A process reaches all of its own memory.
        Err(_) if process(rank) == session.core.rank() && !there.is_null() && !here.is_null() => {
            session.core.transfer_own(driver, what, there.target(), rows.strides())
        }
        Err(error) => Err(error),
    }
}

/// An operation of the program's: waited for at once, or later where there is a handle.
#[inline(always)]
fn operation<A: Abi>(
    name: &'static str,
    way: impl FnOnce() -> Result<Way>,
    ends: (BufMut, BufMut),
    rows: impl FnOnce() -> Result<Rows>,
    (rank, handle): (c_int, Option<Ptr<Handle>>),
) -> c_int {
    with::<A, _>(name, |session, driver| {
        let later = handle.map_or(Ok(Later::No), |handle| of_handle(session, handle))?;
        transfer(session, driver, (way()?, later), ends, &rows()?, rank)
    });
    0
}

/// What elements are multiplied by.
fn factor(datatype: c_int, scale: BufMut) -> Result<Way> {
    let factor = match datatype {
        37 => Factor::I32(scale.place().get()?),
        38 => Factor::F64(scale.place().get()?),
        39 => Factor::F32(scale.place().get()?),
        40 => Factor::C32(scale.place().get()?),
        41 => Factor::C64(scale.place().get()?),
        42 => Factor::I64(scale.place().get()?),
        other => {
            let text = format!("{other} is not a datatype of accumulates (ARMCI_ACC_INT, ...)");
            return Err(MpiError::new(ErrorClass::Type, text));
        }
    };
    Ok(Way::Acc(factor))
}

/// Functions in pairs: one that has ended when it returns, and one for which a handle is waited later.
macro_rules! pairs {
    ($($name:ident $nb:ident($($arg:ident: $ty:ty),*) = $call:ident($($what:expr),*), $c:literal $nb_c:literal;)*) => {$(
        pub(super) extern "C" fn $name<A: Abi>($($arg: $ty,)* rank: c_int) -> c_int {
            $call::<A>($c, $($what,)* (rank, None))
        }

        pub(super) extern "C" fn $nb<A: Abi>($($arg: $ty,)* rank: c_int, handle: Ptr<Handle>) -> c_int {
            $call::<A>($nb_c, $($what,)* (rank, Some(handle)))
        }
    )*};
}
pairs!(
    put nb_put(src: BufMut, dst: BufMut, bytes: c_int) =
        operation(|| Ok(Way::Put), (src, dst), || Rows::row(bytes)), "ARMCI_Put" "ARMCI_NbPut";
    get nb_get(src: BufMut, dst: BufMut, bytes: c_int) =
        operation(|| Ok(Way::Get), (dst, src), || Rows::row(bytes)), "ARMCI_Get" "ARMCI_NbGet";
    acc nb_acc(datatype: c_int, scale: BufMut, src: BufMut, dst: BufMut, bytes: c_int) =
        operation(|| factor(datatype, scale), (src, dst), || Rows::row(bytes)), "ARMCI_Acc" "ARMCI_NbAcc";
    put_s nb_put_s(src: BufMut, src_strides: Ptr<c_int>, dst: BufMut, dst_strides: Ptr<c_int>, counts: Ptr<c_int>, levels: c_int) =
        operation(|| Ok(Way::Put), (src, dst), || Rows::of(src_strides, dst_strides, counts, levels)),
        "ARMCI_PutS" "ARMCI_NbPutS";
    get_s nb_get_s(src: BufMut, src_strides: Ptr<c_int>, dst: BufMut, dst_strides: Ptr<c_int>, counts: Ptr<c_int>, levels: c_int) =
        operation(|| Ok(Way::Get), (dst, src), || Rows::of(dst_strides, src_strides, counts, levels)),
        "ARMCI_GetS" "ARMCI_NbGetS";
    acc_s nb_acc_s(datatype: c_int, scale: BufMut, src: BufMut, src_strides: Ptr<c_int>, dst: BufMut, dst_strides: Ptr<c_int>,
        counts: Ptr<c_int>, levels: c_int) =
        operation(|| factor(datatype, scale), (src, dst), || Rows::of(src_strides, dst_strides, counts, levels)),
        "ARMCI_AccS" "ARMCI_NbAccS";
    put_v nb_put_v(list: Ptr<Segment>, count: c_int) =
        segments(|| Ok(Way::Put), (list, count)), "ARMCI_PutV" "ARMCI_NbPutV";
    get_v nb_get_v(list: Ptr<Segment>, count: c_int) =
        segments(|| Ok(Way::Get), (list, count)), "ARMCI_GetV" "ARMCI_NbGetV";
    acc_v nb_acc_v(datatype: c_int, scale: BufMut, list: Ptr<Segment>, count: c_int) =
        segments(|| factor(datatype, scale), (list, count)), "ARMCI_AccV" "ARMCI_NbAccV";
);

/// A put, and then a flag that is seen behind it.
fn flagged<A: Abi>(
    name: &'static str,
    ends: (BufMut, BufMut),
    rows: impl FnOnce() -> Result<Rows>,
    (flag, value): (Ptr<c_int>, c_int),
    rank: c_int,
) -> c_int {
    with::<A, _>(name, |session, driver| {
        transfer(session, driver, (Way::Put, Later::No), ends, &rows()?, rank)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        put_value(session, driver, name, &value, flag.addr(), rank)
    });
    0
}

/// Writes one value.
pub(super) fn put_value<A: Abi, T: Copy>(
    session: &mut Session,
    driver: &mut OfCall<'_, A>,
    _name: &'static str,
    value: &T,
    address: usize,
    rank: c_int,
) -> Result<()> {
    let here: SendBuf = crate::args::source_of(value);
    let counts = [size_of::<T>() as i64];
    let how = Strides { here: &[], there: &[], counts: &counts };
    match session.core.locate(process(rank), address) {
        Ok(place) => session.core.transfer(driver, What::Put(here), place, how, Later::No),
        Err(_) if process(rank) == session.core.rank() && address != 0 => {
            session.core.transfer_own(driver, What::Put(here), crate::args::target_at(address), how)
        }
        Err(error) => Err(error),
    }
}

/// Reads one value.
pub(super) fn get_value<A: Abi, T: Copy + Default>(
    session: &mut Session,
    driver: &mut OfCall<'_, A>,
    address: usize,
    rank: c_int,
) -> Result<T> {
    let mut value = T::default();
    let here = crate::args::target_of(&mut value);
    let counts = [size_of::<T>() as i64];
    let how = Strides { here: &[], there: &[], counts: &counts };
    match session.core.locate(process(rank), address) {
        Ok(place) => session.core.transfer(driver, What::Get(here), place, how, Later::No)?,
        Err(_) if process(rank) == session.core.rank() && address != 0 => {
            session.core.transfer_own(driver, What::Get(here), crate::args::target_at(address), how)?;
        }
        Err(error) => return Err(error),
    }
    Ok(value)
}

pub(super) extern "C" fn put_flag<A: Abi>(
    src: BufMut,
    dst: BufMut,
    bytes: c_int,
    flag: Ptr<c_int>,
    value: c_int,
    rank: c_int,
) -> c_int {
    flagged::<A>("ARMCI_Put_flag", (src, dst), || Rows::row(bytes), (flag, value), rank)
}

pub(super) extern "C" fn put_s_flag<A: Abi>(
    src: BufMut,
    src_strides: Ptr<c_int>,
    dst: BufMut,
    dst_strides: Ptr<c_int>,
    counts: Ptr<c_int>,
    levels: c_int,
    flag: Ptr<c_int>,
    value: c_int,
    rank: c_int,
) -> c_int {
    let rows = || Rows::of(src_strides, dst_strides, counts, levels);
    flagged::<A>("ARMCI_PutS_flag", (src, dst), rows, (flag, value), rank)
}

pub(super) extern "C" fn put_s_flag_dir<A: Abi>(
    src: BufMut,
    src_strides: Ptr<c_int>,
    dst: BufMut,
    dst_strides: Ptr<c_int>,
    counts: Ptr<c_int>,
    levels: c_int,
    flag: Ptr<c_int>,
    value: c_int,
    rank: c_int,
) -> c_int {
    put_s_flag::<A>(src, src_strides, dst, dst_strides, counts, levels, flag, value, rank)
}

/// Segments of several lengths. Each length is one operation, unless something lies elsewhere, or is mapped and only copied.
fn segments<A: Abi>(
    name: &'static str,
    way: impl FnOnce() -> Result<Way>,
    (list, count): (Ptr<Segment>, c_int),
    (rank, handle): (c_int, Option<Ptr<Handle>>),
) -> c_int {
    with::<A, _>(name, |session, driver| {
        let later = handle.map_or(Ok(Later::No), |handle| of_handle(session, handle))?;
        let way = way()?;
        for index in 0..usize::try_from(count).unwrap_or(0) {
            one_length(session, driver, (way, later), list.at(index)?, rank)?;
        }
        Ok(())
    });
    0
}

fn one_length<A: Abi>(
    session: &mut Session,
    driver: &mut OfCall<'_, A>,
    (way, later): (Way, Later),
    of: Segment,
    rank: c_int,
) -> Result<()> {
    let (here, there) = match way {
        Way::Get => (of.targets, of.sources),
        Way::Put | Way::Acc(_) => (of.sources, of.targets),
    };
    let count = usize::try_from(of.count).unwrap_or(0);
    if count == 0 || of.bytes == 0 {
        return Ok(());
    }
    let row = Rows::row(of.bytes)?;
    let (first_here, first_there) = (here.at(0)?, there.at(0)?);
    let place = session.core.locate(process(rank), first_there.addr());
    let sums = matches!(way, Way::Acc(_));
    let together = match place {
        // On mapped memory copies one by one are the quickest; sums take a lock, and do so once.
        Ok(place) if count > 1 && (sums || !session.core.is_mapped(place.region, place.rank)?) => Some(place),
        _ => None,
    };
    let mut distances = (Vec::with_capacity(count), Vec::with_capacity(count));
    for index in 0..count {
        let (here, there) = (here.at(index)?, there.at(index)?);
        let Some(first) = together else {
            transfer(session, driver, (way, later), (here, there), &row, rank)?;
            continue;
        };
        let place = session.core.locate(process(rank), there.addr())?;
        if (place.region, place.rank) != (first.region, first.rank) {
            transfer(session, driver, (way, later), (here, there), &row, rank)?;
            continue;
        }
        if here.is_null() {
            return Err(MpiError::null_pointer());
        }
        distances.0.push(here.addr().wrapping_sub(first_here.addr()) as i64);
        distances.1.push(place.at as i64 - first.at as i64);
    }
    let Some(place) = together else { return Ok(()) };
    let what = match way {
        Way::Put => What::Put(first_here.source()),
        Way::Get => What::Get(first_here.target()),
        Way::Acc(factor) => What::Acc(first_here.source(), factor),
    };
    let how = Segments { bytes: of.bytes.into(), here: &distances.0, there: &distances.1 };
    session.core.transfer_segments(driver, what, place, how, later)
}

/// The handle's operations are waited for by it. One that nobody has initialised is new.
pub(super) fn of_handle(session: &mut Session, handle: Ptr<Handle>) -> Result<Later> {
    if handle.is_null() {
        return Ok(Later::Implicit);
    }
    let mut known = handle.get()?;
    if known.words[0] != KNOWN {
        known.words = [KNOWN, 0, 0, 0];
    }
    let id = HandleId::from_word(known.words[1]).filter(|id| session.core.handle_exists(*id));
    let id = id.unwrap_or_else(|| session.core.handle_begin(known.words[2] & GATHERS != 0));
    known.words[1] = id.to_word();
    handle.set(known)?;
    Ok(Later::Handle(id))
}

/// What is under way by a handle, if anything is.
fn under_way(session: &mut Session, handle: Ptr<Handle>) -> Result<Option<HandleId>> {
    let known = handle.get()?;
    match known.words[0] {
        KNOWN => Ok(HandleId::from_word(known.words[1]).filter(|id| session.core.handle_exists(*id))),
        0 => Ok(None),
        _ => {
            let text = "the handle was not initialised (ARMCI_INIT_HANDLE), and nothing was begun with it";
            Err(MpiError::new(ErrorClass::Request, text))
        }
    }
}

pub(super) extern "C" fn init_handle<A: Abi>(handle: Ptr<Handle>) {
    with::<A, _>("ARMCI_INIT_HANDLE", |_, _| handle.set(Handle { words: [KNOWN, 0, 0, 0] }))
}

pub(super) extern "C" fn set_aggregate_handle<A: Abi>(handle: Ptr<Handle>) {
    with::<A, _>("ARMCI_SET_AGGREGATE_HANDLE", |session, driver| {
        if let Some(id) = under_way(session, handle)? {
            session.core.wait(driver, id)?;
        }
        handle.set(Handle { words: [KNOWN, 0, GATHERS, 0] })
    })
}

pub(super) extern "C" fn unset_aggregate_handle<A: Abi>(handle: Ptr<Handle>) {
    with::<A, _>("ARMCI_UNSET_AGGREGATE_HANDLE", |session, driver| {
        if let Some(id) = under_way(session, handle)? {
            session.core.wait(driver, id)?;
        }
        handle.set(Handle { words: [KNOWN, 0, 0, 0] })
    })
}

pub(super) extern "C" fn wait<A: Abi>(handle: Ptr<Handle>) -> c_int {
    with::<A, _>("ARMCI_Wait", |session, driver| match handle.is_null() {
        true => session.core.wait_implicit(driver, None),
        false => match under_way(session, handle)? {
            Some(id) => session.core.wait(driver, id),
            None => Ok(()),
        },
    });
    0
}

/// 0 if everything has ended.
pub(super) extern "C" fn test<A: Abi>(handle: Ptr<Handle>) -> c_int {
    with::<A, _>("ARMCI_Test", |session, driver| match under_way(session, handle)? {
        Some(id) => Ok((!session.core.test(driver, id)?).into()),
        None => Ok(0),
    })
}

pub(super) extern "C" fn wait_proc<A: Abi>(rank: c_int) -> c_int {
    with::<A, _>("ARMCI_WaitProc", |session, driver| session.core.wait_implicit(driver, Some(process(rank))));
    0
}

pub(super) extern "C" fn wait_all<A: Abi>() -> c_int {
    with::<A, _>("ARMCI_WaitAll", |session, driver| session.core.wait_implicit(driver, None));
    0
}

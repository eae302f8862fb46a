//! Operations on windows. What is mapped here is a copy; what is not is given to [`super::far`].
use super::far::{Elements, Fate, Op, What};
use super::memory::{Combination, Combining, HELD_BYTES, is_integer};
use super::window::{Access, Reach, Target, Windows};
use super::{Remote, WinFlavor, WinId};
use crate::buffer::{Grid, RecvBuf, Scratch, SendBuf};
use crate::core::data::Checked;
use crate::core::op::op_name;
use crate::core::p2p::element_count;
use crate::core::request::{Request, State};
use crate::core::*;
use crate::error::{ErrorClass, Result, fail, fail_with};
use net::{Endpoint, NetError, Process, Row, UserBuf};
use proto::rma::wire::Shape;
use std::num::NonZeroU32;
use std::rc::Rc;

/// So many rows of a target's memory are copied by the kernel however short they are, so that the target need not look; of
/// more, only such that have these bytes or more on average: each takes the kernel as long as a few hundred bytes.
const ROWS_MAX: u64 = 1024;
const ROW_BYTES_WORTH: u64 = 512;

/// Where an operation goes: the rank, and the distance from the beginning of its memory (or an address).
#[derive(Clone, Copy)]
struct Way {
    rank: u32,
    reach: Reach,
    line: Option<u32>,
    at: i64,
}

/// Who waits for an operation.
type Waits = Option<Rc<Fate>>;

impl Mpi {
    /// Copies elements into a target's memory.
    #[inline]
    pub fn win_put(&mut self, win: WinId, from: SendData, to: Remote) -> Result<()> {
        if self.put_short(win, from, to) {
            return Ok(());
        }
        self.put(win, from, to, None)
    }

    /// Copies elements from a target's memory.
    #[inline]
    pub fn win_get(&mut self, win: WinId, into: RecvData, from: Remote) -> Result<()> {
        if self.get_short(win, into, from) {
            return Ok(());
        }
        self.get(win, into, from, None)
    }

    /// Combines elements with those of a target's memory.
    pub fn win_accumulate(&mut self, win: WinId, from: SendData, to: Remote, op: OpId) -> Result<()> {
        no_op_fetches(op)?;
        self.update(win, Some(from), None, to, op, None)
    }

    /// As `win_accumulate`, and gives what was there before.
    pub fn win_get_accumulate(
        &mut self,
        win: WinId,
        from: SendData,
        into: RecvData,
        at: Remote,
        op: OpId,
    ) -> Result<()> {
        self.update(win, Some(from), Some(into), at, op, None)
    }

    /// As `win_get_accumulate`, of one element of a predefined datatype.
    #[allow(clippy::too_many_arguments)]
    pub fn win_fetch_and_op(
        &mut self,
        win: WinId,
        from: SendBuf,
        into: RecvBuf,
        ty: TypeId,
        peer: Peer,
        disp: i64,
        op: OpId,
    ) -> Result<()> {
        if self.committed(ty)?.scalar.is_none() {
            return fail(ErrorClass::Type, format!("'{}' is not a predefined datatype", self.type_name(ty)?));
        }
        let at = Remote { peer, disp, count: 1, ty };
        self.update(win, Some(Data::new(from, 1, ty)), Some(Data::new(into, 1, ty)), at, op, None)
    }

    /// Stores an element if what is there is as expected; gives what was there.
    #[allow(clippy::too_many_arguments)]
    pub fn win_compare_and_swap(
        &mut self,
        win: WinId,
        from: SendBuf,
        compare: SendBuf,
        into: RecvBuf,
        ty: TypeId,
        peer: Peer,
        disp: i64,
    ) -> Result<()> {
        let datatype = self.committed(ty)?.clone();
        let Some((meaning, scalar)) = datatype.scalar.filter(|(_, scalar)| is_integer(*scalar)) else {
            let name = self.type_name(ty)?;
            return fail(
                ErrorClass::Type,
                format!("'{name}': only integers, truth values and bytes are compared and swapped"),
            );
        };
        for buf in [compare, from] {
            datatype.check_at(buf, 1)?;
        }
        datatype.check_at(into, 1)?;
        let how = Combination { op: OpId::REPLACE, meaning, scalar };
        let how = Combining::of(how).expect("anything can be replaced");
        let to = Elements { ty: datatype, count: 1 };
        self.visit(move |windows, endpoint| {
            let Some(way) = way(windows, win, peer, disp, &to)? else { return Ok(()) };
            let bytes = to.bytes();
            if let (Reach::Mapped(base), Some(line)) = (way.reach, way.line) {
                let lock = windows.get(win)?.update_word(line);
                let source = |buf: SendBuf| buf.range(0, bytes);
                how.swap(
                    base.shifted(way.at as isize),
                    source(compare),
                    source(from),
                    into.range(0, bytes),
                    lock,
                );
                return Ok(());
            }
            let what = What::Swap { expected: compare, new: from, into, how };
            let op = Op { what, at: way.at, to, waits: None };
            windows.add(endpoint, win, way.rank, op)
        })
    }

    /// As `win_put`, with a request for the elements at the origin.
    pub fn win_rput(&mut self, win: WinId, from: SendData, to: Remote) -> Result<RequestId> {
        self.requested(win, to.peer, |mpi, waits| mpi.put(win, from, to, waits))
    }

    /// As `win_get`, with a request.
    pub fn win_rget(&mut self, win: WinId, into: RecvData, from: Remote) -> Result<RequestId> {
        self.requested(win, from.peer, |mpi, waits| mpi.get(win, into, from, waits))
    }

    /// As `win_accumulate`, with a request for the elements at the origin.
    pub fn win_raccumulate(&mut self, win: WinId, from: SendData, to: Remote, op: OpId) -> Result<RequestId> {
        no_op_fetches(op)?;
        self.requested(win, to.peer, |mpi, waits| mpi.update(win, Some(from), None, to, op, waits))
    }

    /// As `win_get_accumulate`, with a request.
    pub fn win_rget_accumulate(
        &mut self,
        win: WinId,
        from: SendData,
        into: RecvData,
        at: Remote,
        op: OpId,
    ) -> Result<RequestId> {
        self.requested(win, at.peer, |mpi, waits| mpi.update(win, Some(from), Some(into), at, op, waits))
    }

    /// Runs an operation with a request that is complete when somebody says so.
    fn requested(
        &mut self,
        win: WinId,
        peer: Peer,
        start: impl FnOnce(&mut Self, Waits) -> Result<()>,
    ) -> Result<RequestId> {
        self.room_for_request()?;
        let (comm, target) = {
            let windows = self.hall.windows.borrow();
            let window = windows.get(win)?;
            // (Nobody's memory can be locked, which leaves no trace.)
            if !matches!(window.access, Access::Locked(_) | Access::LockedAll { .. }) && peer != Peer::Null {
                return fail(
                    ErrorClass::RmaSync,
                    "an operation with a request needs the lock of its target (MPI_Win_lock, MPI_Win_lock_all)",
                );
            }
            let target = match peer {
                Peer::Rank(rank) => window.checked(rank)?,
                _ => window.rank(),
            };
            (window.comm, window.process(target))
        };
        let fate = Rc::<Fate>::default();
        start(self, Some(fate.clone()))?;
        // What nobody else knows of has been done already.
        if Rc::strong_count(&fate) == 1 || fate.take()? {
            return Ok(RequestId::SENT);
        }
        self.hall.expect_looks();
        Ok(self.add_request(Request::new(comm, State::Access { fate, target })))
    }

    fn put(&mut self, win: WinId, from: SendData, to: Remote, waits: Waits) -> Result<()> {
        let from = self.checked(from)?;
        let elements = self.elements(&to)?;
        same_bytes(from.bytes()?, elements.bytes())?;
        self.visit(move |windows, endpoint| {
            let Some(way) = way(windows, win, to.peer, to.disp, &elements)? else { return Ok(()) };
            if let Reach::Mapped(base) = way.reach {
                transfer(&from, &elements, base.shifted(way.at as isize));
                return Ok(());
            }
            let written = windows.through_kernel(win, &way, &elements, |who, process, rows, bytes| {
                let mut packed = Scratch::default();
                let source = match from.flat() {
                    Some((start, bytes)) => from.buf.range(start, bytes),
                    None => {
                        packed.reserve(bytes);
                        from.ty.pack(from.buf, from.count, packed.part(bytes));
                        packed.part(bytes).as_source()
                    }
                };
                endpoint.write_rows(who, process, source, rows)
            })?;
            if written {
                return Ok(());
            }
            windows.add(
                endpoint,
                win,
                way.rank,
                Op { what: What::Put(from), at: way.at, to: elements, waits },
            )
        })
    }

    fn get(&mut self, win: WinId, into: RecvData, from: Remote, waits: Waits) -> Result<()> {
        let into = self.checked(into)?;
        let elements = self.elements(&from)?;
        same_bytes(into.bytes()?, elements.bytes())?;
        self.visit(move |windows, endpoint| {
            let Some(way) = way(windows, win, from.peer, from.disp, &elements)? else { return Ok(()) };
            if let Reach::Mapped(base) = way.reach {
                fetch(&elements, base.shifted(way.at as isize), &into);
                return Ok(());
            }
            let read = windows.through_kernel(win, &way, &elements, |who, process, rows, bytes| {
                if let Some((start, bytes)) = into.flat() {
                    return endpoint.read_rows(who, process, rows, into.buf.range(start, bytes));
                }
                let mut packed = Scratch::with(bytes);
                endpoint.read_rows(who, process, rows, packed.part(bytes))?;
                into.ty.unpack(packed.part(bytes).as_source(), into.buf, into.count);
                Ok(())
            })?;
            if read {
                return Ok(());
            }
            windows.add(
                endpoint,
                win,
                way.rank,
                Op { what: What::Get(into), at: way.at, to: elements, waits },
            )
        })
    }

    fn update(
        &mut self,
        win: WinId,
        from: Option<SendData>,
        into: Option<RecvData>,
        at: Remote,
        op: OpId,
        waits: Waits,
    ) -> Result<()> {
        if op.0 >= OpId::PREDEFINED {
            return fail(ErrorClass::Op, "an operation of the program: only predefined ones are for windows");
        }
        let to = self.elements(&at)?;
        // Nothing is combined with nothing, whatever the operation; and nobody's memory has no datatype.
        if at.peer == Peer::Null || to.bytes() == 0 {
            return self.visit(|windows, _| way(windows, win, at.peer, at.disp, &to).map(drop));
        }
        let Some((meaning, scalar)) = to.ty.predefined_element() else {
            let name = self.type_name(at.ty)?;
            return fail(
                ErrorClass::Type,
                format!("datatype '{name}': its elements are not all of one predefined datatype"),
            );
        };
        let how = Combination { op, meaning, scalar };
        let Some(how) = Combining::of(how) else {
            let words = format!("{} is not defined on {}", op_name(op), self.type_name(at.ty)?);
            return fail(ErrorClass::Op, words);
        };
        let from = match from.filter(|_| op != OpId::NO_OP) {
            Some(from) => Some(self.checked(from)?),
            None => None,
        };
        let into = into.map(|into| self.checked(into)).transpose()?;
        for ty in from.iter().map(|from| &from.ty).chain(into.iter().map(|into| &into.ty)) {
            if ty.predefined_element().map(|(_, scalar)| scalar) != Some(scalar) {
                return fail(ErrorClass::Type, "origin and target have elements of different datatypes");
            }
        }
        if let Some(from) = &from {
            same_bytes(from.bytes()?, to.bytes())?;
        }
        if let Some(into) = &into {
            same_bytes(into.bytes()?, to.bytes())?;
        }
        self.visit(move |windows, endpoint| {
            let Some(way) = way(windows, win, at.peer, at.disp, &to)? else { return Ok(()) };
            if let (Reach::Mapped(base), Some(line)) = (way.reach, way.line) {
                let lock = windows.get(win)?.update_word(line);
                apply(&how, from.as_ref(), into.as_ref(), &to, base, way.at, lock);
                return Ok(());
            }
            let op = Op { what: What::Update { from, into, how }, at: way.at, to, waits };
            windows.add(endpoint, win, way.rank, op)
        })
    }

    /// Works on windows, and then deals with what came for them meanwhile.
    pub(super) fn visit<R>(
        &mut self,
        work: impl FnOnce(&mut Windows, &mut Endpoint) -> Result<R>,
    ) -> Result<R> {
        let result = work(&mut self.hall.windows.borrow_mut(), &mut self.endpoint);
        if self.hall.has_news() {
            self.hall.clone().serve(&mut self.endpoint);
        }
        result
    }

    fn elements(&self, at: &Remote) -> Result<Elements> {
        let (count, ty) = (element_count(at.count)?, self.committed(at.ty)?.clone());
        ty.bytes(count)?;
        Ok(Elements { ty, count })
    }
}

impl Windows {
    /// Has the kernel copy to or from a process's memory: rows with so many bytes in all. `false`: it cannot, or does not
    /// let this process; then that one is asked from now on.
    fn through_kernel(
        &mut self,
        win: WinId,
        way: &Way,
        elements: &Elements,
        copy: impl FnOnce(
            Process,
            NonZeroU32,
            &mut dyn Iterator<Item = Row>,
            usize,
        ) -> std::result::Result<(), NetError>,
    ) -> Result<bool> {
        let Reach::Process { id, at } = way.reach else { return Ok(false) };
        let window = self.get_mut(win)?;
        let (process, bytes) = (window.process(way.rank), elements.bytes());
        let (start, shape) = elements.shape(way.at, 0..bytes as u64);
        let start = at.wrapping_add(start as u64);
        let copied = match shape {
            Shape::Row(_) => copy(process, id, &mut std::iter::once((start, bytes)), bytes).is_ok(),
            Shape::Blocks(grids) => {
                let count: u64 = grids.iter().map(|grid| grid.count * grid.rows).sum();
                if count > ROWS_MAX && (bytes as u64) < count * ROW_BYTES_WORTH {
                    return Ok(false);
                }
                let rows = |grid: Grid| {
                    grid.places().map(move |place| (start.wrapping_add(place as u64), grid.len as usize))
                };
                copy(process, id, &mut grids.into_iter().flat_map(rows), bytes).is_ok()
            }
        };
        if !copied {
            window.targets[way.rank as usize].reach = Reach::Far;
        }
        Ok(copied)
    }
}

/// Where an operation goes; `None`: nowhere.
fn way(windows: &Windows, win: WinId, peer: Peer, disp: i64, to: &Elements) -> Result<Option<Way>> {
    let window = windows.get(win)?;
    let rank = match peer {
        Peer::Null => return Ok(None),
        Peer::Rank(rank) => rank,
        Peer::Any | Peer::Root => -1,
    };
    let (rank, target) = window.target(rank)?;
    let is_empty = to.bytes() == 0;
    let (reach, at) = if window.flavor == WinFlavor::Dynamic {
        dynamic(window, rank, target, disp, to, is_empty)?
    } else {
        (target.reach, inside(target, rank, disp, to, is_empty)?)
    };
    Ok((!is_empty).then_some(Way { rank, reach, line: target.line, at }))
}

/// The distance in bytes from the beginning of a target's memory, checked.
fn inside(target: &Target, rank: u32, disp: i64, to: &Elements, is_empty: bool) -> Result<i64> {
    let outside = || {
        fail_with(ErrorClass::RmaRange, || {
            format!(
                "displacement {disp} with {} elements of datatype extent {}: rank {rank} has {} bytes, displacement unit {}",
                to.count, to.ty.extent, target.bytes, target.unit
            )
        })
    };
    let Some(at) = disp.checked_mul(target.unit) else { return outside() };
    if is_empty {
        return Ok(0);
    }
    match reach_of(to, at) {
        Some((low, high)) if low >= 0 && high as u64 <= target.bytes => Ok(at),
        _ => outside(),
    }
}

/// The first byte and the one behind the last.
fn reach_of(to: &Elements, at: i64) -> Option<(i64, i64)> {
    let last = i64::try_from(to.count.checked_sub(1)?).ok()?.checked_mul(to.ty.extent)?;
    let low = at.checked_add(to.ty.true_lb)?.checked_add(last.min(0))?;
    let high = at.checked_add(to.ty.true_ub)?.checked_add(last.max(0))?;
    Some((low, high))
}

/// Where memory of a dynamic window is, whose displacements are addresses. Only the process itself knows all that it has.
fn dynamic(
    window: &super::window::Window,
    rank: u32,
    target: &Target,
    disp: i64,
    to: &Elements,
    is_empty: bool,
) -> Result<(Reach, i64)> {
    let span = reach_of(to, disp);
    if rank != window.rank() || is_empty {
        let known = match (span, target.line) {
            (Some((low, high)), Some(line)) => window.is_published(line, (low as u64, high as u64)),
            _ => false,
        };
        return Ok((if known { target.reach } else { Reach::Far }, disp));
    }
    let own = span.and_then(|(low, high)| window.own(disp, (low - disp, high - disp)));
    match own {
        Some(base) => Ok((Reach::Mapped(base), 0)),
        None => {
            fail_with(ErrorClass::RmaRange, || format!("address 0x{disp:x} is not attached to the window"))
        }
    }
}

/// Where nothing is fetched there must be something to combine.
fn no_op_fetches(op: OpId) -> Result<()> {
    if op == OpId::NO_OP {
        return fail(ErrorClass::Op, "MPI_NO_OP is for operations that fetch");
    }
    Ok(())
}

fn same_bytes(here: usize, there: usize) -> Result<()> {
    if here == there {
        return Ok(());
    }
    fail_with(ErrorClass::Truncate, || format!("{here} bytes at the origin, and {there} at the target"))
}

/// Copies elements to others of another layout.
fn transfer(from: &Checked<SendBuf>, to: &Elements, base: RecvBuf) {
    match (from.flat(), to.flat()) {
        (_, Some((offset, bytes))) => from.ty.pack(from.buf, from.count, base.range(offset, bytes)),
        (Some((start, bytes)), None) => to.ty.unpack(from.buf.range(start, bytes), base, to.count),
        (None, None) => {
            let bytes = to.bytes();
            let mut packed = Scratch::with(bytes);
            from.ty.pack(from.buf, from.count, packed.part(bytes));
            to.ty.unpack(packed.part(bytes).as_source(), base, to.count);
        }
    }
}

/// As [`transfer`], the other way.
fn fetch(from: &Elements, base: RecvBuf, into: &Checked<RecvBuf>) {
    match (from.flat(), into.flat()) {
        (_, Some((start, bytes))) => from.ty.pack(base.as_source(), from.count, into.buf.range(start, bytes)),
        (Some((offset, bytes)), None) => {
            into.ty.unpack(base.range(offset, bytes).as_source(), into.buf, into.count);
        }
        (None, None) => {
            let bytes = from.bytes();
            let mut packed = Scratch::with(bytes);
            from.ty.pack(base.as_source(), from.count, packed.part(bytes));
            into.ty.unpack(packed.part(bytes).as_source(), into.buf, into.count);
        }
    }
}

/// Combines elements with those in memory that is mapped here.
pub(super) fn apply(
    how: &Combining,
    from: Option<&Checked<SendBuf>>,
    into: Option<&Checked<RecvBuf>>,
    to: &Elements,
    base: RecvBuf,
    at: i64,
    lock: &std::sync::atomic::AtomicU64,
) {
    let bytes = to.bytes();
    let (mut given, mut taken) = (Scratch::default(), Scratch::default());
    let source = match from {
        None => UserBuf::EMPTY,
        Some(from) => match from.flat() {
            Some((start, bytes)) => from.buf.range(start, bytes),
            None => {
                given.reserve(bytes);
                from.ty.pack(from.buf, from.count, given.part(bytes));
                given.part(bytes).as_source()
            }
        },
    };
    let before = into.map(|into| match into.flat() {
        Some((start, bytes)) => into.buf.range(start, bytes),
        None => {
            taken.reserve(bytes);
            taken.part(bytes)
        }
    });
    let step = how.how.whole(HELD_BYTES);
    for start in (0..bytes).step_by(step) {
        let part = step.min(bytes - start);
        let (at, shape) = to.shape(at, start as u64..(start + part) as u64);
        let source = if from.is_some() { source.part(start, part) } else { source };
        let before = before.map(|before| before.part(start, part));
        how.update(base.shifted(at as isize), &shape, source, before, lock);
    }
    if let Some(into) = into.filter(|into| into.flat().is_none()) {
        into.ty.unpack(taken.part(bytes).as_source(), into.buf, into.count);
    }
}

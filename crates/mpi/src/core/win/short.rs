//! The short way of the commonest operations: elements in a row, in memory that is mapped here, in an epoch that allows it.
//! As in [`crate::core::short`], nothing here makes an error: what is not for it, mistakes among it, is left to the long
//! way, and nothing has been done then.
use super::memory::{Combination, Combining, is_integer};
use super::window::{Access, Reach, State, Target, Window};
use super::{Remote, WinFlavor, WinId};
use crate::buffer::atomic::{self, Change};
use crate::buffer::{RecvBuf, SendBuf};
use crate::core::layout::is_somewhere;
use crate::core::predefined::{Meaning, Scalar};
use crate::core::{Mpi, OpId, Peer, RecvData, SendData, TypeId};
use net::UserBufMut;
use proto::rma::lock::{Attempt, Want, give_back};

impl Mpi {
    /// As [`Mpi::win_put`].
    #[inline(always)]
    pub fn put_short(&self, win: WinId, from: SendData, to: Remote) -> bool {
        let windows = self.hall.windows.borrow();
        let Some(window) = windows.list.get(win.0) else { return false };
        let Some((start, bytes)) = self.row(from).filter(|(start, _)| is_somewhere(from.buf, *start)) else {
            return false;
        };
        let Some(target) = self.in_row(window, (from.count, from.ty, start, bytes), to) else { return false };
        target.copy_from(&from.buf.range(start, bytes));
        true
    }

    /// As [`Mpi::win_get`].
    #[inline(always)]
    pub fn get_short(&self, win: WinId, into: RecvData, from: Remote) -> bool {
        let windows = self.hall.windows.borrow();
        let Some(window) = windows.list.get(win.0) else { return false };
        let Some((start, bytes)) = self.row(into).filter(|(start, _)| is_somewhere(into.buf, *start)) else {
            return false;
        };
        let Some(source) = self.in_row(window, (into.count, into.ty, start, bytes), from) else {
            return false;
        };
        into.buf.range(start, bytes).copy_from(&source.as_source());
        true
    }

    /// As [`Mpi::win_accumulate`].
    #[inline(always)]
    pub fn accumulate_short(&self, win: WinId, from: SendData, to: Remote, op: OpId) -> bool {
        let windows = self.hall.windows.borrow();
        let Some(window) = windows.list.get(win.0) else { return false };
        let Some((start, bytes)) = self.row(from).filter(|_| from.ty == to.ty && op != OpId::NO_OP) else {
            return false;
        };
        let Some(target) = self.in_row(window, (from.count, from.ty, start, bytes), to) else { return false };
        let (Some(entry), Peer::Rank(rank)) = (self.types.get(to.ty.0), to.peer) else { return false };
        let Some((meaning, scalar)) = entry.ty.scalar else { return false };
        let how = Combining::of(Combination { op, meaning, scalar });
        let (Some(how), Some(line)) = (how, window.targets[rank as usize].line) else { return false };
        how.combine(from.buf.range(start, bytes), target, None, window.update_word(line));
        true
    }

    /// As [`Mpi::win_fetch_and_op`].
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn fetch_short(
        &self,
        win: WinId,
        from: SendBuf,
        into: RecvBuf,
        ty: TypeId,
        rank: i32,
        disp: i64,
        op: OpId,
    ) -> bool {
        let windows = self.hall.windows.borrow();
        let Some(window) = windows.list.get(win.0) else { return false };
        let Some((target, width)) = self.one(window, ty, rank, disp) else { return false };
        let change = match op {
            OpId::SUM => Change::Add,
            OpId::REPLACE => Change::Store,
            OpId::NO_OP => Change::Load,
            _ => return false,
        };
        atomic::change(width, change, from.range(0, width), target, Some(into.range(0, width)));
        true
    }

    /// As [`Mpi::win_compare_and_swap`].
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub fn swap_short(
        &self,
        win: WinId,
        from: SendBuf,
        compare: SendBuf,
        into: RecvBuf,
        ty: TypeId,
        rank: i32,
        disp: i64,
    ) -> bool {
        let windows = self.hall.windows.borrow();
        let Some(window) = windows.list.get(win.0) else { return false };
        let Some((target, width)) = self.one(window, ty, rank, disp) else { return false };
        atomic::swap_if(width, compare.range(0, width), from.range(0, width), target, into.range(0, width));
        true
    }

    /// As [`Mpi::win_flush`], which has ended.
    #[inline(always)]
    pub fn flush_short(&self, win: WinId, rank: i32) -> bool {
        let mut windows = self.hall.windows.borrow_mut();
        let Some(window) = windows.list.get_mut(win.0) else { return false };
        let Some(target) = window.targets.get(rank as usize) else { return false };
        window.is_locked(target) && window.far.is_empty() && window.error.is_none() && !window.looks_around()
    }

    /// As [`Mpi::win_lock`], which has ended.
    #[inline(always)]
    pub fn lock_short(&self, win: WinId, rank: i32, exclusive: bool) -> bool {
        let windows = &mut *self.hall.windows.borrow_mut();
        let Some(window) = windows.list.get(win.0) else { return false };
        let Some(target) = window.targets.get(rank as usize) else { return false };
        let (Some(line), State::Nothing) = (target.line, target.state) else { return false };
        let is_first = matches!(window.access, Access::Nothing | Access::Fence);
        // (Who has locks already has to have those first that it has asked for elsewhere.)
        if !is_first || window.error.is_some() || !windows.none_before() {
            return false;
        }
        let want = match (exclusive, windows.locked) {
            (true, _) => Want::Alone,
            (false, 0) => Want::Shared,
            (false, _) => Want::SharedNow,
        };
        let Some(window) = windows.list.get_mut(win.0) else { return false };
        if !Attempt::new(want).take_free(window.lock_word(line)) {
            return false;
        }
        windows.locked += 1;
        window.access = Access::Locked(1);
        window.targets[rank as usize].state = if exclusive { State::Alone } else { State::Shared };
        true
    }

    /// As [`Mpi::win_unlock`], which has ended.
    #[inline(always)]
    pub fn unlock_short(&self, win: WinId, rank: i32) -> bool {
        let windows = &mut *self.hall.windows.borrow_mut();
        let Some(window) = windows.list.get_mut(win.0) else { return false };
        let Some(target) = window.targets.get(rank as usize) else { return false };
        let alone = match target.state {
            State::Alone => true,
            State::Shared => false,
            State::Nothing | State::Waiting | State::Started | State::Unchecked => return false,
        };
        let (Some(line), Access::Locked(1)) = (target.line, &window.access) else { return false };
        // (Looks around if there are others who are told that the lock is free.)
        if !window.far.is_empty() || window.error.is_some() || window.looks_around() {
            return false;
        }
        give_back(window.lock_word(line), alone);
        windows.locked -= 1;
        window.access = Access::Nothing;
        window.targets[rank as usize].state = State::Nothing;
        true
    }

    /// The bytes of a target that fit a row of this process's own: its elements, where they start and how many bytes they are.
    #[inline(always)]
    fn in_row(
        &self,
        window: &Window,
        (count, ty, start, bytes): (i64, TypeId, isize, usize),
        to: Remote,
    ) -> Option<UserBufMut> {
        let Peer::Rank(rank) = to.peer else { return None };
        let (target, base) = near(window, rank)?;
        let offset = if (to.count, to.ty) == (count, ty) {
            start
        } else {
            let data = crate::core::Data::new((), to.count, to.ty);
            self.row(data).filter(|(_, theirs)| *theirs == bytes)?.0
        };
        inside(target, base, to.disp, offset, bytes)
    }

    /// One element of a target that one instruction changes, and how many bytes it has.
    #[inline(always)]
    fn one(&self, window: &Window, ty: TypeId, rank: i32, disp: i64) -> Option<(UserBufMut, usize)> {
        let (target, base) = near(window, rank)?;
        let (meaning, scalar) = self.types.get(ty.0)?.ty.scalar?;
        let width = match scalar {
            Scalar::I32 | Scalar::U32 => 4,
            Scalar::I64 | Scalar::U64 => 8,
            _ => return None,
        };
        debug_assert!(is_integer(scalar));
        let element = inside(target, base, disp, 0, width)?;
        (meaning == Meaning::Integer && atomic::fits(width, element)).then_some((element, width))
    }
}

/// A target that may be accessed now, whose memory is mapped here.
#[inline(always)]
pub(super) fn near(window: &Window, rank: i32) -> Option<(&Target, RecvBuf)> {
    let target = window.targets.get(rank as usize)?;
    match target.reach {
        Reach::Mapped(base) if window.is_open(target) && window.flavor != WinFlavor::Dynamic => {
            Some((target, base))
        }
        _ => None,
    }
}

/// Bytes of a target, if it has them.
#[inline(always)]
fn inside(target: &Target, base: RecvBuf, disp: i64, offset: isize, bytes: usize) -> Option<UserBufMut> {
    let at = disp.checked_mul(target.unit)?.checked_add(offset as i64)?;
    let fits = at >= 0 && (at as u64).checked_add(bytes as u64)? <= target.bytes;
    fits.then(|| base.range(at as isize, bytes))
}

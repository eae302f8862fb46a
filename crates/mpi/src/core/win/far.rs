//! Operations on targets that are sent messages: what is held, in which order it leaves, and what is still to come.
//!
//! `proto::rma` decides about order and company. Here the steps that it gives become messages, or copies into memory that the
//! target has lent; and the word of a synchronization travels with the last of them.
mod answers;

use super::WinId;
use super::memory::Combining;
use super::route::{Address, To, post};
use super::window::Windows;
use super::writing::Part;
use crate::buffer::{RecvBuf, SendBuf};
use crate::core::data::Checked;
use crate::core::layout::Datatype;
use crate::core::slots::Slots;
use crate::error::{MpiError, Result};
use net::{Endpoint, NetError, Place, ReqId};
use proto::rma::flow::{Due, Flow};
use proto::rma::lock::Want;
use proto::rma::wire::{Kind, Shape, Writer};
use proto::rma::{Direction, Epoch, Operation, Policy, Step};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use answers::Confirms;
pub(super) use answers::{Answer, Awaited};

/// What is under way to one target.
pub(super) struct Far {
    epoch: Epoch,
    pub(super) ops: Slots<Op>,
    /// What leaves next: the rest of an operation that is long, and then these.
    pub(super) part: Option<Part>,
    pub(super) steps: VecDeque<Step>,
    pub(super) lock: Lock,
    place: Known,
    /// How much is under way. What is sent behind a lock that was asked for is done behind it.
    pub(super) flow: Flow,
    /// Answers that have not come.
    outstanding: usize,
    direct: Vec<(ReqId, Op)>,
    /// Something was sent of which it is not known whether it is done.
    pub(super) unconfirmed: bool,
    /// An access that was completed has sent something that the target may have refused, which nobody has waited to hear.
    unheard: bool,
    /// What follows when all of it has left.
    last: Option<Last>,
    /// The word that ends an epoch has left behind copies that are under way: nothing can be sent instead of them any more.
    ended: bool,
}

/// The lock of a target that is asked for by message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// Not needed.
    Nothing,
    /// To be asked for with the next message.
    Wanted(Want),
    /// Asked for: what follows on the same way waits for it.
    Asked,
    /// Asked for, and word is to come when it is there.
    Awaited,
    Had,
}

/// Where the memory of the target is, for copies without its help.
#[derive(Clone, Copy, Debug)]
enum Known {
    Unasked,
    Asked,
    At(Place),
    /// There are none.
    Nowhere,
}

/// A word of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Flush,
    Unlock,
    Complete,
}

/// An operation.
pub(super) struct Op {
    pub(super) what: What,
    /// Where in the target's memory: from its beginning, or an address.
    pub(super) at: i64,
    pub(super) to: Elements,
    /// Who waits for it.
    pub(super) waits: Option<Rc<Fate>>,
}

/// How an operation with a request has ended, if it has.
#[derive(Default)]
pub(in crate::core) struct Fate(RefCell<Option<Result<()>>>);

impl Fate {
    pub(super) fn set(&self, ended: Result<()>) {
        self.0.replace(Some(ended));
    }

    pub(in crate::core) fn is_known(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Has it ended well? An error is told once.
    pub(in crate::core) fn take(&self) -> Result<bool> {
        self.0
            .replace_with(|ended| ended.is_some().then_some(Ok(())))
            .transpose()
            .map(|ended| ended.is_some())
    }
}

/// What is done.
pub(super) enum What {
    Put(Checked<SendBuf>),
    Get(Checked<RecvBuf>),
    /// `from` is not there where nothing is combined.
    Update {
        from: Option<Checked<SendBuf>>,
        into: Option<Checked<RecvBuf>>,
        how: Combining,
    },
    Swap {
        expected: SendBuf,
        new: SendBuf,
        into: RecvBuf,
        how: Combining,
    },
}

/// Elements at a target.
pub(super) struct Elements {
    pub(super) ty: Rc<Datatype>,
    pub(super) count: usize,
}

impl Elements {
    /// Bytes that travel.
    pub(super) fn bytes(&self) -> usize {
        self.ty.size * self.count
    }

    /// Distance and length, if they are bytes in a row.
    pub(super) fn flat(&self) -> Option<(isize, usize)> {
        self.ty.flat(self.count)
    }

    /// Where a range of the bytes is, from a distance on.
    pub(super) fn shape(&self, at: i64, range: Range<u64>) -> (i64, Shape) {
        match self.flat() {
            Some((offset, _)) => {
                (at + offset as i64 + range.start as i64, Shape::Row(range.end - range.start))
            }
            None => (at, Shape::Blocks(self.ty.blocks(self.count, range))),
        }
    }
}

impl Op {
    /// As the schedule sees it.
    fn operation(&self, number: u32, can_go_direct: bool) -> Operation {
        let bytes = self.to.bytes();
        let (direction, out, back) = match &self.what {
            What::Put(_) => (Direction::Put, bytes, 0),
            What::Get(_) => (Direction::Get, 0, bytes),
            What::Update { from, into, .. } => {
                let length = |there: bool| if there { bytes } else { 0 };
                (Direction::Update, length(from.is_some()), length(into.is_some()))
            }
            What::Swap { .. } => (Direction::Update, 2 * bytes, bytes),
        };
        let here = match &self.what {
            What::Put(from) => from.flat().is_some(),
            What::Get(into) => into.flat().is_some(),
            _ => false,
        };
        Operation { number, direction, out, back, direct: can_go_direct && here && self.to.flat().is_some() }
    }
}

/// The way to a target, and where what is sent and awaited is kept.
pub(super) struct Way<'a> {
    endpoint: &'a mut Endpoint,
    answers: &'a mut Slots<Answer>,
    sending: &'a mut Vec<(ReqId, Vec<u8>)>,
    to: To,
    win: WinId,
    rank: u32,
    /// Whose operations they are.
    own: u32,
    /// Where messages go that end an access, and others.
    complete: Address,
    work: Address,
}

impl Way<'_> {
    fn send(&mut self, at: Address, message: Writer) -> Result<()> {
        if let Some(id) = post(self.endpoint, self.to, at, &message.0)? {
            self.sending.push((id, message.0));
        }
        Ok(())
    }

    /// Sends the last message of an access. A server passes the word on when it has done what is before it.
    fn complete(&mut self, mut message: Writer) -> Result<()> {
        match self.to {
            To::Rank(_) => self.send(self.complete, message),
            To::Server { .. } => {
                message.tell(Kind::Complete, self.own);
                self.send(self.work, message)
            }
        }
    }

    fn await_answer(&mut self, what: Awaited, due: Due) -> u32 {
        self.answers.insert(Answer { win: self.win, rank: self.rank, what, due })
    }
}

impl Far {
    pub(super) fn new(policy: Policy, lock: Lock, can_go_direct: bool) -> Self {
        Far {
            epoch: Epoch::new(policy),
            ops: Slots::new(),
            part: None,
            steps: VecDeque::new(),
            lock,
            flow: Flow::default(),
            place: if can_go_direct { Known::Unasked } else { Known::Nowhere },
            outstanding: 0,
            direct: Vec::new(),
            unconfirmed: false,
            unheard: false,
            last: None,
            ended: false,
        }
    }

    /// Has everything left, and is it done?
    fn is_quiet(&self) -> bool {
        self.is_quiet_outside() && self.epoch.is_empty()
    }

    /// Is everything done but what has never left?
    fn is_quiet_but_held(&self) -> bool {
        self.is_quiet_outside() && !self.epoch.is_empty()
    }

    fn is_quiet_outside(&self) -> bool {
        self.has_written_all()
            && self.outstanding == 0
            && self.direct.is_empty()
            && !self.unconfirmed
            && self.last.is_none()
    }

    /// Has it nothing that a target would have to be told of?
    pub(super) fn is_untouched(&self) -> bool {
        self.is_quiet() && !matches!(self.lock, Lock::Asked | Lock::Awaited | Lock::Had)
    }

    /// Has this process the lock, as far as it knows?
    pub(super) fn has_lock(&self) -> bool {
        matches!(self.lock, Lock::Asked | Lock::Awaited | Lock::Had) && !self.awaits_lock()
    }

    /// Was it asked for, without any word since?
    pub(super) fn awaits_lock(&self) -> bool {
        self.flow.awaits_lock()
    }

    /// Is it wanted, or asked for, and not had as far as is known?
    pub(super) fn lacks_lock(&self) -> bool {
        match self.lock {
            Lock::Nothing | Lock::Had => false,
            Lock::Wanted(_) => true,
            Lock::Asked | Lock::Awaited => self.awaits_lock(),
        }
    }

    /// The lock is not wanted any more, if it has not been asked for.
    pub(super) fn forget_lock(&mut self) {
        if matches!(self.lock, Lock::Wanted(_)) {
            self.lock = Lock::Nothing;
        }
    }

    /// A message, with the lock in front if it has not been asked for.
    fn message(&mut self) -> Writer {
        let mut message = Writer::default();
        if let Lock::Wanted(want) = self.lock {
            message.lock(want);
            self.lock = Lock::Asked;
            self.flow.asks_for_lock();
        }
        message
    }

    /// Sends what can be sent.
    fn pump(&mut self, way: &mut Way<'_>) -> Result<()> {
        while !self.has_written_all() {
            if let (None, Some(Step::Direct(number))) = (&self.part, self.steps.front()) {
                let number = *number;
                if !self.may_go_direct(way)? {
                    return Ok(());
                }
                self.steps.pop_front();
                match (self.place, self.ops.remove(number)) {
                    (_, None) => {}
                    (Known::At(place), Some(op)) => self.copy(op, place, way)?,
                    (_, Some(op)) => self.send_instead(op),
                }
                continue;
            }
            if !self.has_room(way)? {
                return Ok(());
            }
            let mut message = self.message();
            self.fill(&mut message, way);
            // Its last word goes with it.
            if self.has_written_all() && self.may_end() {
                return self.finish(message, way);
            }
            self.send(message, way)?;
        }
        if self.may_end() {
            let message = self.message();
            self.finish(message, way)?;
        }
        Ok(())
    }

    /// Is nothing left that was to leave, but the last word?
    fn has_written_all(&self) -> bool {
        self.part.is_none() && self.steps.is_empty()
    }

    /// May another message leave now? An answer that comes has this asked again.
    fn has_room(&mut self, way: &mut Way<'_>) -> Result<bool> {
        if self.flow.is_short_of_lock() {
            self.ask_for_lock(way)?;
        }
        Ok(self.flow.has_room())
    }

    /// Sends a message, if there is anything in it.
    fn send(&mut self, mut message: Writer, way: &mut Way<'_>) -> Result<()> {
        if message.is_empty() {
            return Ok(());
        }
        self.asks_behind_many(&mut message, way);
        self.flow.sends(message.0.len());
        way.send(way.work, message)
    }

    /// Asks behind what is in a message whether it is done, if it is the last of many bytes of which nobody asked that.
    fn asks_behind_many(&mut self, message: &mut Writer, way: &mut Way<'_>) {
        if self.flow.wants_answer(message.0.len()) {
            let id = self.await_answer(Awaited::Done(Confirms::Work), message, way);
            message.flush(id);
        }
    }

    /// The number of an answer to what is asked next in a message.
    pub(super) fn await_answer(&mut self, what: Awaited, message: &Writer, way: &mut Way<'_>) -> u32 {
        self.outstanding += 1;
        let brings = if let Awaited::Data { bytes, .. } = &what { *bytes } else { 0 };
        let due = self.flow.asks(message.0.len(), brings);
        way.await_answer(what, due)
    }

    /// May the last word leave, if there is one? What lets others change the memory has to wait for copies from there: no
    /// network promises that a message behind a read is not taken before all of it has been read.
    fn may_end(&self) -> bool {
        let reads = || self.direct.iter().any(|(_, op)| matches!(op.what, What::Get(_)));
        match self.last {
            None => false,
            Some(Last::Flush) => true,
            Some(Last::Unlock | Last::Complete) => !reads(),
        }
    }

    /// Is it known whether and where the target's memory can be reached, and does this process have the lock?
    fn may_go_direct(&mut self, way: &mut Way<'_>) -> Result<bool> {
        let asks_place = matches!(self.place, Known::Unasked);
        let asks_lock = matches!(self.lock, Lock::Wanted(_) | Lock::Asked);
        if asks_place || asks_lock {
            let mut message = self.message();
            if asks_place {
                let id = self.await_answer(Awaited::Place, &message, way);
                message.ask(id);
                self.place = Known::Asked;
            }
            if asks_lock {
                let id = self.await_answer(Awaited::Done(Confirms::Lock), &message, way);
                message.flush(id);
                self.lock = Lock::Awaited;
            }
            self.send(message, way)?;
        }
        Ok(!matches!(self.place, Known::Asked) && self.lock != Lock::Awaited)
    }

    /// Asks for the lock, if that is not done, and for word when it is there.
    fn ask_for_lock(&mut self, way: &mut Way<'_>) -> Result<()> {
        if !matches!(self.lock, Lock::Wanted(_) | Lock::Asked) {
            return Ok(());
        }
        let mut message = self.message();
        let id = self.await_answer(Awaited::Done(Confirms::Lock), &message, way);
        message.flush(id);
        self.lock = Lock::Awaited;
        self.send(message, way)
    }

    /// Everything has left but the last word.
    fn finish(&mut self, mut message: Writer, way: &mut Way<'_>) -> Result<()> {
        match self.last.take() {
            None => {}
            Some(Last::Flush) if !self.unconfirmed => {}
            Some(Last::Complete) => {
                self.ended = !self.direct.is_empty();
                self.asks_behind_many(&mut message, way);
                // What comes behind this word on its way is done behind it.
                self.unheard |= self.unconfirmed;
                self.unconfirmed = false;
                self.flow.sends(message.0.len());
                return way.complete(message);
            }
            Some(Last::Flush) => {
                let id = self.await_answer(Awaited::Done(Confirms::Work), &message, way);
                message.flush(id);
                (self.unconfirmed, self.unheard) = (false, false);
            }
            Some(Last::Unlock) => {
                self.ended = !self.direct.is_empty();
                let id = self.await_answer(Awaited::Done(Confirms::Work), &message, way);
                message.unlock(id);
                (self.unconfirmed, self.unheard) = (false, false);
                self.lock = Lock::Nothing;
            }
        }
        self.send(message, way)
    }

    /// Copies to or from memory that the target has lent.
    fn copy(&mut self, op: Op, place: Place, way: &mut Way<'_>) -> Result<()> {
        let (offset, _) = op.to.flat().expect("the schedule was told so");
        let at = place.plus(op.at.wrapping_add(offset as i64) as u64);
        let posted = match &op.what {
            What::Put(from) => {
                let (start, bytes) = from.flat().expect("the schedule was told so");
                way.endpoint.write_remote(way.to, from.buf.range(start, bytes), at)
            }
            What::Get(into) => {
                let (start, bytes) = into.flat().expect("the schedule was told so");
                way.endpoint.read_remote(way.to, into.buf.range(start, bytes), at)
            }
            What::Update { .. } | What::Swap { .. } => unreachable!("these are not direct"),
        };
        match posted {
            Ok(Some(id)) => self.direct.push((id, op)),
            Ok(None) => op.ended(),
            Err(NetError::OutOfReach { .. }) => self.send_instead(op),
            Err(error) => {
                self.ops.insert(op); // who waits for it is told with all that is left
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// A copy is not possible: it is done by a message, as all that follow.
    fn send_instead(&mut self, op: Op) {
        self.place = Known::Nowhere;
        let number = self.ops.insert(op);
        self.steps.push_front(Step::Together(vec![number]));
    }

    /// Are copies under way, from the program's memory or into it?
    pub(super) fn copies(&self) -> bool {
        !self.direct.is_empty()
    }

    /// Nothing leaves for the target any more: who waits for it is told. Copies that are under way are left to end.
    fn give_up(&mut self, error: &dyn Fn() -> MpiError) {
        self.epoch.close(&mut Vec::new());
        self.steps.clear();
        let part = self.part.take().and_then(|part| part.fate());
        let held = std::mem::replace(&mut self.ops, Slots::new());
        let fates = held.iter().filter_map(|(_, op)| op.waits.as_ref());
        fates.chain(&part).for_each(|waits| waits.set(Err(error())));
        (self.unconfirmed, self.unheard, self.last) = (false, false, None);
        self.lock = Lock::Nothing;
        // No message goes there instead of a copy that fails.
        self.ended = !self.direct.is_empty();
    }

    /// Looks how copies have ended; gives the first error that nobody else waits for.
    fn reap(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let mut failed = Ok(());
        let mut at = 0;
        while at < self.direct.len() {
            let Some(ended) = endpoint.take(self.direct[at].0) else {
                at += 1;
                continue;
            };
            let (_, op) = self.direct.swap_remove(at);
            match ended {
                Ok(_) => op.ended(),
                Err(NetError::OutOfReach { .. }) if !self.ended => self.send_instead(op),
                Err(error) => {
                    let error = MpiError::from(error);
                    match op.waits {
                        Some(waits) => waits.set(Err(error)),
                        None => failed = failed.and(Err(error)),
                    }
                }
            }
        }
        self.ended &= !self.direct.is_empty();
        failed
    }

    /// Is there something that leaves or ends only when somebody looks?
    pub(super) fn wants_looks(&self) -> bool {
        !self.has_written_all() || !self.direct.is_empty()
    }
}

impl Op {
    fn ended(&self) {
        if let Some(waits) = &self.waits {
            waits.set(Ok(()));
        }
    }
}

impl Windows {
    /// Begins an operation on a target that is sent messages.
    pub(super) fn add(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32, op: Op) -> Result<()> {
        let window = self.get_mut(win)?;
        if let Some(loss) = window.loss_of(endpoint, rank) {
            return Err(loss.into());
        }
        let far = window.far_to(rank);
        let can_go_direct = !matches!(far.place, Known::Nowhere);
        let is_waited_for = op.waits.is_some();
        let number = far.ops.insert(op);
        let operation = far.ops.get(number).expect("just put there").operation(number, can_go_direct);
        let mut steps = Vec::new();
        far.epoch.add(operation, &mut steps);
        if is_waited_for {
            far.epoch.urge(number, &mut steps);
        }
        if steps.is_empty() {
            return Ok(());
        }
        far.steps.extend(steps);
        // What was begun before is not done either: the next synchronization says so as well.
        self.pump(endpoint, win, rank).inspect_err(|error| self.cannot_reach(win, rank, again(error)))
    }

    /// Has everything for a target leave, with a last word.
    pub(super) fn close(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32, last: Last) -> Result<()> {
        let Some(far) = self.get_mut(win)?.far.get_mut(&rank) else { return Ok(()) };
        let mut steps = Vec::new();
        far.epoch.close(&mut steps);
        far.steps.extend(steps);
        // A flush by another thread ends with the word that is on its way, and does not replace it.
        if !matches!(far.last, Some(Last::Unlock | Last::Complete)) {
            far.last = Some(last);
        }
        self.pump(endpoint, win, rank)
    }

    /// Asks those targets of a window for a last word of whom it is not known whether they have refused something. Gives their
    /// ranks. Where memory is is known to everybody but in dynamic windows, so that only there something can be refused.
    pub(super) fn hear_all(&mut self, endpoint: &mut Endpoint, win: WinId) -> Vec<u32> {
        let Ok(window) = self.get_mut(win) else { return Vec::new() };
        let is_dynamic = window.flavor == super::WinFlavor::Dynamic;
        let unheard = window.far.iter_mut().filter(|(_, far)| is_dynamic && far.unheard);
        let ranks: Vec<u32> = unheard
            .map(|(rank, far)| {
                far.unconfirmed = true;
                *rank
            })
            .collect();
        for rank in &ranks {
            self.close_or_note(endpoint, win, *rank, Last::Flush);
        }
        ranks
    }

    /// Is everything for a target done? Moves it on.
    pub(super) fn settled(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32) -> Result<bool> {
        let window = self.get_mut(win)?;
        let Some(far) = window.far.get_mut(&rank) else { return Ok(true) };
        if far.copies() {
            // Told when all has ended: others write into the program's memory still.
            let reaped = far.reap(endpoint);
            reaped.unwrap_or_else(|error| self.note_error(win, error));
        }
        let Some(far) = self.get_mut(win)?.far.get_mut(&rank) else { return Ok(true) };
        if far.is_quiet() {
            return Ok(true);
        }
        // What could not be copied goes by message after all, and has a word of its own.
        if far.unconfirmed && far.last.is_none() && far.direct.is_empty() {
            far.last = Some(Last::Flush);
        }
        // What another thread has begun meanwhile, and would be held, leaves as well.
        if far.is_quiet_but_held() {
            let mut steps = Vec::new();
            far.epoch.close(&mut steps);
            far.steps.extend(steps);
            far.last = Some(Last::Flush);
        }
        self.pump(endpoint, win, rank)?;
        Ok(self.get(win)?.far.get(&rank).is_none_or(Far::is_quiet))
    }

    /// Moves on what goes to targets and nobody synchronizes with. Is there more of it?
    pub(super) fn move_on(&mut self, endpoint: &mut Endpoint) -> bool {
        let under_way = |windows: &Windows| {
            let mut all = Vec::new();
            for (win, window) in windows.list.iter() {
                let ranks = window.far.iter().filter(|(_, far)| far.wants_looks());
                all.extend(ranks.map(|(rank, _)| (WinId(win), *rank)));
            }
            all
        };
        for (win, rank) in under_way(self) {
            let far = self.get_mut(win).ok().and_then(|window| window.far.get_mut(&rank));
            let reaped = far.map_or(Ok(()), |far| far.reap(endpoint));
            reaped.unwrap_or_else(|error| self.note_error(win, error));
            if let Err(error) = self.pump(endpoint, win, rank) {
                self.cannot_reach(win, rank, error);
            }
        }
        !under_way(self).is_empty()
    }

    /// Has this process the lock of a target that it asks for by message, or needs it no more? Asks for it, if not.
    pub(super) fn has_lock(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32) -> Result<bool> {
        let far = self.list.get(win.0).and_then(|window| window.far.get(&rank));
        if !far.is_some_and(Far::lacks_lock) {
            return Ok(true);
        }
        let asked = self.on_way(endpoint, win, rank, Far::ask_for_lock);
        asked.inspect_err(|error| self.cannot_reach(win, rank, again(error)))?;
        Ok(false)
    }

    fn pump(&mut self, endpoint: &mut Endpoint, win: WinId, rank: u32) -> Result<()> {
        self.on_way(endpoint, win, rank, Far::pump)
    }

    /// Does something for a target, with the way there.
    fn on_way(
        &mut self,
        endpoint: &mut Endpoint,
        win: WinId,
        rank: u32,
        work: impl FnOnce(&mut Far, &mut Way<'_>) -> Result<()>,
    ) -> Result<()> {
        self.reap(endpoint);
        let Windows { list, answers, sending, .. } = self;
        let Some(window) = list.get_mut(win.0) else { return Ok(()) };
        let (to, own) = (window.to(endpoint, rank), window.rank());
        let [complete, work_at] = [Kind::Complete, Kind::Work].map(|kind| to.address(window, rank, kind));
        let Some(far) = window.far.get_mut(&rank) else { return Ok(()) };
        work(far, &mut Way { endpoint, answers, sending, to, win, rank, own, complete, work: work_at })
    }
}

/// An error once more, for another who waits.
fn again(error: &MpiError) -> MpiError {
    MpiError::new(error.class, error.to_string())
}

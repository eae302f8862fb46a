//! What comes back from targets that are sent messages, and what becomes of it when nothing comes any more: a target that does not
//! understand what it was sent, that is lost, or that cannot be reached.
use super::{Fate, Known, Lock, again};
use crate::buffer::{RecvBuf, source_of};
use crate::core::data::Checked;
use crate::core::win::WinId;
use crate::core::win::window::Windows;
use crate::error::{ErrorClass, MpiError};
use net::{Endpoint, Place};
use proto::rma::flow::Due;
use proto::rma::wire::{NO_ANSWER, Reader, Reply};
use std::cell::Cell;
use std::rc::Rc;

/// What this process waits for from a target.
pub(in crate::core::win) struct Answer {
    pub(super) win: WinId,
    pub(super) rank: u32,
    pub(super) what: Awaited,
    pub(super) due: Due,
}

pub(in crate::core::win) enum Awaited {
    /// So many bytes from `start` on, of which `left` parts are still to come.
    Data {
        into: Checked<RecvBuf>,
        start: u64,
        bytes: u64,
        left: Rc<Cell<usize>>,
        waits: Option<Rc<Fate>>,
    },
    Done(Confirms),
    Place,
    /// It has been given up: what comes all the same changes nothing.
    Nothing,
}

/// What an answer confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core::win) enum Confirms {
    Work,
    Lock,
}

impl Windows {
    /// Answers have come.
    pub(in crate::core::win) fn take_answers(
        &mut self,
        endpoint: &mut Endpoint,
        from: (WinId, u32),
        bytes: &[u8],
    ) {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let left = reader.left() as u64;
            let reply = match reader.reply() {
                Some(Reply::Unread { bytes }) => {
                    let words = format!("rank {} could not read {bytes} bytes of what it was asked", from.1);
                    self.abandon(from, &words);
                    continue;
                }
                None => {
                    self.abandon(from, &format!("{left} bytes of rank {}'s answers make no sense", from.1));
                    break;
                }
                Some(reply) => reply,
            };
            let id = match reply {
                Reply::Data { id, .. } | Reply::Done { id } => id,
                Reply::Place { id, .. } | Reply::Outside { id } => id,
                Reply::Unread { .. } => NO_ANSWER,
            };
            let is_from = |answer: &Answer| (answer.win, answer.rank) == from;
            let answer = match self.answers.get(id) {
                Some(answer) if is_from(answer) => self.answers.remove(id),
                _ => None,
            };
            self.take_answer(from, answer, reply);
        }
        if let Err(error) = self.pump(endpoint, from.0, from.1) {
            self.cannot_reach(from.0, from.1, error);
        }
    }

    fn take_answer(&mut self, (win, rank): (WinId, u32), answer: Option<Answer>, reply: Reply<'_>) {
        if matches!(reply, Reply::Outside { .. }) {
            let words = format!("rank {rank} has no such memory in its window");
            self.note_error(win, MpiError::new(ErrorClass::RmaRange, words));
        }
        let Some(answer) = answer else { return };
        let Ok(window) = self.get_mut(win) else { return };
        let Some(far) = window.far.get_mut(&rank) else { return };
        if matches!(answer.what, Awaited::Nothing) {
            return;
        }
        far.outstanding = far.outstanding.saturating_sub(1);
        far.flow.comes(answer.due);
        match (answer.what, reply) {
            (Awaited::Data { into, start, left, waits, .. }, reply) => {
                if let Reply::Data { data, .. } = reply {
                    let from = source_of(data).range(0, data.len());
                    into.ty.unpack_range(from, into.buf, into.count, start);
                }
                left.set(left.get().saturating_sub(1));
                if let Some(waits) = waits.filter(|_| left.get() == 0) {
                    waits.set(Ok(()));
                }
            }
            (Awaited::Place, Reply::Place { words, .. }) => {
                far.place = words.and_then(Place::from_words).map_or(Known::Nowhere, Known::At);
            }
            (Awaited::Place, _) => far.place = Known::Nowhere,
            (Awaited::Done(Confirms::Lock), _) => far.lock = Lock::Had,
            (Awaited::Done(Confirms::Work), _) | (Awaited::Nothing, _) => {}
        }
    }

    /// What a target was asked and has not understood, or has answered in words that make no sense, is not answered any more:
    /// nobody waits for it.
    fn abandon(&mut self, from: (WinId, u32), words: &str) {
        let error = || MpiError::new(ErrorClass::Intern, words.to_owned());
        self.note_error(from.0, error());
        self.abandon_answers(from, &error);
    }

    /// The same where the target, or a process of its job, is lost. What it answers all the same changes nothing: the program has its
    /// memory back when it has heard of the loss.
    pub(in crate::core::win) fn abandon_lost(&mut self, endpoint: &Endpoint) {
        let mut lost = Vec::new();
        for (win, window) in self.list.iter() {
            let busy = window.far.iter().filter(|(_, far)| !far.is_quiet());
            let loss = |rank: &u32| Some((WinId(win), *rank, window.loss_of(endpoint, *rank)?));
            lost.extend(busy.filter_map(|(rank, _)| loss(rank)));
        }
        for (win, rank, loss) in lost {
            self.abandon_target((win, rank), &|| MpiError::from(loss.clone()));
        }
    }

    /// Nothing can be sent to a target.
    pub(in crate::core::win) fn cannot_reach(&mut self, win: WinId, rank: u32, error: MpiError) {
        let told = again(&error);
        self.note_error(win, error);
        self.abandon_target((win, rank), &|| again(&told));
    }

    /// Nothing is sent to a target any more, nor awaited from it.
    fn abandon_target(&mut self, (win, rank): (WinId, u32), error: &dyn Fn() -> MpiError) {
        self.note_error(win, error());
        self.abandon_answers((win, rank), error);
        if let Some(far) = self.get_mut(win).ok().and_then(|window| window.far.get_mut(&rank)) {
            far.give_up(error);
        }
    }

    /// Nobody waits for a target's answers any more.
    fn abandon_answers(&mut self, (win, rank): (WinId, u32), error: &dyn Fn() -> MpiError) {
        let of_it = self.answers.iter().filter(|(_, answer)| (answer.win, answer.rank) == (win, rank));
        for id in of_it.map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(answer) = self.answers.get_mut(id) else { continue };
            // Its number stays, lest a late answer be taken for another's.
            let what = std::mem::replace(&mut answer.what, Awaited::Nothing);
            if let Awaited::Data { waits: Some(waits), .. } = what {
                waits.set(Err(error()));
            }
        }
        let Some(far) = self.get_mut(win).ok().and_then(|window| window.far.get_mut(&rank)) else { return };
        far.outstanding = 0;
        far.flow.forget();
        if matches!(far.place, Known::Asked) {
            far.place = Known::Nowhere;
        }
        if far.lock == Lock::Awaited {
            far.lock = Lock::Asked;
        }
    }

    /// Something went wrong that nobody can be told of just now.
    pub(in crate::core::win) fn note_error(&mut self, win: WinId, error: MpiError) {
        if let Ok(window) = self.get_mut(win) {
            window.error.get_or_insert(error);
        }
    }
}

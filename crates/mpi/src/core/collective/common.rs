//! The steps of a collective through memory that all processes of a node map (`proto::coll::common`).
//!
//! As elsewhere, after a failure the steps go on, so that the others find it out.
use super::Collective;
use crate::buffer::RecvBuf;
use crate::error::{ErrorClass, MpiError};
use net::{COMMON_WORDS, Common, Endpoint};
use proto::coll::common::{BYTES, HALF_BYTES, PLACE_BYTES};
use proto::coll::token::Meant;
use proto::coll::{Memory, Shared, Slice, Space};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// The memory of a communicator's processes.
#[derive(Debug, Default)]
pub(in super::super) struct Segment {
    state: RefCell<State>,
    /// Operations that have used it.
    uses: Cell<usize>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Untried,
    /// Made here, for the others to map.
    Made(Common),
    /// Mapped here; whether all have is not known.
    Opened(Common),
    Mapped(Rc<Common>),
    /// Somebody could not.
    Refused,
}

impl Segment {
    pub(in super::super) const fn new() -> Self {
        Segment { state: RefCell::new(State::Untried), uses: Cell::new(0) }
    }

    /// What a schedule may count on. All processes that wait for their collectives get the same answer.
    pub(in super::super) fn memory(&self) -> Memory {
        match &*self.state.borrow() {
            State::Mapped(_) => Memory::OneNode(Shared::Mapped),
            State::Refused => Memory::OneHost,
            _ => Memory::OneNode(Shared::Untried),
        }
    }

    /// After an operation that has failed, of which some may have been through the memory and others not: all begin with the
    /// same half again.
    pub(super) fn restart(&self) {
        self.uses.set(0);
    }
}

/// The half of the memory that is an operation's.
#[derive(Debug)]
pub(super) struct Half {
    memory: Rc<Common>,
    at: usize,
}

impl Half {
    #[inline]
    pub(super) fn start(&self) -> RecvBuf {
        RecvBuf::in_common(&self.memory, self.at)
    }
}

impl Collective {
    /// Makes the memory and writes where it is; zeros, if it cannot be made.
    pub(super) fn provide(&mut self, into: usize) {
        let made =
            Common::create("banyan-collectives", BYTES).and_then(|common| Ok((common.words()?, common)));
        let (words, state) = match made {
            Ok((words, common)) => (words, State::Made(common)),
            Err(_) => ([0; COMMON_WORDS], State::Untried),
        };
        *self.roster.segment.state.borrow_mut() = state;
        let bytes = words.map(u64::to_le_bytes);
        self.target(place(into)).copy_from_slice(bytes.as_flattened());
    }

    /// Maps what another process has made, and writes whether it could.
    pub(super) fn map_common(&mut self, at: usize, into: usize) {
        let mut bytes = [[0; 8]; COMMON_WORDS];
        self.source(place(at)).copy_to(bytes.as_flattened_mut());
        let words = bytes.map(u64::from_le_bytes);
        let roster = self.roster.clone();
        let mut state = roster.segment.state.borrow_mut();
        let well = self.failed == ErrorClass::Success;
        if well
            && words[0] != 0
            && !matches!(&*state, State::Made(_))
            && let Ok(common) = Common::open(words, BYTES)
        {
            *state = State::Opened(common);
        }
        let could = well && matches!(&*state, State::Made(_) | State::Opened(_));
        drop(state);
        self.target(Slice { space: Space::Scratch, at: into, len: 1 }).copy_from_slice(&[could.into()]);
    }

    /// Have all mapped it?
    pub(super) fn agree(&mut self, endpoint: &mut Endpoint, at: usize, members: u32) -> bool {
        let mut all = self.failed == ErrorClass::Success;
        for member in 0..members as usize {
            let mut vote = [0];
            self.source(Slice { space: Space::Scratch, at: at + member, len: 1 }).copy_to(&mut vote);
            all &= vote == [1];
        }
        let mut state = self.roster.segment.state.borrow_mut();
        *state = match std::mem::take(&mut *state) {
            State::Made(mut common) | State::Opened(mut common) if all => {
                common.close();
                endpoint.note_common_bytes(BYTES as u64);
                State::Mapped(Rc::new(common))
            }
            _ => State::Refused,
        };
        drop(state);
        if !all {
            self.scratch.reserve(self.schedule.scratch_bytes_otherwise());
        }
        all
    }

    /// Takes the next half, and says what this operation is.
    pub(super) fn declare(&mut self, endpoint: &mut Endpoint, meant: Meant) {
        endpoint.note_common();
        let segment = &self.roster.segment;
        let State::Mapped(memory) = &*segment.state.borrow() else {
            unreachable!("schedules use memory that is mapped")
        };
        let uses = segment.uses.get().wrapping_add(1);
        segment.uses.set(uses);
        let at = uses % 2 * HALF_BYTES;
        // It is not the word of an earlier operation: all have the same number for this one. (Bit 0 stays set.)
        let word = meant.word() ^ u64::from(self.tag.cast_unsigned()) << 1;
        memory.word(at + self.roster.rank as usize * 8).store(word, Relaxed);
        self.half = Some(Half { memory: memory.clone(), at });
    }

    /// Have all meant the same? That they are there has been told by messages, behind what they have written.
    pub(super) fn compare(&mut self, members: u32) {
        if self.failed != ErrorClass::Success {
            return;
        }
        let Some(Half { memory, at }) = &self.half else { return };
        let word = |member: u32| memory.word(at + member as usize * 8).load(Relaxed);
        let mine = word(self.roster.rank);
        if let Some(other) = (0..members).find(|member| word(*member) != mine) {
            let words =
                format!("rank {other} calls another collective, or with another root or amount of data");
            self.fail(MpiError::new(ErrorClass::NotSame, words));
        }
    }
}

fn place(at: usize) -> Slice {
    Slice { space: Space::Scratch, at, len: PLACE_BYTES }
}

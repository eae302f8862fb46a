//! Completion queues, and the channel that wakes whoever sleeps until one has something.
use crate::device::{Context, set_nonblocking};
use crate::ffi::*;
use crate::library::{VerbsError, words};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// So many events of a queue are acknowledged together, since that takes a lock.
const ACKNOWLEDGED_AT_ONCE: u32 = 64;
/// Completions that are fetched at a time.
const BATCH: usize = 16;

/// Becomes readable when the queue that was armed has something. Each belongs to one queue, so that every event on it is
/// that queue's.
struct Channel {
    context: Rc<Context>,
    channel: *mut ibv_comp_channel,
}

impl Channel {
    fn new(context: &Rc<Context>) -> Result<Channel, VerbsError> {
        // SAFETY: an open device.
        let channel = unsafe { (context.library.ibv_create_comp_channel)(context.context) };
        if channel.is_null() {
            return Err(VerbsError::last("ibv_create_comp_channel"));
        }
        let channel = Channel { context: context.clone(), channel };
        set_nonblocking(channel.fd())?;
        Ok(channel)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the channel is.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    /// Takes one event. `false`: there is none.
    fn take(&self) -> bool {
        let (mut cq, mut of) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a channel and two places; its descriptor does not block.
        unsafe { (self.context.library.ibv_get_cq_event)(self.channel, &mut cq, &mut of) == 0 }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: its queue is gone: that keeps this alive.
        unsafe { (self.context.library.ibv_destroy_comp_channel)(self.channel) };
    }
}

/// Where the device puts completions, and those of them that nobody has taken yet.
struct Batch {
    entries: [ibv_wc; BATCH],
    next: usize,
    end: usize,
}

/// A completion queue.
pub struct Cq {
    context: Rc<Context>,
    pub(crate) cq: *mut ibv_cq,
    poll: PollCq,
    notify: ReqNotifyCq,
    batch: RefCell<Box<Batch>>,
    unacknowledged: Cell<u32>,
    /// Was it armed, and the event not taken yet?
    armed: Cell<bool>,
    /// (Goes after the queue.)
    channel: Channel,
}

impl fmt::Debug for Cq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cq")
    }
}

impl Cq {
    /// A queue of at least so many entries.
    pub fn new(context: &Rc<Context>, entries: u32) -> Result<Rc<Cq>, VerbsError> {
        // SAFETY: an open device.
        let ops = unsafe { &(*context.context).ops };
        let (Some(poll), Some(notify)) = (ops.poll_cq, ops.req_notify_cq) else {
            return Err(VerbsError::unsupported("ibv_poll_cq"));
        };
        let channel = Channel::new(context)?;
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: an open device, and a channel of it.
        let cq = unsafe {
            (context.library.ibv_create_cq)(
                context.context,
                entries,
                std::ptr::null_mut(),
                channel.channel,
                0,
            )
        };
        if cq.is_null() {
            return Err(VerbsError::last("ibv_create_cq"));
        }
        // SAFETY: integers may be zero.
        let entries = unsafe { std::mem::zeroed::<[ibv_wc; BATCH]>() };
        let batch = RefCell::new(Box::new(Batch { entries, next: 0, end: 0 }));
        let (unacknowledged, armed) = (Cell::new(0), Cell::new(false));
        Ok(Rc::new(Cq { context: context.clone(), cq, poll, notify, batch, unacknowledged, armed, channel }))
    }

    /// Becomes readable with the next completion after [`Cq::arm`].
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// Hands what has completed to `each`, as much as there is now. How many was that?
    pub fn poll(&self, mut each: impl FnMut(Completion)) -> Result<usize, VerbsError> {
        let mut batch = self.batch.borrow_mut();
        if !self.refill(&mut batch)? {
            return Ok(0);
        }
        let entries = batch.next..batch.end;
        batch.next = batch.end;
        batch.entries[entries.clone()].iter().for_each(|entry| each(self.completion(entry)));
        Ok(entries.len())
    }

    /// The next that has completed. (Others stay here that came with it: the device is asked for several at a time.) An error of
    /// the queue itself is told by the device as an event.
    #[inline]
    pub fn next(&self) -> Option<Completion> {
        let mut batch = self.batch.borrow_mut();
        if !self.refill(&mut batch).unwrap_or(false) {
            return None;
        }
        let entry = batch.next;
        batch.next += 1;
        Some(self.completion(&batch.entries[entry]))
    }

    /// Has [`Cq::next`] something that the device need not be asked for?
    #[inline]
    pub fn has_more(&self) -> bool {
        let batch = self.batch.borrow();
        batch.next < batch.end
    }

    /// Asks the device if nothing is left. Is something there?
    #[inline]
    fn refill(&self, batch: &mut Batch) -> Result<bool, VerbsError> {
        if batch.next < batch.end {
            return Ok(true);
        }
        // SAFETY: a queue and room for so many.
        let count = unsafe { (self.poll)(self.cq, BATCH as i32, batch.entries.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| VerbsError::unsupported("ibv_poll_cq"))?;
        (batch.next, batch.end) = (0, count.min(BATCH));
        Ok(count > 0)
    }

    #[inline]
    fn completion(&self, entry: &ibv_wc) -> Completion {
        Completion {
            id: entry.wr_id,
            qp: entry.qp_num,
            outcome: match entry.status {
                IBV_WC_SUCCESS => Outcome::Done {
                    received: entry.opcode & IBV_WC_RECV != 0,
                    bytes: entry.byte_len as usize,
                    immediate: (entry.wc_flags & IBV_WC_WITH_IMM != 0).then(|| u32::from_be(entry.imm_data)),
                    source: entry.src_qp,
                },
                status => Outcome::Failed(self.failed(status)),
            },
        }
    }

    #[cold]
    fn failed(&self, status: u32) -> Failed {
        // SAFETY: any number gives a string.
        let words = words(unsafe { (self.context.library.ibv_wc_status_str)(status) });
        Failed { status, words }
    }

    /// Has the descriptor become readable with the next completion (once). What came before has to be polled for afterwards.
    pub fn arm(&self) -> Result<(), VerbsError> {
        // Its event is still to come, or on its way: whoever sleeps is woken, at most too early. (Both this and taking an
        // event are system calls.)
        if self.armed.get() {
            return Ok(());
        }
        // SAFETY: a queue.
        VerbsError::check("ibv_req_notify_cq", unsafe { (self.notify)(self.cq, 0) })?;
        self.armed.set(true);
        Ok(())
    }

    /// Takes the event off the channel, if it has come. There is one each time that the queue was armed.
    pub fn take_events(&self) {
        if self.armed.get() && self.channel.take() {
            self.armed.set(false);
            self.unacknowledged.set(self.unacknowledged.get() + 1);
        }
        if self.unacknowledged.get() >= ACKNOWLEDGED_AT_ONCE {
            self.acknowledge();
        }
    }

    fn acknowledge(&self) {
        // SAFETY: so many were taken.
        unsafe { (self.context.library.ibv_ack_cq_events)(self.cq, self.unacknowledged.take()) };
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.acknowledge();
        // SAFETY: the queue pairs that complete here are gone: they keep this alive.
        unsafe { (self.context.library.ibv_destroy_cq)(self.cq) };
    }
}

/// What became of a work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number that it was given.
    pub id: u64,
    /// The queue pair, by number.
    pub qp: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a work request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done {
        /// Was it a receive?
        received: bool,
        /// How much a receive or a read got.
        bytes: usize,
        /// What the sender put beside.
        immediate: Option<u32>,
        /// The sender's queue pair, of a datagram.
        source: u32,
    },
    /// It was not.
    Failed(Failed),
}

/// Why a work request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    status: u32,
    words: String,
}

impl Failed {
    /// Another request failed before, or the queue pair was ended: this one was not tried.
    pub fn is_flushed(&self) -> bool {
        self.status == IBV_WC_WR_FLUSH_ERR
    }

    /// The peer did not answer, however often it was asked.
    pub fn is_unanswered(&self) -> bool {
        self.status == IBV_WC_RETRY_EXC_ERR
    }

    /// The peer had no receive, however often it was asked.
    pub fn had_no_receive(&self) -> bool {
        self.status == IBV_WC_RNR_RETRY_EXC_ERR
    }

    /// The peer's memory is not registered for this.
    pub fn was_refused(&self) -> bool {
        matches!(self.status, IBV_WC_REM_ACCESS_ERR | IBV_WC_REM_INV_REQ_ERR)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

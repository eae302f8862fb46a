//! Active messages: bytes for a handler that the receiver has registered under a number. Windows and global arrays are
//! made of them where memory cannot be reached directly.
//!
//! A handler runs inside [`Endpoint::progress`] of the receiver, and may send. It must not wait.
use crate::api::{Addressee, NetError, ReqId};
use crate::endpoint::Endpoint;
use crate::link::{Data, Pending};
use crate::request::State;
use crate::wire::{Header, REQUEST_MAX};
use fabric::{Posted, Push};
use proto::ids::{Peer, PeerIx};
use std::fmt;
use std::rc::Rc;
use sys::UserBuf;

/// A message for a handler.
#[derive(Debug)]
pub struct Active {
    /// Which.
    pub handler: u32,
    /// A number of the sender's choosing.
    pub argument: u64,
    /// What came with it.
    pub bytes: Box<[u8]>,
}

/// What is called with a message.
pub type Handler = Rc<dyn Fn(&mut Endpoint, Peer, Active)>;

/// The handlers of a process, by number.
#[derive(Default)]
pub(crate) struct Handlers(Vec<Option<Handler>>);

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} handlers", self.0.iter().flatten().count())
    }
}

/// Most handlers of a process.
const HANDLERS_MAX: u32 = 4096;
const _: () = assert!(HANDLERS_MAX <= REQUEST_MAX);

impl Endpoint {
    /// Has messages for `number` given to `handler`; `None` takes it away. All processes that are sent such messages
    /// register them before: a message without a handler is dropped and counted.
    pub fn set_handler(&mut self, number: u32, handler: Option<Handler>) {
        assert!(number < HANDLERS_MAX, "handler {number}; there are {HANDLERS_MAX}");
        let number = number as usize;
        if self.handlers.0.len() <= number {
            self.handlers.0.resize_with(number + 1, || None);
        }
        self.handlers.0[number] = handler;
    }

    /// Sends bytes to a handler of a peer; they keep the order of this process's other messages to it. `None`: the buffer
    /// is free already.
    pub fn send_active(
        &mut self,
        to: impl Addressee,
        handler: u32,
        argument: u64,
        buf: UserBuf,
    ) -> Result<Option<ReqId>, NetError> {
        let ix = self.number(to)?;
        if ix == Self::SELF {
            let mut bytes = vec![0; buf.len()].into_boxed_slice();
            buf.copy_to(&mut bytes);
            self.deliver(ix, Active { handler, argument, bytes });
            return Ok(None);
        }
        self.reach(ix)?;
        let header = Header::Active { handler, argument };
        let link = &self.links[ix.index()];
        let small = buf.len() <= link.eager_max as usize;
        if small
            && link.queue.is_empty()
            && let Some(posted) = self.try_post(ix, header, buf, Push::Soon)
        {
            return Ok(match posted {
                Posted::Done => None,
                Posted::Later(work) => Some(self.posted(ix, work)),
            });
        }
        let id = (!small).then(|| self.requests.insert(State::SendQueued));
        let data = if small { Data::copy(buf) } else { Data::User(buf) };
        self.enqueue(ix, Pending::message(header, data, id), Push::Soon);
        Ok(id)
    }

    /// The end of a message has come, perhaps behind other parts of it.
    pub(crate) fn deliver_whole(&mut self, from: PeerIx, mut active: Active) {
        let mut whole = self.link(from).take_parts();
        if !whole.is_empty() {
            whole.extend_from_slice(&active.bytes);
            active.bytes = whole.into_boxed_slice();
        }
        self.deliver(from, active);
    }

    /// Gives a message to its handler.
    pub(crate) fn deliver(&mut self, from: PeerIx, active: Active) {
        let handler = self.handlers.0.get(active.handler as usize).cloned().flatten();
        let from = self.who(from);
        match handler {
            Some(handler) => handler(self, from, active),
            None => self.counters.unhandled += 1,
        }
    }
}

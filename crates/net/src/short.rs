//! The short way of small messages inside a host and through RDMA devices: between two processes that are connected, with nothing
//! else under way that could come first. What is not for it is left as it is, for the long way, which knows everything.
use crate::api::{Addressee, Envelope, Outcome, Pattern, ReqId};
use crate::endpoint::{Endpoint, Unexpected, end_of, with_source};
use crate::progress::{After, NOBODYS, TICK_BUSY_ROUNDS, sender, take_in};
use crate::wire::{Header, Kind};
use fabric::View;
use proto::ids::Process;
use proto::matching;
use sys::cpu;
use sys::{UserBuf, UserBufMut};

/// How often a receive looks for its message before it takes the long way: about as long as an answer takes that comes at
/// once. Nothing here tells the processor to rest, which takes longer than the way of a message.
const ROUNDS: u32 = 256;
/// The same where cores are shared, and others run between two looks.
const YIELDS: u32 = 16;
/// And where other messages come meanwhile: the long way looks after more than messages.
const LOOKS: u32 = 256;
/// A longer message is not kept on the way to its receive, which costs a copy: it is received the long way, straight from its ring.
const KEPT_MAX: usize = 4 << 10;

impl Endpoint {
    /// Sends a message, complete at once. `false`: it is not for this way, and nothing has been done.
    #[inline(always)]
    pub fn send_short(&mut self, to: Process, envelope: Envelope, buf: UserBuf) -> bool {
        let Some((ix, qp)) = self.connected(to) else { return false };
        let link = &self.links[ix.index()];
        if buf.len() > (link.eager_max as usize).max(self.job.eager_grown) {
            return false; // of what is shorter the ring knows whether it takes it
        }
        let header = Header::eager(envelope, link.name);
        if !self.context.send_short(qp, header, buf) {
            return false;
        }
        self.counters.eager += 1;
        self.counters.bytes += buf.len() as u64;
        true
    }

    /// Receives a message that is there or comes soon, straight from its ring: with no other receive posted and no message
    /// left over, the first that fits is the right one. `None`: it is to be received the long way; nothing is lost.
    #[inline(always)]
    pub fn recv_short(&mut self, pattern: Pattern<Process>, buf: UserBufMut) -> Option<Outcome> {
        let source = match pattern.source {
            None => None,
            Some(process) => Some(process.find(&self.wireup).filter(|ix| *ix != Self::SELF)?),
        };
        let wanted = matching::Pattern { context: pattern.context, source, tag: pattern.tag };
        if !self.is_quiet() {
            return if self.waits.timers {
                self.recv_from_device(wanted, buf)
            } else {
                self.recv_among_others(wanted, buf)
            };
        }
        let yields = self.waits.yields_at_once();
        let mut rounds = if yields { YIELDS } else { self.rounds_at_once() };
        loop {
            let Endpoint { context, wireup, links, by_qp, matcher, requests, .. } = self;
            let taken = context.poll_ring().map(|(qp, view)| {
                match sender(view.header(), qp, links, by_qp, |ix| wireup.who(ix).is_some()) {
                    Some((Header::Message { kind: Kind::Eager, envelope, request: mark }, ix))
                        if wanted.accepts(&with_source(envelope, ix)) =>
                    {
                        let bytes = view.copy_to(0, buf);
                        Ok(end_of(with_source(envelope, ix), view.len(), bytes, mark))
                    }
                    Some((header, ix)) => Err(take_in(ix, header, View::Ring(view), matcher, requests)),
                    None => Err(After::Nonsense(qp, NOBODYS)),
                }
            });
            match taken {
                Some(Ok(end)) => {
                    self.context.give_back();
                    return Some(end);
                }
                Some(Err(other)) => {
                    self.act(other);
                    if !self.is_quiet() {
                        self.context.give_back();
                        return self.recv_among_others(wanted, buf);
                    }
                }
                None => {
                    rounds = rounds.checked_sub(1)?;
                    if self.context.has_others() {
                        return self.recv_among_others(wanted, buf);
                    }
                    if yields {
                        cpu::yield_now();
                    }
                }
            }
        }
    }

    /// The same where messages have come that nobody has asked for yet, or come on rings that are not looked at first. (Where
    /// others go on without this process, as in broadcasts with roots in turn, that is the rule.)
    #[inline(never)]
    fn recv_among_others(&mut self, wanted: matching::Pattern, buf: UserBufMut) -> Option<Outcome> {
        let yields = self.waits.yields_at_once();
        let mut rounds = if yields { YIELDS } else { self.rounds_at_once() };
        for _ in 0..LOOKS {
            if self.waits.timers || !self.waiting.is_empty() || self.matcher.posted_len() > 0 {
                return None;
            }
            if let Some((_, kept)) = self.matcher.probe(wanted) {
                return match kept {
                    Unexpected::Whole { answer: None, .. } => self.take_kept(wanted, buf),
                    _ => None, // somebody waits for an answer
                };
            }
            if buf.len() > KEPT_MAX {
                return None;
            }
            if !self.progress() {
                rounds = rounds.checked_sub(1)?;
                if yields {
                    cpu::yield_now();
                }
            }
        }
        None
    }

    /// A message that is there and that nobody waits for, at its end.
    fn take_kept(&mut self, wanted: matching::Pattern, buf: UserBufMut) -> Option<Outcome> {
        let (envelope, message) = self.matcher.take(wanted)?;
        let Unexpected::Whole { bytes, mark, .. } = message else { return None };
        let fits = self.copy_kept(&bytes, buf);
        Some(end_of(envelope, bytes.len(), fits, mark))
    }

    /// The same through an RDMA device. What else a process with devices has to look after is left to the long way, and now and then
    /// a receive is: nobody may wait for that while messages come one after the other.
    #[inline(never)]
    fn recv_from_device(&mut self, wanted: matching::Pattern, buf: UserBufMut) -> Option<Outcome> {
        // (What is in a ring already has its turn.)
        if !self.is_quiet_but_for_devices() || self.context.has_beside_rdma() {
            return None;
        }
        self.waits.busy = self.waits.busy.wrapping_add(1);
        if self.waits.busy.is_multiple_of(TICK_BUSY_ROUNDS) {
            self.tick();
            return None;
        }
        let mut rounds = self.rounds_at_once();
        loop {
            let Endpoint { context, wireup, links, by_qp, matcher, requests, .. } = self;
            let taken = context.poll_rdma().map(|(qp, view)| {
                let view = View::Slot(view);
                match sender(view.header(), qp, links, by_qp, |ix| wireup.who(ix).is_some()) {
                    Some((Header::Message { kind: Kind::Eager, envelope, request: mark }, ix))
                        if wanted.accepts(&with_source(envelope, ix)) =>
                    {
                        let bytes = view.copy_to(0, buf);
                        Ok(end_of(with_source(envelope, ix), view.len(), bytes, mark))
                    }
                    Some((header, ix)) => Err(take_in(ix, header, view, matcher, requests)),
                    None => Err(After::Nonsense(qp, NOBODYS)),
                }
            });
            match taken {
                // (Its slot is given back by the next look: the program may have an answer to send first.)
                Some(Ok(end)) => return Some(end),
                Some(Err(other)) => {
                    self.act(other);
                    if !self.is_quiet_but_for_devices() {
                        return None;
                    }
                }
                None => {
                    rounds = rounds.checked_sub(1)?;
                    if self.context.has_beside_rdma() {
                        return None;
                    }
                }
            }
        }
    }

    /// Goes round until a message has ended, as long as one that comes at once takes; has it?
    #[inline]
    pub fn ends_soon(&mut self, id: ReqId) -> bool {
        self.stay(true);
        let mut rounds = self.rounds_at_once();
        let ended = loop {
            if self.is_done(id) {
                break true;
            }
            if !self.progress() {
                match rounds.checked_sub(1) {
                    Some(fewer) => rounds = fewer,
                    None => break false,
                }
            }
        };
        self.stay(false);
        ended
    }

    /// How often to look for a message that comes at once.
    #[inline(always)]
    pub fn rounds_at_once(&self) -> u32 {
        self.waits.spins().min(ROUNDS)
    }

    /// Is there nothing that a message on its short way could pass by?
    #[inline(always)]
    fn is_quiet(&self) -> bool {
        !self.waits.timers && self.waiting.is_empty() && self.matcher.is_idle()
    }

    #[inline]
    fn is_quiet_but_for_devices(&self) -> bool {
        let idle = self.waiting.is_empty() && self.matcher.is_idle();
        idle && !self.waits.errands && self.context.has_only_rdma()
    }
}

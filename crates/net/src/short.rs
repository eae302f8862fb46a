//! The short way of small messages inside a host: between two processes that are connected, with nothing else under way
//! that could come first. What is not for it is left as it is, for the long way, which knows everything.
use crate::api::{Addressee, Envelope, Outcome, Pattern, ReqId};
use crate::endpoint::{Endpoint, end_of, with_source};
use crate::progress::{After, NOBODYS, sender, take_in};
use crate::wire::{Header, Kind};
use fabric::View;
use proto::ids::Process;
use proto::matching;
use sys::{UserBuf, UserBufMut};

/// How often a receive looks for its message before it takes the long way: about as long as an answer takes that comes at
/// once. Nothing here tells the processor to rest, which takes longer than the way of a message.
const ROUNDS: u32 = 256;

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
            return None;
        }
        let mut rounds = self.rounds_at_once();
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
                        return None;
                    }
                }
                None => {
                    rounds = rounds.checked_sub(1)?;
                    if self.context.has_others() {
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
}

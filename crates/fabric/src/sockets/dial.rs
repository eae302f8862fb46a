//! Making a stream: dialling, proofs, trying again, and which of two streams stays when both sides have dialled.
//!
//! Who asks dials at once, and its first messages follow its hello, so that the kernel carries them while the caller
//! computes. A copy of them stays here until it is settled which stream carries the connection: on crossed dials
//! both sides keep the one with the larger number. The dialler of the other one closes it and sends everything again
//! on the one that stays. What the other side has taken from the losing stream by then, it leaves out: see
//! [`super::crossed`].
use super::door::STARVED_NS;
use super::{Note, Sockets, is_no_descriptor};
use crate::provider::{BreakReason, ConnectError, CreateError, Sent};
use crate::state::QpState;
use proto::stream::proof::WELCOME_BYTES;
use proto::stream::{CONTROL_MAX, Frame, HEAD_BYTES};
use proto::wireup::Params;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;
use sys::poll::Interest;
use sys::socket::Transfer;
use sys::tcp::Stream;

/// Bytes of messages that may be posted before it is settled which stream carries them.
pub(super) const EARLY_MAX: usize = 64 << 10;
/// How long who dials waits for the other kernel, so that its first bytes leave before it computes.
const ANSWER_WAIT: Duration = Duration::from_millis(2);
/// How long one attempt may take; the kernel itself would ask again after 1, 3, 7 and 15 seconds only. Less where the
/// network may be silent for a short time only.
const ATTEMPT_NS: u64 = 3_000_000_000;
const ATTEMPT_MIN_NS: u64 = 500_000_000;
/// Attempts that are made at least: time may have passed because the caller computed.
const ATTEMPTS_MIN: u32 = 4;
/// Between two attempts, at first and at most.
const RETRY_NS: u64 = 200_000_000;
const RETRY_MAX_NS: u64 = 1_000_000_000;
/// How long a listener may refuse: its owner is gone, or a firewall says so.
const REFUSED_NS: u64 = 5_000_000_000;

/// What a side that asks knows until its connection is settled.
#[derive(Debug)]
pub(super) struct Dial {
    /// Chosen by chance; the larger one of two stays.
    pub id: u64,
    phase: Phase,
    /// What the hello brings; and messages behind it, as frames.
    message: Vec<u8>,
    pub early: Vec<u8>,
    /// A hello has left, so that the peer may know of this dial.
    greeted: bool,
    /// The peer has sent something on this stream, so it has chosen it.
    answered: bool,
    since_ns: u64,
    /// Attempts that failed.
    tries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing on the wire.
    Undialled,
    /// The last attempt failed.
    Waiting { until_ns: u64 },
    /// The kernels are at it.
    Connecting { until_ns: u64 },
    /// Hello said, welcome not heard.
    Proving,
    /// Both sides have proven themselves.
    Proven,
}

impl Dial {
    pub fn new(id: u64) -> Self {
        let (message, early) = (Vec::new(), Vec::new());
        let (greeted, answered) = (false, false);
        Dial { id, phase: Phase::Undialled, message, early, greeted, answered, since_ns: 0, tries: 0 }
    }

    /// Can something be written?
    pub fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Proving | Phase::Proven)
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Dial>() + self.message.capacity() + self.early.capacity()
    }

    fn due_ns(&self) -> Option<u64> {
        match self.phase {
            Phase::Waiting { until_ns } | Phase::Connecting { until_ns } => Some(until_ns),
            _ => None,
        }
    }
}

/// The number of a dial, as the parameters of a connection; 0 for a side that answers.
pub(super) fn params_of(dial: u64) -> Params {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&dial.to_le_bytes());
    Params(bytes)
}

fn dial_of(params: &Params) -> u64 {
    u64::from_le_bytes(*params.0.first_chunk().expect("parameters are longer"))
}

impl Sockets {
    /// A control message on a queue pair. `None`: it has no stream, now or soon.
    pub(super) fn control_on(&mut self, index: u32, bytes: &[u8]) -> Option<Sent> {
        let link = self.links.at_mut(index)?;
        let frame = Frame::Control { len: bytes.len() }.emit();
        if link.state == QpState::Reset || link.state == QpState::Error {
            return None;
        }
        let Some(dial) = &mut link.dial else {
            if link.stream.is_some() && std::mem::take(&mut link.owes_reply) {
                link.out.push_front([&frame, bytes].concat());
            } else {
                link.out.push(&frame, &mut self.spare);
                link.out.push(bytes, &mut self.spare);
            }
            self.write_out(index);
            return Some(Sent::Sent);
        };
        if dial.phase == Phase::Undialled {
            dial.message = bytes.to_vec();
            dial.since_ns = self.clock.now_ns();
            self.dialling.push(index);
            self.dial(index);
            self.wait_for_answer(index);
            self.watch_dial(index);
        } else if dial.message != bytes {
            // Not the same again, which a stream does not lose.
            if dial.early.len() + HEAD_BYTES + bytes.len() > EARLY_MAX {
                return Some(Sent::Dropped);
            }
            self.push_early(index, &[&frame, bytes]);
        }
        Some(Sent::Sent)
    }

    /// Posts bytes of a frame before it is settled which stream carries them.
    pub(super) fn push_early(&mut self, index: u32, parts: &[&[u8]]) {
        let Some(link) = self.links.at_mut(index) else { return };
        let Some(dial) = &mut link.dial else { return };
        for part in parts {
            dial.early.extend_from_slice(part);
            if dial.phase != Phase::Undialled {
                link.out.push(part, &mut self.spare);
            }
        }
        if dial.is_up() {
            self.write_out(index);
        }
    }

    /// One attempt.
    fn dial(&mut self, index: u32) {
        let (own, from) = (self.section.nonce, self.source());
        let attempt_ns = (self.timeout_ns() / u64::from(ATTEMPTS_MIN)).clamp(ATTEMPT_MIN_NS, ATTEMPT_NS);
        let Some(link) = self.links.at_mut(index) else { return };
        let (Some(dial), Some(secret)) = (&mut link.dial, self.secrets.with(link.nonce)) else { return };
        // The hello is made before the kernels connect, which wakes the other process: it should find it then.
        let lenders = link.out.clear();
        link.out.push(&secret.hello(own, link.nonce, dial.id, &dial.message), &mut self.spare);
        link.out.push(&dial.early, &mut self.spare);
        lenders.into_iter().for_each(|lender| link.out.push_lent(sys::UserBuf::EMPTY, lender));
        link.partial = Vec::new();
        link.write_error = None;
        // What it will be watched for if it connects at once, as most do.
        link.interest = Interest::Read;
        link.keeps_alive = false;
        match Stream::dial(from, link.to) {
            Ok(stream) => link.stream = Some(stream),
            Err(error) => return self.dial_failed(index, &error),
        }
        self.starved_until_ns = 0;
        dial.phase = Phase::Connecting { until_ns: self.clock.now_ns() + attempt_ns };
    }

    /// Watches a stream that was dialled.
    fn watch_dial(&mut self, index: u32) {
        let token = self.link_token(index);
        let Some(link) = self.links.at_mut(index) else { return };
        let (Some(dial), Some(stream)) = (&link.dial, &link.stream) else { return };
        if !dial.is_up() {
            link.interest = Interest::ReadWrite;
        }
        if let Err(error) = self.poll.add(stream.as_fd(), token, link.interest) {
            self.dial_failed(index, &error);
        }
    }

    /// The address that dials come from.
    pub(super) fn source(&self) -> Option<IpAddr> {
        Some(self.section.addr).filter(|addr| !is_link_local(addr))
    }

    fn wait_for_answer(&mut self, index: u32) {
        let stream = self.links.at(index).and_then(|link| link.stream.as_ref());
        if stream.is_some_and(|stream| stream.wait_writable(ANSWER_WAIT).unwrap_or(true)) {
            self.advance_dial(index);
        }
    }

    /// Something happened to a stream that is being made.
    pub(super) fn advance_dial(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        let (Some(dial), Some(stream)) = (&mut link.dial, &link.stream) else { return };
        if !matches!(dial.phase, Phase::Connecting { .. }) {
            return self.read_proofs(index);
        }
        match stream.connected() {
            Ok(false) => {}
            Err(error) => self.dial_failed(index, &error),
            Ok(true) => {
                dial.phase = Phase::Proving;
                dial.greeted = true;
                self.write_out(index);
                let token = self.link_token(index);
                if let Some(link) = self.links.at_mut(index)
                    && !link.blocked
                {
                    link.watch(&self.poll, token, Interest::Read);
                }
            }
        }
    }

    /// The attempt failed: another one later, or none.
    fn dial_failed(&mut self, index: u32, error: &io::Error) {
        self.drop_stream(index);
        let (now_ns, timeout_ns) = (self.clock.now_ns(), self.timeout_ns());
        let Some(link) = self.links.at_mut(index) else { return };
        let Some(dial) = &mut link.dial else { return };
        if is_no_descriptor(error) {
            self.starved_until_ns = now_ns + STARVED_NS;
        }
        let patience_ns = match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => REFUSED_NS.min(timeout_ns),
            _ if is_no_descriptor(error) => REFUSED_NS.min(timeout_ns),
            _ => timeout_ns,
        };
        let until_ns = now_ns + (RETRY_NS << dial.tries.min(8)).min(RETRY_MAX_NS);
        dial.tries = dial.tries.saturating_add(1);
        if until_ns < dial.since_ns + patience_ns || dial.tries < ATTEMPTS_MIN {
            dial.phase = Phase::Waiting { until_ns };
            return;
        }
        let why = match is_no_descriptor(error) {
            true => CreateError::Descriptors { limit: self.descriptors }.to_string(),
            false => error.to_string(),
        };
        let seconds = (now_ns - dial.since_ns) / 1_000_000_000;
        let why = BreakReason::Unreachable { from: self.from.clone(), to: link.to, why, seconds };
        self.break_behind_losing(index, why);
    }

    /// Reads what comes before a connection is settled: the welcome and control messages, and not a byte more, since
    /// what is behind them may not be delivered yet.
    fn read_proofs(&mut self, index: u32) {
        loop {
            let own = self.section.nonce;
            let token = self.link_token(index);
            let Some(link) = self.links.at_mut(index) else { return };
            let (Some(dial), Some(stream)) = (&mut link.dial, &link.stream) else { return };
            let wanted = match dial.phase {
                Phase::Proving => WELCOME_BYTES,
                _ => wanted_of(&link.partial),
            };
            if link.partial.len() < wanted {
                match read_more(stream, &mut link.partial, wanted) {
                    Ok(Transfer::Bytes(_)) => {}
                    Ok(Transfer::WouldBlock) => return,
                    Ok(Transfer::Closed) => return self.hung_up(index),
                    Err(error) => {
                        let why = self.lost(index, &error);
                        return self.break_behind_losing(index, why);
                    }
                }
                continue;
            }
            if dial.phase == Phase::Proving {
                let Some(secret) = self.secrets.with(link.nonce) else { return };
                if !secret.is_welcome(link.nonce, own, dial.id, &link.partial) {
                    return self.break_link(index, BreakReason::Proof);
                }
                link.partial.clear();
                dial.phase = Phase::Proven;
                if link.state != QpState::Init && link.losing.is_none() {
                    return self.settle(index);
                }
                continue;
            }
            dial.answered = true;
            match Frame::parse(link.partial.first_chunk().expect("a whole head")) {
                Ok(Frame::Control { .. }) => {
                    let bytes = std::mem::take(&mut link.partial).split_off(HEAD_BYTES);
                    // Most often the caller connects now, and what is behind it is read like everything later.
                    return self.notes.push_back(Note::Control(bytes));
                }
                Ok(Frame::Frugal(on)) => {
                    link.peer_frugal = on;
                    link.partial.clear();
                }
                Ok(Frame::Crossed { dial }) if link.losing.is_some() => return self.switch(index, dial),
                Ok(_) => return link.watch(&self.poll, token, Interest::Hangup),
                Err(_) => return self.break_link(index, BreakReason::Nonsense("a frame that is none")),
            }
        }
    }

    /// The other end is gone before the connection was settled.
    fn hung_up(&mut self, index: u32) {
        if self.dial_phase(index) == Some(Phase::Proven) {
            return self.break_behind_losing(index, BreakReason::Closed);
        }
        // Its owner may be flooded by strangers, and have had no place for one more.
        let why = "it hung up before it had proven that it holds the job's key";
        self.dial_failed(index, &io::Error::new(io::ErrorKind::ConnectionReset, why));
    }

    /// INIT to RTR: decides which stream it is. See the module's head.
    pub(super) fn agree(&mut self, index: u32, params: &Params) -> Result<(), ConnectError> {
        let theirs = dial_of(params);
        self.greet_if_connected(index);
        let Some(link) = self.links.at_mut(index) else { return Err(ConnectError::Stale) };
        if link.state != QpState::Init {
            return Err(ConnectError::NoStream);
        }
        // A dial that never got through (a firewall may let only the other one pass) is not known to the peer, which
        // therefore keeps its own.
        let own_stays = link.dial.as_ref().is_some_and(|dial| {
            dial.phase != Phase::Undialled
                && (theirs == 0 || dial.answered || (dial.greeted && dial.id > theirs))
        });
        if !own_stays {
            return self.bind(index, theirs);
        }
        link.state = QpState::ReadyToReceive;
        let dial = link.dial.as_ref();
        let (proven, answered) =
            dial.map_or((false, false), |dial| (dial.phase == Phase::Proven, dial.answered));
        // Where the peer has answered on this stream, it has given its own one up.
        if theirs != 0 && !answered {
            self.adopt_losing(index, theirs);
        }
        match self.links.at(index).is_some_and(|link| link.losing.is_some()) {
            true => self.advance_dial(index),
            false if proven => self.settle(index),
            false => {}
        }
        Ok(())
    }

    /// The kernels may have connected since the dial was looked at last.
    fn greet_if_connected(&mut self, index: u32) {
        let Some(link) = self.links.at(index) else { return };
        let (Some(dial), Some(stream)) = (&link.dial, &link.stream) else { return };
        if matches!(dial.phase, Phase::Connecting { .. }) && matches!(stream.connected(), Ok(true)) {
            self.advance_dial(index);
        }
    }

    /// Takes the stream that the peer has dialled.
    fn bind(&mut self, index: u32, theirs: u64) -> Result<(), ConnectError> {
        let token = self.link_token(index);
        let nonce = self.links.at(index).map_or(0, |link| link.nonce);
        let stream = self.take_offered(nonce, theirs).ok_or(ConnectError::NoStream)?;
        self.drop_stream(index);
        self.dialling.retain(|other| *other != index);
        let Some(link) = self.links.at_mut(index) else { return Err(ConnectError::Stale) };
        // A reply may be there already.
        link.owes_reply = link.out.is_empty();
        if let Some(dial) = link.dial.take() {
            let lenders = link.out.clear();
            link.owes_reply = dial.phase == Phase::Undialled;
            if !link.owes_reply {
                // The peer may never see the hello that brought it.
                link.out.push(&Frame::Control { len: dial.message.len() }.emit(), &mut self.spare);
                link.out.push(&dial.message, &mut self.spare);
                link.out.push(&Frame::Crossed { dial: dial.id }.emit(), &mut self.spare);
            }
            link.out.push(&dial.early, &mut self.spare);
            lenders.into_iter().for_each(|lender| link.out.push_lent(sys::UserBuf::EMPTY, lender));
        }
        link.partial = Vec::new();
        link.write_error = None;
        let _ = self.poll.change(stream.as_fd(), token, Interest::Read);
        link.interest = Interest::Read;
        link.stream = Some(stream);
        // It inherits that from the listener.
        link.keeps_alive = true;
        link.state = QpState::ReadyToReceive;
        self.begin(index);
        Ok(())
    }

    /// The own stream carries the connection.
    pub(super) fn settle(&mut self, index: u32) {
        let token = self.link_token(index);
        self.dialling.retain(|other| *other != index);
        if let Some(link) = self.links.at_mut(index) {
            link.dial = None;
            link.watch(&self.poll, token, Interest::Read);
        }
        self.begin(index);
    }

    /// A settled stream begins to carry frames.
    fn begin(&mut self, index: u32) {
        if self.frugal
            && let Some(link) = self.links.at_mut(index)
        {
            link.out.push(&Frame::Frugal(true).emit(), &mut self.spare);
        }
        self.write_out(index);
        self.begin_receiving(index);
    }

    /// Timers of dials.
    pub(super) fn tick_dials(&mut self, now_ns: u64) {
        for index in self.dialling.clone() {
            match self.dial_phase(index) {
                Some(Phase::Waiting { until_ns }) if until_ns <= now_ns => {
                    self.dial(index);
                    self.watch_dial(index);
                }
                Some(phase @ Phase::Connecting { until_ns }) if until_ns <= now_ns => {
                    // The answer may have come in time, and the caller have computed since.
                    self.advance_dial(index);
                    if self.dial_phase(index) == Some(phase) {
                        let no_answer = io::Error::new(io::ErrorKind::TimedOut, "no answer");
                        self.dial_failed(index, &no_answer);
                    }
                }
                _ => {}
            }
        }
    }

    fn dial_phase(&self, index: u32) -> Option<Phase> {
        self.links.at(index)?.dial.as_ref().map(|dial| dial.phase)
    }

    /// When the next timer of a dial is due.
    pub(super) fn dials_due_ns(&self) -> Option<u64> {
        let dials = self.dialling.iter().filter_map(|index| self.links.at(*index)?.dial.as_ref());
        dials.filter_map(|dial| dial.due_ns()).min()
    }
}

fn is_link_local(addr: &IpAddr) -> bool {
    matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Bytes of the frame that begins with `partial` which are read before the connection is settled.
fn wanted_of(partial: &[u8]) -> usize {
    let head = partial.first_chunk::<HEAD_BYTES>();
    match head.map(Frame::parse) {
        Some(Ok(Frame::Control { len })) => HEAD_BYTES + len.min(CONTROL_MAX),
        _ => HEAD_BYTES,
    }
}

/// Reads until `partial` has `wanted` bytes, or as many as there are.
pub(super) fn read_more(stream: &Stream, partial: &mut Vec<u8>, wanted: usize) -> io::Result<Transfer> {
    let start = partial.len();
    partial.resize(wanted, 0);
    let read = stream.read(&mut partial[start..]);
    let got = if let Ok(Transfer::Bytes(bytes)) = read { bytes } else { 0 };
    partial.truncate(start + got);
    read
}

#[cfg(test)]
mod tests {
    use super::super::tests::End;
    use super::*;
    use crate::provider::Provider;

    #[test]
    fn a_dial_may_take_for_ever() {
        let (mut end, peer) = (End::with_timeout(Duration::MAX), End::new());
        let index = end.ask(&peer.card, 1).index() as u32;
        let sockets = &mut end.sockets;
        let now_ns = sockets.clock.now_ns();
        sockets.links.at_mut(index).unwrap().dial.as_mut().unwrap().since_ns = now_ns;
        for _ in 0..2 * ATTEMPTS_MIN {
            sockets.dial(index);
            sockets.dial_failed(index, &io::ErrorKind::TimedOut.into());
            assert!(matches!(sockets.dial_phase(index), Some(Phase::Waiting { .. })));
        }
    }

    #[test]
    fn an_answer_counts_that_came_while_the_caller_computed() {
        let (mut end, peer) = (End::new(), End::new());
        let qp = end.ask(&peer.card, 1);
        let index = qp.index() as u32;
        let sockets = &mut end.sockets;
        sockets.dial(index);
        sockets.dialling.push(index);
        assert!(matches!(sockets.dial_phase(index), Some(Phase::Connecting { .. })));
        let stream = sockets.links.at(index).unwrap().stream.as_ref().unwrap();
        assert!(stream.wait_writable(Duration::from_secs(20)).unwrap());
        sockets.tick_dials(u64::MAX / 2);
        assert_eq!(sockets.dial_phase(index), Some(Phase::Proving));
        sockets.destroy(qp);
    }
}

//! The side that asks: takes work off send queues, one at a time, and hears how it ended.
use crate::adapter::{Adapter, MTU};
use crate::machine::{Kind, State};
use crate::memory::Piece;
use crate::objects::{Flight, Work};
use crate::socket::NUMBERS;
use crate::wire::{Action, Answer, Head, Place, Reply, Request};
use std::ffi::c_int;
use std::time::{Duration, Instant};
use verbs::ffi::*;

/// How long after a request that nobody has answered the next one comes.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// "Without end", of requests to a peer without a receive.
const FOR_EVER: u8 = 7;

/// How a start of work ended.
enum Started {
    /// An answer is waited for, or the time to ask again.
    Waits,
    /// It has ended already.
    Ended,
}

impl Adapter {
    /// Takes work, if the queue pair can.
    pub(crate) fn post_send(&mut self, number: u32, work: Work) -> Result<(), c_int> {
        self.present()?;
        let qp = self.qps.get_mut(&number).ok_or(libc::EINVAL)?;
        if qp.taken >= qp.cap.max_send_wr {
            return Err(libc::ENOMEM);
        }
        match qp.state {
            State::Reset | State::Init | State::Rtr => return Err(libc::EINVAL),
            State::Rts | State::Sqd => {
                qp.taken += 1;
                qp.work.push_back(work);
                self.pump(number);
            }
            State::Sqe | State::Error => {
                qp.taken += 1;
                self.complete_send(number, &work, IBV_WC_WR_FLUSH_ERR);
            }
        }
        Ok(())
    }

    /// Starts what can be started.
    pub(crate) fn pump(&mut self, number: u32) {
        loop {
            let Some(qp) = self.qps.get_mut(&number) else { return };
            if qp.flight.is_some() || qp.state != State::Rts || qp.work.is_empty() {
                return;
            }
            let rnr_left = qp.attr.rnr_retries;
            self.last_work += 1;
            let work = self.last_work;
            qp.flight =
                Some(Flight { number: 0, work, via: None, retry_at: None, silent_since: None, rnr_left });
            if let Started::Waits = self.start(number) {
                return;
            }
        }
    }

    /// Sends the first work of a queue pair, for the first time or again.
    fn start(&mut self, number: u32) -> Started {
        let Some(qp) = self.qps.get(&number) else { return Started::Ended };
        let (kind, pd, port) = (qp.kind, qp.pd, qp.attr.port);
        let Some(work) = qp.work.front() else { return Started::Ended };
        let longest = if kind == Kind::Ud { MTU } else { self.settings.message };
        if work.bytes() > longest.into() {
            return self.fail(number, IBV_WC_LOC_LEN_ERR);
        }
        let bytes = match (&work.copied, work.action) {
            (Some(bytes), _) => Ok(bytes.clone()),
            (None, Action::Send | Action::Write) => self.regions.gather(pd, &work.pieces),
            (None, _) => self.check_room(pd, &work.pieces).map(|()| Vec::new()),
        };
        let Ok(bytes) = bytes else { return self.fail(number, IBV_WC_LOC_PROT_ERR) };
        let Some(request) = self.request(number) else { return Started::Ended };
        if kind == Kind::Ud {
            if self.is_up(port) && !self.is_lost() {
                // Nobody hears of it if there is no such device.
                let _ = self.links.send_to(request.to / NUMBERS, &Head::Request(request), &bytes);
            }
            return self.finish(number);
        }
        if !self.is_up(port) {
            return self.unanswered(number, Answer::Silent);
        }
        let via = self.links.send_to(request.to / NUMBERS, &Head::Request(request), &bytes);
        match (via, self.qps.get_mut(&number).and_then(|qp| qp.flight.as_mut())) {
            (Some(via), Some(flight)) => {
                (flight.number, flight.via, flight.retry_at) = (request.flight, Some(via), None);
                Started::Waits
            }
            _ => self.unanswered(number, Answer::Absent),
        }
    }

    /// May what is read come where it is wanted?
    fn check_room(&self, pd: u32, pieces: &[Piece]) -> Result<(), crate::memory::Forbidden> {
        let mut used = pieces.iter().filter(|piece| piece.bytes > 0);
        used.try_for_each(|piece| self.regions.check(pd, *piece, IBV_ACCESS_LOCAL_WRITE))
    }

    /// The request that the first work of a queue pair makes.
    fn request(&mut self, number: u32) -> Option<Request> {
        let qp = self.qps.get(&number)?;
        let work = qp.work.front()?;
        let (place, to, psn_or_key) = match work.datagram {
            Some((place, to, key)) => (place, to, key),
            None => (qp.attr.place, qp.attr.dest, qp.attr.send_psn),
        };
        self.last_flight = self.last_flight.wrapping_add(1);
        let gid = place.gid.and_then(|_| self.gid(qp.attr.port, 1).or(self.gid(qp.attr.port, 0)));
        Some(Request {
            flight: u64::from(number) << 32 | u64::from(self.last_flight),
            work: qp.flight.as_ref().map_or(0, |flight| flight.work),
            action: work.action,
            from: number,
            to,
            place,
            source: Place { lid: self.lid(qp.attr.port), gid: gid.map(|(raw, _)| raw) },
            psn_or_key,
            datagram: work.datagram.is_some(),
            solicited: work.solicited,
            immediate: work.immediate,
            addr: work.addr,
            rkey: work.rkey,
            operand: work.operand,
            swap: work.swap,
            srq: work.srq,
            domain: None,
            bytes: work.bytes() as u32,
        })
    }

    /// Is the next datagram one that is to be lost?
    fn is_lost(&mut self) -> bool {
        // Marsaglia's xorshift: the same for the same seed.
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % 100 < self.settings.loss
    }

    /// The first work of a queue pair was done.
    fn finish(&mut self, number: u32) -> Started {
        let Some(qp) = self.qps.get_mut(&number) else { return Started::Ended };
        qp.flight = None;
        if let Some(work) = qp.work.pop_front() {
            self.complete_send(number, &work, IBV_WC_SUCCESS);
        }
        Started::Ended
    }

    /// The first work of a queue pair fails, and the others with it.
    fn fail(&mut self, number: u32, status: Enum) -> Started {
        let Some(qp) = self.qps.get_mut(&number) else { return Started::Ended };
        qp.flight = None;
        let kind = qp.kind;
        if let Some(work) = qp.work.pop_front() {
            self.complete_send(number, &work, status);
        }
        match kind {
            Kind::Ud => {
                self.qps.get_mut(&number).into_iter().for_each(|qp| qp.state = State::Sqe);
                self.flush_sends(number);
            }
            _ => self.break_qp(number),
        }
        Started::Ended
    }

    /// Nobody has answered: it is asked again, until it has been silent for too long.
    fn unanswered(&mut self, number: u32, why: Answer) -> Started {
        let now = Instant::now();
        let Some(qp) = self.qps.get_mut(&number) else { return Started::Ended };
        let patience = patience(qp.attr.timeout, qp.attr.retries);
        let patience = match why {
            Answer::Absent => {
                Some(patience.map_or(self.settings.absent, |time| time.min(self.settings.absent)))
            }
            _ => patience,
        };
        let Some(flight) = qp.flight.as_mut() else { return Started::Ended };
        let since = *flight.silent_since.get_or_insert(now);
        if patience.is_some_and(|patience| now - since >= patience) {
            return self.fail(number, IBV_WC_RETRY_EXC_ERR);
        }
        self.ask_again(number, now + ASK_AGAIN)
    }

    fn ask_again(&mut self, number: u32, at: Instant) -> Started {
        if let Some(flight) = self.qps.get_mut(&number).and_then(|qp| qp.flight.as_mut()) {
            (flight.via, flight.number, flight.retry_at) = (None, 0, Some(at));
            self.timers.insert((at, number));
            self.links.wake();
        }
        Started::Waits
    }

    /// Asks again where it is time.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, number));
            let flight = self.qps.get(&number).and_then(|qp| qp.flight.as_ref());
            let is_due = flight.is_some_and(|flight| flight.retry_at == Some(at));
            if is_due && let Started::Ended = self.start(number) {
                self.pump(number);
            }
        }
    }

    /// A reply has come.
    pub(crate) fn hear(&mut self, reply: &Reply, bytes: &[u8]) {
        let number = (reply.flight >> 32) as u32;
        let Some(qp) = self.qps.get_mut(&number) else { return };
        let Some(flight) = qp.flight.as_mut().filter(|flight| flight.number == reply.flight) else { return };
        let started = match reply.answer {
            Answer::Done => self.take_result(number, bytes),
            Answer::NoReceive(_) if flight.rnr_left == 0 => self.fail(number, IBV_WC_RNR_RETRY_EXC_ERR),
            Answer::NoReceive(code) => {
                flight.rnr_left -= u8::from(flight.rnr_left != FOR_EVER);
                flight.silent_since = None;
                self.ask_again(number, Instant::now() + rnr_time(code))
            }
            why @ (Answer::Absent | Answer::Silent) => self.unanswered(number, why),
            Answer::Refused => self.fail(number, IBV_WC_REM_ACCESS_ERR),
            Answer::Invalid => self.fail(number, IBV_WC_REM_INV_REQ_ERR),
            Answer::Failed => self.fail(number, IBV_WC_REM_OP_ERR),
        };
        if let Started::Ended = started {
            self.pump(number);
        }
    }

    /// What was read goes where it is wanted.
    fn take_result(&mut self, number: u32, bytes: &[u8]) -> Started {
        let Some(qp) = self.qps.get(&number) else { return Started::Ended };
        let Some(work) = qp.work.front() else { return Started::Ended };
        let put = match work.action {
            Action::Send | Action::Write => Ok(()),
            _ => self.regions.scatter(qp.pd, &work.pieces, bytes),
        };
        match put {
            Ok(()) => self.finish(number),
            Err(_) => self.fail(number, IBV_WC_LOC_PROT_ERR),
        }
    }

    /// A connection is gone: nobody answers what went through it.
    pub(crate) fn lose(&mut self, via: u32) {
        let is_lost = |flight: &Flight| flight.via == Some(via);
        let lost = self.qps.iter().filter(|(_, qp)| qp.flight.as_ref().is_some_and(is_lost));
        for number in lost.map(|(number, _)| *number).collect::<Vec<_>>() {
            if let Started::Ended = self.unanswered(number, Answer::Absent) {
                self.pump(number);
            }
        }
        self.lose_relays(via);
    }
}

/// How long a device asks until it gives up: 4.096 us times two to the power of its time, for the first time and for each
/// repetition. `None`: without end.
fn patience(timeout: u8, retries: u8) -> Option<Duration> {
    let once = Duration::from_nanos(4096 << timeout.min(31));
    (timeout != 0).then_some(once * (u32::from(retries) + 1))
}

/// How long a peer without a receive asks to be left alone: codes of the specification, in hundredths of a millisecond.
fn rnr_time(code: u8) -> Duration {
    const TIMES: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_micros(10 * TIMES[usize::from(code) % 32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_specification() {
        assert_eq!(rnr_time(12), Duration::from_micros(640));
        assert_eq!(patience(14, 7), Some(Duration::from_nanos(8 * (4096 << 14))));
        assert_eq!(patience(0, 7), None);
    }
}

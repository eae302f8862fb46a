//! Crossed dials, at the side whose stream stays: what the peer has sent early on the other one.
//!
//! Both sides have dialled, and the stream with the larger number stays. Its dialler, W, learns of the other dial by
//! its hello; the dialler of the other stream, L, learns that it has lost when it enters the library again, which may
//! be in an hour. What L has posted behind its hello is one sequence of bytes, of which L keeps a copy:
//!
//! ```text
//! losing stream    L -> W   HELLO, request, bytes 0 .. n          as L posts them, until L learns that it has lost
//! staying stream   L -> W   WELCOME, request, CROSSED, bytes 0 .. n, and whatever comes later
//! ```
//! W takes frames from the losing stream as soon as it has agreed to the connection, without any help of L. L closes
//! that stream when it learns that it has lost, in whatever way: bytes that W has not read need not arrive, since all
//! of them follow CROSSED. When W finds CROSSED it does not read the losing stream any more, leaves out as many
//! bytes of the staying one as it has taken from there, in the middle of a frame if need be, and closes it. So each byte is
//! taken once and in order, and it does not matter how far W came, whether the losing stream broke midway, or whether
//! W has ever heard the hello: then it leaves out nothing. Until CROSSED nothing but control messages comes on the
//! staying stream, and W's end of it is not settled.
//!
//! Rejected: L ends its losing stream in order, W reads it to its end, and only what was never written goes to the other
//! one. It saves sending up to 64 KiB twice, but then a losing stream that breaks, or that W has no
//! descriptor to accept, takes messages with it.
use super::{BreakReason, Sockets, Token};
use std::os::fd::AsFd;
use sys::poll::{Interest, Ready};
use sys::socket::Transfer;
use sys::tcp::Stream;

/// The peer's stream, which does not stay.
#[derive(Debug)]
pub(super) struct Losing {
    /// `None` when it has ended.
    stream: Option<Stream>,
    /// Number of its dial.
    dial: u64,
    /// Bytes that were read from it.
    read: u64,
    /// The last of them, if they are the beginning of a frame that has not arrived whole.
    partial: Vec<u8>,
    /// The connection breaks for this reason, when everything that has arrived here is taken.
    over: Option<BreakReason>,
}

impl Losing {
    pub fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    pub fn count(&mut self, bytes: usize) {
        self.read += bytes as u64;
    }

    pub fn keep(&mut self, partial: Vec<u8>) {
        self.partial = partial;
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Losing>() + self.partial.capacity()
    }
}

impl Sockets {
    /// The own stream stays: the peer's is read until the peer knows it too.
    pub(super) fn adopt_losing(&mut self, index: u32, dial: u64) {
        let nonce = self.links.at(index).map_or(0, |link| link.nonce);
        let Some(stream) = self.take_offered(nonce, dial) else { return };
        let token = self.losing_token(index).pack();
        // Fails only without memory in the kernel; its bytes then come on the other stream.
        let _ = self.poll.change(stream.as_fd(), token, Interest::Read);
        if let Some(link) = self.links.at_mut(index) {
            let losing = Losing { stream: Some(stream), dial, read: 0, partial: Vec::new(), over: None };
            link.losing = Some(Box::new(losing));
            self.look_at_losing(index);
        }
    }

    fn losing_token(&self, index: u32) -> Token {
        Token::Losing { index, generation: self.links.generation(index) }
    }

    fn look_at_losing(&mut self, index: u32) {
        let token = self.losing_token(index).pack();
        self.inbox.ready.push_back(Ready { token, readable: true, writable: false });
    }

    /// Something may have come on a losing stream.
    pub(super) fn losing_stirs(&mut self, index: u32, generation: u32) {
        let Some(link) = self.links.get(index as usize, generation) else { return };
        if link.losing.is_none() {
            return;
        }
        let moved = match link.body {
            Some(_) => self.read_body(index),
            None => self.read_losing(index),
        };
        let losing = self.links.at_mut(index).and_then(|link| link.losing.as_mut());
        match losing.map(|losing| &mut losing.over) {
            Some(Some(_)) if moved => self.look_at_losing(index),
            Some(over) => {
                if let Some(why) = over.take() {
                    self.break_link(index, why);
                }
            }
            None => {}
        }
    }

    /// Reads a losing stream; `true`: something happened.
    fn read_losing(&mut self, index: u32) -> bool {
        debug_assert!(self.inbox.staged.is_empty(), "bytes of another stream");
        let losing = self.links.at_mut(index).and_then(|link| link.losing.as_mut());
        let Some(losing) = losing else { return false };
        let Some(stream) = &losing.stream else { return false };
        let kept = losing.partial.len();
        match stream.read(&mut self.inbox.staging[kept..]) {
            Ok(Transfer::Bytes(bytes)) => {
                self.inbox.staging[..kept].copy_from_slice(&losing.partial);
                losing.partial = Vec::new();
                losing.count(bytes);
                self.inbox.staged = 0..kept + bytes;
                self.inbox.owner = index;
                true
            }
            Ok(Transfer::WouldBlock) => false,
            Ok(Transfer::Closed) | Err(_) => {
                self.end_losing(index);
                true
            }
        }
    }

    /// A losing stream has ended, which says nothing about the connection.
    pub(super) fn end_losing(&mut self, index: u32) {
        let losing = self.links.at_mut(index).and_then(|link| link.losing.as_mut());
        if let Some(stream) = losing.and_then(|losing| losing.stream.take()) {
            let _ = self.poll.remove(stream.as_fd());
            stream.close_hard();
            self.accept_again();
        }
    }

    /// Nothing is read from a losing stream any more.
    pub(super) fn drop_losing(&mut self, index: u32) {
        self.end_losing(index);
        if let Some(link) = self.links.at_mut(index) {
            link.losing = None;
        }
    }

    /// The peer has given its stream up: everything is read from the one that stays.
    pub(super) fn switch(&mut self, index: u32, dial: u64) {
        self.end_losing(index);
        let Some(link) = self.links.at_mut(index) else { return };
        let Some(losing) = link.losing.take() else { return };
        if losing.dial != dial {
            return self.break_link(index, BreakReason::Nonsense("it gives up another stream"));
        }
        link.partial = Vec::new();
        link.skip = losing.read - losing.partial.len() as u64;
        self.settle(index);
    }

    /// Leaves out what was taken from the losing stream.
    #[cold]
    pub(super) fn skip_staged(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        let skipped = self.inbox.staged.len().min(link.skip as usize);
        self.inbox.staged.start += skipped;
        link.skip -= skipped as u64;
        if link.skip == 0 && link.body.is_some() {
            self.fill_body(index);
        }
    }

    /// The stream that stays broke. What has arrived on the losing one is delivered first.
    pub(super) fn break_behind_losing(&mut self, index: u32, why: BreakReason) {
        let losing = self.links.at_mut(index).and_then(|link| link.losing.as_mut());
        match losing {
            Some(losing) => {
                losing.over.get_or_insert(why);
                self.drop_stream(index);
                self.look_at_losing(index);
            }
            None => self.break_link(index, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dial::params_of;
    use super::super::tests::{End, wait};
    use super::super::*;
    use super::Stream;
    use crate::event::Event;
    use crate::provider::{PostError, Posted, Push};

    /// One side of a pair that has dialled. Its messages carry their number, and their length follows from it.
    struct Side {
        end: End,
        qp: Qp,
        number: u64,
        asked: bool,
        heard: bool,
        connected: bool,
        posted: u64,
        got: u64,
        /// Work that is not done.
        works: Vec<WorkId>,
        cut: Option<Stream>,
    }

    fn body(number: u64) -> Vec<u8> {
        let len = [0, 8, 3000, 5000, 4000, 17_000, 3900, 300][number as usize % 8];
        (0..len).map(|at| (at + number as usize * 7) as u8).collect()
    }

    impl Side {
        fn pair(numbers: [u64; 2]) -> [Side; 2] {
            let mut ends = [End::new(), End::new()];
            let cards = [ends[0].card, ends[1].card];
            let qps = [0, 1].map(|side: usize| ends[side].ask(&cards[1 - side], numbers[side]));
            let [first, second] = ends;
            let side = |end, qp, number| Side {
                end,
                qp,
                number,
                asked: false,
                heard: false,
                connected: false,
                posted: 0,
                got: 0,
                works: Vec::new(),
                cut: None,
            };
            [side(first, qps[0], numbers[0]), side(second, qps[1], numbers[1])]
        }

        fn dial(&mut self, to: &Card) {
            if !std::mem::replace(&mut self.asked, true) {
                self.end.sockets.send_control(Some(self.qp), to, b"request").unwrap();
            }
        }

        /// Posts the next message.
        fn post(&mut self) {
            let (sockets, bytes) = (&mut self.end.sockets, body(self.posted));
            let posted = match bytes.is_empty() {
                false => sockets.post_send_bytes(self.qp, [self.posted, 0], &bytes, Push::Now),
                true => sockets.post_send(self.qp, [self.posted, 0], UserBuf::EMPTY, Push::Now),
            };
            match posted {
                Ok(Posted::Done) => {}
                Ok(Posted::Later(work)) => self.works.push(work),
                Err(PostError::Full) => return,
                Err(error) => panic!("{error}"),
            }
            self.posted += 1;
        }

        fn poll(&mut self) {
            match self.end.sockets.poll() {
                Some(Event::Datagram(bytes)) => {
                    assert_eq!(bytes, b"request");
                    self.heard = true;
                }
                Some(Event::Receive { qp, view }) => {
                    assert_eq!((qp, view.header()), (self.qp, [self.got, 0]));
                    assert!(view.to_vec() == body(self.got), "message {}", self.got);
                    self.got += 1;
                }
                Some(Event::Done(work, Ok(0))) => {
                    let at = self.works.iter().position(|posted| *posted == work).expect("posted, and once");
                    self.works.remove(at);
                }
                // Collected at the next poll.
                Some(Event::Incoming { .. }) | None => {}
                Some(other) => panic!("{other:?}"),
            }
        }

        /// The network gives up the losing stream, and only this side has noticed.
        fn cut_losing(&mut self) {
            let link = self.end.sockets.links.at_mut(self.qp.index() as u32).unwrap();
            if let Some(stream) = link.losing.as_mut().and_then(|losing| losing.stream.take()) {
                self.end.sockets.poll.remove(stream.as_fd()).unwrap();
                self.cut = Some(stream);
            }
        }

        fn connect_if_heard(&mut self, peer: &Card, number: u64) {
            if self.heard && !std::mem::replace(&mut self.connected, true) {
                self.end.sockets.rtr(self.qp, peer, &params_of(number)).unwrap();
                self.end.sockets.rts(self.qp).unwrap();
            }
        }
    }

    /// Polls both until everything has arrived and one stream is left.
    fn finish(sides: &mut [Side; 2]) {
        let cards = [sides[0].end.card, sides[1].end.card];
        let numbers = [sides[0].number, sides[1].number];
        wait("everything", || {
            for (at, side) in sides.iter_mut().enumerate() {
                side.poll();
                side.connect_if_heard(&cards[1 - at], numbers[1 - at]);
            }
            let [first, second] = &*sides;
            first.got == second.posted
                && second.got == first.posted
                && sides.iter().all(|side| side.works.is_empty() && side.end.has_one_stream())
        });
    }

    #[test]
    fn early_messages_of_the_losing_side_need_no_help() {
        let mut sides = Side::pair([20, 10]);
        let cards = [sides[0].end.card, sides[1].end.card];
        for (at, side) in sides.iter_mut().enumerate() {
            side.dial(&cards[1 - at]);
            (0..8).for_each(|_| side.post());
        }
        // The second side has lost, and computes. It posts on without a look at the network.
        for more in [0, 2, 1] {
            let [winner, loser] = &mut sides;
            (0..more).for_each(|_| loser.post());
            wait("what was posted", || {
                winner.poll();
                winner.connect_if_heard(&cards[1], 10);
                winner.got == loser.posted
            });
        }
        sides[1].post();
        finish(&mut sides);
        sides.iter_mut().for_each(|side| (0..9).for_each(|_| side.post()));
        finish(&mut sides);
    }

    #[test]
    fn early_messages_arrive_though_the_losing_side_dies() {
        let mut sides = Side::pair([20, 10]);
        let cards = [sides[0].end.card, sides[1].end.card];
        sides.iter_mut().enumerate().for_each(|(at, side)| side.dial(&cards[1 - at]));
        (0..8).for_each(|_| sides[1].post());
        let [mut winner, mut loser] = sides;
        wait("the request", || {
            winner.poll();
            winner.heard
        });
        // It welcomes the other side, and is gone before it has agreed.
        wait("the other request", || {
            loser.poll();
            loser.heard
        });
        let posted = loser.posted;
        winner.connect_if_heard(&cards[1], 10);
        drop(loser);
        wait("everything", || {
            winner.poll();
            winner.got == posted
        });
        wait("the end", || match winner.end.sockets.poll() {
            Some(Event::Broken { why, .. }) => {
                assert_eq!(why, BreakReason::Closed);
                true
            }
            None => false,
            other => panic!("{other:?}"),
        });
    }

    #[test]
    fn each_byte_is_taken_once_in_any_interleaving() {
        const SEEDS: u64 = 300;
        for seed in 1..=SEEDS {
            println!("seed {seed}");
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut draw = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let mut sides = Side::pair(if draw(2) == 0 { [10, 20] } else { [20, 10] });
            let cards = [sides[0].end.card, sides[1].end.card];
            let numbers = [sides[0].number, sides[1].number];
            for _ in 0..40 + draw(80) {
                let at = draw(2) as usize;
                let side = &mut sides[at];
                match draw(10) {
                    0 => side.dial(&cards[1 - at]),
                    1..=4 => side.post(),
                    5 => side.connect_if_heard(&cards[1 - at], numbers[1 - at]),
                    6 if draw(4) == 0 => side.cut_losing(),
                    _ => side.poll(),
                }
            }
            sides.iter_mut().enumerate().for_each(|(at, side)| side.dial(&cards[1 - at]));
            sides.iter_mut().for_each(Side::post);
            finish(&mut sides);
            sides.iter_mut().for_each(Side::post);
            finish(&mut sides);
        }
    }
}

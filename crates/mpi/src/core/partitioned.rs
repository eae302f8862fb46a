//! Partitioned messages: the program says part by part that a message may leave, and asks part by part what has arrived.
//!
//! The two ends of a channel meet by the order in which they are made (MPI-5 4.2.1). The sender's end tells the receiver
//! of itself in a small message, an *introduction*: its tag, and in which pieces data will come. Introductions keep their
//! order, so the first of a tag belongs to the first receive of that tag. Each piece has a number of its own as tag, so
//! that pieces may leave in any order and are received where they belong, without a copy where the data is flat.
//!
//! A piece is one partition of the sender, or several small ones together. The receiver's partitions are its own
//! business: one has arrived when the pieces that cover it have.
use super::comm::{Roster, check_tag};
use super::data::Checked;
use super::p2p::{Sending, element_count};
use super::request::{Recipe, Request, State};
use super::*;
use crate::buffer::{At, RecvBuf, Scratch, SendBuf};
use crate::error::{ErrorClass, MpiError, Result, fail};
use net::{Endpoint, Envelope, Pattern, Process, ReqId, SendMode};
use std::cell::Cell;
use std::rc::Rc;

/// Partitions smaller than this leave together with others.
const PIECE_BYTES_MIN: usize = 4 << 10;

/// Tag of introductions in the collective context. All negative tags down to -2^30 belong to `start_create_group`.
const INTRODUCTION: i32 = i32::MIN;
/// Numbers of pieces; their tags are above that of introductions.
const PIECES_MAX: u32 = (1 << 30) - 1;

const WORD: usize = size_of::<u64>();
const INTRODUCTION_WORDS: usize = 5;

/// How the data of a channel is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// The number of the first piece.
    first: u32,
    pieces: u32,
    /// Bytes of each piece but the last.
    each: u64,
    total: u64,
}

impl Cut {
    /// Pieces of whole partitions.
    fn new(first: u32, partitions: usize, partition_bytes: usize) -> Self {
        let group = group(partitions, partition_bytes);
        let (each, total) = ((group * partition_bytes) as u64, (partitions * partition_bytes) as u64);
        Cut { first, pieces: partitions.div_ceil(group) as u32, each, total }
    }

    /// Where a piece begins and ends.
    fn range(&self, piece: u32) -> std::ops::Range<u64> {
        let start = u64::from(piece) * self.each;
        start..(start + self.each).min(self.total)
    }

    /// The pieces that hold the bytes of a range.
    fn covering(&self, range: std::ops::Range<u64>) -> std::ops::Range<usize> {
        if self.total == 0 {
            return 0..self.pieces as usize; // one without bytes
        }
        let end = range.end.min(self.total);
        if range.start >= end || self.each == 0 {
            return 0..0;
        }
        (range.start / self.each) as usize..((end - 1) / self.each + 1) as usize
    }

    fn tag(&self, piece: u32) -> i32 {
        INTRODUCTION + 1 + ((self.first + piece) % PIECES_MAX) as i32
    }

    fn words(&self, tag: i32) -> [u64; INTRODUCTION_WORDS] {
        [tag as u32 as u64, self.first.into(), self.pieces.into(), self.each, self.total]
    }

    /// What a peer says must make sense.
    fn parse([tag, first, pieces, each, total]: [u64; INTRODUCTION_WORDS]) -> Option<(i32, Cut)> {
        let cut = Cut {
            first: u32::try_from(first).ok().filter(|first| *first < PIECES_MAX)?,
            pieces: u32::try_from(pieces).ok().filter(|pieces| (1..PIECES_MAX).contains(pieces))?,
            each,
            total,
        };
        let all_but_one = each.checked_mul(pieces - 1)?;
        let fits = all_but_one <= total && total - all_but_one <= each;
        fits.then_some((tag as u32 as i32, cut))
    }
}

/// Partitions in a piece.
fn group(partitions: usize, partition_bytes: usize) -> usize {
    match partition_bytes {
        0 => partitions,
        bytes => PIECE_BYTES_MIN.div_ceil(bytes).min(partitions),
    }
}

/// The channels of a process that wait for each other's ends.
#[derive(Default)]
pub(super) struct Channels {
    /// Receives without an introduction, in the order in which they were made.
    waiting: Vec<(Key, Rc<Cell<Option<Cut>>>)>,
    /// Introductions without a receive, in the order in which they arrived.
    untaken: Vec<(Key, Cut)>,
    /// Introductions that are being received.
    arriving: Vec<(ReqId, Scratch, u32, Process)>,
    next_piece: u32,
}

/// What both ends of a channel have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    context: u32,
    sender: Process,
    tag: i32,
}

impl Channels {
    fn pieces(&mut self, partitions: usize, partition_bytes: usize) -> Cut {
        let cut = Cut::new(self.next_piece, partitions, partition_bytes);
        self.next_piece = (self.next_piece + cut.pieces) % PIECES_MAX;
        cut
    }

    /// A new receive: its cut is known when it is set.
    fn expect(&mut self, key: Key) -> Rc<Cell<Option<Cut>>> {
        let place = self.untaken.iter().position(|(other, _)| *other == key);
        let cut = Rc::new(Cell::new(place.map(|place| self.untaken.remove(place).1)));
        if place.is_none() {
            self.waiting.push((key, cut.clone()));
        }
        cut
    }

    /// Takes introductions of a sender that have arrived. An error: no more will come.
    fn listen(&mut self, endpoint: &mut Endpoint, context: u32, sender: Process) -> Result<()> {
        let pattern = Pattern { context, source: Some(sender), tag: Some(INTRODUCTION) };
        let mut lost = None;
        loop {
            let message = match endpoint.improbe(pattern) {
                Ok(Some((message, _))) => message,
                Ok(None) => break,
                Err(error) => {
                    lost = Some(error.into());
                    break;
                }
            };
            let mut room = Scratch::with(INTRODUCTION_WORDS * WORD);
            let id = endpoint.imrecv(message, room.part(INTRODUCTION_WORDS * WORD));
            self.arriving.push((id, room, context, sender));
        }
        // In the order of arrival: a later one must not be taken before an earlier one of its sender.
        while let Some((id, ..)) = self.arriving.first() {
            let Some(outcome) = endpoint.take(*id) else { return Ok(()) };
            let (_, words, context, sender) = self.arriving.remove(0);
            let known = outcome.is_ok().then(|| Cut::parse(std::array::from_fn(|at| words.word(at))));
            if let Some((tag, cut)) = known.flatten() {
                self.introduce(Key { context, sender, tag }, cut);
            }
        }
        lost.map_or(Ok(()), Err)
    }

    fn introduce(&mut self, key: Key, cut: Cut) {
        match self.waiting.iter().position(|(other, _)| *other == key) {
            Some(place) => self.waiting.remove(place).1.set(Some(cut)),
            None => self.untaken.push((key, cut)),
        }
    }
}

/// One end of a channel.
pub(super) struct Partitioned {
    end: End,
    context: u32,
    /// `None`: the null process.
    peer: Option<Process>,
    partitions: usize,
    partition_bytes: usize,
    active: bool,
    finished: bool,
    failed: Option<MpiError>,
}

enum End {
    Send(Leaving),
    Recv(Arriving),
}

/// The sender's end.
struct Leaving {
    data: Checked<SendBuf>,
    cut: Cut,
    ready: Vec<bool>,
    /// Partitions of each piece that are not ready.
    missing: Vec<usize>,
    /// Pieces that have not left.
    left: usize,
    sends: Vec<Sending>,
}

/// The receiver's end.
struct Arriving {
    data: Checked<RecvBuf>,
    cut: Rc<Cell<Option<Cut>>>,
    roster: Rc<Roster>,
    tag: i32,
    posted: bool,
    receives: Vec<(ReqId, u32, Option<Scratch>)>,
    arrived: Vec<bool>,
}

impl Partitioned {
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    pub(super) fn is_finished(&self) -> bool {
        !self.active || self.finished
    }

    /// The program has seen its end.
    pub(super) fn rest(&mut self) {
        self.active = false;
    }

    /// The status, once complete.
    pub(super) fn status(&mut self) -> Result<Option<Status>> {
        if !self.is_finished() {
            return Ok(None);
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let (true, End::Recv(end)) = (self.active, &self.end) else { return Ok(Some(Status::EMPTY)) };
        Ok(Some(match (self.peer, end.cut.get()) {
            (Some(peer), Some(cut)) => Status {
                source: end.roster.rank_of(Some(peer)),
                tag: Tag::Is(end.tag),
                bytes: cut.total as usize,
                ..Status::EMPTY
            },
            _ => Status::PROC_NULL,
        }))
    }

    /// Begins another round.
    pub(super) fn start(&mut self) {
        (self.active, self.finished, self.failed) = (true, false, None);
        let group = group(self.partitions, self.partition_bytes);
        match &mut self.end {
            End::Send(end) => {
                end.ready.fill(false);
                end.left = end.cut.pieces as usize;
                for (piece, missing) in end.missing.iter_mut().enumerate() {
                    *missing = group.min(self.partitions - piece * group);
                }
            }
            End::Recv(end) => {
                end.posted = false;
                end.arrived.clear();
            }
        }
    }

    /// Goes on as far as possible. Did it come to its end?
    pub(super) fn advance(&mut self, endpoint: &mut Endpoint, channels: &mut Channels) -> bool {
        if self.finished || !self.active {
            return false;
        }
        self.finished = match &mut self.end {
            End::Send(end) => end.advance(endpoint, &mut self.failed),
            End::Recv(end) => {
                let Some(sender) = self.peer else {
                    self.finished = true;
                    return true;
                };
                end.advance(endpoint, channels, (self.context, sender), &mut self.failed)
            }
        };
        self.finished
    }

    fn check(&self, partition: i32) -> Result<usize> {
        match usize::try_from(partition) {
            Ok(partition) if partition < self.partitions => Ok(partition),
            _ => fail(ErrorClass::Arg, format!("partition {partition} of {}", self.partitions)),
        }
    }

    /// A partition may leave.
    fn ready(&mut self, endpoint: &mut Endpoint, partition: i32) -> Result<()> {
        let partition = self.check(partition)?;
        let group = group(self.partitions, self.partition_bytes);
        let End::Send(end) = &mut self.end else {
            return fail(ErrorClass::Request, "the request receives");
        };
        if !self.active {
            return fail(ErrorClass::Request, "the request is not active");
        }
        if std::mem::replace(&mut end.ready[partition], true) {
            return fail(ErrorClass::Arg, format!("partition {partition} was ready already"));
        }
        let piece = partition / group;
        end.missing[piece] -= 1;
        if end.missing[piece] > 0 {
            return Ok(());
        }
        end.left -= 1;
        match self.peer {
            Some(to) => end.send(endpoint, (to, self.context), piece as u32, &mut self.failed),
            None => Ok(()),
        }
    }

    /// Has a partition arrived?
    fn has_arrived(&self, partition: i32) -> Result<bool> {
        let partition = self.check(partition)? as u64;
        let End::Recv(end) = &self.end else {
            return fail(ErrorClass::Request, "the request sends");
        };
        if !self.active || self.peer.is_none() {
            return Ok(true);
        }
        let (Some(cut), true) = (end.cut.get(), end.posted) else { return Ok(false) };
        let bytes = self.partition_bytes as u64;
        let mut covering = cut.covering(partition * bytes..(partition + 1) * bytes);
        Ok(covering.all(|piece| end.arrived.get(piece).copied().unwrap_or(false)))
    }
}

impl Leaving {
    fn send(
        &mut self,
        endpoint: &mut Endpoint,
        (to, context): (Process, u32),
        piece: u32,
        failed: &mut Option<MpiError>,
    ) -> Result<()> {
        let range = self.cut.range(piece);
        let (bytes, Checked { buf, count, ty }) = ((range.end - range.start) as usize, &self.data);
        let (from, packed) = match ty.flat(*count) {
            Some((offset, _)) => (buf.range(offset + range.start as isize, bytes), None),
            None => {
                let mut packed = Scratch::with(bytes);
                ty.pack_range(*buf, *count, range, packed.part(bytes));
                (packed.part(bytes).as_source(), Some(packed))
            }
        };
        let envelope = Envelope { context, tag: self.cut.tag(piece) };
        match endpoint.isend(to, envelope, from, SendMode::Standard) {
            Ok(None) => {}
            Ok(Some(id)) => self.sends.push((id, packed)),
            Err(error) => *failed = Some(error.into()),
        }
        Ok(())
    }

    fn advance(&mut self, endpoint: &mut Endpoint, failed: &mut Option<MpiError>) -> bool {
        self.sends.retain(|(id, _)| {
            let Some(outcome) = endpoint.take(*id) else { return true };
            if let Err(error) = outcome {
                *failed = Some(error.into());
            }
            false
        });
        self.left == 0 && self.sends.is_empty()
    }
}

impl Arriving {
    fn advance(
        &mut self,
        endpoint: &mut Endpoint,
        channels: &mut Channels,
        (context, sender): (u32, Process),
        failed: &mut Option<MpiError>,
    ) -> bool {
        if !self.posted {
            let heard = match self.cut.get() {
                Some(_) => Ok(()),
                None => channels.listen(endpoint, context, sender),
            };
            let Some(cut) = self.cut.get() else {
                *failed = heard.err();
                return failed.is_some();
            };
            let room = (self.data.ty.size * self.data.count) as u64;
            if cut.total > room {
                let text = format!("{} bytes are sent where {room} are received", cut.total);
                *failed = Some(MpiError::new(ErrorClass::Truncate, text));
                return true;
            }
            self.post(endpoint, (context, sender), cut);
        }
        let mut index = 0;
        while index < self.receives.len() {
            let Some(outcome) = endpoint.take(self.receives[index].0) else {
                index += 1;
                continue;
            };
            let (_, piece, room) = self.receives.swap_remove(index);
            match outcome {
                Ok(outcome) => self.place(piece, room, outcome.bytes),
                Err(error) => *failed = Some(error.into()),
            }
            self.arrived[piece as usize] = true;
        }
        self.receives.is_empty()
    }

    fn post(&mut self, endpoint: &mut Endpoint, (context, sender): (u32, Process), cut: Cut) {
        self.posted = true;
        self.arrived.resize(cut.pieces as usize, false);
        let Checked { buf, count, ty } = &self.data;
        for piece in 0..cut.pieces {
            let range = cut.range(piece);
            let bytes = (range.end - range.start) as usize;
            let pattern = Pattern { context, source: Some(sender), tag: Some(cut.tag(piece)) };
            let (into, room) = match ty.flat(*count) {
                Some((offset, _)) => (buf.range(offset + range.start as isize, bytes), None),
                None => {
                    let mut room = Scratch::with(bytes);
                    (room.part(bytes), Some(room))
                }
            };
            self.receives.push((endpoint.irecv(pattern, into), piece, room));
        }
    }

    /// Spreads the bytes of a piece over the program's memory, if they are not there already.
    fn place(&self, piece: u32, room: Option<Scratch>, bytes: usize) {
        if let (Some(mut room), Some(cut)) = (room, self.cut.get()) {
            let Checked { buf, count, ty } = &self.data;
            ty.unpack_range(room.part(bytes).as_source(), *buf, *count, cut.range(piece).start);
        }
    }
}

impl Mpi {
    /// Prepares a message of `partitions` parts, each as large as `part`; [`Mpi::start_request`] starts it.
    pub fn psend_init(
        &mut self,
        comm: CommId,
        part: SendData,
        partitions: i32,
        dest: Dest,
    ) -> Result<RequestId> {
        self.room_for_request()?;
        let to = self.address(comm, dest)?.map(|(to, _)| to);
        let (data, partitions, partition_bytes) = self.whole(part, partitions)?;
        let roster = self.comm(comm)?.roster.clone();
        let cut = self.channels.pieces(partitions, partition_bytes);
        let context = roster.collective_context();
        if let Some(to) = to {
            self.introduce(to, Envelope { context, tag: INTRODUCTION }, cut.words(dest.tag))?;
        }
        let (ready, missing) = (vec![false; partitions], vec![0; cut.pieces as usize]);
        let end = End::Send(Leaving { data, cut, ready, missing, left: 0, sends: Vec::new() });
        Ok(self.add_partitioned(comm, roster, (end, to), partitions, partition_bytes))
    }

    /// Prepares to receive a message of `partitions` parts, each as large as `part`.
    pub fn precv_init(
        &mut self,
        comm: CommId,
        part: RecvData,
        partitions: i32,
        source: Source,
    ) -> Result<RequestId> {
        self.room_for_request()?;
        let roster = self.comm(comm)?.roster.clone();
        let (Tag::Is(tag), Peer::Rank(_) | Peer::Null) = (source.tag, source.peer) else {
            return fail(ErrorClass::Arg, "a partitioned receive has one source and one tag");
        };
        check_tag(tag)?;
        let from = self.pattern(comm, source)?.and_then(|pattern| pattern.source);
        let (data, partitions, partition_bytes) = self.whole(part, partitions)?;
        let context = roster.collective_context();
        let cut = match from {
            Some(sender) => self.channels.expect(Key { context, sender, tag }),
            None => Rc::default(),
        };
        let (receives, arrived) = (Vec::new(), Vec::new());
        let end = Arriving { data, cut, roster: roster.clone(), tag, posted: false, receives, arrived };
        Ok(self.add_partitioned(comm, roster, (End::Recv(end), from), partitions, partition_bytes))
    }

    /// A partition of a send may leave.
    pub fn pready(&mut self, request: RequestId, partition: i32) -> Result<()> {
        let entry = self.requests.get_mut(request.0);
        let Some(Request { state: State::Partitioned(end), .. }) = entry else {
            return fail(ErrorClass::Request, format!("request {} has no partitions", request.0));
        };
        end.ready(&mut self.endpoint, partition)?;
        if end.advance(&mut self.endpoint, &mut self.channels) {
            self.running.retain(|other| *other != request);
            self.endpoint.note_end();
        }
        Ok(())
    }

    /// Has a partition of a receive arrived? Makes no progress.
    pub fn parrived(&mut self, request: RequestId, partition: i32) -> Result<bool> {
        match &self.entry_mut(request)?.state {
            State::Partitioned(end) => end.has_arrived(partition),
            _ => fail(ErrorClass::Request, format!("request {} has no partitions", request.0)),
        }
    }

    /// All partitions as one, their number and the bytes of each.
    fn whole<B: At>(&self, part: Data<B>, partitions: i32) -> Result<(Checked<B>, usize, usize)> {
        let Some(number) = usize::try_from(partitions).ok().filter(|number| *number > 0) else {
            return fail(ErrorClass::Arg, format!("{partitions} partitions"));
        };
        let bytes = self.committed(part.ty)?.bytes(element_count(part.count)?)?;
        let mut data = self.checked(part)?;
        data.count = data.count.saturating_mul(number);
        data.bytes()?;
        Ok((data, number, bytes))
    }

    fn introduce(&mut self, to: Process, envelope: Envelope, words: [u64; INTRODUCTION_WORDS]) -> Result<()> {
        let mut message = Scratch::with(INTRODUCTION_WORDS * WORD);
        for (at, word) in words.into_iter().enumerate() {
            message.set_word(at, word);
        }
        let from = message.part(INTRODUCTION_WORDS * WORD).as_source();
        if let Some(id) = self.endpoint.isend(to, envelope, from, SendMode::Standard)? {
            let state = State::sending(id, Some(message), Status::EMPTY);
            let request = self.add_request(Request::detached(state));
            self.request_free(request)?;
        }
        Ok(())
    }

    fn add_partitioned(
        &mut self,
        comm: CommId,
        roster: Rc<Roster>,
        (end, peer): (End, Option<Process>),
        partitions: usize,
        partition_bytes: usize,
    ) -> RequestId {
        let context = roster.collective_context();
        let (active, finished, failed) = (false, false, None);
        let state = Partitioned { end, context, peer, partitions, partition_bytes, active, finished, failed };
        let mut request = Request::persistent(comm, Recipe::Partitioned, roster);
        request.state = State::Partitioned(Box::new(state));
        self.add_request(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_partitions_leave_together_and_large_ones_alone() {
        let pieces = |partitions, bytes| {
            let cut = Cut::new(7, partitions, bytes);
            (cut.pieces, cut.each)
        };
        assert_eq!(pieces(10, 8), (1, 80));
        assert_eq!(pieces(1000, 8), (2, 4096));
        assert_eq!(pieces(3, 5000), (3, 5000));
        assert_eq!(pieces(5, 3000), (3, 6000));
        assert_eq!(pieces(5, 0), (1, 0));
    }

    #[test]
    fn pieces_cover_all_bytes_and_every_partition_of_the_receiver() {
        for (partitions, bytes) in [(1, 1), (5, 3000), (7, 4096), (9, 1000), (3, 0)] {
            let cut = Cut::new(PIECES_MAX - 2, partitions, bytes);
            let mut end = 0;
            for piece in 0..cut.pieces {
                let range = cut.range(piece);
                assert_eq!(range.start, end);
                assert!(cut.tag(piece) > INTRODUCTION && cut.tag(piece) < -(1 << 30));
                end = range.end;
                for at in range {
                    assert!(cut.covering(at..at + 1).eq([piece as usize]));
                }
            }
            assert_eq!(end, (partitions * bytes) as u64);
            // Nothing but what has no bytes lies behind the end.
            assert_eq!(cut.covering(end..end + 5).len(), usize::from(bytes == 0));
            assert_eq!(Cut::parse(cut.words(3)), Some((3, cut)));
        }
    }

    #[test]
    fn an_introduction_that_makes_no_sense_is_no_introduction() {
        let cut = Cut::new(1, 5, 3000);
        for bad in [
            Cut { pieces: 0, ..cut },
            Cut { first: u32::MAX, ..cut },
            Cut { pieces: 9, ..cut },
            Cut { each: u64::MAX, ..cut },
            Cut { total: u64::MAX, ..cut },
        ] {
            assert_eq!(Cut::parse(bad.words(3)), None, "{bad:?}");
        }
    }

    #[test]
    fn ends_of_channels_meet_in_the_order_of_their_making() {
        let mut channels = Channels::default();
        let key = |tag| Key { context: 3, sender: Process(1), tag };
        let cut = |first| Cut { first, pieces: 1, each: 8, total: 8 };
        let early = channels.expect(key(5));
        channels.introduce(key(6), cut(10));
        channels.introduce(key(5), cut(11));
        channels.introduce(key(5), cut(12));
        let (late, other) = (channels.expect(key(5)), channels.expect(key(6)));
        assert_eq!([early.get(), late.get(), other.get()], [Some(cut(11)), Some(cut(12)), Some(cut(10))]);
        assert_eq!(channels.expect(key(6)).get(), None);
    }
}

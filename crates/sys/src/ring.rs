//! One direction of a same-host connection: a single-writer, single-reader ring in the reader's segment.
//!
//! A slot is one cache line whose first word holds the lap and the length, with header and payload behind
//! it in the same line: a small message moves with one line transfer, and the reader polls exactly that
//! line. Longer messages go on in the following lines (and wrap around). Only the first line of a message
//! carries a lap, and what stands in a continuation line may never be taken for one. The writer remembers
//! which lines it used so; when the line behind a message is one of them, it clears that line's first word
//! before it publishes the message. (A reader that cleared the lines it has read would take every line away
//! from the writer, who then has to fetch it back.)
//!
//! The first line of the ring is the reader's: lines consumed (credits, returned lazily),
//! flags, and the place of another ring when it made one. Growth: the writer asks ([`Kind::Grow`]), the
//! reader offers, the writer says [`Kind::Switch`] as its last word in the old ring. The way back is the same, but for
//! who begins: the reader offers a small ring, and asks by [`Kind::Move`] in the ring of the other direction, since a
//! writer that has nothing to write does not look.
//!
//! A writer that waits for room may sleep: it says so in the one word of the first line that is its own, and the reader,
//! who looks at that word only when it returns credits or offers a larger ring, then knows that it has to ring.
//!
//! The memory may as well be in the writer's segment, mapped by the reader, who may come after the first messages.
//!
//! What it is not: it neither wakes a sleeping reader or writer nor sets a ready bit; see `segment`.
#[cfg(all(test, loom))]
pub(crate) mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::cpu::Barrier;
use crate::mem::{SharedMap, UserBuf, UserBufMut};
use crate::sync::{AtomicU32, AtomicU64, Bug, planted};
use std::sync::atomic::Ordering;

/// Bytes of a line.
pub const LINE: usize = if cfg!(all(test, loom)) { 32 } else { 64 };
/// The smallest ring: what a connection costs first. It takes one message of 4 KiB.
pub const RING_BYTES_MIN: usize = if cfg!(all(test, loom)) { 5 * LINE } else { 5 << 10 };
const _: () = assert!(payload_max(RING_BYTES_MIN) >= if cfg!(all(test, loom)) { 8 } else { 4096 });
/// Bytes in front of a payload: the slot word and the header.
const PREFIX: usize = 24;
/// A payload this long begins at a line: copying to and from places that are aligned otherwise takes longer than a line.
const ALIGNED_MIN: usize = if cfg!(all(test, loom)) { usize::MAX } else { 512 };

/// How far behind its slot word a payload begins.
#[inline]
const fn payload_at(len: usize) -> usize {
    if len < ALIGNED_MIN { PREFIX } else { LINE }
}

/// Lines that a message takes.
#[inline]
const fn lines_for(len: usize) -> u32 {
    (payload_at(len) + len).div_ceil(LINE) as u32
}

// Offsets in the control line.
const AT_CONSUMED: usize = 0;
const AT_FLAGS: usize = 8;
const AT_NEXT_BYTES: usize = 12;
const AT_NEXT_OFFSET: usize = 16;
/// Not zero while the writer waits for room. Set by the writer, cleared by either.
const AT_WAITING: usize = 24;
/// Number of the reader's ready bit, plus one, for a writer that cannot know it otherwise: the reader has begun.
const AT_READY_ID: usize = 28;

/// Stands in the place of a larger ring's length: there will be none.
const NO_GROWTH: u32 = u32::MAX;

const FLAG_POLLED: u32 = 1;
const FLAG_FRUGAL: u32 = 2;

const LEN_BITS: u32 = 28;
const LEN_MAX: usize = (1 << LEN_BITS) - 1;

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Data = 0,
    /// The writer wants a ring that takes messages of the length in the slot.
    Grow = 1,
    /// The writer goes on in the ring that was offered.
    Switch = 2,
    /// For the other direction: its writer is asked to go on in the ring that was offered.
    Move = 3,
}

/// The ring has no room at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What the reader said to a writer that wants a larger ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Nothing yet.
    Open,
    /// There is one, in the reader's segment.
    Offered {
        /// Where.
        offset: u64,
        /// Its length.
        bytes: usize,
    },
    /// There will be none.
    Refused,
}

/// What the reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing yet.
    Empty,
    /// A message: [`RingRx::view`] lends it.
    Message,
    /// The writer would like room for messages of that many bytes. Consumed by seeing it.
    Grow(usize),
    /// The writer has moved to the ring that was offered: this was its last word here.
    Switch,
    /// The peer asks this side to move to the ring that it has offered. Consumed by seeing it.
    Move,
    /// The memory holds what no writer writes.
    Broken,
}

/// The largest payload for a ring of that many bytes.
pub const fn payload_max(ring_bytes: usize) -> usize {
    // Two lines stay free (see `send`), an eighth may be unreturned credit.
    let lines = ring_bytes / LINE - 1;
    let room = (lines - lines / CREDIT_PART - 2) * LINE;
    room - payload_at(room)
}

/// Credits go back when this part of the ring has been consumed.
const CREDIT_PART: usize = if cfg!(all(test, loom)) { 4 } else { 8 };

/// A writer of a ring no larger than this asks for a larger one when it has looked for credits that often.
const SMALL_BYTES_MAX: usize = 8 << 10;
const LOOKS: u32 = 16;

/// So far ahead of a small message its writer claims a line; and a reader that is behind fetches one.
const CLAIM_AHEAD: usize = 4;
const FETCH_AHEAD: usize = 4;
/// Of a longer one it claims at most so many.
const CLAIM_MAX: u32 = 256;

/// How often a writer found no room, or had to look whether there is.
#[derive(Debug, Default)]
struct Pressure {
    looks: u32,
    fulls: u32,
    /// Lines written when it did so last.
    at: u64,
}

impl Pressure {
    /// The ring is full. Is it time to ask for a larger one? At the second time, and then now and again: the reader
    /// may think otherwise by then.
    fn rises(&mut self, written: u64) -> bool {
        if self.at == written {
            return false; // still, not again
        }
        self.at = written;
        self.fulls = self.fulls.wrapping_add(1);
        self.fulls == 2 || self.fulls.is_multiple_of(8)
    }
}

/// The writing end.
#[derive(Debug)]
pub struct RingTx {
    map: SharedMap,
    lines: u32,
    at: u32,
    lap: u32,
    written: u64,
    /// `written` may not pass this.
    limit: u64,
    /// The longest payload that growth was asked for.
    asked: Option<usize>,
    pressure: Pressure,
    ended: bool,
    /// Lines that hold the middle of an earlier message, a bit each.
    stale: Box<[u64]>,
}

impl RingTx {
    /// Takes the writing end of a ring in `map` (all of the mapping, fresh or zeroed).
    pub fn new(map: SharedMap) -> Self {
        let lines = lines_of(&map);
        let stale = vec![0; lines as usize / 64 + 1].into_boxed_slice();
        let (limit, pressure) = (u64::from(lines), Pressure::default());
        RingTx { map, lines, at: 0, lap: 1, written: 0, limit, asked: None, pressure, ended: false, stale }
    }

    /// The largest payload that can ever fit.
    pub fn payload_max(&self) -> usize {
        payload_max(self.map.bytes())
    }

    /// Bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.map.bytes()
    }

    /// Writes a message, if there is room.
    #[inline]
    pub fn send(&mut self, header: [u64; 2], payload: UserBuf) -> Result<(), Full> {
        let lines = lines_for(payload.len());
        // One free line is kept for Grow and Switch, and one behind it that may have to be cleared.
        if self.written + u64::from(lines) + 1 >= self.limit && !self.refresh(lines + 1) {
            return Err(Full);
        }
        let line = (self.at as usize + 1) * LINE;
        self.map.assert_inside(line, LINE); // once, for all that follows
        // The line is the writer's: its credit has come back.
        self.map.write_words(line + 8, header);
        self.write_payload(payload, lines);
        self.publish(lines, Kind::Data, payload.len());
        self.claim_ahead(lines);
        Ok(())
    }

    /// The reader has had the lines ahead since the last lap: asks for those of another message like this one, which
    /// come while the reader is busy with this one.
    #[inline]
    fn claim_ahead(&self, lines: u32) {
        let known = self.limit.saturating_sub(self.written) as u32;
        for ahead in 0..lines.min(known).min(CLAIM_MAX) {
            self.map.claim(wrapped(&self.map, (self.at + ahead + 1) as usize * LINE));
        }
    }

    /// As [`RingTx::send`], if there is room that is known already. Nothing has been done if it says `false`.
    #[inline(always)]
    pub fn send_short(&mut self, header: [u64; 2], payload: UserBuf) -> bool {
        if payload.len() > LINE - PREFIX {
            return payload.len() <= self.payload_max() && self.send(header, payload).is_ok();
        }
        if self.written + 2 >= self.limit {
            return false;
        }
        let line = (self.at as usize + 1) * LINE;
        self.map.assert_inside(line, LINE);
        self.map.write_words(line + 8, header);
        if payload.len() == 8 {
            self.map.write_words(line + PREFIX, [payload.read_word()]);
        } else {
            self.map.copy_in(line + PREFIX, payload);
        }
        self.publish(1, Kind::Data, payload.len());
        // The reader has had the lines ahead since the last lap: to get one back takes longer than to send a message.
        if self.written + CLAIM_AHEAD as u64 + 1 < self.limit {
            self.map.claim(wrapped(&self.map, (self.at as usize + CLAIM_AHEAD) * LINE));
        }
        true
    }

    /// Writes a message from ordinary memory, if there is room.
    pub fn send_bytes(&mut self, header: [u64; 2], payload: &[u8]) -> Result<(), Full> {
        // SAFETY: the slice is readable for the whole call, and `send` keeps no reference.
        self.send(header, unsafe { UserBuf::new(payload.as_ptr(), payload.len()) })
    }

    /// Asks for a ring that can hold messages of `payload_bytes`; once for each length.
    pub fn ask_growth(&mut self, payload_bytes: usize) {
        if self.asked.is_none_or(|asked| asked < payload_bytes) && self.say(Kind::Grow, payload_bytes).is_ok()
        {
            self.asked = Some(payload_bytes);
        }
    }

    /// There is no room, once more: asks for a larger ring, if that has happened often enough.
    pub fn ask_if_pressed(&mut self, payload_bytes: usize) {
        if self.pressure.rises(self.written) {
            let _ = self.say(Kind::Grow, payload_bytes);
        }
    }

    /// Asks the peer to move, in the other direction, to the ring that it was offered there.
    pub fn ask_move(&mut self) -> Result<(), Full> {
        self.say(Kind::Move, 0)
    }

    /// A word of one line.
    fn say(&mut self, kind: Kind, len: usize) -> Result<(), Full> {
        if self.written + 1 >= self.limit && !self.refresh(1) {
            return Err(Full);
        }
        self.publish(1, kind, len.min(LEN_MAX));
        Ok(())
    }

    /// Lines written so far.
    pub fn lines_written(&self) -> u64 {
        self.written
    }

    /// The memory, cleared, of a ring that has been read to its end; if not more than its first `most` bytes were used.
    pub fn into_cleared(self, most: usize) -> Option<SharedMap> {
        let used = (self.written.min(self.lines.into()) as usize + 1) * LINE;
        if used > most.min(self.map.bytes()) {
            return None;
        }
        self.map.part(0, used).clear();
        Some(self.map)
    }

    /// What the reader said about a larger ring.
    pub fn growth(&self) -> Growth {
        match self.map.u32_at(AT_NEXT_BYTES).load(Ordering::Acquire) {
            0 => Growth::Open,
            NO_GROWTH => Growth::Refused,
            bytes => {
                let offset = self.map.u64_at(AT_NEXT_OFFSET).load(Ordering::Relaxed);
                Growth::Offered { offset, bytes: bytes as usize }
            }
        }
    }

    /// Number of the reader's ready bit for this ring, once it has begun to read. For rings in the writer's memory.
    pub fn ready_id(&self) -> Option<u32> {
        self.map.u32_at(AT_READY_ID).load(Ordering::Acquire).checked_sub(1)
    }

    /// Has the last word been said and read? Then nobody looks at the ring any more.
    pub fn is_read_to_its_end(&self) -> bool {
        self.ended && self.map.u64_at(AT_CONSUMED).load(Ordering::Acquire) == self.written
    }

    /// Says the last word in this ring. `Err` when even that has no room now.
    pub fn switch(&mut self) -> Result<(), Full> {
        self.say(Kind::Switch, 0)?;
        self.ended = true;
        Ok(())
    }

    /// Is there room for a payload of `bytes` now?
    pub fn has_room(&mut self, bytes: usize) -> bool {
        let lines = lines_for(bytes);
        self.written + u64::from(lines) + 1 < self.limit || self.refresh(lines + 1)
    }

    /// Says that the writer is going to sleep until there is room, or is awake again. A barrier that is heavy
    /// ([`Barrier::heavy`]; `Segment::arm` has one) and another look ([`RingTx::has_room`], [`RingTx::growth`]) come
    /// between saying so and the sleep. Had it been said already?
    pub fn set_waiting(&self, waiting: bool) -> bool {
        self.map.u32_at(AT_WAITING).swap(u32::from(waiting), Ordering::SeqCst) == u32::from(waiting)
    }

    /// Does the reader look at this ring by itself, without a ready bit?
    #[inline]
    pub fn is_polled(&self) -> bool {
        self.flags().load(Ordering::Relaxed) & FLAG_POLLED != 0
    }

    /// Does the reader ask for rendezvous instead of eager messages, being short of memory?
    #[inline]
    pub fn is_frugal(&self) -> bool {
        self.flags().load(Ordering::Relaxed) & FLAG_FRUGAL != 0
    }

    #[inline]
    fn flags(&self) -> &AtomicU32 {
        self.map.u32_at(AT_FLAGS)
    }

    #[cold]
    fn refresh(&mut self, lines: u32) -> bool {
        let consumed = self.map.u64_at(AT_CONSUMED).load(Ordering::Acquire);
        // A reader's word that goes backwards or ahead of what was written is no credit.
        if consumed <= self.written && consumed + u64::from(self.lines) >= self.limit {
            self.limit = consumed + u64::from(self.lines);
        }
        let room = self.written + u64::from(lines) < self.limit;
        if room && self.map.bytes() <= SMALL_BYTES_MAX {
            self.tighten(lines);
        }
        room
    }

    /// The writer had to look for credits. Who has to do so all the time has too small a ring, even if it never finds
    /// it full; room for `lines` stays.
    fn tighten(&mut self, lines: u32) {
        self.pressure.looks = self.pressure.looks.wrapping_add(1);
        if self.pressure.looks.is_multiple_of(LOOKS) && self.written + u64::from(lines) + 1 < self.limit {
            self.publish(1, Kind::Grow, 0);
        }
    }

    #[inline]
    fn write_payload(&self, payload: UserBuf, lines: u32) {
        let start = wrapped(&self.map, (self.at as usize + 1) * LINE + payload_at(payload.len()));
        let room = self.map.bytes() - start;
        let first = payload.len().min(room);
        if payload.len() == 8 && lines == 1 {
            // The commonest message of benchmarks and reductions: one load, one store.
            self.map.write_words(start, [payload.read_word()]);
            return;
        }
        // Credits cover `lines`. Behind the last line the message goes on at the first.
        self.map.copy_in(start, payload.part(0, first));
        if first < payload.len() {
            self.map.copy_in(LINE, payload.part(first, payload.len() - first));
        }
    }

    #[inline(always)]
    fn publish(&mut self, lines: u32, kind: Kind, len: usize) {
        debug_assert!(len <= LEN_MAX);
        let (start, lap) = (self.at, self.lap);
        self.stale[start as usize / 64] &= !(1 << (start % 64));
        if lines > 1 {
            self.mark_stale(start + 1, lines - 1);
        }
        self.written += u64::from(lines);
        self.at += lines;
        if self.at >= self.lines {
            self.at -= self.lines;
            self.lap = next_lap(self.lap);
        }
        // The next line is the writer's: one is always kept free.
        if self.stale[self.at as usize / 64] & 1 << (self.at % 64) != 0 && !planted(Bug::StaleLine) {
            self.map.u64_at((self.at as usize + 1) * LINE).store(0, Ordering::Relaxed);
        }
        let word = u64::from(lap) | (len as u64 | (kind as u64) << LEN_BITS) << 32;
        self.map.u64_at((start as usize + 1) * LINE).store(word, Ordering::Release);
    }

    /// Marks lines, which may go on at the first one.
    fn mark_stale(&mut self, from: u32, count: u32) {
        let from = if from >= self.lines { from - self.lines } else { from };
        let here = count.min(self.lines - from);
        set_bits(&mut self.stale, from as usize, here as usize);
        set_bits(&mut self.stale, 0, (count - here) as usize);
    }
}

/// Sets so many bits from a place on, a word at a time.
fn set_bits(words: &mut [u64], from: usize, count: usize) {
    let (mut at, end) = (from, from + count);
    while at < end {
        let bits = (end - at).min(64 - at % 64);
        words[at / 64] |= (u64::MAX >> (64 - bits)) << (at % 64);
        at += bits;
    }
}

/// The reading end; the reader's segment owns the memory.
#[derive(Debug)]
pub struct RingRx {
    map: SharedMap,
    lines: u32,
    at: u32,
    lap: u32,
    consumed: u64,
    returned: u64,
    messages: u64,
    barrier: Barrier,
    writer_waits: bool,
    /// Was there a message each time since the last look but one? Then there are more to come.
    behind: bool,
}

impl RingRx {
    /// Takes the reading end of a ring in `map` (all of the mapping, and nothing of it read before).
    pub fn new(map: SharedMap) -> Self {
        let (lines, barrier) = (lines_of(&map), Barrier::Both);
        let (consumed, returned, messages) = (0, 0, 0);
        RingRx {
            map,
            lines,
            at: 0,
            lap: 1,
            consumed,
            returned,
            messages,
            barrier,
            writer_waits: false,
            behind: false,
        }
    }

    /// Makes the look at a waiting writer cheaper than a fence, where both processes are registered for that:
    /// with `PeerSegment::barrier` of the writer.
    pub fn set_barrier(&mut self, barrier: Barrier) {
        self.barrier = barrier;
    }

    /// The barrier that was set.
    pub fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// Has a writer that sleeps got credits, or a larger ring? Then it has to be woken, and this says so once.
    #[inline]
    pub fn take_writer_waits(&mut self) -> bool {
        std::mem::take(&mut self.writer_waits)
    }

    /// The same, as often as it is asked.
    #[inline]
    pub fn writer_waits(&self) -> bool {
        self.writer_waits
    }

    /// Bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.map.bytes()
    }

    /// Is there something to take?
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.word().load(Ordering::Acquire) as u32 == self.lap
    }

    /// Looks at the next slot.
    #[inline(always)]
    pub fn next_slot(&mut self) -> Next {
        let word = self.word().load(Ordering::Acquire);
        if word as u32 != self.lap {
            self.behind = false;
            return Next::Empty;
        }
        let len = (word >> 32) as usize & LEN_MAX;
        let kind = word >> (32 + LEN_BITS);
        if kind == Kind::Data as u64 {
            return if lines_for(len) > self.lines { Next::Broken } else { Next::Message };
        }
        if kind == Kind::Switch as u64 {
            // No credit for the last word yet: it is the sign that the ring may be used for something else.
            self.advance(1);
            if planted(Bug::CreditForTheLastWord) {
                self.map.u64_at(AT_CONSUMED).store(self.consumed, Ordering::Release);
            }
            return Next::Switch;
        }
        self.consume(1);
        match kind {
            k if k == Kind::Grow as u64 => Next::Grow(len),
            k if k == Kind::Move as u64 => Next::Move,
            _ => Next::Broken,
        }
    }

    /// Lends the message that [`RingRx::next_slot`] has just seen.
    #[inline]
    pub fn view(&mut self) -> View<'_> {
        let len = (self.word().load(Ordering::Acquire) >> 32) as usize & LEN_MAX;
        // A writer that changes a published slot breaks its own message, not our memory.
        let len = len.min((self.lines as usize - 1) * LINE);
        if planted(Bug::CreditBeforeReading) {
            let read = self.consumed + u64::from(lines_for(len));
            self.map.u64_at(AT_CONSUMED).store(read, Ordering::Release);
        }
        if self.behind {
            self.map.fetch(wrapped(&self.map, (self.at as usize + 1 + FETCH_AHEAD) * LINE));
        }
        self.behind = true;
        View { ring: self, len }
    }

    /// Says whether the reader looks at this ring by itself.
    pub fn set_polled(&self, polled: bool) {
        self.set_flag(FLAG_POLLED, polled);
    }

    /// Asks the writer for rendezvous instead of eager messages.
    pub fn set_frugal(&self, frugal: bool) {
        self.set_flag(FLAG_FRUGAL, frugal);
    }

    /// Offers a larger ring.
    pub fn offer(&mut self, offset: u64, bytes: usize) {
        if planted(Bug::LengthBeforePlace) {
            self.map.u32_at(AT_NEXT_BYTES).store(bytes as u32, Ordering::Release);
        }
        self.map.u64_at(AT_NEXT_OFFSET).store(offset, Ordering::Relaxed);
        self.map.u32_at(AT_NEXT_BYTES).store(bytes as u32, Ordering::Release);
        self.look_for_writer();
    }

    /// Says that there will be no larger ring.
    pub fn refuse(&mut self) {
        self.map.u32_at(AT_NEXT_BYTES).store(NO_GROWTH, Ordering::Release);
        self.look_for_writer();
    }

    /// Tells a writer that has this ring in its own memory which ready bit to set from now on.
    pub fn set_ready_id(&self, id: u32) {
        self.map.u32_at(AT_READY_ID).store(id + 1, Ordering::SeqCst);
    }

    /// Tells a writer that has this ring in its own memory that everything has been read. Nothing is touched
    /// afterwards: the memory may be another ring's at once.
    pub fn end(self) {
        self.map.u64_at(AT_CONSUMED).store(self.consumed, Ordering::Release);
    }

    /// Lines read so far.
    pub fn lines_read(&self) -> u64 {
        self.consumed
    }

    /// Messages read so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The largest payload that the ring takes.
    pub fn payload_max(&self) -> usize {
        payload_max(self.map.bytes())
    }

    fn set_flag(&self, flag: u32, on: bool) {
        let flags = self.map.u32_at(AT_FLAGS);
        let old = flags.load(Ordering::Relaxed);
        // Only the reader writes this word, so that no read-modify-write is needed.
        flags.store(if on { old | flag } else { old & !flag }, Ordering::Relaxed);
    }

    #[inline]
    fn word(&self) -> &AtomicU64 {
        self.map.u64_at((self.at as usize + 1) * LINE)
    }

    #[inline]
    fn advance(&mut self, lines: u32) {
        self.at += lines;
        if self.at >= self.lines {
            self.at -= self.lines;
            self.lap = next_lap(self.lap);
        }
        self.consumed += u64::from(lines);
    }

    #[inline]
    fn consume(&mut self, lines: u32) {
        self.advance(lines);
        if self.consumed - self.returned >= u64::from(self.lines) / CREDIT_PART as u64 {
            self.returned = self.consumed;
            self.map.u64_at(AT_CONSUMED).store(self.consumed, Ordering::Release);
            self.look_for_writer();
        }
    }

    /// Behind a store that a waiting writer waits for.
    #[inline]
    fn look_for_writer(&mut self) {
        self.barrier.light();
        let waiting = self.map.u32_at(AT_WAITING);
        if waiting.load(Ordering::Relaxed) != 0 {
            // One ring is enough; who sleeps again says so again.
            waiting.store(0, Ordering::Relaxed);
            self.writer_waits = true;
        }
    }
}

/// A received message in place. Dropping it gives the lines back.
#[derive(Debug)]
pub struct View<'a> {
    ring: &'a mut RingRx,
    len: usize,
}

impl View<'_> {
    /// The sender's header.
    #[inline]
    pub fn header(&self) -> [u64; 2] {
        let at = (self.ring.at as usize + 1) * LINE;
        let word = |offset| self.ring.map.u64_at(at + offset).load(Ordering::Relaxed);
        [word(8), word(16)]
    }

    /// Bytes of the payload.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Is the payload empty?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the payload from `offset` on, as much as `to` takes; returns the bytes copied.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: UserBufMut) -> usize {
        let map = &self.ring.map;
        let start = (self.ring.at as usize + 1) * LINE + payload_at(self.len);
        if to.len().min(self.len) == 8 && offset == 0 && start + 8 <= map.bytes() {
            to.write_word(map.read_word(start));
            return 8;
        }
        self.copy_by(SharedMap::copy_out, offset, to)
    }

    /// The same from the beginning, to memory that nobody looks at soon.
    pub fn copy_past_caches(&self, to: UserBufMut) -> usize {
        self.copy_by(SharedMap::copy_out_past_caches, 0, to)
    }

    #[inline]
    fn copy_by(&self, copy: impl Fn(&SharedMap, usize, UserBufMut), offset: usize, to: UserBufMut) -> usize {
        let bytes = to.len().min(self.len.saturating_sub(offset));
        let map = &self.ring.map;
        let start = wrapped(map, (self.ring.at as usize + 1) * LINE + payload_at(self.len) + offset);
        let first = bytes.min(map.bytes() - start);
        // The writer has published it and waits for its credit. Behind the last line it goes on at the first.
        copy(map, start, to.part(0, first));
        if first < bytes {
            copy(map, LINE, to.part(first, bytes - first));
        }
        bytes
    }

    /// The payload, copied out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: the vector is exclusively ours and as long as the view.
        self.copy_to(0, unsafe { UserBufMut::new(bytes.as_mut_ptr(), bytes.len()) });
        bytes
    }

    /// The first bytes of the payload, zero-filled if it is shorter.
    pub fn start<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: the array is exclusively ours.
        self.copy_to(0, unsafe { UserBufMut::new(bytes.as_mut_ptr(), N) });
        bytes
    }
}

impl Drop for View<'_> {
    #[inline]
    fn drop(&mut self) {
        self.ring.messages += 1;
        self.ring.consume(lines_for(self.len));
    }
}

/// Behind the last line a ring goes on at the first.
#[inline]
fn wrapped(map: &SharedMap, place: usize) -> usize {
    if place < map.bytes() { place } else { place - map.bytes() + LINE }
}

fn lines_of(map: &SharedMap) -> u32 {
    assert!(
        map.bytes() >= RING_BYTES_MIN && map.bytes().is_multiple_of(LINE),
        "a ring of {} bytes",
        map.bytes()
    );
    (map.bytes() / LINE - 1) as u32
}

#[inline]
fn next_lap(lap: u32) -> u32 {
    // 0 is what a cleared line holds.
    if lap == u32::MAX { 1 } else { lap + 1 }
}

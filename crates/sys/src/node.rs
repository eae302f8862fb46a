//! The node's segment: what the processes of one node share with their agent.
//!
//! The agent creates it before it starts ranks, and names it to them by a [`Locator`] in `BANYAN_NODE`.
//! Without an agent the lowest local rank owns it. Counters that limit a device are kept as one slot per
//! process whose sum is checked, so that a killed process is corrected by clearing its slot.
mod asking;
mod records;
mod targets;

pub use targets::{Initiator, TARGETS_MAX, TargetError, TargetLock};

use crate::cpu::CoreSet;
use crate::mem::{Locator, SharedMap, SharedMemory};
use crate::sync::{AtomicU32, AtomicU64, futex_wait, futex_wake_all};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use targets::Targets;

const MAGIC: u64 = u64::from_le_bytes(*b"banyan04");
const HEADER_BYTES: usize = 4096;
const SLOT_BYTES: usize = 1024;
/// Counters in a slot.
pub const SLOT_STATS: usize = 96;

// Offsets in the header.
const AT_MAGIC: usize = 0;
const AT_SLOTS: usize = 8;
const AT_NODE: usize = 12;
const AT_CORES: usize = 16;
const AT_QP_MAX: usize = 20;
const AT_FLAGS: usize = 24;
const AT_QP_NEXT: usize = 64; // alone in its cache line
const AT_HOST: usize = 128; // two double words
const AT_KEY: usize = 144; // four double words
const AT_PID_SPACE: usize = 176;
const AT_QP_WANTED: usize = 192; // alone in its cache line
const AT_COLUMNS: usize = 256; // ranks of the job, if it is to be told who was connected to whom
const AT_LOST: usize = 260; // how many jobs have been lost
const AT_CONTACTS: usize = 264; // first contacts that a slot has room for
const AT_TRAFFIC: usize = 268; // 1: bytes are counted by rank too
const AT_TARGETS: usize = 272; // where the table of targets is: process, descriptor, start time
const AT_FIRST_ROW: usize = 288; // the row there of the first slot
const AT_CORE_SET: usize = 320;
const AT_LOST_JOBS: usize = 512; // the last of them
const AT_LANES: usize = 2560; // when each has done what the device was asked for
const AT_ASKED: usize = 3072; // how often processes were asked where they are; alone in its cache line

// Offsets in a slot.
const SLOT_PID: usize = 0;
const SLOT_QPS: usize = 4;
const SLOT_WANTS: usize = 8;
const SLOT_ATTEMPTS: usize = 12;
const SLOT_TIES: usize = 16;
const SLOT_TURN: usize = 20;
const SLOT_DOORBELL: usize = 24; // where the process's own segment is: process, descriptor, start time
const SLOT_STAT: usize = 64;

/// So many jobs that were lost are remembered.
const LOST_MAX: u32 = 256;

const _: () = assert!(SLOT_STAT + SLOT_STATS * 8 <= SLOT_BYTES);
/// Commands that a device which imitates another can do at a time, at most.
pub const LANES_MAX: u32 = 64;

const _: () = assert!(AT_CORE_SET + CoreSet::WORDS * 8 <= AT_LOST_JOBS);
const _: () = assert!(AT_LOST_JOBS + LOST_MAX as usize * 8 <= AT_LANES);
const _: () = assert!(AT_LANES + LANES_MAX as usize * 8 <= AT_ASKED);

/// Room for the answer of a process that was asked where it is: a page, which costs nothing until then.
const ANSWER_ROOM: usize = 4096;
/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = ANSWER_ROOM - 8;

const FLAG_OVERSUBSCRIBED: u32 = 1;

/// The facts of a node that its agent fixes at the start.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Number of the node in the job.
    pub node: u32,
    /// Processes that may have a slot: the local ranks.
    pub slots: u32,
    /// Cores that the ranks of this node may use (shared with other emulated nodes on the host).
    pub cores: u32,
    /// Which ones, if that is known; a process may be bound to a part of them.
    pub core_set: CoreSet,
    /// Most queue pairs the node's device has.
    pub qp_max: u32,
    /// Do more ranks than cores live on this *host* (all emulated nodes together)?
    pub oversubscribed: bool,
    /// Names the host: nodes with equal values share memory.
    pub host: [u64; 2],
    /// A key derived from the job's key.
    pub key: [u64; 4],
    /// The process-id space of the segment's owner ([`pid_space`]). A process in another one cannot be found by its
    /// number through `/proc`, nor can it find others so.
    pub pid_space: u64,
}

/// Why a queue pair cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpLimit {
    /// Queue pairs in use on the node.
    pub used: u32,
    /// The device's limit.
    pub max: u32,
    /// Places of it that are not for everybody.
    pub kept: u32,
}

/// What a queue pair is for, where a device has few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpClaim {
    /// An attempt to connect: the last queue pairs are kept for answers.
    Attempt,
    /// An attempt that has waited long: any queue pair will do, as long as attempts do not have all but the kept ones.
    PressingAttempt,
    /// An answer, or datagrams: any.
    Answer,
}

/// This part of a device's queue pairs is kept for answers. If attempts could take every queue pair of two nodes, none
/// of them could be answered, and nobody would have anything to give back.
const ANSWERS_PART: u32 = 8;

/// Whom nobody has told yet that there is a queue pair for him.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpWant {
    /// He wants one that is not kept for answers.
    Spare,
    /// Any will do.
    Any,
}

/// What a process has to do with other jobs, for whoever has to decide what its bad end means for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// It may be connected to others; also what holds of a process that has not said anything.
    Bound = 0,
    /// It was, and has disconnected from all of them.
    Parted = 1,
    /// It was spawned, and those who did so have met it: they can do without it.
    Met = 2,
}

/// The mapped node segment.
#[derive(Debug)]
pub struct NodeSegment {
    memory: SharedMemory,
    map: SharedMap,
    facts: NodeFacts,
    records: Records,
    /// The table of targets once it is needed, and where it is.
    targets: OnceLock<Arc<Targets>>,
    targets_at: Locator,
    first_row: u32,
    /// Did this process make the segment?
    owner: bool,
}

/// What processes leave behind about whom they had to do with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Ranks that a row of the matrix has room for; 0: there is no matrix.
    pub columns: u32,
    /// First contacts that a process can note; 0: nobody wants to know.
    pub contacts: u32,
    /// Does the matrix tell how many bytes went to each rank?
    pub traffic: bool,
}

/// Bytes between two processes, as one of them knows them: what went over its connection, both ways, and what it has lent the
/// other to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairBytes {
    /// Over the connection.
    pub carried: u64,
    /// Beside it, to the other.
    pub lent: u64,
}

/// The first contacts of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contacts {
    /// How many there were; more than there was room for are not listed.
    pub count: u64,
    /// The rank, and when that was in milliseconds, in order.
    pub listed: Vec<(u32, u32)>,
}

/// The ways to be connected that a matrix tells apart; each has a bit per rank in a row.
pub const PLANES: usize = 2;

impl NodeSegment {
    /// A new segment with these facts.
    pub fn create(facts: &NodeFacts) -> io::Result<Self> {
        Self::create_recording(facts, Records::default())
    }

    /// The same, with a row per slot that tells to which of so many ranks its process was connected, and a list of its first
    /// contacts. Rows and lists lie behind the slots; pages that nobody writes cost nothing.
    pub fn create_recording(facts: &NodeFacts, records: Records) -> io::Result<Self> {
        Self::create_beside(facts, records, None)
    }

    /// The same for another job on the node of a segment that this process has made: they share targets.
    pub fn create_beside(
        facts: &NodeFacts,
        records: Records,
        other: Option<&NodeSegment>,
    ) -> io::Result<Self> {
        let (targets, first_row) = Self::targets_beside(facts.slots, other)?;
        let targets_at = targets.locator()?;
        let bytes = answers_at(facts.slots, records) + facts.slots as usize * ANSWER_ROOM;
        let memory = SharedMemory::create_sealable("banyan-node", bytes as u64)?;
        memory.seal_against_shrinking()?;
        let map = memory.map(0, bytes)?;
        map.u32_at(AT_SLOTS).store(facts.slots, Ordering::Relaxed);
        map.u32_at(AT_NODE).store(facts.node, Ordering::Relaxed);
        map.u32_at(AT_CORES).store(facts.cores, Ordering::Relaxed);
        store_words(&map, AT_CORE_SET, &facts.core_set.0);
        map.u32_at(AT_QP_MAX).store(facts.qp_max, Ordering::Relaxed);
        let flags = if facts.oversubscribed { FLAG_OVERSUBSCRIBED } else { 0 };
        map.u32_at(AT_FLAGS).store(flags, Ordering::Relaxed);
        map.u32_at(AT_QP_NEXT).store(1, Ordering::Relaxed); // 0 is no queue pair
        store_words(&map, AT_HOST, &facts.host);
        store_words(&map, AT_KEY, &facts.key);
        store_words(&map, AT_PID_SPACE, &[facts.pid_space]);
        map.u32_at(AT_COLUMNS).store(records.columns, Ordering::Relaxed);
        map.u32_at(AT_CONTACTS).store(records.contacts, Ordering::Relaxed);
        map.u32_at(AT_TRAFFIC).store(u32::from(records.traffic), Ordering::Relaxed);
        map.u32_at(AT_TARGETS).store(targets_at.pid, Ordering::Relaxed);
        map.u32_at(AT_TARGETS + 4).store(targets_at.fd, Ordering::Relaxed);
        store_words(&map, AT_TARGETS + 8, &[targets_at.start_ticks]);
        map.u32_at(AT_FIRST_ROW).store(first_row, Ordering::Relaxed);
        map.u64_at(AT_MAGIC).store(MAGIC, Ordering::Release);
        let (facts, targets) = (facts.clone(), OnceLock::from(targets));
        Ok(NodeSegment { memory, map, facts, records, targets, targets_at, first_row, owner: true })
    }

    /// The table of another segment, if it has rows for so many slots, or a new one.
    fn targets_beside(slots: u32, other: Option<&NodeSegment>) -> io::Result<(Arc<Targets>, u32)> {
        let known = other.filter(|other| other.owner).and_then(|other| other.targets.get());
        if let Some((known, row)) = known.and_then(|known| Some((known, known.take_rows(slots)?))) {
            return Ok((known.clone(), row));
        }
        let targets = Targets::create(slots)?;
        let row = targets.take_rows(slots).expect("it has more");
        Ok((Arc::new(targets), row))
    }

    /// Opens the segment that another process of the node owns.
    pub fn open(at: &Locator) -> io::Result<Self> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("node segment {at}: {why}"));
        let memory = SharedMemory::open(at)?;
        if !memory.cannot_shrink() {
            return Err(bad("not sealed against shrinking"));
        }
        let bytes = memory.bytes()? as usize;
        if bytes < HEADER_BYTES {
            return Err(bad("too short"));
        }
        let map = memory.map(0, bytes)?;
        if map.u64_at(AT_MAGIC).load(Ordering::Acquire) != MAGIC {
            return Err(bad("not a node segment of this version"));
        }
        let word = |offset| map.u32_at(offset).load(Ordering::Relaxed);
        let facts = NodeFacts {
            slots: word(AT_SLOTS),
            node: word(AT_NODE),
            cores: word(AT_CORES),
            core_set: CoreSet(load_words(&map, AT_CORE_SET)),
            qp_max: word(AT_QP_MAX),
            oversubscribed: word(AT_FLAGS) & FLAG_OVERSUBSCRIBED != 0,
            host: load_words(&map, AT_HOST),
            key: load_words(&map, AT_KEY),
            pid_space: load_words::<1>(&map, AT_PID_SPACE)[0],
        };
        let (columns, contacts, traffic) = (word(AT_COLUMNS), word(AT_CONTACTS), word(AT_TRAFFIC) != 0);
        let records = Records { columns, contacts, traffic };
        if bytes < answers_at(facts.slots, records) + facts.slots as usize * ANSWER_ROOM {
            return Err(bad("shorter than its slots"));
        }
        let targets_at = Locator {
            pid: word(AT_TARGETS),
            fd: word(AT_TARGETS + 4),
            start_ticks: load_words::<1>(&map, AT_TARGETS + 8)[0],
        };
        let (targets, first_row) = (OnceLock::new(), word(AT_FIRST_ROW));
        Ok(NodeSegment { memory, map, facts, records, targets, targets_at, first_row, owner: false })
    }

    /// Where the other processes of the node find it.
    pub fn locator(&self) -> io::Result<Locator> {
        self.memory.locator()
    }

    /// What the owner fixed.
    pub fn facts(&self) -> &NodeFacts {
        &self.facts
    }

    /// The process in `slot` says that it lives.
    pub fn claim_slot(&self, slot: u32, pid: u32) {
        self.slot_word(slot, SLOT_PID).store(pid, Ordering::Release);
    }

    /// Has a process been in `slot` since it was cleared? One of another library never is.
    pub fn is_claimed(&self, slot: u32) -> bool {
        self.slot_word(slot, SLOT_PID).load(Ordering::Acquire) != 0
    }

    /// The process in `slot` says what it has to do with other jobs.
    pub fn set_ties(&self, slot: u32, ties: Ties) {
        self.slot_word(slot, SLOT_TIES).store(ties as u32, Ordering::Release);
    }

    /// What it said last.
    pub fn ties(&self, slot: u32) -> Ties {
        match self.slot_word(slot, SLOT_TIES).load(Ordering::Acquire) {
            word if word == Ties::Parted as u32 => Ties::Parted,
            word if word == Ties::Met as u32 => Ties::Met,
            _ => Ties::Bound,
        }
    }

    /// For the agent: another job, which processes of this one may be connected to, has come to a bad end.
    pub fn tell_lost(&self, job: u64) {
        let count = self.map.u32_at(AT_LOST).load(Ordering::Relaxed);
        self.lost_word(count).store(job, Ordering::Relaxed);
        self.map.u32_at(AT_LOST).store(count.wrapping_add(1), Ordering::Release);
    }

    /// The jobs that were lost after the first `seen` of them, as far as they are remembered; now they have been seen.
    pub fn lost_since(&self, seen: &mut u32) -> Vec<u64> {
        let count = self.map.u32_at(AT_LOST).load(Ordering::Acquire);
        let news = count.wrapping_sub(*seen).min(LOST_MAX).min(count);
        *seen = count;
        let job = |back: u32| self.lost_word(count.wrapping_sub(back + 1)).load(Ordering::Relaxed);
        (0..news).map(job).collect()
    }

    fn lost_word(&self, count: u32) -> &AtomicU64 {
        self.map.u64_at(AT_LOST_JOBS + (count % LOST_MAX) as usize * 8)
    }

    /// Gives back what the process in `slot` held of the device; its statistics stay readable. For the
    /// agent, when it has reaped the process.
    pub fn clear_slot(&self, slot: u32) {
        self.slot_word(slot, SLOT_QPS).store(0, Ordering::Release);
        self.slot_word(slot, SLOT_WANTS).store(0, Ordering::Release);
        self.slot_word(slot, SLOT_ATTEMPTS).store(0, Ordering::Release);
        self.slot_word(slot, SLOT_TIES).store(Ties::Bound as u32, Ordering::Release);
        self.clear_targets(slot);
        self.slot_word(slot, SLOT_DOORBELL).store(0, Ordering::Release);
        self.slot_word(slot, SLOT_PID).store(0, Ordering::Release);
    }

    /// The process that has claimed `slot`.
    pub fn claimed_by(&self, slot: u32) -> Option<u32> {
        Some(self.slot_word(slot, SLOT_PID).load(Ordering::Acquire)).filter(|pid| *pid != 0)
    }

    /// Takes one queue pair of the device's and returns its number. An attempt ends with [`end_attempt`](Self::end_attempt).
    pub fn take_qp(&self, slot: u32, claim: QpClaim) -> Result<u32, QpLimit> {
        // Own slot first, then the sum: two processes at the limit may both be refused, never both served.
        self.slot_word(slot, SLOT_QPS).fetch_add(1, Ordering::SeqCst);
        let (used, max) = (self.sum(SLOT_QPS), self.facts.qp_max);
        let kept = match claim {
            QpClaim::Attempt => self.kept_qps(),
            QpClaim::PressingAttempt | QpClaim::Answer => 0,
        };
        let fits = used <= max.saturating_sub(kept) && (claim == QpClaim::Answer || self.begin_attempt(slot));
        if !fits {
            self.give_qp(slot);
            let kept = if claim == QpClaim::Answer { 0 } else { self.kept_qps() };
            return Err(QpLimit { used: used - 1, max, kept });
        }
        Ok(self.map.u32_at(AT_QP_NEXT).fetch_add(1, Ordering::Relaxed))
    }

    /// Has the device do something that takes so long, beside as many others as it has `lanes` for: when it is done. Nobody
    /// holds a lock meanwhile, so nothing is left behind by a process that dies.
    pub fn queue_command(&self, lanes: u32, now_ns: u64, takes_ns: u64) -> u64 {
        let word = |lane: u32| self.map.u64_at(AT_LANES + lane as usize * 8);
        loop {
            let first = (0..lanes.clamp(1, LANES_MAX)).map(|lane| (word(lane).load(Ordering::Relaxed), lane));
            let (free_ns, lane) = first.min().expect("there is one");
            let done_ns = free_ns.max(now_ns) + takes_ns;
            let taken = word(lane).compare_exchange(free_ns, done_ns, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return done_ns;
            }
        }
    }

    /// Waits until those in the slots before have said that it is this one's turn, at most so long. Is it?
    pub fn wait_turn(&self, slot: u32, most: Duration) -> bool {
        let word = self.slot_word(slot, SLOT_TURN);
        if slot > 0 && word.load(Ordering::Acquire) == 0 {
            futex_wait(word, 0, most);
        }
        slot == 0 || word.load(Ordering::Acquire) != 0
    }

    /// The process in `slot` has had its turn: it is that of the next.
    pub fn end_turn(&self, slot: u32) {
        if slot + 1 < self.facts.slots {
            let word = self.slot_word(slot + 1, SLOT_TURN);
            word.store(1, Ordering::Release);
            futex_wake_all(word);
        }
    }

    /// A queue pair that was taken for whatever comes is used for an attempt. May it be?
    pub fn begin_attempt(&self, slot: u32) -> bool {
        self.slot_word(slot, SLOT_ATTEMPTS).fetch_add(1, Ordering::SeqCst);
        // Each process has one queue pair for datagrams.
        let others = self.kept_qps().saturating_add(self.facts.slots);
        let fits = self.sum(SLOT_ATTEMPTS) <= self.facts.qp_max.saturating_sub(others);
        if !fits {
            self.end_attempt(slot);
        }
        fits
    }

    /// How far the device is used: why there is no more for an attempt.
    pub fn limit(&self) -> QpLimit {
        QpLimit { used: self.sum(SLOT_QPS), max: self.facts.qp_max, kept: self.kept_qps() }
    }

    /// What was taken for an attempt is connected, or about to be given back.
    pub fn end_attempt(&self, slot: u32) {
        self.slot_word(slot, SLOT_ATTEMPTS).fetch_sub(1, Ordering::SeqCst);
    }

    /// Has the device so many queue pairs left that one may be made before it is needed?
    pub fn has_plenty(&self) -> bool {
        self.sum(SLOT_QPS) < self.facts.qp_max / 2
    }

    /// Queue pairs of the device that are kept for answers.
    pub fn kept_qps(&self) -> u32 {
        (self.facts.qp_max / ANSWERS_PART).max(1)
    }

    /// The process in `slot` lacks a queue pair, or does not any more.
    pub fn want_qp(&self, slot: u32, want: Option<QpWant>) {
        let word = match want {
            None => 0,
            Some(QpWant::Spare) => 1,
            Some(QpWant::Any) => 2,
        };
        let before = self.slot_word(slot, SLOT_WANTS).swap(word, Ordering::SeqCst);
        if word != 0 && before == 0 {
            // Behind the slot's own word: who clears this one has seen that, or sees it change.
            self.map.u32_at(AT_QP_WANTED).fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Does a process other than that in `slot` lack a queue pair? One load, while nobody does.
    pub fn is_qp_wanted(&self, slot: u32) -> bool {
        let wanted = self.map.u32_at(AT_QP_WANTED);
        let seen = wanted.load(Ordering::Relaxed);
        seen != 0 && self.find_wanting(slot, seen)
    }

    #[cold]
    fn find_wanting(&self, slot: u32, seen: u32) -> bool {
        let wants = |slot| self.slot_word(slot, SLOT_WANTS).load(Ordering::SeqCst) != 0;
        let others = (0..self.facts.slots).any(|other| other != slot && wants(other));
        if !others && !wants(slot) {
            // Nobody, and nobody since; also when whoever did has died.
            let wanted = self.map.u32_at(AT_QP_WANTED);
            let _ = wanted.compare_exchange(seen, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
        others
    }

    /// Those who lack a queue pair.
    pub fn wanting(&self) -> impl Iterator<Item = (u32, QpWant)> {
        (0..self.facts.slots).filter_map(|slot| {
            match self.slot_word(slot, SLOT_WANTS).load(Ordering::SeqCst) {
                0 => None,
                1 => Some((slot, QpWant::Spare)),
                _ => Some((slot, QpWant::Any)),
            }
        })
    }

    /// How many queue pairs the process in `slot` has.
    pub fn qps_of(&self, slot: u32) -> u32 {
        self.slot_word(slot, SLOT_QPS).load(Ordering::Relaxed)
    }

    /// Gives one queue pair back.
    pub fn give_qp(&self, slot: u32) {
        self.slot_word(slot, SLOT_QPS).fetch_sub(1, Ordering::SeqCst);
    }

    /// Queue pairs in use on the node.
    pub fn qps_in_use(&self) -> u32 {
        self.sum(SLOT_QPS)
    }

    fn sum(&self, offset: usize) -> u32 {
        let values = (0..self.facts.slots).map(|slot| self.slot_word(slot, offset).load(Ordering::SeqCst));
        values.fold(0, u32::wrapping_add)
    }

    /// Counter `index` of the process in `slot`.
    pub fn stat(&self, slot: u32, index: usize) -> &AtomicU64 {
        assert!(slot < self.facts.slots && index < SLOT_STATS);
        self.map.u64_at(HEADER_BYTES + slot as usize * SLOT_BYTES + SLOT_STAT + index * 8)
    }

    fn slot_word(&self, slot: u32, offset: usize) -> &AtomicU32 {
        assert!(slot < self.facts.slots, "slot {slot} of {}", self.facts.slots);
        self.map.u32_at(HEADER_BYTES + slot as usize * SLOT_BYTES + offset)
    }
}

impl Drop for NodeSegment {
    fn drop(&mut self) {
        if let Some(targets) = self.targets.get().filter(|_| self.owner) {
            targets.give_rows(self.first_row, self.facts.slots);
        }
    }
}

/// Words of one plane of a row.
fn row_words(columns: u32) -> u32 {
    columns.div_ceil(64)
}

/// Words of one list of contacts: how many there were, and each.
fn contact_words(contacts: u32) -> usize {
    if contacts == 0 { 0 } else { 1 + contacts as usize }
}

/// Words that tell of the bytes between two processes.
const TRAFFIC_WORDS: usize = 2;

/// Bytes of header, slots and records.
fn bytes_of(slots: u32, records: Records) -> usize {
    let traffic = if records.traffic { TRAFFIC_WORDS * records.columns as usize } else { 0 };
    let words = PLANES * row_words(records.columns) as usize + contact_words(records.contacts) + traffic;
    HEADER_BYTES + slots as usize * (SLOT_BYTES + words * 8)
}

/// Where the answers of processes lie: behind everything else, in pages of their own.
fn answers_at(slots: u32, records: Records) -> usize {
    bytes_of(slots, records).next_multiple_of(ANSWER_ROOM)
}

/// Names this host where no agent does: the boot, and the process-id space (segments are found through
/// process ids).
pub fn host_id() -> [u64; 2] {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    [u64::from_str_radix(&digits, 16).unwrap_or(0), pid_space()]
}

/// Names the space that this process's id belongs to; 0 where that cannot be told.
pub fn pid_space() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino())
}

fn store_words(map: &SharedMap, offset: usize, words: &[u64]) {
    for (i, word) in words.iter().enumerate() {
        map.u64_at(offset + i * 8).store(*word, Ordering::Relaxed);
    }
}

fn load_words<const N: usize>(map: &SharedMap, offset: usize) -> [u64; N] {
    std::array::from_fn(|i| map.u64_at(offset + i * 8).load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn facts(qp_max: u32) -> NodeFacts {
        NodeFacts {
            node: 3,
            slots: 4,
            cores: 2,
            core_set: CoreSet::of(&[0, 65]),
            qp_max,
            oversubscribed: true,
            host: [1, 2],
            key: [1, 2, 3, 4],
            pid_space: 5,
        }
    }

    #[test]
    fn jobs_that_are_lost_are_told_and_the_last_of_them_remembered() {
        let owner = NodeSegment::create(&facts(10)).unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        let mut seen = 0;
        assert_eq!(other.lost_since(&mut seen), []);
        (1..=3).for_each(|job| owner.tell_lost(job));
        assert_eq!(other.lost_since(&mut 1), [3, 2]);
        assert_eq!((other.lost_since(&mut seen).len(), seen), (3, 3));
        assert_eq!((other.lost_since(&mut seen), seen), (vec![], 3));
        (4..=1000).for_each(|job| owner.tell_lost(job));
        assert_eq!(other.lost_since(&mut 999), [1000]);
        let jobs = other.lost_since(&mut seen);
        assert_eq!((jobs.len(), jobs[0], jobs[255], seen), (256, 1000, 745, 1000));
    }

    #[test]
    fn what_the_owner_fixed_is_read_by_the_others() {
        let owner = NodeSegment::create(&facts(10)).unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        let seen = other.facts();
        assert_eq!((seen.node, seen.slots, seen.cores, seen.qp_max), (3, 4, 2, 10));
        assert_eq!((seen.oversubscribed, seen.host, seen.key), (true, [1, 2], [1, 2, 3, 4]));
        assert_eq!((seen.core_set, seen.core_set.count()), (CoreSet::of(&[65, 0, 1 << 20]), 2));
        assert_eq!(seen.pid_space, 5);
    }

    #[test]
    fn the_process_id_space_is_the_one_that_the_kernel_names() {
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(link.to_str().unwrap(), format!("pid:[{}]", pid_space()));
    }

    #[test]
    fn the_device_limit_counts_all_processes_and_a_cleared_slot_frees() {
        let owner = NodeSegment::create(&facts(3)).unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        assert_eq!(owner.take_qp(0, QpClaim::Answer), Ok(1));
        assert_eq!(other.take_qp(1, QpClaim::Answer), Ok(2));
        assert_eq!(other.take_qp(1, QpClaim::Attempt), Err(QpLimit { used: 2, max: 3, kept: 1 }));
        assert_eq!(other.take_qp(1, QpClaim::Answer), Ok(3));
        assert_eq!(owner.take_qp(0, QpClaim::Answer), Err(QpLimit { used: 3, max: 3, kept: 0 }));
        owner.clear_slot(1);
        assert_eq!(owner.take_qp(0, QpClaim::Answer), Ok(4));
    }

    #[test]
    fn attempts_leave_what_is_kept_and_pressing_ones_as_many() {
        // Of 8, one is kept, and four processes may have one for datagrams each.
        let node = NodeSegment::create(&facts(8)).unwrap();
        let take = |claim| node.take_qp(0, claim).is_ok();
        assert!((0..5).all(|_| take(QpClaim::Answer)));
        assert!(take(QpClaim::Attempt) && take(QpClaim::Attempt));
        assert!(!take(QpClaim::Attempt), "the last is for answers");
        assert!(take(QpClaim::PressingAttempt), "or for who has waited long");
        assert!(!take(QpClaim::PressingAttempt) && !take(QpClaim::Answer), "there is no more");
        node.give_qp(0);
        assert!(!take(QpClaim::PressingAttempt), "there are three attempts already");
        node.end_attempt(0);
        assert!(take(QpClaim::PressingAttempt));
        node.clear_slot(0);
        assert!((0..3).all(|_| take(QpClaim::Attempt)), "they went with their process");
    }

    #[test]
    fn a_lack_of_queue_pairs_is_seen_by_the_others_until_it_ends() {
        let owner = NodeSegment::create(&facts(3)).unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        owner.want_qp(0, Some(QpWant::Spare));
        assert!(other.is_qp_wanted(1) && !owner.is_qp_wanted(0));
        other.want_qp(1, Some(QpWant::Any));
        assert!(owner.is_qp_wanted(0));
        assert_eq!(owner.wanting().collect::<Vec<_>>(), [(0, QpWant::Spare), (1, QpWant::Any)]);
        owner.want_qp(0, None);
        assert!(!other.is_qp_wanted(1) && owner.is_qp_wanted(0));
        owner.clear_slot(1); // it has died
        assert!(!owner.is_qp_wanted(0));
        assert_eq!(owner.map.u32_at(AT_QP_WANTED).load(Ordering::Relaxed), 0, "one load from now on");
        other.want_qp(2, Some(QpWant::Any));
        assert!(owner.is_qp_wanted(0));
    }

    #[test]
    fn a_row_tells_whom_its_process_met_and_how() {
        let owner =
            NodeSegment::create_recording(&facts(3), Records { columns: 130, contacts: 2, traffic: true })
                .unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        for (rank, plane) in [(129, 0), (0, 0), (63, 1), (64, 1), (64, 1), (130, 1), (u32::MAX, 0)] {
            other.note_met(3, rank, plane);
        }
        let met = |slot, plane| owner.met(slot, plane).collect::<Vec<u32>>();
        assert_eq!((met(3, 0), met(3, 1)), (vec![0, 129], vec![63, 64]));
        assert!(met(2, 0).is_empty() && met(2, 1).is_empty());
    }

    #[test]
    fn first_contacts_are_kept_in_order_and_counted_beyond_their_room() {
        let records = Records { columns: 130, contacts: 2, traffic: true };
        let owner = NodeSegment::create_recording(&facts(3), records).unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        assert_eq!(other.records(), records);
        for (rank, when_ms) in [(129, 7), (0, u32::MAX), (5, 9)] {
            other.note_contact(3, rank, when_ms);
        }
        other.note_contact(2, 1, 0);
        other.note_met(0, 129, 1);
        let listed = vec![(129, 7), (0, u32::MAX)];
        assert_eq!(owner.contacts(3, 9), Contacts { count: 3, listed });
        assert_eq!(owner.contacts(3, 1).listed, [(129, 7)]);
        assert_eq!(owner.contacts(2, 9).listed, [(1, 0)]);
        assert_eq!(owner.contacts(0, 9), Contacts::default());
    }

    #[test]
    fn bytes_between_processes_are_noted_beside_everything_else() {
        let records = Records { columns: 3, contacts: 2, traffic: true };
        let owner = NodeSegment::create_recording(&facts(3), records).unwrap();
        let other = NodeSegment::open(&owner.locator().unwrap()).unwrap();
        other.note_contact(3, 2, 5);
        for (slot, rank, carried, lent) in [(3, 0, 64, 0), (3, 2, 0, 1 << 40), (0, 1, 1, 2), (3, 3, 9, 9)] {
            other.note_traffic(slot, rank, PairBytes { carried, lent });
        }
        let noted = |slot| owner.traffic(slot).map(|(r, b)| (r, b.carried, b.lent)).collect::<Vec<_>>();
        assert_eq!(
            (noted(3), noted(0), noted(1)),
            (vec![(0, 64, 0), (2, 0, 1 << 40)], vec![(1, 1, 2)], vec![])
        );
        assert_eq!((owner.contacts(3, 9).listed, owner.met(3, 0).count()), (vec![(2, 5)], 0));
    }

    #[test]
    fn without_a_matrix_nothing_is_noted() {
        let owner = NodeSegment::create(&facts(3)).unwrap();
        owner.note_met(0, 0, 0);
        owner.note_contact(0, 0, 0);
        owner.note_traffic(0, 0, PairBytes { carried: 1, lent: 1 });
        assert_eq!(owner.contacts(0, 9), Contacts::default());
        assert_eq!(owner.met(0, 0).count() + owner.traffic(0).count(), 0);
        let bytes = HEADER_BYTES + 4 * SLOT_BYTES + 4 * ANSWER_ROOM;
        assert_eq!(owner.memory.bytes().unwrap(), bytes as u64);
    }

    #[test]
    fn a_slot_that_nobody_claimed_is_known() {
        let owner = NodeSegment::create(&facts(3)).unwrap();
        owner.claim_slot(1, 77);
        assert_eq!([0, 1, 2, 3].map(|slot| owner.is_claimed(slot)), [false, true, false, false]);
    }

    #[test]
    fn a_segment_that_could_shrink_is_refused() {
        let owner = NodeSegment::create(&facts(3)).unwrap();
        assert!(owner.memory.resize(HEADER_BYTES as u64).is_err());
        let unsealed = SharedMemory::create_sealable("test", HEADER_BYTES as u64).unwrap();
        unsealed.map(0, HEADER_BYTES).unwrap().u64_at(AT_MAGIC).store(MAGIC, Ordering::Relaxed);
        let locator = unsealed.locator().unwrap();
        let refused = NodeSegment::open(&locator).unwrap_err();
        assert!(refused.to_string().contains("shrinking"), "{refused}");
        unsealed.seal_against_shrinking().unwrap();
        NodeSegment::open(&locator).unwrap();
    }

    #[test]
    fn a_device_does_as_much_at_a_time_as_it_has_lanes_for() {
        let node = NodeSegment::create(&facts(10)).unwrap();
        let done: Vec<u64> = (0..6).map(|_| node.queue_command(2, 1_000, 10)).collect();
        assert_eq!(done, [1_010, 1_010, 1_020, 1_020, 1_030, 1_030]);
        assert_eq!(node.queue_command(2, 5_000, 10), 5_010, "it has been idle");
        assert_eq!(node.queue_command(0, 5_000, 10), 5_020, "it has one at least");
    }

    #[test]
    fn turns_go_from_slot_to_slot() {
        let node = NodeSegment::create(&facts(10)).unwrap();
        let soon = Duration::from_millis(1);
        assert!(node.wait_turn(0, soon) && !node.wait_turn(1, soon));
        node.end_turn(0);
        assert!(node.wait_turn(1, soon) && !node.wait_turn(2, soon));
        (1..4).for_each(|slot| node.end_turn(slot));
        assert!(node.wait_turn(3, soon));
    }
}

//! Runs the schedules of a whole group in one process, against what each collective means.
//!
//! The network is as nasty as the rules allow: processes run in random order, a send counts as complete only
//! when its receive has taken it, received bytes appear only at the wait, and what is in flight must not change.
//! Where processes reach each other's memory, they do so at any moment that the schedule allows.
mod common;
mod direct;
mod hosts;

use super::token::{Meant, Reach, TOKEN_BYTES, Token, Verdict, verdict};
use super::*;
use core::num::NonZeroU32;
use std::collections::VecDeque;
use std::vec;

const SIZE_MAX: u32 = 33;

/// One for each kind of cores, the same where memory can be reached, and where it can be shared.
const SEEDS: [u64; 6] = [40, 41, 42, 43, 46, 47];

pub(super) struct Process {
    schedule: Schedule,
    next: usize,
    memory: [Vec<u8>; 3],
    sent: Vec<(u32, Slice, Vec<u8>)>,
    receiving: Vec<(u32, Slice)>,
    peers: Vec<u32>,
    reach: Reach,
    /// What a try comes to.
    found: Reach,
    /// Where `Input` begins in `Output`, if it is there.
    in_place: Option<usize>,
    /// Has it read or written the memory of another one?
    direct: bool,
    /// Who has told it something, and whom that was for.
    told: Vec<(u32, u32)>,
    /// Can it map memory of others?
    maps: bool,
    /// How often it has used the group's memory.
    uses: usize,
}

/// A group: one queue per ordered pair, and how many messages of each queue were taken.
pub(super) struct Group {
    processes: Vec<Process>,
    queues: Vec<VecDeque<Vec<u8>>>,
    random: u64,
    /// The memory that all map, if one has made it.
    common: Vec<u8>,
}

pub(super) type Operator = fn(&[u8], &mut [u8]);

impl Group {
    /// An odd seed means shared cores; with the bit above, the processes are on one host, and with the next on one node.
    pub(super) fn new(
        size: u32,
        seed: u64,
        build: impl Fn(&mut Schedule, Place),
        memory: impl Fn(u32) -> (Vec<u8>, usize),
    ) -> Self {
        let cores = if seed & 1 == 0 { Cores::Own } else { Cores::Shared };
        let memory_of_all = match seed & 6 {
            2 => Memory::OneHost,
            6 => Memory::OneNode(Shared::Untried),
            _ => Memory::Apart,
        };
        let processes = (0..size).map(|rank| {
            let mut schedule = Schedule::new();
            build(&mut schedule, Place { rank, size, cores, memory: memory_of_all });
            let (input, output_bytes) = memory(rank);
            let scratch_bytes = schedule.scratch_bytes_otherwise();
            Process {
                schedule,
                next: 0,
                memory: [input, vec![0xAA; output_bytes], vec![0xBB; scratch_bytes]],
                sent: Vec::new(),
                receiving: Vec::new(),
                peers: Vec::new(),
                reach: Reach::Untried,
                found: Reach::Works,
                in_place: None,
                direct: false,
                told: Vec::new(),
                maps: true,
                uses: 0,
            }
        });
        let processes: Vec<_> = processes.collect();
        let queues = (0..size * size).map(|_| VecDeque::new()).collect();
        Group { processes, queues, random: seed | 1, common: Vec::new() }
    }

    /// Who has told a process something, and whom that was for.
    pub(super) fn told(&self, rank: u32) -> &[(u32, u32)] {
        &self.processes[rank as usize].told
    }

    fn queue(&mut self, from: u32, to: u32) -> &mut VecDeque<Vec<u8>> {
        let size = self.processes.len();
        &mut self.queues[from as usize * size + to as usize]
    }

    fn dice(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % below
    }

    /// Runs all to the end; panics on deadlock.
    pub(super) fn run(&mut self, operator: Operator) {
        let size = self.processes.len();
        loop {
            let start = self.dice(size);
            let mut moved = false;
            for i in 0..size {
                moved |= self.advance((start + i) as u32 % size as u32, operator);
            }
            if self.processes.iter().all(|p| p.next == p.schedule.steps().len()) {
                break;
            }
            assert!(moved, "deadlock");
        }
        assert!(self.queues.iter().all(VecDeque::is_empty), "messages left over");
        for p in &self.processes {
            assert!(p.sent.is_empty() && p.receiving.is_empty(), "a schedule ends without waiting");
        }
    }

    /// One step of one process; false if it cannot move.
    fn advance(&mut self, rank: u32, operator: Operator) -> bool {
        let me = &mut self.processes[rank as usize];
        let Some(&step) = me.schedule.steps().get(me.next) else { return false };
        match step {
            Step::Send { to, from } => {
                assert_ne!(to, rank);
                let bytes = me.read(from).to_vec();
                me.peers.push(to);
                me.sent.push((to, from, bytes.clone()));
                self.queue(rank, to).push_back(bytes);
            }
            Step::Recv { from, into } => {
                assert_ne!(from, rank);
                me.write(into).fill(0xEE);
                me.peers.push(from);
                me.receiving.push((from, into));
            }
            Step::Copy { from, into } if from.space == Space::Common => {
                let bytes = self.common[me.common_at(from)].to_vec();
                me.write(into).copy_from_slice(&bytes);
            }
            Step::Copy { from, into } if into.space == Space::Common => {
                self.common[me.common_at(into)].copy_from_slice(me.read(from));
            }
            Step::Copy { from, into } => {
                let bytes = me.read(from).to_vec();
                me.write(into).copy_from_slice(&bytes);
            }
            Step::Reduce { from, into } => {
                let left = me.read(from).to_vec();
                operator(&left, me.write(into));
            }
            Step::Wait => return self.settle(rank),
            Step::Show { input, output, meant, into } => me.show(rank, (input, output), meant, into),
            Step::Decide { table, direct, messages } => {
                match verdict(tokens(&me.memory[2], table)) {
                    Verdict::Direct => me.next = direct,
                    Verdict::Messages => me.next = messages,
                    Verdict::Try => me.next += 1,
                    other => panic!("{other:?}"),
                }
                return true;
            }
            Step::Try { .. } => me.reach = me.found,
            Step::Read { from, table, into } => {
                let (other, slice) = me.reached(from, table, into.len);
                let bytes = self.visited(other).raw(slice).to_vec();
                let me = &mut self.processes[rank as usize];
                me.write(into).copy_from_slice(&bytes);
                me.direct = true;
            }
            Step::Write { from, table, into } => {
                let (other, slice) = me.reached(into, table, from.len);
                me.direct = true;
                let bytes = me.read(from).to_vec();
                self.visited(other).write(slice).copy_from_slice(&bytes);
            }
            Step::Provide { into } => {
                me.write(scratch(into, common::PLACE_BYTES)).fill(7);
                self.common = vec![0; common::BYTES];
            }
            Step::Map { place, into } => {
                assert_eq!(me.read(scratch(place, common::PLACE_BYTES)), [7; common::PLACE_BYTES]);
                let maps = me.maps.into();
                me.write(scratch(into, 1))[0] = maps;
            }
            Step::Agree { at, members, mapped, otherwise } => {
                let all = me.read(scratch(at, members as usize)).iter().all(|byte| *byte == 1);
                me.next = if all { mapped } else { otherwise };
                return true;
            }
            Step::Declare { meant } => {
                me.uses += 1;
                let word = me.common_at(Slice { space: Space::Common, at: rank as usize * 8, len: 8 });
                self.common[word].copy_from_slice(&meant.word().to_le_bytes());
            }
            Step::Compare { members } => {
                let words = Slice { space: Space::Common, at: 0, len: members as usize * 8 };
                let words = self.common[me.common_at(words)].chunks_exact(8);
                let first = words.clone().next();
                assert!(words.into_iter().all(|word| Some(word) == first), "not all are there");
            }
            Step::Offer { slots, record } => {
                let size = (me.memory[2].len() / record).div_ceil(2);
                for slot in 0..size as u32 {
                    let bytes = [rank.to_le_bytes(), slots.to(slot).to_le_bytes()].concat();
                    me.memory[2][slot as usize * record..][..record].copy_from_slice(&bytes);
                }
            }
            Step::Meet { slots, record } => {
                let size = (me.memory[2].len() / record).div_ceil(2);
                let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
                me.told = (0..size as u32)
                    .map(|slot| {
                        let record = &me.memory[2][slot as usize * record..][..record];
                        assert_eq!(word(record), slots.from(slot));
                        (word(record), word(&record[4..]))
                    })
                    .collect();
                me.told.sort_unstable();
            }
            Step::Go { to } => {
                me.next = to;
                return true;
            }
        }
        self.processes[rank as usize].next += 1;
        true
    }

    /// A process whose memory another one reaches: it has not left.
    fn visited(&mut self, rank: u32) -> &mut Process {
        let process = &mut self.processes[rank as usize];
        assert!(process.next < process.schedule.steps().len(), "rank {rank} has left");
        process
    }

    /// Takes one message that is there, or passes the wait when nothing is outstanding.
    fn settle(&mut self, rank: u32) -> bool {
        let receiving = self.processes[rank as usize].receiving.clone();
        for (i, (from, into)) in receiving.iter().enumerate() {
            let first = receiving[..i].iter().all(|(earlier, _)| earlier != from);
            if !first || self.queue(*from, rank).is_empty() {
                continue;
            }
            let bytes = self.queue(*from, rank).pop_front().unwrap();
            let me = &mut self.processes[rank as usize];
            me.receiving.remove(i);
            assert_eq!(bytes.len(), into.len, "message length from {from} to {rank}");
            me.write(*into).copy_from_slice(&bytes);
            return true;
        }
        let mut still: Vec<(u32, usize)> = Vec::new();
        for i in 0..self.processes[rank as usize].sent.len() {
            let (to, slice, snapshot) = self.processes[rank as usize].sent[i].clone();
            let me = &self.processes[rank as usize];
            assert_eq!(me.raw(slice), &snapshot[..], "rank {rank} changed what it was sending");
            still.push((to, i));
        }
        // Everything sent to a peer is taken when its queue is empty: queues are in order.
        let taken = still.iter().all(|(to, _)| self.queue(rank, *to).is_empty());
        let me = &mut self.processes[rank as usize];
        if !taken || !me.receiving.is_empty() {
            return false;
        }
        me.sent.clear();
        me.next += 1;
        true
    }

    pub(super) fn output(&self, rank: u32) -> &[u8] {
        &self.processes[rank as usize].memory[1]
    }

    /// Whom a process has exchanged messages with.
    pub(super) fn talked_to(&self, rank: u32) -> &[u32] {
        &self.processes[rank as usize].peers
    }

    fn peers(&self, rank: u32) -> usize {
        let mut peers = self.processes[rank as usize].peers.clone();
        peers.sort_unstable();
        peers.dedup();
        peers.len()
    }
}

fn tokens(scratch: &[u8], table: Table) -> impl Iterator<Item = Option<Token>> {
    let bytes = &scratch[table.at..][..table.members as usize * TOKEN_BYTES];
    bytes.chunks_exact(TOKEN_BYTES).map(|token| Token::decode(token.try_into().unwrap()))
}

impl Process {
    fn show(&mut self, rank: u32, (input, output): (Start, Start), meant: Meant, into: usize) {
        let (process, reach) = (NonZeroU32::new(rank + 1).unwrap(), self.reach);
        let word = |start: Start| start.at as u64 | (start.space as u64) << 48;
        let (input, output) = (word(input), word(output));
        let token = Token { process, rank, reach, secret_at: 0, secret: 0, input, output, meant };
        self.write(scratch(into, TOKEN_BYTES)).copy_from_slice(&token.encode());
    }

    /// Whom and what a place in another memory means.
    fn reached(&self, remote: Remote, table: Table, len: usize) -> (u32, Slice) {
        let token = tokens(&self.memory[2], table).nth(remote.member as usize).unwrap().unwrap();
        let start = match remote.shown {
            Shown::Input => token.input,
            Shown::Output => token.output,
        };
        let space = [Space::Input, Space::Output, Space::Scratch][(start >> 48) as usize];
        (token.process.get() - 1, Slice { space, at: (start & 0xffff_ffff) as usize + remote.at, len })
    }

    /// Where a slice of the group's memory is: in the half that is this operation's.
    fn common_at(&self, slice: Slice) -> core::ops::Range<usize> {
        assert_eq!(slice.space, Space::Common);
        let at = self.uses % 2 * common::HALF_BYTES + slice.at;
        assert!(slice.at + slice.len <= common::HALF_BYTES);
        at..at + slice.len
    }

    /// Where a slice is: an input in place is in the output.
    fn home(&self, slice: Slice) -> Slice {
        match self.in_place {
            Some(at) if slice.space == Space::Input => output(at + slice.at, slice.len),
            _ => slice,
        }
    }

    fn raw(&self, slice: Slice) -> &[u8] {
        let slice = self.home(slice);
        &self.memory[slice.space as usize][slice.at..slice.at + slice.len]
    }

    fn read(&self, slice: Slice) -> &[u8] {
        for (_, pending) in &self.receiving {
            assert!(!overlap(*pending, self.home(slice)), "read of bytes that are being received");
        }
        self.raw(slice)
    }

    fn write(&mut self, slice: Slice) -> &mut [u8] {
        assert!(slice.space != Space::Input || slice.len == 0, "the input is written");
        for (_, pending) in &self.receiving {
            assert!(!overlap(*pending, slice), "write to bytes that are being received");
        }
        for (_, pending, _) in &self.sent {
            assert!(!overlap(self.home(*pending), slice), "write to bytes that are being sent");
        }
        &mut self.memory[slice.space as usize][slice.at..slice.at + slice.len]
    }
}

fn overlap(a: Slice, b: Slice) -> bool {
    a.space == b.space && a.at < b.at + b.len && b.at < a.at + a.len
}

/// Composition of x -> a x + b modulo 2^32: associative, not commutative.
pub(super) fn compose(left: &[u8], right: &mut [u8]) {
    for (l, r) in left.chunks_exact(8).zip(right.chunks_exact_mut(8)) {
        let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (a, b, c, d) = (word(l, 0), word(l, 4), word(r, 0), word(r, 4));
        r[..4].copy_from_slice(&a.wrapping_mul(c).to_le_bytes());
        r[4..].copy_from_slice(&c.wrapping_mul(b).wrapping_add(d).to_le_bytes());
    }
}

/// Sum modulo 256: commutative.
pub(super) fn add(left: &[u8], right: &mut [u8]) {
    for (l, r) in left.iter().zip(right) {
        *r = r.wrapping_add(*l);
    }
}

fn operator(commutes: bool) -> Operator {
    if commutes { add } else { compose }
}

pub(super) fn data(rank: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (rank as usize * 31 + i * 7 + i / 251 + 1) as u8 | 1).collect()
}

pub(super) fn fold(ranks: impl Iterator<Item = u32>, bytes: usize, operator: Operator) -> Vec<u8> {
    let mut all: Vec<_> = ranks.map(|rank| data(rank, bytes)).collect();
    let mut acc = all.pop().unwrap();
    while let Some(left) = all.pop() {
        operator(&left, &mut acc);
    }
    acc
}

pub(super) fn nothing(_: &[u8], _: &mut [u8]) {
    panic!("this collective combines nothing");
}

fn roots(size: u32) -> Vec<u32> {
    if size <= 9 { (0..size).collect() } else { vec![0, 1, size / 2, size - 2, size - 1] }
}

#[test]
fn nobody_leaves_a_barrier_before_everybody_has_come() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for late in [0, size / 2, size - 1] {
                let mut group = Group::new(size, seed, barrier, |_| (Vec::new(), 0));
                for _ in 0..4 * size {
                    for rank in (0..size).filter(|rank| *rank != late) {
                        group.advance(rank, nothing);
                    }
                }
                for rank in (0..size).filter(|rank| *rank != late) {
                    let p = &group.processes[rank as usize];
                    assert!(p.next < p.schedule.steps().len(), "rank {rank} of {size} left without {late}");
                }
                group.run(nothing);
            }
        }
    }
}

#[test]
fn a_broadcast_gives_everyone_the_bytes_of_the_root() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for root in roots(size) {
                for bytes in [0, 5, tuning::BCAST_LARGE_BYTES + 13] {
                    let build = |s: &mut Schedule, at| bcast(s, at, root, bytes);
                    let mut group = Group::new(size, seed, build, |_| (Vec::new(), bytes));
                    group.processes[root as usize].memory[1] = data(root, bytes);
                    group.run(nothing);
                    for rank in 0..size {
                        assert_eq!(
                            group.output(rank),
                            data(root, bytes),
                            "size {size} root {root} rank {rank}"
                        );
                    }
                }
            }
        }
    }
}

fn cases() -> Vec<Elements> {
    let mut all = Vec::new();
    for commutes in [true, false] {
        for count in [0, 1, 3, 700, tuning::ALLREDUCE_LARGE_BYTES / 8 + 5] {
            all.push(Elements { count, unit: 8, commutes, operands: Operands::Apart });
        }
    }
    all
}

#[test]
fn a_reduction_combines_in_the_order_of_ranks() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for root in roots(size) {
                for e in cases().into_iter().filter(|e| e.count < 1000) {
                    let bytes = e.bytes();
                    let build = |s: &mut Schedule, at| reduce(s, at, root, e);
                    let memory = |rank| (data(rank, bytes), if rank == root { bytes } else { 0 });
                    let mut group = Group::new(size, seed, build, memory);
                    group.run(operator(e.commutes));
                    let expected = fold(0..size, bytes, operator(e.commutes));
                    assert_eq!(group.output(root), expected, "size {size} root {root} {e:?}");
                }
            }
        }
    }
}

#[test]
fn an_allreduce_gives_everyone_the_same_combination() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for e in cases() {
                let bytes = e.bytes();
                let build = |s: &mut Schedule, at| allreduce(s, at, e);
                let mut group = Group::new(size, seed, build, |rank| (data(rank, bytes), bytes));
                group.run(operator(e.commutes));
                let expected = fold(0..size, bytes, operator(e.commutes));
                for rank in 0..size {
                    assert!(group.output(rank) == expected, "size {size} rank {rank} {e:?}");
                }
            }
        }
    }
}

#[test]
fn a_reduce_scatter_gives_each_its_block_of_the_combination() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for commutes in [true, false] {
                for scale in [1, 60] {
                    let lens: Vec<usize> = (0..size as usize).map(|r| (r * 5 % 4) * 8 * scale).collect();
                    let blocks: Vec<Block> =
                        (0..lens.len()).map(|r| Block { at: lens[..r].iter().sum(), len: lens[r] }).collect();
                    let total: usize = lens.iter().sum();
                    let e = Elements { count: total / 8, unit: 8, commutes, operands: Operands::Apart };
                    let build = |s: &mut Schedule, at| reduce_scatter(s, at, e, Blocks::Listed(&blocks));
                    let memory = |rank: u32| (data(rank, total), lens[rank as usize]);
                    let mut group = Group::new(size, seed, build, memory);
                    group.run(operator(commutes));
                    let expected =
                        if total == 0 { Vec::new() } else { fold(0..size, total, operator(commutes)) };
                    for rank in 0..size {
                        let b = blocks[rank as usize];
                        assert_eq!(
                            group.output(rank),
                            &expected[b.at..b.at + b.len],
                            "size {size} rank {rank}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_scan_combines_the_ranks_up_to_this_one() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for e in cases().into_iter().filter(|e| e.count < 100) {
                let bytes = e.bytes();
                let mut group =
                    Group::new(size, seed, |s, at| scan(s, at, e), |rank| (data(rank, bytes), bytes));
                group.run(operator(e.commutes));
                let mut before =
                    Group::new(size, seed, |s, at| exscan(s, at, e), |rank| (data(rank, bytes), bytes));
                before.run(operator(e.commutes));
                assert_eq!(before.output(0), vec![0xAA; bytes], "exscan leaves rank 0 alone");
                for rank in 0..size {
                    assert_eq!(
                        group.output(rank),
                        fold(0..rank + 1, bytes, operator(e.commutes)),
                        "{size} {rank}"
                    );
                    if rank > 0 {
                        assert_eq!(
                            before.output(rank),
                            fold(0..rank, bytes, operator(e.commutes)),
                            "{size} {rank}"
                        );
                    }
                }
            }
        }
    }
}

fn joined(size: u32, block: usize) -> Vec<u8> {
    (0..size).flat_map(|rank| data(rank, block)).collect()
}

#[test]
fn a_gather_collects_blocks_by_rank_and_a_scatter_undoes_it() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for root in roots(size) {
                for block in [0, 3, tuning::GATHER_LARGE_BYTES] {
                    let all = joined(size, block);
                    let at_root = |rank, bytes| if rank == root { bytes } else { 0 };
                    let memory = |rank| (data(rank, block), at_root(rank, all.len()));
                    let mut group = Group::new(size, seed, |s, at| gather(s, at, root, block), memory);
                    group.run(nothing);
                    assert!(group.output(root) == all, "gather, size {size} root {root} block {block}");
                    let memory = |rank| (if rank == root { all.clone() } else { Vec::new() }, block);
                    let mut group = Group::new(size, seed, |s, at| scatter(s, at, root, block), memory);
                    group.run(nothing);
                    for rank in 0..size {
                        assert!(group.output(rank) == data(rank, block), "scatter, size {size} root {root}");
                    }
                }
            }
        }
    }
}

/// Blocks of different lengths with a gap before each, in reverse order of rank.
fn uneven(size: u32) -> (Vec<Block>, usize) {
    let mut at = 0;
    let mut blocks = vec![Block { at: 0, len: 0 }; size as usize];
    for rank in (0..size as usize).rev() {
        let len = rank * 3 % 5;
        blocks[rank] = Block { at: at + 2, len };
        at += 2 + len;
    }
    (blocks, at)
}

#[test]
fn unequal_blocks_land_where_they_belong_and_gaps_stay() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            let (blocks, total) = uneven(size);
            let mut expected = vec![0xAA; total];
            for (rank, b) in blocks.iter().enumerate() {
                expected[b.at..b.at + b.len].copy_from_slice(&data(rank as u32, b.len));
            }
            let len = |rank: u32| blocks[rank as usize].len;
            let memory = |rank| (data(rank, len(rank)), total);
            let build = |s: &mut Schedule, at| allgatherv(s, at, Blocks::Listed(&blocks));
            let mut group = Group::new(size, seed, build, memory);
            group.run(nothing);
            for rank in 0..size {
                assert_eq!(group.output(rank), expected, "allgatherv, size {size} rank {rank}");
            }
            for root in roots(size) {
                let build =
                    |s: &mut Schedule, at: Place| gatherv(s, at, root, len(at.rank), Blocks::Listed(&blocks));
                let mut group = Group::new(size, seed, build, memory);
                group.run(nothing);
                assert_eq!(group.output(root), expected, "gatherv, size {size} root {root}");
                let build = |s: &mut Schedule, at: Place| {
                    scatterv(s, at, root, len(at.rank), Blocks::Listed(&blocks))
                };
                let memory = |rank| (expected.clone(), len(rank));
                let mut group = Group::new(size, seed, build, memory);
                group.run(nothing);
                for rank in 0..size {
                    assert_eq!(
                        group.output(rank),
                        data(rank, len(rank)),
                        "scatterv, size {size} root {root}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_allgather_collects_blocks_by_rank_everywhere() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for block in [0, 3, tuning::ALLGATHER_LARGE_BYTES / size as usize + 1] {
                let all = joined(size, block);
                let memory = |rank| (data(rank, block), all.len());
                let mut group = Group::new(size, seed, |s, at| allgather(s, at, block), memory);
                group.run(nothing);
                for rank in 0..size {
                    assert!(group.output(rank) == all, "size {size} rank {rank} block {block}");
                }
            }
        }
    }
}

#[test]
fn an_alltoall_transposes_blocks() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            for block in [0, 3, tuning::ALLTOALL_SMALL_BYTES + 1] {
                let n = size as usize;
                let mut group = Group::new(
                    size,
                    seed,
                    |s, at| alltoall(s, at, block),
                    |rank| (data(rank, n * block), n * block),
                );
                group.run(nothing);
                for rank in 0..size {
                    let me = rank as usize;
                    let expected: Vec<u8> = (0..size)
                        .flat_map(|from| data(from, n * block)[me * block..][..block].to_vec())
                        .collect();
                    assert_eq!(group.output(rank), expected, "size {size} rank {rank} block {block}");
                }
            }
        }
    }
}

#[test]
fn unequal_blocks_are_exchanged_and_empty_ones_need_no_message() {
    for seed in SEEDS {
        for size in 1..=SIZE_MAX {
            // Rank i sends (i + j) % 3 bytes to rank j, blocks packed.
            let lens = |rank: u32| (0..size).map(move |other| ((rank + other) % 3) as usize);
            let list = |rank: u32| {
                let lens: Vec<usize> = lens(rank).collect();
                let block = |i: usize| Block { at: lens[..i].iter().sum(), len: lens[i] };
                (0..lens.len()).map(block).collect::<Vec<Block>>()
            };
            let build = |s: &mut Schedule, at: Place| {
                alltoallv(s, at, Blocks::Listed(&list(at.rank)), Blocks::Listed(&list(at.rank)))
            };
            let total = |rank: u32| lens(rank).sum::<usize>();
            let mut group = Group::new(size, seed, build, |rank| (data(rank, total(rank)), total(rank)));
            group.run(nothing);
            for rank in 0..size {
                let expected: Vec<u8> = (0..size)
                    .flat_map(|from| {
                        let block = list(from)[rank as usize];
                        data(from, total(from))[block.at..block.at + block.len].to_vec()
                    })
                    .collect();
                assert_eq!(group.output(rank), expected, "size {size} rank {rank}");
                let silent =
                    lens(rank).enumerate().filter(|(r, len)| *len == 0 && *r != rank as usize).count();
                assert_eq!(group.peers(rank), size as usize - 1 - silent);
            }
        }
    }
}

/// A graph in which some edges are double, some processes are their own neighbors, some are alone.
#[test]
fn blocks_travel_along_the_edges_of_a_graph_in_order() {
    for (seed, unit) in SEEDS.into_iter().zip([3, tuning::SEND_FIRST_BYTES]) {
        for size in 1..=SIZE_MAX {
            // Edge e goes from `from` to `to` and carries (e % 3) units.
            let edges: Vec<(u32, u32)> = (0..2 * size).map(|e| (e * e % size, (e / 3 * 5) % size)).collect();
            let side = |at: u32, other: fn((u32, u32)) -> (u32, u32)| {
                let mut end = 0;
                let mut list = Vec::new();
                for (e, edge) in edges.iter().enumerate() {
                    let (here, peer) = other(*edge);
                    if here == at {
                        let len = e % 3 * unit;
                        list.push((e, Edge { peer, block: Block { at: end, len } }));
                        end += len;
                    }
                }
                (list, end)
            };
            let outgoing = |at: u32| side(at, |(from, to)| (from, to));
            let incoming = |at: u32| side(at, |(from, to)| (to, from));
            let bare = |list: Vec<(usize, Edge)>| list.into_iter().map(|(_, edge)| edge).collect::<Vec<_>>();
            let build = |s: &mut Schedule, at: Place| {
                neighbors(s, at, &bare(outgoing(at.rank).0), &bare(incoming(at.rank).0));
            };
            let mut group =
                Group::new(size, seed, build, |rank| (data(rank, outgoing(rank).1), incoming(rank).1));
            group.run(nothing);
            for rank in 0..size {
                let mut expected = Vec::new();
                for (e, edge) in incoming(rank).0 {
                    let (list, bytes) = outgoing(edge.peer);
                    let sent = list.iter().find(|(other, _)| *other == e).unwrap().1.block;
                    expected.extend_from_slice(&data(edge.peer, bytes)[sent.at..][..sent.len]);
                }
                assert_eq!(group.output(rank), expected, "size {size} rank {rank}");
            }
        }
    }
}

/// The published counts of connections (per process, on average) are upper bounds.
#[test]
fn no_collective_needs_more_connections_than_its_algorithm_implies() {
    let average = |size: u32, build: &dyn Fn(&mut Schedule, Place), bytes: usize| {
        let n = size as usize;
        let one = |seed| {
            let mut group = Group::new(size, seed, build, |_| (vec![1; n * bytes], n * bytes));
            group.run(add);
            (0..size).map(|rank| group.peers(rank)).sum::<usize>() as f64 / n as f64
        };
        SEEDS.map(one).into_iter().fold(0.0, f64::max)
    };
    // (Few processes that share cores send large blocks straight to all.)
    for (size, small, gathered, straight, all) in [(16, 4.0, 5.0, 15.0, 15.0), (32, 5.0, 6.0, 6.0, 31.0)] {
        for bytes in [8, 64 << 10, 1 << 20] {
            let e = Elements { count: bytes / 8, unit: 8, commutes: true, operands: Operands::Apart };
            assert!(average(size, &|s, at| barrier(s, at), 0) <= small);
            assert!(average(size, &|s, at| bcast(s, at, 0, bytes), bytes) <= small, "bcast {bytes}");
            assert!(average(size, &|s, at| allreduce(s, at, e), bytes) <= small, "allreduce {bytes}");
        }
        for (bytes, gathered) in [(8, gathered), (64 << 10, straight)] {
            assert!(average(size, &|s, at| allgather(s, at, bytes), bytes) <= gathered, "allgather {bytes}");
            assert!(average(size, &|s, at| alltoall(s, at, bytes), bytes) <= all, "alltoall {bytes}");
        }
    }
}

//! Whole jobs against the server: scripted, by chance, and spoilt.
use super::*;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;
use std::format;

/// A job's processes, each with the bytes that it wants to say and those that it was told.
struct World {
    server: Server,
    ids: Vec<ConnectionId>,
    told: BTreeMap<ConnectionId, Vec<u8>>,
    news: Vec<Event>,
}

impl World {
    fn new(size: u32) -> Self {
        let mut server = Server::new(size);
        let ids = (0..size).map(|_| server.connect().unwrap()).collect();
        World { server, ids, told: BTreeMap::new(), news: Vec::new() }
    }

    fn push(&mut self, rank: usize, bytes: &[u8]) {
        self.server.push(self.ids[rank], bytes);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Send { to, bytes } => self.told.entry(to).or_default().extend_from_slice(&bytes),
                news => self.news.push(news),
            }
        }
    }

    fn told(&self, rank: usize) -> &[u8] {
        self.told.get(&self.ids[rank]).map_or(&[], Vec::as_slice)
    }
}

fn words(words: &[i32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// What `pmgr_open` with trees does: a gather of addresses, and nothing else until close. Ranks other than the root
/// go on at once, before the root has come.
#[test]
fn ranks_that_are_told_nothing_go_on() {
    let mut world = World::new(3);
    for rank in [2, 1] {
        let mut bytes = words(&[8, rank as i32]);
        Operation::Gather { root: 0, data: vec![rank as u8; 6] }.emit(&mut bytes);
        Operation::Close.emit(&mut bytes);
        world.push(rank, &bytes);
        assert_eq!(world.news.pop(), Some(Event::Joined { rank: rank as u32 }));
    }
    let mut bytes = words(&[8, 0]);
    Operation::Gather { root: 0, data: vec![0; 6] }.emit(&mut bytes);
    world.push(0, &bytes);
    assert_eq!(world.told(0), [[0; 6], [1; 6], [2; 6]].concat());
    assert_eq!((world.told(1), world.told(2)), (&[][..], &[][..]));
    world.push(0, &words(&[1]));
    let ids = world.ids.clone();
    assert!(ids.iter().all(|id| world.news.contains(&Event::Close(*id))));
    assert_eq!(world.news.last(), Some(&Event::Done));
    ids.iter().for_each(|id| world.server.ended(*id));
    assert_eq!(world.server.poll_event(), None);
}

#[test]
fn an_abort_comes_over_a_connection_of_its_own() {
    let mut world = World::new(2);
    world.push(0, &words(&[8, 0]));
    world.push(1, &words(&[8, 1]));
    world.news.clear();
    let stranger = world.server.connect().unwrap();
    let mut bytes = words(&[7, 1, 4]);
    bytes.extend(b"bye\0");
    world.server.push(stranger, &bytes);
    world.drain();
    let abort = Event::Abort { code: 7, rank: Some(1), text: "bye".into() };
    assert_eq!(world.news, [abort, Event::Close(stranger)]);
}

#[test]
fn ranks_that_end_or_disagree_are_named() {
    let mut world = World::new(2);
    world.push(0, &words(&[8, 0, 3]));
    world.push(1, &words(&[8, 1]));
    world.news.clear();
    world.push(1, &words(&[7, 0]));
    let why = "rank 1 calls PMGR allgather (0 bytes) while others are in barrier".into();
    let refusal = Refusal { connection: world.ids[1], rank: Some(1), why };
    assert_eq!(world.news, [Event::Refused(refusal)]);
    world.news.clear();
    world.server.ended(world.ids[0]);
    world.drain();
    assert_eq!(world.news, [Event::Lost { rank: 0 }]);
}

#[test]
fn who_says_nothing_makes_place_and_ranks_stay() {
    let mut world = World::new(2);
    world.push(0, &words(&[8, 1]));
    while world.server.connect().is_some() {}
    assert_eq!(world.server.dismiss(), Some(world.ids[1]));
    assert!(world.server.connect().is_some() && world.server.connect().is_none());
    let dismissed = std::iter::from_fn(|| world.server.dismiss()).count();
    assert_eq!(dismissed, CONNECTIONS_SPARE + 1);
    assert!(world.server.wants(world.ids[0]));
}

#[test]
fn connections_are_bounded() {
    let mut world = World::new(2);
    assert_eq!((0..CONNECTIONS_SPARE).filter_map(|_| world.server.connect()).count(), CONNECTIONS_SPARE);
    assert_eq!(world.server.connect(), None);
    world.server.ended(world.ids[0]);
    assert!(world.server.connect().is_some());
}

/// An operation of all ranks: opcode, root and size.
fn call() -> impl Strategy<Value = (u8, u32, u32)> {
    (3u8..=8, any::<u32>(), 0u32..5)
}

/// A byte that says who it is from and for.
fn byte(from: u32, to: u32, nth: u32) -> u8 {
    (from * 31 + to * 7 + nth) as u8
}

/// What rank `me` sends, and what an oracle that sees everything expects it to be told.
fn play(size: u32, me: u32, (opcode, root, bytes): (u8, u32, u32)) -> (Operation, Vec<u8>) {
    let root = root % size;
    let part = |from: u32, to: u32| (0..bytes).map(move |nth| byte(from, to, nth));
    let row = |from: u32| (0..size).flat_map(move |to| part(from, to)).collect::<Vec<u8>>();
    let gathered = || (0..size).flat_map(|from| part(from, 0)).collect::<Vec<u8>>();
    let mine: Vec<u8> = part(me, 0).collect();
    match opcode {
        3 => (Operation::Barrier, vec![3, 0, 0, 0]),
        4 => {
            let data = (me == root).then_some(mine);
            (Operation::Bcast { root, size: bytes, data }, part(root, 0).collect())
        }
        5 => (Operation::Gather { root, data: mine }, if me == root { gathered() } else { vec![] }),
        6 => {
            let data = (me == root).then(|| row(root));
            (Operation::Scatter { root, size: bytes, data }, part(root, me).collect())
        }
        7 => (Operation::Allgather { data: mine }, gathered()),
        _ => {
            let told = (0..size).flat_map(|from| part(from, me)).collect();
            (Operation::Alltoall { size: bytes, data: row(me) }, told)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Ranks run ahead as far as they can: what each says arrives in pieces, in any order between ranks.
    #[test]
    fn everybody_is_told_what_the_oracle_expects(
        size in 1u32..6,
        calls in prop::collection::vec(call(), 0..8),
        order in prop::collection::vec((any::<prop::sample::Index>(), 1usize..20), 0..200),
    ) {
        let mut world = World::new(size);
        let mut said = Vec::new();
        let mut expected = Vec::new();
        for me in 0..size {
            let (mut bytes, mut told) = (words(&[8, me as i32]), Vec::new());
            for call in &calls {
                let (operation, answer) = play(size, me, *call);
                operation.emit(&mut bytes);
                told.extend(answer);
            }
            Operation::Close.emit(&mut bytes);
            said.push(bytes);
            expected.push(told);
        }
        let mut at = vec![0usize; size as usize];
        let all = (0..size as usize).map(|rank| (rank, usize::MAX));
        let order = order.iter().map(|(rank, bytes)| (rank.index(size as usize), *bytes));
        for (rank, bytes) in order.chain(all) {
            let from = at[rank];
            let to = from.saturating_add(bytes).min(said[rank].len());
            world.push(rank, &said[rank][from..to]);
            at[rank] = to;
        }
        for (rank, told) in expected.iter().enumerate() {
            prop_assert_eq!(world.told(rank), &told[..], "rank {}", rank);
        }
        prop_assert_eq!(world.news.last(), Some(&Event::Done));
    }
}

/// A million messages, one in four spoilt, by ranks that come back as new jobs when the server has had enough.
#[test]
fn a_million_wrong_messages_are_survived() {
    const MESSAGES: u32 = 1_000_000;
    const SIZE: u32 = 2;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut chance = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) % below
    };
    let mut server = Server::new(SIZE);
    let (mut sent, mut jobs, mut bytes) = (0u64, 0u32, Vec::new());
    let mut ids: Vec<_> = (0..SIZE).filter_map(|_| server.connect()).collect();
    let mut joined = 0u32;
    for _ in 0..MESSAGES {
        bytes.clear();
        let me = chance(u64::from(SIZE)) as u32;
        if joined < SIZE {
            bytes.extend(words(&[8, joined as i32]));
        } else {
            let call = (3 + chance(2) as u8, 0, 2);
            play(SIZE, me, call).0.emit(&mut bytes);
        }
        if chance(4) == 0 {
            let at = chance(bytes.len() as u64) as usize;
            bytes[at] = chance(256) as u8;
        }
        let id = if joined < SIZE { ids[joined as usize] } else { ids[me as usize] };
        server.push(id, &bytes);
        let mut over = !server.wants(id);
        while let Some(event) = server.poll_event() {
            match event {
                Event::Send { bytes, .. } => sent += bytes.len() as u64,
                Event::Joined { .. } => joined += 1,
                Event::Refused(refusal) => {
                    assert!(refusal.why.len() < 200, "{}", refusal.why);
                    over = true;
                }
                _ => over = true,
            }
        }
        // A rank that was made to promise a lot of data is left waiting for it; that takes no memory.
        if over || chance(64) == 0 {
            jobs += 1;
            joined = 0;
            server = Server::new(SIZE);
            ids = (0..SIZE).filter_map(|_| server.connect()).collect();
        }
    }
    let figures = format!("{sent} bytes sent, {jobs} jobs");
    assert!(sent > 100_000 && jobs > MESSAGES / 100, "{figures}");
}

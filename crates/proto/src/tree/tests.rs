//! The whole tree in one process: many nodes, links that deliver in order but at their own pace.
use super::*;
use crate::ids::{NodeId, Rank};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// A small generator (xorshift64*), so that a failing seed can be replayed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

/// All nodes of a job and what is under way between them.
struct World {
    shape: Shape,
    nodes: Vec<Node>,
    /// Frames by link: from, to.
    links: BTreeMap<(NodeId, NodeId), VecDeque<Frame>>,
    fences_done: Vec<u32>,
    names: Vec<Vec<(u32, NameAnswer)>>,
    chance: Chance,
}

impl World {
    fn new(nodes: u32, radix: u32, local: u32, seed: u64) -> Self {
        let shape = Shape::new(nodes, radix);
        World {
            shape,
            nodes: (0..nodes).map(|id| Node::new(NodeId(id), shape, local)).collect(),
            links: BTreeMap::new(),
            fences_done: vec![0; nodes as usize],
            names: vec![Vec::new(); nodes as usize],
            chance: Chance(seed | 1),
        }
    }

    fn carry_out(&mut self, id: NodeId) {
        while let Some(action) = self.nodes[id.index()].poll_action() {
            match action {
                Action::Up(frame) => {
                    let parent = self.shape.parent(id).expect("the root sends nothing up");
                    self.links.entry((id, parent)).or_default().push_back(frame);
                }
                Action::Down(child, frame) => self.links.entry((id, child)).or_default().push_back(frame),
                Action::FenceDone => self.fences_done[id.index()] += 1,
                Action::Named(slot, answer) => self.names[id.index()].push((slot, answer)),
            }
        }
    }

    /// Delivers one frame of a link chosen by chance, over the wire format. False if nothing is under way.
    fn deliver_one(&mut self) -> bool {
        let busy: Vec<_> =
            self.links.iter().filter(|(_, queue)| !queue.is_empty()).map(|(link, _)| *link).collect();
        if busy.is_empty() {
            return false;
        }
        let (from, to) = busy[self.chance.below(busy.len())];
        let frame = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("a busy link");
        let frame = over_the_wire(&frame);
        let node = &mut self.nodes[to.index()];
        if self.shape.parent(to) == Some(from) {
            node.from_parent(frame).expect("a valid frame");
        } else {
            node.from_child(from, frame).expect("a valid frame");
        }
        self.carry_out(to);
        true
    }

    fn deliver_all(&mut self) {
        while self.deliver_one() {}
    }
}

fn over_the_wire(frame: &Frame) -> Frame {
    let mut bytes = Vec::new();
    frame.emit(&mut bytes);
    let mut frames = Frames::default();
    frames.push(&bytes);
    frames.next_frame().expect("a whole frame").expect("a valid frame")
}

/// Several phases of put, barrier, get, checked against one flat map.
fn phases_agree_with_a_flat_map(nodes: u32, radix: u32, local: u32, seed: u64) {
    let mut world = World::new(nodes, radix, local, seed);
    let mut oracle: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for phase in 0..3 {
        let mut ranks: Vec<(NodeId, u32)> =
            (0..nodes).flat_map(|node| (0..local).map(move |slot| (NodeId(node), slot))).collect();
        while !ranks.is_empty() {
            let (node, slot) = ranks.swap_remove(world.chance.below(ranks.len()));
            let key = alloc::format!("key-{phase}-{node}-{slot}").into_bytes();
            let value = vec![b'v'; world.chance.below(200)];
            world.nodes[node.index()].put(&key, &value).unwrap();
            oracle.insert(key, value);
            world.nodes[node.index()].enter(slot).unwrap();
            world.carry_out(node);
            if !ranks.is_empty() {
                let early = world.fences_done.iter().any(|done| *done > phase);
                assert!(!early, "a barrier ended before all were in");
            }
            for _ in 0..world.chance.below(4) {
                world.deliver_one();
            }
        }
        world.deliver_all();
        assert!(world.fences_done.iter().all(|done| *done == phase + 1), "{:?}", world.fences_done);
        for node in &world.nodes {
            assert!(oracle.iter().all(|(key, value)| node.get(key) == Some(value)));
            assert_eq!(node.get(b"absent"), None);
        }
    }
}

#[test]
fn keys_of_a_phase_reach_every_node_of_trees_of_any_shape() {
    for nodes in [1, 2, 3, 5, 9, 10, 64, 200] {
        for radix in [1, 2, 3, 8] {
            phases_agree_with_a_flat_map(nodes, radix, 2, u64::from(nodes * 31 + radix));
        }
    }
}

#[test]
fn a_phase_larger_than_a_frame_is_sent_in_parts() {
    let mut world = World::new(3, 2, 1, 1);
    for node in 0..3 {
        for i in 0..400 {
            let key = alloc::format!("key-{node}-{i}");
            world.nodes[node].put(key.as_bytes(), &[b'x'; 1023]).unwrap();
        }
        world.nodes[node].enter(0).unwrap();
        world.carry_out(NodeId(node as u32));
    }
    world.deliver_all();
    assert!(world.nodes.iter().all(|node| node.get(b"key-2-399") == Some(&[b'x'; 1023])));
}

#[test]
fn names_are_kept_at_the_root_and_answered_where_asked() {
    let mut world = World::new(20, 3, 1, 7);
    let service = || b"a service".to_vec();
    let ask = |world: &mut World, node: usize, request| {
        world.nodes[node].ask_name(0, request);
        world.carry_out(NodeId(node as u32));
        world.deliver_all();
        world.names[node].pop().expect("an answer").1
    };
    let publish = || NameRequest::Publish { service: service(), port: b"p".to_vec() };
    assert_eq!(ask(&mut world, 19, NameRequest::Lookup { service: service() }), NameAnswer::NotFound);
    assert_eq!(ask(&mut world, 5, publish()), NameAnswer::Done);
    assert_eq!(ask(&mut world, 0, publish()), NameAnswer::Taken);
    assert_eq!(
        ask(&mut world, 19, NameRequest::Lookup { service: service() }),
        NameAnswer::Found(b"p".to_vec())
    );
    assert_eq!(ask(&mut world, 1, NameRequest::Unpublish { service: service() }), NameAnswer::Done);
    assert_eq!(ask(&mut world, 1, NameRequest::Unpublish { service: service() }), NameAnswer::NotFound);
}

#[test]
fn what_breaks_the_protocol_is_refused() {
    let shape = Shape::new(3, 2);
    let mut root = Node::new(NodeId(0), shape, 2);
    assert_eq!(root.enter(2), Err(NodeError::NoSlot(2)));
    root.enter(0).unwrap();
    assert_eq!(root.enter(0), Err(NodeError::EnteredTwice(0)));
    let wrong = NodeError::WrongFence { from: NodeId(1), got: 5, expected: 0 };
    assert_eq!(root.from_child(NodeId(1), Frame::FenceUp { fence: 5 }), Err(wrong));
    root.from_child(NodeId(1), Frame::FenceUp { fence: 0 }).unwrap();
    let again = root.from_child(NodeId(1), Frame::FenceUp { fence: 0 });
    assert_eq!(again, Err(NodeError::NotExpected(NodeId(1))));
    assert_eq!(
        root.from_child(NodeId(9), Frame::FenceUp { fence: 0 }),
        Err(NodeError::NotExpected(NodeId(9)))
    );
    assert_eq!(root.from_child(NodeId(1), Frame::Credit { bytes: 1 }), Err(NodeError::Misplaced(NodeId(1))));
    assert!(root.from_parent(Frame::FenceDown { fence: 0 }).is_err());
    assert_eq!(root.poll_action(), None);
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..64)
}

fn ended() -> impl Strategy<Value = Ended> {
    prop_oneof![any::<i32>().prop_map(Ended::Exit), any::<i32>().prop_map(Ended::Signal)]
}

fn text() -> impl Strategy<Value = String> {
    "[ -~]{0,40}".prop_map(|text| text.to_string())
}

fn name_request() -> impl Strategy<Value = NameRequest> {
    prop_oneof![
        (bytes(), bytes()).prop_map(|(service, port)| NameRequest::Publish { service, port }),
        bytes().prop_map(|service| NameRequest::Lookup { service }),
        bytes().prop_map(|service| NameRequest::Unpublish { service }),
    ]
}

fn name_answer() -> impl Strategy<Value = NameAnswer> {
    prop_oneof![
        Just(NameAnswer::Done),
        bytes().prop_map(NameAnswer::Found),
        Just(NameAnswer::NotFound),
        Just(NameAnswer::Taken),
        Just(NameAnswer::Full),
    ]
}

fn process_frame() -> impl Strategy<Value = Frame> {
    let node = || any::<u32>().prop_map(NodeId);
    let rank = || any::<u32>().prop_map(Rank);
    let pmi = || prop_oneof![Just(PmiState::Unused), Just(PmiState::Active), Just(PmiState::Finalized)];
    prop_oneof![
        (node(), any::<i32>()).prop_map(|(node, pid)| Frame::Hello { node, pid }),
        node().prop_map(|node| Frame::Started { node }),
        (rank(), prop_oneof![Just(Stream::Out), Just(Stream::Err)], bytes())
            .prop_map(|(rank, stream, bytes)| Frame::Output { rank, stream, bytes }),
        (rank(), prop::collection::vec(any::<u64>(), 0..40))
            .prop_map(|(rank, values)| Frame::Stats { rank, values }),
        (rank(), any::<i32>(), ended(), pmi()).prop_map(|(rank, pid, ended, pmi)| Frame::RankEnded {
            rank,
            pid,
            ended,
            pmi
        }),
        (rank(), any::<i32>(), any::<i32>(), text()).prop_map(|(rank, pid, code, message)| Frame::Aborted {
            rank,
            pid,
            code,
            message
        }),
        (rank(), any::<i32>(), text()).prop_map(|(rank, pid, reason)| Frame::BadPmi { rank, pid, reason }),
        rank().prop_map(|rank| Frame::FenceBegun { rank }),
        (rank(), any::<i32>()).prop_map(|(rank, errno)| Frame::StartFailed { rank, errno }),
        (node(), any::<i32>(), ended()).prop_map(|(node, pid, ended)| Frame::AgentLost { node, pid, ended }),
        (node(), text()).prop_map(|(node, reason)| Frame::AgentFailed { node, reason }),
    ]
}

fn tree_frame() -> impl Strategy<Value = Frame> {
    let node = || any::<u32>().prop_map(NodeId);
    let entry = (bytes(), bytes()).prop_map(|(key, value)| Entry { key, value });
    prop_oneof![
        any::<u32>().prop_map(|bytes| Frame::Credit { bytes }),
        (any::<u32>(), prop::collection::vec(entry, 0..8))
            .prop_map(|(fence, entries)| Frame::Entries { fence, entries }),
        any::<u32>().prop_map(|fence| Frame::FenceUp { fence }),
        any::<u32>().prop_map(|fence| Frame::FenceDown { fence }),
        (node(), any::<u32>(), name_request()).prop_map(|(node, slot, request)| Frame::Name {
            node,
            slot,
            request
        }),
        (node(), any::<u32>(), name_answer()).prop_map(|(node, slot, answer)| Frame::NameReply {
            node,
            slot,
            answer
        }),
        any::<u32>().prop_map(|grace_ms| Frame::End { grace_ms }),
        any::<i32>().prop_map(|signal| Frame::Signal { signal }),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![process_frame(), tree_frame()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_frame_is_parsed_as_it_was_emitted(frames in prop::collection::vec(frame(), 1..8), cut in 1usize..50) {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.emit(&mut bytes));
        let mut stream = Frames::default();
        let mut seen = Vec::new();
        for piece in bytes.chunks(cut) {
            stream.push(piece);
            while let Some(frame) = stream.next_frame() {
                seen.push(frame.expect("a valid frame"));
            }
        }
        prop_assert_eq!(seen, frames);
    }

    #[test]
    fn bytes_that_are_no_frame_are_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Frame::parse(&bytes);
        let mut known = vec![VERSION, bytes.first().map_or(0, |kind| kind % 22)];
        known.extend(&bytes);
        if let Ok(frame) = Frame::parse(&known) {
            prop_assert_eq!(over_the_wire(&frame), frame);
        }
    }

    #[test]
    fn a_damaged_frame_is_refused_or_another_valid_one(frame in frame(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = Vec::new();
        frame.emit(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let mut stream = Frames::default();
        stream.push(&bytes);
        let _ = stream.next_frame();
    }

    #[test]
    fn any_schedule_gives_every_node_every_key(nodes in 1u32..40, radix in 1u32..9, local in 1u32..4, seed in any::<u64>()) {
        phases_agree_with_a_flat_map(nodes, radix, local, seed);
    }
}

//! Frames survive the wire, and nothing else passes for one.
use super::*;
use crate::ids::{NodeId, Rank};
use crate::lane::JobId;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn over_the_wire(frame: &Frame) -> Frame {
    let mut bytes = Vec::new();
    frame.emit(&mut bytes);
    let mut frames = Frames::default();
    frames.push(&bytes);
    frames.next_frame().expect("a whole frame").expect("a valid frame")
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

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    prop::collection::vec((bytes(), bytes()).prop_map(|(key, value)| Pair { key, value }), 0..3)
}

fn wish() -> impl Strategy<Value = SpawnWish> {
    let args = prop::collection::vec(bytes(), 0..3);
    let command = (any::<u32>(), bytes(), args, pairs())
        .prop_map(|(processes, program, args, infos)| SpawnCommand { processes, program, args, infos });
    (member(), prop::collection::vec(command, 0..3), pairs()).prop_map(|(by, commands, preputs)| SpawnWish {
        by,
        commands,
        preputs,
    })
}

fn question() -> impl Strategy<Value = Question> {
    prop_oneof![
        (bytes(), bytes()).prop_map(|(service, port)| Question::Publish { service, port }),
        bytes().prop_map(|service| Question::Lookup { service }),
        bytes().prop_map(|service| Question::Unpublish { service }),
        wish().prop_map(Question::Spawn),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Done),
        bytes().prop_map(Answer::Found),
        Just(Answer::NotFound),
        Just(Answer::Taken),
        Just(Answer::Full),
        (bytes(), any::<u32>()).prop_map(|(name, processes)| Answer::Spawned { name, processes }),
        text().prop_map(Answer::NotSpawned),
    ]
}

fn node() -> impl Strategy<Value = NodeId> {
    any::<u32>().prop_map(NodeId)
}

fn job() -> impl Strategy<Value = JobId> {
    any::<u32>().prop_map(JobId)
}

fn member() -> impl Strategy<Value = Member> {
    (job(), any::<u32>()).prop_map(|(job, rank)| Member { job, rank: Rank(rank) })
}

fn values() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(any::<u64>(), 0..40)
}

fn step() -> impl Strategy<Value = StartStep> {
    prop::sample::select(&[StartStep::Process, StartStep::Folder, StartStep::Program, StartStep::Interpreter])
}

fn process_frame() -> impl Strategy<Value = Frame> {
    let pmi = || prop_oneof![Just(PmiState::Unused), Just(PmiState::Active), Just(PmiState::Finalized)];
    prop_oneof![
        (member(), prop_oneof![Just(Stream::Out), Just(Stream::Err)], bytes())
            .prop_map(|(from, stream, bytes)| Frame::Output { from, stream, bytes }),
        (node(), member(), bytes()).prop_map(|(node, to, bytes)| Frame::Input { node, to, bytes }),
        (member(), any::<u32>()).prop_map(|(from, bytes)| Frame::InputTaken { from, bytes }),
        (member(), values()).prop_map(|(of, values)| Frame::Stats { of, values }),
        (member(), prop::collection::vec(any::<u32>(), 0..40))
            .prop_map(|(of, words)| Frame::Met { of, words }),
        (member(), any::<u64>(), prop::collection::vec(any::<u32>(), 0..40))
            .prop_map(|(of, count, words)| Frame::Contacts { of, count, words }),
        (member(), any::<i32>(), ended(), pmi(), text())
            .prop_map(|(who, pid, ended, pmi, words)| Frame::RankEnded { who, pid, ended, pmi, words }),
        (member(), any::<i32>(), any::<i32>(), text()).prop_map(|(who, pid, code, message)| Frame::Aborted {
            who,
            pid,
            code,
            message
        }),
        (member(), any::<i32>(), text()).prop_map(|(who, pid, reason)| Frame::BadPmi { who, pid, reason }),
        member().prop_map(|who| Frame::FenceBegun { who }),
        (member(), any::<bool>()).prop_map(|(who, parted)| Frame::Spare { who, parted }),
        (member(), step(), any::<i32>()).prop_map(|(who, step, errno)| Frame::StartFailed {
            who,
            step,
            errno
        }),
    ]
}

fn agent_frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        (node(), any::<i32>()).prop_map(|(node, pid)| Frame::Hello { node, pid }),
        (node(), job()).prop_map(|(node, job)| Frame::Started { node, job }),
        (node(), job(), values()).prop_map(|(node, job, values)| Frame::BoardStats { node, job, values }),
        (node(), job(), values()).prop_map(|(node, job, values)| Frame::ServerStats { node, job, values }),
        (node(), job(), any::<i32>(), ended(), text())
            .prop_map(|(node, job, pid, ended, reason)| Frame::ServerEnded { node, job, pid, ended, reason }),
        (node(), text()).prop_map(|(node, reason)| Frame::AgentMissing { node, reason }),
        (node(), any::<i32>(), ended()).prop_map(|(node, pid, ended)| Frame::AgentLost { node, pid, ended }),
        (node(), text()).prop_map(|(node, reason)| Frame::AgentFailed { node, reason }),
        (node(), text()).prop_map(|(node, text)| Frame::Note { node, text }),
        (node(), text()).prop_map(|(node, text)| Frame::Warn { node, text }),
    ]
}

fn tree_frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        Just(Frame::Beat),
        (any::<u32>(), bytes()).prop_map(|(rest, bytes)| Frame::Setup { rest, bytes }),
        job().prop_map(|job| Frame::Over { job }),
        job().prop_map(|job| Frame::Revoke { job }),
        any::<u32>().prop_map(|bytes| Frame::Credit { bytes }),
        bytes().prop_map(Frame::Board),
        (node(), any::<u32>(), question()).prop_map(|(node, ask, question)| Frame::Ask {
            node,
            ask,
            question
        }),
        (node(), any::<u32>(), answer()).prop_map(|(node, ask, answer)| Frame::Answer { node, ask, answer }),
        (job(), any::<u32>(), bytes()).prop_map(|(job, rest, bytes)| Frame::Begin { job, rest, bytes }),
        any::<u32>().prop_map(|grace_ms| Frame::End { grace_ms }),
        any::<i32>().prop_map(|signal| Frame::Signal { signal }),
        any::<u32>().prop_map(|ask| Frame::Where { ask }),
        (member(), any::<Vec<u64>>()).prop_map(|(of, words)| Frame::Traffic { of, words }),
        (member(), any::<u32>()).prop_map(|(who, seconds)| Frame::Waiting { who, seconds }),
        (member(), any::<u32>(), any::<Vec<u8>>()).prop_map(|(who, ask, standing)| Frame::Here {
            who,
            ask,
            standing
        }),
        (node(), any::<u32>()).prop_map(|(node, ask)| Frame::ToldAll { node, ask }),
        (node(), job(), any::<(u32, i32, bool)>(), any::<Vec<u8>>()).prop_map(
            |(node, job, (ask, pid, is_ready), standing)| Frame::ServerHere {
                node,
                job,
                ask,
                pid,
                is_ready,
                standing
            }
        ),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![process_frame(), agent_frame(), tree_frame()]
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
        let mut known = vec![VERSION, bytes.first().map_or(0, |kind| kind % 39)];
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
}

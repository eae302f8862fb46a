//! Scripted conversations, and an attacker on the network who alters, repeats, drops and reflects messages.
use super::*;
use crate::ids::{NodeId, Rank};
use crate::lane::JobId;
use crate::tree::{FRAME_BYTES_MAX, Frame, FrameError, Member, Stream};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;
use std::string::ToString;

const NODE: NodeId = NodeId(7);

fn key(seed: u8) -> Key {
    Key::new([seed; KEY_BYTES])
}

fn nonce(seed: u8) -> Nonce {
    Nonce([seed; NONCE_BYTES])
}

/// What went over the wire: hello, welcome, proof, verdict.
#[derive(Clone, Default)]
struct Recording(Vec<Vec<u8>>);

/// What may happen to the message of this number on its way.
type OnTheWay<'a> = &'a dyn Fn(usize, &mut Vec<u8>);

#[derive(Debug)]
struct Failed {
    child: Option<HandshakeError>,
    parent: Option<HandshakeError>,
}

/// A child of one key and a parent of another talk; an attacker sits between them.
fn talk(
    (child_key, parent_key): (Key, Key),
    (child_nonce, parent_nonce): (Nonce, Nonce),
    refusal: Option<Refusal>,
    tamper: OnTheWay<'_>,
) -> (Result<(Seal, Seal), Failed>, Recording) {
    let mut recording = Recording::default();
    let mut deliver = |mut message: Vec<u8>| {
        recording.0.push(message.clone());
        tamper(recording.0.len() - 1, &mut message);
        message
    };
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let mut child = Child::new(child_key, NODE, child_nonce, &mut out);
    let mut parent = Parent::new(parent_key, parent_nonce);
    let mut failed = Failed { child: None, parent: None };
    let mut at_parent = None;
    let result = loop {
        match parent.push(&deliver(core::mem::take(&mut out)), &mut back) {
            Ok(Progress::More) => {}
            Ok(Progress::Done(proven)) => {
                assert_eq!(proven.node, NODE);
                match refusal {
                    Some(refusal) => proven.refuse(refusal, &mut back),
                    None => at_parent = Some(proven.admit(&mut back)),
                }
            }
            Err(error) => failed.parent = Some(error),
        }
        if back.is_empty() {
            break Err(failed);
        }
        match child.push(&deliver(core::mem::take(&mut back)), &mut out) {
            Ok(Progress::More) => {}
            Ok(Progress::Done(seal)) => break Ok((seal, at_parent.take().expect("the parent was first"))),
            Err(error) => failed.child = Some(error),
        }
        if out.is_empty() {
            break Err(failed);
        }
    };
    (result, recording)
}

fn nothing(_: usize, _: &mut Vec<u8>) {}

fn sealed_pair() -> (Seal, Seal) {
    talk((key(1), key(1)), (nonce(2), nonce(3)), None, &nothing).0.expect("a handshake")
}

/// Frame `number` of a script.
fn frame(number: u32) -> Frame {
    Frame::Output {
        from: Member { job: JobId(0), rank: Rank(number) },
        stream: Stream::Out,
        bytes: vec![number as u8; number as usize % 50],
    }
}

/// Frames `0..count` from `from`, each with its tag.
fn sealed_frames(from: &mut Seal, count: u32) -> Vec<Vec<u8>> {
    let sealed = |number| {
        let mut bytes = Vec::new();
        from.emit(&frame(number), &mut bytes);
        bytes
    };
    (0..count).map(sealed).collect()
}

/// What `at` makes of these bytes: the frames before the first error, and the error.
fn received(at: &mut Seal, bytes: &[u8], cut: usize) -> (Vec<Frame>, Option<LinkError>) {
    let mut seen = Vec::new();
    for piece in bytes.chunks(cut) {
        at.push(piece);
        while let Some(frame) = at.next_frame() {
            match frame {
                Ok(frame) => seen.push(frame),
                Err(error) => return (seen, Some(error)),
            }
        }
    }
    (seen, None)
}

#[test]
fn both_ends_with_the_key_get_a_seal_and_hear_each_other() {
    let (mut child, mut parent) = sealed_pair();
    let up = sealed_frames(&mut child, 60).concat();
    let down = sealed_frames(&mut parent, 5).concat();
    let all = |count| (0..count).map(frame).collect::<Vec<_>>();
    assert_eq!(received(&mut parent, &up, 7), (all(60), None));
    assert_eq!(received(&mut child, &down, 1000), (all(5), None));
}

#[test]
fn a_wrong_key_on_either_side_is_noticed_by_the_other() {
    let (result, recording) = talk((key(1), key(2)), (nonce(2), nonce(3)), None, &nothing);
    let failed = result.unwrap_err();
    assert_eq!((failed.child, failed.parent), (Some(HandshakeError::WrongKey), None));
    assert_eq!(recording.0.len(), 2, "a child does not answer who has not proven itself");
    // A stranger who goes on all the same.
    let mut parent = Parent::new(key(1), nonce(3));
    let (mut hello, mut out) = (Vec::new(), Vec::new());
    Child::new(key(2), NODE, nonce(2), &mut hello);
    assert!(matches!(parent.push(&hello, &mut out), Ok(Progress::More)));
    out.clear();
    assert_eq!(parent.push(&[9; 32], &mut out).unwrap_err(), HandshakeError::WrongKey);
    assert_eq!(out, [], "a stranger is told nothing");
}

#[test]
fn a_refused_child_hears_why() {
    for refusal in [Refusal::Unknown, Refusal::Connected] {
        let (result, _) = talk((key(1), key(1)), (nonce(2), nonce(3)), Some(refusal), &nothing);
        assert_eq!(result.unwrap_err().child, Some(HandshakeError::Refused(refusal)));
    }
    assert_eq!(
        HandshakeError::Refused(Refusal::Connected).to_string(),
        "it refused: the node is connected already"
    );
}

#[test]
fn another_version_is_named_on_both_sides() {
    let (result, _) = talk((key(1), key(1)), (nonce(2), nonce(3)), None, &|number, message| {
        if number == 0 {
            message[MAGIC.len()] = 9;
        } else {
            message[MAGIC.len()] = 3; // the notice of the parent, as a parent of version 3 would write it
        }
    });
    let failed = result.unwrap_err();
    assert_eq!(failed.parent, Some(HandshakeError::Version(9)));
    assert_eq!(failed.child, Some(HandshakeError::Version(3)));
}

#[test]
fn no_byte_of_a_handshake_can_be_altered_unnoticed() {
    let (_, recording) = talk((key(1), key(1)), (nonce(2), nonce(3)), None, &nothing);
    assert_eq!(recording.0.len(), 4);
    for (number, message) in recording.0.iter().enumerate() {
        for (at, bit) in (0..message.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let tamper = |n: usize, bytes: &mut Vec<u8>| {
                if n == number {
                    bytes[at] ^= 1 << bit;
                }
            };
            let (result, _) = talk((key(1), key(1)), (nonce(2), nonce(3)), None, &tamper);
            assert!(result.is_err(), "message {number}, byte {at}, bit {bit}");
        }
    }
}

#[test]
fn a_recorded_handshake_is_worth_nothing() {
    let (_, old) = talk((key(1), key(1)), (nonce(2), nonce(3)), None, &nothing);
    // To another parent, or the same one later: its nonce is fresh.
    let mut parent = Parent::new(key(1), nonce(4));
    let mut out = Vec::new();
    assert!(matches!(parent.push(&old.0[0], &mut out), Ok(Progress::More)));
    assert_eq!(parent.child_nonce(), Some(nonce(2)), "shows the recording");
    assert_eq!(parent.push(&old.0[2], &mut out).unwrap_err(), HandshakeError::WrongKey);
    // To another child.
    let mut child = Child::new(key(1), NODE, nonce(5), &mut Vec::new());
    assert_eq!(child.push(&old.0[1], &mut out).unwrap_err(), HandshakeError::WrongKey);
}

#[test]
fn a_proof_cannot_be_turned_around() {
    // The enemy lets a parent prove its own words back to it.
    let mut parent = Parent::new(key(1), nonce(3));
    let (mut hello, mut welcome) = (Vec::new(), Vec::new());
    Child::new(key(9), NODE, nonce(2), &mut hello);
    assert!(matches!(parent.push(&hello, &mut welcome), Ok(Progress::More)));
    let proof = &welcome[welcome.len() - 32..];
    assert_eq!(parent.push(proof, &mut Vec::new()).unwrap_err(), HandshakeError::WrongKey);
    // A child hears its own first message, padded.
    let mut out = Vec::new();
    let mut child = Child::new(key(1), NODE, nonce(2), &mut out);
    out.resize(child.wants(), 0);
    assert_eq!(child.push(&out, &mut Vec::new()).unwrap_err(), HandshakeError::WrongKey);
}

#[test]
fn a_child_cannot_be_passed_off_as_another_node() {
    let tamper = |number: usize, message: &mut Vec<u8>| {
        if number == 0 {
            message[OPENING..OPENING + 4].copy_from_slice(&8u32.to_le_bytes());
        }
    };
    const OPENING: usize = MAGIC.len() + 1;
    let (result, _) = talk((key(1), key(1)), (nonce(2), nonce(3)), None, &tamper);
    assert_eq!(result.unwrap_err().child, Some(HandshakeError::WrongKey));
}

#[test]
fn garbage_is_refused_at_its_first_byte_and_nothing_is_held_for_strangers() {
    let mut parent = Parent::new(key(1), nonce(3));
    assert_eq!(parent.push(b"G", &mut Vec::new()).unwrap_err(), HandshakeError::BadMagic);
    let mut parent = Parent::new(key(1), nonce(3));
    let wanted = parent.wants();
    assert!(wanted < MESSAGE_BYTES_MAX);
    let flood = [MAGIC[0]; 1000];
    let error = parent.push(&flood, &mut Vec::new()).unwrap_err();
    assert_eq!(error, HandshakeError::Oversized { got: 1000, wanted });
    assert_eq!(parent.wants(), wanted, "nothing was kept");
}

#[test]
fn a_handshake_cut_anywhere_waits_for_the_rest() {
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let mut child = Child::new(key(1), NODE, nonce(2), &mut out);
    let mut parent = Parent::new(key(1), nonce(3));
    let mut proven = None;
    for _ in 0..2 {
        for byte in core::mem::take(&mut out) {
            if let Progress::Done(done) = parent.push(&[byte], &mut back).unwrap() {
                proven = Some(done);
            }
        }
        if let Some(proven) = proven.take() {
            proven.admit(&mut back);
        }
        for (nth, byte) in core::mem::take(&mut back).into_iter().enumerate() {
            if let Progress::Done(_) = child.push(&[byte], &mut out).unwrap() {
                assert_eq!((nth, child.wants()), (32, 0));
                return;
            }
        }
    }
    panic!("no seal");
}

#[test]
fn what_the_enemy_does_to_frames_is_named() {
    let scene = |order: &[usize]| {
        let (mut child, mut parent) = sealed_pair();
        let frames = sealed_frames(&mut child, 4);
        let bytes: Vec<u8> = order.iter().flat_map(|at| frames[*at].clone()).collect();
        let (seen, error) = received(&mut parent, &bytes, 11);
        (seen.len(), error)
    };
    assert_eq!(scene(&[0, 1, 2, 3]), (4, None));
    assert_eq!(scene(&[0, 1, 1]), (2, Some(LinkError::Replayed { got: 1, expected: 2 })));
    assert_eq!(scene(&[0, 2, 1]), (1, Some(LinkError::Skipped { got: 2, expected: 1 })));
    assert_eq!(scene(&[1]), (0, Some(LinkError::Skipped { got: 1, expected: 0 })));
    let (mut child, mut parent) = sealed_pair();
    let mine = sealed_frames(&mut child, 3).concat();
    assert_eq!(received(&mut child, &mine, 99).1, Some(LinkError::Reflected { got: 0 }));
    // A frame of another link of the same job.
    let ends = talk((key(1), key(1)), (nonce(8), nonce(3)), None, &nothing).0.unwrap();
    let foreign = sealed_frames(&mut { ends }.0, 1).concat();
    assert_eq!(received(&mut parent, &foreign, 99).1, Some(LinkError::Forged { expected: 0 }));
}

#[test]
fn nothing_counts_behind_a_wrong_frame() {
    let (mut child, mut parent) = sealed_pair();
    let frames = sealed_frames(&mut child, 2);
    parent.push(&[&frames[0][..], &frames[0], &frames[1]].concat());
    assert!(matches!(parent.next_frame(), Some(Ok(_))));
    assert!(matches!(parent.next_frame(), Some(Err(LinkError::Replayed { .. }))));
    parent.push(&frames[1]);
    assert_eq!(parent.next_frame(), Some(Err(LinkError::Broken)), "though it would fit");
}

#[test]
fn a_length_out_of_bounds_is_refused_before_its_tag() {
    let (_, mut parent) = sealed_pair();
    let length = FRAME_BYTES_MAX + 1;
    let (seen, error) = received(&mut parent, &(length as u32).to_le_bytes(), 4);
    assert_eq!((seen.len(), error), (0, Some(LinkError::Frame(FrameError::Length(length)))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bit_of_a_sealed_stream_can_be_altered_unnoticed(
        count in 1u32..12, at in any::<prop::sample::Index>(), bit in 0u8..8, cut in 1usize..90
    ) {
        let (mut child, mut parent) = sealed_pair();
        let frames = sealed_frames(&mut child, count);
        let mut bytes = frames.concat();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let mut end = 0;
        let damaged = frames.iter().position(|frame| { end += frame.len(); at < end }).unwrap();
        let (seen, error) = received(&mut parent, &bytes, cut);
        let expected: Vec<Frame> = (0..damaged as u32).map(frame).collect();
        prop_assert_eq!(seen, expected, "those before it, and nothing else");
        // A length that grew waits for bytes that never come; else it is an error at once.
        let in_length = at - (end - frames[damaged].len()) < 4;
        prop_assert!(error.is_some() || in_length);
    }

    #[test]
    fn any_other_order_of_frames_ends_the_link(order in prop::collection::vec(0usize..5, 1..9)) {
        let (mut child, mut parent) = sealed_pair();
        let frames = sealed_frames(&mut child, 5);
        let bytes: Vec<u8> = order.iter().flat_map(|at| frames[*at].clone()).collect();
        let right = order.iter().enumerate().take_while(|(nth, at)| nth == *at).count();
        let (seen, error) = received(&mut parent, &bytes, 64);
        prop_assert_eq!(seen.len(), right);
        prop_assert_eq!(error.is_some(), right < order.len());
    }

    #[test]
    fn strangers_bytes_never_make_a_seal(
        noise in prop::collection::vec(any::<u8>(), 0..120), kept in 0usize..80, cut in 1usize..40
    ) {
        let mut hello = Vec::new();
        let mut child = Child::new(key(1), NODE, nonce(2), &mut hello);
        hello.truncate(kept);
        hello.extend(noise);
        let mut parent = Parent::new(key(1), nonce(3));
        for piece in hello.chunks(cut) {
            let piece = &piece[..piece.len().min(parent.wants())];
            match parent.push(piece, &mut Vec::new()) {
                Ok(Progress::More) => {}
                Ok(Progress::Done(_)) => prop_assert!(false, "a stranger has the key"),
                Err(_) => break,
            }
        }
        for piece in hello.chunks(cut) {
            let piece = &piece[..piece.len().min(child.wants())];
            match child.push(piece, &mut Vec::new()) {
                Ok(Progress::More) => {}
                Ok(Progress::Done(_)) => prop_assert!(false, "a stranger has the key"),
                Err(_) => break,
            }
        }
    }
}

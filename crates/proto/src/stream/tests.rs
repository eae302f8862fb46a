use super::proof::{DATAGRAM_BYTES_MAX, HELLO_BYTES_MAX, hello_follows};
use super::*;
use alloc::vec;
use proptest::prelude::*;

fn frames() -> impl Strategy<Value = Frame> {
    let place = (any::<u64>(), any::<u32>()).prop_map(|(addr, key)| Place { addr, key });
    let len = 0..=MESSAGE_MAX;
    let why = prop_oneof![Just(Refusal::Key), Just(Refusal::Atomic)];
    prop_oneof![
        (any::<[u64; 2]>(), len.clone()).prop_map(|(header, len)| Frame::Data { header, len }),
        (0..=CONTROL_MAX).prop_map(|len| Frame::Control { len }),
        (any::<u32>(), place.clone(), len.clone()).prop_map(|(id, from, len)| Frame::Read { id, from, len }),
        (any::<u32>(), len.clone()).prop_map(|(id, len)| Frame::Bytes { id, len }),
        (any::<u32>(), place.clone(), len).prop_map(|(id, to, len)| Frame::Write { id, to, len }),
        any::<u32>().prop_map(|id| Frame::Written { id }),
        (any::<u32>(), place.clone()).prop_map(|(id, at)| Frame::Add { id, at }),
        (any::<u32>(), place).prop_map(|(id, at)| Frame::Swap { id, at }),
        (any::<u32>(), any::<u64>()).prop_map(|(id, value)| Frame::Old { id, value }),
        (any::<u32>(), why).prop_map(|(id, why)| Frame::Refused { id, why }),
        any::<bool>().prop_map(Frame::Frugal),
        any::<u64>().prop_map(|dial| Frame::Crossed { dial }),
    ]
}

proptest! {
    #[test]
    fn a_frame_is_read_as_it_was_written(frame in frames()) {
        prop_assert_eq!(Frame::parse(&frame.emit()), Ok(frame));
    }

    #[test]
    fn whatever_is_read_would_be_written_the_same_way(mut bytes in any::<[u8; HEAD_BYTES]>(), kind in 0..14u8) {
        bytes[0] = kind;
        if let Ok(frame) = Frame::parse(&bytes) {
            prop_assert!(frame.follows() <= MESSAGE_MAX);
            prop_assert_eq!(Frame::parse(&frame.emit()), Ok(frame));
        }
    }

    #[test]
    fn no_bytes_upset_the_proofs(bytes in prop::collection::vec(any::<u8>(), 0..400), magic in 0..3usize) {
        let secret = Secret::new([7; 32]);
        let mut bytes = bytes;
        bytes.splice(..bytes.len().min(4), *[b"BnyH", b"BnyW", b"BnyD"][magic]);
        prop_assert!(secret.check_hello(1, &bytes).is_err());
        prop_assert_eq!(secret.check_datagram(1, &bytes), None);
        prop_assert!(!secret.is_welcome(1, 2, 3, &bytes));
    }
}

#[test]
fn lengths_that_a_kind_cannot_have_are_refused() {
    let long = |frame: Frame, len: u64| {
        let mut bytes = frame.emit();
        let first = len << 8 | u64::from(bytes[0]);
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        Frame::parse(&bytes)
    };
    let over = MESSAGE_MAX as u64 + 1;
    assert_eq!(
        long(Frame::Data { header: [0; 2], len: 0 }, over),
        Err(FrameError::Length { kind: 1, len: over })
    );
    assert!(long(Frame::Control { len: 0 }, CONTROL_MAX as u64 + 1).is_err());
    assert!(long(Frame::Add { id: 1, at: Place { addr: 0, key: 0 } }, 7).is_err());
    assert!(long(Frame::Swap { id: 1, at: Place { addr: 0, key: 0 } }, 8).is_err());
    assert!(long(Frame::Written { id: 1 }, 1).is_err());
    assert_eq!(Frame::parse(&[0; HEAD_BYTES]), Err(FrameError::Kind(0)));
    assert_eq!(Frame::parse(&[0xff; HEAD_BYTES]), Err(FrameError::Kind(0xff)));
}

#[test]
fn a_hello_is_for_one_process_and_from_a_holder_of_the_key() {
    let (ours, theirs) = (Secret::new([1; 32]), Secret::new([2; 32]));
    for message in [vec![], vec![9; CONTROL_MAX]] {
        let hello = ours.hello(10, 20, 30, &message);
        assert!(hello.len() <= HELLO_BYTES_MAX);
        assert_eq!(hello_follows(hello.first_chunk().unwrap()), Ok(message.len()));
        assert_eq!(ours.check_hello(20, &hello), Ok(Hello { from: 10, dial: 30, message: &message }));
        assert_eq!(ours.check_hello(21, &hello), Err(HelloError::Tag));
        assert_eq!(theirs.check_hello(20, &hello), Err(HelloError::Tag));
        for at in 0..hello.len() {
            let mut altered = hello.clone();
            altered[at] ^= 1;
            assert!(ours.check_hello(20, &altered).is_err(), "byte {at}");
            assert!(ours.check_hello(20, &hello[..at]).is_err(), "{at} bytes");
        }
    }
}

#[test]
fn a_welcome_answers_one_dial() {
    let secret = Secret::new([1; 32]);
    let welcome = secret.welcome(20, 10, 30);
    assert!(secret.is_welcome(20, 10, 30, &welcome));
    assert!(!secret.is_welcome(20, 10, 31, &welcome));
    assert!(!secret.is_welcome(21, 10, 30, &welcome));
    assert!(!secret.is_welcome(20, 11, 30, &welcome));
    assert!(!secret.is_welcome(20, 10, 30, &welcome[1..]));
    assert!(!Secret::new([2; 32]).is_welcome(20, 10, 30, &welcome));
}

#[test]
fn a_datagram_is_for_one_process_and_from_a_holder_of_the_key() {
    let secret = Secret::new([1; 32]);
    let datagram = secret.datagram(20, b"message");
    assert_eq!(secret.check_datagram(20, &datagram), Some(&b"message"[..]));
    assert_eq!(secret.check_datagram(21, &datagram), None);
    assert_eq!(Secret::new([2; 32]).check_datagram(20, &datagram), None);
    for at in 0..datagram.len() {
        assert_eq!(secret.check_datagram(20, &datagram[..at]), None);
    }
    assert_eq!(secret.datagram(1, &[0; CONTROL_MAX]).len(), DATAGRAM_BYTES_MAX);
}

//! Properties of the codec: no bytes make it panic, and what one side emits the other side understands.
use super::*;
use crate::placement::Placement;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// A word without blanks, newlines and `=`, as names and keys are.
fn word() -> impl Strategy<Value = Vec<u8>> {
    "[a-zA-Z0-9_#$.-]{1,30}".prop_map(alloc::string::String::into_bytes)
}

/// Anything but a newline; it may look like fields.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>().prop_filter("no newline", |b| *b != b'\n' && *b != b'\r'), 0..60),
        "( ?(key|value|rc|msg|cmd)=[a-z]{0,4}){0,4}".prop_map(alloc::string::String::into_bytes),
    ]
}

/// Lines that are almost right.
fn almost_a_message() -> impl Strategy<Value = Vec<u8>> {
    let names = Verb::ALL.iter().flat_map(|row| [row.1, row.2]).collect::<Vec<_>>();
    (prop::sample::select(names), value()).prop_map(|(name, rest)| {
        let mut line = b"cmd=".to_vec();
        line.extend(name.as_bytes());
        line.push(b' ');
        line.extend(rest);
        line
    })
}

fn request_round_trip(request: &Request<'_>) -> Result<(), TestCaseError> {
    let mut bytes = Vec::new();
    request.emit(&mut bytes);
    let mut lines = Lines::default();
    lines.push(&bytes).unwrap();
    let message = lines.next_message().expect("a whole message").to_vec();
    let parsed = Request::parse(&message);
    prop_assert_eq!(parsed.as_ref(), Ok(request));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn puts_survive_any_value(kvsname in word(), key in word(), value in value()) {
        request_round_trip(&Request::Put { kvsname: &kvsname, key: &key, value: &value })?;
        let mut bytes = Vec::new();
        Reply::Got(&value).emit(&mut bytes);
        bytes.pop();
        prop_assert_eq!(Reply::parse(&bytes), Ok(Reply::Got(&value)));
    }

    #[test]
    fn spawns_survive_any_arguments(args in prop::collection::vec(value(), 0..6), key in word(), text in value()) {
        request_round_trip(&Request::Spawn(Spawn {
            processes: 2,
            program: b"prog",
            total_spawns: 1,
            spawns_so_far: 1,
            args: args.iter().map(Vec::as_slice).collect(),
            preputs: vec![Pair { key: &key, value: &text }],
            infos: vec![],
        }))?;
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), line in almost_a_message()) {
        for message in [&bytes[..], &line[..]] {
            let _ = Request::parse(message);
            let _ = Reply::parse(message);
            let _ = core::str::from_utf8(message).map(|text| Placement::parse(text, 64));
        }
        let mut block = b"mcmd=spawn\n".to_vec();
        block.extend(&bytes);
        let _ = Request::parse(&block);
    }

    #[test]
    fn messages_come_out_however_the_bytes_are_cut(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 1usize..50) {
        let whole = |cut: usize| {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for piece in bytes.chunks(cut) {
                lines.push(piece).unwrap();
                while let Some(message) = lines.next_message() {
                    seen.push(message.to_vec());
                }
            }
            seen
        };
        prop_assert_eq!(whole(cut), whole(400));
    }
}

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn env(source: u32, tag: i32) -> Envelope {
    Envelope { context: 0, source: PeerIx::from_wire(source), tag }
}

fn want(source: Option<u32>, tag: Option<i32>) -> Pattern {
    Pattern { context: 0, source: source.map(PeerIx::from_wire), tag }
}

/// The rules in the plainest form: two vectors in order.
#[derive(Default)]
struct Oracle {
    posted: Vec<(Pattern, u32)>,
    unexpected: Vec<(Envelope, u32)>,
}

impl Oracle {
    fn accepts(pattern: &Pattern, envelope: &Envelope) -> bool {
        pattern.context == envelope.context
            && pattern.source.is_none_or(|source| source == envelope.source)
            && pattern.tag.is_none_or(|tag| tag == envelope.tag)
    }

    fn take(&mut self, pattern: &Pattern) -> Option<(Envelope, u32)> {
        let at = self.unexpected.iter().position(|(envelope, _)| Self::accepts(pattern, envelope))?;
        Some(self.unexpected.remove(at))
    }

    fn arrive(&mut self, envelope: &Envelope) -> Option<u32> {
        let at = self.posted.iter().position(|(pattern, _)| Self::accepts(pattern, envelope))?;
        Some(self.posted.remove(at).1)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(Pattern),
    Arrive(Envelope),
    Probe(Pattern),
    Take(Pattern),
    /// Cancels the receive that was posted this many posts ago, if it still waits.
    Cancel(usize),
}

fn an_envelope() -> impl Strategy<Value = Envelope> {
    (0..2u32, 0..4u32, prop_oneof![0..6i32, Just(-1), Just(i32::MIN)])
        .prop_map(|(context, source, tag)| Envelope { context, source: PeerIx::from_wire(source), tag })
}

fn a_pattern() -> impl Strategy<Value = Pattern> {
    (an_envelope(), 0..8u8).prop_map(|(envelope, wild)| Pattern {
        context: envelope.context,
        source: (wild & 3 != 1).then_some(envelope.source),
        tag: (wild & 6 != 2).then_some(envelope.tag),
    })
}

/// Runs of one kind of step make the queues long, so that indexes are built, used and dropped.
fn a_run() -> impl Strategy<Value = Vec<Step>> {
    let up_to = 1..60usize;
    prop_oneof![
        proptest::collection::vec(a_pattern().prop_map(Step::Post), up_to.clone()),
        proptest::collection::vec(an_envelope().prop_map(Step::Arrive), up_to.clone()),
        proptest::collection::vec(a_pattern().prop_map(Step::Take), up_to),
        a_pattern().prop_map(|pattern| std::vec![Step::Probe(pattern)]),
        (0..80usize).prop_map(|ago| std::vec![Step::Cancel(ago)]),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_plain_rules(runs in proptest::collection::vec(a_run(), 1..24)) {
        let mut matcher: Matcher<u32, u32> = Matcher::new();
        let mut oracle = Oracle::default();
        let mut keys = Vec::new();
        for (number, step) in (0u32..).zip(runs.into_iter().flatten()) {
            apply(&mut matcher, &mut oracle, &mut keys, number, step)?;
        }
        let posted: Vec<_> = matcher.posted_iter().collect();
        prop_assert_eq!(posted, oracle.posted);
        let unexpected: Vec<_> = matcher.unexpected_iter().map(|(e, &u)| (*e, u)).collect();
        prop_assert_eq!(unexpected, oracle.unexpected);
    }
}

fn apply(
    matcher: &mut Matcher<u32, u32>,
    oracle: &mut Oracle,
    keys: &mut Vec<(PostedKey, u32)>,
    number: u32,
    step: Step,
) -> Result<(), TestCaseError> {
    match step {
        Step::Post(pattern) => match (matcher.post(pattern, number), oracle.take(&pattern)) {
            (Posted::Matched(envelope, message), expected) => {
                prop_assert_eq!(Some((envelope, message)), expected);
            }
            (Posted::Queued(key), expected) => {
                prop_assert_eq!(expected, None);
                oracle.posted.push((pattern, number));
                keys.push((key, number));
            }
        },
        Step::Arrive(envelope) => {
            let expected = oracle.arrive(&envelope);
            prop_assert_eq!(matcher.arrive(envelope), expected);
            if expected.is_none() {
                matcher.unexpected(envelope, number);
                oracle.unexpected.push((envelope, number));
            }
        }
        Step::Probe(pattern) => {
            let mut all = oracle.unexpected.iter();
            let expected = all.find(|(envelope, _)| Oracle::accepts(&pattern, envelope)).copied();
            prop_assert_eq!(matcher.probe(pattern).map(|(e, &u)| (*e, u)), expected);
        }
        Step::Take(pattern) => prop_assert_eq!(matcher.take(pattern), oracle.take(&pattern)),
        Step::Cancel(ago) => {
            let Some(&(key, number)) = keys.iter().rev().nth(ago) else { return Ok(()) };
            let at = oracle.posted.iter().position(|&(_, receive)| receive == number);
            prop_assert_eq!(matcher.cancel(key), at.map(|at| oracle.posted.remove(at).1));
        }
    }
    prop_assert_eq!(matcher.posted_len(), oracle.posted.len());
    prop_assert_eq!(matcher.unexpected_len(), oracle.unexpected.len());
    Ok(())
}

#[test]
fn a_wildcard_posted_first_is_matched_first() {
    let mut matcher: Matcher<&str, ()> = Matcher::new();
    matcher.post(want(None, None), "any");
    matcher.post(want(Some(1), Some(5)), "exact");
    assert_eq!(matcher.arrive(env(1, 5)), Some("any"));
    assert_eq!(matcher.arrive(env(1, 5)), Some("exact"));
    assert_eq!(matcher.arrive(env(1, 5)), None);
}

#[test]
fn an_exact_receive_posted_first_is_matched_before_wildcards() {
    let mut matcher: Matcher<&str, ()> = Matcher::new();
    matcher.post(want(Some(1), Some(5)), "exact");
    matcher.post(want(Some(1), None), "any tag");
    matcher.post(want(None, Some(5)), "any source");
    for expected in ["exact", "any tag", "any source"] {
        assert_eq!(matcher.arrive(env(1, 5)), Some(expected));
    }
}

#[test]
fn wildcard_order_holds_in_a_long_queue_too() {
    let mut matcher: Matcher<i32, ()> = Matcher::new();
    for other in 0..1000 {
        matcher.post(want(Some(9), Some(other)), -1);
    }
    let patterns = [(None, Some(5)), (Some(1), None), (Some(1), Some(5)), (None, None)];
    for round in 0..50 {
        for (number, (source, tag)) in patterns.into_iter().enumerate() {
            matcher.post(want(source, tag), round * 4 + number as i32);
        }
    }
    for expected in 0..200 {
        assert_eq!(matcher.arrive(env(1, 5)), Some(expected));
    }
    assert_eq!(matcher.arrive(env(1, 5)), None);
    assert_eq!(matcher.posted_len(), 1000);
}

#[test]
fn messages_of_one_sender_do_not_overtake_each_other() {
    let mut matcher: Matcher<(), i32> = Matcher::new();
    for number in 0..100 {
        matcher.unexpected(env(number as u32 % 3, number % 2), number);
    }
    let from_1 = core::iter::from_fn(|| matcher.take(want(Some(1), None)).map(|(_, number)| number));
    let expected: Vec<_> = (0..100).filter(|number| number % 3 == 1).collect();
    assert_eq!(from_1.collect::<Vec<_>>(), expected);
}

#[test]
fn contexts_are_separate_even_for_wildcards() {
    let mut matcher: Matcher<(), i32> = Matcher::new();
    matcher.unexpected(Envelope { context: 1, source: PeerIx::from_wire(0), tag: 0 }, 1);
    assert!(matches!(matcher.post(want(None, None), ()), Posted::Queued(_)));
    assert_eq!(matcher.arrive(Envelope { context: 1, source: PeerIx::from_wire(0), tag: 0 }), None);
}

#[test]
fn a_stale_key_cancels_nothing() {
    let mut matcher: Matcher<i32, ()> = Matcher::new();
    let Posted::Queued(first) = matcher.post(want(Some(0), Some(0)), 1) else { panic!("queued") };
    assert_eq!(matcher.arrive(env(0, 0)), Some(1));
    let Posted::Queued(second) = matcher.post(want(Some(0), Some(0)), 2) else { panic!("queued") };
    assert_eq!(matcher.cancel(first), None);
    assert_eq!(matcher.cancel(second), Some(2));
    assert_eq!(matcher.cancel(second), None);
}

#[test]
fn the_message_behind_a_hundred_thousand_is_found() {
    let mut matcher: Matcher<(), i32> = Matcher::new();
    for number in 0..100_000 {
        matcher.unexpected(env(0, number), number);
    }
    // Last first: quadratic work would be 5 * 10^9 steps.
    for number in (0..100_000).rev() {
        assert_eq!(matcher.take(want(Some(0), Some(number))), Some((env(0, number), number)));
    }
    assert_eq!(matcher.unexpected_len(), 0);
}

#[test]
fn a_hundred_thousand_receives_matched_backwards() {
    let mut matcher: Matcher<i32, ()> = Matcher::new();
    for number in 0..100_000 {
        matcher.post(want((number % 2 == 0).then_some(0), Some(number)), number);
    }
    for number in (0..100_000).rev() {
        assert_eq!(matcher.arrive(env(0, number)), Some(number));
    }
    assert_eq!(matcher.posted_len(), 0);
}

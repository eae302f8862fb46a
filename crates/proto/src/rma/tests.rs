//! Each policy by script, all of them against what MPI allows.
use super::Step::Direct;
use super::*;
use proptest::prelude::*;

const LARGE: usize = SMALL + 1;

fn put(number: u32, out: usize) -> Operation {
    Operation { number, direction: Direction::Put, out, back: 0, direct: true }
}

fn get(number: u32, back: usize) -> Operation {
    Operation { number, direction: Direction::Get, out: 0, back, direct: true }
}

fn update(number: u32, out: usize) -> Operation {
    Operation { number, direction: Direction::Update, out, back: 0, direct: false }
}

/// The same, but the target's processor has to unpack it.
fn scattered(op: Operation) -> Operation {
    Operation { direct: false, ..op }
}

fn together<const N: usize>(numbers: [u32; N]) -> Step {
    Step::Together(numbers.into())
}

/// What leaves when these are added, and what when the epoch is closed then.
fn run(policy: Policy, operations: &[Operation]) -> (Vec<Step>, Vec<Step>, bool) {
    let mut epoch = Epoch::new(policy);
    let (mut at_once, mut at_close) = (Vec::new(), Vec::new());
    operations.iter().for_each(|op| epoch.add(*op, &mut at_once));
    epoch.close(&mut at_close);
    assert!(epoch.is_empty() && epoch.held_bytes() == 0);
    (at_once, at_close, epoch.small_last())
}

#[test]
fn names_are_those_of_the_option() {
    for (policy, name) in Policy::ALL.into_iter().zip(Policy::NAMES) {
        assert_eq!((policy.name(), Policy::parse(name)), (name, Some(policy)));
    }
    assert_eq!((Policy::parse("Auto"), Policy::parse(""), Policy::default()), (None, None, Policy::Auto));
}

#[test]
fn issued_operations_leave_at_once() {
    let (at_once, at_close, small_last) =
        run(Policy::Issue, &[put(0, 8), scattered(get(1, LARGE)), update(2, 8), get(3, 8)]);
    assert_eq!(at_once, [Direct(0), together([1]), together([2]), Direct(3)]);
    assert_eq!((at_close, small_last), (vec![], false));
}

#[test]
fn puts_and_gets_alternate_with_a_get_first() {
    let issued =
        [put(0, 8), put(1, LARGE), get(2, 8), update(3, 8), get(4, LARGE), put(5, 8), update(6, LARGE)];
    let (at_once, at_close, small_last) = run(Policy::Interleave, &issued);
    assert_eq!(at_once, []);
    let last = [together([3]), Direct(5), together([6])];
    assert_eq!(at_close[..4], [Direct(2), Direct(0), Direct(4), Direct(1)]);
    assert_eq!((&at_close[4..], small_last), (&last[..], false));
    let (_, at_close, small_last) =
        run(Policy::Interleave, &[get(0, 8), get(1, 8), put(2, 8), scattered(get(3, 8))]);
    assert_eq!(at_close, [Direct(0), Direct(2), Direct(1), together([3])]);
    assert!(small_last);
}

#[test]
fn gets_leave_before_puts() {
    let issued = [put(0, LARGE), get(1, LARGE), update(2, 8), get(3, 8)];
    let (at_once, at_close, small_last) = run(Policy::GetsFirst, &issued);
    assert_eq!(at_once, []);
    assert_eq!((at_close, small_last), (vec![Direct(1), Direct(3), Direct(0), together([2])], true));
}

#[test]
fn small_operations_share_a_message_and_large_ones_do_not_wait() {
    let issued =
        [put(0, 8), get(1, SMALL), put(2, LARGE), update(3, 8), get(4, LARGE), scattered(put(5, LARGE))];
    let (at_once, at_close, small_last) = run(Policy::Aggregate, &issued);
    assert_eq!(at_once, [Direct(2), Direct(4), together([5])]);
    assert_eq!((at_close, small_last), (vec![together([0, 1, 3])], true));
}

#[test]
fn a_large_update_does_not_overtake_small_ones() {
    let (at_once, at_close, _) = run(Policy::Aggregate, &[put(0, 8), update(1, LARGE), put(2, 8)]);
    assert_eq!((at_once, at_close), (vec![together([1])], vec![together([0, 2])]));
    let (at_once, at_close, _) = run(Policy::Aggregate, &[update(0, 8), update(1, LARGE), update(2, 8)]);
    assert_eq!((at_once, at_close), (vec![together([0]), together([1])], vec![together([2])]));
    let (at_once, at_close, _) = run(Policy::Auto, &[update(0, 8), update(1, LARGE), update(2, 8)]);
    assert_eq!((at_once, at_close), (vec![], vec![together([0]), together([1]), together([2])]));
}

#[test]
fn requests_of_gets_overtake_large_puts() {
    let issued = [put(0, LARGE), get(1, LARGE), put(2, 8), get(3, 8), update(4, 8), put(5, LARGE)];
    let (at_once, at_close, small_last) = run(Policy::Auto, &issued);
    assert_eq!(at_once, [Direct(1)]);
    assert_eq!(at_close, [together([3]), Direct(0), Direct(5), together([2, 4])]);
    assert!(small_last, "the synchronization goes with the last message");
    let (_, at_close, small_last) = run(Policy::Auto, &[get(0, 8), put(1, LARGE)]);
    assert_eq!((at_close, small_last), (vec![together([0]), Direct(1)], false));
    let (_, at_close, small_last) = run(Policy::Auto, &[get(0, 8), get(1, 8)]);
    assert_eq!((at_close, small_last), (vec![together([0, 1])], true));
}

#[test]
fn messages_with_small_operations_go_between_large_puts() {
    let issued = [
        update(0, 8),
        put(1, LARGE),
        update(2, LARGE),
        put(3, LARGE),
        put(4, 8),
        put(5, LARGE),
        update(6, LARGE),
        update(7, 8),
    ];
    let (at_once, at_close, small_last) = run(Policy::Auto, &issued);
    assert_eq!(at_once, []);
    let expected = [
        together([0]),
        Direct(1),
        together([2]),
        Direct(3),
        together([4]),
        Direct(5),
        together([6]),
        together([7]),
    ];
    assert_eq!((at_close, small_last), (expected.into(), true));
}

#[test]
fn a_message_that_is_full_leaves() {
    // Eight of these do not fit, because of what describes them and the room that is kept.
    for policy in [Policy::Aggregate, Policy::Auto] {
        let puts: Vec<Operation> = (0..10).map(|number| put(number, SMALL)).collect();
        let (at_once, at_close, small_last) = run(policy, &puts);
        assert_eq!((at_once, at_close), (vec![together([0, 1, 2, 3, 4, 5, 6])], vec![together([7, 8, 9])]));
        assert!(small_last);
        // What comes back has the same limit, and so has what takes no bytes at all.
        let gets: Vec<Operation> = (0..8).map(|number| get(number, SMALL)).collect();
        assert_eq!(run(policy, &gets).0, [together([0, 1, 2, 3, 4, 5, 6])]);
        let empty: Vec<Operation> = (0..1024).map(|number| put(number, 0)).collect();
        let (at_once, at_close, _) = run(policy, &empty);
        assert_eq!(at_once.len(), 1);
        assert_eq!(at_close, [together([1023])]);
    }
    // Behind a large update another message begins.
    let mut issued: Vec<Operation> = (0..12).map(|number| put(number, SMALL)).collect();
    issued[4] = update(4, LARGE);
    let (at_once, at_close, _) = run(Policy::Auto, &issued);
    let expected = vec![together([0, 1, 2, 3]), together([4]), together([5, 6, 7, 8, 9, 10, 11])];
    assert_eq!((at_once, at_close), (vec![], expected));
}

#[test]
fn what_is_held_has_its_limits() {
    let mut epoch = Epoch::new(Policy::Auto);
    let mut steps = Vec::new();
    for number in 0..HELD_COUNT as u32 {
        epoch.add(put(number, LARGE), &mut steps);
    }
    assert_eq!((steps.len(), epoch.held_bytes()), (0, HELD_COUNT * LARGE));
    epoch.add(put(HELD_COUNT as u32, LARGE), &mut steps);
    assert_eq!((steps.len(), epoch.is_empty()), (HELD_COUNT + 1, true));
    steps.clear();
    epoch.add(put(0, HELD_BYTES - 8), &mut steps);
    epoch.add(put(1, 8), &mut steps);
    assert_eq!((steps.len(), epoch.held_bytes()), (0, HELD_BYTES));
    epoch.add(put(2, 1), &mut steps);
    assert_eq!((&steps[..], epoch.is_empty()), (&[Direct(0), together([1, 2])][..], true));
    for policy in Policy::ALL {
        steps.clear();
        epoch = Epoch::new(policy);
        epoch.add(scattered(put(0, usize::MAX)), &mut steps);
        assert_eq!((&steps[..], epoch.held_bytes()), (&[together([0])][..], 0));
    }
}

#[test]
fn who_is_waited_for_leaves_with_what_must_precede_it() {
    let issued = [get(0, 8), update(1, 8), put(2, 8), update(3, 8), get(4, 8), update(5, 8), put(6, LARGE)];
    let urged = |policy: Policy, number: u32| {
        let mut epoch = Epoch::new(policy);
        let (mut urged, mut rest) = (Vec::new(), Vec::new());
        issued.iter().for_each(|op| epoch.add(*op, &mut rest));
        rest.clear();
        epoch.urge(number, &mut urged);
        epoch.close(&mut rest);
        (urged, rest)
    };
    let (at_once, rest) = urged(Policy::GetsFirst, 3);
    assert_eq!(at_once, [together([1]), together([3])]);
    assert_eq!(rest, [Direct(0), Direct(4), Direct(2), together([5]), Direct(6)]);
    assert_eq!(urged(Policy::Interleave, 2).0, [Direct(2)]);
    assert_eq!(urged(Policy::Interleave, 4).0, [Direct(4)]);
    assert_eq!(urged(Policy::Aggregate, 3).0, [together([0, 1, 2, 3, 4, 5])]);
    assert_eq!(urged(Policy::Auto, 4), (vec![together([0, 4])], vec![Direct(6), together([1, 2, 3, 5])]));
    assert_eq!(urged(Policy::Auto, 6), (vec![Direct(6)], vec![together([0, 4]), together([1, 2, 3, 5])]));
    assert_eq!(urged(Policy::Auto, 9).0, [], "it has left");
    assert_eq!(urged(Policy::Issue, 1), (vec![], vec![]));
}

#[test]
fn who_is_waited_for_leaves_the_messages_behind_its_own() {
    let mut epoch = Epoch::new(Policy::Auto);
    let mut steps = Vec::new();
    for op in [update(0, 8), put(1, 8), update(2, LARGE), update(3, 8), put(4, 8)] {
        epoch.add(op, &mut steps);
    }
    epoch.urge(0, &mut steps);
    assert_eq!((&steps[..], epoch.held_bytes()), (&[together([0, 1])][..], LARGE + 16));
    epoch.urge(2, &mut steps);
    assert_eq!((&steps[1..], epoch.held_bytes()), (&[together([2])][..], 16));
    epoch.add(update(5, 8), &mut steps);
    epoch.urge(3, &mut steps);
    assert_eq!((&steps[2..], epoch.is_empty()), (&[together([3, 4, 5])][..], true));
}

/// What a caller does.
#[derive(Clone, Debug)]
enum Call {
    /// So many operations of one kind.
    Add {
        count: u32,
        direction: Direction,
        out: usize,
        back: usize,
        direct: bool,
    },
    Close,
    /// This part of the way through all operations so far.
    Urge(f64),
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![
        6 => prop::sample::select(vec![0, 1, 8, 100, 4096, SMALL]),
        3 => prop::sample::select(vec![LARGE, 70_000, 1 << 20]),
        1 => prop::sample::select(vec![40 << 20, HELD_BYTES + 1, usize::MAX]),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let count = prop_oneof![30 => Just(1u32), 3 => 2u32..40, 1 => 1000u32..5000];
    let direction = prop::sample::select(vec![Direction::Put, Direction::Get, Direction::Update]);
    prop_oneof![
        10 => (count, direction, bytes(), bytes(), any::<bool>()).prop_map(
            |(count, direction, out, back, direct)| Call::Add { count, direction, out, back, direct }
        ),
        1 => Just(Call::Close),
        1 => (0.0..1.0).prop_map(Call::Urge),
    ]
}

/// An epoch, and what is known of its operations: numbers are places.
struct Watched {
    epoch: Epoch,
    operations: Vec<Operation>,
    left: Vec<bool>,
    updates: Vec<u32>,
}

impl Watched {
    /// Steps leave. They must be new, within limits, and keep the order of updates.
    fn leave(&mut self, steps: Vec<Step>) {
        for step in steps {
            let numbers = match step {
                Step::Direct(number) => {
                    assert!(self.operations[number as usize].direct, "{number} cannot go direct");
                    vec![number]
                }
                Step::Together(numbers) => {
                    self.fits(&numbers);
                    numbers
                }
            };
            for number in numbers {
                let twice = core::mem::replace(&mut self.left[number as usize], true);
                assert!(!twice, "{number} has left twice");
                if self.operations[number as usize].direction == Direction::Update {
                    assert!(self.updates.last().is_none_or(|last| *last < number), "{number} comes too late");
                    self.updates.push(number);
                }
            }
        }
    }

    fn fits(&self, numbers: &[u32]) {
        assert!(!numbers.is_empty());
        let operations: Vec<&Operation> = numbers.iter().map(|n| &self.operations[*n as usize]).collect();
        if operations.len() > 1 {
            let out: usize = operations.iter().map(|op| op.out + OPERATION_BYTES).sum();
            let back: usize = operations.iter().map(|op| op.back).sum();
            assert!(operations.iter().all(|op| op.out <= SMALL && op.back <= SMALL));
            assert!(out.max(back) + SYNCHRONIZATION_BYTES <= MESSAGE_BYTES, "{out} and {back} bytes");
        }
    }

    fn held(&self) -> impl Iterator<Item = &Operation> {
        self.operations.iter().zip(&self.left).filter(|(_, left)| !**left).map(|(op, _)| op)
    }

    fn check_held(&self) {
        let bytes = self.held().map(|op| op.out + op.back).sum::<usize>();
        assert_eq!(self.epoch.held_bytes(), bytes);
        assert_eq!(self.epoch.is_empty(), self.held().next().is_none());
        assert!(bytes <= HELD_BYTES && self.held().count() <= HELD_COUNT);
        assert!(self.epoch.policy != Policy::Issue || self.epoch.is_empty());
    }

    fn add(&mut self, op: Operation) {
        let mut steps = Vec::new();
        self.operations.push(op);
        self.left.push(false);
        self.epoch.add(op, &mut steps);
        self.leave(steps);
    }

    fn close(&mut self) {
        let mut steps = Vec::new();
        self.epoch.close(&mut steps);
        if self.epoch.small_last() {
            let Some(Step::Together(last)) = steps.last() else { panic!("{steps:?}") };
            assert!(last.iter().all(|number| self.operations[*number as usize].is_small()));
        }
        self.leave(steps);
        assert!(self.left.iter().all(|left| *left), "what was added before leaves before what comes");
    }

    fn urge(&mut self, number: usize) {
        let mut steps = Vec::new();
        self.epoch.urge(number as u32, &mut steps);
        assert!(steps.is_empty() || !self.left[number], "it had left");
        self.leave(steps);
        assert!(self.left[number]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_leaves_once_in_its_order_and_within_limits(
        policy in prop::sample::select(Policy::ALL.to_vec()),
        calls in prop::collection::vec(call(), 0..80),
    ) {
        let (operations, left, updates) = Default::default();
        let mut watched = Watched { epoch: Epoch::new(policy), operations, left, updates };
        for call in calls {
            match call {
                Call::Add { count, direction, out, back, direct } => for _ in 0..count {
                    let number = watched.operations.len() as u32;
                    watched.add(Operation { number, direction, out, back, direct });
                }
                Call::Close => watched.close(),
                Call::Urge(part) if !watched.operations.is_empty() => {
                    watched.urge((part * watched.operations.len() as f64) as usize);
                }
                Call::Urge(_) => {}
            }
            watched.check_held();
        }
        watched.close();
    }
}

/// What happened to a place of the window since the last close: only what agrees with it may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    None,
    Put,
    Got,
    Updated,
}

impl Use {
    fn allows(self, direction: Direction) -> bool {
        matches!(
            (self, direction),
            (Use::None, _) | (Use::Got, Direction::Get) | (Use::Updated, Direction::Update)
        )
    }

    fn of(direction: Direction) -> Use {
        match direction {
            Direction::Put => Use::Put,
            Direction::Get => Use::Got,
            Direction::Update => Use::Updated,
        }
    }
}

const WINDOW: usize = 24;

/// What an operation does to a few places of the window.
#[derive(Clone, Debug)]
struct Effect {
    direction: Direction,
    at: core::ops::Range<usize>,
    value: u8,
}

impl Effect {
    /// Carries it out; what was there.
    fn apply(&self, window: &mut [u8; WINDOW]) -> Vec<u8> {
        let before = window[self.at.clone()].to_vec();
        for place in &mut window[self.at.clone()] {
            *place = match self.direction {
                Direction::Get => *place,
                Direction::Put => self.value,
                // The order of two of these can be seen.
                Direction::Update => place.wrapping_mul(31).wrapping_add(self.value),
            };
        }
        // What a put overwrites nobody is told.
        if self.direction == Direction::Put { Vec::new() } else { before }
    }
}

/// A window at its target, and the origin's program, of which each operation has one right result.
struct Model {
    epoch: Epoch,
    effects: Vec<Effect>,
    uses: [Use; WINDOW],
    /// As steps leave it, and as the program in its order would.
    window: [u8; WINDOW],
    expected: [u8; WINDOW],
    results: Vec<Option<Vec<u8>>>,
    right: Vec<Vec<u8>>,
}

impl Model {
    fn new(policy: Policy) -> Self {
        Model {
            epoch: Epoch::new(policy),
            effects: Vec::new(),
            uses: [Use::None; WINDOW],
            window: [0; WINDOW],
            expected: [0; WINDOW],
            results: Vec::new(),
            right: Vec::new(),
        }
    }

    fn leave(&mut self, steps: Vec<Step>) {
        for step in steps {
            let numbers = match step {
                Step::Direct(number) => vec![number],
                Step::Together(numbers) => numbers,
            };
            for number in numbers {
                let result = self.effects[number as usize].apply(&mut self.window);
                self.results[number as usize] = Some(result);
            }
        }
    }

    /// Adds an operation, unless it would conflict with one of the epoch.
    fn add(&mut self, effect: Effect, (out, back): (usize, usize), direct: bool) {
        let direction = effect.direction;
        if !self.uses[effect.at.clone()].iter().all(|used| used.allows(direction)) {
            return;
        }
        self.uses[effect.at.clone()].fill(Use::of(direction));
        self.right.push(effect.apply(&mut self.expected));
        let number = self.effects.len() as u32;
        self.effects.push(effect);
        self.results.push(None);
        let mut steps = Vec::new();
        self.epoch.add(Operation { number, direction, out, back, direct }, &mut steps);
        self.leave(steps);
    }

    fn close(&mut self) {
        let mut steps = Vec::new();
        self.epoch.close(&mut steps);
        self.leave(steps);
        self.uses = [Use::None; WINDOW];
        assert_eq!(self.window, self.expected);
    }

    fn urge(&mut self, number: usize) {
        let mut steps = Vec::new();
        self.epoch.urge(number as u32, &mut steps);
        self.leave(steps);
        assert_eq!(self.results[number].as_ref(), Some(&self.right[number]), "its result is there");
    }
}

/// An operation on the window, or what else the program does.
fn model_call() -> impl Strategy<Value = (u32, Effect, (usize, usize), bool)> {
    let direction = prop_oneof![
        2 => Just(Direction::Put),
        2 => Just(Direction::Get),
        3 => Just(Direction::Update),
    ];
    let effect = (direction, 0..WINDOW, 1usize..4, any::<u8>())
        .prop_map(|(direction, at, len, value)| Effect { direction, at: at..(at + len).min(WINDOW), value });
    (0u32..20, effect, (bytes(), bytes()), any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_leaves_when_a_program_sees_what_it_would_in_its_order(
        policy in prop::sample::select(Policy::ALL.to_vec()),
        calls in prop::collection::vec(model_call(), 0..200),
    ) {
        let mut model = Model::new(policy);
        for (what, effect, bytes, direct) in calls {
            match what {
                0 => model.close(),
                1 if !model.effects.is_empty() => {
                    let number = usize::from(effect.value) % model.effects.len();
                    model.urge(number);
                }
                _ => model.add(effect, bytes, direct),
            }
        }
        model.close();
        let results: Vec<Vec<u8>> = model.results.into_iter().flatten().collect();
        prop_assert_eq!(results, model.right);
    }
}

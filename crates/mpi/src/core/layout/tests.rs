//! Datatypes against the type map written out element by element, which is slow and obviously right.
use super::super::predefined::TABLE;
use super::*;
use crate::buffer::Scratch;
use proto::check::Signature;

/// A small generator (xorshift64*), so that a failing seed can be replayed.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 33) % bound
    }

    fn within(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }
}

/// A type map: basic elements with their places, in order; and the bounds.
#[derive(Clone, Debug)]
struct Naive {
    map: Vec<(TypeId, i64)>,
    lb: i64,
    ub: i64,
    set: bool,
    align: i64,
}

fn basic_bytes(id: TypeId) -> i64 {
    TABLE[id.index()].scalar.size_and_extent().0 as i64
}

impl Naive {
    fn of(id: TypeId) -> Self {
        let extent = TABLE[id.index()].scalar.size_and_extent().1 as i64;
        let map = match pair_parts(id) {
            [] => vec![(id, 0)],
            [value, index] => vec![(*value, 0), (*index, (basic_bytes(*value)).max(4))],
            _ => unreachable!("pairs have two parts"),
        };
        let align = alignment(TABLE[id.index()].scalar);
        Naive { map, lb: 0, ub: extent, set: false, align }
    }

    fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    /// Copies at places, one after the other.
    fn combined(parts: &[(i64, &Naive)]) -> Naive {
        let any_set = parts.iter().any(|(_, part)| part.set);
        let bounding = || parts.iter().filter(|(_, part)| part.set == any_set);
        Naive {
            map: parts
                .iter()
                .flat_map(|(at, part)| part.map.iter().map(move |(id, place)| (*id, at + place)))
                .collect(),
            lb: bounding().map(|(at, part)| at + part.lb).min().unwrap_or(0),
            ub: bounding().map(|(at, part)| at + part.ub).max().unwrap_or(0),
            set: any_set,
            align: parts.iter().map(|(_, part)| part.align).max().unwrap_or(1),
        }
    }

    fn rounded(mut self) -> Naive {
        if !self.set {
            self.ub = self.lb + (self.extent() as u64).next_multiple_of(self.align as u64) as i64;
        }
        self
    }

    /// The places of all bytes of `count` elements, in order.
    fn bytes(&self, count: i64) -> Vec<i64> {
        let element = |k: i64| {
            let base = k * self.extent();
            self.map.iter().flat_map(move |(id, at)| (0..basic_bytes(*id)).map(move |byte| base + at + byte))
        };
        (0..count).flat_map(element).collect()
    }

    fn true_bounds(&self) -> (i64, i64) {
        let bytes = self.bytes(1);
        match (bytes.iter().min(), bytes.iter().max()) {
            (Some(low), Some(high)) => (*low, *high + 1),
            _ => (0, 0),
        }
    }

    /// Basic elements in so many bytes.
    fn elements(&self, mut bytes: usize) -> Option<u64> {
        let mut found = 0;
        let mut sizes = self.map.iter().map(|(id, _)| basic_bytes(*id) as usize).cycle();
        while bytes > 0 {
            let next = sizes.next()?;
            if next > bytes {
                return None;
            }
            bytes -= next;
            found += 1;
        }
        Some(found)
    }

    /// Of the basic elements in so many bytes.
    fn signature(&self, bytes: usize) -> Signature {
        let Some(elements) = self.elements(bytes) else { return Signature::WILD };
        let all = self.map.iter().cycle().take(elements as usize);
        all.fold(Signature::EMPTY, |all, (id, _)| all.then(signature::of_basic(*id)))
    }
}

type Both = (Rc<Datatype>, Naive);

const BASIC: [TypeId; 9] = [
    TypeId::CHAR,
    TypeId::SHORT,
    TypeId::INT,
    TypeId::DOUBLE,
    TypeId::C_DOUBLE_COMPLEX,
    TypeId::LONG_DOUBLE,
    TypeId::DOUBLE_INT,
    TypeId::SHORT_INT,
    TypeId::LONG_DOUBLE_INT,
];

fn basic(id: TypeId) -> Both {
    (Rc::new(Datatype::predefined(id, &TABLE[id.index()])), Naive::of(id))
}

/// Bytes of a random type's map, at most.
const MAP_MAX: usize = 3000;

fn random(chance: &mut Chance, depth: u64) -> Both {
    if depth == 0 || chance.below(8) == 0 {
        return basic(BASIC[chance.below(BASIC.len() as u64) as usize]);
    }
    let (old, naive) = random(chance, depth - 1);
    if naive.map.len() > MAP_MAX {
        return (old, naive);
    }
    match chance.below(5) {
        0 => strided(chance, &old, &naive),
        1 | 2 => indexed(chance, &old, &naive),
        3 => structure(chance, depth, (old, naive)),
        _ => {
            let (lb, extent) = (chance.within(-9, 9), chance.within(-40, 90));
            let made = Datatype::resized(&old, lb, extent, made_of(Combiner::Resized, &old)).unwrap();
            (Rc::new(made), Naive { lb, ub: lb + extent, set: true, ..naive })
        }
    }
}

fn made_of(combiner: Combiner, old: &Rc<Datatype>) -> Origin {
    Origin { types: vec![old.clone()], ..Origin::of(combiner) }
}

fn strided(chance: &mut Chance, old: &Rc<Datatype>, naive: &Naive) -> Both {
    let (count, repeat) = (chance.within(0, 5), chance.within(0, 4));
    let stride = match chance.below(3) {
        0 => chance.within(-70, 70),
        1 => repeat * naive.extent(),
        _ => chance.within(-4, 6) * naive.extent(),
    };
    let entry = Entry { at: chance.within(-20, 20), count, stride, repeat, ty: old };
    let made = Datatype::of([entry], made_of(Combiner::Hvector, old)).unwrap();
    let parts: Vec<(i64, &Naive)> = (0..count)
        .flat_map(|i| (0..repeat).map(move |k| (entry.at + i * stride + k * naive.extent(), naive)))
        .collect();
    (Rc::new(made), Naive::combined(&parts))
}

fn indexed(chance: &mut Chance, old: &Rc<Datatype>, naive: &Naive) -> Both {
    let blocks = chance.within(0, 9);
    let same = (chance.below(2) == 0).then(|| chance.within(1, 3));
    let mut at = 0;
    let list: Vec<(i64, i64)> = (0..blocks)
        .map(|_| {
            let repeat = same.unwrap_or_else(|| chance.within(0, 4));
            let here = at;
            at += match chance.below(3) {
                0 => repeat * naive.extent(),
                1 => 24,
                _ => chance.within(-60, 90),
            };
            (here, repeat)
        })
        .collect();
    let origin = || made_of(Combiner::Hindexed, old);
    let made = Datatype::of_blocks(list.iter().map(|block| Ok(*block)), old, origin()).unwrap();
    let entries = list.iter().map(|(at, repeat)| Entry::block(*at, *repeat, old));
    let piecewise = Datatype::of(entries, origin()).unwrap();
    assert_eq!(outline(&made.placed), outline(&piecewise.placed), "{list:?}: two ways to one normal form");
    let parts: Vec<(i64, &Naive)> = list
        .iter()
        .flat_map(|(at, repeat)| (0..*repeat).map(move |k| (at + k * naive.extent(), naive)))
        .collect();
    (Rc::new(made), Naive::combined(&parts))
}

/// What a shape is, without what is inside a list or a loop.
fn outline(placed: &Placed) -> String {
    let form = match &placed.form {
        Form::Bytes(bytes) => format!("{bytes} bytes"),
        Form::Node(node) => match &node.shape {
            shape::Shape::Strided { count, stride, .. } => format!("{count} times, {stride} apart"),
            shape::Shape::Listed { places, .. } => format!("at {places:?}"),
            shape::Shape::Runs(runs) => runs.iter().map(|run| format!("{}-{} ", run.at, run.start)).collect(),
            shape::Shape::Sequence(parts) => format!("{} parts", parts.len()),
        },
    };
    format!("{} {} {form}", placed.at, placed.form.bytes())
}

fn structure(chance: &mut Chance, depth: u64, first: Both) -> Both {
    let mut members = vec![first];
    for _ in 0..chance.below(4) {
        let inner = chance.below(depth);
        members.push(random(chance, inner));
    }
    let mut at = 0;
    let places: Vec<(i64, i64)> = members
        .iter()
        .map(|(_, naive)| {
            let repeat = chance.within(0, 3);
            let here = at;
            at += if chance.below(2) == 0 { repeat * naive.extent() } else { chance.within(-50, 120) };
            (here, repeat)
        })
        .collect();
    let entries = members.iter().zip(&places).map(|((ty, _), (at, n))| Entry::block(*at, *n, ty));
    let origin = Origin {
        integers: std::iter::once(0).chain(places.iter().map(|(_, repeat)| *repeat)).collect(),
        types: members.iter().map(|(ty, _)| ty.clone()).collect(),
        ..Origin::of(Combiner::Struct)
    };
    let made = Datatype::of(entries, origin).unwrap();
    let parts: Vec<(i64, &Naive)> = members
        .iter()
        .zip(&places)
        .flat_map(|((_, naive), (at, n))| (0..*n).map(move |k| (at + k * naive.extent(), naive)))
        .collect();
    (Rc::new(made), Naive::combined(&parts).rounded())
}

/// Memory around an address from which places count.
struct Room {
    scratch: Scratch,
    origin: i64,
    len: usize,
}

impl Room {
    fn around(places: &[i64], fill: impl Fn(usize) -> u8) -> Self {
        let (low, high) = (places.iter().min().copied(), places.iter().max().copied());
        let (low, high) = (low.unwrap_or(0), high.unwrap_or(0) + 1);
        let len = (high - low) as usize;
        let bytes: Vec<u8> = (0..len).map(fill).collect();
        let mut scratch = Scratch::with(len);
        scratch.part(len).copy_from_slice(&bytes);
        Room { scratch, origin: -low, len }
    }

    fn source(&mut self) -> SendBuf {
        self.target().as_source()
    }

    fn target(&mut self) -> RecvBuf {
        self.scratch.as_recv().shifted(self.origin as isize)
    }

    fn bytes(&mut self) -> Vec<u8> {
        bytes(&mut self.scratch, self.len)
    }
}

fn bytes(scratch: &mut Scratch, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    scratch.part(len).as_source().copy_to(&mut out);
    out
}

fn pattern(index: usize) -> u8 {
    (index * 7 + index / 251) as u8
}

/// A datatype is what its type map says.
fn check(ty: &Datatype, naive: &Naive, chance: &mut Chance, what: &str) {
    let places = naive.bytes(1);
    assert_eq!(ty.size, places.len(), "{what}: size");
    assert_eq!((ty.lb(), ty.extent), (naive.lb, naive.extent()), "{what}: bounds");
    assert_eq!((ty.true_lb, ty.true_ub), naive.true_bounds(), "{what}: true bounds");
    assert_eq!(ty.basic, naive.map.len() as u64, "{what}: basic elements");
    let part = chance.below(3 * ty.size as u64 + 1) as usize;
    assert_eq!(ty.elements(part), naive.elements(part), "{what}: elements in {part} bytes");
    let some = chance.below(3 * ty.basic + 1);
    let bytes: i64 = naive.map.iter().cycle().take(some as usize).map(|(id, _)| basic_bytes(*id)).sum();
    assert_eq!(ty.bytes_of_elements(some), Some(bytes as u64), "{what}: bytes of {some} elements");
    let mut signature = Vec::new();
    ty.each_basic(2, |id, count| signature.extend((0..count).map(|_| basic_bytes(id))));
    let expected: Vec<i64> = naive.map.iter().chain(&naive.map).map(|(id, _)| basic_bytes(*id)).collect();
    assert_eq!(signature, expected, "{what}: signature");
    assert_eq!(ty.signature(part), naive.signature(part), "{what}: signature of {part} bytes");
    for count in [1, 2, chance.within(3, 9)] {
        packs(ty, naive, count, chance, what);
    }
}

fn packs(ty: &Datatype, naive: &Naive, count: i64, chance: &mut Chance, what: &str) {
    let places = naive.bytes(count);
    let all = places.len();
    let mut spread = Room::around(&places, pattern);
    let before = spread.bytes();
    let expected: Vec<u8> = places.iter().map(|at| before[(at + spread.origin) as usize]).collect();

    let mut packed = Scratch::with(all);
    ty.pack(spread.source(), count as usize, packed.part(all));
    assert_eq!(bytes(&mut packed, all), expected, "{what}: {count} packed");

    let mut pieces = Scratch::with(all);
    let cuts = fragments(all, chance);
    for range in &cuts {
        let to = pieces.part(all).part(range.start, range.len());
        ty.pack_range(spread.source(), count as usize, range.start as u64..range.end as u64, to);
    }
    assert_eq!(bytes(&mut pieces, all), expected, "{what}: {count} packed in {cuts:?}");

    // The last of several bytes for one place stays, whichever way they come.
    let mut after = vec![0xEE; before.len()];
    for (byte, at) in expected.iter().zip(&places) {
        after[(at + spread.origin) as usize] = *byte;
    }
    let mut again = Room::around(&places, |_| 0xEE);
    ty.unpack(packed.part(all).as_source(), again.target(), count as usize);
    assert_eq!(again.bytes(), after, "{what}: {count} unpacked");

    let mut again = Room::around(&places, |_| 0xEE);
    for range in &cuts {
        let from = packed.part(all).part(range.start, range.len()).as_source();
        ty.unpack_range(from, again.target(), count as usize, range.start as u64);
    }
    assert_eq!(again.bytes(), after, "{what}: {count} unpacked in {cuts:?}");

    let mut copy = Room::around(&places, |_| 0xEE);
    ty.copy_elements(spread.source(), copy.target(), count as usize);
    assert_eq!(copy.bytes(), after, "{what}: {count} copied");
}

/// Cuts so many bytes at random places.
fn fragments(all: usize, chance: &mut Chance) -> Vec<Range<usize>> {
    let mut list = Vec::new();
    let mut at = 0;
    while at < all {
        let most = if chance.below(2) == 0 { 9 } else { 200 };
        let end = (at + 1 + chance.below(most) as usize).min(all);
        list.push(at..end);
        at = end;
    }
    list
}

#[test]
fn random_types_do_what_their_type_map_says() {
    for seed in 1..=3000 {
        let mut chance = Chance::new(seed);
        let depth = chance.below(6);
        let (ty, naive) = random(&mut chance, depth);
        check(&ty, &naive, &mut chance, &format!("seed {seed}"));
    }
}

#[test]
fn predefined_types_do_what_their_type_map_says() {
    for (index, row) in TABLE.iter().enumerate().filter(|(_, row)| row.meaning != Meaning::Marker) {
        let (ty, naive) = basic(TypeId(index as u32));
        check(&ty, &naive, &mut Chance::new(7), row.name);
    }
}

fn hvector(count: i64, repeat: i64, stride: i64, ty: &Rc<Datatype>) -> Result<Rc<Datatype>> {
    Datatype::of([Entry { at: 0, count, stride, repeat, ty }], made_of(Combiner::Hvector, ty)).map(Rc::new)
}

#[test]
fn adjacent_blocks_become_one_and_nested_loops_join() {
    let (double, _) = basic(TypeId::DOUBLE);
    let rows = hvector(6, 5, 40, &double).unwrap();
    assert_eq!(rows.flat(1), Some((0, 240)), "rows that touch");
    let column = hvector(10, 1, 16, &double).unwrap();
    let twice = hvector(3, 1, 160, &column).unwrap();
    let Form::Node(node) = &twice.placed.form else { panic!("not one run") };
    assert!(
        matches!(node.shape, shape::Shape::Strided { count: 30, stride: 16, inner: Form::Bytes(8) }),
        "a loop of loops that touch is one loop"
    );
    let even: Vec<Entry<'_>> = (0..9).map(|i| Entry::block(i * 24, 1, &double)).collect();
    let even = Datatype::of(even, made_of(Combiner::Hindexed, &double)).unwrap();
    let Form::Node(node) = &even.placed.form else { panic!("not one run") };
    assert!(
        matches!(node.shape, shape::Shape::Strided { count: 9, stride: 24, .. }),
        "an even list is a loop"
    );
}

#[test]
fn a_vector_of_a_billion_blocks_is_one_loop() {
    let (double, _) = basic(TypeId::DOUBLE);
    let vector = hvector(1_000_000_000, 1, 16, &double).unwrap();
    let Form::Node(node) = &vector.placed.form else { panic!("not one run") };
    assert!(matches!(node.shape, shape::Shape::Strided { count: 1_000_000_000, stride: 16, .. }));
    assert_eq!((vector.size, vector.extent), (8_000_000_000, 15_999_999_992));
    // From the middle, without going there from the start. Only the bytes of the fragment are touched.
    let mut room = Room::around(&(0..64).collect::<Vec<i64>>(), pattern);
    let first = 500_000_000u64 * 8 + 3;
    let shift = -(500_000_000isize * 16);
    let mut packed = Scratch::with(13);
    vector.pack_range(room.source().shifted(shift), 1, first..first + 13, packed.part(13));
    let expected: Vec<u8> = (3..8).chain(16..24).map(pattern).collect();
    assert_eq!(bytes(&mut packed, 13), expected);
}

#[test]
fn parts_that_are_used_twice_are_looked_at_once() {
    const DEPTH: u32 = 40;
    let ((int, _), (short, _)) = (basic(TypeId::INT), basic(TypeId::SHORT));
    let pair = |first: &Rc<Datatype>, second: &Rc<Datatype>| {
        let origin = Origin {
            integers: vec![2, 1, 1],
            types: vec![first.clone(), second.clone()],
            ..Origin::of(Combiner::Struct)
        };
        let entries = [Entry::block(0, 1, first), Entry::block(first.true_ub, 1, second)];
        Rc::new(Datatype::of(entries, origin).unwrap())
    };
    let mut all = pair(&int, &short);
    let both = all.signature(all.size);
    for _ in 0..DEPTH {
        all = pair(&all, &all);
    }
    assert_eq!(all.signature(all.size), both.repeated(1 << DEPTH));
    assert_eq!(
        all.signature(all.size - 2).then(signature::of_basic(TypeId::SHORT)),
        both.repeated(1 << DEPTH)
    );
}

#[test]
fn long_chains_of_types_need_no_stack() {
    const DEPTH: usize = 300_000;
    let (int, _) = basic(TypeId::INT);
    let (mut same, mut list) = (int.clone(), int.clone());
    for _ in 0..DEPTH {
        same = hvector(1, 1, 4, &same).unwrap();
        let origin = Origin {
            integers: vec![2, 1, 1],
            types: vec![list.clone(), int.clone()],
            ..Origin::of(Combiner::Struct)
        };
        let end = list.true_ub;
        let entries = [Entry::block(0, 1, &list), Entry::block(end + 4, 1, &int)];
        list = Rc::new(Datatype::of(entries, origin).unwrap());
    }
    assert_eq!(same.flat(3), Some((0, 12)));
    assert_eq!(same.elements(12), Some(3));
    let all = 4 * (DEPTH + 1);
    assert_eq!((list.size, list.elements(all - 4)), (all, Some(DEPTH as u64)));
    assert_eq!(list.bytes_of_elements(DEPTH as u64), Some(all as u64 - 4));
    let mut count = 0;
    list.each_basic(1, |_, n| count += n);
    assert_eq!(count, DEPTH as u64 + 1);
    assert_eq!(list.signature(all), signature::of_basic(TypeId::INT).repeated(DEPTH as u64 + 1));
    let mut spread = Room::around(&[0, 2 * all as i64], pattern);
    let mut packed = Scratch::with(all);
    list.pack(spread.source(), 1, packed.part(all));
    let expected: Vec<u8> = (0..all).map(|i| pattern(i / 4 * 8 + i % 4)).collect();
    assert_eq!(bytes(&mut packed, all), expected);
    drop((same, list));
}

#[test]
fn what_does_not_fit_in_63_bits_is_refused() {
    let (double, _) = basic(TypeId::DOUBLE);
    let refused = |made: Result<Rc<Datatype>>| made.unwrap_err().class;
    assert_eq!(refused(hvector(3, 1, i64::MAX / 2 + 1, &double)), ErrorClass::Arg, "stride");
    assert_eq!(refused(hvector(1, i64::MAX, 8, &double)), ErrorClass::Arg, "size");
    assert_eq!(refused(hvector(i64::MAX, i64::MAX, 8, &double)), ErrorClass::Arg, "count");
    let far = [Entry::block(i64::MAX - 4, 1, &double)];
    assert_eq!(Datatype::of(far, Origin::of(Combiner::Hindexed)).unwrap_err().class, ErrorClass::Arg, "end");
    let apart = [Entry::block(i64::MIN, 1, &double), Entry::block(i64::MAX - 8, 1, &double)];
    assert_eq!(
        Datatype::of(apart, Origin::of(Combiner::Hindexed)).unwrap_err().class,
        ErrorClass::Arg,
        "span"
    );
    let resized = Datatype::resized(&double, 8, i64::MAX, Origin::of(Combiner::Resized));
    assert_eq!(resized.unwrap_err().class, ErrorClass::Arg, "upper bound");
}

#[test]
fn markers_set_one_bound_each() {
    let (int, _) = basic(TypeId::INT);
    let (lower, _) = basic(TypeId::LB);
    let (upper, _) = basic(TypeId::UB);
    let made = |entries: &[Entry<'_>]| {
        let ty = Datatype::of(entries.iter().copied(), Origin::of(Combiner::Struct)).unwrap();
        (ty.lb(), ty.extent, ty.size)
    };
    assert_eq!(made(&[Entry::block(0, 1, &int), Entry::block(20, 1, &upper)]), (0, 20, 4));
    assert_eq!(made(&[Entry::block(-8, 1, &lower), Entry::block(0, 1, &int)]), (-8, 12, 4));
    let both = [Entry::block(3, 1, &lower), Entry::block(0, 2, &int), Entry::block(5, 1, &upper)];
    assert_eq!(made(&both), (3, 2, 8));
    assert_eq!(made(&[Entry::block(3, 1, &lower), Entry::block(9, 1, &upper)]), (3, 6, 0), "nothing else");
    let (double, _) = basic(TypeId::DOUBLE);
    let open = [Entry::block(-3, 1, &lower), Entry::block(0, 1, &double), Entry::block(8, 1, &int)];
    assert_eq!(made(&open), (-3, 16, 12), "rounded, since no upper bound is set");
    let closed = [Entry::block(0, 1, &double), Entry::block(8, 1, &int), Entry::block(13, 1, &upper)];
    assert_eq!(made(&closed), (0, 13, 12), "not rounded");
    assert_eq!(made(&[Entry::block(10, 1, &lower)]), (10, -10, 0), "a bound that nothing sets is 0");
}

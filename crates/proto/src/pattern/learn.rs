//! From contacts to rules, by description length.
//!
//! To write a pair of ranks down takes as many bits as two ranks have. A rule takes some bits of its own, saves those of the
//! pairs that it explains, and costs those of pairs that it predicts wrongly, twice: a connection that nobody uses is worse than one
//! that is made when it is needed. The rule that saves most is taken, then the next one for what is left, until none saves
//! anything; a rule that the later ones made superfluous goes. Not here: what a rule is ([`super::shape`]).
use super::shape::{Beyond, Branch, DIMS_MAX, Dims, Ends, Grid, Near, Order, Placed, RANKS_MAX, Shape, Step};
use super::text::{GENERATORS_MAX, PAIRS_MAX};
use super::{Generator, Pattern, Score};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// Jobs up to this size are looked at as a whole, larger ones by about half as many of their ranks.
const LOOKED_MAX: u32 = 4096;
/// Differences between ranks that strides are made of.
const STEPS_MAX: usize = 24;
/// Grids with extents of their own that are tried.
const FIXED_MAX: usize = 64;
/// Ranks that a tree or a star may begin at.
const ROOTS_MAX: usize = 8;
/// Where all talk to all in a smaller job than this, strides explain it as well, and say less of larger ones.
const ALL_SIZE_MIN: u32 = 8;
/// A connection that nobody uses counts so many times.
const MISS_WEIGHT: i64 = 2;
/// A rule predicts at most one pair wrongly for so many that it explains.
const HITS_PER_MISS: u64 = 3;

/// That a rank had something to say to another for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The one.
    pub from: u32,
    /// The other.
    pub to: u32,
    /// When, in milliseconds since its start.
    pub when_ms: u32,
}

/// Who talked to whom in a run. Pairs have no direction: a connection has two ends.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    rows: Vec<Row>,
}

/// The peers of one rank.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// In order, each once, with its first contact.
    peers: Vec<(u32, u32)>,
    /// Were there more than could be told?
    is_cut: bool,
}

impl Row {
    /// Was it talked to? `None`: that is not known.
    pub(super) fn has(&self, peer: u32) -> Option<bool> {
        match self.place(peer) {
            Some(_) => Some(true),
            None if self.is_cut => None,
            None => Some(false),
        }
    }

    fn place(&self, peer: u32) -> Option<usize> {
        self.peers.binary_search_by_key(&peer, |(peer, _)| *peer).ok()
    }
}

impl Observed {
    /// From what the ranks of a job of this size tell; `cut` are those who had more contacts than could be told. What makes no
    /// sense is left out.
    pub fn new(size: u32, contacts: impl IntoIterator<Item = Contact>, cut: &[u32]) -> Self {
        let size = size.min(RANKS_MAX);
        let mut rows = vec![Row::default(); size as usize];
        for Contact { from, to, when_ms } in contacts {
            if from != to && from < size && to < size {
                rows[from as usize].peers.push((to, when_ms));
                rows[to as usize].peers.push((from, when_ms));
            }
        }
        for row in &mut rows {
            row.peers.sort_unstable();
            row.peers.dedup_by_key(|(peer, _)| *peer);
        }
        cut.iter().filter(|rank| **rank < size).for_each(|rank| rows[*rank as usize].is_cut = true);
        Observed { rows }
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Pairs that talked.
    pub fn pairs(&self) -> u64 {
        self.rows.iter().map(|row| row.peers.len() as u64).sum::<u64>() / 2
    }

    /// The rows that are looked at, by rank.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, &Row)> {
        let size = self.size();
        // Odd, so that all columns of a grid are seen.
        let step = if size <= LOOKED_MAX { 1 } else { (size / (LOOKED_MAX / 2)) | 1 };
        self.rows.iter().enumerate().step_by(step as usize).map(|(rank, row)| (rank as u32, row))
    }

    /// Peers of a rank on average, in hundredths.
    pub(super) fn degree_percent(&self) -> u32 {
        let all: u64 = self.rows.iter().map(|row| row.peers.len() as u64).sum();
        (all * 100).checked_div(self.rows.len() as u64).unwrap_or(0) as u32
    }
}

/// The rules that explain a run.
pub(super) fn generators(observed: &Observed, before: Option<&Pattern>) -> Vec<Generator> {
    if observed.pairs() == 0 {
        return Vec::new();
    }
    let known: Vec<&Shape> = before.iter().flat_map(|b| &b.generators).map(|known| &known.shape).collect();
    let mut search = Search::new(observed, known);
    let mut shapes = Vec::new();
    let mut candidates = search.candidates();
    // What does not pay even before others have explained something never will.
    candidates.retain(|shape| {
        let hits = search.try_out(shape).hits;
        search.gain(shape, Trial { hits, misses: 0 }).is_some()
    });
    while shapes.len() < GENERATORS_MAX - 1
        && let Some(best) = search.best(&candidates)
    {
        search.take(best);
        shapes.push(best.clone());
    }
    search.drop_superfluous(&mut shapes);
    let mut found: Vec<Generator> = search.judge(shapes);
    found.extend(search.leftover());
    found.sort_by_key(|generator| generator.after_ms);
    found
}

/// The search for rules.
struct Search<'o> {
    observed: &'o Observed,
    /// Rules that were known before.
    known: Vec<&'o Shape>,
    rows: Vec<(u32, &'o Row)>,
    /// By row and place in it: is the pair explained?
    explained: Vec<Vec<bool>>,
    /// By row: what was predicted wrongly.
    vain: Vec<BTreeSet<u32>>,
    /// Bits of a rank.
    rank_bits: i64,
}

/// What a rule would add.
#[derive(Clone, Copy, Default)]
struct Trial {
    hits: u64,
    misses: u64,
}

impl<'o> Search<'o> {
    fn new(observed: &'o Observed, known: Vec<&'o Shape>) -> Self {
        let rows: Vec<_> = observed.rows().collect();
        let rank_bits = i64::from(u32::BITS - observed.size().saturating_sub(1).leading_zeros()).max(4);
        Search {
            observed,
            known,
            explained: rows.iter().map(|(_, row)| vec![false; row.peers.len()]).collect(),
            vain: vec![BTreeSet::new(); rows.len()],
            rows,
            rank_bits,
        }
    }

    fn size(&self) -> u32 {
        self.observed.size()
    }

    fn try_out(&self, shape: &Shape) -> Trial {
        let mut trial = Trial::default();
        each(&self.rows, self.size(), shape, |number, peer, place| match place {
            Some(place) => trial.hits += u64::from(!self.explained[number][place]),
            None => trial.misses += u64::from(!self.vain[number].contains(&peer)),
        });
        trial
    }

    /// Bits that a rule saves; `None` if it is not to be had. Each pair is seen from both ends, so everything counts twice.
    fn gain(&self, shape: &Shape, trial: Trial) -> Option<i64> {
        let cost = if self.known.contains(&shape) { 0 } else { cost_bits(shape, self.rank_bits) };
        let saved = trial.hits as i64 - MISS_WEIGHT * trial.misses as i64;
        let gain = saved * self.rank_bits - 2 * cost;
        (gain > 0 && trial.hits >= HITS_PER_MISS * trial.misses).then_some(gain)
    }

    /// The first of those that save most.
    fn best<'c>(&self, candidates: &'c [Shape]) -> Option<&'c Shape> {
        let gains =
            candidates.iter().filter_map(|shape| Some((self.gain(shape, self.try_out(shape))?, shape)));
        gains.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, shape)| shape)
    }

    fn take(&mut self, shape: &Shape) {
        let size = self.size();
        let Search { rows, explained, vain, .. } = self;
        each(rows, size, shape, |number, peer, place| match place {
            Some(place) => explained[number][place] = true,
            None => drop(vain[number].insert(peer)),
        });
    }

    /// What the first rules explain may be explained by those behind them.
    fn drop_superfluous(&mut self, shapes: &mut Vec<Shape>) {
        let mut at = 0;
        while at < shapes.len() {
            let shape = shapes.remove(at);
            self.explained.iter_mut().for_each(|row| row.fill(false));
            self.vain.iter_mut().for_each(BTreeSet::clear);
            shapes.iter().for_each(|other| self.take(other));
            if self.gain(&shape, self.try_out(&shape)).is_some() {
                self.take(&shape);
                shapes.insert(at, shape);
                at += 1;
            }
        }
    }

    /// How well each rule fits, and when it is first used. A pair counts for the first rule that says it.
    fn judge(&self, shapes: Vec<Shape>) -> Vec<Generator> {
        let mut seen: Vec<Vec<bool>> =
            self.rows.iter().map(|(_, row)| vec![false; row.peers.len()]).collect();
        let generator = |shape: Shape| {
            let (mut trial, mut whens) = (Trial::default(), Vec::new());
            each(&self.rows, self.size(), &shape, |number, _, place| match place {
                Some(place) => {
                    trial.hits += 1;
                    if !core::mem::replace(&mut seen[number][place], true) {
                        whens.push(self.rows[number].1.peers[place].1);
                    }
                }
                None => trial.misses += 1,
            });
            let scaled = |count: u64| count * u64::from(self.size()) / self.rows.len() as u64 / 2;
            let score = Score { hits: scaled(trial.hits), misses: scaled(trial.misses) };
            Generator { shape, after_ms: median(whens), score }
        };
        shapes.into_iter().map(generator).collect()
    }

    /// What no rule explains, the earliest of it.
    fn leftover(&self) -> Option<Generator> {
        let mut left: Vec<(u32, u32, u32)> = Vec::new();
        for ((rank, row), explained) in self.rows.iter().zip(&self.explained) {
            let open = row.peers.iter().zip(explained).filter(|(_, explained)| !**explained);
            left.extend(open.map(|((peer, when_ms), _)| (*when_ms, *rank.min(peer), *rank.max(peer))));
        }
        left.sort_unstable();
        left.dedup();
        left.truncate(PAIRS_MAX);
        let after_ms = median(left.iter().map(|(when_ms, ..)| *when_ms).collect());
        let pairs: Vec<(u32, u32)> = left.into_iter().map(|(_, low, high)| (low, high)).collect();
        let score = Score { hits: pairs.len() as u64, misses: 0 };
        (!pairs.is_empty()).then_some(Generator { shape: Shape::Pairs(pairs), after_ms, score })
    }

    /// The rules that may explain something. Those that say more of other sizes come first.
    fn candidates(&self) -> Vec<Shape> {
        let size = self.size();
        let mut shapes: Vec<Shape> =
            self.known.iter().copied().filter(|s| !matches!(s, Shape::Pairs(_))).cloned().collect();
        let steps = self.frequent(|rank, peer| peer.checked_sub(rank), 8);
        (2..=DIMS_MAX).for_each(|count| created(count, size, &mut shapes));
        shapes.extend([Beyond::Beside, Beyond::Behind, Beyond::Among].map(Shape::Doubling));
        shapes.extend([Ends::Open, Ends::Wrap].map(Shape::Powers));
        self.strides(&steps, &mut shapes);
        let masks = self.frequent(|rank, peer| Some(rank ^ peer), 4);
        shapes.extend(masks.into_iter().take(STEPS_MAX).map(Shape::Xor));
        self.rooted(&mut shapes);
        if steps.len() <= STEPS_MAX {
            fixed(size, &steps, &mut shapes); // where there are more, nearly all talk to all
        }
        if size >= ALL_SIZE_MIN && u64::from(self.observed.degree_percent()) >= u64::from(size) * 25 {
            shapes.push(Shape::All);
        }
        shapes
    }

    /// What is the same for at least one in so many ranks, the most frequent first.
    fn frequent(&self, of: impl Fn(u32, u32) -> Option<u32>, one_in: usize) -> Vec<u32> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (rank, row) in &self.rows {
            for what in row.peers.iter().filter_map(|(peer, _)| of(*rank, *peer)) {
                *counts.entry(what).or_default() += 1;
            }
        }
        let least = (self.rows.len() / one_in).max(1);
        let mut found: Vec<(usize, u32)> = counts
            .into_iter()
            .map(|(what, count)| (count, what))
            .filter(|(count, _)| *count >= least)
            .collect();
        found.sort_unstable_by_key(|(count, what)| (core::cmp::Reverse(*count), *what));
        found.into_iter().map(|(_, what)| what).collect()
    }

    fn strides(&self, steps: &[u32], shapes: &mut Vec<Shape>) {
        let size = self.size();
        let parts = [2, 3, 4, 8].into_iter().filter(|part| size.is_multiple_of(*part));
        let parts = parts.filter(|part| steps.contains(&(size / part)));
        let parts = parts.map(Step::Part);
        let ranks = steps.iter().take(STEPS_MAX).map(|step| Step::Ranks(*step.min(&(size - step))));
        for step in parts.chain(ranks) {
            for shape in [Ends::Open, Ends::Wrap].map(|ends| Shape::Stride { step, ends }) {
                if !shapes.contains(&shape) {
                    shapes.push(shape);
                }
            }
        }
    }

    /// Trees and stars.
    fn rooted(&self, shapes: &mut Vec<Shape>) {
        let mut roots = self.frequent(|_, peer| Some(peer), 2);
        roots.truncate(ROOTS_MAX);
        shapes.extend(roots.iter().map(|root| Shape::Star { root: *root }));
        let busiest = self.frequent(|_, peer| Some(peer), usize::MAX);
        let mut tops = vec![0];
        tops.extend(busiest.into_iter().take(3).filter(|root| *root != 0));
        for root in tops {
            let radix = [2, 4, 8, 16, 32].map(Branch::Radix);
            let arity = [2, 3, 4, 8].map(Branch::Arity);
            shapes.extend(radix.into_iter().chain(arity).map(|branch| Shape::Tree { branch, root }));
        }
    }
}

/// Calls back for each pair that a rule says: the number of the row, the peer, and its place in the row if it was talked to. What
/// is not known is left out.
fn each(rows: &[(u32, &Row)], size: u32, shape: &Shape, mut then: impl FnMut(usize, u32, Option<usize>)) {
    let placed = Placed::new(shape, size);
    let mut said = Vec::new();
    for (number, (rank, row)) in rows.iter().enumerate() {
        said.clear();
        placed.neighbours(*rank, &mut said);
        said.sort_unstable();
        said.dedup();
        for &peer in said.iter().filter(|peer| *peer != rank) {
            let place = row.place(peer);
            if place.is_some() || !row.is_cut {
                then(number, peer, place);
            }
        }
    }
}

fn median(mut values: Vec<u32>) -> u32 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Bits of a rule. What says something of other sizes is cheaper than what does not.
fn cost_bits(shape: &Shape, rank_bits: i64) -> i64 {
    let number = |number: u32| i64::from(u32::BITS - number.leading_zeros());
    let root_bits = |root: u32| if root == 0 { 0 } else { rank_bits };
    match shape {
        Shape::Grid(grid) => {
            let ends = &grid.ends[..grid.dims.count()];
            let ends = if ends.iter().all(|end| *end == ends[0]) { 1 } else { 4 };
            let order = i64::from(grid.order == Order::Columns) * 2;
            let dims = match grid.dims {
                Dims::Created(_) => 9,
                Dims::Fixed(dims, count) => 12 + dims[..count].iter().map(|dim| number(*dim)).sum::<i64>(),
            };
            dims + ends + order + i64::from(grid.near == Near::Corners)
        }
        Shape::Stride { step: Step::Ranks(step), .. } => 8 + number(*step),
        Shape::Stride { step: Step::Part(part), .. } => 8 + number(*part),
        Shape::Powers(_) => 8,
        Shape::Xor(mask) => 12 + number(*mask),
        Shape::Doubling(Beyond::Beside) => 8,
        Shape::Doubling(_) => 9,
        Shape::Tree { branch: Branch::Radix(2), root } => 9 + root_bits(*root),
        Shape::Tree { root, .. } => 13 + root_bits(*root),
        Shape::Star { root } => 8 + root_bits(*root),
        Shape::All => 8,
        Shape::Pairs(pairs) => 2 * rank_bits * pairs.len() as i64,
    }
}

/// Grids whose extents follow from the size.
fn created(count: usize, size: u32, shapes: &mut Vec<Shape>) {
    let Some((dims, _)) = Dims::Created(count).of(size) else { return };
    let is_mirrored = (0..count).all(|dim| dims[dim] == dims[count - 1 - dim]);
    let orders: &[Order] = if is_mirrored { &[Order::Rows] } else { &[Order::Rows, Order::Columns] };
    for order in orders {
        with_ends(Dims::Created(count), dims, *order, shapes);
    }
}

/// Grids with other extents, as far as there are steps that look like theirs.
fn fixed(size: u32, steps: &[u32], shapes: &mut Vec<Shape>) {
    let mut found: Vec<([u32; DIMS_MAX], usize)> = Vec::new();
    cut(size, ([1; DIMS_MAX], 0), 1, steps, &mut found);
    for (dims, count) in found {
        let created = Dims::Created(count).of(size).map(|(created, _)| created);
        let mut mirrored = created.unwrap_or_default();
        mirrored[..count].reverse();
        if created != Some(dims) && mirrored != dims {
            with_ends(Dims::Fixed(dims, count), dims, Order::Rows, shapes);
        }
    }
}

/// Cuts what is left into extents, the last one first: its stride is 1.
fn cut(
    left: u32,
    (dims, count): ([u32; DIMS_MAX], usize),
    stride: u32,
    steps: &[u32],
    found: &mut Vec<([u32; DIMS_MAX], usize)>,
) {
    if found.len() == FIXED_MAX || !steps.contains(&stride) {
        return;
    }
    if count > 0 {
        let mut whole = dims;
        whole[count] = left;
        whole[..=count].reverse();
        found.push((whole, count + 1));
    }
    if count + 2 > DIMS_MAX {
        return;
    }
    for extent in (2..=left / 2).filter(|extent| left.is_multiple_of(*extent)) {
        let mut next = dims;
        next[count] = extent;
        cut(left / extent, (next, count + 1), stride * extent, steps, found);
    }
}

/// One grid for each choice of ends. Where there are two or fewer in a row it makes no difference, so such a dimension goes with
/// the others.
fn with_ends(dims: Dims, extents: [u32; DIMS_MAX], order: Order, shapes: &mut Vec<Shape>) {
    let count = dims.count();
    let open: Vec<usize> = (0..count).filter(|dim| extents[*dim] > 2).collect();
    for choice in 0..1_u32 << open.len() {
        let wraps = |at: usize| choice >> at & 1 == 1;
        let first = if wraps(0) { Ends::Wrap } else { Ends::Open };
        let alike = (0..open.len()).all(|at| wraps(at) == wraps(0));
        let mut ends = [if alike { first } else { Ends::Open }; DIMS_MAX];
        for (at, dim) in open.iter().enumerate() {
            ends[*dim] = if wraps(at) { Ends::Wrap } else { Ends::Open };
        }
        for near in [Near::Faces, Near::Corners] {
            shapes.push(Shape::Grid(Grid { dims, order, near, ends }));
        }
    }
}

//! Spoilt input for every reader of bytes that come from outside: none of it makes one panic, wait for more than
//! its named maximum, or keep memory.
//!
//! Each target gets as many inputs as `BANYAN_FUZZ` says (a million in a release build, fewer in a debug build): valid
//! ones, spoilt ones, noise. `BANYAN_FUZZ_SEED` repeats a run. PMI-2 and PMGR servers have such tests of their own
//! beside their code.
//!
//! ```text
//! cargo test --release -p banyan-proto --test fuzz -- --nocapture
//! ```
mod boards;
mod chance;
mod links;
mod pmi;

use chance::{Chance, spoil};
use std::env;
use std::time::Instant;

/// Resident memory that a target may have more at its end than when it was warm.
const GROWTH_BYTES_MAX: usize = 16 << 20;
/// Inputs of a debug build.
const INPUTS_DEBUG: u64 = 20_000;
const INPUTS_RELEASE: u64 = 1_000_000;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a reader made of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Something valid came out.
    Understood,
    /// An error came out.
    Refused,
    /// It waits for more.
    Waiting,
}

impl<T, E> From<Result<T, E>> for Verdict {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(_) => Verdict::Understood,
            Err(_) => Verdict::Refused,
        }
    }
}

/// A reader under test. It replaces itself after an error, as a server does with a connection.
pub(crate) trait Target {
    /// Inputs that are right.
    fn seeds(&self) -> Vec<Vec<u8>>;
    /// Reads one input.
    fn feed(&mut self, input: &[u8], chance: &mut Chance) -> Verdict;
}

fn from_environment(name: &str, otherwise: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}='{text}' is no number")),
        Err(_) => otherwise,
    }
}

/// Bytes of this process that are in memory, where the system tells.
fn resident_bytes() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
}

/// Feeds a target, three inputs of four spoilt.
fn run(name: &str, target: &mut dyn Target, inputs: u64, seed: u64) {
    let (begun, seeds, mut chance) = (Instant::now(), target.seeds(), Chance(seed));
    let (mut understood, mut refused, mut warm) = (0u64, 0u64, None);
    let mut input = Vec::new();
    for nth in 0..inputs {
        if nth == inputs / 10 {
            warm = resident_bytes();
        }
        input.clear();
        input.extend_from_slice(&seeds[chance.below(seeds.len())]);
        if chance.below(4) != 0 {
            spoil(&mut input, &seeds, &mut chance);
        }
        match target.feed(&input, &mut chance) {
            Verdict::Understood => understood += 1,
            Verdict::Refused => refused += 1,
            Verdict::Waiting => {}
        }
    }
    let growth = resident_bytes().zip(warm).map_or(0, |(now, warm)| now.saturating_sub(warm));
    let (ms, grown) = (begun.elapsed().as_millis(), growth >> 10);
    println!("{name}: {inputs} inputs, {understood} understood, {refused} refused, {ms} ms, +{grown} KiB");
    assert!(growth <= GROWTH_BYTES_MAX, "{name} grew by {growth} bytes");
    assert!(understood > inputs / 50, "{name} understood only {understood} of {inputs}");
    assert!(refused > inputs / 50, "{name} refused only {refused} of {inputs}");
}

/// One test, so that the memory of one target is not taken for another's.
#[test]
fn spoilt_input_is_refused_without_panic_or_growth() {
    let usual = if cfg!(debug_assertions) { INPUTS_DEBUG } else { INPUTS_RELEASE };
    let inputs = from_environment("BANYAN_FUZZ", usual).max(1000);
    let seed = from_environment("BANYAN_FUZZ_SEED", SEED).max(1);
    println!("seed {seed}");
    run("frames of the tree", &mut links::PlainLink::default(), inputs, seed);
    run("bodies of frames", &mut links::Bodies, inputs, seed);
    run("sealed frames", &mut links::SealedLink::new(), inputs, seed);
    run("handshakes", &mut links::Handshake, inputs, seed);
    run("PMI-1 requests", &mut pmi::OneLines::default(), inputs, seed);
    run("PMI-1 replies and mappings", &mut pmi::OneReplies, inputs, seed);
    run("PMI-2 requests", &mut pmi::TwoFrames::default(), inputs, seed);
    run("PMI-2 replies", &mut pmi::TwoReplies, inputs, seed);
    run("PMGR", &mut pmi::Pmgr::new(), inputs, seed);
    run("boards", &mut boards::Boards::new(), inputs, seed);
    run("handshakes of queue pairs", &mut links::Datagrams, inputs, seed);
}

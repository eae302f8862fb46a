//! What a put and a fence take while their target computes, beside what they take while it waits in a call. The target is on
//! another (emulated) node, whose data server does it.
use super::super::sample::{Sample, failure};
use super::super::verdict::Verdict;
use super::Bench;
use mpi::{Result, Universe};
use pgas::Armci;
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The program, among those of the hidden command.
pub const PROGRAM: &str = "computing";
/// How long the target computes.
const COMPUTES: Duration = Duration::from_secs(2);
const COMPUTES_QUICK: Duration = Duration::from_millis(500);
/// For so long puts are begun; the target computes on when the last one has ended.
const PUTS_PART: u32 = 2;
/// Beside what it takes while the target waits.
const AT_MOST: f64 = 10.0;
const HEAD: &str = "
Put and fence of 8 B to a rank of another node, by its data server: median of a run, us
";

fn computes(quick: bool) -> Duration {
    if quick { COMPUTES_QUICK } else { COMPUTES }
}

/// Medians of runs, in microseconds.
#[derive(Debug, Default)]
pub struct Computing {
    waits: Sample,
    computes: Sample,
}

impl Computing {
    /// Measures once more.
    pub fn run(&mut self, bench: &Bench<'_>) {
        let seconds = computes(bench.options.quick).as_secs_f64().to_string();
        let what = "a target that computes";
        let printed = bench.output(what, (2, 2), &["--data-server"], &[PROGRAM.into(), seconds]);
        let figure = |key: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
            line.parse().ok()
        };
        self.waits.add(figure("waits"));
        self.computes.add(figure("computes"));
    }

    /// Runs that gave nothing.
    pub fn failure(&self) -> Option<String> {
        failure("a target that computes", [&self.waits, &self.computes])
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        json!({"waits_us": self.waits.json(), "computes_us": self.computes.json()})
    }

    /// For people.
    pub fn text(&self, quick: bool) -> String {
        let seconds = computes(quick).as_secs_f64();
        let line = |label: &str, sample: &Sample| {
            let of = |value: f64| format!("{value:.1}");
            let (low, high) = sample.spread().map_or(("-".into(), "-".into()), |(a, b)| (of(a), of(b)));
            let median = sample.median().map_or("failed".into(), of);
            format!("{label:<36}{median:>10} [{low}..{high}]\n")
        };
        let computes = format!("the target computes for {seconds} s");
        format!(
            "{HEAD}\n{}{}",
            line("the target waits in a call", &self.waits),
            line(&computes, &self.computes)
        )
    }

    /// Does it matter little whether the target computes?
    pub fn verdict(&self) -> Verdict {
        Verdict {
            what: "put + fence 8 B, another node: the target computes / waits".into(),
            value: self.computes.over(&self.waits),
            at_most: AT_MOST,
        }
    }
}

/// Runs one of two ranks: `SECONDS` for which the target computes.
pub fn rank_main(args: &[String]) -> i32 {
    let seconds = args.first().and_then(|seconds| seconds.parse().ok());
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let done = seconds.ok_or_else(|| "how many seconds?".to_string()).and_then(|computes| {
        mpi::init().and_then(|universe| measure(&universe, computes)).map_err(|error| error.to_string())
    });
    match done {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{PROGRAM}: {why}");
            1
        }
    }
}

fn measure(universe: &Universe, computes: Duration) -> Result<()> {
    let world = universe.world();
    let armci = Armci::new(&world)?;
    let memory = armci.malloc::<u64>(2)?;
    for (place, key) in ["waits", "computes"].into_iter().enumerate() {
        armci.barrier()?;
        if world.rank() == 0 {
            let (median, last) = puts(&armci, &memory, place, computes / PUTS_PART)?;
            println!("{key} {median}");
            world.send(&[last], 1, 0)?;
        } else if world.rank() == 1 {
            if key == "computes" {
                compute(computes);
            }
            let (last, _) = world.recv::<u64>(0, 0)?;
            let mut seen = [0];
            memory.get(&mut seen, 1, place)?;
            assert_eq!(seen[..], last, "what was put last is there");
        }
    }
    armci.barrier()
}

/// Puts one by one for so long: the median of what one takes with its fence in microseconds, and what was put last.
fn puts(armci: &Armci, memory: &pgas::Memory<u64>, place: usize, lasts: Duration) -> Result<(f64, u64)> {
    let (mut taken, mut turn) = (Vec::new(), 0);
    let start = Instant::now();
    while start.elapsed() < lasts {
        turn += 1;
        let begun = Instant::now();
        memory.put(&[turn], 1, place)?;
        armci.fence(1)?;
        taken.push(begun.elapsed());
    }
    taken.sort_unstable();
    Ok((taken[taken.len() / 2].as_secs_f64() * 1e6, turn))
}

/// Computes, and calls nothing.
fn compute(lasts: Duration) {
    let start = Instant::now();
    let mut value = 1.0_f64;
    while start.elapsed() < lasts {
        value = (0..1000).fold(black_box(value), |value, step| value + 1.0 / (value + f64::from(step)));
    }
    black_box(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_computes_is_held_against_one_that_waits() {
        let mut computing = Computing::default();
        assert_eq!(computing.verdict().word(), "not measured");
        computing.waits.add(Some(20.0));
        computing.computes.add(Some(30.0));
        let verdict = computing.verdict();
        assert_eq!((verdict.word(), verdict.value), ("met", Some(1.5)));
        let text = computing.text(false);
        assert!(text.contains("the target computes for 2 s               30.0 [30.0..30.0]\n"), "{text}");
        computing.computes.add(None);
        assert!(computing.failure().is_some());
    }
}

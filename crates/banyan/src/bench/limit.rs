//! `banyan bench limit`: what the machine itself costs, before any library: one cache line handed from
//! core to core, and processes started and reaped.
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use sys::say;

const REPEATS: usize = 5;
const CROWDS: [usize; 4] = [1, 16, 64, 256];

/// Prints the limits.
pub fn main(args: &[String]) -> i32 {
    if let Some(extra) = args.first() {
        return crate::usage_error(&format!("bench limit takes no arguments, got '{extra}'"));
    }
    say!("on {}", crate::info::processor());
    match line_one_way(Duration::from_secs(1)) {
        Ok(one_way) => say!("cache line, one way           {:8.3} us", one_way.as_secs_f64() * 1e6),
        Err(e) => say!("cache line, one way           not measured: {e}"),
    }
    for crowd in CROWDS {
        match spawn_and_wait(crowd) {
            Ok(time) => say!("spawn and wait {crowd:>3} /bin/true  {:8.1} ms", time.as_secs_f64() * 1e3),
            Err(e) => say!("spawn and wait {crowd:>3} /bin/true  not measured: {e}"),
        }
    }
    0
}

/// One hand-over between the first two cores that this process may use.
pub fn line_one_way(time: Duration) -> io::Result<Duration> {
    match sys::limit::allowed_cores()?.as_slice() {
        [first, second, ..] => sys::limit::line_handover(*first, *second, time),
        _ => Err(io::Error::other("it takes two cores")),
    }
}

/// A bare loop of spawns, then a loop of waits.
#[derive(Clone, Copy, Debug)]
pub struct BareLoop {
    /// When all processes had been started.
    pub started: Duration,
    /// When all had been reaped.
    pub reaped: Duration,
}

impl BareLoop {
    /// Starts `count` processes that do nothing, and reaps them.
    pub fn run(count: usize) -> io::Result<BareLoop> {
        let start = Instant::now();
        let mut children = Vec::with_capacity(count);
        let spawned = (0..count).try_for_each(|_| spawn_true().map(|child| children.push(child)));
        let started = start.elapsed();
        // Those that were started are reaped even if not all could be.
        let waited = children.iter_mut().try_for_each(|child| child.wait().map(drop));
        spawned.and(waited)?;
        Ok(BareLoop { started, reaped: start.elapsed() })
    }
}

/// The median time to start `count` processes and to reap them all.
fn spawn_and_wait(count: usize) -> io::Result<Duration> {
    let mut times = (0..REPEATS).map(|_| Ok(BareLoop::run(count)?.reaped)).collect::<io::Result<Vec<_>>>()?;
    times.sort();
    Ok(times[REPEATS / 2])
}

fn spawn_true() -> io::Result<Child> {
    Command::new("/bin/true").stdin(Stdio::null()).spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_reaped_after_they_were_started() {
        let times = BareLoop::run(3).unwrap();
        assert!(Duration::ZERO < times.started && times.started <= times.reaped);
    }
}

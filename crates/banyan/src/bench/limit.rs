//! `banyan bench limit`: what the machine itself costs, before any library: one cache line handed from
//! core to core, and processes started and reaped.
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REPEATS: usize = 5;
const CROWDS: [usize; 2] = [64, 256];

/// Prints the limits.
pub fn main(args: &[String]) -> i32 {
    if let Some(extra) = args.first() {
        return crate::usage_error(&format!("bench limit takes no arguments, got '{extra}'"));
    }
    println!("on {}", crate::info::processor());
    match line_one_way(Duration::from_secs(1)) {
        Ok(one_way) => println!("cache line, one way           {:8.3} us", one_way.as_secs_f64() * 1e6),
        Err(e) => println!("cache line, one way           not measured: {e}"),
    }
    for crowd in CROWDS {
        match spawn_and_wait(crowd) {
            Ok(time) => println!("spawn and wait {crowd:>3} /bin/true  {:8.1} ms", time.as_secs_f64() * 1e3),
            Err(e) => println!("spawn and wait {crowd:>3} /bin/true  not measured: {e}"),
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

/// The median time to start `count` processes and to reap them all.
fn spawn_and_wait(count: usize) -> io::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let start = Instant::now();
        let children = (0..count).map(|_| spawn_true()).collect::<io::Result<Vec<_>>>()?;
        for mut child in children {
            child.wait()?;
        }
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[REPEATS / 2])
}

fn spawn_true() -> io::Result<Child> {
    Command::new("/bin/true").stdin(Stdio::null()).spawn()
}

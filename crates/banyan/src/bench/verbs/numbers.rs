//! How a device numbers queue pairs: in a row in one process, and in two that make them at the same time?
//!
//! Who knows that numbers follow each other need only tell peers the first and the last one.
use super::steps;
use fabric::rdma::Config;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use sys::say;

/// The hidden command of [`numbers_main`].
pub const NUMBERS_COMMAND: &str = "verbs-numbers";
const READY: &str = "ready";

/// The numbers that one process got, in the order in which it made queue pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Who made them.
    pub who: &'static str,
    numbers: Vec<u32>,
}

impl Numbers {
    /// Of one process.
    pub fn new(who: &'static str, numbers: Vec<u32>) -> Self {
        Numbers { who, numbers }
    }

    /// First and last of those that follow each other.
    pub fn ranges(&self) -> Vec<(u32, u32)> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &number in &self.numbers {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        ranges
    }

    /// For people: how many, the first and the last, in how many ranges, and the longest of these.
    pub fn cells(&self) -> [String; 5] {
        let ranges = self.ranges();
        let longest = ranges.iter().map(|(first, last)| last - first + 1).max().unwrap_or(0);
        let hex = |number: Option<&u32>| number.map_or("-".into(), |number| format!("{number:#x}"));
        [
            self.numbers.len().to_string(),
            hex(self.numbers.first()),
            hex(self.numbers.last()),
            ranges.len().to_string(),
            longest.to_string(),
        ]
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        json!({
            "who": self.who,
            "count": self.numbers.len(),
            "first": self.numbers.first(),
            "last": self.numbers.last(),
            "ranges": self.ranges().len(),
        })
    }
}

/// Those of this process, and of two others that make `count` at the same time.
pub fn measure(own: &[u32], device: &Config, count: usize) -> Result<Vec<Numbers>, String> {
    let mut all = vec![Numbers::new("one process", own.to_vec())];
    let (mut one, mut two) = (Maker::start(device, count)?, Maker::start(device, count)?);
    one.wait_ready()?;
    two.wait_ready()?;
    one.go()?;
    two.go()?;
    all.push(Numbers::new("two at once: the first", one.numbers()?));
    all.push(Numbers::new("two at once: the second", two.numbers()?));
    Ok(all)
}

/// Another process; ended and reaped on drop.
struct Maker {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Maker {
    fn start(device: &Config, count: usize) -> Result<Maker, String> {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(own);
        command.args(["bench", NUMBERS_COMMAND, &count.to_string()]).args(&device.device);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| e.to_string())?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped above"));
        Ok(Maker { child, stdin, stdout })
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(|e| e.to_string())?;
        Ok(line.trim().into())
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        if self.line()? == READY { Ok(()) } else { Err("a process that makes queue pairs has failed".into()) }
    }

    fn go(&mut self) -> Result<(), String> {
        let mut stdin = self.stdin.take().ok_or("it has gone")?;
        writeln!(stdin).map_err(|e| e.to_string())
    }

    fn numbers(&mut self) -> Result<Vec<u32>, String> {
        let line = self.line()?;
        let number = |word: &str| word.parse().map_err(|_| format!("'{word}' is not a number"));
        line.split_whitespace().map(number).collect()
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes so many queue pairs when it is told to, and prints their numbers.
pub fn numbers_main(args: &[String]) -> i32 {
    let count = args.first().and_then(|count| count.parse().ok()).unwrap_or(0);
    let device = Config { device: args.get(1).cloned(), ..Config::default() };
    match steps::open(&device).and_then(|rdma| {
        say!("{READY}");
        std::io::stdin().lock().read_line(&mut String::new()).map_err(|e| e.to_string())?;
        steps::numbers(&rdma, count)
    }) {
        Ok(numbers) => {
            say!("{}", numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
            0
        }
        Err(why) => {
            eprintln!("bench: {why}");
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_one_range() {
        let ranges = |numbers: &[u32]| Numbers::new("it", numbers.to_vec()).ranges();
        assert_eq!(ranges(&[17, 18, 19]), [(17, 19)]);
        assert_eq!(ranges(&[17, 19, 20, 18]), [(17, 17), (19, 20), (18, 18)]);
        // Backwards is not in a row, and nothing follows the last number.
        assert_eq!(ranges(&[3, 2, u32::MAX, 0]), [(3, 3), (2, 2), (u32::MAX, u32::MAX), (0, 0)]);
        assert_eq!(ranges(&[]), []);
    }

    #[test]
    fn a_line_tells_ends_ranges_and_the_longest() {
        let cells = Numbers::new("it", vec![16, 17, 18, 30]).cells();
        assert_eq!(cells, ["4", "0x10", "0x1e", "2", "3"]);
        assert_eq!(Numbers::new("it", Vec::new()).cells(), ["0", "-", "-", "0", "0"]);
    }
}

//! What a long benchmark is doing, on standard error: one line that is written over on a terminal, a line per round
//! elsewhere.
use std::io::{IsTerminal, Write, stderr};

/// Where progress is shown.
#[derive(Debug)]
pub struct Progress {
    rounds: usize,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    OneLine,
    LinePerRound,
}

impl Progress {
    /// Of a benchmark that has this many rounds.
    pub fn new(rounds: usize) -> Self {
        let form = if stderr().is_terminal() { Form::OneLine } else { Form::LinePerRound };
        Progress { rounds, form }
    }

    /// A round, counted from 0, begins.
    pub fn round(&self, round: usize) {
        if self.form == Form::LinePerRound {
            eprintln!("bench: round {} of {}", round + 1, self.rounds);
        }
    }

    /// This is measured now.
    pub fn step(&self, round: usize, what: &str) {
        if self.form == Form::OneLine {
            eprint!("\r\x1b[Kbench: round {} of {}: {what}", round + 1, self.rounds);
            let _ = stderr().flush();
        }
    }

    /// Something that must not be overwritten.
    pub fn note(&self, what: &str) {
        self.clear();
        eprintln!("bench: {what}");
    }

    fn clear(&self) {
        if self.form == Form::OneLine {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

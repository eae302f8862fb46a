//! The line on a terminal that says how far a slow start is. Pure.
use std::time::{Duration, Instant};

/// A start that takes no longer than this needs no words.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// Between two lines.
const NEXT_AFTER: Duration = Duration::from_millis(250);
/// Back to the first column, and erase the line.
const ERASE: &str = "\r\x1b[K";

/// How far a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) agents: u32,
    /// Nodes with all of their ranks started.
    pub(super) ready: u32,
    pub(super) nodes: u32,
}

#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
    /// When the next line is due; `None`: never again.
    due: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// Silent: nobody would see it.
    pub(super) fn none(begun: Instant) -> Self {
        Progress { begun, due: None, is_shown: false }
    }

    pub(super) fn on_terminal(begun: Instant) -> Self {
        Progress { begun, due: Some(begun + FIRST_AFTER), is_shown: false }
    }

    /// When to look again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The line to write now, if it is time.
    pub(super) fn line(&mut self, now: Instant, counts: Counts) -> Option<String> {
        self.due.filter(|due| now >= *due)?;
        self.due = Some(now + NEXT_AFTER);
        self.is_shown = true;
        let Counts { agents, ready, nodes } = counts;
        let seconds = now.duration_since(self.begun).as_secs_f32();
        Some(format!(
            "{ERASE}banyan: starting: {agents} agents there, {ready} of {nodes} nodes ready, {seconds:.1} s"
        ))
    }

    /// What must be written before anything else is, or once everything is started.
    pub(super) fn erase(&mut self) -> Option<&'static str> {
        std::mem::take(&mut self.is_shown).then_some(ERASE)
    }

    /// No line any more.
    pub(super) fn stop(&mut self) -> Option<&'static str> {
        self.due = None;
        self.erase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: Counts = Counts { agents: 3, ready: 2, nodes: 4 };

    #[test]
    fn only_a_slow_start_is_shown_and_the_line_is_erased() {
        let begun = Instant::now();
        let mut progress = Progress::on_terminal(begun);
        assert_eq!(progress.line(begun + FIRST_AFTER / 2, COUNTS), None);
        assert_eq!(progress.erase(), None);
        let line = progress.line(begun + FIRST_AFTER, COUNTS).unwrap();
        assert_eq!(line, "\r\x1b[Kbanyan: starting: 3 agents there, 2 of 4 nodes ready, 1.0 s");
        assert_eq!(progress.due(), Some(begun + FIRST_AFTER + NEXT_AFTER));
        assert_eq!(progress.line(begun + FIRST_AFTER, COUNTS), None);
        assert_eq!((progress.erase(), progress.erase()), (Some(ERASE), None));
        assert!(progress.line(begun + FIRST_AFTER + NEXT_AFTER, COUNTS).is_some());
        assert_eq!((progress.stop(), progress.due()), (Some(ERASE), None));
        assert_eq!(progress.line(begun + 9 * FIRST_AFTER, COUNTS), None);
    }

    #[test]
    fn without_a_terminal_nothing_is_said() {
        let begun = Instant::now();
        assert_eq!(Progress::none(begun).line(begun + 9 * FIRST_AFTER, COUNTS), None);
    }
}

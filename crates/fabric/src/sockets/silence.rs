//! Hosts that do not answer any more.
//!
//! An idle stream is watched by the kernel (keepalive), from the first question on. One with bytes on their way would
//! be tried by it for a quarter of an hour, unless it is told a shorter time (`TCP_USER_TIMEOUT`); but then it also
//! gives up a peer that computes and has no room, although that peer's kernel answers. So streams are asked here,
//! from time to time while something was written: bytes on their way are acknowledged by a host that lives,
//! whatever its process does.
//!
//! TCP sends what was lost again after ever longer times, at last minutes, and so hears late that a cut is over. Before
//! a stream is given up its peer's listener is dialled: if the host answers, the stream waits on.
use super::{Sockets, is_no_descriptor};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use sys::tcp::Stream;

/// Questions in the time that a host may be silent.
const TURNS: u32 = 8;
/// How long the host has to answer a dial.
const PROBE_MIN_NS: u64 = 100_000_000;
const PROBE_MAX_NS: u64 = 3_000_000_000;

/// A dial that only asks whether the host of a silent stream lives.
#[derive(Debug)]
pub(super) struct Probe {
    index: u32,
    generation: u32,
    stream: Stream,
    since_ns: u64,
    until_ns: u64,
}

/// Between two questions.
pub(super) fn turn_ns(timeout: Duration) -> u64 {
    ((timeout / TURNS).as_nanos() as u64).max(1)
}

impl Sockets {
    pub(super) fn tick_silence(&mut self, now_ns: u64) {
        if self.silence_due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return;
        }
        self.end_probes(now_ns);
        let patience_ns = self.timeout_ns();
        let (mut late, mut due_ns) = (Vec::new(), None);
        for index in self.links.indices() {
            let Some(link) = self.links.at_mut(index) else { continue };
            if !link.keeps_alive
                && let Some(stream) = &link.stream
            {
                // Not when it was dialled: its first message should not wait for that. Without it a cut is noticed late.
                let _ = stream.keep_alive(self.timeout);
                link.keeps_alive = true;
            }
            let Some(silent) = link.silent_for() else {
                link.silent_since_ns = None;
                continue;
            };
            // An idle stream has heard nothing for long: what counts is since when it waits for something.
            let heard_ns = now_ns.saturating_sub(silent.as_nanos() as u64);
            let since_ns = link.silent_since_ns.unwrap_or(now_ns).max(heard_ns);
            link.silent_since_ns = Some(since_ns);
            let mut next_ns = now_ns + self.silence_turn_ns;
            if now_ns - since_ns >= patience_ns {
                late.push((index, link.to));
            } else {
                next_ns = next_ns.min(since_ns + patience_ns);
            }
            due_ns = Some(due_ns.map_or(next_ns, |due_ns: u64| due_ns.min(next_ns)));
        }
        late.into_iter().for_each(|(index, to)| self.probe(index, to, now_ns));
        let probes_ns = self.probes.iter().map(|probe| probe.until_ns);
        self.silence_due_ns = probes_ns.chain(due_ns).min();
    }

    /// Asks whether the host of a silent stream lives.
    fn probe(&mut self, index: u32, to: SocketAddr, now_ns: u64) {
        if self.probes.iter().any(|probe| probe.index == index) {
            return;
        }
        let generation = self.links.generation(index);
        match Stream::dial(self.source(), to) {
            Ok(stream) => {
                let until_ns = now_ns + self.silence_turn_ns.clamp(PROBE_MIN_NS, PROBE_MAX_NS);
                self.probes.push(Probe { index, generation, stream, since_ns: now_ns, until_ns });
            }
            // Nothing can be said about the host; asked again in a turn.
            Err(error) if is_no_descriptor(&error) => {}
            Err(_) => self.lose_silent(index),
        }
    }

    /// What the probes that are due have found.
    fn end_probes(&mut self, now_ns: u64) {
        let due: Vec<Probe> = self.probes.extract_if(.., |probe| probe.until_ns <= now_ns).collect();
        for Probe { index, generation, stream, since_ns, .. } in due {
            // A refusal is no answer: without its listener the peer is gone, or a firewall refuses for it.
            let answered = matches!(stream.connected(), Ok(true));
            stream.close_hard();
            let Some(link) = self.links.get_mut(index as usize, generation) else { continue };
            let still_silent =
                link.silent_for().is_some_and(|silent| silent.as_nanos() >= u128::from(now_ns - since_ns));
            if answered {
                link.silent_since_ns = Some(now_ns);
            } else if still_silent {
                self.lose_silent(index);
            }
        }
    }

    fn lose_silent(&mut self, index: u32) {
        let why = format!("no answer for {} s", self.timeout.as_secs());
        self.lose(index, &io::Error::new(io::ErrorKind::TimedOut, why));
    }
}

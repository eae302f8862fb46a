//! Hosts that do not answer any more.
//!
//! An idle stream is watched by the kernel (keepalive). One with bytes on their way would be tried by it for a quarter
//! of an hour, unless it is told a shorter time (`TCP_USER_TIMEOUT`); but then it also gives up a peer that computes
//! and has no room, although that peer's kernel answers. So streams are asked here, from time to time while
//! something was written: bytes on their way are acknowledged by a host that lives, whatever its process does.
use super::Sockets;
use std::io;

/// Questions in the time that a host may be silent.
pub(super) const TURNS: u64 = 8;

impl Sockets {
    pub(super) fn tick_silence(&mut self, now_ns: u64) {
        if self.silence_due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return;
        }
        // A question comes up to a turn late at each end, and nobody is to wait longer than was said.
        let patience_ns = (TURNS - 2) * self.silence_turn_ns;
        let (mut lost, mut open) = (Vec::new(), false);
        for index in self.links.indices() {
            let Some(link) = self.links.at_mut(index) else { continue };
            let silent = link.stream.as_ref().and_then(|stream| stream.unanswered().ok().flatten());
            let Some(silent) = silent else {
                link.silent_since_ns = None;
                continue;
            };
            open = true;
            // An idle stream has heard nothing for long: what counts is since when it waits for something.
            let heard_ns = now_ns.saturating_sub(silent.as_nanos() as u64);
            let since_ns = link.silent_since_ns.unwrap_or(now_ns).max(heard_ns);
            link.silent_since_ns = Some(since_ns);
            if now_ns - since_ns >= patience_ns {
                lost.push(index);
            }
        }
        self.silence_due_ns = open.then_some(now_ns + self.silence_turn_ns);
        let why = format!("no answer for {} s", self.timeout.as_secs());
        let error = io::Error::new(io::ErrorKind::TimedOut, why);
        lost.into_iter().for_each(|index| self.lose(index, &error));
    }
}

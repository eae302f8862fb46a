//! The warden: a small process above the first agent of a host that does nothing but watch.
//!
//! Whatever loses its parent below becomes the warden's child. When the launcher dies, alone or together
//! with any agents, the warden is still there, says so, and kills what is left. On another host the warden is what
//! the bootstrap started, and its standard input is what it watches.
use crate::agent::{Knows, Seed, Uplink, agent_main};
use crate::job::{Group, Tree};
use crate::leftover::Leftovers;
use proto::ids::NodeId;
use proto::seal::Key;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use sys::poll::{Interest, Poll};
use sys::process::{self, DescriptorLimit, Ended, Pid, Subreaper, Target, Wait};
use sys::signal::{self, SIGKILL, SignalQueue};
use sys::socket::{self, Transfer};

/// What the launcher may write to the warden: kill everything now.
pub(crate) const KILL_ALL: u8 = b'K';
/// And: the root agent may be stopped, let it go on.
pub(crate) const WAKE: u8 = b'W';
/// And: I have heard of the root agent's end, and shall say so.
pub(crate) const HEARD: u8 = b'H';
/// How long the launcher may take over hearing it. If it is dying too, its link closes within that time.
const HEARING_PATIENCE: Duration = Duration::from_secs(1);
/// How long agents may take over their own clean-up once the launcher is gone.
const AGENTS_PATIENCE: Duration = Duration::from_millis(1500);
/// Between two looks at what is left.
const ROUND_MS: u32 = 5;

/// What a forked warden is given.
pub(crate) struct WardenSeed {
    pub(crate) tree: Rc<Tree>,
    pub(crate) group: Rc<Group>,
    /// What agents of other hosts prove themselves with, if there are any.
    pub(crate) key: Option<Key>,
    /// To the launcher.
    pub(crate) link: OwnedFd,
    /// The root agent's link to the launcher.
    pub(crate) root: OwnedFd,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) launcher: Pid,
    pub(crate) limit: DescriptorLimit,
}

/// How the root agent ended, as the warden tells the launcher: process, kind, number.
pub(crate) const REPORT_BYTES: usize = 9;

pub(crate) fn emit_report(pid: Pid, ended: Ended) -> [u8; REPORT_BYTES] {
    let (kind, number) = match ended {
        Ended::Exit(code) => (0, code),
        Ended::Signal(signal) => (1, signal),
    };
    let mut bytes = [0; REPORT_BYTES];
    bytes[..4].copy_from_slice(&pid.0.to_le_bytes());
    bytes[4] = kind;
    bytes[5..].copy_from_slice(&number.to_le_bytes());
    bytes
}

pub(crate) fn parse_report(bytes: &[u8]) -> Option<(Pid, Ended)> {
    let bytes: &[u8; REPORT_BYTES] = bytes.try_into().ok()?;
    let word = |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let ended = match bytes[4] {
        0 => Ended::Exit(word(5)),
        1 => Ended::Signal(word(5)),
        _ => return None,
    };
    Some((Pid(word(0)), ended))
}

/// Who is above a warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Above {
    /// The launcher, with its process.
    Launcher(Pid),
    /// Whoever started the agent of this host from another one.
    Starter,
}

pub(crate) struct Warden {
    poll: Poll,
    signals: SignalQueue,
    link: Option<OwnedFd>,
    root: Pid,
    root_end: Option<Ended>,
    above: Above,
    leftovers: Leftovers,
    /// When agents are not spared any more, once an end is under way.
    force_at: Option<Instant>,
    /// Until when the launcher may confirm that it knows of the root agent's bad end.
    unheard_until: Option<Instant>,
}

/// The life of the warden, in a process of its own. Signals are blocked already.
pub(crate) fn warden_main(seed: WardenSeed) -> i32 {
    match Warden::start(seed).and_then(Warden::run) {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("banyan: the warden failed: {error}");
            1
        }
    }
}

impl Warden {
    fn start(seed: WardenSeed) -> io::Result<Self> {
        let WardenSeed { tree, group, key, link, root, stdin, launcher, limit } = seed;
        let mut keep = vec![link.as_raw_fd(), root.as_raw_fd()];
        keep.extend(stdin.as_ref().map(|fd| fd.as_raw_fd()));
        socket::close_all_but(&keep);
        process::set_name("banyan-warden");
        process::set_subreaper(Subreaper::On)?;
        // Away from the terminal's foreground: ctrl-C, ctrl-Z and its closing are for the launcher alone.
        process::lead_group()?;
        socket::set_nonblocking(link.as_fd())?;
        socket::detach_stdio()?;
        let warden = Pid::own();
        let root = Seed {
            knows: Knows::Everything { tree, group },
            node: NodeId(0),
            uplink: Uplink::Plain(root),
            stdin,
            key,
            warden,
            warden_life: None,
            launcher,
            limit,
        };
        let root = process::fork(move || agent_main(root))?;
        Warden::new(Some(link), Above::Launcher(launcher), root)
    }

    /// Watches over an agent that was just forked. Nothing on the link, if there is one, is waited for.
    pub(crate) fn new(link: Option<OwnedFd>, above: Above, root: Pid) -> io::Result<Self> {
        let poll = Poll::new()?;
        let signals = SignalQueue::new(&[signal::SIGCHLD])?;
        poll.add(signals.as_fd(), 0, Interest::Read)?;
        if let Some(link) = &link {
            poll.add(link.as_fd(), 1, Interest::Read)?;
        }
        Ok(Warden {
            poll,
            signals,
            link,
            root,
            root_end: None,
            above,
            leftovers: Leftovers::from_now(),
            force_at: None,
            unheard_until: None,
        })
    }

    /// Until nothing is left. Returns how the agent ended.
    pub(crate) fn run(mut self) -> io::Result<Option<Ended>> {
        let mut ready = Vec::new();
        loop {
            if self.reap()? == Wait::NoChildren {
                if !self.must_be_heard() {
                    self.tidy();
                    return Ok(self.root_end);
                }
            } else if self.force_at.is_some() {
                self.kill_round()?;
            }
            ready.clear();
            self.poll.wait(self.force_at.map(|_| ROUND_MS), &mut ready)?;
            while self.signals.next_signal().is_some() {}
            if ready.iter().any(|event| event.token == 1) {
                self.hear_launcher()?;
            }
        }
    }

    fn reap(&mut self) -> io::Result<Wait> {
        loop {
            match process::wait_any()? {
                Wait::Ended(pid, ended) if pid == self.root => {
                    self.root_end = Some(ended);
                    self.tell_above(pid, ended);
                    if ended != Ended::Exit(0) {
                        self.unheard_until = Some(Instant::now() + HEARING_PATIENCE);
                    }
                    self.force_at = Some(Instant::now()); // nobody is left to do it politely
                }
                Wait::Ended(..) => {}
                other => return Ok(other),
            }
        }
    }

    /// Nothing lives any more. A living launcher sees to the rest on its own host.
    fn tidy(&self) {
        let is_alone = self.link.is_none() || self.above == Above::Starter;
        if is_alone && self.root_end != Some(Ended::Exit(0)) {
            self.leftovers.remove();
        }
    }

    /// When launcher and root agent were killed together, this process is the only one left to say so. The
    /// launcher's death may show later than the agent's, so a bad end is only left to a launcher that answers.
    fn must_be_heard(&self) -> bool {
        let can_hear = self.link.is_some() && self.above != Above::Starter;
        can_hear && self.unheard_until.is_some_and(|until| Instant::now() < until)
    }

    fn tell_above(&self, pid: Pid, ended: Ended) {
        match (self.above, &self.link) {
            (Above::Launcher(_), Some(link)) => {
                let _ = socket::write(link.as_fd(), &emit_report(pid, ended));
            }
            (Above::Launcher(_), None) => {}
            (Above::Starter, _) => {
                if let Ended::Signal(number) = ended {
                    let text = signal::signal_text(number);
                    eprintln!("banyan: the agent (pid {pid}) was killed by signal {number} ({text})");
                }
            }
        }
    }

    fn hear_launcher(&mut self) -> io::Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        let mut bytes = [0; 16];
        match socket::read(link.as_fd(), &mut bytes)? {
            Transfer::Bytes(n) => {
                if bytes[..n].contains(&KILL_ALL) {
                    self.force_at = Some(Instant::now());
                }
                if bytes[..n].contains(&WAKE) {
                    self.wake_root();
                }
                if bytes[..n].contains(&HEARD) {
                    self.unheard_until = None;
                }
            }
            Transfer::WouldBlock => {}
            Transfer::Closed => {
                if let Above::Launcher(launcher) = self.above {
                    eprintln!("banyan: the launcher (pid {launcher}) died; ending the job");
                }
                let _ = self.poll.remove(link.as_fd());
                self.link = None;
                self.force_at = Some(Instant::now() + AGENTS_PATIENCE);
                self.wake_root();
            }
        }
        Ok(())
    }

    /// Somebody may have stopped it.
    fn wake_root(&self) {
        if self.root_end.is_none() {
            let _ = process::kill(Target::Process(self.root), signal::SIGCONT);
        }
    }

    /// Kills what has come to the warden; the agents too when their time is over.
    fn kill_round(&self) -> io::Result<()> {
        let patient = self.root_end.is_none() && self.force_at.is_some_and(|at| Instant::now() < at);
        let spared: &[Pid] = if patient { &[self.root] } else { &[] };
        for pid in process::descendants(Pid::own(), spared)? {
            let _ = process::kill(Target::Process(pid), SIGKILL);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_parsed_as_it_was_emitted() {
        for ended in [Ended::Exit(3), Ended::Signal(9)] {
            assert_eq!(parse_report(&emit_report(Pid(77), ended)), Some((Pid(77), ended)));
        }
        assert_eq!(parse_report(b"short"), None);
        assert_eq!(parse_report(&[9; REPORT_BYTES]), None);
    }
}

//! How an agent begins: what it is given, and the agents of the same host that it forks.
use super::alone::Lookout;
use super::asks::Asks;
use super::below::{Outpost, fork_below};
use super::output::OutputQueue;
use super::uplink::{Uplink, await_tree};
use super::{AGENT_NAME, Agent, Token};
use crate::bootstrap::Bootstrap;
use crate::describe::Parts;
use crate::heartbeat::Heartbeat;
use crate::job::{Group, Tree};
use crate::leftover::Leftovers;
use crate::spec::StdinTo;
use proto::ids::NodeId;
use proto::seal::Key;
use proto::tree::Frame;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;
use sys::poll::{Interest, Poll};
use sys::process::{self, Pid};
use sys::signal::{self, SignalQueue};
use sys::socket;

/// What a forked agent is given.
pub(crate) struct Seed {
    pub(crate) knows: Knows,
    pub(crate) node: NodeId,
    pub(crate) uplink: Uplink,
    /// What the rank that reads standard input reads, if that rank is here or below.
    pub(crate) stdin: Option<OwnedFd>,
    /// What agents of other hosts prove themselves with.
    pub(crate) key: Option<Key>,
    /// Who tells the world when the launcher dies. An agent whose parent it is not any more does so itself.
    pub(crate) warden: Pid,
    /// What closes when the warden of another host dies. On the launcher's host the launcher sees to that.
    pub(crate) warden_life: Option<OwnedFd>,
    pub(crate) launcher: Pid,
    pub(crate) limit: process::DescriptorLimit,
}

/// What an agent knows when it begins.
pub(crate) enum Knows {
    /// The tree, and the job to begin with.
    Everything { tree: Rc<Tree>, group: Rc<Group> },
    /// It is told over its link.
    Nothing,
}

impl Agent {
    pub(super) fn start(seed: Seed) -> io::Result<Self> {
        let Seed { knows, node, uplink, mut stdin, key, warden, warden_life, launcher, limit } = seed;
        let leftovers = Leftovers::from_now();
        process::set_name(AGENT_NAME);
        process::set_subreaper(process::Subreaper::On)?;
        let mut keep = vec![uplink.as_raw_fd()];
        keep.extend(stdin.iter().chain(&warden_life).map(|fd| fd.as_raw_fd()));
        socket::close_all_but(&keep);
        let poll = Poll::new()?;
        let signals = SignalQueue::new(&[signal::SIGCHLD, signal::SIGTERM, signal::SIGHUP, signal::SIGINT])?;
        poll.add(signals.as_fd(), Token::Signals.pack(), Interest::Read)?;
        if let Some(life) = &warden_life {
            poll.add(life.as_fd(), Token::Warden.pack(), Interest::Read)?;
        }
        let address = uplink.address();
        let mut uplink = uplink.open(&poll)?;
        uplink.send(&Frame::Hello { node, pid: Pid::own().0 });
        let (tree, group) = match knows {
            Knows::Everything { tree, group } => (tree, Some(group)),
            Knows::Nothing => (Rc::new(await_tree(&mut uplink, &poll)?), None),
        };
        let mut agent = Agent {
            heart: Heartbeat::new(tree.heartbeat, Instant::now()),
            asking: None,
            untidy: false,
            lookout: Lookout::new(Instant::now()),
            tree,
            node,
            cores: sys::limit::allowed_cores()?,
            address: None,
            poll,
            signals,
            uplink: Some(uplink),
            below: Vec::new(),
            outpost: key.map(Outpost::new).transpose()?,
            jobs: Vec::new(),
            seats: 0,
            asks: Asks::default(),
            parts: Parts::default(),
            output: OutputQueue::default(),
            ending: None,
            warden,
            warden_life,
            launcher,
            limit,
            leftovers,
            has_children: true,
        };
        if let Some(group) = group.as_ref().filter(|_| agent.tree.bootstrap == Bootstrap::Fork) {
            agent.fork_all_below(group, &mut stdin)?;
        }
        agent.address = address.and_then(|address| agent.usable(address));
        agent.start_others()?;
        if let Some(group) = group {
            agent.begin(group, stdin)?;
        }
        Ok(agent)
    }

    /// The agents below on emulated nodes. One of them takes standard input, or all get it.
    fn fork_all_below(&mut self, group: &Rc<Group>, stdin: &mut Option<OwnedFd>) -> io::Result<()> {
        let tree = self.tree.clone();
        let reader = group.stdin_node().and_then(|reader| tree.shape.next_hop(self.node, reader));
        for (index, child) in tree.shape.children(self.node).enumerate() {
            let stdin = match &stdin {
                Some(file) if group.stdin == StdinTo::All => Some(socket::duplicate(file.as_fd())?),
                Some(_) if reader == Some(child) => stdin.take(),
                _ => None,
            };
            let knows = Knows::Everything { tree: tree.clone(), group: group.clone() };
            let Agent { warden, launcher, limit, .. } = *self;
            let seed = |uplink| Seed {
                knows,
                node: child,
                uplink,
                stdin,
                key: None,
                warden,
                warden_life: None,
                launcher,
                limit,
            };
            self.below.push(fork_below(child, index as u32, &self.poll, seed)?);
        }
        Ok(())
    }
}

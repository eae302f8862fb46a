//! The PMGR service (`--pmgr`): MVAPICH's processes connect to the launcher and exchange addresses through it. What
//! they say is `proto::pmgr`; here are the listening socket, the connections, and what their news mean for the job.
//!
//! The protocol knows no secrets. So the socket listens only on loopback where all ranks are on this host, and
//! connections of other users are refused there. On several hosts it listens on the address that other hosts use, and
//! whoever reaches that may take the place of a rank which has not come yet.
mod connection;
mod peer;

use super::outcome::Step;
use super::{Cause, Launcher};
use crate::job::{Group, Spread, random_words};
use crate::program::variable;
use crate::spec::Talk;
use connection::{Connection, Flow};
use proto::ids::Rank;
use proto::lane::JobId;
use proto::pmgr::{ConnectionId, Event, Server, variables};
use proto::tree::{Member, PmiState};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use sys::poll::{Interest, Poll, Ready};

/// Tokens of the launcher's poll set from here on are the service's: the listening socket, then connections.
pub(super) const TOKENS: u64 = 1 << 32;
/// Connections taken in one turn.
const ACCEPTS_PER_TURN: usize = 64;
/// The longest list of hosts that is told in the environment. Only old clients want it.
const PROCESSES_BYTES_MAX: usize = 64 << 10;

/// The service of the first job.
pub(super) struct Pmgr {
    listener: TcpListener,
    address: Ipv4Addr,
    server: Server,
    connections: BTreeMap<ConnectionId, Connection>,
    ranks: Vec<Standing>,
    /// Connections that were nobody's.
    strangers: u64,
}

/// How far a rank has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Has not come.
    Absent,
    /// Takes part.
    Here(ConnectionId),
    /// Has closed.
    Done,
}

/// What the launcher has to hear.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A rank takes part, and so waits for all others.
    Joined(Rank),
    /// A rank gives up.
    Aborted(Rank, i32, String),
    /// A rank broke the protocol.
    Nonsense(Rank, String),
    /// A connection was nobody's.
    Stranger(String),
}

impl Pmgr {
    /// Listens, and tells the ranks of the job where.
    pub(super) fn open(group: &mut Group, spread: Spread) -> io::Result<Self> {
        let address = match spread {
            Spread::OneHost => Ipv4Addr::LOCALHOST,
            Spread::ManyHosts => address_for_others()?,
        };
        let listener = TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let ranks = group.ranks();
        let id = (random_words::<1>()?[0] as u32 >> 1).max(1);
        for program in &mut group.programs {
            let mut tell = |name: &str, value: String| {
                program.env.push(variable(OsStr::new(name), OsStr::new(&value)));
            };
            tell(variables::HOST, address.to_string());
            tell(variables::PORT, port.to_string());
            tell(variables::SIZE, ranks.to_string());
            tell(variables::ID, id.to_string());
            let hosts = vec![address.to_string(); ranks as usize].join(":");
            if hosts.len() <= PROCESSES_BYTES_MAX {
                tell(variables::PROCESSES, hosts);
            }
            let trees = [variables::USE_TREES.as_bytes(), b"="].concat();
            if !program.env.iter().any(|variable| variable.starts_with(&trees)) {
                program.env.push([&trees, &b"0"[..]].concat());
            }
        }
        Ok(Pmgr {
            listener,
            address,
            server: Server::new(ranks),
            connections: BTreeMap::new(),
            ranks: vec![Standing::Absent; ranks as usize],
            strangers: 0,
        })
    }

    pub(super) fn register(&self, poll: &Poll) -> io::Result<()> {
        poll.add(self.listener.as_fd(), TOKENS, Interest::Read)
    }

    /// Connections that were nobody's.
    pub(super) fn strangers(&self) -> u64 {
        self.strangers
    }

    /// How far a rank's use of the protocol went; `None` if it never came.
    pub(super) fn state_of(&self, rank: Rank) -> Option<PmiState> {
        match self.ranks.get(rank.index())? {
            Standing::Absent => None,
            Standing::Here(_) => Some(PmiState::Active),
            Standing::Done => Some(PmiState::Finalized),
        }
    }

    /// Something is ready.
    pub(super) fn handle(&mut self, event: Ready, poll: &Poll) -> Vec<News> {
        let mut news = Vec::new();
        match event.token.checked_sub(TOKENS + 1) {
            None => self.accept(poll, &mut news),
            Some(id) => self.read(ConnectionId(id), poll, &mut news),
        }
        self.flush(poll);
        news
    }

    /// A rank has ended: what it said last, over its own connection or over one that has not said whose it is.
    pub(super) fn hear_last(&mut self, rank: Rank, poll: &Poll) -> Vec<News> {
        let mut news = Vec::new();
        self.accept(poll, &mut news);
        let known: Vec<_> = self.ranks.iter().filter_map(|standing| standing.connection()).collect();
        let own = self.ranks.get(rank.index()).and_then(|standing| standing.connection());
        let nameless = self.connections.keys().filter(|id| !known.contains(id));
        let ids: Vec<_> = nameless.copied().chain(own).collect();
        ids.into_iter().for_each(|id| self.read(id, poll, &mut news));
        self.flush(poll);
        news
    }

    fn accept(&mut self, poll: &Poll, news: &mut Vec<News>) {
        for _ in 0..ACCEPTS_PER_TURN {
            // Descriptors may run out for a while; whoever waits is taken later.
            let Ok((stream, from)) = self.listener.accept() else { return };
            let stranger = |why: String| News::Stranger(format!("{from}: {why}"));
            if self.address.is_loopback() && !peer::is_own(from, &self.listener) {
                self.strangers += 1;
                news.push(stranger("a connection of another user".into()));
                continue;
            }
            let Some(id) = self.connect(poll, news) else {
                self.strangers += 1;
                news.push(stranger("more connections than ranks have".into()));
                continue;
            };
            match Connection::new(stream, TOKENS + 1 + id.0, poll) {
                Ok(connection) => drop(self.connections.insert(id, connection)),
                Err(_) => self.server.ended(id),
            }
            self.read(id, poll, news); // most have said who they are
        }
    }

    /// Makes room for a connection, if there is none, at the cost of one that says nothing.
    fn connect(&mut self, poll: &Poll, news: &mut Vec<News>) -> Option<ConnectionId> {
        if let Some(id) = self.server.connect() {
            return Some(id);
        }
        let silent = self.server.dismiss()?;
        self.close(silent, poll);
        self.turn_away(silent, "it does not say whose it is", news);
        self.server.connect()
    }

    fn read(&mut self, id: ConnectionId, poll: &Poll, news: &mut Vec<News>) {
        while let Some(connection) = self.connections.get_mut(&id) {
            if !self.server.wants(id) {
                connection.pause(poll);
                break;
            }
            match connection.read() {
                Flow::Bytes(bytes) => self.server.push(id, bytes),
                Flow::Nothing => break,
                Flow::Ended => {
                    self.server.ended(id);
                    self.close(id, poll);
                }
            }
            self.take_events(id, poll, news);
        }
        self.take_events(id, poll, news);
    }

    /// What the server decided when it heard of `source`.
    fn take_events(&mut self, source: ConnectionId, poll: &Poll, news: &mut Vec<News>) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Send { to, bytes } => {
                    if let Some(connection) = self.connections.get_mut(&to) {
                        connection.send(bytes);
                    }
                }
                Event::Close(id) => {
                    self.set_done(id);
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.close_when_sent();
                    }
                }
                Event::Joined { rank } => {
                    self.ranks[rank as usize] = Standing::Here(source);
                    news.push(News::Joined(Rank(rank)));
                }
                Event::Abort { code, rank: Some(rank), text } => {
                    news.push(News::Aborted(Rank(rank), code, text));
                }
                Event::Abort { rank: None, .. } => self.turn_away(source, "no rank of this job", news),
                Event::Refused(refusal) => {
                    self.close(refusal.connection, poll);
                    match refusal.rank {
                        Some(rank) => news.push(News::Nonsense(Rank(rank), refusal.why)),
                        None => self.turn_away(refusal.connection, &refusal.why, news),
                    }
                }
                // Its process ends, or the others hear of it when they have waited for it too long.
                Event::Lost { .. } | Event::Done => {}
            }
        }
    }

    fn turn_away(&mut self, id: ConnectionId, why: &str, news: &mut Vec<News>) {
        self.strangers += 1;
        news.push(News::Stranger(format!("connection {}: {why}", id.0)));
    }

    fn set_done(&mut self, id: ConnectionId) {
        if let Some(standing) = self.ranks.iter_mut().find(|standing| standing.connection() == Some(id)) {
            *standing = Standing::Done;
        }
    }

    fn flush(&mut self, poll: &Poll) {
        let server = &self.server;
        let ended: Vec<_> = self
            .connections
            .iter_mut()
            .filter_map(|(id, connection)| {
                (connection.flush(server.wants(*id), poll) == Flow::Ended).then_some(*id)
            })
            .collect();
        for id in ended {
            self.server.ended(id);
            self.close(id, poll);
        }
    }

    /// Serves nobody any more.
    pub(super) fn end(mut self, poll: &Poll) {
        let _ = poll.remove(self.listener.as_fd());
        for (_, connection) in std::mem::take(&mut self.connections) {
            connection.close(poll);
        }
    }

    fn close(&mut self, id: ConnectionId, poll: &Poll) {
        if let Some(connection) = self.connections.remove(&id) {
            connection.close(poll);
        }
    }
}

impl Standing {
    fn connection(self) -> Option<ConnectionId> {
        match self {
            Standing::Here(id) => Some(id),
            _ => None,
        }
    }
}

/// The first address that means something to other hosts. Clients want dotted decimals.
fn address_for_others() -> io::Result<Ipv4Addr> {
    let found = sys::net::addresses()?.into_iter().find_map(|address| match address {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(_) => None,
    });
    found.ok_or_else(|| io::Error::other("no IPv4 address under which ranks on other hosts could use PMGR"))
}

impl Launcher<'_> {
    pub(super) fn with_pmgr(mut self, pmgr: Option<Pmgr>) -> io::Result<Self> {
        if let Some(pmgr) = &pmgr {
            pmgr.register(&self.poll)?;
        }
        self.pmgr = pmgr;
        Ok(self)
    }

    pub(super) fn on_pmgr(&mut self, event: Ready) {
        let Some(pmgr) = &mut self.pmgr else { return };
        let news = pmgr.handle(event, &self.poll);
        self.on_news(news);
    }

    /// How far the use of PMI or PMGR of a rank went that has ended.
    pub(super) fn last_state(&mut self, who: Member, pmi: PmiState) -> PmiState {
        let Some(pmgr) = self.pmgr.as_mut().filter(|_| who.job == JobId(0)) else { return pmi };
        let news = pmgr.hear_last(who.rank, &self.poll);
        let state = pmgr.state_of(who.rank);
        self.on_news(news);
        state.unwrap_or(pmi)
    }

    fn on_news(&mut self, news: Vec<News>) {
        for news in news {
            let who = |launcher: &Self, rank| launcher.who(Member { job: JobId(0), rank }, 0);
            let step = match news {
                News::Joined(rank) => self.outcome.fence_begun(Member { job: JobId(0), rank }),
                News::Aborted(rank, code, text) => match who(self, rank) {
                    Some(who) => self.outcome.fail(Cause::Aborted(who, code, text)),
                    None => Step::Wait,
                },
                News::Nonsense(rank, why) => match who(self, rank) {
                    Some(who) => self.outcome.fail(Cause::BadPmi(who, why)),
                    None => Step::Wait,
                },
                News::Stranger(why) => {
                    if self.talk == Talk::Verbose {
                        let count = self.pmgr.as_ref().map_or(0, Pmgr::strangers);
                        self.err.say(&format!("PMGR: refused {why} ({count} so far)"));
                    }
                    Step::Wait
                }
            };
            self.take(step);
        }
    }
}

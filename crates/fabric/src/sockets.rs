//! The sockets provider: processes of other hosts. A queue pair is a TCP stream, a datagram is one of UDP.
//!
//! A process has one listener and one socket for datagrams, and a stream per connected peer: no thread, and for a peer
//! it does not talk to no descriptor and no memory. Before anything of a stream is parsed, both ends have proven
//! that they hold the job's key; datagrams carry a tag.
//!
//! ```text
//! who asks                                          who answers
//!   init     a number for the dial
//!   control  dial: HELLO, request, early messages ->  WELCOME; the request goes up as a datagram
//!                                                   init, rtr: takes the stream with that number
//!            the reply comes as a datagram  <-  control: the reply, on the stream
//!   rtr      data is read from here on
//! ```
//! [`dial`] and [`crossed`] say what happens when both ask. Messages are frames (`proto::stream`). They go from the program's buffer
//! into the kernel and from there into the program's buffer, where that is known in time. Reads, writes and atomics
//! are requests that the target's progress serves.
//!
//! What a peer has sent before it closed is always delivered; a stream that breaks ends all work posted on it, once.
//! There is nothing here about *when* to connect, and no waiting: [`Sockets::tick`] looks after dials that take long.
mod clock;
mod crossed;
mod dial;
mod door;
mod link;
mod memory;
mod out;
mod receive;
mod request;
mod send;
mod serve;
mod silence;
#[cfg(test)]
mod tests;

use crate::card::{Card, SocketsSection};
use crate::provider::{
    BreakReason, Caps, ConnectError, ControlError, CreateError, Provider, ReachError, Role, Sent, WorkError,
};
use crate::qp::{MrKey, ProviderKind, Qp, WorkId, WorkIds};
use crate::secrets::Secrets;
use crate::state::{QpState, check};
use crate::table::Table;
use clock::Clock;
use dial::Dial;
use door::Door;
use link::{Dest, Link, Then};
use memory::Memory;
use out::{Lender, Spare};
use proto::stream::{Frame, MESSAGE_MAX};
use proto::wireup::Params;
use receive::Inbox;
use send::Leaving;
use silence::Probe;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use sys::UserBuf;
use sys::node::QpClaim;
use sys::poll::{Interest, Poll};
use sys::tcp::Listener;
use sys::udp::Datagrams;

const KIND: ProviderKind = ProviderKind::Sockets;
/// The longest silence: for ever, and still no sum of times that is too large.
const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 86400);
/// Queue pairs of a process; descriptors end before.
const LINKS_MAX: usize = 1 << 20;

/// How sockets are opened.
#[derive(Clone)]
pub struct Config {
    /// The address to listen at, which peers are told.
    pub addr: IpAddr,
    /// The name of its interface, for messages.
    pub interface: String,
    /// The ports that may be used, the first and the last; any without.
    pub ports: Option<(u16, u16)>,
    /// What only the processes of the job know. Without it nobody is let in, and nobody dialled, before
    /// [`Sockets::set_key`].
    pub key: Option<[u8; 32]>,
    /// How long the network may be silent.
    pub timeout: Duration,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { addr, interface, ports, key: _, timeout } = self;
        write!(f, "Config({addr} ({interface}), ports {ports:?}, timeout {timeout:?})")
    }
}

/// Why sockets cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No set of descriptors to wait for.
    #[error("cannot watch descriptors: {0}")]
    Poll(io::Error),
    /// Nothing to bind to.
    #[error("cannot listen at {addr}{}: {error}", PortsText(*.ports))]
    Bind {
        /// The address.
        addr: IpAddr,
        /// The ports that were allowed.
        ports: Option<(u16, u16)>,
        /// What the system says.
        error: io::Error,
    },
    /// The kernel gives no random numbers.
    #[error("no random numbers: {0}")]
    Chance(io::Error),
}

struct PortsText(Option<(u16, u16)>);

impl fmt::Display for PortsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |(first, last)| write!(f, ", ports {first} to {last}"))
    }
}

/// An open sockets provider. See the module's head.
#[derive(Debug)]
pub struct Sockets {
    secrets: Secrets,
    section: SocketsSection,
    /// This side, as messages name it.
    from: String,
    /// The interface of link-local addresses.
    scope: u32,
    timeout: Duration,
    clock: Clock,
    /// Descriptors that the process may have; until when there are said to be none left.
    descriptors: u64,
    starved_until_ns: u64,
    poll: Arc<Poll>,
    udp: Datagrams,
    door: Door,
    links: Table<Link>,
    /// Queue pairs with a dial that is not settled.
    dialling: Vec<u32>,
    /// Streams with something to write, and with something that the kernel did not take.
    dirty: Vec<u32>,
    blocked: Vec<u32>,
    leaving: Table<Leaving>,
    spare: Spare,
    memory: Memory,
    inbox: Inbox,
    /// Events to come, in order.
    notes: VecDeque<Note>,
    works: WorkIds,
    frugal: bool,
    strangers: u64,
    /// When streams are asked whether what they wrote has arrived; none if nothing was written since.
    silence_due_ns: Option<u64>,
    silence_turn_ns: u64,
    probes: Vec<Probe>,
    /// The caller may have slept since the poll set was asked.
    slept: Cell<bool>,
}

/// An event to come.
#[derive(Debug)]
enum Note {
    Done(WorkId, Result<u64, WorkError>),
    Control(Vec<u8>),
    Kept(Qp, [u64; 2], Vec<u8>),
    Broken(Qp, BreakReason),
}

/// What a descriptor is registered as in the poll set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Listener,
    Datagrams,
    Guest { index: u32, generation: u32 },
    Leaving { index: u32, generation: u32 },
    Link { index: u32, generation: u32 },
    Losing { index: u32, generation: u32 },
}

impl Token {
    const INDEX_BITS: u32 = 24;
    const KIND_SHIFT: u32 = 56;

    /// Below 2^63, so that the caller has numbers of its own.
    fn pack(self) -> u64 {
        let both = |kind: u64, index: u32, generation: u32| {
            kind << Self::KIND_SHIFT | u64::from(generation) << Self::INDEX_BITS | u64::from(index)
        };
        match self {
            Token::Listener => both(1, 0, 0),
            Token::Datagrams => both(2, 0, 0),
            Token::Guest { index, generation } => both(3, index, generation),
            Token::Leaving { index, generation } => both(4, index, generation),
            Token::Link { index, generation } => both(5, index, generation),
            Token::Losing { index, generation } => both(6, index, generation),
        }
    }

    /// `None`: not one of ours.
    fn unpack(token: u64) -> Option<Self> {
        let index = (token & ((1 << Self::INDEX_BITS) - 1)) as u32;
        let generation = (token >> Self::INDEX_BITS) as u32;
        match token >> Self::KIND_SHIFT {
            1 => Some(Token::Listener),
            2 => Some(Token::Datagrams),
            3 => Some(Token::Guest { index, generation }),
            4 => Some(Token::Leaving { index, generation }),
            5 => Some(Token::Link { index, generation }),
            6 => Some(Token::Losing { index, generation }),
            _ => None,
        }
    }
}

impl Sockets {
    /// Opens a listener and a socket for datagrams, and watches both in `poll`.
    pub fn open(config: &Config, poll: Arc<Poll>) -> Result<Self, OpenError> {
        let (addr, ports) = (config.addr, config.ports);
        let bind = |error| OpenError::Bind { addr, ports, error };
        let scope = scope_of(addr).map_err(bind)?;
        let at = with_scope(addr, 0, scope);
        let nonce = u64::from_le_bytes(sys::random::bytes().map_err(OpenError::Chance)?);
        let (listener, udp) = match ports {
            None => (Listener::bind(at, door::BACKLOG).map_err(bind)?, Datagrams::bind(at).map_err(bind)?),
            Some((first, last)) => {
                // Processes of a host begin at different places, or all would try the same ports in turn.
                let (ports, offset) = (first..=last, nonce as u32);
                let listener = Listener::bind_within(at, &ports, offset, door::BACKLOG).map_err(bind)?;
                (listener, Datagrams::bind_within(at, &ports, offset).map_err(bind)?)
            }
        };
        // Without it streams work as well, if slowly, or notice a cut late.
        let _ = listener.prepare(config.timeout.min(TIMEOUT_MAX));
        let tcp = listener.local_addr().map_err(bind)?.port();
        let udp_port = udp.local_addr().map_err(bind)?.port();
        let mut sockets = Sockets {
            secrets: Secrets::default(),
            section: SocketsSection { addr, tcp, udp: udp_port, nonce },
            from: format!("{addr} ({})", config.interface),
            scope,
            timeout: config.timeout.min(TIMEOUT_MAX),
            clock: Clock::new(),
            // A limit that cannot be raised is a limit that errors will name.
            descriptors: sys::process::raise_descriptors().map_or(0, |(_, now)| now),
            starved_until_ns: 0,
            poll,
            udp,
            door: Door::new(listener),
            links: Table::new(),
            dialling: Vec::new(),
            dirty: Vec::new(),
            blocked: Vec::new(),
            leaving: Table::new(),
            spare: Spare::default(),
            memory: Memory::default(),
            inbox: Inbox::default(),
            notes: VecDeque::new(),
            works: WorkIds::new(KIND),
            frugal: false,
            strangers: 0,
            silence_due_ns: None,
            silence_turn_ns: silence::turn_ns(config.timeout.min(TIMEOUT_MAX)),
            probes: Vec::new(),
            slept: Cell::new(false),
        };
        if let Some(key) = config.key {
            sockets.watch(key).map_err(OpenError::Poll)?;
        }
        Ok(sockets)
    }

    /// The key of the job, where it was not known from the beginning. Until then whoever dials waits in the kernel.
    pub fn set_key(&mut self, key: [u8; 32]) {
        if self.secrets.is_none() && self.watch(key).is_err() {
            // Without memory in the kernel; tried again by and by, as without descriptors.
            self.stop_accepting();
        }
    }

    /// The key is shared with another job, of which the process with this nonce is one.
    pub fn share_key(&mut self, key: [u8; 32], nonce: Option<u64>) {
        self.secrets.share(key, nonce);
    }

    /// The job that the key was shared with has disconnected.
    pub fn forget_key(&mut self, key: [u8; 32]) {
        self.secrets.forget(key);
    }

    fn watch(&mut self, key: [u8; 32]) -> io::Result<()> {
        self.secrets.set_own(key);
        self.poll.add(self.udp.as_fd(), Token::Datagrams.pack(), Interest::Read)?;
        self.door.watch(&self.poll)
    }

    /// Where this process listens, for its card.
    pub fn section(&self) -> SocketsSection {
        self.section
    }

    /// Does the peer ask for rendezvous instead of eager messages?
    #[inline]
    pub fn is_peer_frugal(&self, qp: Qp) -> bool {
        self.links.get(qp.index(), qp.generation()).is_some_and(|link| link.peer_frugal)
    }

    /// Has the peer closed its end of a queue pair that broke, after all that it had sent?
    pub fn has_ended(&self, qp: Qp) -> bool {
        self.links.get(qp.index(), qp.generation()).is_some_and(|link| link.ended)
    }

    /// Is there something that [`Sockets::poll`] would find without the poll set? For whoever is about to sleep on the
    /// set: the next poll asks it first.
    pub fn any_ready(&self) -> bool {
        self.slept.set(true);
        !self.notes.is_empty() || !self.dirty.is_empty() || self.inbox.has_some()
    }

    /// Is something posted that was not offered to the kernel yet? The next poll does.
    #[inline]
    pub fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// When [`Sockets::tick`] is due, on the caller's clock.
    pub fn next_due_ns(&self) -> Option<u64> {
        let dues = [self.dials_due_ns(), self.door_due_ns(), self.leaving_due_ns(), self.silence_due_ns];
        dues.into_iter().flatten().min().map(|due_ns| self.clock.for_caller(due_ns))
    }

    /// Looks after dials that take too long, strangers that do not speak, and hosts that do not answer.
    pub fn tick(&mut self, now_ns: u64) {
        self.clock.tick(now_ns);
        let now_ns = self.clock.now_ns();
        self.tick_dials(now_ns);
        self.tick_door(now_ns);
        self.tick_leaving(now_ns);
        self.tick_silence(now_ns);
    }

    /// Datagrams and connections of strangers that were refused.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    fn qp(&self, index: u32) -> Qp {
        Qp::new(KIND, index as usize, self.links.generation(index))
    }

    fn timeout_ns(&self) -> u64 {
        self.timeout.as_nanos() as u64
    }

    fn link_token(&self, index: u32) -> u64 {
        Token::Link { index, generation: self.links.generation(index) }.pack()
    }

    fn link(&mut self, qp: Qp) -> Result<&mut Link, ConnectError> {
        self.links.get_mut(qp.index(), qp.generation()).ok_or(ConnectError::Stale)
    }

    /// Moves a queue pair along the table of states.
    fn step(&mut self, qp: Qp, to: QpState) -> Result<(), ConnectError> {
        let link = self.link(qp)?;
        check(qp.index() as u32, link.state, to)?;
        link.state = to;
        Ok(())
    }

    /// Gives up a stream, without a word.
    fn drop_stream(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        link.blocked = false;
        if let Some(stream) = link.stream.take() {
            let _ = self.poll.remove(stream.as_fd());
            stream.close_hard();
            self.accept_again();
        }
    }

    /// A queue pair breaks: ERROR, and its work ends.
    fn break_link(&mut self, index: u32, why: BreakReason) {
        let qp = self.qp(index);
        self.drop_stream(index);
        let Some(link) = self.links.at_mut(index) else { return };
        link.state = QpState::Error;
        self.notes.push_back(Note::Broken(qp, why));
        self.end_work(index);
    }

    /// Everything that was posted on a queue pair ends.
    fn end_work(&mut self, index: u32) {
        self.dialling.retain(|other| *other != index);
        self.inbox.forget(index);
        self.drop_losing(index);
        let Some(link) = self.links.at_mut(index) else { return };
        let mut ended = Vec::new();
        for lender in link.out.clear() {
            match lender {
                Lender::Work(work) => ended.push(work),
                Lender::Request => {}
                Lender::Memory(number) => self.memory.release(number),
            }
        }
        match link.body.take().map(|body| body.then) {
            Some(Then::Done(work)) => ended.push(work),
            Some(Then::Written { number, .. }) => self.memory.release(number),
            _ => {}
        }
        ended.extend(std::mem::take(&mut link.asked).iter().map(|asked| asked.work));
        self.notes.extend(ended.into_iter().map(|work| Note::Done(work, Err(WorkError::Broken))));
        (link.dial, link.partial) = (None, Vec::new());
    }

    /// The address of a peer's port.
    fn at(&self, section: &SocketsSection, port: u16) -> SocketAddr {
        with_scope(section.addr, port, self.scope)
    }

    /// Registered memory goes away while streams use it: what is still to be written of it is copied, and what comes
    /// for it is dropped.
    fn withdraw(&mut self, number: u32) {
        for index in self.links.indices() {
            let Some(link) = self.links.at_mut(index) else { continue };
            let mut users = link.out.copy_memory(number);
            if let Some(body) = &mut link.body
                && let Then::Written { id, number: written } = body.then
                && written == number
            {
                (body.to, body.then) = (Dest::Unknown, Then::Denied { id });
                users += 1;
            }
            (0..users).for_each(|_| self.memory.release(number));
        }
    }
}

impl Provider for Sockets {
    fn kind(&self) -> ProviderKind {
        KIND
    }

    fn caps(&self) -> Caps {
        Caps {
            message_max: MESSAGE_MAX,
            early: true,
            reads_alone: false,
            reads: true,
            places: true,
            refusals_break: false,
            atomics: true,
            control_on_stream: true,
        }
    }

    fn create(&mut self, _: QpClaim) -> Result<Qp, CreateError> {
        let starved = self.starved_until_ns > 0 && self.clock.now_ns() < self.starved_until_ns;
        if starved || self.links.len() >= LINKS_MAX {
            return Err(CreateError::Descriptors { limit: self.descriptors });
        }
        let nobody = SocketAddr::new(self.section.addr, 0);
        let (index, generation) = self.links.insert(Link::new(nobody));
        Ok(Qp::new(KIND, index as usize, generation))
    }

    fn init(&mut self, qp: Qp, peer: &Card, role: Role) -> Result<Params, ConnectError> {
        let section = section_of(peer)?;
        let to = self.at(section, section.tcp);
        // 0 stands for a side that answers.
        let dial = match role {
            Role::Answers => None,
            Role::Asks => {
                Some(u64::from_le_bytes(sys::random::bytes().map_err(ConnectError::Memory)?).max(1))
            }
        };
        self.step(qp, QpState::Init)?;
        let link = self.link(qp)?;
        (link.to, link.nonce) = (to, section.nonce);
        link.dial = dial.map(|dial| Box::new(Dial::new(dial)));
        Ok(dial::params_of(dial.unwrap_or(0)))
    }

    fn rtr(&mut self, qp: Qp, peer: &Card, params: &Params) -> Result<(), ConnectError> {
        let nonce = section_of(peer)?.nonce;
        let link = self.link(qp)?;
        check(qp.index() as u32, link.state, QpState::ReadyToReceive)?;
        if nonce != link.nonce {
            // Another process than the one that was named to `init`.
            return Err(ConnectError::NoStream);
        }
        self.agree(qp.index() as u32, params)
    }

    fn rts(&mut self, qp: Qp) -> Result<(), ConnectError> {
        self.step(qp, QpState::ReadyToSend)
    }

    fn sqd(&mut self, qp: Qp) -> Result<(), ConnectError> {
        self.step(qp, QpState::SendDrained)
    }

    fn is_drained(&self, qp: Qp) -> bool {
        let link = self.links.get(qp.index(), qp.generation());
        link.is_none_or(|link| link.out.is_empty() && link.asked.is_empty() && link.dial.is_none())
    }

    fn is_busy(&self, qp: Qp) -> bool {
        let link = self.links.get(qp.index(), qp.generation());
        !self.is_drained(qp) || link.is_some_and(|link| link.body.is_some() || !link.partial.is_empty())
    }

    /// In bytes, as the kernel counts them.
    fn traffic(&self, qp: Qp) -> u64 {
        let stream = self.links.get(qp.index(), qp.generation()).and_then(|link| link.stream.as_ref());
        stream.and_then(|stream| stream.traffic_bytes().ok()).unwrap_or(0)
    }

    fn state(&self, qp: Qp) -> QpState {
        self.links.get(qp.index(), qp.generation()).map_or(QpState::Reset, |link| link.state)
    }

    fn destroy(&mut self, qp: Qp) {
        let index = qp.index() as u32;
        let Some(link) = self.links.get_mut(qp.index(), qp.generation()) else { return };
        if !link.is_settled() {
            self.drop_stream(index);
        }
        let left = self.links.at_mut(index).map(|link| (link.stream.take(), link.out.take_owned()));
        self.end_work(index);
        self.links.remove(index);
        if let Some((Some(stream), out)) = left {
            self.leave(stream, out);
        }
        self.accept_again();
    }

    fn count(&self) -> usize {
        self.links.len()
    }

    fn send_control(&mut self, qp: Option<Qp>, to: &Card, bytes: &[u8]) -> Result<Sent, ControlError> {
        if self.secrets.is_none() {
            return Err(ReachError::NoKey.into());
        }
        if let Some(qp) = qp
            && self.links.get(qp.index(), qp.generation()).is_some()
            && let Some(sent) = self.control_on(qp.index() as u32, bytes)
        {
            return Ok(sent);
        }
        let section = section_of(to)?;
        let secret = self.secrets.with(section.nonce).ok_or(ReachError::NoKey)?;
        let at = self.at(section, section.udp);
        match self.udp.send_to(&secret.datagram(section.nonce, bytes), at) {
            Ok(true) => Ok(Sent::Sent),
            Ok(false) => Ok(Sent::Dropped),
            Err(error) => Err(ControlError::Net { to: at, error }),
        }
    }

    fn register(&mut self, buf: UserBuf) -> Option<MrKey> {
        self.memory.register(buf)
    }

    fn deregister(&mut self, key: MrKey) {
        if let Some(number) = self.memory.deregister(key) {
            self.withdraw(number);
        }
    }

    fn set_frugal(&mut self, frugal: bool) {
        if std::mem::replace(&mut self.frugal, frugal) == frugal {
            return;
        }
        for index in self.links.indices() {
            let Some(link) = self.links.at_mut(index) else { continue };
            if link.is_settled() && matches!(link.state, QpState::ReadyToReceive | QpState::ReadyToSend) {
                link.out.push(&Frame::Frugal(frugal).emit(), &mut self.spare);
                self.mark_dirty(index);
            }
        }
    }

    fn datagrams_dropped(&mut self) -> u64 {
        // The kernel drops them without telling this process.
        0
    }

    fn memory_bytes(&self) -> u64 {
        let links: usize = self.links.iter().map(|(_, link)| link.memory_bytes()).sum();
        (links + self.inbox.bytes() + self.spare.bytes() + self.door.memory_bytes()) as u64
    }
}

fn section_of(card: &Card) -> Result<&SocketsSection, ReachError> {
    card.sockets.as_ref().ok_or(ReachError::NoAddress { who: "it" })
}

/// The interface of a link-local address; 0 for others.
fn scope_of(addr: IpAddr) -> io::Result<u32> {
    match addr {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            let interfaces = sys::net::interfaces()?;
            let own = interfaces.into_iter().find(|interface| interface.addr == addr);
            own.map(|own| own.index).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
        }
        _ => Ok(0),
    }
}

/// A link-local address means something only with the interface that leads there, which is this side's own.
fn with_scope(addr: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match addr {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => SocketAddrV6::new(v6, port, 0, scope).into(),
        addr => SocketAddr::new(addr, port),
    }
}

/// Is it that the process or the host has no descriptor left?
fn is_no_descriptor(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

//! The verbs provider: processes that reach each other through RDMA devices. A queue pair is a reliably connected one of the
//! device, a datagram is an unreliable one.
//!
//! ```text
//! who asks                                       who answers
//!   init     a queue pair in INIT, its number
//!   control  a datagram with the request    ->    init, rtr, rts
//!            the reply comes as a datagram  <-    control
//!   rtr, rts, a word
//! ```
//! A device drops what comes to a queue pair that is not in RTR yet, and the sender's device gives up after a while. So whoever
//! answers sends nothing before it has heard from the other one on the queue pair; and where two requests have crossed,
//! each says by datagrams when it is there ([`ready`]).
//!
//! Messages go into slots of memory that all connections share ([`receive`]). A sender has a window of messages that the peer
//! has not taken yet, which grows where it is used, and there are slots for all windows together; should they be missing all the
//! same (words about windows need slots, too), devices ask again, without end, and nothing is lost. Datagrams have slots of their own, which no flood of messages takes. Short messages are copied when they
//! are posted, longer ones into a slot to send from ([`post`]); long ones are read by the peer from registered memory.
//!
//! Where the processes of a node share connections from elsewhere ([`shared`]), queue pairs are those of XRC.
//!
//! Everything completes in one queue, so that a datagram that was sent behind a message is seen behind it.
mod ahead;
mod cache;
mod choice;
mod link;
mod memory;
mod post;
mod provide;
mod ready;
mod receive;
mod shared;
mod slots;

use crate::card::{Card, VerbsSection};
use crate::provider::{
    Ahead, BreakReason, Caps, ConnectError, ControlError, CreateError, Provider, ReachError, Role, Sent,
    WorkError,
};
use crate::qp::{MrKey, ProviderKind, Qp, WorkId, WorkIds};
use crate::secrets::Secrets;
use crate::state::{QpState, check};
use crate::table::Table;
use ahead::Told;
use choice::{choose, choose_gid, power_for, subnet_of};
use link::{End, Link};
use memory::{Regions, Transfer};
pub(crate) use post::Source;
use post::{Outbox, Pending};
use proto::stats::RdmaDevice;
use proto::wireup::Params;
use ready::Meeting;
use receive::{Found, Inbox, Which};
pub(crate) use shared::Place;
use shared::Sharing;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use sys::UserBuf;
use sys::cpu::CoreSet;
use sys::node::QpClaim;
use verbs::{
    Access, Address, Ah, AsyncEvent, Atomics, Completion, Context, Cq, Dest, Failed, Gid, Operation, Outcome,
    Pd, Port, PortState, QpCaps, QpKind, QpSettings, VerbsError, Work,
};

const KIND: ProviderKind = ProviderKind::Verbs;
/// Bytes of a message, without what goes before it.
pub(crate) const MESSAGE_MAX: usize = (4 << 10) + 256;
/// What goes before a message: what it is, and the sender's header.
const HEAD_BYTES: usize = 8 + 16;
/// Messages that a peer may send before it hears that some were taken: at first, and where it has used them up, at most.
const WINDOW_FIRST: u32 = 8;
const WINDOW: u32 = 64;
/// Entries of the completion queue, if the device has so many.
const COMPLETIONS: u32 = 8192;
/// Work of a queue pair that is under way, at most.
const WORK_MAX: u32 = 128;
/// Reads and atomics of a queue pair at a time.
const READS_MAX: u32 = 16;
/// Bytes that are copied when they are posted, if the device can.
const INLINE_BYTES: u32 = 256;
const INLINE_BYTES_LEAST: u32 = 64;
/// Pieces of a message that is copied: what goes before it, and the message.
const PIECES: u32 = 2;
/// How long a device waits for an answer before it sends again: 1.1 s. Peers that compute answer by their devices; where much is
/// under way, an answer takes long.
const ANSWER_TIME: u8 = 18;
/// How often, before the connection counts as lost: after 7.5 s. Not seven times, the most that can be asked for: Linux's software
/// RoCE takes that for ever, and nobody would hear of a peer that is gone.
const ANSWER_TRIES: u8 = 6;
/// How long a device without a slot asks to be left alone: 0.64 ms.
const NO_ROOM_TIME: u8 = 12;
/// Bytes of the program's memory that stay registered behind transfers, where nobody says otherwise.
const KEPT_BYTES: u64 = 256 << 20;
/// Looks after which it is asked whether the device tells something by itself: a system call. (Who sleeps is woken.)
const LOOKS_PER_EVENT: u32 = 4096;
/// How long datagrams may be lost because the port is down: longer than devices ask again on a connection.
const PORT_PATIENCE: Duration = Duration::from_secs(8);
/// Names the processes of all jobs to the device; who has no key of a job is found out by the tag of a datagram.
const DATAGRAM_KEY: u32 = 0x00ba_7a91;

/// Which device is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Its name; without one, the first that has an active port.
    pub device: Option<String>,
    /// The port; without one, the first that is active.
    pub port: Option<u8>,
    /// Which of the port's addresses; without one, that with a routable form.
    pub gid: Option<u8>,
    /// What only the processes of the job know, if it is known yet.
    pub key: Option<[u8; 32]>,
    /// Bytes of the program's memory that stay registered behind transfers, at most; without a number as many as seems good.
    pub kept_bytes: Option<u64>,
    /// How long the device waits for an answer before it sends again; without a time as long as seems good.
    pub answer_time: Option<Duration>,
    /// Bytes that it transfers at once, at most, if that is less than it can.
    pub piece_bytes: Option<u64>,
}

/// Why RDMA cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no library, or no device.
    #[error(transparent)]
    Missing(#[from] verbs::Missing),
    /// None of the devices will do.
    #[error("{0}")]
    NoPort(String),
    /// The device refuses something.
    #[error("{device}: {}", words(.error))]
    Refused {
        /// Which one.
        device: String,
        /// What it says.
        error: VerbsError,
    },
    /// The kernel gives no random numbers.
    #[error("no random numbers: {0}")]
    Chance(io::Error),
    /// No set of descriptors to wait for.
    #[error("cannot watch descriptors: {0}")]
    Poll(io::Error),
}

impl OpenError {
    /// The same, for counters.
    pub fn outcome(&self) -> RdmaDevice {
        match self {
            OpenError::Missing(verbs::Missing::Library(_)) => RdmaDevice::NoLibrary,
            OpenError::Missing(verbs::Missing::Device(_)) => RdmaDevice::NoDevice,
            OpenError::NoPort(_) => RdmaDevice::NoPort,
            OpenError::Refused { .. } | OpenError::Chance(_) | OpenError::Poll(_) => RdmaDevice::Refuses,
        }
    }
}

/// What may help where memory cannot be registered.
fn hint(error: &VerbsError) -> String {
    let memory = error.call == "ibv_reg_mr" && matches!(error.error.raw_os_error(), Some(ENOMEM | EAGAIN));
    if !memory {
        return String::new();
    }
    match sys::limit::locked_memory() {
        Some(bytes) => format!(
            "; memory that a process may lock is limited to {} KiB (ulimit -l, or memlock in limits.conf)",
            bytes >> 10
        ),
        None => String::new(),
    }
}

/// How many bytes of the program's memory may stay registered: a part of what the process may lock.
fn kept_bytes(wanted: Option<u64>) -> u64 {
    wanted
        .unwrap_or_else(|| sys::limit::locked_memory().map_or(KEPT_BYTES, |limit| KEPT_BYTES.min(limit / 4)))
}

/// What the device says, and what may help.
fn words(error: &VerbsError) -> String {
    format!("{error}{}", hint(error))
}

const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;

/// An open device. See the module's head.
#[derive(Debug)]
pub struct Rdma {
    context: Rc<Context>,
    pd: Rc<Pd>,
    cq: Rc<Cq>,
    port: Port,
    gid: Option<Gid>,
    /// Bytes that are read or written at once, at most.
    transfer_max: usize,
    section: VerbsSection,
    secrets: Secrets,
    settings: QpSettings,
    /// What the device can have of [`PIECES`] and [`INLINE_BYTES`].
    pieces: u32,
    inline_bytes: u32,
    datagrams: verbs::Qp,
    /// Where datagrams have gone.
    addresses: HashMap<VerbsSection, Ah>,
    inbox: Inbox,
    outbox: Outbox,
    regions: Regions,
    links: Table<Link>,
    /// What is shared with the other processes of the node, if the device can.
    sharing: Option<Box<Sharing>>,
    /// Queue pairs that were made before they are needed.
    kept: Vec<verbs::Qp>,
    /// Connections, by the numbers of their queue pairs or by their names.
    numbers: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    /// The connection that a message came on last, by its number.
    last_number: Option<(u32, u32)>,
    /// Work that is under way, and how many messages are beside it, of which nothing is kept.
    pending: Table<Pending>,
    copied: usize,
    work_max: usize,
    transfers: Table<Transfer>,
    /// Completions to look at before those that the device has, and events to come.
    fetched: VecDeque<Completion>,
    found: Option<Found>,
    notes: VecDeque<Note>,
    works: WorkIds,
    frugal: bool,
    /// Was a queue pair refused that nobody needed yet?
    short: bool,
    dropped: u64,
    /// Messages that the device has brought twice.
    repeated: u64,
    strangers: u64,
    now_ns: u64,
    /// Times that the device was looked at.
    looks: u32,
    /// Has the device atomic operations?
    atomics: bool,
    /// Since when the port is down, if it is.
    down_since: Option<Instant>,
}

/// Spreads numbers that the device has given, mostly in a row: nobody outside chooses them.
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// An event to come.
#[derive(Debug)]
enum Note {
    Done(WorkId, Result<u64, WorkError>),
    Broken(Qp, BreakReason),
}

impl Rdma {
    /// Opens a device and a queue pair for datagrams.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        Self::open_at(config, None)
    }

    /// The same for a process that shares connections with the other processes of its node, if the device can.
    pub(crate) fn open_at(config: &Config, place: Option<Place>) -> Result<Self, OpenError> {
        let devices = verbs::devices()?;
        let (context, port) = choose(&devices, config)?;
        let name = context.name().to_string();
        let refused = |error| OpenError::Refused { device: name.clone(), error };
        let limits = context.limits().map_err(refused)?;
        let gid = choose_gid(&context, &port, config)?;
        let pd = Pd::new(&context).map_err(refused)?;
        let completions = COMPLETIONS.min(limits.cq_entries);
        let cq = Cq::new(&context, completions).map_err(refused)?;
        let mut inbox = Inbox::new(&pd, completions as usize).map_err(refused)?;
        let mut outbox = Outbox::default();
        // What is found out now leaves the choice to go by sockets, and nothing that is registered later takes it away.
        if sys::limit::locked_memory().is_some() {
            inbox.reserve(&pd).and_then(|()| outbox.reserve(&pd)).map_err(refused)?;
        }
        let caps = QpCaps { work: WORK_MAX, receives: 0, sges: 1, inline_bytes: 0 };
        let datagrams =
            verbs::Qp::new(&pd, QpKind::Ud, &cq, &cq, Some(&inbox.letters), caps).map_err(refused)?;
        datagrams.start_datagrams(port.number, DATAGRAM_KEY).map_err(refused)?;
        let sharing = place.and_then(|place| Sharing::open(place, &pd, &cq, inbox.receives_max()));
        sharing.iter().for_each(|sharing| inbox.share(&sharing.srq));
        let nonce = u64::from_le_bytes(sys::random::bytes().map_err(OpenError::Chance)?);
        let section = VerbsSection {
            gid: gid.map_or([0; 16], |gid| gid.raw),
            lid: port.lid,
            datagrams: datagrams.num(),
            subnet: subnet_of(&port, gid.as_ref()),
            nonce,
            domain: sharing.as_ref().map_or(0, |sharing| sharing.id),
        };
        let reads = READS_MAX.min(limits.reads_in).min(limits.reads_out).clamp(1, 255) as u8;
        let piece_bytes = config.piece_bytes.unwrap_or(u64::MAX).max(1);
        let settings = QpSettings {
            mtu: port.mtu,
            reads_in: reads,
            reads_out: reads,
            timeout: config.answer_time.map_or(ANSWER_TIME, power_for),
            retries: ANSWER_TRIES,
            rnr_retries: 7,
            rnr_timer: NO_ROOM_TIME,
        };
        let kept = if context.survives_forks() { kept_bytes(config.kept_bytes) } else { 0 };
        let mut secrets = Secrets::default();
        config.key.into_iter().for_each(|key| secrets.set_own(key));
        Ok(Rdma {
            context,
            pd,
            cq,
            transfer_max: piece_bytes.min(port.message_max.into()) as usize,
            port,
            gid,
            section,
            secrets,
            settings,
            pieces: PIECES.min(limits.sges).max(1),
            inline_bytes: INLINE_BYTES,
            datagrams,
            addresses: HashMap::new(),
            inbox,
            outbox,
            regions: Regions::new(kept),
            links: Table::new(),
            sharing: sharing.map(Box::new),
            kept: Vec::new(),
            numbers: HashMap::default(),
            last_number: None,
            pending: Table::new(),
            copied: 0,
            // A queue that overflows is the end of it. (Words about windows need room, too.)
            work_max: completions as usize * 3 / 8,
            transfers: Table::new(),
            fetched: VecDeque::new(),
            found: None,
            notes: VecDeque::new(),
            works: WorkIds::new(KIND),
            frugal: false,
            short: false,
            dropped: 0,
            repeated: 0,
            strangers: 0,
            now_ns: 0,
            looks: 0,
            atomics: limits.atomics != Atomics::None,
            down_since: None,
        })
    }

    /// Where this process is reached, for its card.
    pub fn section(&self) -> VerbsSection {
        self.section
    }

    /// The device and its port, for messages.
    pub fn device(&self) -> String {
        format!("{} port {}", self.context.name(), self.port.number)
    }

    /// The device, for who looks at it beside this provider.
    pub fn context(&self) -> &Rc<Context> {
        &self.context
    }

    /// The port that is used, and which of its addresses; inside an InfiniBand subnet none is needed.
    pub fn port(&self) -> (&Port, Option<&Gid>) {
        (&self.port, self.gid.as_ref())
    }

    /// What queue pairs of connections are made with.
    pub fn qp_settings(&self) -> (QpCaps, QpSettings) {
        (self.caps_of_qps(), self.settings)
    }

    /// The key of the job, where it was not known from the beginning.
    pub fn set_key(&mut self, key: [u8; 32]) {
        self.secrets.set_own(key);
    }

    /// The key is shared with another job, of which the process with this nonce is one.
    pub fn share_key(&mut self, key: [u8; 32], nonce: Option<u64>) {
        self.secrets.share(key, nonce);
    }

    /// The job that the key was shared with has disconnected.
    pub fn forget_key(&mut self, key: [u8; 32]) {
        self.secrets.forget(key);
    }

    /// Becomes readable when something has completed, after [`Rdma::prepare_sleep`].
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.cq.wake_fd()
    }

    /// Becomes readable when the device tells something by itself.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.context.events()
    }

    /// Asks to be woken, and looks once more. Is something there?
    pub fn prepare_sleep(&mut self) -> bool {
        self.cq.take_events();
        // Nobody ticks for it: its descriptor has ended the last sleep, if it was that.
        self.hear_device();
        if self.cq.arm().is_err() {
            return true;
        }
        self.look()
    }

    /// Looks at the device, and after what nobody else has to hear of. Has [`Rdma::poll`] something? What was lent is given back.
    #[inline]
    pub fn look(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS_PER_EVENT) {
            self.hear_device();
        }
        self.give_back();
        if self.found.is_none() {
            self.found = self.find();
        }
        self.found.is_some()
    }

    /// Does a queue pair take a message now?
    pub fn has_room(&mut self, qp: Qp) -> bool {
        self.look();
        self.links.get(qp.index(), qp.generation()).is_some_and(Link::may_send)
    }

    /// Does the peer ask for rendezvous instead of eager messages?
    #[inline]
    pub fn is_peer_frugal(&self, qp: Qp) -> bool {
        self.links.get(qp.index(), qp.generation()).is_some_and(|link| link.peer_frugal)
    }

    /// Datagrams that were refused.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// The connection with a queue pair of the device.
    #[inline]
    fn index_of(&mut self, number: u32) -> Option<u32> {
        if let Some((last, index)) = self.last_number
            && last == number
        {
            return Some(index);
        }
        let index = self.numbers.get(&number).copied()?;
        self.last_number = Some((number, index));
        Some(index)
    }

    #[inline]
    fn qp(&self, index: u32) -> Qp {
        Qp::new(KIND, index as usize, self.links.generation(index))
    }

    fn caps_of_qps(&self) -> QpCaps {
        QpCaps { work: WORK_MAX, receives: 0, sges: self.pieces, inline_bytes: self.inline_bytes }
    }

    /// Messages that the device has brought twice, which were dropped.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// A queue pair. No device tells how many bytes it copies when they are posted: it refuses what is too much.
    fn create_qp(&mut self, kind: QpKind) -> Result<verbs::Qp, VerbsError> {
        loop {
            let srq = (kind == QpKind::Rc).then(|| self.inbox.srq());
            match verbs::Qp::new(&self.pd, kind, &self.cq, &self.cq, srq, self.caps_of_qps()) {
                Err(error) if self.inline_bytes > 0 && error.error.raw_os_error() == Some(EINVAL) => {
                    self.inline_bytes =
                        if self.inline_bytes > INLINE_BYTES_LEAST { INLINE_BYTES_LEAST } else { 0 };
                }
                made => return made,
            }
        }
    }

    /// A connection with a queue pair of its own is there.
    fn join(&mut self, link: Link) -> Qp {
        let number = link.name;
        let (index, generation) = self.links.insert(link);
        self.numbers.insert(number, index);
        self.inbox.join(Which::Own);
        Qp::new(KIND, index as usize, generation)
    }

    fn link(&mut self, qp: Qp) -> Result<&mut Link, ConnectError> {
        self.links.get_mut(qp.index(), qp.generation()).ok_or(ConnectError::Stale)
    }

    /// Moves a queue pair along the table of states, if the device does, too.
    fn step(
        &mut self,
        qp: Qp,
        to: QpState,
        with: impl FnOnce(&Link) -> Result<(), VerbsError>,
    ) -> Result<(), ConnectError> {
        let link = self.link(qp)?;
        check(link.name, link.state, to)?;
        with(link).map_err(|error| ConnectError::Device(error.to_string()))?;
        link.state = to;
        Ok(())
    }

    /// Takes what has completed from the device, to be looked at later. How many was that?
    fn fetch(&mut self) -> usize {
        let fetched = &mut self.fetched;
        self.cq.poll(|completion| fetched.push_back(completion)).unwrap_or(0)
    }

    /// A queue pair breaks: ERROR. What was posted completes, by and by.
    fn break_link(&mut self, index: u32, why: BreakReason) {
        let qp = self.qp(index);
        let Some(link) = self.links.at_mut(index) else { return };
        if link.state == QpState::Error {
            return;
        }
        link.state = QpState::Error;
        // (What others send by stays as it is.)
        if let End::Own(qp) = &link.end {
            let _ = qp.fail(); // it may be in this state already
        }
        // A peer that has nothing to send would never find out.
        self.say_broken(index);
        self.notes.push_back(Note::Broken(qp, why));
    }

    /// Work of a queue pair has failed: it breaks, and all connections that it has. If that is so because the port has been down for long, all others are
    /// as good as broken; who only waits for messages on one of them would never find out, nor hear of it from its peer.
    fn fail_link(&mut self, index: u32, failed: &Failed) {
        let (why, is_down) = self.reason(failed);
        self.break_together(index, &why);
        if is_down && !failed.is_flushed() {
            self.break_all(&why);
        }
    }

    /// Why a queue pair broke, from how its work failed, and how the port is. Is it down?
    fn reason(&mut self, failed: &Failed) -> (BreakReason, bool) {
        if failed.is_flushed() {
            // That is no reason: if the device has one, it is the first.
            self.hear_device();
        }
        let state = self.context.port(self.port.number).map(|port| port.state);
        let (why, is_down) = match state {
            Ok(PortState::Active) | Err(_) => (failed.to_string(), false),
            Ok(state) => (format!("{failed}; the port is {state}"), true),
        };
        (BreakReason::Device { device: self.device(), why }, is_down)
    }

    /// Looks at what the device tells by itself.
    fn hear_device(&mut self) {
        while let Some(event) = self.context.next_event() {
            match event {
                AsyncEvent::Qp(number, words) => {
                    let why = BreakReason::Device { device: self.device(), why: words };
                    match self.numbers.get(&number).copied() {
                        Some(index) => self.break_link(index, why),
                        None => self.break_shared(number, &why),
                    }
                }
                AsyncEvent::Fatal(words) => {
                    self.break_all(&BreakReason::Device { device: self.device(), why: words });
                }
                // A port that is down for a moment costs time: what was sent is sent again.
                AsyncEvent::PortDown(port) if port == self.port.number => {
                    self.down_since.get_or_insert(Instant::now());
                }
                AsyncEvent::PortUp(port) if port == self.port.number => self.down_since = None,
                AsyncEvent::PortDown(_)
                | AsyncEvent::PortUp(_)
                | AsyncEvent::FewReceives
                | AsyncEvent::Other(_) => {}
            }
        }
    }

    /// Looks after what the device tells by itself, and peers that have not said that they are there.
    pub fn tick(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.hear_device();
        self.tick_meetings();
    }

    fn address_of(&self, section: &VerbsSection) -> Address {
        let gids = self.gid.map(|gid| (gid, section.gid));
        Address { port: self.port.number, lid: section.lid, gids }
    }
}

/// What peers may do by a queue pair.
fn peers_access() -> Access {
    Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC
}

/// Any number for a first packet.
fn random_psn() -> u32 {
    u32::from_le_bytes(sys::random::bytes().unwrap_or_default()) & 0xff_ffff
}

fn section_of(card: &Card) -> Result<&VerbsSection, ReachError> {
    card.verbs.as_ref().ok_or(ReachError::NoAddress { who: "it" })
}

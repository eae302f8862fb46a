//! One process's open device: its providers, and which of them carries what.
mod connect;
mod memory;
mod node;
mod sleep;
mod turns;

pub use sleep::Sleep;

use crate::card::Card;
use crate::event::{Event, SlotView, View};
use crate::fault::{Datagram, Faults};
use crate::imitate::Imitation;
use crate::provider::{
    Ahead, Caps, ConnectError, ControlError, CreateError, PostError, Posted, Provider, Push, ReachError,
    Role, Sent,
};
use crate::qp::{ProviderKind, Qp};
use crate::rdma::{self, Rdma, Source};
use crate::sockets::{self, Sockets};
use crate::soft::{SharedCounts, Soft};
use crate::state::QpState;
use proto::stats::RdmaDevice;
use proto::wireup::Params;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use sys::node::{NodeFacts, QpClaim, QpLimit};
use sys::poll::{Interest, Poll};
use sys::{Locator, UserBuf, UserBufMut, ring};
use turns::{Beside, Look, Turns};

/// Under which number a descriptor of the caller's is waited for; the providers' own are below.
const TOKEN_CALLER: u64 = u64::MAX;
const TOKEN_DOORBELL: u64 = u64::MAX - 1;

/// Whose device it is.
#[derive(Clone, Debug)]
pub enum Node {
    /// An agent made the node's segment; this process has a slot in it.
    Agent {
        /// Where the segment is.
        segment: Locator,
        /// The process's slot.
        slot: u32,
    },
    /// No agent: a device of its own.
    Own(Box<NodeFacts>),
}

/// How to open a device.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whose device.
    pub node: Node,
    /// May memory of other processes be read and written directly?
    pub cma: bool,
    /// Is everything sent through sockets, also where memory could be shared?
    pub force_net: bool,
    /// What happens to datagrams on their way, for tests.
    pub faults: Option<Faults>,
    /// Largest receive ring of a connection in shared memory.
    pub ring_bytes_max: usize,
    /// Most bytes of the process that large rings take in all; connections have a small one besides.
    pub conn_memory: Option<u64>,
    /// What shared memory costs beside its own time, to be like another device.
    pub imitation: Imitation,
    /// Are connections to other nodes shared by the processes there, where those share too (XRC)?
    pub xrc: bool,
}

/// Why a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The node's segment cannot be used.
    #[error("cannot open the node's segment: {0}")]
    Node(io::Error),
    /// The process's own segment cannot be made.
    #[error("cannot make the process's segment: {0}")]
    Segment(io::Error),
    /// The slot is not one of the segment's.
    #[error("slot {slot} of a node segment with {slots} slots")]
    Slot {
        /// The slot that was asked for.
        slot: u32,
        /// Slots there are.
        slots: u32,
    },
    /// The device has no queue pair left for datagrams.
    #[error("the device has no queue pair left: {} of {} are in use", .0.used, .0.max)]
    Limit(QpLimit),
}

/// An open device. See the crate's head.
#[derive(Debug)]
pub struct Context {
    soft: Soft,
    /// Are connections through an RDMA device shared, if it can?
    shares: bool,
    /// Large, and most processes need none.
    sockets: Option<Box<Sockets>>,
    rdma: Option<Box<Rdma>>,
    rdma_outcome: RdmaDevice,
    /// The key of the job, where an agent gave one.
    key: Option<[u8; 32]>,
    /// Keys that are shared with processes of other jobs, and the nonces in their cards.
    shared_keys: Vec<([u8; 32], Option<u64>)>,
    /// Other names of this host, which other launchers gave.
    same_hosts: BTreeSet<[u64; 2]>,
    card: Card,
    faults: Option<Faults>,
    turns: Turns,
    /// What a sleeping process waits for beside its doorbell; made when there is something.
    waits: Option<Arc<Poll>>,
    caller_fd: bool,
    /// Descriptors of the caller's that are watched until it says otherwise.
    watched: u32,
}

impl Context {
    /// Opens the device, without sockets.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let soft = Soft::open(config)?;
        let facts = soft.facts();
        let key = matches!(config.node, Node::Agent { .. }).then(|| key_bytes(&facts.key));
        let mappable = soft.is_mappable() && !config.force_net;
        let segment = if mappable { Some(soft.locator().map_err(OpenError::Segment)?) } else { None };
        let (host, node) = (facts.host, facts.node);
        let card =
            Card { host, node, soft: segment, sockets: None, verbs: None, shared: config.xrc && mappable };
        Ok(Context {
            soft,
            // (Without an agent there is nothing that the processes of a node share.)
            shares: config.xrc && matches!(config.node, Node::Agent { .. }),
            sockets: None,
            rdma: None,
            rdma_outcome: RdmaDevice::Unneeded,
            key,
            shared_keys: Vec::new(),
            same_hosts: BTreeSet::new(),
            card,
            faults: config.faults.clone(),
            turns: Turns::default(),
            waits: None,
            caller_fd: false,
            watched: 0,
        })
    }

    /// This process's card. It changes when sockets are opened.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// What the agent fixed for the node.
    pub fn facts(&self) -> &NodeFacts {
        self.soft.facts()
    }

    /// Which provider reaches the owner of a card; both sides come to the same answer. Sockets may have to be opened
    /// for it.
    pub fn reach(&self, peer: &Card) -> Result<ProviderKind, ReachError> {
        let same_host = self.shares_host(peer);
        let subnet = |card: &Card| card.verbs.map(|verbs| verbs.subnet);
        match (peer.soft, self.card.soft) {
            (Some(_), Some(_)) if same_host => Ok(ProviderKind::Soft),
            _ if peer.verbs.is_some() && subnet(peer) == subnet(&self.card) => Ok(ProviderKind::Verbs),
            _ if peer.sockets.is_some() => Ok(ProviderKind::Sockets),
            _ if same_host => Err(ReachError::NotShared),
            _ => Err(ReachError::NoAddress { who: "it" }),
        }
    }

    /// Is the owner of a card on this process's host, as launchers say or as was found out?
    pub fn shares_host(&self, peer: &Card) -> bool {
        peer.host == self.card.host || self.same_hosts.contains(&peer.host)
    }

    /// What another launcher calls this is this process's host; `false`: forget it.
    pub fn set_same_host(&mut self, host: [u64; 2], same: bool) {
        if same {
            self.same_hosts.insert(host);
        } else {
            self.same_hosts.remove(&host);
        }
    }

    /// Can nobody share memory with this process, so that sockets are all it has?
    pub fn is_unshared(&self) -> bool {
        self.card.soft.is_none()
    }

    /// Opens sockets, which changes the card. Nothing happens if they are open.
    pub fn open_sockets(&mut self, how: &sockets::Config) -> Result<(), sockets::OpenError> {
        if self.sockets.is_some() {
            return Ok(());
        }
        let waits = self.waits().map_err(sockets::OpenError::Poll)?;
        let mut sockets =
            Sockets::open(&sockets::Config { key: how.key.or(self.key), ..how.clone() }, waits)?;
        for (key, nonce) in &self.shared_keys {
            sockets.share_key(*key, *nonce);
        }
        self.card.sockets = Some(sockets.section());
        self.sockets = Some(Box::new(sockets));
        // A thread that sleeps on the futex would not see them.
        self.soft.sleeper().wake();
        Ok(())
    }

    /// Opens an RDMA device, which changes the card. Nothing happens if one is open.
    pub fn open_rdma(&mut self, how: &rdma::Config) -> Result<(), rdma::OpenError> {
        if self.rdma.is_some() {
            return Ok(());
        }
        let place = self.shares.then(|| self.soft.place()).map(|(node, slot)| rdma::Place { node, slot });
        let opened = Rdma::open_at(&rdma::Config { key: how.key.or(self.key), ..how.clone() }, place);
        self.rdma_outcome = opened.as_ref().map_or_else(rdma::OpenError::outcome, |_| RdmaDevice::Open);
        let mut rdma = opened?;
        for (key, nonce) in &self.shared_keys {
            rdma.share_key(*key, *nonce);
        }
        let waits = self.waits().map_err(rdma::OpenError::Poll)?;
        waits.add(rdma.wake_fd(), TOKEN_CALLER, Interest::Read).map_err(rdma::OpenError::Poll)?;
        waits.add(rdma.event_fd(), TOKEN_CALLER, Interest::Read).map_err(rdma::OpenError::Poll)?;
        self.card.verbs = Some(rdma.section());
        self.rdma = Some(Box::new(rdma));
        // A thread that sleeps on the futex would not see it.
        self.soft.sleeper().wake();
        Ok(())
    }

    /// The device and port that were opened.
    pub fn rdma_device(&self) -> Option<String> {
        self.rdma.as_deref().map(Rdma::device)
    }

    /// Is there an RDMA device?
    pub fn has_rdma(&self) -> bool {
        self.rdma.is_some()
    }

    /// What became of the RDMA device.
    pub fn rdma_outcome(&self) -> RdmaDevice {
        self.rdma_outcome
    }

    /// Registrations with the RDMA device that were made, and those that were still there from an earlier transfer.
    pub fn registrations(&self) -> (u64, u64) {
        self.rdma.as_deref().map_or((0, 0), Rdma::registrations)
    }

    /// Why memory was not registered with the RDMA device, if that has happened since the last question.
    pub fn take_refusal(&mut self) -> Option<String> {
        self.rdma.as_deref_mut().and_then(Rdma::take_refusal)
    }

    /// What the provider of a queue pair can do.
    pub fn caps(&self, provider: ProviderKind) -> Caps {
        match (provider, &self.sockets, &self.rdma) {
            (ProviderKind::Sockets, Some(sockets), _) => sockets.caps(),
            (ProviderKind::Verbs, _, Some(rdma)) => rdma.caps(),
            _ => self.soft.caps(),
        }
    }

    fn provider(&mut self, kind: ProviderKind) -> &mut dyn Provider {
        match (kind, &mut self.sockets, &mut self.rdma) {
            (ProviderKind::Sockets, Some(sockets), _) => &mut **sockets,
            (ProviderKind::Verbs, _, Some(rdma)) => &mut **rdma,
            _ => &mut self.soft,
        }
    }

    fn provider_ref(&self, kind: ProviderKind) -> &dyn Provider {
        match (kind, &self.sockets, &self.rdma) {
            (ProviderKind::Sockets, Some(sockets), _) => &**sockets,
            (ProviderKind::Verbs, _, Some(rdma)) => &**rdma,
            _ => &self.soft,
        }
    }

    /// Sends a message: header and payload.
    #[inline]
    pub fn post_send(
        &mut self,
        qp: Qp,
        header: [u64; 2],
        payload: UserBuf,
        push: Push,
    ) -> Result<Posted, PostError> {
        match qp.provider() {
            ProviderKind::Soft => self.soft.post_send(qp, header, payload).map(|()| Posted::Done),
            ProviderKind::Sockets => match &mut self.sockets {
                Some(sockets) => sockets.post_send(qp, header, payload, push),
                None => Err(PostError::Stale),
            },
            ProviderKind::Verbs => self.post_verbs(qp, header, Source::User(payload)),
        }
    }

    /// As [`Context::post_send`], the short way: between processes of one host, or through an RDMA device, if there is room and the
    /// peer wants it. `false`: nothing has been done.
    #[inline(always)]
    pub fn send_short(&mut self, qp: Qp, header: [u64; 2], payload: UserBuf) -> bool {
        match qp.provider() == ProviderKind::Soft {
            true => self.soft.send_short(qp, header, payload),
            false => self.send_short_away(qp, header, payload),
        }
    }

    /// (Apart, so that it does not lengthen the way inside a host.)
    #[inline(never)]
    fn send_short_away(&mut self, qp: Qp, header: [u64; 2], payload: UserBuf) -> bool {
        let rdma = self.rdma.as_mut().filter(|_| qp.provider() == ProviderKind::Verbs);
        rdma.is_some_and(|rdma| rdma.send_short(qp, header, payload))
    }

    /// As [`Context::post_send`], from ordinary memory, which is always copied: `Later` says only that it has not left
    /// yet.
    pub fn post_send_bytes(
        &mut self,
        qp: Qp,
        header: [u64; 2],
        payload: &[u8],
        push: Push,
    ) -> Result<Posted, PostError> {
        match qp.provider() {
            ProviderKind::Soft => self.soft.post_send_bytes(qp, header, payload).map(|()| Posted::Done),
            ProviderKind::Sockets => match &mut self.sockets {
                Some(sockets) => sockets.post_send_bytes(qp, header, payload, push),
                None => Err(PostError::Stale),
            },
            ProviderKind::Verbs => self.post_verbs(qp, header, Source::Bytes(payload)),
        }
    }

    /// As [`Context::post_send`], but the payload is copied, however long it is.
    pub fn post_send_copied(
        &mut self,
        qp: Qp,
        header: [u64; 2],
        payload: UserBuf,
        push: Push,
    ) -> Result<Posted, PostError> {
        match qp.provider() {
            ProviderKind::Soft => self.soft.post_send(qp, header, payload).map(|()| Posted::Done),
            ProviderKind::Sockets => {
                let mut copy = vec![0; payload.len()];
                payload.copy_to(&mut copy);
                self.post_send_bytes(qp, header, &copy, push)
            }
            ProviderKind::Verbs => self.post_verbs(qp, header, Source::User(payload)),
        }
    }

    fn post_verbs(&mut self, qp: Qp, header: [u64; 2], from: Source<'_>) -> Result<Posted, PostError> {
        self.rdma.as_mut().ok_or(PostError::Stale)?.post_message(qp, header, from)
    }

    /// The longest message that a queue pair can be sure to take at the moment.
    pub fn fragment_max(&self, qp: Qp) -> usize {
        match qp.provider() {
            ProviderKind::Soft => self.soft.fragment_max(qp),
            kind => self.caps(kind).message_max,
        }
    }

    /// Has what was posted with [`Push::Soon`] leave now.
    #[inline]
    pub fn flush(&mut self) {
        if let Some(sockets) = &mut self.sockets {
            sockets.flush();
        }
    }

    /// The next event, if there is one. Call again until there is none.
    #[inline]
    pub fn poll(&mut self) -> Option<Event<'_>> {
        if self.has_devices() { self.poll_all() } else { self.soft.poll() }
    }

    /// May [`Context::poll`] have something that [`Context::poll_ring`] had not?
    #[inline]
    pub fn has_others(&self) -> bool {
        self.has_devices() || self.soft.has_others()
    }

    /// The same behind an event, but for what an RDMA device has got meanwhile. (To look at it takes longer than a message through
    /// shared memory, and what it lends, a slot of many, nobody waits for.)
    #[inline]
    pub fn has_more(&self) -> bool {
        match &self.rdma {
            Some(rdma) if self.has_only_rdma() => {
                rdma.has_more() || self.soft.has_others() || self.soft.any_ready()
            }
            _ => self.has_others(),
        }
    }

    /// Is there anything but shared memory?
    #[inline(always)]
    pub fn has_devices(&self) -> bool {
        self.sockets.is_some() || self.rdma.is_some()
    }

    /// The message that was polled last is not needed any more, and there is more to come. Whoever polls until there is
    /// nothing left need not say so.
    #[inline]
    pub fn give_back(&mut self) {
        self.soft.give_back();
        if let Some(rdma) = &mut self.rdma {
            rdma.give_back();
        }
    }

    /// The commonest event, before all others are looked for by [`Context::poll`]: a message in a ring that is polled
    /// directly. It comes in registers, where an [`Event`] would go through memory.
    #[inline(always)]
    pub fn poll_ring(&mut self) -> Option<(Qp, ring::View<'_>)> {
        if self.has_devices() { None } else { self.soft.poll_ring() }
    }

    /// The same for an RDMA device that has all connections but those of the host.
    #[inline]
    pub fn poll_rdma(&mut self) -> Option<(Qp, SlotView<'_>)> {
        let found = self.rdma.as_mut()?.poll_message();
        if found.is_some() {
            self.turns.rdma_had();
        }
        found
    }

    /// Does an RDMA device have all connections but those of the host? (Others are looked at by [`Context::poll`], and so is what
    /// comes without a connection.)
    #[inline]
    pub fn has_only_rdma(&self) -> bool {
        self.rdma.is_some() && self.sockets.as_ref().is_none_or(|sockets| sockets.count() == 0)
    }

    /// Has [`Context::poll`] something that [`Context::poll_rdma`] had not?
    #[inline]
    pub fn has_beside_rdma(&self) -> bool {
        self.soft.any_ready() || self.rdma.as_ref().is_some_and(|rdma| rdma.has_found())
    }

    /// The next message that has arrived on a queue pair whose peer sends nothing more. On a stream the last word of the
    /// peer is behind all else; in shared memory it comes by another way.
    pub fn poll_only(&mut self, qp: Qp) -> Option<View<'_>> {
        if qp.provider() == ProviderKind::Soft { self.soft.poll_only(qp) } else { None }
    }

    /// A look at an RDMA device is a few loads, as one at a ring is. They take turns, and now and then sockets have theirs.
    fn poll_all(&mut self) -> Option<Event<'_>> {
        let rdma_first = self.turns.begins(self.soft.any_ready(), self.sockets.is_some());
        // (Not `if let`: what it would give is borrowed until the end, also where there is none.)
        if rdma_first && self.rdma.as_mut().is_some_and(|rdma| rdma.look()) {
            self.turns.rdma_had();
            // What was posted leaves, though nobody looks at sockets in this round.
            if let Some(sockets) = self.sockets.as_mut().filter(|sockets| sockets.has_dirty()) {
                sockets.flush();
            }
            return self.rdma.as_mut()?.poll();
        }
        if self.sockets.is_none() { self.soft.poll() } else { self.poll_both() }
    }

    /// A look at a socket is a system call, ten times as dear as a message in shared memory: while shared memory is
    /// busy they are looked at rarely.
    fn poll_both(&mut self) -> Option<Event<'_>> {
        let sockets = self.sockets.as_mut()?;
        let only_rdma = self.rdma.is_some() && sockets.count() == 0;
        let look = self.turns.others(Beside { soft: self.soft.count() > 0, only_rdma });
        if look != Look::Sockets {
            if let Some(event) = self.soft.poll() {
                self.turns.soft_had();
                return Some(event);
            }
            if look == Look::Soft {
                if sockets.has_dirty() {
                    sockets.flush();
                }
                return None;
            }
        }
        let event = sockets.poll();
        if event.is_none() {
            self.turns.sockets_had_nothing();
        }
        event
    }

    /// Gives the message that [`Event::Incoming`] announced its destination; what does not fit is dropped.
    pub fn place(&mut self, qp: Qp, to: UserBufMut) -> Posted {
        self.sockets.as_mut().expect("announced by sockets").place(qp, to)
    }

    /// Has the message that [`Event::Incoming`] announced collected: it comes as [`Event::Receive`] when it is whole.
    pub fn keep(&mut self, qp: Qp) {
        self.sockets.as_mut().expect("announced by sockets").keep(qp);
    }

    /// Sends a control message: on the queue pair's own connection where there is one, else as a datagram.
    pub fn send_control(&mut self, qp: Option<Qp>, to: &Card, bytes: &[u8]) -> Result<Sent, ControlError> {
        let kind = match qp {
            Some(qp) => qp.provider(),
            None => self.reach(to)?,
        };
        let on_stream = qp.is_some() && self.caps(kind).control_on_stream;
        if self.faults.is_some() && !on_stream {
            return self.send_faultily(kind, qp, to, bytes);
        }
        self.provider(kind).send_control(qp, to, bytes)
    }

    /// Puts a datagram into the mailbox of a process of this host that cannot answer the same way, and that has no
    /// address yet.
    pub fn knock(&mut self, at: &Card, bytes: &[u8]) -> Result<Sent, ControlError> {
        self.soft.send_control(None, at, bytes)
    }

    fn send_faultily(
        &mut self,
        kind: ProviderKind,
        qp: Option<Qp>,
        to: &Card,
        bytes: &[u8],
    ) -> Result<Sent, ControlError> {
        let datagram = Datagram { kind, qp, to: *to, bytes: bytes.to_vec() };
        let Some(faults) = &mut self.faults else { return Ok(Sent::Dropped) };
        let mut sent = Ok(Sent::Dropped);
        for Datagram { kind, qp, to, bytes } in faults.meet(datagram) {
            sent = self.provider(kind).send_control(qp, &to, &bytes);
        }
        sent
    }

    /// Of a queue pair that broke: has the peer closed its end in order, after all that it had sent? Where connections are no streams
    /// that cannot be told.
    pub fn has_ended(&self, qp: Qp) -> bool {
        let sockets = self.sockets.as_ref().filter(|_| qp.provider() == ProviderKind::Sockets);
        sockets.is_some_and(|sockets| sockets.has_ended(qp))
    }

    /// Says that messages of `bytes` in total will follow closely, so that a larger ring pays.
    pub fn expect_stream(&mut self, qp: Qp, bytes: usize) {
        if qp.provider() == ProviderKind::Soft {
            self.soft.expect_stream(qp, bytes);
        }
    }

    /// Can a queue pair's peer be read and written without its help?
    pub fn reads_alone(&self, qp: Qp) -> bool {
        self.caps(qp.provider()).reads_alone
    }

    /// Bytes of the ring through which the peer's messages come; 0 where there is none.
    pub fn room_in(&self, qp: Qp) -> usize {
        if qp.provider() == ProviderKind::Soft { self.soft.room_in(qp) } else { 0 }
    }

    /// Is a message of these bytes short enough for the ring as it is?
    #[inline]
    pub fn takes(&self, qp: Qp, bytes: usize) -> bool {
        qp.provider() == ProviderKind::Soft && self.soft.takes(qp, bytes)
    }

    /// Does the ring take a message of these bytes now?
    pub fn has_room(&mut self, qp: Qp, bytes: usize) -> bool {
        match (qp.provider(), &mut self.rdma) {
            (ProviderKind::Soft, _) => self.soft.has_room(qp, bytes),
            (ProviderKind::Verbs, Some(rdma)) => rdma.has_room(qp),
            _ => false,
        }
    }

    /// Bytes of the ring through which messages go to the peer; 0 where there is none.
    pub fn room_out(&self, qp: Qp) -> usize {
        if qp.provider() == ProviderKind::Soft { self.soft.room_out(qp) } else { 0 }
    }

    /// Does the peer ask for rendezvous instead of eager messages?
    #[inline]
    pub fn is_peer_frugal(&self, qp: Qp) -> bool {
        match (qp.provider(), &self.sockets, &self.rdma) {
            (ProviderKind::Sockets, Some(sockets), _) => sockets.is_peer_frugal(qp),
            (ProviderKind::Verbs, _, Some(rdma)) => rdma.is_peer_frugal(qp),
            _ => self.soft.is_peer_frugal(qp),
        }
    }

    /// Asks all peers for rendezvous instead of eager messages, or takes that back.
    pub fn set_frugal(&mut self, frugal: bool) {
        self.soft.set_frugal(frugal);
        if let Some(sockets) = &mut self.sockets {
            sockets.set_frugal(frugal);
        }
        if let Some(rdma) = &mut self.rdma {
            rdma.set_frugal(frugal);
        }
    }

    /// The key that sockets prove themselves with, where no agent gave one.
    pub fn set_key(&mut self, key: [u8; 32]) {
        self.key = Some(key);
        if let Some(sockets) = &mut self.sockets {
            sockets.set_key(key);
        }
        if let Some(rdma) = &mut self.rdma {
            rdma.set_key(key);
        }
    }

    /// The key is shared with another job, of which the process with this nonce in its card is one.
    pub fn share_key(&mut self, key: [u8; 32], nonce: Option<u64>) {
        self.shared_keys.push((key, nonce));
        if let Some(sockets) = &mut self.sockets {
            sockets.share_key(key, nonce);
        }
        if let Some(rdma) = &mut self.rdma {
            rdma.share_key(key, nonce);
        }
    }

    /// The job that the key was shared with has disconnected.
    pub fn forget_key(&mut self, key: [u8; 32]) {
        self.shared_keys.retain(|(other, _)| *other != key);
        if let Some(sockets) = &mut self.sockets {
            sockets.forget_key(key);
        }
        if let Some(rdma) = &mut self.rdma {
            rdma.forget_key(key);
        }
    }

    /// Are there sockets?
    #[inline]
    pub fn has_sockets(&self) -> bool {
        self.sockets.is_some()
    }

    /// When timers of providers are due, at the latest: [`Context::tick`] looks after them.
    pub fn next_due_ns(&self) -> Option<u64> {
        let sockets = self.sockets.as_deref().and_then(Sockets::next_due_ns);
        let rdma = self.rdma.as_deref().and_then(Rdma::next_due_ns);
        [self.soft.next_due_ns(), sockets, rdma].into_iter().flatten().min()
    }

    /// Looks after timers: large rings that are idle, dials that take too long, strangers that do not speak.
    pub fn tick(&mut self, now_ns: u64) {
        self.soft.tick(now_ns);
        if let Some(sockets) = &mut self.sockets {
            sockets.tick(now_ns);
        }
        if let Some(rdma) = &mut self.rdma {
            rdma.tick(now_ns);
        }
    }

    /// Datagrams lost because there was no room for them here.
    pub fn datagrams_dropped(&mut self) -> u64 {
        let sockets = self.sockets.as_deref_mut().map_or(0, Provider::datagrams_dropped);
        let rdma = self.rdma.as_deref_mut().map_or(0, Provider::datagrams_dropped);
        self.soft.datagrams_dropped() + sockets + rdma
    }

    /// Datagrams and connections of strangers that were refused.
    pub fn strangers(&self) -> u64 {
        self.sockets.as_deref().map_or(0, Sockets::strangers)
            + self.rdma.as_deref().map_or(0, Rdma::strangers)
    }

    /// Messages that an RDMA device has brought twice, which were dropped.
    pub fn repeated(&self) -> u64 {
        self.rdma.as_deref().map_or(0, Rdma::repeated)
    }

    /// Bytes of shared memory mapped: the own segment, heads and rings of peers.
    pub fn mapped_bytes(&self) -> u64 {
        self.soft.memory_bytes()
    }

    /// Bytes of buffers that sockets have in this process.
    pub fn socket_bytes(&self) -> u64 {
        self.sockets.as_deref().map_or(0, Provider::memory_bytes)
    }

    /// Bytes that are registered with the RDMA device for messages.
    pub fn registered_bytes(&self) -> u64 {
        self.rdma.as_deref().map_or(0, Provider::memory_bytes)
    }

    /// Bytes of the own segment with pages behind them.
    pub fn touched_bytes(&self) -> u64 {
        self.soft.touched_bytes()
    }
}

/// The key that the agent gave, as bytes.
fn key_bytes(words: &[u64; 4]) -> [u8; 32] {
    let mut key = [0; 32];
    for (part, word) in key.chunks_exact_mut(8).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    key
}

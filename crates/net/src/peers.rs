//! Drives `proto::wireup`: carries out what it decides on this process's device.
use crate::api::{Addressee, Cause, NetError};
use crate::endpoint::Endpoint;
use fabric::state::QpState;
use fabric::{BreakReason, Card, CreateError, ProviderKind, Qp, QpClaim, ReachError, Role};
use proto::ids::{NodeId, Peer, PeerIx, Rank};
use proto::transfer;
use proto::wireup::{self, Action, Budget, Medium, NeedError, Params, Progress, QpFor, StateName, Word};
use std::sync::Arc;

/// How long the launcher has to end this process before a connection that its peer has closed is an error here: it
/// knows better why the peer is gone.
const NOTICE_NS: u64 = 1_000_000_000;

/// A peer whose connection is lost, and when that becomes an error.
#[derive(Debug)]
pub(crate) struct Doomed {
    pub due_ns: u64,
    pub ix: PeerIx,
    cause: Arc<Cause>,
}

impl Endpoint {
    /// This process among its peers.
    pub(crate) const SELF: PeerIx = PeerIx::ME;

    /// The number of a peer, given out on first use.
    pub(crate) fn intern(&mut self, peer: Peer) -> Result<PeerIx, NetError> {
        let ix = self.wireup.intern(peer).map_err(|_| NetError::NoSuchPeer { peer, size: self.job.size })?;
        self.link(ix);
        Ok(ix)
    }

    /// The same, for whoever may have one already.
    #[inline(always)]
    pub(crate) fn number(&mut self, peer: impl Addressee) -> Result<PeerIx, NetError> {
        match peer.find(&self.wireup) {
            Some(ix) => Ok(ix),
            None => self.intern(peer.peer(self.job.id, &self.wireup)),
        }
    }

    /// Somebody wants to talk to a peer that is not connected.
    pub(crate) fn need(&mut self, ix: PeerIx) {
        let now_ns = self.now_ns();
        match self.wireup.need(ix, now_ns) {
            Ok(Progress::Pending) => {
                self.note_need(ix, now_ns);
                self.note_use(ix, now_ns);
            }
            Err(NeedError::Lost { why, .. }) => {
                let error = self.unreachable(ix, why);
                self.fail(ix, error);
            }
            Ok(Progress::Ready) => self.unpark(ix),
            Err(_) => {}
        }
        self.carry_out();
    }

    /// A control message came in.
    pub(crate) fn handshake(&mut self, datagram: &[u8]) {
        if let Some((word, peer)) = Word::parse(datagram, self.job.id) {
            return self.hear(word, peer);
        }
        let now_ns = self.now_ns();
        // What was refused is counted by the machine; a stranger's datagram is no reason to stop.
        let _ = self.wireup.datagram(datagram, now_ns);
        self.carry_out();
    }

    /// Closes the connection to a peer as soon as nothing is under way on it. It is opened again when it is needed.
    pub fn close(&mut self, peer: Peer) {
        let now_ns = self.now_ns();
        if let Some(ix) = self.wireup.find(peer)
            && self.wireup.state(ix) == StateName::Ready
        {
            let _ = self.wireup.close(ix, now_ns);
            self.carry_out();
        }
    }

    /// The same for a rank of the own job.
    pub fn close_rank(&mut self, rank: u32) {
        self.close(Peer::Rank { job: self.job.id, rank: Rank(rank) });
    }

    pub(crate) fn carry_out(&mut self) {
        // Whoever is at it already does the rest too, in order.
        if std::mem::replace(&mut self.waits.carrying, true) {
            return;
        }
        while let Some(action) = self.wireup.poll_action() {
            match action {
                Action::Lookup { ix, peer } => self.look_up(ix, peer),
                Action::CreateQp { ix, peer, card } => self.create(ix, peer, &card),
                Action::CreateAhead { ix, .. } => self.waits.aheads.push(ix),
                Action::Announce { card, datagram, .. } => self.announce_to(&card, datagram.as_bytes()),
                Action::Send { ix, card, datagram, .. } => {
                    self.send_handshake(ix, &card, datagram.as_bytes())
                }
                Action::Connect { ix, params, card } => self.connect(ix, &params, &card),
                Action::Ready { ix, name } => self.ready(ix, name),
                Action::Drain { ix } => self.drain(ix),
                Action::Destroy { ix } => self.destroy(ix),
                Action::MakeRoom => self.make_room(),
                Action::Tell { slot, word } => self.tell_slot(slot, word),
                Action::Closed { ix } => self.note_closed(ix),
                Action::Failed { ix, why } => {
                    self.note_failed(ix);
                    let error = self.unreachable(ix, why);
                    self.fail(ix, error);
                }
            }
            self.waits.news += 1;
        }
        self.waits.carrying = false;
        self.say_if_lacking();
        self.set_timers();
    }

    /// The card of a peer, at once or when the board has it.
    fn look_up(&mut self, ix: PeerIx, peer: Peer) {
        match self.card_of(peer) {
            Ok(Some(card)) => self.found(ix, &card),
            Ok(None) => self.waits.lookups.push(ix),
            Err(cause) => self.lose(ix, cause),
        }
    }

    /// Looks again for the cards that were not there yet. Was one found?
    pub(crate) fn look_again(&mut self) -> bool {
        if self.waits.lookups.is_empty() || !self.fence_is_over() {
            return false;
        }
        for ix in std::mem::take(&mut self.waits.lookups) {
            if let Some(peer) = self.wireup.who(ix) {
                self.look_up(ix, peer);
            }
        }
        self.carry_out();
        true
    }

    fn found(&mut self, ix: PeerIx, card: &Card) {
        let now_ns = self.now_ns();
        match wireup::Card::new(&card.to_bytes()) {
            Ok(card) => drop(self.wireup.card(ix, card, now_ns)),
            Err(_) => self.lose(ix, Cause::Card(fabric::CardError::Length(card.to_bytes().len()))),
        }
    }

    fn create(&mut self, ix: PeerIx, peer: Peer, card: &wireup::Card) {
        let now_ns = self.now_ns();
        let (role, claim) = match self.wireup.qp_for(ix, now_ns) {
            QpFor::Attempt => (Role::Asks, QpClaim::Attempt),
            QpFor::PressingAttempt => (Role::Asks, QpClaim::PressingAttempt),
            QpFor::Answer => (Role::Answers, QpClaim::Answer),
        };
        let made = self.make_qp(card, role, claim);
        self.counters.qp_create_ns += self.now_ns() - now_ns;
        match made {
            Ok((qp, params)) => {
                self.made(ix, qp, params, now_ns);
            }
            Err(Refused::ForNow(cause @ Cause::Create(CreateError::Device(_)))) => {
                let node = self.node_device();
                let _ = self.wireup.qp_withheld(ix, Arc::new(cause), &node, now_ns);
            }
            Err(Refused::ForNow(cause)) => drop(self.wireup.qp_refused(ix, Arc::new(cause), now_ns)),
            Err(Refused::Crowded(cause)) => {
                if matches!(cause, Cause::Create(CreateError::TargetsFull)) && self.waits.fits.is_none() {
                    self.waits.afterwards = Some(self.wireup.budget());
                }
                self.fit_rdma(now_ns);
                let _ = self.wireup.qp_refused(ix, Arc::new(cause), now_ns);
            }
            // The peer would wait for an answer for ever, and nobody here waits to be told.
            Err(Refused::ForGood(cause)) if self.link(ix).queue.is_empty() && role == Role::Answers => {
                let peer = self.name_of(peer);
                self.abort(1, &format!("{peer} asks for a connection, but {cause}"))
            }
            Err(Refused::ForGood(cause)) => self.lose(ix, cause),
        }
    }

    /// There is a queue pair for a peer.
    pub(crate) fn made(&mut self, ix: PeerIx, qp: Qp, params: Params, now_ns: u64) {
        let caps = self.context.caps(qp.provider());
        self.name_qp(qp, ix);
        let link = self.link(ix);
        (link.qp, link.kind) = (Some(qp), Some(qp.provider()));
        link.eager_max = u32::try_from(transfer::eager_max(means(&caps))).unwrap_or(u32::MAX);
        let medium = if caps.control_on_stream { Medium::Stream } else { Medium::Datagrams };
        if self.wireup.qp_ready(ix, params, medium, now_ns).is_err() {
            self.link(ix).qp = None;
            self.context.destroy_qp(qp);
            self.wireup.destroyed(ix, now_ns);
        }
        if qp.provider() == ProviderKind::Verbs
            && let Some(budget) = self.waits.afterwards.take()
        {
            self.waits.fits = None;
            self.wireup.set_budget(budget, now_ns);
        }
    }

    /// Has a peer make its queue pair while this process makes its own. On a stream there is nothing to be made before, and what
    /// gets lost is no loss.
    fn announce_to(&mut self, card: &wireup::Card, datagram: &[u8]) {
        let Ok(card) = Card::from_bytes(card.as_bytes()) else { return };
        let reached = self.context.reach(&card).ok();
        if reached.is_some_and(|kind| !self.context.caps(kind).control_on_stream) {
            let _ = self.context.send_control(None, &card, datagram);
        }
    }

    fn make_qp(&mut self, card: &wireup::Card, role: Role, claim: QpClaim) -> Result<(Qp, Params), Refused> {
        let card = Card::from_bytes(card.as_bytes()).map_err(|e| Refused::ForGood(e.into()))?;
        let kind = match self.context.reach(&card) {
            Ok(kind) => kind,
            Err(ReachError::NotShared) if card.soft.is_some() => return Err(self.ask_to_be_called(&card)),
            Err(error) => return Err(Refused::ForGood(error.into())),
        };
        if kind == ProviderKind::Sockets {
            self.open_sockets().map_err(Refused::ForGood)?;
        }
        let qp = self.context.create_qp_for(kind, claim, &card).map_err(|error| self.refused(error))?;
        self.context.to_init(qp, &card, role).map(|params| (qp, params)).map_err(|error| {
            self.context.destroy_qp(qp);
            match error {
                fabric::ConnectError::Memory(_) | fabric::ConnectError::Descriptors { .. } => {
                    Refused::ForNow(Cause::Connect(Arc::new(error)))
                }
                error => Refused::ForGood(Cause::Connect(Arc::new(error))),
            }
        })
    }

    /// An RDMA device has no more of something: connections of this process have to go for others, if there are some.
    fn rdma_is_short(&self, cause: Cause) -> Refused {
        // What others send to, of those that share connections, is not this process's to close.
        let shares = self.context.card().verbs.is_some_and(|verbs| verbs.domain != 0);
        if let Cause::Create(error) = cause
            && shares
        {
            return Refused::ForGood(Cause::TooSmallToShare(error));
        }
        if self.has_some_by_rdma() { Refused::Crowded(cause) } else { Refused::ForGood(cause) }
    }

    /// Has this process connections by RDMA that can go for others?
    fn has_some_by_rdma(&self) -> bool {
        self.context.qps(ProviderKind::Verbs) >= Budget::QUEUE_PAIRS_MIN as usize
    }

    /// As many connections as there are now are all that there can be: others are closed for new ones.
    fn fit_rdma(&mut self, now_ns: u64) {
        let kinds = [ProviderKind::Soft, ProviderKind::Sockets, ProviderKind::Verbs];
        let held: usize = kinds.into_iter().map(|kind| self.context.qps(kind)).sum();
        let fits = u32::try_from(held).unwrap_or(u32::MAX).max(self.waits.fits.unwrap_or(0));
        if self.waits.fits.replace(fits) != Some(fits) {
            self.wireup.set_budget(Budget { queue_pairs: Some(fits) }, now_ns);
        }
    }

    /// A device that is too small even without any connection will never have one more.
    pub(crate) fn refused(&self, error: CreateError) -> Refused {
        let slots = self.context.facts().slots; // each process has one queue pair for datagrams
        match error {
            CreateError::Device(limit) if slots + limit.kept >= limit.max => {
                Refused::ForGood(Cause::Device { error, slots })
            }
            CreateError::Refused { code } if is_shortage(code) => self.rdma_is_short(error.into()),
            CreateError::Refused { .. } => Refused::ForGood(error.into()),
            // As many processes elsewhere are connected to this node: one of its processes has to close a connection for each new one.
            CreateError::TargetsFull if self.has_some_by_rdma() => Refused::Crowded(error.into()),
            CreateError::TargetsFull => Refused::ForNow(error.into()),
            error => Refused::ForNow(error.into()),
        }
    }

    /// Nobody can share memory with this process, and the peer, which others can, has opened no sockets: it cannot be
    /// asked for a connection, but to ask for one itself. That may get lost, as the next attempt shows.
    fn ask_to_be_called(&mut self, card: &Card) -> Refused {
        let cause = Cause::Reach(ReachError::NotShared);
        match self.context.knock(card, &Word::Call.emit(self.me())) {
            Ok(_) => Refused::ForNow(cause),
            Err(_) => Refused::ForGood(cause),
        }
    }

    /// The queue pair's peer, for what arrives unnamed and for what breaks.
    fn name_qp(&mut self, qp: Qp, ix: PeerIx) {
        let table = &mut self.by_qp[qp.provider() as usize];
        if table.len() <= qp.index() {
            table.resize(qp.index() + 1, Self::SELF);
        }
        table[qp.index()] = ix;
    }

    fn send_handshake(&mut self, ix: PeerIx, card: &wireup::Card, datagram: &[u8]) {
        let qp = self.link(ix).qp;
        let sent = Card::from_bytes(card.as_bytes()).map_err(Cause::from).and_then(|to| {
            self.context.send_control(qp, &to, datagram).map_err(|e| Cause::Control(Arc::new(e)))
        });
        // A full mailbox is a lost datagram, which the machine sends again.
        if let Err(cause) = sent {
            self.lose(ix, cause);
        }
    }

    fn connect(&mut self, ix: PeerIx, params: &Params, card: &wireup::Card) {
        let Some(qp) = self.link(ix).qp else { return };
        if self.context.qp_state(qp) == QpState::Error {
            return; // the peer has answered and gone, and an event says why, or has said so
        }
        let begun_ns = self.now_ns();
        let connected = Card::from_bytes(card.as_bytes()).map_err(Cause::from).and_then(|card| {
            let moved = self.context.to_rtr(qp, &card, params).and_then(|()| self.context.to_rts(qp));
            moved.map_err(|e| Cause::Connect(Arc::new(e)))
        });
        let now_ns = self.now_ns();
        self.counters.qp_ready_ns += now_ns - begun_ns;
        match connected {
            Ok(()) => drop(self.wireup.connected(ix, now_ns)),
            Err(cause) => self.lose(ix, cause),
        }
    }

    fn ready(&mut self, ix: PeerIx, name: u32) {
        let is_parked = self.parks(ix);
        let link = self.link(ix);
        link.ready = link.qp;
        link.name = name;
        link.owes = false;
        link.forget_kept();
        if let Some(qp) = link.ready {
            self.note_ready(ix, qp.provider());
        }
        if is_parked {
            self.link(ix).ready = None;
        }
        self.resume(ix);
    }

    /// To be closed: what waits at this moment goes, and nothing new.
    fn drain(&mut self, ix: PeerIx) {
        self.forget_parked(ix);
        let link = self.link(ix);
        link.ready = None;
        link.rare().closing = Some(link.queue.len());
        self.waits.draining.push(ix);
        self.finish_drains();
    }

    /// Closes what has nothing under way any more. Did anything move?
    pub(crate) fn finish_drains(&mut self) -> bool {
        let before = self.waits.draining.len();
        for ix in std::mem::take(&mut self.waits.draining) {
            let (Some(qp), Some(left)) = (self.link(ix).qp, self.link(ix).closing()) else { continue };
            if left > 0 || !self.context.is_drained(qp) {
                self.waits.draining.push(ix);
                continue;
            }
            let _ = self.context.to_sqd(qp);
            let now_ns = self.now_ns();
            let _ = self.wireup.drained(ix, now_ns);
        }
        self.carry_out();
        self.waits.draining.len() < before
    }

    /// Ends a queue pair. What has arrived on it is taken in first, unless it is broken: the peer sends nothing more
    /// there, and what it sends on the next one comes behind.
    fn destroy(&mut self, ix: PeerIx) {
        self.forget_parked(ix);
        let link = self.link(ix);
        link.ready = None;
        link.end_closing();
        link.tidy();
        if let Some(qp) = link.qp.take() {
            // What is lost is not read to its end either: its buffers go back to the program.
            let lost = self.wireup.state(ix) == StateName::Failed;
            if !lost && self.context.qp_state(qp) != QpState::Error {
                self.take_rest(qp);
            }
            let carried = self.context.traffic_bytes(qp);
            if let Some(amounts) = self.amounts(ix) {
                amounts.carried += carried;
            }
            self.context.destroy_qp(qp);
        }
        let now_ns = self.now_ns();
        if self.wireup.destroyed(ix, now_ns) {
            self.gave_back();
        }
    }

    /// A queue pair broke below.
    pub(crate) fn broken(&mut self, qp: Qp, cause: Cause) {
        let Some(&ix) = self.by_qp[qp.provider() as usize].get(qp.index()) else { return };
        if self.link(ix).qp != Some(qp) {
            self.context.destroy_qp(qp); // one that was being closed
            return;
        }
        self.forget_parked(ix);
        let now_ns = self.now_ns();
        if self.context.has_ended(qp) && self.wireup.ended(ix, now_ns) {
            return self.carry_out();
        }
        // (A device says at once that a peer's end is gone, before that one's agent may have seen it die.)
        let gone = matches!(
            cause,
            Cause::Break(BreakReason::Closed | BreakReason::Lost { .. } | BreakReason::Device { .. })
        );
        if gone && self.job.serves.is_some() {
            // A rank that has left. If it has not, its agent says so.
            self.lose(ix, cause);
            self.carry_out();
        } else if gone && self.job.leaving {
            self.link(ix).ready = None;
        } else if gone && self.job.pmi.is_some() {
            let due_ns = self.now_ns() + NOTICE_NS;
            self.link(ix).ready = None;
            self.waits.doomed.push(Doomed { due_ns, ix, cause: Arc::new(cause) });
            self.set_timers();
        } else {
            self.lose(ix, cause);
            self.carry_out();
        }
    }

    /// Connections that broke a while ago are errors now, since nobody has ended this process.
    pub(crate) fn lose_doomed(&mut self, now_ns: u64) -> bool {
        let due = self.waits.doomed.iter().position(|doomed| doomed.due_ns <= now_ns);
        let Some(at) = due else { return false };
        let doomed = self.waits.doomed.swap_remove(at);
        self.wireup.broken(doomed.ix, doomed.cause);
        self.carry_out();
        true
    }

    /// The peer cannot be reached, now or any more.
    pub(crate) fn lose(&mut self, ix: PeerIx, cause: Cause) {
        self.wireup.broken(ix, Arc::new(cause));
    }

    /// The error for whoever waits for a peer.
    pub(crate) fn unreachable(&mut self, ix: PeerIx, cause: Arc<Cause>) -> NetError {
        let peer = self.who(ix);
        let node = self.node_of_peer(peer);
        NetError::Unreachable { peer, node, host: self.host_of(node), cause }
    }

    pub(crate) fn node_of_peer(&self, peer: Peer) -> NodeId {
        match peer {
            Peer::Rank { job, rank } if job == self.job.id && rank.0 < self.job.size => self.node_of(rank),
            Peer::Server { node, .. } => node,
            // Of another job, whose nodes have numbers of their own.
            Peer::Rank { .. } => self.job.met.get(&peer).map_or(NodeId(0), |card| NodeId(card.node)),
        }
    }

    pub(crate) fn is_remote(&self, ix: PeerIx) -> bool {
        let who = self.who(ix);
        match self.job.met.get(&who) {
            Some(card) => !self.context.shares_host(card),
            None => self.node_of_peer(who) != self.node_of(self.rank()),
        }
    }

    /// Ranks of its own job that this process is connected to, in order.
    pub fn connected_peers(&self) -> Vec<Rank> {
        let is_ready = |ix: PeerIx| {
            self.links.get(ix.index()).is_some_and(|link| link.ready.is_some()) || self.is_parked(ix)
        };
        let ready = self.wireup.peers().filter(|(ix, _)| is_ready(*ix));
        let own = ready.filter(|(_, peer)| peer.job() == self.job.id);
        let mut peers: Vec<Rank> = own.filter_map(|(_, peer)| peer.rank()).collect();
        peers.sort_unstable();
        peers
    }
}

/// Why there is no queue pair.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It may be had later.
    ForNow(Cause),
    /// It may be had when this process closes another connection.
    Crowded(Cause),
    /// Never.
    ForGood(Cause),
}

/// Has a device no more of something, rather than that it cannot do what is wanted?
fn is_shortage(code: i32) -> bool {
    matches!(
        std::io::Error::from_raw_os_error(code).kind(),
        std::io::ErrorKind::OutOfMemory | std::io::ErrorKind::WouldBlock
    )
}

fn means(caps: &fabric::Caps) -> transfer::Means {
    transfer::Means { reads_alone: caps.reads_alone, places: caps.places, message_max: caps.message_max }
}

//! Connections that the processes of a node share (XRC): a queue pair that sends, an *initiator*, reaches all processes of another
//! node, which have an XRC domain together.
//!
//! ```text
//! process p                                  node of q and r
//!   pair with q \                              / receive queue of q
//!                initiator  ---->  target of p
//!   pair with r /                              \ receive queue of r
//! ```
//! It goes one way: what q sends comes from q's own initiator to the target that p's node has for q. The handshake of a pair tells
//! the number of the initiator, of the target here for the peer's, of the own receive queue, and the name that goes beside
//! messages to this pair. So the first pair with a node connects the initiator (a *direct* connection), and the others
//! find it (*indirect* ones).
//!
//! A target is found in the node's table by the process that sends to it, and opened by each process that has a pair with that
//! one: it is there as long as one of them has it open. Who finds it connected to another initiator connects it
//! anew, if that one is the later: a process has one for a node at a time.
//!
//! What breaks an initiator breaks all its pairs. (So does a message to a process that is gone, as devices have it.)
use super::link::{End, Half, Link};
use super::post::Pending;
use super::receive::{RECEIVE, Which};
use super::*;
use crate::soft::SharedCounts;
use std::cell::Cell;
use sys::node::{Initiator as Sender, NodeSegment, TargetError};
use verbs::{Srq, Xrcd};

/// In the name of a pair: it is one that is shared. Numbers of queue pairs are smaller.
const NAMED: u32 = 1 << 31;
const NAME_INDEX_BITS: u32 = 20;
/// The number of the first packet of what a target would send.
const NO_PSN: u32 = 0;

/// The node that a process is on, and its slot there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub node: Rc<NodeSegment>,
    pub slot: u32,
}

/// What a process shares.
#[derive(Debug)]
pub(super) struct Sharing {
    place: Place,
    domain: Rc<Xrcd>,
    pd: Rc<Pd>,
    /// Names the domain in cards.
    pub id: u64,
    /// The receive queue for everybody, and its number.
    pub srq: Rc<Srq>,
    srq_number: u32,
    /// Those that pairs may join, by the domain that they lead to.
    initiators: HashMap<u64, Rc<Initiator>>,
    last_generation: u32,
    /// Those of this process's node that it has open, by the process elsewhere.
    targets: HashMap<u64, Target>,
    counts: SharedCounts,
}

/// A queue pair that sends to a node.
#[derive(Debug)]
pub(super) struct Initiator {
    pub qp: verbs::Qp,
    /// The domain that it leads to.
    home: u64,
    psn: u32,
    generation: u32,
    /// The target that it is connected to, and which of those with that number it is.
    target: Cell<Option<(u32, u32)>>,
    /// Pairs that use it, and the one that made it or was given it, by its index.
    pairs: Cell<u32>,
    first: Cell<u32>,
    /// Work that has not completed, and messages in it of which nothing is kept.
    busy: Cell<u32>,
    copied: Cell<u32>,
    /// Has a pair found no room for a word about windows?
    short: Cell<bool>,
}

impl Initiator {
    #[inline]
    pub(super) fn has_work_left(&self) -> bool {
        self.busy.get() < WORK_MAX
    }

    #[inline]
    pub(super) fn begins(&self) {
        self.busy.set(self.busy.get() + 1);
    }

    #[inline]
    pub(super) fn ends(&self) {
        self.busy.set(self.busy.get() - 1);
    }

    /// One more message of which nothing is kept.
    #[inline]
    pub(super) fn copies(&self) {
        self.copied.set(self.copied.get() + 1);
    }

    /// One less.
    #[inline]
    pub(super) fn copied_one(&self) {
        self.copied.set(self.copied.get() - 1);
    }

    /// A pair has something to say, and there is no room.
    pub(super) fn lacks_room(&self) {
        self.short.set(true);
    }
}

#[derive(Debug)]
struct Target {
    qp: verbs::Qp,
    /// Which of those with its number.
    count: u32,
    /// The process that sends to it.
    from: VerbsSection,
    /// Pairs with the process that sends to it.
    pairs: u32,
}

/// What a peer has to know of a pair, in the bytes of [`Params`]. Name, number of packets, mtu, reads and the answer are where
/// those of other connections are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SharedParams {
    name: u32,
    psn: u32,
    mtu: u16,
    reads: u8,
    answers: bool,
    /// The queue pair that this side sends by.
    initiator: Sender,
    /// The target here for the peer.
    target: u32,
    srq: u32,
    /// Which of those that had its number that target is.
    target_count: u32,
}

impl SharedParams {
    fn to_params(self) -> Params {
        let mut out = [0; 32];
        out[8..10].copy_from_slice(&self.mtu.to_le_bytes());
        (out[10], out[11]) = (self.reads, self.answers.into());
        let words = [
            (0, self.name),
            (4, self.psn),
            (12, self.initiator.number),
            (16, self.initiator.generation),
            (20, self.target),
            (24, self.srq),
            (28, self.target_count),
        ];
        words.into_iter().for_each(|(at, word)| out[at..at + 4].copy_from_slice(&word.to_le_bytes()));
        Params(out)
    }

    fn from_params(params: &Params) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(params.0[at..at + 4].try_into().expect("four bytes"));
        let params = SharedParams {
            name: word(0),
            psn: word(4),
            mtu: u16::from_le_bytes([params.0[8], params.0[9]]),
            reads: params.0[10],
            answers: params.0[11] != 0,
            initiator: Sender { number: word(12), generation: word(16) },
            target: word(20),
            srq: word(24),
            target_count: word(28),
        };
        let is_number = |number: u32| number > 0 && number < 1 << 24;
        let sane = params.name & NAMED != 0
            && params.psn < 1 << 24
            && params.mtu.is_power_of_two()
            && (256..=4096).contains(&params.mtu)
            && [params.initiator.number, params.target, params.srq].into_iter().all(is_number);
        sane.then_some(params)
    }
}

impl Sharing {
    /// Opens the domain of the node. `None`: the device has no XRC, or refuses it, and connections are not shared.
    pub(super) fn open(place: Place, pd: &Rc<Pd>, cq: &Rc<Cq>, receives: u32) -> Option<Sharing> {
        let context = pd.context();
        if !context.limits().is_ok_and(|limits| limits.xrc) {
            return None;
        }
        let (file, number) = place.node.node_file().ok()?;
        let domain = Xrcd::open(context, Some(file)).ok()?;
        let srq = Srq::of_domain(&domain, pd, cq, receives).ok()?;
        let (srq_number, host) = (srq.number()?, place.node.facts().host);
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let id = [host[0], host[1], number].into_iter().fold(1, mix).max(1);
        Some(Sharing {
            place,
            domain,
            pd: pd.clone(),
            id,
            srq,
            srq_number,
            initiators: HashMap::new(),
            last_generation: 0,
            targets: HashMap::new(),
            counts: SharedCounts::default(),
        })
    }

    /// Opens the target here for a process elsewhere: one that a process of the node has, or a new one.
    fn open_target(&mut self, from: &VerbsSection) -> Result<(), CreateError> {
        let peer = from.nonce;
        if let Some(target) = self.targets.get_mut(&peer) {
            target.pairs += 1;
            return Ok(());
        }
        let lock = self.place.node.lock_target(self.place.slot, key_of(peer));
        let lock = lock.map_err(|error| create_error(&error))?;
        let found =
            match lock.number().map(|number| verbs::Qp::open_of_domain(&self.pd, &self.domain, number)) {
                Some(Ok(qp)) => Some(qp),
                // Nobody has it any more, and nobody has said so.
                Some(Err(error)) if error.error.raw_os_error() == Some(EINVAL) => None,
                Some(Err(error)) => return Err(refused(error)),
                None => None,
            };
        self.counts.targets += 1;
        self.counts.targets_found += u64::from(found.is_some());
        let qp = match found {
            Some(qp) => {
                lock.open();
                qp
            }
            None => {
                let qp = verbs::Qp::of_domain(&self.pd, &self.domain).map_err(refused)?;
                lock.make(qp.num());
                qp
            }
        };
        let count = lock.count();
        self.targets.insert(peer, Target { qp, count, from: *from, pairs: 1 });
        Ok(())
    }

    fn close_target(&mut self, peer: u64) {
        let Some(target) = self.targets.get_mut(&peer) else { return };
        target.pairs -= 1;
        if target.pairs > 0 {
            return;
        }
        // While nobody opens it.
        let lock = self.place.node.lock_target(self.place.slot, key_of(peer));
        lock.iter().for_each(|lock| {
            lock.close();
        });
        self.targets.remove(&peer);
    }

    /// Connects the target to what the process elsewhere sends by, if no other process here has.
    fn connect_target(
        &self,
        peer: u64,
        from: Sender,
        access: (u8, Access),
        dest: &Dest,
        settings: &QpSettings,
    ) -> Result<(), ConnectError> {
        let lock = self.place.node.lock_target(self.place.slot, key_of(peer));
        let lock = lock.map_err(|error| ConnectError::Device(error.to_string()))?;
        let target = self.targets.get(&peer).ok_or(ConnectError::Stale)?;
        let known = lock.initiator();
        if known == from {
            return Ok(());
        }
        if known.number != 0 && from.generation.wrapping_sub(known.generation) as i32 <= 0 {
            return Err(ConnectError::Device("the peer has another queue pair for this node by now".into()));
        }
        lock.connect(Sender::default());
        let (port, access) = access;
        let moved = target.qp.reset().and_then(|()| target.qp.init(port, access));
        moved
            .and_then(|()| target.qp.rtr(dest, settings))
            .map_err(|error| ConnectError::Device(words(&error)))?;
        lock.connect(from);
        Ok(())
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        for peer in self.targets.keys().copied().collect::<Vec<u64>>() {
            self.targets.get_mut(&peer).into_iter().for_each(|target| target.pairs = 1);
            self.close_target(peer);
        }
    }
}

fn create_error(error: &TargetError) -> CreateError {
    match error {
        TargetError::Full => CreateError::TargetsFull,
        TargetError::Busy => CreateError::TargetBusy,
        TargetError::Table(error) => CreateError::Refused { code: error.raw_os_error().unwrap_or(ENOMEM) },
    }
}

fn refused(error: VerbsError) -> CreateError {
    CreateError::Refused { code: error.error.raw_os_error().unwrap_or(0) }
}

/// How the node's table knows a process.
fn key_of(peer: u64) -> u64 {
    peer.max(1)
}

impl Rdma {
    /// The domain of a peer's node, if connections to there are shared.
    pub(super) fn home_of(&self, peer: &Card) -> Option<u64> {
        let (own, other) = (self.sharing.as_ref()?.id, peer.verbs?.domain);
        (other != 0 && other != own).then_some(other)
    }

    /// A pair that shares a queue pair to the peer's node; the first makes it.
    pub(super) fn make_sharing(&mut self, home: u64, peer: &VerbsSection) -> Result<Qp, CreateError> {
        let known = self.sharing.as_ref().and_then(|sharing| sharing.initiators.get(&home)).cloned();
        let is_new = known.is_none();
        let ini = match known {
            Some(ini) => ini,
            None => Rc::new(self.make_initiator(home).map_err(refused)?),
        };
        // A device that has none left says so now.
        self.sharing.iter_mut().try_for_each(|sharing| sharing.open_target(peer))?;
        ini.pairs.set(ini.pairs.get() + 1);
        let half = Half { ini: ini.clone(), peer: peer.nonce, srq: 0, to: 0 };
        let (index, generation) = self.links.insert(Link::new(End::Shared(half), 0, ini.psn, self.frugal));
        let name = NAMED | (generation << NAME_INDEX_BITS) & !NAMED | index;
        assert!(index < 1 << NAME_INDEX_BITS, "{index} connections");
        if let Some(link) = self.links.at_mut(index) {
            link.name = name;
        }
        self.numbers.insert(name, index);
        self.inbox.join(Which::Shared);
        if let Some(sharing) = &mut self.sharing {
            let counts = &mut sharing.counts;
            if is_new {
                ini.first.set(index);
                counts.direct += 1;
                counts.initiators += 1;
                counts.initiators_peak = counts.initiators_peak.max(counts.initiators);
                sharing.initiators.insert(home, ini);
            } else {
                counts.indirect += 1;
            }
        }
        Ok(Qp::new(KIND, index as usize, generation))
    }

    fn make_initiator(&mut self, home: u64) -> Result<Initiator, VerbsError> {
        let qp = self.create_qp(QpKind::XrcSend)?;
        qp.init(self.port.number, Access::READ)?;
        let generation = match &mut self.sharing {
            Some(sharing) => {
                sharing.last_generation += 1;
                sharing.last_generation
            }
            None => 0,
        };
        let zero = || Cell::new(0);
        Ok(Initiator {
            qp,
            home,
            psn: random_psn(),
            generation,
            target: Cell::new(None),
            pairs: zero(),
            first: zero(),
            busy: zero(),
            copied: zero(),
            short: Cell::new(false),
        })
    }

    /// RESET to INIT: tells what there is.
    pub(super) fn prepare_sharing(&mut self, qp: Qp, role: Role) -> Result<Params, ConnectError> {
        let (mtu, reads) = (self.settings.mtu as u16, self.settings.reads_in);
        let link = self.links.get_mut(qp.index(), qp.generation()).ok_or(ConnectError::Stale)?;
        check(link.name, link.state, QpState::Init)?;
        let (sharing, half) = match (&self.sharing, &link.end) {
            (Some(sharing), End::Shared(half)) => (sharing, half),
            _ => return Err(ConnectError::Stale),
        };
        let target = sharing.targets.get(&half.peer).ok_or(ConnectError::Stale)?;
        let params = SharedParams {
            name: link.name,
            psn: half.ini.psn,
            mtu,
            reads,
            answers: role == Role::Answers,
            initiator: Sender { number: half.ini.qp.num(), generation: half.ini.generation },
            target: target.qp.num(),
            srq: sharing.srq_number,
            target_count: target.count,
        };
        link.state = QpState::Init;
        link.meeting = Meeting::new(role);
        Ok(params.to_params())
    }

    /// INIT to RTR: what the peer sends by is connected to the target here, and what this side sends by to the peer's.
    pub(super) fn attach_sharing(
        &mut self,
        qp: Qp,
        section: &VerbsSection,
        params: &Params,
    ) -> Result<(), ConnectError> {
        let nonsense = || ConnectError::Device("the peer's parameters make no sense".into());
        let params = SharedParams::from_params(params).ok_or_else(nonsense)?;
        let settings = QpSettings { mtu: self.settings.mtu.min(params.mtu.into()), ..self.settings };
        let address = self.address_of(section);
        let link = self.link(qp)?;
        check(link.name, link.state, QpState::ReadyToReceive)?;
        let half = link.half().ok_or(ConnectError::Stale)?;
        let (peer, ini) = (half.peer, half.ini.clone());
        let from = Dest { address, qp: params.initiator.number, psn: params.psn };
        let access = (self.port.number, peers_access());
        let sharing = self.sharing.as_ref().ok_or(ConnectError::Stale)?;
        sharing.connect_target(peer, params.initiator, access, &from, &settings)?;
        let to = Dest { address, qp: params.target, psn: NO_PSN };
        self.connect_initiator(&ini, &to, params.target_count, &settings)
            .map_err(|error| ConnectError::Device(words(&error)))?;
        let link = self.link(qp)?;
        link.state = QpState::ReadyToReceive;
        link.meeting.met((*section, params.name), params.answers);
        if let Some(half) = link.half_mut() {
            (half.srq, half.to) = (params.srq, params.name);
        }
        Ok(())
    }

    /// Connects an initiator to the peer's target. If it is connected to another one, that is gone, and so are the pairs that it
    /// was for: their processes have closed them, though perhaps not this side.
    fn connect_initiator(
        &mut self,
        ini: &Rc<Initiator>,
        to: &Dest,
        count: u32,
        settings: &QpSettings,
    ) -> Result<(), VerbsError> {
        if ini.target.get() == Some((to.qp, count)) {
            return Ok(());
        }
        if ini.target.take().is_some() {
            self.end_shared_work(ini);
            ini.qp.reset()?;
            self.forget_completions(ini);
            ini.qp.init(self.port.number, Access::READ)?;
        }
        ini.qp.rtr(to, settings)?;
        ini.qp.rts(ini.psn, settings)?;
        ini.target.set(Some((to.qp, count)));
        Ok(())
    }

    /// A pair is gone, and has been taken out. The initiator is the others', if there are others.
    pub(super) fn unmake_sharing(&mut self, index: u32, half: &Half) {
        self.sharing.iter_mut().for_each(|sharing| sharing.close_target(half.peer));
        let ini = &half.ini;
        ini.pairs.set(ini.pairs.get() - 1);
        if ini.pairs.get() > 0 {
            if ini.first.get() == index {
                let others = self.links.iter().find(|(_, link)| link.sends_by(ini));
                ini.first.set(others.map_or(index, |(other, _)| other));
                self.sharing.iter_mut().for_each(|sharing| sharing.counts.passed_on += 1);
            }
            return;
        }
        self.end_shared_work(ini);
        self.forget_initiator(ini);
        self.sharing.iter_mut().for_each(|sharing| sharing.counts.initiators -= 1);
    }

    /// Nobody joins it any more.
    fn forget_initiator(&mut self, ini: &Rc<Initiator>) {
        let Some(sharing) = &mut self.sharing else { return };
        if sharing.initiators.get(&ini.home).is_some_and(|known| Rc::ptr_eq(known, ini)) {
            sharing.initiators.remove(&ini.home);
        }
    }

    /// Ends what was posted on an initiator, whose peers are gone: the device lets go of the memory first.
    fn end_shared_work(&mut self, ini: &Rc<Initiator>) {
        let _ = ini.qp.fail();
        self.forget_completions(ini);
        let number = ini.qp.num();
        let of_it = |(at, pending): (u32, &Pending)| (pending.via() == number).then_some(at);
        for at in self.pending.iter().filter_map(of_it).collect::<Vec<u32>>() {
            self.end_pending(at);
        }
        self.copied -= ini.copied.take() as usize;
        for index in self.links.indices() {
            if let Some(link) = self.links.at_mut(index).filter(|link| link.sends_by(ini)) {
                (link.busy, link.copied) = (0, 0);
            }
        }
        ini.busy.set(0);
    }

    /// What has completed of it is not looked at any more.
    fn forget_completions(&mut self, ini: &Initiator) {
        let number = ini.qp.num();
        (0..COMPLETIONS).find(|_| self.fetch() == 0);
        self.fetched.retain(|completion| completion.qp != number || completion.id & RECEIVE != 0);
    }

    /// A connection goes, and what was posted on it stays under way: the queue pair is others', too. It ends in errors when
    /// the device has let go of the memory.
    pub(super) fn leave_work(&mut self, index: u32) {
        let of_link = |(at, pending): (u32, &Pending)| (pending.link() == Some(index)).then_some(at);
        for at in self.pending.iter().filter_map(of_link).collect::<Vec<u32>>() {
            if let Some(pending) = self.pending.at_mut(at) {
                pending.forget_link();
            }
        }
        self.leave_transfers(index);
    }

    /// Work of a connection that is gone has ended.
    #[cold]
    pub(super) fn end_left(&mut self, via: u32, was_copied: bool) {
        let Some(sharing) = &self.sharing else { return };
        let Some(ini) = sharing.initiators.values().find(|ini| ini.qp.num() == via).cloned() else { return };
        ini.ends();
        if was_copied {
            ini.copied_one();
            self.copied -= 1;
        }
        self.tell_others(&ini);
    }

    /// There is room again: pairs that had something to say say it.
    #[inline]
    pub(super) fn tell_after(&mut self, index: u32) {
        self.tell_if_needed(index);
        let ini = self.links.at(index).and_then(Link::half).map(|half| &half.ini);
        if let Some(ini) = ini.filter(|ini| ini.short.get()).cloned() {
            self.tell_others(&ini);
        }
    }

    #[cold]
    fn tell_others(&mut self, ini: &Rc<Initiator>) {
        if !ini.short.replace(false) {
            return;
        }
        for index in self.links.indices() {
            if self.links.at(index).is_some_and(|link| link.sends_by(ini)) {
                self.tell_if_needed(index);
            }
        }
    }

    /// The connections that break with one: all that send by the same queue pair, by which nobody sends any more.
    pub(super) fn break_together(&mut self, index: u32, why: &BreakReason) {
        let ini = self.links.at(index).and_then(Link::half).map(|half| half.ini.clone());
        match ini {
            Some(ini) => self.break_initiator(&ini, why),
            None => self.break_link(index, why.clone()),
        }
    }

    fn break_initiator(&mut self, ini: &Rc<Initiator>, why: &BreakReason) {
        let _ = ini.qp.fail(); // it may be in this state already
        self.forget_initiator(ini);
        for index in self.links.indices() {
            if self.links.at(index).is_some_and(|link| link.sends_by(ini)) {
                self.break_link(index, why.clone());
            }
        }
    }

    /// All connections break.
    pub(super) fn break_all(&mut self, why: &BreakReason) {
        self.links.indices().into_iter().for_each(|index| self.break_together(index, why));
    }

    /// A queue pair of the device has broken by itself that several connections have.
    pub(super) fn break_shared(&mut self, number: u32, why: &BreakReason) {
        let Some(sharing) = &self.sharing else { return };
        if let Some(ini) = sharing.initiators.values().find(|ini| ini.qp.num() == number).cloned() {
            return self.break_initiator(&ini, why);
        }
        // What a peer sends to: the others of the node hear of it, too.
        let peer = sharing.targets.iter().find(|(_, target)| target.qp.num() == number);
        let Some(peer) = peer.map(|(peer, _)| *peer) else { return };
        for index in self.links.indices() {
            if self.links.at(index).and_then(Link::half).is_some_and(|half| half.peer == peer) {
                self.break_link(index, why.clone());
            }
        }
    }

    /// The process that sends to a target.
    pub(super) fn sender_to(&self, target: u32) -> Option<VerbsSection> {
        let targets = &self.sharing.as_ref()?.targets;
        targets.values().find(|known| known.qp.num() == target).map(|known| known.from)
    }

    pub(crate) fn shared_counts(&self) -> SharedCounts {
        self.sharing.as_ref().map_or_else(SharedCounts::default, |sharing| sharing.counts)
    }

    /// Does a connection share its queue pair with others to the same node?
    pub(crate) fn shares(&self, qp: Qp) -> bool {
        self.links.get(qp.index(), qp.generation()).is_some_and(|link| link.half().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_survive_as_bytes() {
        let params = SharedParams {
            name: NAMED | 5,
            psn: 0xff_ffff,
            mtu: 4096,
            reads: 16,
            answers: true,
            initiator: Sender { number: 7, generation: u32::MAX },
            target: 0xff_fffe,
            srq: 1,
            target_count: 3,
        };
        assert_eq!(SharedParams::from_params(&params.to_params()), Some(params));
        let wrong = [
            SharedParams { name: 5, ..params },
            SharedParams { mtu: 1000, ..params },
            SharedParams { target: 0, ..params },
            SharedParams { srq: 1 << 24, ..params },
        ];
        wrong.into_iter().for_each(|wrong| assert_eq!(SharedParams::from_params(&wrong.to_params()), None));
    }
}

//! Memory that a peer has lent: written and read without a handler there. Windows are made of it where bytes lie in a row.
//!
//! An access has its place in the link's queue, like a message: it waits for a connection, what is sent behind a write arrives
//! behind it, and it ends with the peer. A read has begun when what is sent behind it arrives, and may not have ended. Inside a host this process copies by itself; between hosts the owner's progress
//! serves it. So messages that were sent before an access have left before it, but inside a host the peer may not have read
//! them yet.
//!
//! A registration belongs to a provider, not to a connection. It outlives connections that are closed for others, holds for
//! every peer that is reached by the same provider, and needs one of few places there: whoever lends to many lends once.
use crate::api::{Addressee, NetError, ReqId};
use crate::endpoint::{Endpoint, sent};
use crate::link::{Front, Pending};
use crate::request::State;
use fabric::{MrKey, Posted, ProviderKind, Push, Qp, RdmaError, RemoteMemory, WorkError};
use proto::ids::PeerIx;
use std::sync::Arc;
use sys::{UserBuf, UserBufMut};

/// How long a peer on this host counts as alive once that was looked up: its process number goes to another one only after
/// all others were given out. Looking each time, 8 bytes took 13 us, and 1.5 without.
const LIVES_NS: u64 = 1_000_000;
/// Of how many peers that is known.
const LIVES_MAX: usize = 16;
/// Bytes of a piece in tests, which have no time for as many as a device takes.
const TEST_PIECE_BYTES: usize = 1 << 20;

/// Memory of this process that peers can read and write until it is taken back ([`Endpoint::take_back`]).
#[derive(Debug)]
#[must_use = "peers can reach it until it is taken back"]
pub struct Loan {
    kind: ProviderKind,
    key: MrKey,
    addr: u64,
    bytes: usize,
}

impl Loan {
    /// Where it begins, for the peer.
    pub fn place(&self) -> Place {
        Place { addr: self.addr, key: self.key.0 }
    }
}

/// Where in a peer's memory, as the peer has told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    addr: u64,
    key: u32,
}

impl Place {
    /// For a message.
    pub fn to_words(self) -> [u64; 2] {
        [self.addr, self.key.into()]
    }

    /// From a message. `None`: no peer says that.
    pub fn from_words([addr, key]: [u64; 2]) -> Option<Place> {
        Some(Place { addr, key: u32::try_from(key).ok()? })
    }

    /// So many bytes behind it. What is not inside of what was lent is found out when it is used.
    pub fn plus(self, bytes: u64) -> Place {
        Place { addr: self.addr.wrapping_add(bytes), ..self }
    }

    fn memory(self) -> RemoteMemory {
        RemoteMemory { addr: self.addr, key: MrKey(self.key) }
    }
}

/// This process's side of an access.
#[derive(Clone, Copy, Debug)]
enum Here {
    From(UserBuf),
    Into(UserBufMut),
}

/// Bytes that go between this process's memory and a peer's.
#[derive(Clone, Copy, Debug)]
struct Piece {
    here: Here,
    there: Place,
}

impl Piece {
    fn len(&self) -> usize {
        match self.here {
            Here::From(buf) => buf.len(),
            Here::Into(buf) => buf.len(),
        }
    }

    /// The first bytes, at most so many, and the rest, if there is one.
    fn split(self, most: usize) -> (Piece, Option<Piece>) {
        let (first, all) = (self.len().min(most), self.len());
        let part = |at: usize, len: usize| Piece {
            here: match self.here {
                Here::From(buf) => Here::From(buf.part(at, len)),
                Here::Into(buf) => Here::Into(buf.part(at, len)),
            },
            there: self.there.plus(at as u64),
        };
        (part(0, first), (first < all).then(|| part(first, all - first)))
    }
}

/// What of an access waits in a link's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    request: ReqId,
    rest: Piece,
}

/// How far an access is.
#[derive(Debug)]
pub(crate) struct Accessing {
    /// Whose memory it is.
    pub peer: PeerIx,
    /// Pieces that the device works on. Until it has ended with all of them, the program's buffer is lent.
    working: u32,
    /// Does a part of it wait in the queue?
    queued: bool,
    /// Why it fails in the end.
    error: Option<Arc<RdmaError>>,
}

/// Peers on this host that were looked up, and until when each counts as alive. Those whose queue pairs have the same place
/// here drive each other out.
#[derive(Debug, Default)]
pub(crate) struct Lives([Option<(Qp, u64)>; LIVES_MAX]);

impl Lives {
    fn of(&mut self, qp: Qp) -> &mut Option<(Qp, u64)> {
        &mut self.0[qp.index() % LIVES_MAX]
    }
}

impl Endpoint {
    /// Can memory that a peer has lent be read and written at all? `false` before the first connection to it, and where
    /// processes of a host may not reach each other's memory.
    pub fn reaches(&self, peer: impl Addressee) -> bool {
        self.provider_of(peer).is_some_and(|kind| self.context.caps(kind).reads)
    }

    /// Registers memory that a peer may read and write, over any of its connections to this process. `None`: not now, since
    /// it cannot be reached ([`Endpoint::reaches`]), or the provider has no place left. To itself a process lends nothing.
    ///
    /// Registering the same memory again for another peer of the same provider is a waste: see [`Endpoint::covers`].
    pub fn lend(&mut self, to: impl Addressee, buf: UserBuf) -> Option<Loan> {
        let kind = self.provider_of(to).filter(|kind| self.context.caps(*kind).reads)?;
        let key = self.pin(kind, buf)?;
        Some(Loan { kind, key, addr: buf.addr(), bytes: buf.len() })
    }

    /// Can a peer reach what was lent to another one, by the same place?
    pub fn covers(&self, loan: &Loan, peer: impl Addressee) -> bool {
        self.provider_of(peer) == Some(loan.kind)
    }

    /// Nobody reaches the memory any more. A process of this host that is just copying may end that: it has to be known
    /// otherwise that nobody does.
    pub fn take_back(&mut self, loan: Loan) {
        self.unpin(loan.kind, loan.key, loan.bytes);
    }

    /// Writes into memory that a peer has lent. It keeps the order of this process's messages to that peer: what is sent
    /// behind it arrives behind it. `None`: done already. The request ends when the bytes are in the peer's memory; until
    /// then the buffer is lent. What is [`NetError::OutOfReach`] may be partly written; a handler there can still write it.
    pub fn write_remote(
        &mut self,
        to: impl Addressee,
        from: UserBuf,
        at: Place,
    ) -> Result<Option<ReqId>, NetError> {
        self.access(to, Piece { here: Here::From(from), there: at })
    }

    /// Reads memory that a peer has lent. It leaves in its turn among this process's messages to that peer, but what is sent
    /// behind it may be dealt with there before the last byte is read: a device takes a message while it still sends what was
    /// read (it would wait only with a fence), and so does a stream. What lets somebody change the memory is to be sent when
    /// the request has ended. `None`: done already. The request ends when the bytes are here.
    pub fn read_remote(
        &mut self,
        from: impl Addressee,
        into: UserBufMut,
        at: Place,
    ) -> Result<Option<ReqId>, NetError> {
        self.access(from, Piece { here: Here::Into(into), there: at })
    }

    /// The provider that reaches a peer. It is the same for all connections of a pair.
    fn provider_of(&self, peer: impl Addressee) -> Option<ProviderKind> {
        self.links.get(peer.find(&self.wireup)?.index())?.kind
    }

    fn access(&mut self, peer: impl Addressee, piece: Piece) -> Result<Option<ReqId>, NetError> {
        let ix = self.number(peer)?;
        if piece.len() == 0 {
            return Ok(None);
        }
        if ix == Self::SELF {
            return Err(self.no_access(ix, Arc::new(RdmaError::Forbidden)));
        }
        self.reach(ix)?;
        let link = &self.links[ix.index()];
        if let Some(qp) = link.ready.filter(|_| link.queue.is_empty())
            && piece.len() <= self.piece_bytes_max(qp)
        {
            match self.post_piece(qp, piece) {
                Ok(Posted::Done) => return Ok(None),
                Ok(Posted::Later(work)) => {
                    let id = self.requests.insert(State::Accessing(Accessing::new(ix, 1)));
                    self.works.insert(work, id);
                    return Ok(Some(id));
                }
                Err(RdmaError::Full | RdmaError::State) => {}
                Err(error) => return Err(self.no_access(ix, Arc::new(error))),
            }
        }
        let accessing = Accessing { queued: true, ..Accessing::new(ix, 0) };
        let id = self.requests.insert(State::Accessing(accessing));
        self.enqueue(ix, Pending::Access(Access { request: id, rest: piece }), Push::Now);
        match self.take(id) {
            None => Ok(Some(id)),
            Some(ended) => ended.map(|_| None),
        }
    }

    /// Posts the next piece of an access, which is the first in its link's queue.
    pub(crate) fn post_access(&mut self, ix: PeerIx, qp: Qp, access: Access) -> Front {
        let Access { request, rest } = access;
        match self.requests.get(request) {
            Some(State::Accessing(Accessing { error: None, .. })) => {}
            _ => return Front::Sent, // it has failed
        }
        let (first, rest) = rest.split(self.piece_bytes_max(qp));
        let posted = self.post_piece(qp, first);
        let Some(State::Accessing(accessing)) = self.requests.get_mut(request) else { return Front::Sent };
        match posted {
            Ok(Posted::Done) => {}
            Ok(Posted::Later(work)) => {
                accessing.working += 1;
                self.works.insert(work, request);
            }
            // If it is for good, an event says why.
            Err(RdmaError::Full | RdmaError::State) => return Front::Stays,
            Err(error) => {
                accessing.error = Some(Arc::new(error));
                return Front::Sent;
            }
        }
        match (rest, self.links[ix.index()].queue.front_mut()) {
            (Some(rest), Some(Pending::Access(front))) => {
                front.rest = rest;
                Front::Part
            }
            _ => Front::Sent,
        }
    }

    /// Nothing of an access waits in the queue any more.
    pub(crate) fn access_posted(&mut self, access: Access) {
        if let Some(State::Accessing(accessing)) = self.requests.get_mut(access.request) {
            accessing.queued = false;
            self.end_access(access.request);
        }
    }

    /// The device has ended its work on a piece.
    pub(crate) fn piece_done(&mut self, id: ReqId, result: Result<u64, WorkError>) {
        let Some(State::Accessing(accessing)) = self.requests.get_mut(id) else { return };
        let error = match result {
            Ok(_) => None,
            Err(WorkError::Key) => Some(RdmaError::Key),
            Err(WorkError::Atomic) => Some(RdmaError::Atomic),
            // The reason comes behind it, and ends the request.
            Err(WorkError::Broken) => return,
        };
        accessing.working -= 1;
        accessing.error = accessing.error.take().or(error.map(Arc::new));
        self.end_access(id);
    }

    /// Ends an access of which nothing is under way.
    fn end_access(&mut self, id: ReqId) {
        let Some(State::Accessing(accessing)) = self.requests.get(id) else { return };
        if accessing.queued || accessing.working > 0 {
            return;
        }
        let (peer, error) = (accessing.peer, accessing.error.clone());
        let end = match error {
            None => Ok(sent(peer)),
            Some(error) => Err(Box::new(self.no_access(peer, error))),
        };
        self.requests.replace(id, State::Done(end));
    }

    fn post_piece(&mut self, qp: Qp, piece: Piece) -> Result<Posted, RdmaError> {
        let memory = piece.there.memory();
        match piece.here {
            Here::Into(into) => self.context.rdma_read(qp, into, memory),
            Here::From(from) if qp.provider() == ProviderKind::Soft => self.write_living(qp, from, memory),
            Here::From(from) => self.context.rdma_write(qp, from, memory),
        }
    }

    /// Writes to a process of this host that lives, or did so a moment ago.
    fn write_living(&mut self, qp: Qp, from: UserBuf, to: RemoteMemory) -> Result<Posted, RdmaError> {
        let now_ns = self.now_ns();
        let lives = self.lives.of(qp);
        if lives.is_some_and(|(known, until_ns)| known == qp && now_ns < until_ns) {
            return self.context.rdma_write_more(qp, from, to);
        }
        let written = self.context.rdma_write(qp, from, to);
        *lives = written.is_ok().then_some((qp, now_ns + LIVES_NS));
        written
    }

    fn piece_bytes_max(&self, qp: Qp) -> usize {
        let most = self.context.rdma_bytes_max(qp.provider());
        if cfg!(test) { most.min(TEST_PIECE_BYTES) } else { most }
    }

    #[cold]
    fn no_access(&self, ix: PeerIx, cause: Arc<RdmaError>) -> NetError {
        NetError::OutOfReach { peer: self.who(ix), cause }
    }
}

impl Accessing {
    fn new(peer: PeerIx, working: u32) -> Self {
        Accessing { peer, working, queued: false, error: None }
    }
}

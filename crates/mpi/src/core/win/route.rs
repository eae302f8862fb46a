//! Who is sent what concerns a rank whose memory is not mapped here: the rank, or the data server of its node. The rule is
//! [`proto::rma::server`]'s.
use net::{Addressee, Endpoint, Job, Peer, PeerIx, Process, ReqId};
use proto::rma::server;
use proto::rma::wire::{HANDLER, Kind, Subject};
use proto::wireup::Wireup;
use std::fmt::Debug;

use super::window::Window;
use crate::buffer::source_of;
use crate::error::Result;

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// The rank itself.
    Rank(Process),
    /// The data server of its node, which knows the memory by this number.
    Server { peer: Peer, room: u32 },
}

impl Addressee for To {
    fn find<W: Clone + Debug>(self, peers: &Wireup<W>) -> Option<PeerIx> {
        match self {
            To::Rank(process) => process.find(peers),
            To::Server { peer, .. } => peer.find(peers),
        }
    }

    fn peer<W: Clone + Debug>(self, own: Job, peers: &Wireup<W>) -> Peer {
        match self {
            To::Rank(process) => process.peer(own, peers),
            To::Server { peer, .. } => peer,
        }
    }
}

impl To {
    /// The handler of messages to it, and their argument: a rank is told who sends it, a server whom it is for.
    pub(super) fn address(self, window: &Window, rank: u32, kind: Kind) -> Address {
        match self {
            To::Rank(_) => Address { handler: HANDLER, argument: window.subject(kind) },
            To::Server { room, .. } => {
                let argument = Subject { window: room, rank, kind }.encode();
                Address { handler: server::HANDLER, argument }
            }
        }
    }
}

/// Handler and argument of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) handler: u32,
    pub(super) argument: u64,
}

/// Sends a message about windows. `None`: the bytes are free already.
pub(super) fn post(
    endpoint: &mut Endpoint,
    to: impl Addressee,
    at: Address,
    bytes: &[u8],
) -> Result<Option<ReqId>> {
    Ok(endpoint.send_active(to, at.handler, at.argument, source_of(bytes).range(0, bytes.len()))?)
}

//! A job's part on this node: its ranks, if it has any here, and its board.
use super::asks::Asks;
use super::mirror::SharedBoard;
use super::pmi::{Attributes, RequestContext};
use super::ranks::{Ranks, Service, Site};
use super::server::{Seat, Server, number_of};
use crate::job::{Counters, Group, Tree};
use proto::board::{Action, Board, BoardConfig, BoardCounters, Message, Mirror};
use proto::ids::NodeId;
use proto::lane::{Generation, Neighbour, Place};
use proto::tree::Frame;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;
use sys::poll::Poll;
use sys::process::DescriptorLimit;

pub(crate) struct Here {
    pub(crate) group: Rc<Group>,
    pub(crate) ranks: Ranks,
    board: Board,
    attributes: Attributes,
    /// What this node's ranks read of it without asking.
    shared: Option<SharedBoard>,
    server: Option<Server>,
    /// The nodes below that have ranks of the job at or below them.
    pub(crate) children: Vec<NodeId>,
    /// Has the launcher heard that all ranks here have been started?
    told_start: bool,
    /// Has the launcher heard that ranks here wait in barriers?
    told_fence: bool,
}

impl Here {
    pub(crate) fn new(
        group: Rc<Group>,
        site: Site<'_>,
        first_seat: u32,
        stdin: Option<OwnedFd>,
        limit: DescriptorLimit,
    ) -> io::Result<Self> {
        let place = Place::new(site.tree.shape, site.node, &group.places());
        // Nodes without ranks only pass things on; where memory cannot be shared, ranks ask.
        let shared = (!place.local().is_empty()).then(SharedBoard::create).and_then(Result::ok);
        let mirror = if shared.is_some() { Mirror::On } else { Mirror::Off };
        let config = BoardConfig::new(group.id, Generation(0), site.tree.board);
        let guests = u32::from(site.tree.data_server);
        let mut board = Board::new(BoardConfig { mirror, guests, ..config }, &place);
        for pair in &group.preputs {
            board.preload(&pair.key, &pair.value).map_err(io::Error::other)?;
        }
        let mut ranks = Ranks::new(group.clone(), site, first_seat, stdin, limit)?;
        if let Some(address) = site.address {
            ranks.add_variable(format!("{}={address}", proto::env::NET_ADDRESS).into());
        }
        if let Some(shared) = &shared {
            ranks.add_variable(shared.variable());
        }
        if let Some(node) = number_of(&group, site.node).filter(|_| site.tree.data_server) {
            ranks.add_variable(format!("{}={node}", proto::env::SERVER).into());
        }
        let (children, attributes) = (place.children().to_vec(), Attributes::default());
        let (told_start, told_fence, server) = (false, false, None);
        Ok(Here { group, ranks, board, attributes, shared, server, children, told_start, told_fence })
    }

    /// Starts the data server of a node that has ranks.
    pub(crate) fn start_server(&mut self, patience: Duration, poll: &Poll) -> io::Result<()> {
        let (Some(segment), Some(rank)) = (self.ranks.segment(), self.ranks.first()) else { return Ok(()) };
        let seat = Seat {
            group: &self.group,
            rank: rank.0,
            slot: self.ranks.count(),
            segment,
            variables: self.ranks.variables(),
            limit: self.ranks.limit(),
            patience: Some(patience).filter(|patience| !patience.is_zero()),
        };
        self.server = Some(Server::start(&seat, poll)?);
        Ok(())
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    pub(crate) fn server_mut(&mut self) -> Option<&mut Server> {
        self.server.as_mut()
    }

    /// Are there ranks to start, and is what they need there?
    pub(crate) fn may_start(&self) -> bool {
        !self.ranks.all_started() && self.server.as_ref().is_none_or(Server::is_ready)
    }

    /// Lets the PMI service of this job's server act.
    pub(crate) fn serve_server(&mut self, tree: &Tree, asks: &mut Asks, poll: &Poll) -> io::Result<()> {
        self.at_servers_desk(tree, asks, |server, context| server.serve(context, poll))
    }

    fn at_servers_desk(
        &mut self,
        tree: &Tree,
        asks: &mut Asks,
        act: impl FnOnce(&mut Server, &mut RequestContext<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (Some(server), Some(rank)) = (&mut self.server, self.ranks.first()) else { return Ok(()) };
        let mut woken = VecDeque::new();
        let mut context = RequestContext {
            tree,
            group: &self.group,
            rank,
            slot: self.ranks.count(),
            seat: u32::MAX, // it asks nothing that the launcher answers
            board: &mut self.board,
            asks,
            attributes: &mut self.attributes,
            woken: &mut woken,
            waiting: &mut None, // it has nobody to wait for
        };
        act(server, &mut context)
    }

    /// What the server has counted.
    pub(crate) fn server_stats(&self, node: NodeId) -> Option<Frame> {
        self.server.as_ref()?;
        let values = self.ranks.counters_of(self.ranks.count())?;
        Some(Frame::ServerStats { node, job: self.group.id, values })
    }

    /// Lets the PMI service of this job's ranks act.
    pub(crate) fn serve<T>(
        &mut self,
        tree: &Tree,
        asks: &mut Asks,
        poll: &Poll,
        act: impl FnOnce(&mut Ranks, &mut Service<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let (board, attributes) = (&mut self.board, &mut self.attributes);
        act(&mut self.ranks, &mut Service { tree, board, attributes, asks, poll })
    }

    /// Are there others whom a rank should join? Spawned ranks are waited for anyway.
    pub(crate) fn is_lookout_for(&self) -> bool {
        self.group.ranks() > 1 && self.group.spawner.is_none()
    }

    /// A rank has ended: it waits for no attribute any more.
    pub(crate) fn forget_waiter(&mut self, slot: u32) {
        self.attributes.forget(|waiter| waiter.0 == slot);
    }

    /// All ranks here have been started, and the launcher has not heard of it.
    pub(crate) fn start_news(&mut self, node: NodeId) -> Option<Frame> {
        if self.told_start || !self.ranks.all_up() {
            return None;
        }
        self.told_start = true;
        Some(Frame::Started { node, job: self.group.id })
    }

    /// A rank waits in a barrier, and the launcher has not heard of it.
    pub(crate) fn fence_news(&mut self, slot: u32) -> Option<Frame> {
        if self.told_fence || !self.board.in_fence() {
            return None;
        }
        self.told_fence = true;
        Some(Frame::FenceBegun { who: self.ranks.member(slot) })
    }

    /// A message from a neighbour's board.
    pub(crate) fn hear(&mut self, from: Neighbour, message: Message) -> Result<(), String> {
        self.board.hear(from, message).map_err(|error| error.to_string())
    }

    /// The next message to a neighbour's board. Ranks that the board has news for are told on the way; what they
    /// say in turn is put into `said`.
    pub(crate) fn next_message(
        &mut self,
        tree: &Tree,
        asks: &mut Asks,
        poll: &Poll,
        said: &mut Vec<Frame>,
    ) -> io::Result<Option<(Neighbour, Frame)>> {
        loop {
            // Before ranks hear of it.
            if let Some(shared) = &mut self.shared {
                shared.follow(&mut self.board);
            }
            let Some(action) = self.board.poll_action() else { return Ok(None) };
            match action {
                Action::Send(to, message) => {
                    let mut bytes = Vec::new();
                    message.encode(&mut bytes);
                    return Ok(Some((to, Frame::Board(bytes))));
                }
                Action::FenceDone => {
                    self.shared.iter_mut().for_each(SharedBoard::fence_done);
                    said.extend(
                        self.serve(tree, asks, poll, |ranks, service| ranks.release_barrier(service))?,
                    );
                }
                Action::Answer { client, key, value } if client == self.ranks.count() => {
                    self.at_servers_desk(tree, asks, |server, context| {
                        server.got(&key, value.as_ref(), context, poll)
                    })?;
                }
                Action::Answer { client, key, value } => {
                    said.extend(self.serve(tree, asks, poll, |ranks, service| {
                        ranks.answer_get(client, &key, value.as_ref(), service)
                    })?);
                    said.extend(self.fence_news(client));
                }
            }
        }
    }

    /// The counters of the board, where they are wanted.
    pub(crate) fn board_stats(&self, tree: &Tree, node: NodeId) -> Option<Frame> {
        let wanted = tree.counters == Counters::Wanted;
        wanted.then(|| Frame::BoardStats {
            node,
            job: self.group.id,
            values: counter_values(&self.board.counters()).to_vec(),
        })
    }
}

/// The counters that are passed on, in the order of [`COUNTER_KEYS`].
fn counter_values(counters: &BoardCounters) -> [u64; COUNTER_KEYS.len()] {
    [
        counters.traffic.messages_sent,
        counters.traffic.bytes_sent,
        counters.hits,
        counters.absent_hits,
        counters.misses,
        counters.merged,
        counters.evictions,
        counters.entries_peak,
        counters.bytes_peak,
    ]
}

/// What the counters of a board are called in statistics.
pub(crate) const COUNTER_KEYS: [&str; 9] = [
    "messages",
    "bytes",
    "hits",
    "absent_hits",
    "misses",
    "merged",
    "evictions",
    "entries_peak",
    "bytes_peak",
];

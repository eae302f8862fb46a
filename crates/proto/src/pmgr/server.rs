//! The server of a whole job: connections and bytes in, bytes and news out.
use super::collective::{Collective, Delivery, EnterError};
use super::message::Operation;
use super::session::{Message, Session, SessionError};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Connections beyond one for each rank: those that abort, and strangers.
pub const CONNECTIONS_SPARE: usize = 64;

/// Names a connection of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What the driver has to do, or to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Send this.
    Send {
        /// To whom.
        to: ConnectionId,
        /// What; shared by all that get the same.
        bytes: Arc<[u8]>,
    },
    /// Close the connection, when what it was sent before has gone out.
    Close(ConnectionId),
    /// A rank has connected.
    Joined {
        /// Which.
        rank: u32,
    },
    /// A process gives up: end the job.
    Abort {
        /// The program's error code.
        code: i32,
        /// Who says so, if that is a rank of the job.
        rank: Option<u32>,
        /// Why.
        text: String,
    },
    /// A connection was wrong and is to be closed. If it was a rank's, the job cannot go on.
    Refused(Refusal),
    /// A rank's connection ended before it had closed.
    Lost {
        /// Which.
        rank: u32,
    },
    /// All ranks have closed. The job may still run for long, and some clients close after they have said an abort over
    /// another connection: go on listening until the processes have ended.
    Done,
}

/// A connection that made no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which connection.
    pub connection: ConnectionId,
    /// Whose it was.
    pub rank: Option<u32>,
    /// What was wrong.
    pub why: String,
}

/// All connections of a job. Tell it of each new one ([`connect`](Server::connect)), of what was read
/// ([`push`](Server::push)) and of the end of the stream ([`ended`](Server::ended)); after each, take events until there
/// are none ([`poll_event`](Server::poll_event)).
#[derive(Debug)]
pub struct Server {
    size: u32,
    sessions: BTreeMap<ConnectionId, Session>,
    ranks: Vec<Presence>,
    collective: Collective,
    events: VecDeque<Event>,
    next_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Absent,
    Here(ConnectionId),
    Gone,
}

impl Server {
    /// The server of a job with so many processes.
    pub fn new(size: u32) -> Self {
        Server {
            size,
            sessions: BTreeMap::new(),
            ranks: vec![Presence::Absent; size as usize],
            collective: Collective::new(size),
            events: VecDeque::new(),
            next_id: 0,
        }
    }

    /// A new connection; `None` if there are too many: close it, or make room ([`dismiss`](Server::dismiss)).
    pub fn connect(&mut self) -> Option<ConnectionId> {
        if self.sessions.len() >= self.size as usize + CONNECTIONS_SPARE {
            return None;
        }
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        self.sessions.insert(id, Session::new(self.size));
        Some(id)
    }

    /// Forgets the connection that has been there longest without saying whose it is, and names it. A rank says so at
    /// once; a stranger must not take its place by saying nothing.
    pub fn dismiss(&mut self) -> Option<ConnectionId> {
        let id = self.sessions.iter().find(|(_, session)| session.rank().is_none()).map(|(id, _)| *id)?;
        self.sessions.remove(&id);
        Some(id)
    }

    /// Takes what was read from a connection.
    pub fn push(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.push(bytes) {
            Ok(()) => self.pump(id),
            Err(error) => self.refuse(id, error.to_string()),
        }
    }

    /// May more be read from a connection? If not, ask again after the next event.
    pub fn wants(&self, id: ConnectionId) -> bool {
        self.sessions.get(&id).is_some_and(|session| !session.is_full())
    }

    /// The end of a connection's stream was read, or it failed.
    pub fn ended(&mut self, id: ConnectionId) {
        let Some(mut session) = self.sessions.remove(&id) else { return };
        let rank = session.rank();
        match (rank, session.end()) {
            (Some(rank), _) => self.lose(rank),
            (None, Some(Message::Abort { code, rank, text })) => self.abort(code, rank, text),
            (None, _) => {}
        }
    }

    /// What to do or to know next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes the messages of a connection, and of those that may go on when a round has ended.
    fn pump(&mut self, first: ConnectionId) {
        let mut ready = VecDeque::from([first]);
        while let Some(id) = ready.pop_front() {
            match self.take_one(id) {
                Ok(Taken::Nothing) => {}
                Ok(Taken::Message) => ready.push_back(id),
                Ok(Taken::Round) => ready.extend(self.here().map(|(_, id)| id)),
                Err(why) => self.refuse(id, why),
            }
        }
    }

    fn take_one(&mut self, id: ConnectionId) -> Result<Taken, String> {
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(Taken::Nothing) };
        if session.rank().is_some_and(|rank| self.collective.is_in(rank)) {
            return Ok(Taken::Nothing);
        }
        let rank = session.rank();
        let ranks = &self.ranks;
        let is_free = |rank: u32| ranks[rank as usize] == Presence::Absent;
        let message = session.next_message(is_free).map_err(|error: SessionError| error.to_string())?;
        match (message, rank) {
            (None, _) => Ok(Taken::Nothing),
            (Some(Message::Open { rank }), _) => {
                self.ranks[rank as usize] = Presence::Here(id);
                self.events.push_back(Event::Joined { rank });
                Ok(Taken::Message)
            }
            (Some(Message::Abort { code, rank, text }), _) => {
                self.abort(code, rank, text);
                self.close(id);
                Ok(Taken::Nothing)
            }
            (Some(Message::Operation(operation)), Some(rank)) => {
                self.operate(id, rank, operation).map_err(|error| error.to_string())
            }
            (Some(Message::Operation(_)), None) => {
                unreachable!("a session has a rank before it has operations")
            }
        }
    }

    fn operate(&mut self, id: ConnectionId, rank: u32, operation: Operation) -> Result<Taken, EnterError> {
        match operation {
            Operation::Open { .. } => return Ok(Taken::Message),
            Operation::Abort { code } => {
                self.abort(code, rank as i32, String::new());
                self.ranks[rank as usize] = Presence::Gone;
                self.close(id);
                return Ok(Taken::Nothing);
            }
            _ => {}
        }
        let closes = operation == Operation::Close;
        let delivery = self.collective.enter(rank, operation)?;
        if closes {
            self.ranks[rank as usize] = Presence::Gone;
            self.close(id);
        }
        match delivery {
            Some(delivery) => {
                self.deliver(delivery);
                Ok(Taken::Round)
            }
            None => Ok(Taken::Nothing),
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let all: Vec<_> = self.here().collect();
        match delivery {
            Delivery::All(bytes) => {
                let bytes: Arc<[u8]> = bytes.into();
                all.iter().for_each(|(_, to)| self.send(*to, bytes.clone()));
            }
            Delivery::Each(mut parts) => {
                for (rank, to) in all {
                    self.send(to, core::mem::take(&mut parts[rank as usize]).into());
                }
            }
            Delivery::One { rank, bytes } => {
                if let Presence::Here(to) = self.ranks[rank as usize] {
                    self.send(to, bytes.into());
                }
            }
            Delivery::Closed => self.events.push_back(Event::Done),
        }
    }

    fn send(&mut self, to: ConnectionId, bytes: Arc<[u8]>) {
        if !bytes.is_empty() {
            self.events.push_back(Event::Send { to, bytes });
        }
    }

    fn abort(&mut self, code: i32, rank: i32, text: String) {
        let rank = u32::try_from(rank).ok().filter(|rank| *rank < self.size);
        self.events.push_back(Event::Abort { code, rank, text });
    }

    fn refuse(&mut self, connection: ConnectionId, why: String) {
        let rank = self.sessions.get(&connection).and_then(Session::rank);
        if let Some(rank) = rank {
            self.ranks[rank as usize] = Presence::Gone;
        }
        self.sessions.remove(&connection);
        self.events.push_back(Event::Refused(Refusal { connection, rank, why }));
    }

    fn close(&mut self, id: ConnectionId) {
        self.sessions.remove(&id);
        self.events.push_back(Event::Close(id));
    }

    fn lose(&mut self, rank: u32) {
        self.ranks[rank as usize] = Presence::Gone;
        self.events.push_back(Event::Lost { rank });
    }

    fn here(&self) -> impl Iterator<Item = (u32, ConnectionId)> + '_ {
        (0..).zip(&self.ranks).filter_map(|(rank, presence)| match presence {
            Presence::Here(id) => Some((rank, *id)),
            _ => None,
        })
    }
}

/// What became of a connection's next message.
enum Taken {
    /// There is none, or its round has to end first.
    Nothing,
    /// It was taken, and others may follow.
    Message,
    /// It ended the round.
    Round,
}

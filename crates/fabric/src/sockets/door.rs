//! The listener, and the connections it has accepted: first unproven ones, a bounded number of them for a bounded time, then
//! streams of peers that have proven themselves and wait for their queue pair. Where too many of those wait, nobody else is let in.
use super::dial::read_more;
use super::{Note, Sockets, Token, is_no_descriptor};
use crate::table::Table;
use proto::stream::proof::{DATAGRAM_BYTES_MAX, HELLO_HEAD_BYTES, hello_follows};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use sys::poll::{Interest, Poll};
use sys::socket::Transfer;
use sys::tcp::{Listener, Stream};

/// Connections that wait in the kernel while this process computes.
pub(super) const BACKLOG: u32 = 4096;
/// Strangers at a time; the oldest goes.
const STRANGERS_MAX: usize = 64;
/// Proven streams that wait for their queue pair. Behind them others wait in the kernel: who has proven itself is never shown
/// out, because its job would take that for the end of this process.
const OFFERED_MAX: usize = 4096;
/// How long a stranger may take to say who it is, while there are more than [`SILENT_MAX`]. A few may be silent for as
/// long as they like: a peer that has connected may compute before it says hello.
const HELLO_NS: u64 = 5_000_000_000;
const SILENT_MAX: usize = STRANGERS_MAX / 2;
/// Connections taken in one round, and datagrams.
const ACCEPTS_PER_ROUND: usize = 16;
const DATAGRAMS_PER_ROUND: usize = 64;
/// How long nothing is tried that takes a descriptor, when there is none and none is given back.
pub(super) const STARVED_NS: u64 = 1_000_000_000;
/// How long peers wait for a descriptor before the user is told.
const STARVED_LONG_NS: u64 = 5_000_000_000;

/// Who has come in.
#[derive(Debug)]
pub(super) struct Door {
    listener: Listener,
    guests: Table<Guest>,
    /// Strangers, the oldest first.
    strangers: VecDeque<u32>,
    /// Proven streams by nonce and dial, and how many there may be.
    by_dial: HashMap<(u64, u64), u32>,
    pub(super) offered_max: usize,
    /// There was no descriptor or place for the next one; looked at again then.
    starved_ns: Option<u64>,
    /// Since when peers wait for a descriptor, and whether the user was told once.
    waits_since_ns: Option<u64>,
    told: bool,
}

#[derive(Debug)]
struct Guest {
    stream: Stream,
    since_ns: u64,
    who: Who,
    /// Is it in the poll set?
    watched: bool,
}

#[derive(Debug)]
enum Who {
    /// So much of its hello has come.
    Stranger(Vec<u8>),
    /// The nonce of the dialler and the number of the dial.
    Peer(u64, u64),
}

/// What became of a hello.
enum Heard {
    NotYet,
    /// The control message that it brought, for this dial of this process.
    Hello {
        from: u64,
        dial: u64,
        message: Vec<u8>,
    },
    /// It is no hello of a peer, or its sender is gone.
    Refused,
}

impl Door {
    pub fn new(listener: Listener) -> Self {
        Door {
            listener,
            guests: Table::new(),
            strangers: VecDeque::new(),
            by_dial: HashMap::new(),
            offered_max: OFFERED_MAX,
            starved_ns: None,
            waits_since_ns: None,
            told: false,
        }
    }

    /// Begins to take connections.
    pub fn watch(&self, poll: &Poll) -> io::Result<()> {
        poll.add(self.listener.as_fd(), Token::Listener.pack(), Interest::Read)
    }

    /// The proven stream of a dial.
    fn take(&mut self, nonce: u64, dial: u64) -> Option<Stream> {
        let index = self.by_dial.remove(&(nonce, dial))?;
        self.guests.remove(index).map(|guest| guest.stream)
    }

    /// Closes a guest's stream.
    fn show_out(&mut self, index: u32, poll: &Poll) {
        let Some(guest) = self.guests.remove(index) else { return };
        match guest.who {
            Who::Peer(nonce, dial) => drop(self.by_dial.remove(&(nonce, dial))),
            Who::Stranger(_) => self.strangers.retain(|other| *other != index),
        }
        let _ = poll.remove(guest.stream.as_fd());
        guest.stream.close_hard();
    }

    /// Who is there.
    #[cfg(test)]
    pub fn guests(&self) -> usize {
        self.guests.len()
    }

    pub fn memory_bytes(&self) -> usize {
        self.guests.len() * (size_of::<Guest>() + size_of::<(u64, u64)>() + size_of::<u32>())
    }

    /// Do as many wait for their queue pair as may?
    fn is_full(&self) -> bool {
        self.by_dial.len() >= self.offered_max
    }

    /// The stranger that has been there longest, if there are too many, and until when it may stay.
    fn oldest_of_many(&self) -> Option<(u32, u64)> {
        let oldest = *self.strangers.front().filter(|_| self.strangers.len() > SILENT_MAX)?;
        self.guests.at(oldest).map(|guest| (oldest, guest.since_ns + HELLO_NS))
    }

    /// Peers wait because there is no descriptor; `true`: the user is to be told.
    fn waits(&mut self, now_ns: u64) -> bool {
        let since_ns = *self.waits_since_ns.get_or_insert(now_ns);
        now_ns - since_ns >= STARVED_LONG_NS && !std::mem::replace(&mut self.told, true)
    }

    fn due_ns(&self) -> Option<u64> {
        let stranger = self.oldest_of_many().map(|(_, until_ns)| until_ns);
        stranger.into_iter().chain(self.starved_ns).min()
    }
}

impl Sockets {
    /// Takes connections.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_ROUND {
            if self.door.is_full() {
                return self.stop_accepting();
            }
            match self.door.listener.accept() {
                Ok(Some((stream, _))) => {
                    self.door.waits_since_ns = None;
                    self.admit(stream);
                }
                Ok(None) => return,
                // No descriptor: it stays in the kernel, and so that nobody asks for it all the time, unwatched.
                Err(error) => {
                    if is_no_descriptor(&error) && self.door.waits(self.clock.now_ns()) {
                        sys::socket::write_stderr(starved_text(self.descriptors).as_bytes());
                    }
                    return self.stop_accepting();
                }
            }
        }
    }

    pub(super) fn stop_accepting(&mut self) {
        if self.door.starved_ns.is_none() {
            let _ = self.poll.remove(self.door.listener.as_fd());
        }
        self.door.starved_ns = Some(self.clock.now_ns() + STARVED_NS);
    }

    /// There may be a descriptor again, or a place.
    pub(super) fn accept_again(&mut self) {
        self.starved_until_ns = 0;
        if self.door.starved_ns.take().is_some() && self.door.watch(&self.poll).is_err() {
            self.door.starved_ns = Some(self.clock.now_ns() + STARVED_NS);
        }
    }

    /// The proven stream of a dial, which leaves its place to the next.
    pub(super) fn take_offered(&mut self, nonce: u64, dial: u64) -> Option<Stream> {
        let stream = self.door.take(nonce, dial)?;
        self.accept_again();
        Some(stream)
    }

    fn admit(&mut self, stream: Stream) {
        let since_ns = self.clock.now_ns();
        if self.door.strangers.len() >= STRANGERS_MAX
            && let Some(oldest) = self.door.strangers.front()
        {
            self.refuse(*oldest);
        }
        let who = Who::Stranger(Vec::new());
        let (index, generation) = self.door.guests.insert(Guest { stream, since_ns, who, watched: false });
        self.door.strangers.push_back(index);
        if self.hear(index) {
            return;
        }
        let Some(guest) = self.door.guests.at_mut(index) else { return };
        let token = Token::Guest { index, generation }.pack();
        guest.watched = true;
        if self.poll.add(guest.stream.as_fd(), token, Interest::Read).is_err() {
            self.refuse(index);
        }
    }

    fn refuse(&mut self, index: u32) {
        self.strangers += 1;
        self.door.show_out(index, &self.poll);
    }

    /// Something happened to a guest's stream.
    pub(super) fn guest_stirs(&mut self, index: u32, generation: u32) {
        match self.door.guests.get(index as usize, generation).map(|guest| &guest.who) {
            Some(Who::Stranger(_)) => drop(self.hear(index)),
            // It has hung up.
            Some(Who::Peer(..)) => {
                self.door.show_out(index, &self.poll);
                self.accept_again();
            }
            None => {}
        }
    }

    /// Hears what a stranger says; `true`: it is none any more, or gone. What comes behind its hello stays in the
    /// kernel.
    fn hear(&mut self, index: u32) -> bool {
        match self.read_hello(index) {
            Heard::NotYet => return false,
            Heard::Refused => self.refuse(index),
            Heard::Hello { from, dial, message } => self.welcome(index, from, dial, message),
        }
        true
    }

    fn read_hello(&mut self, index: u32) -> Heard {
        loop {
            let Some(guest) = self.door.guests.at_mut(index) else { return Heard::Refused };
            let Who::Stranger(said) = &mut guest.who else { return Heard::NotYet };
            let wanted = match said.first_chunk::<HELLO_HEAD_BYTES>().map(hello_follows) {
                None => HELLO_HEAD_BYTES,
                Some(Ok(follows)) => HELLO_HEAD_BYTES + follows,
                Some(Err(_)) => return Heard::Refused,
            };
            if said.len() == wanted {
                return match self.secrets.check_hello(self.section.nonce, said) {
                    Some(hello) => {
                        let (from, dial) = (hello.from, hello.dial);
                        Heard::Hello { from, dial, message: hello.message.to_vec() }
                    }
                    None => Heard::Refused,
                };
            }
            match read_more(&guest.stream, said, wanted) {
                Ok(Transfer::Bytes(_)) => {}
                Ok(Transfer::WouldBlock) => return Heard::NotYet,
                _ => return Heard::Refused,
            }
        }
    }

    /// A peer has come in: its stream waits for its queue pair, and its message goes up.
    fn welcome(&mut self, index: u32, from: u64, dial: u64, message: Vec<u8>) {
        if self.door.by_dial.contains_key(&(from, dial)) {
            // Somebody repeats what was said before.
            return self.refuse(index);
        }
        let Some(secret) = self.secrets.with(from) else { return };
        let welcome = secret.welcome(self.section.nonce, from, dial);
        let generation = self.door.guests.generation(index);
        let Some(guest) = self.door.guests.at_mut(index) else { return };
        let written = guest.stream.write(&welcome);
        if !matches!(written, Ok(Transfer::Bytes(bytes)) if bytes == welcome.len()) {
            // It has hung up, having lost against a dial of ours: then its message still counts.
            if self.has_dialled(from) {
                self.notes.push_back(Note::Control(message));
            }
            return self.door.show_out(index, &self.poll);
        }
        guest.who = Who::Peer(from, dial);
        let token = Token::Guest { index, generation }.pack();
        let fd = guest.stream.as_fd();
        let watched = match guest.watched {
            true => self.poll.change(fd, token, Interest::Hangup),
            false => self.poll.add(fd, token, Interest::Hangup),
        };
        if watched.is_err() {
            return self.door.show_out(index, &self.poll);
        }
        self.door.by_dial.insert((from, dial), index);
        self.door.strangers.retain(|other| *other != index);
        self.notes.push_back(Note::Control(message));
    }

    fn has_dialled(&self, nonce: u64) -> bool {
        let mut dialling = self.dialling.iter().filter_map(|index| self.links.at(*index));
        dialling.any(|link| link.nonce == nonce)
    }

    /// Takes datagrams.
    pub(super) fn receive_datagrams(&mut self) {
        if self.secrets.is_none() {
            return;
        }
        let mut bytes = [0; DATAGRAM_BYTES_MAX + 1];
        for _ in 0..DATAGRAMS_PER_ROUND {
            // An error is about this host, and is over or comes again.
            let Ok(Some((len, _))) = self.udp.receive(&mut bytes) else { return };
            match self.secrets.check_datagram(self.section.nonce, &bytes[..len]) {
                Some(message) => self.notes.push_back(Note::Control(message.to_vec())),
                None => self.strangers += 1,
            }
        }
    }

    pub(super) fn tick_door(&mut self, now_ns: u64) {
        while let Some((index, until_ns)) = self.door.oldest_of_many()
            && until_ns <= now_ns
        {
            self.refuse(index);
        }
        if self.door.starved_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.accept_again();
        }
    }

    pub(super) fn door_due_ns(&self) -> Option<u64> {
        self.door.due_ns()
    }
}

fn starved_text(limit: u64) -> String {
    format!(
        "banyan: no descriptor is left for connections of peers: the limit (ulimit -n) is {limit}; they wait\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_told_once_that_peers_wait() {
        let mut door = Door::new(Listener::bind(([127, 0, 0, 1], 0).into(), 1).unwrap());
        let told: Vec<u64> = (7..30).filter(|second| door.waits(second * 1_000_000_000)).collect();
        assert_eq!(told, [12]);
        assert!(starved_text(60).contains("(ulimit -n) is 60;"));
    }
}

//! The listener, and who has come in: first strangers, of whom a bounded number may stand there for a while, then
//! streams of peers that have proven themselves and wait for their queue pair.
use super::dial::read_more;
use super::table::Table;
use super::{Note, Sockets, Token};
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
/// Proven streams that wait for their queue pair; the oldest goes.
const OFFERED_MAX: usize = 4096;
/// How long a stranger may take to say who it is.
const HELLO_NS: u64 = 5_000_000_000;
/// How long a proven stream may wait for its queue pair: long, since there may be none left at the moment.
const OFFERED_NS: u64 = 600_000_000_000;
/// Connections taken in one round, and datagrams.
const ACCEPTS_PER_ROUND: usize = 16;
const DATAGRAMS_PER_ROUND: usize = 64;
/// How long the listener is left alone when there is no descriptor.
const STARVED_NS: u64 = 1_000_000_000;

/// Who has come in.
#[derive(Debug)]
pub(super) struct Door {
    listener: Listener,
    guests: Table<Guest>,
    /// Strangers and proven streams, the oldest first, with those that are gone already.
    strangers: VecDeque<(u32, u32)>,
    offered: VecDeque<(u32, u32)>,
    /// Proven streams by nonce and dial.
    by_dial: HashMap<(u64, u64), u32>,
    /// There was no descriptor for the next one; looked at again then.
    starved_ns: Option<u64>,
}

#[derive(Debug)]
struct Guest {
    stream: Stream,
    since_ns: u64,
    who: Who,
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
    Refused,
    /// The other end is gone.
    Gone,
}

impl Door {
    pub fn new(listener: Listener) -> Self {
        Door {
            listener,
            guests: Table::new(),
            strangers: VecDeque::new(),
            offered: VecDeque::new(),
            by_dial: HashMap::new(),
            starved_ns: None,
        }
    }

    /// Begins to take connections.
    pub fn watch(&self, poll: &Poll) -> io::Result<()> {
        poll.add(self.listener.as_fd(), Token::Listener.pack(), Interest::Read)
    }

    /// The proven stream of a dial.
    pub fn take(&mut self, nonce: u64, dial: u64) -> Option<Stream> {
        let index = self.by_dial.remove(&(nonce, dial))?;
        self.guests.remove(index).map(|guest| guest.stream)
    }

    /// Closes a guest's stream.
    fn show_out(&mut self, index: u32, poll: &Poll) {
        let Some(guest) = self.guests.remove(index) else { return };
        if let Who::Peer(nonce, dial) = guest.who {
            self.by_dial.remove(&(nonce, dial));
        }
        let _ = poll.remove(guest.stream.as_fd());
        guest.stream.close_hard();
    }

    /// Drops those at the front of a list that are gone, so that its length is bounded by those that are there.
    fn forget_gone(&mut self) {
        let (guests, gone) = (&self.guests, |guests: &Table<Guest>, entry: Option<&(u32, u32)>| {
            entry.is_some_and(|(index, generation)| guests.get(*index as usize, *generation).is_none())
        });
        while gone(guests, self.strangers.front()) {
            self.strangers.pop_front();
        }
        while gone(guests, self.offered.front()) {
            self.offered.pop_front();
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.guests.len() * (size_of::<Guest>() + size_of::<(u32, u32)>() * 2)
    }

    fn due_ns(&self) -> Option<u64> {
        let stranger = self.strangers.front().and_then(|(index, generation)| {
            let guest = self.guests.get(*index as usize, *generation)?;
            Some(guest.since_ns + HELLO_NS)
        });
        stranger.into_iter().chain(self.starved_ns).min()
    }
}

impl Sockets {
    /// Takes connections.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_ROUND {
            match self.door.listener.accept() {
                Ok(Some((stream, _))) => self.admit(stream),
                Ok(None) => return,
                // No descriptor: it stays in the kernel, and so that nobody asks for it all the time, unwatched.
                Err(_) => return self.stop_accepting(),
            }
        }
    }

    pub(super) fn stop_accepting(&mut self) {
        if self.door.starved_ns.is_none() {
            let _ = self.poll.remove(self.door.listener.as_fd());
        }
        self.door.starved_ns = Some(self.clock.now_ns() + STARVED_NS);
    }

    /// There may be a descriptor again.
    pub(super) fn accept_again(&mut self) {
        self.no_descriptors = false;
        if self.door.starved_ns.take().is_some() {
            if self.door.watch(&self.poll).is_err() {
                self.door.starved_ns = Some(self.clock.now_ns() + STARVED_NS);
            }
        }
    }

    fn admit(&mut self, stream: Stream) {
        let since_ns = self.clock.now_ns();
        self.make_room();
        let who = Who::Stranger(Vec::new());
        let (index, generation) = self.door.guests.insert(Guest { stream, since_ns, who });
        self.door.strangers.push_back((index, generation));
        if self.hear(index) {
            return;
        }
        let Some(guest) = self.door.guests.at(index) else { return };
        let token = Token::Guest { index, generation }.pack();
        if self.poll.add(guest.stream.as_fd(), token, Interest::Read).is_err() {
            self.refuse(index);
        }
    }

    /// Room for one more stranger.
    fn make_room(&mut self) {
        self.door.forget_gone();
        while self.door.strangers.len() >= STRANGERS_MAX {
            let Some((index, generation)) = self.door.strangers.pop_front() else { return };
            let guest = self.door.guests.get(index as usize, generation);
            if guest.is_some_and(|guest| matches!(guest.who, Who::Stranger(_))) {
                self.refuse(index);
            }
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
            Heard::Gone => self.refuse(index),
            Heard::Hello { from, dial, message } => self.welcome(index, from, dial, message),
        }
        true
    }

    fn read_hello(&mut self, index: u32) -> Heard {
        loop {
            let Some(guest) = self.door.guests.at_mut(index) else { return Heard::Gone };
            let Who::Stranger(said) = &mut guest.who else { return Heard::NotYet };
            let wanted = match said.first_chunk::<HELLO_HEAD_BYTES>().map(hello_follows) {
                None => HELLO_HEAD_BYTES,
                Some(Ok(follows)) => HELLO_HEAD_BYTES + follows,
                Some(Err(_)) => return Heard::Refused,
            };
            if said.len() == wanted {
                let Some(secret) = &self.secret else { return Heard::Refused };
                return match secret.check_hello(self.section.nonce, said) {
                    Ok(hello) => {
                        let (from, dial) = (hello.from, hello.dial);
                        Heard::Hello { from, dial, message: hello.message.to_vec() }
                    }
                    Err(_) => Heard::Refused,
                };
            }
            match read_more(&guest.stream, said, wanted) {
                Ok(Transfer::Bytes(_)) => {}
                Ok(Transfer::WouldBlock) => return Heard::NotYet,
                _ => return Heard::Gone,
            }
        }
    }

    /// A peer has come in: its stream waits for its queue pair, and its message goes up.
    fn welcome(&mut self, index: u32, from: u64, dial: u64, message: Vec<u8>) {
        if self.door.by_dial.contains_key(&(from, dial)) {
            // Somebody repeats what was said before.
            return self.refuse(index);
        }
        let Some(secret) = &self.secret else { return };
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
        // Without these it works as well, if slowly, or notices a cut late.
        let _ = guest.stream.set_nodelay();
        let _ = guest.stream.notice_silence(self.timeout);
        guest.who = Who::Peer(from, dial);
        let token = Token::Guest { index, generation }.pack();
        let fd = guest.stream.as_fd();
        // It is watched already if its hello did not come with the connection.
        if self.poll.change(fd, token, Interest::Hangup).is_err()
            && self.poll.add(fd, token, Interest::Hangup).is_err()
        {
            return self.door.show_out(index, &self.poll);
        }
        self.door.by_dial.insert((from, dial), index);
        self.door.strangers.retain(|entry| *entry != (index, generation));
        self.offer(index, generation);
        self.notes.push_back(Note::Control(message));
    }

    fn offer(&mut self, index: u32, generation: u32) {
        self.door.forget_gone();
        if self.door.offered.len() >= OFFERED_MAX
            && let Some((oldest, _)) = self.door.offered.pop_front()
        {
            self.door.show_out(oldest, &self.poll);
        }
        self.door.offered.push_back((index, generation));
    }

    fn has_dialled(&self, nonce: u64) -> bool {
        let mut dialling = self.dialling.iter().filter_map(|index| self.links.at(*index));
        dialling.any(|link| link.nonce == nonce)
    }

    /// Takes datagrams.
    pub(super) fn receive_datagrams(&mut self) {
        let Some(secret) = &self.secret else { return };
        let mut bytes = [0; DATAGRAM_BYTES_MAX + 1];
        for _ in 0..DATAGRAMS_PER_ROUND {
            // An error is about this host, and is over or comes again.
            let Ok(Some((len, _))) = self.udp.receive(&mut bytes) else { return };
            match secret.check_datagram(self.section.nonce, &bytes[..len]) {
                Some(message) => self.notes.push_back(Note::Control(message.to_vec())),
                None => self.strangers += 1,
            }
        }
    }

    pub(super) fn tick_door(&mut self, now_ns: u64) {
        self.door.forget_gone();
        while let Some(&(index, _)) = self.door.strangers.front() {
            if self.door.guests.at(index).is_some_and(|guest| guest.since_ns + HELLO_NS > now_ns) {
                break;
            }
            self.refuse(index);
            self.door.forget_gone();
        }
        while let Some(&(index, _)) = self.door.offered.front() {
            if self.door.guests.at(index).is_some_and(|guest| guest.since_ns + OFFERED_NS > now_ns) {
                break;
            }
            self.door.show_out(index, &self.poll);
            self.door.forget_gone();
        }
        if self.door.starved_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            self.accept_again();
        }
    }

    pub(super) fn door_due_ns(&self) -> Option<u64> {
        self.door.due_ns()
    }
}

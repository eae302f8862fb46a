//! An open port: where processes of other jobs knock, and what is known of those who have not proven anything.
use super::MeetError;
use super::line::{Line, TOKEN, Wire};
use proto::meeting::Port;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use sys::poll::{Interest, Poll, Ready};
use sys::{local, tcp};

/// Streams that have not proven anything, at most; the oldest goes first.
const STRANGERS_MAX: usize = 32;
/// Connections that may wait in the kernel, each way.
const BACKLOG: u32 = 128;
/// Which listener has somebody.
const TOKEN_TCP: u64 = TOKEN + 1;
const TOKEN_LOCAL: u64 = TOKEN + 2;

/// An open port.
#[derive(Debug)]
pub struct Door {
    tcp: tcp::Listener,
    /// For those of this host. Without it they come the other way.
    local: Option<local::Listener>,
    /// Both, so that one look is enough while nobody comes; and who has knocked, while somebody sleeps here.
    ready: Rc<Poll>,
    found: Vec<Ready>,
    port: Port,
    /// Who has knocked, oldest first.
    strangers: Vec<Line>,
    /// Meetings that sleep until somebody comes, and what wakes them.
    sleepers: u32,
}

impl Door {
    pub(crate) fn open(ip: IpAddr) -> Result<Door, MeetError> {
        let tcp = tcp::Listener::bind(SocketAddr::new(ip, 0), BACKLOG)?;
        let mut key = [0; 32];
        sys::process::random(&mut key)?;
        let port = Port { addr: tcp.local_addr()?, key };
        let ready = Poll::new()?;
        ready.add(tcp.as_fd(), TOKEN_TCP, Interest::Read)?;
        let local = local::Listener::bind(port.local_name().as_bytes(), BACKLOG).ok();
        if let Some(local) = &local {
            ready.add(local.as_fd(), TOKEN_LOCAL, Interest::Read)?;
        }
        let (ready, found, strangers) = (Rc::new(ready), Vec::new(), Vec::new());
        Ok(Door { tcp, local, ready, found, port, strangers, sleepers: 0 })
    }

    /// The port's name.
    pub fn name(&self) -> String {
        self.port.to_string()
    }

    /// Where it is.
    pub(super) fn addr(&self) -> SocketAddr {
        self.port.addr
    }

    /// Nobody can come by the name on this host any more.
    #[cfg(test)]
    pub(crate) fn close_local(&mut self) {
        if let Some(local) = self.local.take() {
            self.ready.remove(local.as_fd()).expect("it is in the set");
        }
    }

    /// Greets whoever has knocked, and takes nobody in.
    #[cfg(test)]
    pub(crate) fn greet(&mut self) {
        self.let_in().unwrap();
        self.strangers.iter_mut().for_each(|line| _ = line.flush().unwrap());
    }

    /// Who has knocked and was not taken in yet.
    #[cfg(test)]
    pub(crate) fn callers(&self) -> usize {
        self.strangers.len()
    }

    /// Somebody who holds the key, and what it says. Everybody else who knocks is forgotten at the first mistake.
    pub(super) fn poll(&mut self) -> Result<Option<(Line, Vec<u8>)>, MeetError> {
        self.let_in()?;
        let mut at = 0;
        while at < self.strangers.len() {
            match self.strangers[at].hear_caller() {
                Ok(Some(_)) if self.strangers[at].is_given_up() => drop(self.strangers.remove(at)),
                Ok(Some(said)) => return Ok(Some((self.strangers.remove(at), said))),
                Ok(None) => at += 1,
                Err(_) => drop(self.strangers.remove(at)),
            }
        }
        if self.sleepers > 0 {
            self.strangers.iter_mut().try_for_each(|line| line.watch(&self.ready))?;
        }
        Ok(None)
    }

    /// One of each kind: who waits behind it is found at the next look.
    fn let_in(&mut self) -> Result<(), MeetError> {
        self.found.clear();
        self.ready.wait(Some(0), &mut self.found)?;
        for at in 0..self.found.len() {
            let wire = match (self.found[at].token, &self.local) {
                (TOKEN_TCP, _) => self.tcp.accept()?.map(|(stream, _)| Wire::Tcp(stream)),
                (TOKEN_LOCAL, Some(local)) => local.accept()?.map(Wire::Local),
                _ => None,
            };
            let Some(wire) = wire else { continue };
            if self.strangers.len() == STRANGERS_MAX {
                self.strangers.remove(0);
            }
            self.strangers.push(Line::answer(wire, self.port.key)?);
        }
        Ok(())
    }
}

/// A meeting that sleeps until somebody comes to a door.
#[derive(Debug)]
pub(super) struct Sleeper {
    door: Rc<RefCell<Door>>,
    set: Rc<Poll>,
}

impl Sleeper {
    /// From now on the set tells when there is something to do at the door.
    pub fn new(door: &Rc<RefCell<Door>>, set: &Rc<Poll>) -> io::Result<Sleeper> {
        let mut at = door.borrow_mut();
        if at.sleepers == 0 {
            let Door { strangers, ready, .. } = &mut *at;
            strangers.iter_mut().try_for_each(|line| line.watch(ready))?;
            set.add(ready.as_fd(), TOKEN, Interest::Read)?;
        }
        at.sleepers += 1;
        Ok(Sleeper { door: door.clone(), set: set.clone() })
    }
}

impl Drop for Sleeper {
    /// Whoever knocks while nobody accepts has to wait, and wakes nobody.
    fn drop(&mut self) {
        let mut at = self.door.borrow_mut();
        at.sleepers -= 1;
        if at.sleepers == 0 {
            let _ = self.set.remove(at.ready.as_fd());
        }
    }
}

//! Connections between open devices, and the thread of each that moves frames while the program computes.
use crate::adapter::Adapter;
use crate::control::Controls;
use crate::socket::{Counter, Realm, Socket, Watch, readable, wait};
use crate::wire::{FRAME_BYTES_MAX, Head};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

/// Frames that are taken off a connection before others have their turn.
const TURN: usize = 64;

/// An open device, as its thread and the program have it.
pub(crate) struct Shared {
    adapter: Mutex<Adapter>,
    wake: Arc<Counter>,
    stops: AtomicBool,
}

impl Shared {
    /// An open device, and its thread.
    pub(crate) fn start(adapter: Adapter) -> io::Result<(Arc<Shared>, JoinHandle<()>)> {
        let wake = adapter.links.wake.clone();
        let shared = Arc::new(Shared { adapter: Mutex::new(adapter), wake, stops: AtomicBool::new(false) });
        let own = shared.clone();
        let thread = without_signals(|| {
            std::thread::Builder::new().name("standin".into()).spawn(move || own.serve())
        })?;
        Ok((shared, thread))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Adapter> {
        self.adapter.lock().expect("the thread of the device has not panicked")
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stops.store(true, SeqCst);
        self.wake.add();
    }

    fn serve(&self) {
        let mut controls = Controls::new(&mut self.lock());
        while !self.stops.load(SeqCst) {
            let (mut fds, timeout_ms) = self.lock().awaited();
            wait(&mut fds, timeout_ms);
            let mut adapter = self.lock();
            while self.wake.take_now() {}
            if adapter.links.watch.as_ref().is_some_and(Watch::take) {
                controls.look(&mut adapter);
            }
            adapter.turn();
        }
    }
}

/// Starts a thread that no signal of the program's is delivered to.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: integers may be zero.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: a place for a set.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: a set, and a place for the one before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) };
    let started = start();
    // SAFETY: the set from before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    started
}

/// A connection. Requests go through one that their sender has made, and replies come back by the same.
struct Connection {
    socket: Socket,
    out: VecDeque<Vec<u8>>,
    /// What has come of a message that is longer than a frame.
    partial: Vec<u8>,
    /// The device that this one has connected to.
    peer: Option<u32>,
    /// The receiving half of XRC that it was made to.
    target: Option<u32>,
    broken: bool,
}

impl Connection {
    /// Sends as much as there is room for.
    fn flush(&mut self) {
        while let Some(frame) = self.out.front() {
            match self.socket.send(frame) {
                Ok(()) => drop(self.out.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.broken = true;
                    return;
                }
            }
        }
    }

    /// The next message, with its bytes.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<(Head, Vec<u8>)> {
        loop {
            let len = match self.socket.receive(buffer) {
                Ok(len) if len > 0 => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                _ => {
                    self.broken = true;
                    return None;
                }
            };
            let Some((head, piece)) = Head::parse(&buffer[..len]) else {
                self.broken = true;
                return None;
            };
            self.partial.extend_from_slice(piece);
            if self.partial.len() >= head.bytes() {
                return Some((head, std::mem::take(&mut self.partial)));
            }
        }
    }
}

/// The connections of an open device.
pub(crate) struct Links {
    pub realm: Realm,
    listener: Option<Socket>,
    connections: BTreeMap<u32, Connection>,
    /// Those that this device has made, by the number of the peer.
    made: BTreeMap<u32, u32>,
    last: u32,
    wake: Arc<Counter>,
    pub watch: Option<Watch>,
}

impl Links {
    /// Listens; the number that others find this device by.
    pub(crate) fn new(realm: Realm) -> io::Result<(Links, u32)> {
        let (listener, number) = Socket::listen(&realm)?;
        let watch = realm.directory.as_deref().map(Watch::new).transpose()?;
        let links = Links {
            realm,
            listener: Some(listener),
            connections: BTreeMap::new(),
            made: BTreeMap::new(),
            last: 0,
            wake: Arc::new(Counter::new()?),
            watch,
        };
        Ok((links, number))
    }

    /// Where control files are.
    pub(crate) fn directory(&self) -> Option<&std::path::Path> {
        self.realm.directory.as_deref()
    }

    /// Has the thread look.
    pub(crate) fn wake(&self) {
        self.wake.add();
    }

    fn insert(&mut self, socket: Socket, peer: Option<u32>) -> u32 {
        self.last += 1;
        let connection = Connection {
            socket,
            out: VecDeque::new(),
            partial: Vec::new(),
            peer,
            target: None,
            broken: false,
        };
        self.connections.insert(self.last, connection);
        self.last
    }

    /// Sends a message to the device with a number; through which connection. `None`: it is not there.
    pub(crate) fn send_to(&mut self, peer: u32, head: &Head, bytes: &[u8]) -> Option<u32> {
        self.listener.as_ref()?; // it was removed
        let id = match self.made.get(&peer) {
            Some(id) => *id,
            None => {
                let socket = Socket::connect(&self.realm, peer).ok()?;
                let id = self.insert(socket, Some(peer));
                self.made.insert(peer, id);
                // What comes back is to be heard.
                self.wake();
                id
            }
        };
        if self.connections.get(&id).is_none_or(|connection| connection.broken) {
            return None;
        }
        self.send(id, head, bytes);
        Some(id)
    }

    /// Sends a message through a connection, if it is still there.
    pub(crate) fn send(&mut self, id: u32, head: &Head, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.out.extend(head.frames(bytes));
        connection.flush();
        if connection.broken || !connection.out.is_empty() {
            self.wake();
        }
    }

    /// The device is gone, for all others.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        self.connections.clear();
        self.made.clear();
    }

    fn accept(&mut self) {
        while let Some(socket) = self.listener.as_ref().and_then(Socket::accept) {
            self.insert(socket, None);
        }
    }

    /// Takes connections to a receiving half of XRC.
    fn accept_for(&mut self, target: u32, listener: &Socket) {
        while let Some(socket) = listener.accept() {
            let id = self.insert(socket, None);
            self.connections.get_mut(&id).into_iter().for_each(|connection| connection.target = Some(target));
        }
    }

    /// Leaves the connections to a receiving half of XRC to others that have it open.
    pub(crate) fn leave(&mut self, target: u32) {
        self.connections.retain(|_, connection| connection.target != Some(target));
    }

    /// Answers with descriptors.
    pub(crate) fn give(&mut self, id: u32, fds: &[RawFd]) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.broken |= connection.socket.send_with(&[0], fds).is_err();
        }
    }

    /// Takes what is broken away.
    fn take_broken(&mut self) -> Vec<u32> {
        let is_broken = |(id, connection): (&u32, &Connection)| connection.broken.then_some(*id);
        let broken: Vec<u32> = self.connections.iter().filter_map(is_broken).collect();
        for id in &broken {
            let peer = self.connections.remove(id).and_then(|connection| connection.peer);
            if let Some(peer) = peer {
                self.made.remove(&peer);
            }
        }
        broken
    }
}

impl Adapter {
    /// What the thread waits for, and how long.
    fn awaited(&self) -> (Vec<libc::pollfd>, Option<i32>) {
        let links = &self.links;
        let mut fds = vec![readable(links.wake.fd())];
        fds.extend(links.listener.as_ref().map(|listener| readable(listener.fd())));
        fds.extend(links.watch.as_ref().map(|watch| readable(watch.fd())));
        fds.extend(self.qps.values().filter_map(|qp| Some(readable(qp.shared.as_ref()?.listener.fd()))));
        fds.extend(links.connections.values().map(|connection| {
            let mut fd = readable(connection.socket.fd());
            fd.events |= if connection.out.is_empty() { 0 } else { libc::POLLOUT };
            fd
        }));
        let due = self.timers.first().map(|(at, _)| at.saturating_duration_since(Instant::now()));
        (fds, due.map(|time| time.as_micros().div_ceil(1000) as i32))
    }

    /// Moves what can be moved.
    fn turn(&mut self) {
        self.links.accept();
        for (number, qp) in &self.qps {
            qp.shared.iter().for_each(|shared| self.links.accept_for(*number, &shared.listener));
        }
        let ids: Vec<u32> = self.links.connections.keys().copied().collect();
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        for id in ids {
            self.take_messages(id, &mut buffer);
            if let Some(connection) = self.links.connections.get_mut(&id) {
                connection.flush();
            }
        }
        for id in self.links.take_broken() {
            self.lose(id);
        }
        self.tick(Instant::now());
    }

    fn take_messages(&mut self, id: u32, buffer: &mut [u8]) {
        for _ in 0..TURN {
            let connection = self.links.connections.get_mut(&id);
            let Some((head, bytes)) = connection.and_then(|connection| connection.receive(buffer)) else {
                return;
            };
            match head {
                Head::Request(request) => self.serve(id, &request, &bytes),
                Head::Reply(reply) => self.take_reply(&reply, &bytes),
                Head::Open(open) => self.share(id, open),
            }
        }
    }
}

//! Receiving halves of XRC, which the processes of a domain share: one is there as long as one of them has it open, whichever has
//! made it.
//!
//! It has a number of its own in the realm, as an open device has, and a socket that listens under it. Who opens it asks whoever
//! answers there, and gets that socket, too, and the page with its state. Whichever of them takes a sender's connection passes
//! on what comes to the device that has the shared receive queue. When a process goes, its connections break, and senders
//! make new ones, which another one takes; what they ask for again then was perhaps done already, and
//! is not done twice ([`Done`]).
use crate::adapter::Adapter;
use crate::machine::{Kind, State};
use crate::objects::Attributes;
use crate::socket::{NUMBERS, Realm, Socket, readable, wait};
use crate::wire::{Head, Open, Place, Request};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// How long the process that answers is waited for.
const ANSWER_MS: i32 = 5_000;
/// How often it is asked for again, if that process goes meanwhile.
const TRIES: u32 = 20;
const PAGE_BYTES: usize = 64;

/// What those who have it open share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub listener: Socket,
    page: File,
    /// Has this device made it? Others do not count it.
    pub is_own: bool,
    /// Other structures of this program that name it, by their addresses.
    pub names: Vec<usize>,
}

impl Shared {
    /// A new one, and the number that it has in the realm.
    pub(crate) fn new(realm: &Realm) -> io::Result<(Shared, u32)> {
        let (listener, number) = Socket::listen(realm)?;
        // SAFETY: a name.
        let fd = unsafe { libc::memfd_create(c"standin-target".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it.
        let page = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        page.write_all_at(&[0; PAGE_BYTES], 0)?;
        Ok((Shared { listener, page, is_own: true, names: Vec::new() }, number))
    }

    /// One that another process has open. `EINVAL`: nobody has.
    pub(crate) fn open(realm: &Realm, number: u32, domain: u64) -> Result<Shared, c_int> {
        for _ in 0..TRIES {
            let socket = Socket::connect(realm, number / NUMBERS).map_err(|_| libc::EINVAL)?;
            let ask = Head::Open(Open { number, domain }).frames(&[]).remove(0);
            let mut answer = [0; 1];
            if socket.send(&ask).is_err() || !wait(&mut [readable(socket.fd())], Some(ANSWER_MS)) {
                continue;
            }
            match socket.receive_with(&mut answer).map(|(len, fds)| (len, <[OwnedFd; 2]>::try_from(fds))) {
                Ok((1, Ok([listener, page]))) => {
                    let listener = Socket::of(listener);
                    return Ok(Shared { listener, page: page.into(), is_own: false, names: Vec::new() });
                }
                Ok((1, Err(_))) => return Err(libc::EINVAL),
                // It has gone meanwhile.
                Ok(_) | Err(_) => {}
            }
        }
        Err(libc::EIO)
    }

    fn load(&self) -> Option<(State, Attributes)> {
        let mut page = [0; PAGE_BYTES];
        self.page.read_exact_at(&mut page, 0).ok()?;
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
        let gid = page[32..48].try_into().expect("sixteen bytes");
        let attr = Attributes {
            port: page[4],
            reads_in: page[5],
            rnr_timer: page[6],
            timeout: page[7],
            access: word(8),
            dest: word(12),
            receive_psn: word(16),
            send_psn: word(20),
            place: Place { lid: word(24) as u16, gid: (page[28] != 0).then_some(gid) },
            ..Attributes::default()
        };
        Some((State::of(word(0))?, attr))
    }

    fn store(&self, state: State, attr: &Attributes) {
        let mut page = [0; PAGE_BYTES];
        page[..4].copy_from_slice(&state.number().to_le_bytes());
        page[4..8].copy_from_slice(&[attr.port, attr.reads_in, attr.rnr_timer, attr.timeout]);
        for (at, word) in [
            (8, attr.access),
            (12, attr.dest),
            (16, attr.receive_psn),
            (20, attr.send_psn),
            (24, attr.place.lid.into()),
        ] {
            page[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        page[28] = attr.place.gid.is_some().into();
        page[32..48].copy_from_slice(&attr.place.gid.unwrap_or_default());
        // (A page that cannot be written is that of a machine without memory.)
        let _ = self.page.write_all_at(&page, 0);
    }
}

/// What was done last for each sender of XRC: the number of its work, and what came back.
#[derive(Debug, Default)]
pub(crate) struct Done(BTreeMap<u32, (u64, Vec<u8>)>);

impl Done {
    /// What came back, if this is asked for again.
    pub(crate) fn again(&self, request: &Request) -> Option<&[u8]> {
        let (work, result) = self.0.get(&request.from)?;
        (*work == request.work).then_some(result)
    }

    pub(crate) fn note(&mut self, request: &Request, result: &[u8]) {
        self.0.insert(request.from, (request.work, result.to_vec()));
    }
}

impl Adapter {
    /// Looks up what a queue pair is now: others may have moved it.
    pub(crate) fn load(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        if let Some((state, attr)) = qp.shared.as_ref().and_then(Shared::load) {
            (qp.state, qp.attr) = (state, attr);
        }
    }

    /// Lets others know what it is now.
    pub(crate) fn store(&self, number: u32) {
        let Some(qp) = self.qps.get(&number) else { return };
        if let Some(shared) = &qp.shared {
            shared.store(qp.state, &qp.attr);
        }
    }

    /// A process wants to have one open, too, or finds that there is none.
    pub(crate) fn share(&mut self, connection: u32, open: Open) {
        let qp =
            self.qps.get(&open.number).filter(|qp| qp.kind == Kind::XrcReceive && qp.domain == open.domain);
        let shared = qp.and_then(|qp| qp.shared.as_ref());
        let fds = shared.map(|shared| vec![shared.listener.fd(), fd_of(&shared.page)]).unwrap_or_default();
        self.links.give(connection, &fds);
    }
}

fn fd_of(file: &File) -> std::os::fd::RawFd {
    use std::os::fd::AsRawFd;
    file.as_raw_fd()
}

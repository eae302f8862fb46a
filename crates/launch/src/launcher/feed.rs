//! Standard input that the launcher reads and sends over the tree, as fast as the slowest reader takes it.
use super::{Launcher, TOKEN_STDIN};
use crate::job::Group;
use crate::spec::StdinTo;
use proto::ids::{NodeId, Rank};
use proto::tree::{Frame, Member};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::poll::{Interest, Poll};
use sys::socket::{self, FileKind, Transfer};

/// Bytes read at once.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes that may be under way to one reader.
const WINDOW_BYTES: u32 = 64 << 10;

/// The reading of standard input.
#[derive(Debug)]
pub(crate) struct Feed {
    fd: OwnedFd,
    /// A plain file is always ready, and cannot be in a poll set.
    is_plain: bool,
    is_registered: bool,
    /// Are all readers there?
    is_open: bool,
    has_ended: bool,
    /// Who reads: where it is, and what is under way to it.
    readers: BTreeMap<Member, (NodeId, u32)>,
}

impl Feed {
    pub(crate) fn new(fd: OwnedFd, group: &Group) -> Self {
        let ranks = match group.stdin {
            StdinTo::Rank(rank) => rank..rank + 1,
            StdinTo::All => 0..group.ranks(),
            StdinTo::Nobody => 0..0,
        };
        let reader = |rank| (group.member(Rank(rank)), (group.node_of(Rank(rank)), 0));
        Feed {
            is_plain: socket::file_kind(fd.as_fd()) == FileKind::Plain,
            fd,
            is_registered: false,
            is_open: false,
            has_ended: false,
            readers: ranks.map(reader).collect(),
        }
    }

    fn has_room(&self) -> bool {
        let fits = |under_way: u32| under_way + PIECE_BYTES as u32 <= WINDOW_BYTES;
        self.is_open && !self.has_ended && self.readers.values().all(|(_, under_way)| fits(*under_way))
    }

    /// All readers have been started: before that, what is sent would be lost.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    /// Can more be read without waiting for anybody?
    pub(crate) fn is_ready(&self) -> bool {
        self.is_plain && self.has_room()
    }

    /// Waits for input if there is room for it.
    pub(crate) fn wait(&mut self, poll: &Poll) -> io::Result<()> {
        let wanted = self.has_room() && !self.is_plain;
        if wanted && !self.is_registered {
            poll.add(self.fd.as_fd(), TOKEN_STDIN, Interest::Read)?;
        } else if !wanted && self.is_registered {
            poll.remove(self.fd.as_fd())?;
        }
        self.is_registered = wanted;
        Ok(())
    }

    /// Reads once. The frames for all readers come out.
    fn read(&mut self) -> Vec<Frame> {
        if !self.has_room() {
            return Vec::new();
        }
        let mut bytes = [0; PIECE_BYTES];
        let length = match socket::read(self.fd.as_fd(), &mut bytes) {
            Ok(Transfer::Bytes(n)) => n,
            Ok(Transfer::WouldBlock) => return Vec::new(),
            Ok(Transfer::Closed) | Err(_) => {
                self.has_ended = true;
                0
            }
        };
        let send = |(to, (node, under_way)): (&Member, &mut (NodeId, u32))| {
            *under_way += length as u32;
            Frame::Input { node: *node, to: *to, bytes: bytes[..length].to_vec() }
        };
        self.readers.iter_mut().map(send).collect()
    }

    /// A reader has taken some of it.
    pub(crate) fn taken(&mut self, from: Member, bytes: u32) {
        if let Some((_, under_way)) = self.readers.get_mut(&from) {
            *under_way = under_way.saturating_sub(bytes);
        }
    }
}

impl Launcher<'_> {
    /// Sends what there is to read.
    pub(super) fn feed(&mut self) -> io::Result<()> {
        let Some(feed) = &mut self.feed else { return Ok(()) };
        let frames = feed.read();
        feed.wait(&self.poll)?;
        if let Some(root) = &mut self.root {
            frames.iter().for_each(|frame| root.send(frame));
        }
        Ok(())
    }

    /// Reads no more.
    pub(super) fn end_feed(&mut self) -> io::Result<()> {
        let Some(mut feed) = self.feed.take() else { return Ok(()) };
        feed.has_ended = true;
        feed.wait(&self.poll)
    }
}

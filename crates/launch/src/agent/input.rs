//! Standard input that comes over the tree: for ranks on other hosts, and for all ranks at once.
use super::{Agent, Token};
use proto::tree::{Frame, Member};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use sys::poll::{Interest, Poll};
use sys::socket::{self, Transfer};

/// The writing end of a rank's standard input.
#[derive(Debug)]
pub(crate) struct InputPipe {
    fd: Option<OwnedFd>,
    token: u64,
    unwritten: VecDeque<u8>,
    has_ended: bool,
    is_registered: bool,
}

impl InputPipe {
    pub(crate) fn new(fd: OwnedFd, seat: u32) -> io::Result<Self> {
        socket::set_nonblocking(fd.as_fd())?;
        let token = Token::Input(seat).pack();
        Ok(InputPipe {
            fd: Some(fd),
            token,
            unwritten: VecDeque::new(),
            has_ended: false,
            is_registered: false,
        })
    }

    /// Takes input; none is its end. How much is bounded by whom it comes from.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.has_ended |= bytes.is_empty();
        self.unwritten.extend(bytes);
    }

    /// Writes what fits. Returns how much the rank, or nobody, needs to be sent again.
    pub(crate) fn write(&mut self, poll: &Poll) -> io::Result<u32> {
        let mut taken = 0;
        while let (Some(fd), false) = (&self.fd, self.unwritten.is_empty()) {
            match socket::write(fd.as_fd(), self.unwritten.make_contiguous())? {
                Transfer::Bytes(n) => {
                    self.unwritten.drain(..n);
                    taken += n;
                }
                Transfer::WouldBlock => break,
                Transfer::Closed => self.close(poll), // the rank reads no more
            }
        }
        if self.fd.is_none() {
            taken += self.unwritten.len();
            self.unwritten.clear();
        } else if self.has_ended && self.unwritten.is_empty() {
            self.close(poll);
        }
        self.wait_for_room(poll)?;
        Ok(taken as u32)
    }

    fn wait_for_room(&mut self, poll: &Poll) -> io::Result<()> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let wanted = !self.unwritten.is_empty();
        if wanted && !self.is_registered {
            poll.add(fd.as_fd(), self.token, Interest::Write)?;
        } else if !wanted && self.is_registered {
            poll.remove(fd.as_fd())?;
        }
        self.is_registered = wanted;
        Ok(())
    }

    pub(crate) fn close(&mut self, poll: &Poll) {
        if let Some(fd) = self.fd.take()
            && std::mem::take(&mut self.is_registered)
        {
            let _ = poll.remove(fd.as_fd());
        }
    }
}

impl Agent {
    /// Input for a rank here.
    pub(super) fn on_input(&mut self, to: Member, bytes: Vec<u8>) -> io::Result<()> {
        let here = self.jobs.iter_mut().find(|here| here.group.id == to.job);
        let taken = match here {
            Some(here) => here.ranks.take_input(to, &bytes, &self.poll)?,
            None => bytes.len() as u32,
        };
        self.report_taken(to, taken);
        Ok(())
    }

    /// A rank has read some of its input.
    pub(super) fn on_input_room(&mut self, seat: u32) -> io::Result<()> {
        let Some((index, slot)) = self.find_seat(seat) else { return Ok(()) };
        let ranks = &mut self.jobs[index].ranks;
        let (who, taken) = (ranks.member(slot), ranks.write_input(slot, &self.poll)?);
        self.report_taken(who, taken);
        Ok(())
    }

    fn report_taken(&mut self, from: Member, bytes: u32) {
        if bytes > 0 {
            self.report(&Frame::InputTaken { from, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;

    #[test]
    fn input_is_written_as_there_is_room_and_then_ended() {
        let poll = Poll::new().unwrap();
        let (read, write) = socket::pipe().unwrap();
        let mut pipe = InputPipe::new(write, 1).unwrap();
        let sent: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
        pipe.take(&sent);
        pipe.take(&[]);
        let mut taken = pipe.write(&poll).unwrap() as usize;
        assert!(taken < sent.len() && pipe.is_registered);
        let mut file = File::from(read);
        let mut got = Vec::new();
        let mut piece = vec![0; 50_000];
        while taken < sent.len() {
            let n = file.read(&mut piece).unwrap();
            got.extend_from_slice(&piece[..n]);
            taken += pipe.write(&poll).unwrap() as usize;
        }
        file.read_to_end(&mut got).unwrap();
        assert_eq!(got, sent);
        assert!(pipe.fd.is_none());
    }

    #[test]
    fn what_nobody_reads_any_more_is_taken() {
        let _mask = sys::signal::SignalMask::block_all().unwrap();
        let poll = Poll::new().unwrap();
        let (read, write) = socket::pipe().unwrap();
        drop(read);
        let mut pipe = InputPipe::new(write, 1).unwrap();
        for _ in 0..2 {
            pipe.take(b"abc");
            assert_eq!(pipe.write(&poll).unwrap(), 3);
        }
    }
}

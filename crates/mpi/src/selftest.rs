//! A program that checks the engine in a real job, against what every operation means; `examples/selftest.rs` runs it
//! under a launcher.
//!
//! It stands in the library because it works on the engine itself, whose buffers only the library can make safely.
//! Programs that do not call it do not have it: linkers leave it out.
mod collectives;
mod messages;
mod objects;
mod running;
mod types;

use crate::buffer::{RecvBuf, Scratch, SendBuf};
use crate::core::*;
use crate::error::{ErrorClass, MpiError, Result};

/// Runs all checks; gives the number of them.
pub fn run() -> std::result::Result<usize, String> {
    let mut job = Job::start().map_err(|e| e.to_string())?;
    let suites: [(&str, Suite); 5] = [
        ("messages", messages::check),
        ("types", types::check),
        ("objects", objects::check),
        ("collectives", collectives::check),
        ("running", running::check),
    ];
    for (name, suite) in suites {
        let place = format!("rank {} of {}, {name}", job.rank, job.size);
        suite(&mut job).map_err(|e| format!("{place}: {e}"))?;
    }
    job.mpi.finish().map_err(|e| e.to_string())?;
    Ok(job.checks)
}

type Suite = fn(&mut Job) -> Result<()>;

/// The process under test.
struct Job {
    mpi: Mpi,
    rank: i32,
    size: i32,
    checks: usize,
}

impl Job {
    fn start() -> Result<Job> {
        let mpi = *Mpi::start()?;
        let (rank, size) = (mpi.comm_rank(CommId::WORLD)? as i32, mpi.comm_size(CommId::WORLD)? as i32);
        Ok(Job { mpi, rank, size, checks: 0 })
    }

    /// The rank at a distance to the right, around the end.
    fn right(&self, distance: i32) -> Peer {
        Peer::Rank((self.rank + distance).rem_euclid(self.size))
    }

    /// Drives a blocking call to its end.
    fn done(&mut self, begun: Result<Blocking>) -> Result<Status> {
        match begun? {
            Blocking::Done(status) => Ok(status),
            Blocking::Pending(request) => self.wait(request),
        }
    }

    /// Waits for what a blocking send left to be waited for.
    fn sent(&mut self, sent: Result<Option<RequestId>>) -> Result<()> {
        match sent? {
            None => Ok(()),
            Some(request) => self.wait(request).map(|_| ()),
        }
    }

    fn wait(&mut self, request: RequestId) -> Result<Status> {
        loop {
            match self.mpi.wait(request)? {
                Waited::Done(status) => return Ok(status),
                Waited::Job(job) => {
                    compose(&self.mpi, &job)?;
                    self.mpi.job_done(job);
                }
            }
        }
    }

    fn collective(&mut self, comm: CommId, call: Coll<'_>) -> Result<()> {
        let begun = self.mpi.collective(comm, call);
        let status = self.done(begun)?;
        self.equal(&status.error, &ErrorClass::Success, "status of a collective")
    }

    fn barrier(&mut self) -> Result<()> {
        self.collective(CommId::WORLD, Coll::Barrier)
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, found: &T, expected: &T, what: &str) -> Result<()> {
        self.checks += 1;
        if found == expected {
            return Ok(());
        }
        let text = |value: &T| {
            let mut text = format!("{value:?}");
            text.truncate(200);
            text
        };
        let text = format!("{what}: found {}, expected {}", text(found), text(expected));
        Err(MpiError::new(ErrorClass::Other, text))
    }

    /// The call must fail with a class.
    fn fails<T>(&mut self, result: Result<T>, class: ErrorClass, what: &str) -> Result<()> {
        let found = result.err().map_or(ErrorClass::Success, |error| error.class);
        self.equal(&found, &class, what)
    }
}

/// Memory that operations work on.
struct Memory {
    scratch: Scratch,
    len: usize,
}

impl Memory {
    fn new(bytes: &[u8]) -> Self {
        let mut scratch = Scratch::with(bytes.len());
        scratch.part(bytes.len()).copy_from_slice(bytes);
        Memory { scratch, len: bytes.len() }
    }

    fn filled(len: usize, byte: u8) -> Self {
        Memory::new(&vec![byte; len])
    }

    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.scratch.part(self.len).as_source().copy_to(&mut bytes);
        bytes
    }

    fn send(&mut self) -> SendBuf {
        self.scratch.as_send()
    }

    fn recv(&mut self) -> RecvBuf {
        self.scratch.as_recv()
    }

    /// All of it, as bytes to send.
    fn sent(&mut self) -> SendData {
        Data::new(self.send(), self.len as i64, TypeId::BYTE)
    }

    /// All of it, as room for bytes.
    fn received(&mut self) -> RecvData {
        Data::new(self.recv(), self.len as i64, TypeId::BYTE)
    }
}

/// Bytes that tell their rank and place; odd, so that products keep information.
fn pattern(rank: i32, len: usize) -> Vec<u8> {
    (0..len).map(|i| ((rank as usize * 37 + i * 11 + i / 256) as u8) | 1).collect()
}

/// The reduction function of the checks: composition of x -> a x + b on pairs of 32-bit words. Associative, not
/// commutative. Elements are spread by the extent of their datatype.
fn compose(mpi: &Mpi, job: &UserReduce) -> Result<()> {
    let (_, extent) = mpi.type_extent(job.ty)?;
    for element in 0..job.count {
        let at = (element * extent) as isize;
        let mut words = [[0; 8]; 2];
        job.source.range(at, 8).copy_to(&mut words[0]);
        job.target.as_source().range(at, 8).copy_to(&mut words[1]);
        let result = composed(words[0], words[1]);
        job.target.range(at, 8).copy_from_slice(&result);
    }
    Ok(())
}

fn composed(left: [u8; 8], right: [u8; 8]) -> [u8; 8] {
    let split = |pair: [u8; 8]| {
        let (a, b) = pair.split_at(4);
        let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        (word(a), word(b))
    };
    let ((a, b), (c, d)) = (split(left), split(right));
    let (scale, offset) = (a.wrapping_mul(c), c.wrapping_mul(b).wrapping_add(d));
    let mut result = [0; 8];
    result[..4].copy_from_slice(&scale.to_ne_bytes());
    result[4..].copy_from_slice(&offset.to_ne_bytes());
    result
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_alone_passes_all_checks() {
        let checks = super::run().expect("all checks");
        assert!(checks > 1000, "only {checks} checks ran");
    }
}

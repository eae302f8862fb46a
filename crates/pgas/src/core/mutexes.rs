//! Mutexes: two counters for each, in memory of its owner. Who wants it draws a ticket, and has it when that is served, so
//! that nobody is passed over. And notices of one process to another, which are messages.
use super::regions::{Place, RegionId};
use super::{Core, Driver, GroupId, Rmw};
use crate::slices::{source, target};
use mpi::core::{Coll, Data, Dest, Mode, Mpi, OpId, Peer, RequestId, Source, Tag, TypeId, WinId};
use mpi::{ErrorClass, MpiError, Result};

/// A mutex is the next ticket and the one that is served.
const MUTEX_BYTES: u64 = 16;
const SERVED_AT: u64 = 8;
/// So often a process looks after its own messages between two questions to another node.
const LOOKS_BETWEEN: u32 = 4;
/// Messages that are notices.
const NOTICE_TAG: i32 = 0x6e6f;

/// The mutexes of all processes.
#[derive(Debug)]
pub(super) struct Mutexes {
    region: RegionId,
    counts: Vec<u64>,
    /// Those that this process has, or has asked for: mutex, owner and ticket.
    held: Vec<(u64, u32, i64)>,
}

/// A place among those who want a mutex.
#[derive(Debug)]
pub struct Turn {
    /// Where the counter is mapped.
    win: Option<WinId>,
    served: Place,
    ticket: i64,
}

impl Turn {
    /// Waits until the turn may have come. Others are let run meanwhile, and are answered.
    pub fn rest(&self, driver: &mut impl Driver) -> Result<()> {
        let mut looks = 0;
        driver.watch(|mpi| match self.win {
            Some(_) => self.is_served(mpi),
            None => {
                looks += 1;
                Ok(looks > LOOKS_BETWEEN)
            }
        })
    }

    /// The counter in memory that is mapped here.
    fn is_served(&self, mpi: &mut Mpi) -> Result<bool> {
        let Some(win) = self.win else { return Ok(false) };
        let (given, mut now) = ([0i64], [0i64]);
        let (peer, at) = (Peer::Rank(self.served.rank as i32), self.served.at as i64);
        let (from, into) = (source(&given), target(&mut now));
        mpi.win_fetch_and_op(win, from, into, TypeId::INT64_T, peer, at, OpId::NO_OP)?;
        Ok(now[0] == self.ticket)
    }
}

impl Core {
    /// Collective: so many mutexes of this process's own. There is one set of them at a time.
    pub fn mutexes_create(&mut self, driver: &mut impl Driver, count: u64) -> Result<()> {
        if self.mutexes.is_some() {
            return Err(MpiError::new(
                ErrorClass::Other,
                "there are mutexes already; they are destroyed first",
            ));
        }
        let mut counts = vec![0u64; self.size as usize];
        let mine = [count];
        let send = Data::new(source(&mine), 1, TypeId::UINT64_T);
        let recv = Data::new(target(&mut counts), 1, TypeId::UINT64_T);
        let request = driver.call(|mpi| mpi.icollective(self.comm, Coll::Allgather { send, recv }))?;
        driver.wait(request)?;
        let region = self.malloc(driver, GroupId::WORLD, count.saturating_mul(MUTEX_BYTES))?;
        self.mutexes = Some(Mutexes { region, counts, held: Vec::new() });
        Ok(())
    }

    /// Collective: they are gone.
    pub fn mutexes_destroy(&mut self, driver: &mut impl Driver) -> Result<()> {
        let Some(mutexes) = self.mutexes.take() else { return Err(no_mutexes()) };
        self.barrier(driver)?;
        self.free(driver, mutexes.region)
    }

    /// Waits until this process has a mutex.
    pub fn lock(&mut self, driver: &mut impl Driver, mutex: u64, owner: u32) -> Result<()> {
        let turn = self.lock_begin(driver, mutex, owner)?;
        while !self.has_turn(driver, &turn)? {
            turn.rest(driver)?;
        }
        Ok(())
    }

    /// Asks for a mutex. This process has it when its turn has come.
    pub fn lock_begin(&mut self, driver: &mut impl Driver, mutex: u64, owner: u32) -> Result<Turn> {
        let place = self.mutex(mutex, owner)?;
        let mutexes = self.mutexes.as_ref().expect("asked above");
        if mutexes.held.iter().any(|held| (held.0, held.1) == (mutex, owner)) {
            return Err(MpiError::new(
                ErrorClass::Other,
                format!("mutex {mutex} of rank {owner} is held already"),
            ));
        }
        let ticket = self.rmw(driver, Rmw::Add64(1), place)?;
        self.mutexes.as_mut().expect("asked above").held.push((mutex, owner, ticket));
        let served = Place { at: place.at + SERVED_AT, ..place };
        let near = self.is_mapped(served.region, served.rank)?;
        let win = near.then_some(self.region(served.region)?.win);
        Ok(Turn { win, served, ticket })
    }

    /// Has the turn come?
    pub fn has_turn(&mut self, driver: &mut impl Driver, turn: &Turn) -> Result<bool> {
        match turn.win {
            Some(_) => driver.call(|mpi| turn.is_served(mpi)),
            None => Ok(self.rmw(driver, Rmw::Add64(0), turn.served)? == turn.ticket),
        }
    }

    /// Gives a mutex back. What was done under it is done then.
    pub fn unlock(&mut self, driver: &mut impl Driver, mutex: u64, owner: u32) -> Result<()> {
        let place = self.mutex(mutex, owner)?;
        let mutexes = self.mutexes.as_mut().expect("asked above");
        let Some(at) = mutexes.held.iter().position(|held| (held.0, held.1) == (mutex, owner)) else {
            return Err(MpiError::new(
                ErrorClass::Other,
                format!("mutex {mutex} of rank {owner} is not held"),
            ));
        };
        mutexes.held.swap_remove(at);
        self.all_fence(driver)?;
        let served = Place { at: place.at + SERVED_AT, ..place };
        self.rmw(driver, Rmw::Add64(1), served).map(drop)
    }

    fn mutex(&self, mutex: u64, owner: u32) -> Result<Place> {
        let mutexes = self.mutexes.as_ref().ok_or_else(no_mutexes)?;
        match mutexes.counts.get(owner as usize) {
            Some(count) if mutex < *count => {
                Ok(Place { region: mutexes.region, rank: owner, at: mutex * MUTEX_BYTES })
            }
            Some(count) => {
                let text = format!("mutex {mutex} of rank {owner}, which has {count}");
                Err(MpiError::new(ErrorClass::Arg, text))
            }
            None => {
                let text = format!("a mutex of rank {owner}: there are {} processes", self.size);
                Err(MpiError::new(ErrorClass::Rank, text))
            }
        }
    }

    /// Tells a process something, which then finds done what was begun towards it before.
    pub fn notify(&mut self, driver: &mut impl Driver, rank: u32) -> Result<()> {
        self.wait_implicit(driver, Some(rank))?;
        self.fence(driver, rank)?;
        let dest = Dest::new(Peer::Rank(i32::try_from(rank).unwrap_or(i32::MAX)), NOTICE_TAG);
        let nothing = Data::new(source::<u8>(&[]), 0, TypeId::BYTE);
        let sent = driver.call(|mpi| mpi.isend_now(self.comm, nothing, dest, Mode::Standard))?;
        driver.wait(sent).map(drop)
    }

    /// Waits until a process has told this one something.
    pub fn notify_wait(&mut self, driver: &mut impl Driver, rank: u32) -> Result<()> {
        let come = self.notify_expect(driver, rank)?;
        driver.wait(come).map(drop)
    }

    /// The request ends when a process has told this one something.
    pub fn notify_expect(&mut self, driver: &mut impl Driver, rank: u32) -> Result<RequestId> {
        let peer = Peer::Rank(i32::try_from(rank).unwrap_or(i32::MAX));
        let nothing = Data::new(target::<u8>(&mut []), 0, TypeId::BYTE);
        driver.call(|mpi| mpi.irecv(self.comm, nothing, Source::new(peer, Tag::Is(NOTICE_TAG))))
    }
}

fn no_mutexes() -> MpiError {
    MpiError::new(ErrorClass::Other, "there are no mutexes (ARMCI_Create_mutexes)")
}

//! Domains: processes that have each other's memory mapped. What the launcher says of nodes is not enough, since memory may be
//! kept apart all the same; so it is tried.
use super::{Core, Driver, GroupId};
use crate::slices::{source, target};
use mpi::Result;
use mpi::core::{Coll, Data, TypeId};

/// Which processes are of one domain.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    /// The number of a process's domain.
    of: Vec<u32>,
    /// Its first process.
    firsts: Vec<u32>,
}

impl Domains {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.firsts.len() as u32
    }

    /// A process's domain.
    pub fn of(&self, rank: u32) -> Option<u32> {
        self.of.get(rank as usize).copied()
    }

    /// The processes of a domain, in order.
    pub fn members(&self, domain: u32) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.of).filter(move |(_, of)| **of == domain).map(|(rank, _)| rank)
    }

    /// The first process of each.
    pub fn firsts(&self) -> &[u32] {
        &self.firsts
    }
}

impl Core {
    /// Collective: finds out.
    pub fn domains(&mut self, driver: &mut impl Driver) -> Result<Domains> {
        let probe = self.malloc(driver, GroupId::WORLD, 1)?;
        let parts = &self.region(probe)?.parts;
        let first = parts.iter().position(|part| part.is_near()).unwrap_or(self.rank as usize);
        self.free(driver, probe)?;
        let mine = [first as u32];
        let mut leads = vec![0u32; self.size as usize];
        let send = Data::new(source(&mine), 1, TypeId::UINT32_T);
        let recv = Data::new(target(&mut leads), 1, TypeId::UINT32_T);
        let request = driver.call(|mpi| mpi.icollective(self.comm, Coll::Allgather { send, recv }))?;
        driver.wait(request)?;
        let mut domains = Domains::default();
        for lead in leads {
            let known = domains.firsts.iter().position(|first| *first == lead);
            let number = known.unwrap_or_else(|| {
                domains.firsts.push(lead);
                domains.firsts.len() - 1
            });
            domains.of.push(number as u32);
        }
        Ok(domains)
    }
}

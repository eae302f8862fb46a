//! Memory that processes share: a window for each allocation, open for everybody from its beginning to its end.
use super::{Core, Driver, Group, GroupId};
use mpi::core::{
    Assert, Coll, CommId, Data, NewWindow, OpId, Peer, Reduction, TypeId, WinFlavor, WinId, registry,
};
use mpi::{ErrorClass, MpiError, RecvBuf, Result, SendBuf};
use std::collections::HashMap;

/// A piece of memory that processes have allocated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionId(pub(super) u32);

/// A place in a process's part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which memory.
    pub region: RegionId,
    /// Whose part, by the rank among those who have allocated it.
    pub rank: u32,
    /// Bytes from the beginning of that part.
    pub at: u64,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) win: WinId,
    pub(super) group: Group,
    /// Allocations are made in one order by all who take part.
    pub(super) serial: u64,
    pub(super) parts: Vec<Part>,
    /// Is something under way to a part of which it is not known whether it is done?
    pub(super) dirty: Vec<bool>,
}

/// What a process has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bytes: u64,
    /// Where it is in memory here, if it is mapped.
    pub(super) here: usize,
    /// Where its owner has it.
    pub(super) there: usize,
}

impl Part {
    pub(super) fn is_near(&self) -> bool {
        self.here != 0
    }

    /// The address by which programs name it.
    fn named(&self) -> usize {
        if self.is_near() { self.here } else { self.there }
    }
}

/// Where the memory of processes is, by address: for those that were asked for.
#[derive(Debug, Default)]
pub(super) struct Spans {
    version: u64,
    made: u64,
    of: HashMap<u32, Known>,
    last: Option<(u32, Span)>,
}

#[derive(Debug, Default)]
struct Known {
    version: u64,
    /// By the addresses that this process was given, and by those of their owner where these are others.
    here: Vec<Span>,
    there: Vec<Span>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    bytes: u64,
    region: RegionId,
    rank: u32,
}

impl Span {
    #[inline]
    fn place(&self, address: usize) -> Option<Place> {
        let at = address.checked_sub(self.start)? as u64;
        (at < self.bytes).then_some(Place { region: self.region, rank: self.rank, at })
    }

    fn find(spans: &[Span], address: usize) -> Option<&Span> {
        let behind = spans.partition_point(|span| span.start <= address);
        spans[..behind].last().filter(|span| span.place(address).is_some())
    }
}

impl Core {
    /// Collective over a group: everybody brings so many bytes, zero at first.
    pub fn malloc(&mut self, driver: &mut impl Driver, group: GroupId, bytes: u64) -> Result<RegionId> {
        let group = self.group(group)?.clone();
        let comm = group.comm()?;
        let info = registry().info_with(vec![("banyan_rma".into(), "auto".into())]);
        let new = NewWindow {
            flavor: WinFlavor::Allocate,
            base: RecvBuf::NONE,
            bytes: i64::try_from(bytes).unwrap_or(-1),
            disp_unit: 1,
            info: Some(info),
        };
        let made = driver.call(|mpi| mpi.win_make(comm, new));
        registry().info_free(info)?;
        let (win, making) = made?;
        driver.settle(making)?;
        // Nobody ever locks it alone, so that nobody's lock need be asked for.
        let open = Assert { no_check: true, ..Assert::default() };
        let opening = driver.call(|mpi| mpi.win_lock_all(win, open))?;
        driver.settle(opening)?;
        let parts = parts(driver, comm, win)?;
        self.has_far |= parts.iter().any(|part| part.bytes > 0 && !part.is_near());
        self.spans.version += 1;
        self.spans.made += 1;
        let (serial, dirty) = (self.spans.made, vec![false; parts.len()]);
        let region = Region { win, group, serial, dirty, parts };
        let free = self.regions.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.regions.push(None);
            self.regions.len() - 1
        });
        self.regions[at] = Some(region);
        Ok(RegionId(at as u32))
    }

    /// Collective over those who have allocated it. What they have begun on it is done.
    pub fn free(&mut self, driver: &mut impl Driver, region: RegionId) -> Result<()> {
        let win = self.region(region)?.win;
        let closing = driver.call(|mpi| mpi.win_unlock_all(win))?;
        driver.settle(closing)?;
        let freeing = driver.call(|mpi| mpi.win_free(win))?;
        driver.settle(freeing)?;
        self.dirty.retain(|(dirty, _)| *dirty != region);
        self.regions[region.0 as usize] = None;
        self.spans.version += 1;
        self.spans.last = None;
        Ok(())
    }

    /// The addresses by which this process names the parts of everybody; 0 where nothing was brought.
    pub fn addresses(&self, region: RegionId) -> Result<impl Iterator<Item = usize> + '_> {
        Ok(self.region(region)?.parts.iter().map(Part::named))
    }

    /// Collective over a group: the memory whose own part begins at an address. Who has brought nothing has none (0), and learns
    /// from the others which memory is meant.
    pub fn allocation_at(
        &mut self,
        driver: &mut impl Driver,
        group: GroupId,
        address: usize,
    ) -> Result<RegionId> {
        let (comm, own) = {
            let group = self.group(group)?;
            (group.comm()?, group.rank_of(self.rank))
        };
        let own = own.ok_or_else(|| MpiError::new(ErrorClass::Group, "this process is not in the group"))?;
        let mut of_group = (0..).zip(&self.regions).filter_map(|(at, region)| {
            let region = region.as_ref().filter(|region| region.group.comm().ok() == Some(comm))?;
            Some((RegionId(at), region))
        });
        let owner = match address {
            0 => -1,
            _ => {
                let found = of_group.find(|(_, region)| region.parts[own as usize].here == address);
                let Some((id, region)) = found else {
                    let text =
                        format!("0x{address:x} is not where memory begins that the group has allocated");
                    return Err(MpiError::new(ErrorClass::Buffer, text));
                };
                if region.parts.iter().all(|part| part.bytes > 0) {
                    return Ok(id);
                }
                i64::from(own)
            }
        };
        // Somebody has brought nothing: who has brought something says which it is.
        let mut word = [owner];
        combine(driver, comm, &mut word, OpId::MAX)?;
        let owner = word[0];
        let mut word = [if owner == i64::from(own) { address as i64 } else { 0 }];
        combine(driver, comm, &mut word, OpId::SUM)?;
        let mut of_group = (0..).zip(&self.regions).filter_map(|(at, region)| {
            let region = region.as_ref().filter(|region| region.group.comm().ok() == Some(comm))?;
            Some((RegionId(at), region))
        });
        let found = match u32::try_from(owner) {
            Ok(owner) => of_group.find(|(_, region)| region.parts[owner as usize].there as i64 == word[0]),
            Err(_) => of_group
                .filter(|(_, region)| region.parts.iter().all(|part| part.bytes == 0))
                .min_by_key(|(_, region)| region.serial),
        };
        let none =
            || MpiError::new(ErrorClass::Buffer, "nothing is allocated to which the null pointer belongs");
        found.map(|(id, _)| id).ok_or_else(none)
    }

    /// Where an address of a process's memory is, by that process's number among all.
    #[inline]
    pub fn locate(&mut self, rank: u32, address: usize) -> Result<Place> {
        if let Some((last, span)) = &self.spans.last
            && *last == rank
            && let Some(place) = span.place(address)
        {
            return Ok(place);
        }
        self.look_up(rank, address)
    }

    #[cold]
    fn look_up(&mut self, rank: u32, address: usize) -> Result<Place> {
        if rank >= self.size {
            let text = format!("rank {} is not one of {} processes", rank as i32, self.size);
            return Err(MpiError::new(ErrorClass::Rank, text));
        }
        let Spans { version, of, last, .. } = &mut self.spans;
        let known = of.entry(rank).or_default();
        if known.version != *version {
            *known = known_of(&self.regions, rank);
            known.version = *version;
        }
        let span = Span::find(&known.here, address).or_else(|| Span::find(&known.there, address));
        let Some(span) = span else {
            let text = format!("0x{address:x} is not in memory of rank {rank} that was allocated with it");
            return Err(MpiError::new(ErrorClass::RmaRange, text));
        };
        *last = Some((rank, *span));
        Ok(span.place(address).expect("found by it"))
    }

    /// How many bytes a process has brought.
    pub fn bytes_of(&self, region: RegionId, rank: u32) -> Result<u64> {
        Ok(self.part(region, rank)?.bytes)
    }

    /// Is a process's part mapped here?
    pub fn is_mapped(&self, region: RegionId, rank: u32) -> Result<bool> {
        Ok(self.part(region, rank)?.is_near())
    }

    /// Which of all processes shares this part.
    pub(super) fn world_rank(&self, region: RegionId, member: u32) -> u32 {
        let region = self.regions[region.0 as usize].as_ref();
        region.and_then(|region| region.group.absolute(member)).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(super) fn region(&self, region: RegionId) -> Result<&Region> {
        let found = self.regions.get(region.0 as usize).and_then(Option::as_ref);
        found.ok_or_else(|| MpiError::new(ErrorClass::Win, format!("there is no memory {}", region.0)))
    }

    #[inline]
    pub(super) fn part(&self, region: RegionId, rank: u32) -> Result<&Part> {
        let parts = &self.region(region)?.parts;
        parts.get(rank as usize).ok_or_else(|| {
            let text = format!("rank {rank} of memory that {} processes share", parts.len());
            MpiError::new(ErrorClass::Rank, text)
        })
    }
}

/// Everything that a process has brought.
fn known_of(regions: &[Option<Region>], rank: u32) -> Known {
    let mut known = Known::default();
    for (at, region) in (0..).zip(regions) {
        let Some(region) = region else { continue };
        let Some(member) = region.group.rank_of(rank) else { continue };
        let part = region.parts[member as usize];
        let span = |start| Span { start, bytes: part.bytes, region: RegionId(at), rank: member };
        if part.bytes > 0 {
            known.here.push(span(part.named()));
            if part.named() != part.there {
                known.there.push(span(part.there));
            }
        }
    }
    known.here.sort_by_key(|span| span.start);
    known.there.sort_by_key(|span| span.start);
    known
}

/// What everybody has brought, and where it is.
fn parts(driver: &mut impl Driver, comm: CommId, win: WinId) -> Result<Vec<Part>> {
    let (size, own) = driver.call(|mpi| Ok((mpi.comm_size(comm)?, mpi.win_memory(win)?)))?;
    let mine = [own.1 as u64, if own.1 > 0 { own.0 as u64 } else { 0 }];
    let mut all = vec![0u64; 2 * size as usize];
    let send = Data::new(crate::slices::source(&mine), 2, TypeId::UINT64_T);
    let recv = Data::new(crate::slices::target(&mut all), 2, TypeId::UINT64_T);
    let request = driver.call(|mpi| mpi.icollective(comm, Coll::Allgather { send, recv }))?;
    driver.wait(request)?;
    let part = |(rank, facts): (usize, &[u64])| {
        let (here, _, _) = driver.call(|mpi| mpi.win_shared_query(win, Peer::Rank(rank as i32)))?;
        Ok(Part { bytes: facts[0], here, there: facts[1] as usize })
    };
    all.chunks(2).enumerate().map(part).collect()
}

/// Combines words of all members, in place.
fn combine(driver: &mut impl Driver, comm: CommId, words: &mut [i64], op: OpId) -> Result<()> {
    let recv = crate::slices::target(words);
    let recv = Data::new(recv, words.len() as i64, TypeId::INT64_T);
    let of = Reduction { send: SendBuf::IN_PLACE, recv, op };
    let request = driver.call(|mpi| mpi.icollective(comm, Coll::Allreduce(of)))?;
    driver.wait(request).map(drop)
}

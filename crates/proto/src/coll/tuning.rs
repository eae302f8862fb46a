//! Algorithms by size: every choice is made here, from figures that all processes of the group
//! agree on.
//!
//! What decides: the number of messages in a row (small data), the bytes that the busiest process moves (large
//! data), and, where processes share cores, how often each has to wait: a wait there is a switch to another
//! process, so a wide tree (everyone waits once) beats exchanges in rounds by far, though its root is busier.
//! Connections count too: exchanges with the partner at `rank ^ 2^k` need only the logarithm of the size in peers.
use super::{Cores, Elements, Memory, Place, common};

/// Messages up to this size leave the process when they are sent.
pub const SEND_FIRST_BYTES: usize = 2 << 10;
/// From here on a broadcast scatters and gathers instead of sending everything down a tree.
pub const BCAST_LARGE_BYTES: usize = 128 << 10;
/// From here on an allreduce splits the data.
pub const ALLREDUCE_LARGE_BYTES: usize = 16 << 10;
/// From here on an allgather (in total) goes around a ring.
pub const ALLGATHER_LARGE_BYTES: usize = 256 << 10;
/// From here on a gather or scatter block goes straight between its process and the root.
pub const GATHER_LARGE_BYTES: usize = 16 << 10;
/// From here on a reduce-scatter (in total) exchanges blocks pairwise.
pub const REDUCE_SCATTER_LARGE_BYTES: usize = 4 << 10;
/// Up to this block size an all-to-all combines blocks into few messages.
pub const ALLTOALL_SMALL_BYTES: usize = 128;
/// Below this many processes an all-to-all never combines.
pub const ALLTOALL_COMBINE_SIZE_MIN: u32 = 8;
/// Up to this block size an all-to-all between hosts has the blocks of a host cross together.
pub const ALLTOALL_TOGETHER_BYTES: usize = 1 << 10;
/// But not if who speaks for a host would have to keep more bytes for its processes,
pub const ALLTOALL_ROWS_BYTES: usize = 1 << 20;
/// or to put more blocks in place.
pub const ALLTOALL_PLACED_MAX: usize = 1 << 16;
/// Messages that an all-to-all keeps under way at a time, in each direction.
pub const ALLTOALL_WINDOW: u32 = 64;
/// Children per level, plus one, of trees for processes that share cores.
pub const WIDE_RADIX: u32 = 32;
/// Up to this message size such trees are used.
pub const WIDE_BYTES_MAX: usize = 4 << 10;

/// From here on processes of one host that can reach each other's memory do so in broadcasts, reductions to one, and
/// all-to-alls, gathers and scatters (of each block).
pub const DIRECT_BYTES: usize = 32 << 10;
/// The same in what goes from all to all: reductions to all, allgathers and reduce-scatters (in total).
pub const DIRECT_TOTAL_BYTES: usize = 64 << 10;
/// Where processes share cores, reductions to one do so from here on,
pub const DIRECT_SHARED_BYTES: usize = 128 << 10;
/// those to all from here on,
pub const DIRECT_SHARED_TOTAL_BYTES: usize = 512 << 10;
/// and what only moves data does not among more processes than these: everybody would wait for everybody twice, and find
/// its cache cold.
pub const DIRECT_SHARED_SIZE: u32 = 2;
/// From here on a message between processes of one host that share cores is read by its receiver in one piece: blocks go
/// straight from where they are to where they are wanted.
pub const FETCHED_BYTES_MIN: usize = 32 << 10;
/// But not from the root of a broadcast if it has more, so that a cache does not hold it while all read it;
pub const BCAST_FETCHED_BYTES_MAX: usize = 1 << 20;
/// nor in an allgather of more processes, each of which would be connected to all.
pub const STRAIGHT_SIZE_MAX: u32 = 16;
/// From here on two processes exchange blocks through memory that both map,
pub const COMMON_PAIR_BYTES: usize = 16 << 10;
/// to here: of longer ones a second copy costs more than the kernel's single one.
pub const COMMON_PAIR_BYTES_MAX: usize = 64 << 10;
/// From here on more processes that share cores do so in an allgather (in total),
pub const COMMON_BYTES: usize = WIDE_BYTES_MAX + 1;
/// and from here on in a broadcast.
pub const COMMON_BCAST_BYTES: usize = 16 << 10;
/// Bytes that a process combines at a time where it reads the operands of others: they should stay in its cache.
pub const DIRECT_BLOCK_BYTES: usize = 256 << 10;

/// May processes wait for all others without doing so in turns?
fn unhurried(at: Place) -> bool {
    at.cores == Cores::Own || at.size <= DIRECT_SHARED_SIZE
}

/// Do processes reach each other's memory to move so many bytes?
fn moves_direct(at: Place, bytes: usize, least: usize) -> bool {
    at.memory != Memory::Apart && at.size > 1 && bytes >= least && unhurried(at)
}

/// Do they to combine elements?
fn combines_direct(at: Place, data: Elements, least: usize) -> bool {
    let enough = data.bytes() >= least && data.count >= at.size as usize;
    at.memory != Memory::Apart && at.size > 1 && enough
}

/// Is there memory that all map, or may there be, with room for what all of them have? Not measured: more processes than two
/// with cores of their own.
fn in_common(at: Place, total_bytes: usize) -> bool {
    let measured = at.size == 2 || at.size > 2 && at.cores == Cores::Shared;
    let fits = at.size <= common::MEMBERS_MAX && (1..=common::LAID_BYTES_MAX).contains(&total_bytes);
    matches!(at.memory, Memory::OneNode(_)) && measured && fits
}

/// Does an exchange of blocks gain by that? More processes than two do, from so many bytes of all on.
fn gains_in_common(at: Place, block_bytes: usize, least: usize, total_bytes: usize) -> bool {
    let gains = match at.size {
        2 => (COMMON_PAIR_BYTES..=COMMON_PAIR_BYTES_MAX).contains(&block_bytes),
        _ => total_bytes >= least,
    };
    gains && in_common(at, total_bytes)
}

/// Bytes that the root of a direct broadcast writes to each of the others, who read the rest.
pub fn bcast_share(at: Place, bytes: usize) -> usize {
    bytes / at.size as usize
}

/// May a wide tree carry messages of this size?
fn wide(at: Place, bytes: usize) -> bool {
    at.cores == Cores::Shared && at.size > 2 && bytes <= WIDE_BYTES_MAX
}

/// Does a message of this size cost its receiver one wait and one copy, where more of either is what counts?
fn fetched(at: Place, bytes: usize) -> bool {
    at.cores == Cores::Shared && at.size > 2 && at.memory != Memory::Apart && bytes >= FETCHED_BYTES_MIN
}

/// The radix of a tree that carries messages of this size.
pub fn radix(at: Place, bytes: usize) -> u32 {
    if wide(at, bytes) { WIDE_RADIX } else { 2 }
}

/// The radix of the tree by which the processes of a host report to the one that speaks for them.
pub fn host_radix(at: Place) -> u32 {
    radix(at, 0)
}

/// How everyone comes to know what everyone knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Exchange with the partner at each distance.
    Doubling,
    /// Up a tree and down again.
    Tree {
        /// Children per level, plus one.
        radix: u32,
    },
}

fn exchange(at: Place, bytes: usize) -> Exchange {
    if wide(at, bytes) { Exchange::Tree { radix: WIDE_RADIX } } else { Exchange::Doubling }
}

/// Chooses a barrier.
pub fn barrier(at: Place) -> Exchange {
    exchange(at, 0)
}

/// How to broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bcast {
    /// Everything down a tree.
    Tree {
        /// Children per level, plus one.
        radix: u32,
    },
    /// Scatter down a binomial tree, then gather among all.
    ScatterAllgather,
    /// Everyone reads the root's memory.
    Direct,
    /// Through memory that all map.
    Common,
}

/// Chooses a broadcast.
pub fn bcast(at: Place, bytes: usize) -> Bcast {
    if at.size > 2 && bytes >= COMMON_BCAST_BYTES && in_common(at, bytes) {
        Bcast::Common
    } else if moves_direct(at, bytes, DIRECT_BYTES) {
        Bcast::Direct
    } else if fetched(at, bytes) && bytes <= BCAST_FETCHED_BYTES_MAX {
        Bcast::Tree { radix: WIDE_RADIX }
    } else if bytes < BCAST_LARGE_BYTES || at.size < 4 {
        Bcast::Tree { radix: radix(at, bytes) }
    } else {
        Bcast::ScatterAllgather
    }
}

/// How to reduce to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    /// Up a tree.
    Tree {
        /// Children per level, plus one.
        radix: u32,
    },
    /// Everyone combines a piece in memory.
    Direct,
}

/// Chooses a reduction to one.
pub fn reduce(at: Place, data: Elements) -> Reduce {
    let bytes = data.bytes();
    let least = if unhurried(at) { DIRECT_BYTES } else { DIRECT_SHARED_BYTES };
    if combines_direct(at, data, least) { Reduce::Direct } else { Reduce::Tree { radix: radix(at, bytes) } }
}

/// The least bytes for which what is combined for all is combined in memory.
fn combine_for_all_bytes(at: Place) -> usize {
    if unhurried(at) { DIRECT_TOTAL_BYTES } else { DIRECT_SHARED_TOTAL_BYTES }
}

/// How to reduce to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allreduce {
    /// Messages carry everything.
    Whole(Exchange),
    /// Reduce-scatter by halving, then gather by doubling.
    Halving,
    /// Everyone combines a piece in memory and gives it to all.
    Direct,
}

/// Chooses an allreduce.
pub fn allreduce(at: Place, data: Elements) -> Allreduce {
    if combines_direct(at, data, combine_for_all_bytes(at)) {
        return Allreduce::Direct;
    }
    let splits = data.commutes && data.count >= at.size as usize && at.size > 2;
    if splits && data.bytes() >= ALLREDUCE_LARGE_BYTES {
        Allreduce::Halving
    } else {
        Allreduce::Whole(exchange(at, data.bytes()))
    }
}

/// How to gather to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allgather {
    /// Exchange all that is known with the partner at each distance; powers of two only.
    Doubling,
    /// As `Doubling` for any size: send to the left, receive from the right, rotate at the end.
    Bruck,
    /// Pass blocks on to the right neighbour.
    Ring,
    /// Everything to rank 0 and back.
    GatherBcast,
    /// Every block from its process to each of the others.
    Straight,
    /// Everyone reads everyone's memory.
    Direct,
    /// Through memory that all map.
    Common,
}

/// Chooses an allgather by the bytes of all blocks together.
pub fn allgather(at: Place, total_bytes: usize) -> Allgather {
    match total_bytes {
        total if gains_in_common(at, total / at.size as usize, COMMON_BYTES, total) => Allgather::Common,
        total if moves_direct(at, total, DIRECT_TOTAL_BYTES) => Allgather::Direct,
        total if fetched(at, total / at.size as usize) && at.size <= STRAIGHT_SIZE_MAX => Allgather::Straight,
        total if total >= ALLGATHER_LARGE_BYTES => Allgather::Ring,
        total if wide(at, total) && at.size <= WIDE_RADIX => Allgather::GatherBcast,
        _ if at.size.is_power_of_two() => Allgather::Doubling,
        _ => Allgather::Bruck,
    }
}

/// Chooses an allgather of unequal blocks.
pub fn allgatherv(at: Place, total_bytes: usize) -> Allgather {
    match total_bytes {
        total if moves_direct(at, total, DIRECT_TOTAL_BYTES) => Allgather::Direct,
        total if fetched(at, total / at.size as usize) && at.size <= STRAIGHT_SIZE_MAX => Allgather::Straight,
        total if total >= ALLGATHER_LARGE_BYTES => Allgather::Ring,
        _ => Allgather::Bruck,
    }
}

/// How to gather or scatter equal blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Along a binomial tree.
    Tree,
    /// Every block in a message between its process and the root.
    Straight,
    /// Who is not the root writes or reads its block in the root's memory.
    Direct,
}

/// Chooses a gather or scatter.
pub fn gather(at: Place, block_bytes: usize) -> Gather {
    let low = wide(at, block_bytes) && at.size <= WIDE_RADIX;
    if moves_direct(at, block_bytes, DIRECT_BYTES) {
        Gather::Direct
    } else if block_bytes >= GATHER_LARGE_BYTES || low {
        Gather::Straight
    } else {
        Gather::Tree
    }
}

/// Do blocks that are gathered or scattered cross to another host together with those of their neighbours? It saves
/// messages between hosts, and costs a copy.
pub fn crosses_together(block_bytes: usize) -> bool {
    block_bytes < GATHER_LARGE_BYTES
}

/// Do the blocks of an all-to-all between so many hosts?
pub fn rows_cross_together(at: Place, hosts: usize, block_bytes: usize) -> bool {
    let size = at.size as usize;
    let placed = size.div_ceil(hosts).saturating_mul(size);
    block_bytes <= ALLTOALL_TOGETHER_BYTES
        && placed <= ALLTOALL_PLACED_MAX
        && placed.saturating_mul(block_bytes) <= ALLTOALL_ROWS_BYTES
}

/// How to exchange all with all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alltoall {
    /// One message per pair.
    Pairwise,
    /// Blocks travel together, in as many rounds as the size has bits.
    Bruck,
    /// Everyone reads everyone's memory.
    Direct,
    /// Through memory that all map.
    Common,
}

/// Chooses an all-to-all.
pub fn alltoall(at: Place, block_bytes: usize) -> Alltoall {
    let total = (at.size as usize).pow(2).saturating_mul(block_bytes);
    if gains_in_common(at, block_bytes, 1, total) {
        return Alltoall::Common;
    }
    let small = block_bytes <= ALLTOALL_SMALL_BYTES && at.size >= ALLTOALL_COMBINE_SIZE_MIN;
    if moves_direct(at, block_bytes, DIRECT_BYTES) {
        Alltoall::Direct
    } else if small && at.cores == Cores::Own {
        Alltoall::Bruck
    } else {
        Alltoall::Pairwise
    }
}

/// How to reduce and scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceScatter {
    /// Reduce everything everywhere, keep the own block.
    Whole(Exchange),
    /// Every process collects its own block from all.
    Pairwise,
    /// Every process reads and combines its own block in everyone's memory.
    Direct,
}

/// Chooses a reduce-scatter.
pub fn reduce_scatter(at: Place, data: Elements) -> ReduceScatter {
    if combines_direct(at, data, combine_for_all_bytes(at)) {
        return ReduceScatter::Direct;
    }
    let large = data.bytes() >= REDUCE_SCATTER_LARGE_BYTES;
    if large && data.commutes {
        ReduceScatter::Pairwise
    } else {
        ReduceScatter::Whole(exchange(at, data.bytes()))
    }
}

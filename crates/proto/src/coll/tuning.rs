//! Which algorithm for which size: every choice is made here, from figures that all processes of the group
//! agree on.
//!
//! Two things decide: the number of messages on the critical path (small data), and the bytes that the
//! busiest process moves (large data). Connections count too: exchanges with the partner at `rank ^ 2^k`
//! need only the logarithm of the size in peers, so they come first.
use super::Elements;

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
/// Messages that an all-to-all keeps under way at a time, in each direction.
pub const ALLTOALL_WINDOW: u32 = 64;

/// How to broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bcast {
    /// Everything down a binomial tree.
    Tree,
    /// Scatter down the tree, then gather among all.
    ScatterAllgather,
}

/// Chooses a broadcast.
pub fn bcast(size: u32, bytes: usize) -> Bcast {
    if bytes < BCAST_LARGE_BYTES || size < 4 { Bcast::Tree } else { Bcast::ScatterAllgather }
}

/// How to reduce to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allreduce {
    /// Exchange everything with the partner at each distance.
    Doubling,
    /// Reduce-scatter by halving, then gather by doubling.
    Halving,
}

/// Chooses an allreduce.
pub fn allreduce(size: u32, data: Elements) -> Allreduce {
    let splits = data.commutes && data.count >= size as usize && size > 2;
    if splits && data.bytes() >= ALLREDUCE_LARGE_BYTES { Allreduce::Halving } else { Allreduce::Doubling }
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
}

/// Chooses an allgather by the bytes of all blocks together.
pub fn allgather(size: u32, total_bytes: usize) -> Allgather {
    match total_bytes {
        total if total >= ALLGATHER_LARGE_BYTES => Allgather::Ring,
        _ if size.is_power_of_two() => Allgather::Doubling,
        _ => Allgather::Bruck,
    }
}

/// Chooses an allgather of unequal blocks.
pub fn allgatherv(total_bytes: usize) -> Allgather {
    if total_bytes >= ALLGATHER_LARGE_BYTES { Allgather::Ring } else { Allgather::Bruck }
}

/// How to gather or scatter equal blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Along a binomial tree.
    Tree,
    /// Every block straight between its process and the root.
    Direct,
}

/// Chooses a gather or scatter.
pub fn gather(block_bytes: usize) -> Gather {
    if block_bytes < GATHER_LARGE_BYTES { Gather::Tree } else { Gather::Direct }
}

/// How to exchange all with all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alltoall {
    /// One message per pair.
    Pairwise,
    /// Blocks travel together, in as many rounds as the size has bits.
    Bruck,
}

/// Chooses an all-to-all.
pub fn alltoall(size: u32, block_bytes: usize) -> Alltoall {
    let combine = block_bytes <= ALLTOALL_SMALL_BYTES && size >= ALLTOALL_COMBINE_SIZE_MIN;
    if combine { Alltoall::Bruck } else { Alltoall::Pairwise }
}

/// How to reduce and scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceScatter {
    /// Reduce everything everywhere, keep the own block.
    Doubling,
    /// Every process collects its own block from all.
    Pairwise,
}

/// Chooses a reduce-scatter.
pub fn reduce_scatter(data: Elements) -> ReduceScatter {
    let large = data.bytes() >= REDUCE_SCATTER_LARGE_BYTES;
    if large && data.commutes { ReduceScatter::Pairwise } else { ReduceScatter::Doubling }
}

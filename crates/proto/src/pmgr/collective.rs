//! What all ranks of a job said in a round becomes what each is told.
use super::message::Operation;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Most bytes of data of one round, over all ranks.
pub const RESULT_BYTES_MAX: u64 = 256 << 20;

/// The rounds of one job. A rank enters with an [`Operation`]; the last one to enter completes the round.
#[derive(Debug)]
pub struct Collective {
    size: u32,
    /// What the first rank of this round called.
    call: Option<Call>,
    /// What each rank brought; `None` until it has entered.
    parts: Vec<Option<Vec<u8>>>,
    entered: u32,
}

/// What is told at the end of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The same to all ranks.
    All(Vec<u8>),
    /// To each rank its own, in the order of ranks.
    Each(Vec<Vec<u8>>),
    /// Something to one rank, nothing to the others.
    One {
        /// The root.
        rank: u32,
        /// Its data.
        bytes: Vec<u8>,
    },
    /// All have closed: nothing to anybody.
    Closed,
}

/// Why a rank cannot enter. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// It is in this round already.
    #[error("rank {0} is in this PMGR round already")]
    AlreadyIn(u32),
    /// It calls another operation than the ranks before it.
    #[error("rank {rank} calls PMGR {called} while others are in {others}")]
    Mismatch {
        /// Who.
        rank: u32,
        /// What it calls.
        called: Call,
        /// What the others call.
        others: Call,
    },
    /// More data than [`RESULT_BYTES_MAX`].
    #[error("PMGR {0} of more than {RESULT_BYTES_MAX} bytes over all ranks")]
    TooLarge(Call),
    /// Not an operation of all ranks, or no rank of this job.
    #[error("rank {rank} cannot enter a PMGR round with {called}")]
    NotCollective {
        /// Who.
        rank: u32,
        /// What it calls.
        called: Call,
    },
}

/// An operation without its data: what all ranks have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    name: &'static str,
    root: Option<u32>,
    size: Option<u32>,
}

impl Call {
    fn of(operation: &Operation) -> Self {
        let (root, size) = match operation {
            Operation::Bcast { root, size, .. } | Operation::Scatter { root, size, .. } => {
                (Some(*root), Some(*size))
            }
            Operation::Gather { root, data } => (Some(*root), Some(data.len() as u32)),
            Operation::Allgather { data } => (None, Some(data.len() as u32)),
            Operation::Alltoall { size, .. } => (None, Some(*size)),
            Operation::Open { .. } | Operation::Close | Operation::Abort { .. } | Operation::Barrier => {
                (None, None)
            }
        };
        Call { name: operation.name(), root, size }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match (self.root, self.size) {
            (Some(root), Some(size)) => write!(f, " (root {root}, {size} bytes)"),
            (_, Some(size)) => write!(f, " ({size} bytes)"),
            _ => Ok(()),
        }
    }
}

impl Collective {
    /// The rounds of a job with so many processes.
    pub fn new(size: u32) -> Self {
        Collective { size, call: None, parts: vec![None; size as usize], entered: 0 }
    }

    /// Is the rank in the round that is under way? Then it has to wait for its end.
    pub fn is_in(&self, rank: u32) -> bool {
        self.parts.get(rank as usize).is_some_and(Option::is_some)
    }

    /// A rank enters. The last one gets what is to be told to all.
    pub fn enter(&mut self, rank: u32, operation: Operation) -> Result<Option<Delivery>, EnterError> {
        let call = Call::of(&operation);
        self.check(rank, &operation, call)?;
        self.call = Some(call);
        self.parts[rank as usize] = Some(data(operation));
        self.entered += 1;
        if self.entered < self.size {
            return Ok(None);
        }
        self.entered = 0;
        self.call = None;
        let parts = self.parts.iter_mut().map(|part| part.take().unwrap_or_default()).collect();
        Ok(Some(deliver(call, parts)))
    }

    fn check(&self, rank: u32, operation: &Operation, called: Call) -> Result<(), EnterError> {
        let alone = matches!(operation, Operation::Open { .. } | Operation::Abort { .. });
        if alone || rank >= self.size {
            return Err(EnterError::NotCollective { rank, called });
        }
        if self.is_in(rank) {
            return Err(EnterError::AlreadyIn(rank));
        }
        if let Some(others) = self.call.filter(|others| *others != called) {
            return Err(EnterError::Mismatch { rank, called, others });
        }
        if self.total_bytes(operation, called) > RESULT_BYTES_MAX {
            return Err(EnterError::TooLarge(called));
        }
        Ok(())
    }

    /// Bytes of the round, when all are in.
    fn total_bytes(&self, operation: &Operation, call: Call) -> u64 {
        let (size, ranks) = (u64::from(call.size.unwrap_or(0)), u64::from(self.size));
        match operation {
            Operation::Alltoall { .. } => size.saturating_mul(ranks).saturating_mul(ranks),
            _ => size.saturating_mul(ranks),
        }
    }
}

fn data(operation: Operation) -> Vec<u8> {
    match operation {
        Operation::Bcast { data, .. } | Operation::Scatter { data, .. } => data.unwrap_or_default(),
        Operation::Gather { data, .. } | Operation::Allgather { data } | Operation::Alltoall { data, .. } => {
            data
        }
        _ => Vec::new(),
    }
}

fn deliver(call: Call, mut parts: Vec<Vec<u8>>) -> Delivery {
    let size = call.size.unwrap_or(0) as usize;
    let root = call.root.unwrap_or(0);
    match call.name {
        "barrier" => Delivery::All(Operation::Barrier.opcode().to_le_bytes().to_vec()),
        "bcast" => Delivery::All(core::mem::take(&mut parts[root as usize])),
        "gather" => Delivery::One { rank: root, bytes: parts.concat() },
        "scatter" => {
            let ranks = parts.len();
            Delivery::Each((0..ranks).map(|rank| piece(&parts[root as usize], rank, size)).collect())
        }
        "allgather" => Delivery::All(parts.concat()),
        "alltoall" => {
            let for_rank = |rank| parts.iter().flat_map(|part| piece(part, rank, size)).collect();
            Delivery::Each((0..parts.len()).map(for_rank).collect())
        }
        _ => Delivery::Closed,
    }
}

fn piece(data: &[u8], rank: usize, size: usize) -> Vec<u8> {
    data[rank * size..(rank + 1) * size].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn round(operations: Vec<Operation>) -> Delivery {
        let mut collective = Collective::new(operations.len() as u32);
        let mut told = None;
        // From the last rank to the first: the order in which they come is nothing.
        for (rank, operation) in operations.into_iter().enumerate().rev() {
            assert_eq!(told, None);
            told = collective.enter(rank as u32, operation).unwrap();
            assert_eq!(collective.is_in(rank as u32), told.is_none());
        }
        told.expect("all are in")
    }

    #[test]
    fn every_operation_tells_what_it_should() {
        let all = |make: &dyn Fn(u32) -> Operation| round((0..3).map(make).collect());
        let text = |rank: u32| alloc::format!("{rank}a").into_bytes();
        let three = |rank: u32| alloc::format!("{rank}0{rank}1{rank}2").into_bytes();
        assert_eq!(all(&|_| Operation::Barrier), Delivery::All(vec![3, 0, 0, 0]));
        assert_eq!(all(&|_| Operation::Close), Delivery::Closed);
        let bcast = all(&|rank| Operation::Bcast { root: 1, size: 2, data: (rank == 1).then(|| text(rank)) });
        assert_eq!(bcast, Delivery::All(b"1a".to_vec()));
        let gather = all(&|rank| Operation::Gather { root: 2, data: text(rank) });
        assert_eq!(gather, Delivery::One { rank: 2, bytes: b"0a1a2a".to_vec() });
        let scatter =
            all(&|rank| Operation::Scatter { root: 0, size: 2, data: (rank == 0).then(|| three(rank)) });
        assert_eq!(scatter, Delivery::Each(vec![b"00".to_vec(), b"01".to_vec(), b"02".to_vec()]));
        let allgather = all(&|rank| Operation::Allgather { data: text(rank) });
        assert_eq!(allgather, Delivery::All(b"0a1a2a".to_vec()));
        let alltoall = all(&|rank| Operation::Alltoall { size: 2, data: three(rank) });
        let expected = vec![b"001020".to_vec(), b"011121".to_vec(), b"021222".to_vec()];
        assert_eq!(alltoall, Delivery::Each(expected));
    }

    #[test]
    fn ranks_that_disagree_are_named() {
        let mut collective = Collective::new(3);
        collective.enter(0, Operation::Gather { root: 0, data: b"ab".to_vec() }).unwrap();
        let mut error = |rank, operation| collective.enter(rank, operation).unwrap_err().to_string();
        assert_eq!(
            error(1, Operation::Gather { root: 0, data: b"abc".to_vec() }),
            "rank 1 calls PMGR gather (root 0, 3 bytes) while others are in gather (root 0, 2 bytes)"
        );
        assert_eq!(
            error(2, Operation::Close),
            "rank 2 calls PMGR close while others are in gather (root 0, 2 bytes)"
        );
        assert_eq!(error(0, Operation::Barrier), "rank 0 is in this PMGR round already");
        assert_eq!(error(3, Operation::Barrier), "rank 3 cannot enter a PMGR round with barrier");
        assert_eq!(error(1, Operation::Abort { code: 1 }), "rank 1 cannot enter a PMGR round with abort");
        for rank in [2, 1] {
            let operation = Operation::Gather { root: 0, data: b"cd".to_vec() };
            assert_eq!(collective.enter(rank, operation).unwrap().is_some(), rank == 1);
        }
    }

    #[test]
    fn a_round_that_would_not_fit_is_refused() {
        let mut collective = Collective::new(1 << 10);
        let large = Operation::Alltoall { size: 1 << 14, data: vec![0; 1 << 24] };
        let error = collective.enter(0, large).unwrap_err().to_string();
        assert_eq!(error, "PMGR alltoall (16384 bytes) of more than 268435456 bytes over all ranks");
    }
}

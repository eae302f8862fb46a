//! Reduction operations.
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::Result;

/// A reduction function of the program; opaque words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserOp {
    /// The function.
    pub function: usize,
    /// What else the caller needs to call it (its kind or state).
    pub extra: usize,
    /// May the order of operands change?
    pub commutative: bool,
}

/// A call of a reduction function that somebody outside the engine must make: target = source op target.
#[derive(Debug)]
pub struct UserReduce {
    /// The function.
    pub op: UserOp,
    /// Left operands.
    pub source: SendBuf,
    /// Right operands and results.
    pub target: RecvBuf,
    /// Number of elements.
    pub count: i64,
    /// Datatype of the elements.
    pub ty: TypeId,
    pub(super) request: Option<RequestId>,
}

impl Mpi {
    /// A new operation.
    pub fn op_create(&mut self, op: UserOp) -> OpId {
        unimplemented!()
    }
    /// The program gives the operation up.
    pub fn op_free(&mut self, op: OpId) -> Result<()> {
        unimplemented!()
    }
    /// May the order of operands change?
    pub fn op_commutative(&self, op: OpId) -> Result<bool> {
        unimplemented!()
    }
    /// target = source op target. Gives a job if a function of the program must do it.
    pub fn reduce_local(
        &mut self, source: SendBuf, target: RecvBuf, count: i64, ty: TypeId, op: OpId,
    ) -> Result<Option<UserReduce>> {
        unimplemented!()
    }
}

/// The predefined operations.
#[allow(missing_docs)]
impl OpId {
    pub const MAX: OpId = OpId(0);
    pub const MIN: OpId = OpId(1);
    pub const SUM: OpId = OpId(2);
    pub const PROD: OpId = OpId(3);
    pub const LAND: OpId = OpId(4);
    pub const BAND: OpId = OpId(5);
    pub const LOR: OpId = OpId(6);
    pub const BOR: OpId = OpId(7);
    pub const LXOR: OpId = OpId(8);
    pub const BXOR: OpId = OpId(9);
    pub const MINLOC: OpId = OpId(10);
    pub const MAXLOC: OpId = OpId(11);
    pub const REPLACE: OpId = OpId(12);
    pub const NO_OP: OpId = OpId(13);
    /// Operations of the program are numbered from here.
    pub const PREDEFINED: u32 = 14;
}

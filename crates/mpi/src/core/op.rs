//! Reduction operations: numbers, legality, and functions of the program.
use super::kernels::{Kernel, kernel};
use super::layout::Datatype;
use super::*;
use crate::buffer::{RecvBuf, SendBuf};
use crate::error::{ErrorClass, Result, fail, fail_with};
use std::rc::Rc;

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
    /// Is the datatype's number one for this call alone?
    pub(super) on_loan: bool,
}

/// How to combine elements of one datatype.
#[derive(Clone)]
pub(super) enum Combine {
    /// Here.
    Kernel(Kernel),
    /// By a function of the program, outside. The program may free the datatype meanwhile.
    User(UserOp, TypeId, Rc<Datatype>),
}

impl Mpi {
    /// A new operation.
    pub fn op_create(&mut self, op: UserOp) -> OpId {
        OpId(self.ops.insert(op) + OpId::PREDEFINED)
    }

    /// The program gives the operation up. Collectives under way keep what they need.
    pub fn op_free(&mut self, op: OpId) -> Result<()> {
        if op.0 < OpId::PREDEFINED {
            return fail(ErrorClass::Op, "a predefined operation cannot be freed");
        }
        self.user_op(op)?;
        self.ops.remove(op.0 - OpId::PREDEFINED);
        Ok(())
    }

    /// May the order of operands change?
    pub fn op_commutative(&self, op: OpId) -> Result<bool> {
        if op.0 < OpId::PREDEFINED { Ok(op != OpId::REPLACE) } else { Ok(self.user_op(op)?.commutative) }
    }

    /// The receive buffer = the send buffer op the receive buffer. Gives a job if a function of the program must
    /// do it.
    pub fn reduce_local(&mut self, of: Reduction) -> Result<Option<UserReduce>> {
        let Reduction { send: source, recv: RecvData { buf: target, count, ty }, op } = of;
        if count < 0 {
            return fail(ErrorClass::Count, format!("count {count}"));
        }
        let datatype = self.committed(ty)?;
        datatype.bytes(count as usize)?;
        datatype.check_at(source, count as usize)?;
        datatype.check_at(target, count as usize)?;
        if count > 0 && source.as_ptr() == target.as_ptr() {
            let words = || format!("{:p} is read and written", source.as_ptr());
            return fail_with(ErrorClass::Buffer, words);
        }
        match self.combine(op, ty, datatype)? {
            Combine::User(op, ty, _) => {
                Ok(Some(UserReduce { op, source, target, count, ty, request: None, on_loan: false }))
            }
            Combine::Kernel(run) => {
                let bytes = datatype.extent as usize * count as usize;
                run(source.range(0, bytes), target.range(0, bytes));
                Ok(None)
            }
        }
    }

    /// How `op` works on a datatype; an error if it does not.
    pub(super) fn combine(&self, op: OpId, id: TypeId, ty: &Rc<Datatype>) -> Result<Combine> {
        if op.0 >= OpId::PREDEFINED {
            return Ok(Combine::User(self.user_op(op)?, id, ty.clone()));
        }
        let found = ty.scalar.and_then(|(meaning, scalar)| kernel(op, meaning, scalar));
        match found {
            Some(kernel) => Ok(Combine::Kernel(kernel)),
            None => {
                fail(ErrorClass::Op, format!("{} is not defined on {}", op_name(op), self.type_name(id)?))
            }
        }
    }

    fn user_op(&self, op: OpId) -> Result<UserOp> {
        match op.0.checked_sub(OpId::PREDEFINED).and_then(|index| self.ops.get(index)) {
            Some(op) => Ok(*op),
            None => fail(ErrorClass::Op, format!("there is no operation {}", op.0)),
        }
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

const OP_NAMES: [&str; OpId::PREDEFINED as usize] = [
    "MPI_MAX",
    "MPI_MIN",
    "MPI_SUM",
    "MPI_PROD",
    "MPI_LAND",
    "MPI_BAND",
    "MPI_LOR",
    "MPI_BOR",
    "MPI_LXOR",
    "MPI_BXOR",
    "MPI_MINLOC",
    "MPI_MAXLOC",
    "MPI_REPLACE",
    "MPI_NO_OP",
];

pub(super) fn op_name(op: OpId) -> &'static str {
    OP_NAMES.get(op.index()).copied().unwrap_or("an operation of the program")
}

//! One-sided communication: windows, what is done in them, and the epochs that order it.
//!
//! The engine begins a synchronization and says when it has ended; waiting is done here, outside its lock. Attributes of
//! windows are in [`crate::attr`], their error handlers in [`crate::errhandler`].
mod epochs;
mod life;
mod ops;

pub use epochs::*;
pub use life::*;
pub use ops::*;

use crate::abi::Abi;
use crate::engine::Call;
use crate::errors::Outcome;
use mpi::core::Synchronizing;

/// Waits for what has been begun. Most of it has ended already, which must cost next to nothing: so that is asked before
/// any progress is made.
#[inline]
fn settle<A: Abi>(call: &mut Call<A>, mut what: Synchronizing) -> Outcome<()> {
    if call.win_ended(&mut what)? {
        return Ok(());
    }
    Ok(call.watch(|call| call.win_ended(&mut what))?)
}

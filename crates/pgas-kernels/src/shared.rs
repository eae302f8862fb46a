//! What the programs share: the comparison with one process.
use crate::{Job, Wrong};
use kernels::numbers::Fingerprint;

impl Job {
    /// The values of all processes must have the bits of those that the first process computes alone.
    pub fn same_bits(&self, mine: Fingerprint, alone: impl FnOnce() -> Fingerprint) -> Result<(), Wrong> {
        let all = mine.of_all(&self.world)?;
        if self.world.rank() == 0 && alone() != all {
            return Err(Wrong::Result("one process alone finds something else".into()));
        }
        Ok(())
    }
}

//! Mutexes that processes hold for each other.
use crate::armci::Armci;
use mpi::Result;

/// Mutexes of every process, of which any process may hold any. Collective to make and to drop; there is one set at a time.
///
/// ```no_run
/// # let armci = pgas::Armci::new(&mpi::init()?.world())?;
/// let shared = armci.malloc::<i64>(1)?;
/// let mutexes = armci.mutexes(1)?;
/// {
///     let _held = mutexes.lock(0, 0)?;
///     let mut value = [0];
///     shared.get(&mut value, 0, 0)?;
///     shared.put(&[2 * value[0] + 1], 0, 0)?;
///     // What was done is done there before the next one has the mutex.
/// }
/// # Ok::<(), mpi::MpiError>(())
/// ```
pub struct Mutexes {
    armci: Armci,
}

/// A mutex that this process holds, until it is dropped.
pub struct Held<'a> {
    armci: &'a Armci,
    mutex: u64,
    owner: u32,
}

impl Armci {
    /// Collective: this process brings so many mutexes.
    pub fn mutexes(&self, count: usize) -> Result<Mutexes> {
        self.with(|core, driver| core.mutexes_create(driver, count as u64))?;
        Ok(Mutexes { armci: self.clone() })
    }
}

impl Mutexes {
    /// Waits until this process holds a mutex, one of those that `owner` has brought. Who waits longest is next.
    pub fn lock(&self, mutex: usize, owner: usize) -> Result<Held<'_>> {
        let (mutex, owner) = (mutex as u64, u32::try_from(owner).unwrap_or(u32::MAX));
        self.armci.with(|core, driver| core.lock(driver, mutex, owner))?;
        Ok(Held { armci: &self.armci, mutex, owner })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() || self.armci.comm().has_failed() {
            return;
        }
        let given = self.armci.with(|core, driver| core.unlock(driver, self.mutex, self.owner));
        debug_assert!(given.is_ok(), "{given:?}");
    }
}

impl Drop for Mutexes {
    fn drop(&mut self) {
        if std::thread::panicking() || self.armci.comm().has_failed() {
            return;
        }
        let gone = self.armci.with(|core, driver| core.mutexes_destroy(driver));
        debug_assert!(gone.is_ok(), "{gone:?}");
    }
}

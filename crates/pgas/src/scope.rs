//! Operations that go on while the program computes, soundly: a scope borrows their buffers and does not end before they
//! have.
use crate::armci::Armci;
use crate::core::{HandleId, Later, What};
use crate::memory::{Element, Memory, Patch, Scaled};
use crate::slices::{source, target};
use mpi::{Datum, ErrorClass, MpiError, Result};
use std::marker::PhantomData;

/// Where operations are begun. Their buffers are borrowed until the scope has ended.
///
/// They have no order, neither among each other nor with those before: what reads or writes the same elements waits for the
/// end of a scope, and for a fence.
pub struct Scope<'s, 'env> {
    armci: &'env Armci,
    handle: HandleId,
    /// Invariant in both lifetimes, so that neither can be shortened to let a buffer go early.
    marker: PhantomData<(&'s mut &'s (), &'env mut &'env ())>,
}

impl Armci {
    /// Runs `body`, which may begin operations, then waits until their buffers may be used again.
    ///
    /// ```no_run
    /// # let armci = pgas::Armci::new(&mpi::init()?.world())?;
    /// let shared = armci.malloc::<f64>(100)?;
    /// let (right, left) = ((armci.rank() + 1) % armci.size(), (armci.rank() + armci.size() - 1) % armci.size());
    /// let (mine, mut theirs) = ([0.5; 10], [0.0; 10]);
    /// armci.scope(|scope| {
    ///     scope.put(&shared, &mine, right, 0)?;
    ///     scope.get(&shared, &mut theirs, left, 50)
    ///     // Both go on while something is computed here.
    /// })?;
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    ///
    /// What is put must live until then:
    /// ```compile_fail
    /// # let armci = pgas::Armci::new(&mpi::init().unwrap().world()).unwrap();
    /// let shared = armci.malloc::<f64>(1).unwrap();
    /// armci.scope(|scope| {
    ///     let gone = [0.5];
    ///     scope.put(&shared, &gone, 0, 0)
    /// });
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.scope_with(body)
    }

    /// The same for bodies with errors of their own.
    pub(crate) fn scope_with<'env, R, E: From<MpiError>>(
        &'env self,
        body: impl for<'s> FnOnce(&'s Scope<'s, 'env>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let handle = self.with(|core, _| Ok(core.handle_begin(false)))?;
        let scope = Scope { armci: self, handle, marker: PhantomData };
        let guard = EndOnPanic(self);
        let result = body(&scope);
        // A wait that fails ends the job: operations may be under way whose buffers are about to go.
        let waited = self.with(|core, driver| core.wait(driver, handle));
        std::mem::forget(guard);
        let result = result?;
        waited?;
        Ok(result)
    }
}

/// A panic leaves operations under way whose buffers are about to go: the job must end here and now.
struct EndOnPanic<'a>(&'a Armci);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        let ended = self.0.comm().core(|mpi| -> Result<()> { mpi.abort(1, "a process panicked") });
        debug_assert!(ended.is_ok());
        std::process::abort();
    }
}

impl<'env> Scope<'_, 'env> {
    /// Begins to write elements at `at` of a process's part.
    pub fn put<T: Datum>(&self, to: &'env Memory<T>, data: &'env [T], rank: usize, at: usize) -> Result<()> {
        let row = Patch { at: 0, strides: &[] };
        self.put_strided(to, data, row, rank, Patch { at, strides: &[] }, &[data.len()])
    }

    /// Begins to read elements at `at` of a process's part.
    pub fn get<T: Datum>(
        &self,
        from: &'env Memory<T>,
        into: &'env mut [T],
        rank: usize,
        at: usize,
    ) -> Result<()> {
        let (row, counts) = (Patch { at: 0, strides: &[] }, [into.len()]);
        self.get_strided(from, into, row, rank, Patch { at, strides: &[] }, &counts)
    }

    /// Begins to add `factor` times elements to those at `at` of a process's part.
    pub fn acc<T: Element>(
        &self,
        to: &'env Memory<T>,
        factor: T,
        data: &'env [T],
        rank: usize,
        at: usize,
    ) -> Result<()> {
        let (row, counts) = (Patch { at: 0, strides: &[] }, [data.len()]);
        self.acc_strided((to, factor), data, row, rank, Patch { at, strides: &[] }, &counts)
    }

    /// Begins to write a patch of elements.
    pub fn put_strided<T: Datum>(
        &self,
        to: &'env Memory<T>,
        data: &'env [T],
        here: Patch,
        rank: usize,
        there: Patch,
        counts: &[usize],
    ) -> Result<()> {
        let how = self.checked(Scaled::of::<T>(&here, &there, counts, data.len()))?;
        let data = &data[here.at.min(data.len())..];
        self.begin(to, What::Put(source(data)), (rank, there.at), &how)
    }

    /// Begins to read a patch of elements.
    pub fn get_strided<T: Datum>(
        &self,
        from: &'env Memory<T>,
        into: &'env mut [T],
        here: Patch,
        rank: usize,
        there: Patch,
        counts: &[usize],
    ) -> Result<()> {
        let how = self.checked(Scaled::of::<T>(&here, &there, counts, into.len()))?;
        let at = here.at.min(into.len());
        self.begin(from, What::Get(target(&mut into[at..])), (rank, there.at), &how)
    }

    /// Begins to add a factor times a patch of elements.
    pub fn acc_strided<T: Element>(
        &self,
        (to, factor): (&'env Memory<T>, T),
        data: &'env [T],
        here: Patch,
        rank: usize,
        there: Patch,
        counts: &[usize],
    ) -> Result<()> {
        let how = self.checked(Scaled::of::<T>(&here, &there, counts, data.len()))?;
        let data = &data[here.at.min(data.len())..];
        self.begin(to, What::Acc(source(data), factor.factor()), (rank, there.at), &how)
    }

    fn checked<T>(&self, result: Result<T>) -> Result<T> {
        self.armci.comm().core(|_| result)
    }

    /// The scope waits for operations of its own `Armci`, and of no other: what another one has begun would go on when the
    /// buffers are gone.
    fn serves<T: Datum>(&self, memory: &Memory<T>) -> Result<()> {
        if self.armci.is(memory.armci()) {
            return Ok(());
        }
        let text = "the memory was allocated by another Armci than the scope's";
        Err(MpiError::new(ErrorClass::Arg, text))
    }

    pub(crate) fn begin<T: Datum>(
        &self,
        memory: &Memory<T>,
        what: What,
        (rank, at): (usize, usize),
        how: &Scaled,
    ) -> Result<()> {
        self.checked(self.serves(memory))?;
        let (place, later) = (memory.place(rank, at), Later::Handle(self.handle));
        memory.armci().with(|core, driver| core.transfer(driver, what, place, how.strides(), later))
    }
}

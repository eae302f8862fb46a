//! Processes that a program starts, and the two groups of an intercommunicator: here, and there.
use crate::communicator::{Communicator, Source, Status, Tag};
use crate::core::{CommId, Command as CoreCommand, Meet};
use crate::datum::Datum;
use crate::error::{ErrorClass, Result, fail};
use crate::universe::Universe;

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command(CoreCommand);

impl Command {
    /// So many processes of a program.
    pub fn new(program: impl Into<String>, processes: u32) -> Self {
        let program = program.into();
        Command(CoreCommand { program, args: Vec::new(), processes, hints: Vec::new() })
    }

    /// With another argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.0.args.push(arg.into());
        self
    }

    /// With a hint for the launcher: `host`, `wdir`, `path`, ...
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.hints.push((key.into(), value.into()));
        self
    }
}

/// Two groups that talk to each other: ranks that are sent to, or received from, are those of the other group.
pub struct Intercommunicator {
    /// `size` and `rank` of it are those of the own group; messages go across.
    across: Communicator,
    remote: usize,
}

impl Communicator {
    /// Collective: starts processes, and gives the way to them. The program need only be right at the root.
    ///
    /// ```no_run
    /// let world = mpi::init()?.world();
    /// let workers = world.spawn(&[mpi::Command::new("./worker", 4).arg("--quiet")], 0)?;
    /// if world.rank() == 0 {
    ///     for worker in 0..workers.remote_size() {
    ///         workers.send(&[worker as u64], worker, 0)?;
    ///     }
    /// }
    /// // Or all as one: the new processes behind the old ones. They call `merge` too.
    /// let all = workers.merge(false)?;
    /// all.barrier()?;
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn spawn(&self, programs: &[Command], root: usize) -> Result<Intercommunicator> {
        let here = self.here("spawn");
        let commands: Vec<CoreCommand> = programs.iter().map(|program| program.0.clone()).collect();
        let how = match self.rank() == root {
            false => Meet::Elsewhere,
            // A launcher that is busy with an earlier question is waited for; an error of it must be told to the others.
            true => match self
                .engine()
                .until(here, |mpi| Ok(mpi.may_ask_launcher(ErrorClass::Spawn)?.then_some(())))
            {
                Ok(()) => Meet::Spawn(&commands),
                Err(error) => Meet::Not(error),
            },
        };
        let root = i32::try_from(root).unwrap_or(i32::MAX);
        let met = self.make("spawn", "MPI_Comm_spawn", |mpi| mpi.start_meeting(self.id(), root, how))?;
        match met {
            Some(across) => Intercommunicator::new(across),
            None => self.engine().note(here, fail(ErrorClass::Spawn, "no process was started")),
        }
    }
}

impl Universe {
    /// The way to those who spawned this job, if somebody did.
    ///
    /// ```no_run
    /// let universe = mpi::init()?;
    /// if let Some(parents) = universe.parent()? {
    ///     let (work, _) = parents.recv::<u64>(0, 0)?;
    ///     println!("worker {} is to do {}", parents.rank(), work[0]);
    ///     let all = parents.merge(true)?;
    ///     all.barrier()?;
    /// }
    /// # Ok::<(), mpi::MpiError>(())
    /// ```
    pub fn parent(&self) -> Result<Option<Intercommunicator>> {
        let parent: Option<CommId> = self.engine().mpi.borrow().parent();
        parent.map(|id| Intercommunicator::new(Communicator::new(self.engine().clone(), id)?)).transpose()
    }
}

impl Intercommunicator {
    fn new(across: Communicator) -> Result<Self> {
        let here = across.here("spawn");
        let remote = across.engine().call(here, |mpi| mpi.comm_remote_size(across.id()))?;
        Ok(Intercommunicator { remote: remote.unwrap_or(0) as usize, across })
    }

    /// This process's number in its own group.
    pub fn rank(&self) -> usize {
        self.across.rank()
    }

    /// Processes of the own group.
    pub fn size(&self) -> usize {
        self.across.size()
    }

    /// Processes of the other group.
    pub fn remote_size(&self) -> usize {
        self.remote
    }

    /// Sends elements to a process of the other group; returns when the slice may be reused.
    pub fn send<T: Datum>(&self, data: &[T], to: usize, tag: i32) -> Result<()> {
        self.across.send(data, to, tag)
    }

    /// Receives a message of any length from the other group.
    pub fn recv<T: Datum>(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<(Vec<T>, Status)> {
        self.across.recv(from, tag)
    }

    /// Receives from the other group into a slice.
    pub fn recv_into<T: Datum>(
        &self,
        data: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        self.across.recv_into(data, from, tag)
    }

    /// Waits until every process of both groups is here.
    pub fn barrier(&self) -> Result<()> {
        self.across.barrier()
    }

    /// Collective over both groups: one communicator of all, in which the group that is `high` comes behind the other.
    pub fn merge(&self, high: bool) -> Result<Communicator> {
        let merged = self
            .across
            .make("merge", "MPI_Intercomm_merge", |mpi| mpi.start_merge(self.across.id(), high))?;
        self.across.in_it("merge", merged)
    }
}

//! Dynamic processes: ports, names of services, spawned jobs, and what is between two jobs from when they meet until they
//! disconnect. How an intercommunicator comes of it is in [`super::making`].
use super::comm::Roster;
use super::*;
use crate::error::{ErrorClass, MpiError, Result, fail};
use net::{Door, Job, MeetError, Meeting, Ties};
use proto::coll::inter;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// The tag of the last barrier between jobs that are still connected when they end: no collective has it.
const LEAVING_TAG: i32 = i32::MIN;

/// Processes of a job at most, as the launcher has it.
const PROCESSES_MAX: u32 = 1 << 16;

/// How processes of another job are met. Only the root of a group has to say.
#[derive(Debug)]
pub enum Meet<'a> {
    /// They call this port, which the process has opened.
    Accept(&'a str),
    /// They are called at their port, and have to accept within some time if one is given.
    Connect(&'a str, Option<Duration>),
    /// They are started.
    Spawn(&'a [Command]),
    /// One of them is at the other end of a socket.
    Join(OwnedFd),
    /// The root says.
    Elsewhere,
    /// The root cannot: the others must hear of it.
    Not(MpiError),
}

impl Meet<'_> {
    /// How many processes are to be started, if any are and there can be so many.
    pub(super) fn processes(&self) -> Option<u32> {
        match self {
            Meet::Spawn(commands) => Command::total(commands),
            _ => None,
        }
    }
}

/// Processes to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program.
    pub program: String,
    /// Its arguments, without its name.
    pub args: Vec<String>,
    /// How many.
    pub processes: u32,
    /// Hints for the launcher: `host`, `wdir`, `path`, ...
    pub hints: Vec<(String, String)>,
}

impl Command {
    /// How many processes all of these are; `None` if no job has so many.
    pub fn total(commands: &[Command]) -> Option<u32> {
        let total: u64 = commands.iter().map(|command| u64::from(command.processes)).sum();
        u32::try_from(total).ok().filter(|total| *total <= PROCESSES_MAX)
    }
}

/// What a process has to do with other jobs.
#[derive(Default)]
pub(super) struct Dynamic {
    /// Open ports, by name.
    doors: BTreeMap<String, Rc<RefCell<Door>>>,
    /// The intercommunicator with those who spawned this job.
    parent: Option<CommId>,
    /// Have they met this job? Then its launcher need not end them if it fails: they hear of it.
    met_parent: bool,
    /// Groups of jobs that have met and not disconnected.
    bonds: Vec<Rc<Roster>>,
    /// Other jobs whose programs are checked (`--check`).
    checked: BTreeSet<Job>,
}

impl Dynamic {
    /// Is the program of another job checked?
    pub(super) fn is_checked(&self, job: Job) -> bool {
        self.checked.contains(&job)
    }

    pub(super) fn note_checked(&mut self, job: Job, checked: bool) {
        if checked {
            self.checked.insert(job)
        } else {
            self.checked.remove(&job)
        };
    }

    /// The communicator is gone.
    pub(super) fn forget(&mut self, comm: CommId) {
        if self.parent == Some(comm) {
            self.parent = None;
        }
    }
}

impl Mpi {
    /// A port, by whose name processes of other jobs can be met.
    pub fn open_port(&mut self) -> Result<String> {
        let door = self.endpoint.open_door()?;
        let name = door.name();
        self.dynamic.doors.insert(name.clone(), Rc::new(RefCell::new(door)));
        Ok(name)
    }

    /// Nobody can call the port any more.
    pub fn close_port(&mut self, name: &str) -> Result<()> {
        match self.dynamic.doors.remove(name) {
            Some(_) => Ok(()),
            None => no_port(name),
        }
    }

    /// May the launcher be asked about a service without waiting for other processes? An error is of this class.
    pub fn may_ask_launcher(&mut self, class: ErrorClass) -> Result<bool> {
        self.endpoint.launcher_is_free().map_err(|e| of_class(class, e))
    }

    /// Publishes a port under the name of a service.
    pub fn publish(&mut self, service: &str, port: &str) -> Result<()> {
        match self.endpoint.publish(service, port).map_err(|e| of_class(ErrorClass::Service, e))? {
            true => Ok(()),
            false => fail(ErrorClass::Service, format!("'{service}' is published already")),
        }
    }

    /// The port of a service.
    pub fn look_up(&mut self, service: &str) -> Result<String> {
        match self.endpoint.look_up_service(service).map_err(|e| of_class(ErrorClass::Name, e))? {
            Some(port) => Ok(port),
            None => fail(ErrorClass::Name, format!("nobody has published '{service}'")),
        }
    }

    /// Withdraws a service.
    pub fn unpublish(&mut self, service: &str) -> Result<()> {
        match self.endpoint.unpublish(service).map_err(|e| of_class(ErrorClass::Service, e))? {
            true => Ok(()),
            false => fail(ErrorClass::Service, format!("nobody has published '{service}'")),
        }
    }

    /// The intercommunicator with those who spawned this job, if somebody did and it has not been freed.
    pub fn parent(&self) -> Option<CommId> {
        self.dynamic.parent
    }

    /// How long `MPI_Comm_connect` waits where the program does not say; `None`: for ever.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.endpoint.connect_timeout()
    }

    /// A spawned job meets its parents before anything else.
    pub(super) fn meet_parent(&mut self) -> Result<()> {
        if !self.endpoint.is_spawned() {
            return Ok(());
        }
        // What was called before need not be the same in all of the job.
        enter_call("MPI_Init");
        let first = self.comm_rank(CommId::WORLD)? == 0;
        let port = if first { self.endpoint.parent_port()? } else { None };
        // A parent with another library has no port for this one.
        let how = port.as_deref().map_or(Meet::Elsewhere, |port| Meet::Connect(port, None));
        let made = self.start_meeting(CommId::WORLD, 0, how)?;
        match self.make(made) {
            Ok(parent) => {
                if let Some(comm) = parent {
                    self.comm_set_name(comm, "MPI_COMM_PARENT")?;
                }
                self.dynamic.parent = parent;
                self.dynamic.met_parent = true;
                self.endpoint.set_ties(Ties::Met);
                Ok(())
            }
            Err(error) if error.class == ErrorClass::Port && port.is_none() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The root's way to those whom it will meet; `mine` is what it says.
    pub(super) fn go_to_meeting(&mut self, how: Meet<'_>, mine: Vec<u8>) -> Result<Meeting> {
        Ok(match how {
            Meet::Accept(port) => match self.dynamic.doors.get(port) {
                Some(door) => Meeting::expect(door.clone(), mine),
                None => return no_port(port),
            },
            Meet::Connect(port, within) => Meeting::call(port, mine, within)?,
            Meet::Join(fd) => Meeting::over(fd, mine)?,
            Meet::Spawn(commands) => self.spawn(commands, mine)?,
            Meet::Elsewhere => return fail(ErrorClass::Port, "the root names no port"),
            Meet::Not(error) => return Err(error),
        })
    }

    fn spawn(&mut self, commands: &[Command], mine: Vec<u8>) -> Result<Meeting> {
        let door = Rc::new(RefCell::new(self.endpoint.open_door()?));
        let port = door.borrow().name();
        let parent = net::SpawnPair { key: net::KEY_OF_PARENT.as_bytes(), value: port.as_bytes() };
        let blocks: Vec<net::Spawn<'_>> = commands
            .iter()
            .enumerate()
            .map(|(index, command)| net::Spawn {
                processes: command.processes,
                program: command.program.as_bytes(),
                total_spawns: commands.len() as u32,
                spawns_so_far: index as u32 + 1,
                args: command.args.iter().map(String::as_bytes).collect(),
                preputs: vec![parent],
                infos: command
                    .hints
                    .iter()
                    .map(|(key, value)| net::SpawnPair { key: key.as_bytes(), value: value.as_bytes() })
                    .collect(),
            })
            .collect();
        Ok(self.endpoint.spawn(&blocks, door, mine)?)
    }

    /// Two jobs have met.
    pub(super) fn bind(&mut self, roster: &Rc<Roster>) {
        if !self.jobs_of(roster).is_empty() {
            self.dynamic.bonds.push(roster.clone());
            self.endpoint.set_ties(if self.dynamic.met_parent { Ties::Met } else { Ties::Bound });
        }
    }

    /// Before [`Mpi::abort`]: who of other jobs ends with this process. Those of a communicator; without one, all that are
    /// connected. Others would get errors.
    pub fn end_with(&mut self, comm: Option<CommId>) {
        let any = match comm {
            Some(comm) => self.comm(comm).is_ok_and(|comm| !self.jobs_of(&comm.roster).is_empty()),
            None => !self.dynamic.bonds.is_empty(),
        };
        if any {
            self.endpoint.set_ties(Ties::Bound);
        }
    }

    /// Begins to disconnect: complete when all processes of the communicator have come. [`Mpi::disconnected`] ends it.
    pub fn start_disconnect(&mut self, comm: CommId) -> Result<RequestId> {
        self.comm(comm)?;
        if comm == CommId::WORLD || comm == CommId::SELF {
            return fail(ErrorClass::Comm, "a predefined communicator cannot be disconnected");
        }
        self.icollective(comm, Coll::Barrier)
    }

    /// The second step, when all have come: have connections to processes that no other communicator has been closed?
    /// Ask again until it is so.
    pub fn farewell(&mut self, comm: CommId) -> Result<bool> {
        let jobs = self.jobs_only_in(comm)?;
        Ok(jobs.into_iter().all(|job| self.endpoint.farewell(job)))
    }

    /// The communicator is given up, and with it all processes that no other one has.
    pub fn disconnected(&mut self, comm: CommId) -> Result<()> {
        let jobs = self.jobs_only_in(comm)?;
        // All have agreed to it already: nobody is told, to whom a connection would be made again.
        self.forget_comm(comm);
        for job in jobs {
            let bonds = std::mem::take(&mut self.dynamic.bonds);
            self.dynamic.bonds =
                bonds.into_iter().filter(|bond| !self.jobs_of(bond).contains(&job)).collect();
            self.endpoint.forget_job(job);
            self.dynamic.note_checked(job, false);
            if self.dynamic.bonds.is_empty() {
                self.endpoint.set_ties(Ties::Parted);
            }
        }
        Ok(())
    }

    /// `MPI_Finalize` is collective over all that are connected: nobody goes while another job needs its answer.
    pub(super) fn leave_together(&mut self) {
        let (mut barriers, mut jobs) = (Vec::new(), BTreeSet::new());
        for roster in std::mem::take(&mut self.dynamic.bonds) {
            jobs.extend(self.jobs_of(&roster));
            let Some(sides) = roster.sides(self.cores) else { continue };
            let mut barrier = self.fresh(roster.clone());
            (barrier.context, barrier.tag) = (roster.collective_context(), LEAVING_TAG);
            inter::barrier(&mut barrier.schedule, sides);
            barriers.push((self.adopt(CommId::WORLD, barrier), roster.collective_context()));
        }
        for (barrier, context) in barriers {
            // One that fails has lost somebody, who will not be waited for; and others may have disconnected then.
            let _ = self.until(Focus::One(barrier), |mpi| {
                let over = mpi.test(barrier)?.is_some() || mpi.endpoint.loss_in(context).is_some();
                Ok(over.then_some(()))
            });
        }
        for job in jobs {
            let _ = self.until(Focus::Anything, |mpi| Ok(mpi.endpoint.farewell(job).then_some(())));
        }
    }

    /// The other jobs that have processes in this communicator and in no other one.
    fn jobs_only_in(&self, comm: CommId) -> Result<BTreeSet<Job>> {
        let mut jobs = self.jobs_of(&self.comm(comm)?.roster);
        if !jobs.is_empty() {
            for (_, other) in self.comms.iter().filter(|(id, _)| *id != comm.0) {
                let elsewhere = self.jobs_of(&other.roster);
                jobs.retain(|job| !elsewhere.contains(job));
            }
        }
        Ok(jobs)
    }

    /// The other jobs that processes of a communicator belong to.
    pub(super) fn jobs_of(&self, roster: &Roster) -> BTreeSet<Job> {
        let own = self.endpoint.size();
        let groups = [Some(&roster.members), roster.local.as_ref()];
        let foreign = groups.into_iter().flatten().filter(|members| members.reaches(own));
        let processes = foreign.flat_map(|members| members.iter()).filter(|process| process.0 >= own);
        processes.filter_map(|process| self.endpoint.peer_of(process)).map(net::Peer::job).collect()
    }
}

#[cold]
fn no_port<T>(name: &str) -> Result<T> {
    fail(ErrorClass::Port, format!("'{name}' is no port that this process has opened"))
}

fn of_class(class: ErrorClass, error: MeetError) -> MpiError {
    let mut error = MpiError::from(error);
    error.class = class;
    error
}

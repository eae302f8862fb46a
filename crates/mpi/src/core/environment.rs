//! Start, end and names.
use super::comm::{Comm, Roster, Together};
use super::members::Members;
use super::slots::Slots;
use super::*;
use crate::error::Result;
use net::{Collectives, Config, Endpoint};
use proto::coll::Cores;
use proto::context::Numbers;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

static ABORTS: AtomicBool = AtomicBool::new(false);

impl Mpi {
    /// Joins the job named by the environment, or starts alone. (Boxed as an endpoint is, see [`Endpoint::start`].)
    pub fn start() -> Result<Box<Mpi>> {
        let config = Config::from_variables(|name| registry().setting(name))?;
        let endpoint = Endpoint::start(&config)?;
        // Collectives need what all processes agree on: an agent says the same to all, own looks may differ.
        let shared =
            config.node.is_some() && endpoint.shares_cores() && config.collectives != Collectives::Flat;
        let cores = if shared { Cores::Shared } else { Cores::Own };
        let cores = comm::JobCores {
            cores,
            ranks: endpoint.size(),
            levels: config.levels(),
            together: match config.collectives {
                Collectives::Flat => Together::Nobody,
                _ if config.is_on_one_host() => Together::Job,
                _ => Together::Node,
            },
        };
        let mut mpi = Mpi::on(endpoint, cores);
        (mpi.rma, mpi.apart) = (config.rma, config.net.force);
        // Who is met hears of it, and may call a collective at once.
        let rigor = check::rigor();
        if let Some(rigor) = rigor {
            mpi.begin_check(rigor);
        }
        mpi.meet_parent()?;
        if rigor.is_some() {
            mpi.note_births();
        }
        Ok(mpi)
    }

    #[inline(never)]
    fn on(endpoint: Box<Endpoint>, cores: comm::JobCores) -> Box<Mpi> {
        let (rank, size) = (endpoint.rank(), endpoint.size());
        let mut mpi = Box::new(Mpi {
            endpoint: *endpoint,
            cores,
            comms: Slots::new(),
            groups: Slots::new(),
            sessions: Slots::new(),
            types: datatype::predefined_types(),
            ops: Slots::new(),
            requests: Slots::new(),
            requests_max: REQUESTS_MAX as usize,
            channels: Default::default(),
            messages: Slots::new(),
            keyvals: Slots::new(),
            f90_types: Vec::new(),
            win_attributes: BTreeMap::new(),
            hall: Default::default(),
            rma: Default::default(),
            apart: false,
            numbers: Numbers::new(2, u64::from(rank.0)),
            threaded: false,
            running: Vec::new(),
            orphans: Vec::new(),
            jobs: Vec::new(),
            lent: Vec::new(),
            spare: Vec::new(),
            nobody: Rc::new(Roster::void()),
            buffers: Default::default(),
            dynamic: Default::default(),
            check: None,
            origin: Instant::now(),
        });
        let me = net::Process(rank.0);
        mpi.comms.insert(Comm::new(Members::world(size), me, 0, "MPI_COMM_WORLD"));
        mpi.comms.insert(Comm::new(Members::alone(me), me, 1, "MPI_COMM_SELF"));
        mpi.groups.insert(group::Group { members: Members::EMPTY, session: None });
        mpi.requests.insert(request::Request::sent());
        mpi
    }

    /// Leaves the job; idempotent.
    pub fn finish(&mut self) -> Result<()> {
        let verdict = self.end_check()?;
        self.drain();
        self.leave_together();
        self.endpoint.finish()?;
        verdict.map_or(Ok(()), Err)
    }

    /// As `finish`, for a process that may use the engine again until it finishes.
    pub fn part(&mut self) -> Result<()> {
        if let Some(error) = self.end_check()? {
            self.abort(1, &error.cause().to_string());
        }
        self.drain();
        self.leave_together();
        Ok(self.endpoint.part()?)
    }

    /// Nobody uses this process's engine for a while, or ever again: what was sent leaves.
    pub fn quiesce(&mut self) {
        self.drain();
        self.endpoint.quiesce();
    }

    /// Ends the job.
    pub fn abort(&mut self, code: i32, why: &str) -> ! {
        ABORTS.store(true, Relaxed);
        self.endpoint.abort(code, why)
    }

    /// Does this process end the job? What runs at its exit then says no goodbye.
    pub fn aborts() -> bool {
        ABORTS.load(Relaxed)
    }

    /// Which application of a multi-program job this is (`MPI_APPNUM`).
    pub fn appnum(&mut self) -> Option<i32> {
        self.endpoint.appnum()
    }

    /// How many processes the launcher could start (`MPI_UNIVERSE_SIZE`).
    pub fn universe_size(&mut self) -> Option<i32> {
        self.endpoint.universe_size()
    }

    /// The node of a process, by rank in the world.
    pub fn node_of(&self, rank: u32) -> u32 {
        self.endpoint.node_of(net::Rank(rank)).0
    }

    /// The processes this one is connected to now, by rank in the world.
    pub fn connected_peers(&self) -> Vec<u32> {
        self.endpoint.connected_peers().into_iter().map(|rank| rank.0).collect()
    }

    /// Closes the connection to a process of the world, once nothing is under way on it. It is opened again when it is needed.
    pub fn close_connection(&mut self, rank: u32) {
        self.endpoint.close_rank(rank);
    }

    /// A counter of this process.
    pub fn stat(&self, stat: net::Stat) -> u64 {
        self.endpoint.stat(stat)
    }

    /// The host's name.
    pub fn processor_name(&self) -> String {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        if name.is_empty() { "localhost".into() } else { name.into() }
    }

    /// Seconds since some moment.
    pub fn wtime(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    /// Resolution of `wtime` in seconds.
    pub fn wtick(&self) -> f64 {
        1e-9
    }

    /// The library's name and version, one line.
    pub fn library_version() -> &'static str {
        concat!("Banyan ", env!("CARGO_PKG_VERSION"))
    }
}

//! The engine: communicators, datatypes, requests and collectives of one process.
//!
//! [`Mpi`] is one object; every method takes `&mut self`, nothing runs behind the caller's back, and
//! objects are numbers ([`ids`]). A caller that blocks goes on inside a method, with one exception: a
//! reduction function of the program runs outside (see [`Blocking`] and [`Waited`]).
//!
//! How a caller waits for anything:
//! ```text
//! let request = match mpi.recv(...)? { Blocking::Done(status) => return status, Blocking::Pending(r) => r };
//! loop {
//!     match mpi.wait(request)? {
//!         Waited::Done(status) => return status,
//!         Waited::Job(job) => { call job.function; mpi.job_done(job) }
//!     }
//! }
//! ```
mod again;
mod attr;
mod buffered;
mod check;
mod coll;
mod collective;
mod comm;
mod data;
mod datatype;
mod distributed;
mod dynamic;
mod edges;
mod environment;
mod external;
mod graph;
mod group;
mod hardware;
mod identity;
pub mod ids;
mod info;
mod kernels;
mod layout;
mod making;
mod members;
mod op;
mod p2p;
mod partitioned;
pub mod predefined;
mod prepare;
mod registry;
mod request;
mod session;
mod settings;
mod short;
mod slots;
mod softfloat;
mod status;
mod topology;
mod whereabouts;
mod win;

use slots::Slots;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

pub use attr::{Carrier, Keyval, Object};
pub use buffered::Holder;
pub use check::{Rigor, enter_call};
pub use coll::Coll;
pub use comm::Comparison;
pub use data::{Data, Parts, RecvData, Reduction, SendData, TypedParts};
pub use datatype::{Combiner, Contents, F90, NOT_GIVEN, Order};
pub use distributed::{DEFAULT_BLOCK, Dimension, Distributed, Distribution};
pub use dynamic::{Command, Meet};
pub use graph::{Distributed as DistributedGraph, Graph, GraphEdge};
pub use hardware::Resource;
pub use ids::*;
pub use info::Pairs;
pub use layout::NOTHING_BELOW;
pub use making::{Bridge, Made, Meanwhile};
pub use net::Push;
pub use op::{UserOp, UserReduce};
pub use registry::{Errhandler, Registry, registry};
pub use request::Grequest;
pub use session::PROCESS_SETS;
pub use settings::{Values, Variable, settings};
pub use status::{Blocking, Dest, Mode, Peer, Source, Status, Tag, Waited};
pub use topology::{Cart, Neighborhood, Topology};
pub use whereabouts::{Focus, set_called};
pub use win::{Assert, Factor, NewWindow, Remote, Strided, Synchronizing, WinFlavor, serve_node};

/// The largest tag of a message (`MPI_TAG_UB`).
pub const TAG_UB: i32 = (1 << 30) - 1;

/// Requests that a program may have at a time: as many as their handles can tell apart.
pub const REQUESTS_MAX: u32 = 1 << 24;

/// One process's MPI.
pub struct Mpi {
    endpoint: net::Endpoint,
    /// What the processes of the job run on: decides algorithms.
    cores: comm::JobCores,
    comms: Slots<comm::Comm>,
    groups: Slots<group::Group>,
    sessions: Slots<session::Session>,
    types: Slots<datatype::TypeEntry>,
    f90_types: Vec<(F90, TypeId)>,
    ops: Slots<UserOp>,
    requests: Slots<request::Request>,
    messages: Slots<p2p::Taken>,
    keyvals: Slots<attr::KeyvalEntry>,
    win_attributes: BTreeMap<WinId, attr::Attributes>,
    hall: Rc<win::Hall>,
    /// In which order operations on windows leave, where the program does not say.
    rma: proto::rma::Policy,
    /// Are processes of a node not to share memory?
    apart: bool,
    /// Numbers of communicators.
    numbers: proto::context::Numbers,
    /// May several threads call?
    threaded: bool,
    /// Collectives that `progress` carries on.
    running: Vec<RequestId>,
    /// Requests that the program gave up before they were complete.
    orphans: Vec<RequestId>,
    /// Collectives that wait for a reduction function of the program, and those whose function runs now.
    jobs: Vec<RequestId>,
    lent: Vec<RequestId>,
    /// Finished collectives, for reuse.
    /// (Boxed as they are in requests: they move between the two often.)
    #[allow(clippy::vec_box)]
    spare: Vec<Box<collective::Collective>>,
    /// The group of operation objects that are not in use: no communicator is kept for them.
    nobody: Rc<comm::Roster>,
    buffers: buffered::Buffers,
    channels: partitioned::Channels,
    /// Set where the program is checked.
    check: Option<Box<check::Check>>,
    /// [`REQUESTS_MAX`], but in tests.
    requests_max: usize,
    dynamic: dynamic::Dynamic,
    origin: Instant,
}

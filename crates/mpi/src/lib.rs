//! MPI as a Rust library: processes on one machine or many that send each other messages, with an API that is safe.
//!
//! # Start
//!
//! A program calls [`init`] once, and has its job from then on: how many processes it has ([`size`](Communicator::size)), and
//! which one this is ([`rank`](Communicator::rank)). `banyan run -n 4 PROGRAM` starts four; started by itself, a program is a job
//! of one process. It leaves when the last handle is dropped, and waits there for the others.
//!
//! ```
//! fn main() -> mpi::Result<()> {
//!     let world = mpi::init()?.world();
//!     println!("rank {} of {}", world.rank(), world.size());
//!     Ok(())
//! }
//! ```
//!
//! # Send and receive
//!
//! What is sent are slices, and a [`Datum`] is what they may consist of: numbers, arrays of them, and structs for which
//! `#[derive(mpi::Datum)]` is written. A receive names the sender and the tag, or takes [`Any`]; [`recv`](Communicator::recv)
//! gives a `Vec` of what came, [`recv_into`](Communicator::recv_into) writes to a slice. Between two processes, messages that a
//! receive could take arrive in the order in which they were sent.
//!
//! ```
//! #[derive(Clone, Copy, Debug, PartialEq, mpi::Datum)]
//! #[repr(C)]
//! struct Body {
//!     mass: f64,
//!     place: [f32; 3],
//! }
//!
//! # fn main() -> mpi::Result<()> {
//! let world = mpi::init()?.world();
//! let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
//! let mine = [Body { mass: 1.0 + world.rank() as f64, place: [0.0; 3] }];
//! let mut theirs = mine;
//! world.sendrecv(&mine, right, &mut theirs, left, 0)?; // two sends at each other may wait for ever: this does not
//! assert_eq!(theirs[0].mass, 1.0 + left as f64);
//! # Ok(())
//! # }
//! ```
//!
//! # Operations that go on while the program computes
//!
//! In a [`scope`](Communicator::scope) operations are started: [`isend`](Scope::isend), [`irecv`](Scope::irecv), and each
//! collective with an `i` before its name. The scope borrows their buffers and ends when all of them have, so no buffer can be
//! used too early, and no request can be forgotten. A [`Pending`] is for who wants to wait for one of them sooner.
//!
//! ```
//! # let world = mpi::init()?.world();
//! let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
//! let (mine, mut theirs, mut sum) = ([world.rank() as u64], [0], [0]);
//! let computed = world.scope(|s| {
//!     s.irecv(&mut theirs, left, 0)?;
//!     s.isend(&mine, right, 0)?;
//!     s.iallreduce(&mine, &mut sum, mpi::Op::Sum)?;
//!     Ok((1..100).sum::<u64>()) // here the program computes
//! })?;
//! assert_eq!((theirs[0], computed), (left as u64, 4950));
//! # Ok::<(), mpi::MpiError>(())
//! ```
//!
//! # Collectives
//!
//! Every process of a communicator calls the same ones in the same order. All of MPI's are here, as methods of
//! [`Communicator`]: `barrier`, `bcast`, `reduce`, `allreduce`, `scan`, `exscan`, `reduce_scatter`, `gather`, `scatter`,
//! `allgather`, `alltoall`, those with blocks of different lengths (`gatherv`, ...) and types (`alltoallw`), and those between the neighbors of a
//! [`grid`](Communicator::grid) or a [`graph`](Communicator::graph). [`Op`] has the predefined reductions of numbers;
//! [`allreduce_with`](Communicator::allreduce_with) combines anything by a function.
//!
//! ```
//! # let world = mpi::init()?.world();
//! let mine = vec![world.rank() as f64; world.rank() + 1]; // everyone has another number of elements
//! let counts = world.allgather(&[mine.len()])?;
//! let all = world.allgatherv(&mine, &counts)?;
//! assert_eq!(all.len(), counts.iter().sum());
//! let mut largest = [0.0];
//! world.allreduce(&mine[..1], &mut largest, mpi::Op::Max)?;
//! assert_eq!(largest[0], (world.size() - 1) as f64);
//! # Ok::<(), mpi::MpiError>(())
//! ```
//!
//! [`split`](Communicator::split), [`dup`](Communicator::dup) and [`split_by_node`](Communicator::split_by_node) make other
//! communicators, whose messages are apart from all others.
//!
//! # Windows
//!
//! A [`Window`] is memory of each process that others read, write and combine, whatever its owner does meanwhile.
//!
//! ```
//! # let world = mpi::init()?.world();
//! // A counter at rank 0 that gives everybody another number.
//! let counter = world.window::<u64>(if world.rank() == 0 { 1 } else { 0 })?;
//! let ticket = counter.lock_all(|all| all.fetch_and_op(0, 0, 1, mpi::Op::Sum))?;
//! assert!(ticket < world.size() as u64);
//! # Ok::<(), mpi::MpiError>(())
//! ```
//!
//! # Processes that a program starts
//!
//! [`Communicator::spawn`] starts more processes and gives an [`Intercommunicator`] to them; they find theirs with
//! [`Universe::parent`].
//!
//! ```no_run
//! let universe = mpi::init()?;
//! match universe.parent()? {
//!     None => {
//!         let program = std::env::args().next().expect("a name");
//!         let workers = universe.world().spawn(&[mpi::Command::new(program, 2)], 0)?;
//!         workers.merge(false)?.barrier()?;
//!     }
//!     Some(parents) => parents.merge(true)?.barrier()?,
//! }
//! # Ok::<(), mpi::MpiError>(())
//! ```
//!
//! # Errors
//!
//! An operation that fails gives an [`MpiError`]: its [class](ErrorClass) with MPI's name and number, the call, the
//! communicator and the rank, and the [cause](Cause) with its facts, down to what the network said. Its text is one line. A
//! process that leaves after an error, or by a panic, ends the job: others might wait for it for ever.
//!
//! ```
//! # let world = mpi::init()?.world();
//! let error = world.send(&[1], world.size(), 0).unwrap_err();
//! assert_eq!(error.class, mpi::ErrorClass::Rank);
//! assert!(error.to_string().starts_with("send on MPI_COMM_WORLD failed at rank 0: invalid rank (MPI_ERR_RANK): "));
//! # world.barrier()?; // the last operation succeeds, so the job ends well
//! # Ok::<(), mpi::MpiError>(())
//! ```
//!
//! # Threads
//!
//! One thread of a process calls the library: the one that called [`init`]. Handles are not [`Send`], so the compiler sees to
//! it. Other threads compute; scoped threads may borrow what was received, and nothing runs behind the program's back.
//!
//! ```
//! # let world = mpi::init()?.world();
//! let mine: Vec<u64> = (0..1000).collect();
//! let (front, back) = mine.split_at(500);
//! let sum = std::thread::scope(|threads| {
//!     let half = threads.spawn(|| front.iter().sum::<u64>());
//!     back.iter().sum::<u64>() + half.join().expect("it does not panic")
//! });
//! let mut total = [0];
//! world.allreduce(&[sum], &mut total, mpi::Op::Sum)?;
//! assert_eq!(total[0], 499_500 * world.size() as u64);
//! # Ok::<(), mpi::MpiError>(())
//! ```
//!
//! # How it is built
//!
//! Two faces on one engine: this safe API, and `core`, one object with `&mut self` methods and numbered objects, as the C
//! interface needs it. The crate moves no bytes (`net` does), knows no C (`capi` does), and decides no algorithm
//! (`proto::coll` does).
//!
//! `core`, `buffer`, and what has `core` in its name belong to Banyan's own crates (C's interfaces, ARMCI, global arrays) and
//! do not show here. They are no part of the safe API: its promise holds for programs that leave them alone. Who calls the
//! engine keeps its contract, which is at the head of each of them.
#![deny(unsafe_code)]

#[doc(hidden)]
pub mod buffer;
mod calls;
mod collectives;
mod communicator;
#[doc(hidden)]
pub mod core;
pub mod datum;
pub mod error;
mod neighbors;
mod scope;
#[doc(hidden)]
pub mod selftest;
mod slices;
mod spawn;
mod universe;
mod window;

#[doc(hidden)]
pub use buffer::{RecvBuf, Scratch, SendBuf};
pub use collectives::Order;
pub use communicator::{Any, Communicator, Source, Status, Tag};
#[doc(hidden)]
pub use core::serve_node;
pub use datum::{Datum, Number, Op};
pub use error::{Cause, ErrorClass, MpiError, Result};
pub use mpi_derive::Datum;
pub use neighbors::Neighbors;
pub use net::{Backoff, Nap, NetError, Rest, Stat};
pub use scope::{Pending, Scope};
pub use slices::{Slice, SliceMut};
pub use spawn::{Command, Intercommunicator};
pub use universe::{Universe, init};
pub use window::{Access, Lock, Locked, Window};

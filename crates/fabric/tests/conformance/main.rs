//! What every provider must do, and what each of them must do besides. Two or more contexts in one process stand for
//! as many processes; they are polled in turn until something happens, for a bounded time.
#![allow(unsafe_code)] // buffers of the tests outlive the operations they are given to

mod connections;
mod memory;
mod messages;
mod mixed;
mod rig;
mod shared;
mod shared_device;
mod sockets;
mod soft;

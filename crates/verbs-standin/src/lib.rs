//! A stand-in for `libibverbs.so.1`: devices that are not there, for tests of what uses them. `BANYAN_TEST_LIBIBVERBS` names
//! it to the crate `verbs`, which loads it instead of the real one.
//!
//! ```text
//! exports        C functions: pointers become names of objects
//! adapter        an open device: its objects, behind one lock
//!   requester    takes work off send queues, sends it, and hears the answers
//!   responder    does what others ask for, in the memory of this process
//! service        a thread for each open device, which moves frames while the program computes
//! ```
//! It does what a device does, strictly: moves of queue pairs outside of the table of the specification, keys, ranges and
//! completion queues that are too small are errors. And it fails as it is told to ([`settings`]), at the beginning or
//! at a moment ([`control`]), which no real device does on demand.
//!
//! Devices of several processes of a host reach each other if `BANYAN_TEST_STANDIN_DIR` names the same directory for all of
//! them, else those of one process do. An open device has a socket without a file (an abstract one), so that nothing
//! stays of a process that is killed. Its number is part of the numbers of its queue pairs: that is how a frame
//! finds its way. What the address of a queue pair says is compared by whoever gets the frame.
//!
//! Receiving halves of XRC belong to no process ([`target`]).
//!
//! A queue pair has one request under way at a time, which is slow, and right: what is not done, because there is no receive
//! or because a port is down, is asked for again as a whole, and was never done by half. A peer that is there and does not
//! answer yet is waited for without end: that is a busy machine, and no device would be slow for it.
#![allow(unsafe_code)] // a C library, and memory of the program that a device reads and writes

mod adapter;
mod control;
mod exports;
mod machine;
mod memory;
mod objects;
mod requester;
mod responder;
mod service;
mod settings;
mod socket;
mod target;
mod wire;

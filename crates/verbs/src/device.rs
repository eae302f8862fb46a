//! Devices, their ports and addresses, and what they say of themselves.
use crate::ffi::*;
use crate::library::{Library, Missing, VerbsError, library, words};
use std::ffi::c_char;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::{fmt, fs, io};

/// Addresses of a port that can be named.
const GIDS_MAX: u32 = 256;

/// The devices of this machine.
pub fn devices() -> Result<Vec<Device>, Missing> {
    let library = library()?;
    let mut count = 0;
    // SAFETY: a place for the number.
    let list = unsafe { (library.ibv_get_device_list)(&mut count) };
    if list.is_null() {
        return Err(Missing::Device(io::Error::last_os_error().to_string()));
    }
    let list = Rc::new(List { library, list });
    // SAFETY: the list has that many devices.
    let device = |at| unsafe { *list.list.add(at) };
    let devices: Vec<Device> =
        (0..count.max(0) as usize).map(|at| Device { list: list.clone(), device: device(at) }).collect();
    if devices.is_empty() { Err(Missing::Device("there is none".into())) } else { Ok(devices) }
}

/// A list of the library's, which its devices need until they are opened.
struct List {
    library: &'static Library,
    list: *mut *mut ibv_device,
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: from the library, given back once.
        unsafe { (self.library.ibv_free_device_list)(self.list) };
    }
}

/// A device that is not open.
pub struct Device {
    list: Rc<List>,
    device: *mut ibv_device,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

impl Device {
    /// Its name, such as `mlx5_0`.
    pub fn name(&self) -> String {
        // SAFETY: a device of a live list.
        text(unsafe { &(*self.device).name })
    }

    /// Where the kernel tells of it.
    fn folder(&self) -> String {
        // SAFETY: a device of a live list.
        text(unsafe { &(*self.device).ibdev_path })
    }

    /// Does it speak InfiniBand's transport (InfiniBand or RoCE)? iWARP needs another way to connect.
    pub fn is_ib_transport(&self) -> bool {
        // SAFETY: a device of a live list.
        unsafe { (*self.device).transport_type == IBV_TRANSPORT_IB as i32 }
    }

    /// Opens it.
    pub fn open(&self) -> Result<Rc<Context>, VerbsError> {
        let library = self.list.library;
        // SAFETY: a device of a live list.
        let context = unsafe { (library.ibv_open_device)(self.device) };
        if context.is_null() {
            return Err(VerbsError::last("ibv_open_device"));
        }
        let context = Context { library, context, name: self.name(), folder: self.folder() };
        context.set_nonblocking()?;
        Ok(Rc::new(context))
    }
}

/// Characters up to a zero, wherever that is.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An open device.
pub struct Context {
    pub(crate) library: &'static Library,
    pub(crate) context: *mut ibv_context,
    name: String,
    folder: String,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.name)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: open, and whatever was made from it is gone: it keeps this alive.
        unsafe { (self.library.ibv_close_device)(self.context) };
    }
}

impl Context {
    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the device can do, and how much of it.
    pub fn limits(&self) -> Result<Limits, VerbsError> {
        // SAFETY: integers and characters may be zero.
        let mut attr: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: an open device and a place.
        VerbsError::check("ibv_query_device", unsafe {
            (self.library.ibv_query_device)(self.context, &mut attr)
        })?;
        let count = |count: i32| u32::try_from(count).unwrap_or(0);
        Ok(Limits {
            firmware: text(&attr.fw_ver),
            qps: count(attr.max_qp),
            qp_work: count(attr.max_qp_wr),
            sges: count(attr.max_sge),
            cqs: count(attr.max_cq),
            cq_entries: count(attr.max_cqe),
            regions: count(attr.max_mr),
            region_bytes: attr.max_mr_size,
            srqs: count(attr.max_srq),
            srq_work: count(attr.max_srq_wr),
            reads_in: count(attr.max_qp_rd_atom),
            reads_out: count(attr.max_qp_init_rd_atom),
            atomics: match attr.atomic_cap {
                IBV_ATOMIC_NONE => Atomics::None,
                IBV_ATOMIC_GLOB => Atomics::WithProcessors,
                _ => Atomics::AmongDevices,
            },
            xrc: attr.device_cap_flags & IBV_DEVICE_XRC != 0 && self.extended().is_some(),
            ports: attr.phys_port_cnt,
        })
    }

    /// A port, from 1.
    pub fn port(&self, number: u8) -> Result<Port, VerbsError> {
        // SAFETY: integers may be zero. (An old library fills in less than all of it.)
        let mut attr: ibv_port_attr = unsafe { std::mem::zeroed() };
        // SAFETY: an open device and a place.
        let code = unsafe { (self.library.ibv_query_port)(self.context, number, &mut attr) };
        VerbsError::check("ibv_query_port", code)?;
        Ok(Port {
            number,
            state: if attr.state == IBV_PORT_ACTIVE {
                PortState::Active
            } else {
                PortState::Other(attr.state)
            },
            mtu: 128 << attr.active_mtu.clamp(IBV_MTU_256, IBV_MTU_4096),
            message_max: attr.max_msg_sz,
            lid: attr.lid,
            gids: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
            link: match attr.link_layer.into() {
                IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                _ => LinkLayer::InfiniBand,
            },
        })
    }

    /// The addresses of a port that are in use.
    pub fn gids(&self, port: &Port) -> Vec<Gid> {
        // Each is asked for with a system call, tables may have a thousand places, and work names an address with a byte.
        (0..port.gids.min(GIDS_MAX)).filter_map(|index| self.gid(port, index)).collect()
    }

    fn gid(&self, port: &Port, index: u32) -> Option<Gid> {
        let (gid, kind) = match self.library.query_gid_ex {
            Some(query) => self.gid_with_kind(query, port, index),
            None => self.gid_of_old(port, index),
        }?;
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&gid.raw[0].to_ne_bytes());
        raw[8..].copy_from_slice(&gid.raw[1].to_ne_bytes());
        (gid.raw[1] != 0).then_some(Gid { index: index as u8, raw, kind })
    }

    /// `None`: the place is empty, which most are.
    fn gid_with_kind(&self, query: QueryGidEx, port: &Port, index: u32) -> Option<(ibv_gid, GidKind)> {
        // SAFETY: integers may be zero.
        let mut entry: ibv_gid_entry = unsafe { std::mem::zeroed() };
        // SAFETY: an open device and a place of the size that is said.
        let code = unsafe {
            query(self.context, port.number.into(), index, &mut entry, 0, size_of::<ibv_gid_entry>())
        };
        let kind = match entry.gid_type {
            IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
            IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
            _ => GidKind::InfiniBand,
        };
        (code == 0).then_some((entry.gid, kind))
    }

    /// From a library that does not tell the kind of an address: the kernel does.
    fn gid_of_old(&self, port: &Port, index: u32) -> Option<(ibv_gid, GidKind)> {
        let mut gid = ibv_gid { raw: [0; 2] };
        // SAFETY: an open device and a place.
        let code = unsafe { (self.library.ibv_query_gid)(self.context, port.number, index as i32, &mut gid) };
        if code != 0 {
            return None;
        }
        let file = format!("{}/ports/{}/gid_attrs/types/{index}", self.folder, port.number);
        let kind = match (fs::read_to_string(file).unwrap_or_default().trim(), port.link) {
            ("RoCE v2", _) => GidKind::RoceV2,
            (_, LinkLayer::Ethernet) => GidKind::RoceV1,
            _ => GidKind::InfiniBand,
        };
        Some((gid, kind))
    }

    /// A counter of the device's, as the kernel tells it.
    pub fn counter(&self, port: u8, name: &str) -> Option<u64> {
        let file = format!("{}/ports/{port}/hw_counters/{name}", self.folder);
        fs::read_to_string(file).ok()?.trim().parse().ok()
    }

    /// The operations that came later, if this library has them.
    pub(crate) fn extended(&self) -> Option<&verbs_context> {
        // SAFETY: an open device.
        let context = unsafe { &*self.context };
        if context.abi_compat as usize != usize::MAX {
            return None;
        }
        let before = std::mem::offset_of!(verbs_context, context);
        // SAFETY: all ones say that this stands before the context, with its size directly before.
        let extended = unsafe { &*self.context.byte_sub(before).cast::<verbs_context>() };
        (extended.sz >= size_of::<verbs_context>()).then_some(extended)
    }

    fn set_nonblocking(&self) -> Result<(), VerbsError> {
        set_nonblocking(self.events())
    }

    /// Does registered memory stay what the device knows when this process forks? (The kernel copies it for the child then.
    /// Otherwise the next who writes gets a copy, and that may be the parent.)
    pub fn survives_forks(&self) -> bool {
        // SAFETY: asks for a number.
        self.library.is_fork_initialized.is_some_and(|ask| unsafe { ask() } == IBV_FORK_UNNEEDED)
    }

    /// Becomes readable when there is an event.
    pub fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the device is.
        unsafe { BorrowedFd::borrow_raw((*self.context).async_fd) }
    }

    /// The next event, if there is one.
    pub fn next_event(&self) -> Option<AsyncEvent> {
        let mut event = ibv_async_event { element: std::ptr::null_mut(), event_type: 0 };
        // SAFETY: an open device and a place; the descriptor does not block.
        if unsafe { (self.library.ibv_get_async_event)(self.context, &mut event) } != 0 {
            return None;
        }
        let words = || {
            // SAFETY: any number gives a string.
            words(unsafe { (self.library.ibv_event_type_str)(event.event_type) })
        };
        let told = match event.event_type {
            IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR => {
                // SAFETY: such an event names a queue pair, which waits for the acknowledgement before it goes.
                AsyncEvent::Qp(unsafe { (*event.element.cast::<ibv_qp>()).qp_num }, words())
            }
            IBV_EVENT_SRQ_LIMIT_REACHED => AsyncEvent::FewReceives,
            IBV_EVENT_PORT_ACTIVE => AsyncEvent::PortUp(event.element as usize as u8),
            IBV_EVENT_PORT_ERR => AsyncEvent::PortDown(event.element as usize as u8),
            IBV_EVENT_DEVICE_FATAL | IBV_EVENT_CQ_ERR | IBV_EVENT_SRQ_ERR => AsyncEvent::Fatal(words()),
            _ => AsyncEvent::Other(words()),
        };
        // SAFETY: got above, and not acknowledged yet.
        unsafe { (self.library.ibv_ack_async_event)(&mut event) };
        Some(told)
    }
}

pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), VerbsError> {
    // SAFETY: an open descriptor.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    // SAFETY: as above.
    let set =
        flags >= 0 && unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } == 0;
    if set { Ok(()) } else { Err(VerbsError::last("fcntl")) }
}

/// What a device can do, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Version of its firmware.
    pub firmware: String,
    /// Queue pairs.
    pub qps: u32,
    /// Work requests of a queue pair.
    pub qp_work: u32,
    /// Pieces of a work request.
    pub sges: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Entries of one.
    pub cq_entries: u32,
    /// Registered regions.
    pub regions: u32,
    /// Bytes of one.
    pub region_bytes: u64,
    /// Shared receive queues.
    pub srqs: u32,
    /// Receives of one.
    pub srq_work: u32,
    /// Reads and atomics that a queue pair may be asked for at a time.
    pub reads_in: u32,
    /// Those that it may ask for.
    pub reads_out: u32,
    /// What its atomic operations are atomic with.
    pub atomics: Atomics,
    /// Does it have XRC?
    pub xrc: bool,
    /// How many ports it has.
    pub ports: u8,
}

/// What atomic operations of a device are atomic with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomics {
    /// There are none.
    None,
    /// With those of the same device.
    AmongDevices,
    /// Also with those of processors.
    WithProcessors,
}

/// A port as it is at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// Can it send?
    pub state: PortState,
    /// Bytes of a packet.
    pub mtu: u32,
    /// Bytes of a message.
    pub message_max: u32,
    /// Its address in an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// Places for other addresses.
    pub gids: u32,
    /// What it is connected to.
    pub link: LinkLayer,
}

/// State of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// It can send.
    Active,
    /// It cannot; the number that the device says.
    Other(u32),
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortState::Active => "active",
            PortState::Other(1) => "down",
            PortState::Other(2) => "initializing",
            PortState::Other(3) => "armed",
            PortState::Other(_) => "unknown",
        })
    }
}

/// What a port is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand: addresses are LIDs inside a subnet.
    InfiniBand,
    /// Ethernet (RoCE): addresses are GIDs.
    Ethernet,
}

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Where in the port's table.
    pub index: u8,
    /// As it goes over the wire.
    pub raw: [u8; 16],
    /// How packets with it look.
    pub kind: GidKind,
}

/// How packets with an address look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// Of InfiniBand.
    InfiniBand,
    /// Ethernet frames of their own type.
    RoceV1,
    /// UDP, which can be routed.
    RoceV2,
}

/// Something that a device tells by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// A queue pair, by its number, is broken.
    Qp(u32, String),
    /// A shared receive queue has fewer receives than was asked for.
    FewReceives,
    /// A port can send again.
    PortUp(u8),
    /// A port cannot send any more.
    PortDown(u8),
    /// The device cannot go on.
    Fatal(String),
    /// Nothing that needs anything done.
    Other(String),
}

//! Devices, ports, addresses and events.
use super::{Opened, code, give, opened, post, qp, queues, set_errno, with};
use crate::adapter::{Adapter, GIDS, WORK_MAX};
use crate::service::Shared;
use crate::settings::{DIRECTORY, Link, NAMED_BY, Settings};
use crate::socket::{Realm, is_forked};
use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use verbs::ffi::*;

/// What stands in the place of a driver's name.
const FIRMWARE: &str = "standin";

/// A device that is not open.
#[repr(C)]
struct Listed {
    device: ibv_device,
    index: u8,
}

/// What the environment asks for. `None`: words that make no sense.
fn settings() -> Option<&'static Arc<Settings>> {
    static SETTINGS: OnceLock<Option<Arc<Settings>>> = OnceLock::new();
    let read = || {
        let words = std::env::var(NAMED_BY).unwrap_or_default();
        Settings::parse(&words)
            .map(Arc::new)
            .inspect_err(|why| eprintln!("standin: {NAMED_BY}: {why}; there is no device"))
            .ok()
    };
    SETTINGS.get_or_init(read).as_ref()
}

/// The devices of this process, by their addresses; they stay as long as it does.
fn listed() -> &'static [usize] {
    static LISTED: OnceLock<Vec<usize>> = OnceLock::new();
    LISTED.get_or_init(|| {
        let count = settings().map_or(0, |settings| settings.devices);
        (0..count).map(|index| Box::into_raw(Box::new(list(index))).expose_provenance()).collect()
    })
}

fn list(index: u8) -> Listed {
    // SAFETY: integers and pointers may be zero.
    let mut device: ibv_device = unsafe { std::mem::zeroed() };
    (device.node_type, device.transport_type) = (1, IBV_TRANSPORT_IB as c_int);
    let name = format!("standin{index}");
    put(&mut device.name, &name);
    put(&mut device.dev_name, &name);
    Listed { device, index }
}

fn put(to: &mut [c_char], text: &str) {
    to.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte as c_char);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let devices = listed();
    // SAFETY: room for the devices and the null behind them.
    let list = unsafe { libc::calloc(devices.len() + 1, size_of::<usize>()) }.cast::<*mut ibv_device>();
    for (at, device) in devices.iter().enumerate() {
        // SAFETY: there is room for so many.
        unsafe { *list.add(at) = std::ptr::with_exposed_provenance_mut(*device) };
    }
    if !count.is_null() {
        // SAFETY: the caller's place for the number.
        unsafe { *count = devices.len() as c_int };
    }
    list
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: from `ibv_get_device_list`, given back once.
    unsafe { libc::free(list.cast()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: a device of a list, which is inside a `Listed`.
    let index = unsafe { (*device.cast::<Listed>()).index };
    let made = give(open(device, index));
    if made.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: just made.
    let context = unsafe { &raw mut (*made).extended.context };
    // SAFETY: as above.
    OPEN.lock().expect("a list").push((context.expose_provenance(), unsafe { (*made).shared.clone() }));
    context
}

/// Open devices, for `banyan_standin_control`.
static OPEN: Mutex<Vec<(usize, Arc<Shared>)>> = Mutex::new(Vec::new());

fn open(device: *mut ibv_device, index: u8) -> Result<Opened, c_int> {
    let settings = settings().ok_or(libc::ENODEV)?;
    if is_forked() {
        return Err(libc::EIO);
    }
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    let directory = std::env::var_os(DIRECTORY).map(PathBuf::from);
    let realm = Realm::new(directory.as_deref()).map_err(errno)?;
    let adapter = Adapter::new(settings.clone(), realm, index).map_err(errno)?;
    let async_fd = adapter.event_counter.fd();
    let (shared, thread) = Shared::start(adapter).map_err(errno)?;
    // SAFETY: integers, pointers and functions that are not there may be zero.
    let mut extended: verbs_context = unsafe { std::mem::zeroed() };
    qp::fill(&mut extended);
    queues::fill(&mut extended);
    post::fill(&mut extended.context.ops);
    extended.sz = size_of::<verbs_context>();
    let context = &mut extended.context;
    (context.device, context.async_fd, context.cmd_fd) = (device, async_fd, -1);
    (context.num_comp_vectors, context.abi_compat) = (1, std::ptr::without_provenance_mut(usize::MAX));
    Ok(Opened { extended, shared, thread: Some(thread) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    if is_forked() {
        return 0;
    }
    OPEN.lock().expect("a list").retain(|(open, _)| *open != context.addr());
    let before = std::mem::offset_of!(Opened, extended) + std::mem::offset_of!(verbs_context, context);
    // SAFETY: an open device of this library is inside an `Opened`, which nobody uses any more.
    let mut opened = unsafe { Box::from_raw(context.byte_sub(before).cast::<Opened>()) };
    opened.shared.stop();
    opened.thread.take().map_or(0, |thread| if thread.join().is_ok() { 0 } else { libc::EIO })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the program's open device.
    code(unsafe { with(context, |adapter| adapter.present().map(|()| limits(&adapter.settings))) }.map(
        |limits| {
            // SAFETY: the caller's place.
            unsafe { *attr = limits }
        },
    ))
}

fn limits(settings: &Settings) -> ibv_device_attr {
    // SAFETY: integers may be zero.
    let mut attr: ibv_device_attr = unsafe { std::mem::zeroed() };
    put(&mut attr.fw_ver, FIRMWARE);
    (attr.max_mr_size, attr.page_size_cap) = (settings.registered, 4096);
    (attr.max_qp, attr.max_qp_wr) = (settings.qps as c_int, WORK_MAX as c_int);
    attr.device_cap_flags = if settings.xrc { IBV_DEVICE_XRC } else { 0 };
    (attr.max_sge, attr.max_sge_rd) = (settings.sges as c_int, settings.sges as c_int);
    (attr.max_cq, attr.max_cqe) = (1 << 16, settings.cqes as c_int);
    (attr.max_mr, attr.max_pd, attr.max_ah) = (1 << 16, 1 << 16, 1 << 16);
    (attr.max_qp_rd_atom, attr.max_qp_init_rd_atom) = (16, 16);
    attr.atomic_cap = if settings.atomics { IBV_ATOMIC_HCA } else { IBV_ATOMIC_NONE };
    (attr.max_srq, attr.max_srq_wr, attr.max_srq_sge) = (1 << 10, WORK_MAX as c_int, settings.sges as c_int);
    (attr.max_pkeys, attr.phys_port_cnt) = (1, settings.ports);
    attr
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int {
    let facts = |adapter: &mut Adapter| {
        adapter.present()?;
        if port == 0 || port > adapter.settings.ports { Err(libc::EINVAL) } else { Ok(facts(adapter, port)) }
    };
    // SAFETY: the program's open device.
    code(unsafe { with(context, facts) }.map(|facts| {
        // SAFETY: the caller's place.
        unsafe { *attr = facts }
    }))
}

fn facts(adapter: &Adapter, port: u8) -> ibv_port_attr {
    // SAFETY: integers may be zero.
    let mut attr: ibv_port_attr = unsafe { std::mem::zeroed() };
    attr.state = if adapter.is_up(port) { IBV_PORT_ACTIVE } else { 1 };
    (attr.max_mtu, attr.active_mtu) = (IBV_MTU_4096, IBV_MTU_4096);
    attr.max_msg_sz = adapter.settings.message;
    (attr.pkey_tbl_len, attr.lid) = (1, adapter.lid(port));
    (attr.gid_tbl_len, attr.link_layer) = match adapter.settings.link {
        Link::Ethernet => (GIDS as c_int, IBV_LINK_LAYER_ETHERNET as u8),
        Link::InfiniBand => (1, IBV_LINK_LAYER_INFINIBAND as u8),
    };
    attr
}

/// An address of a port, and its type.
unsafe fn gid(context: *mut ibv_context, port: u32, index: u32) -> Result<(ibv_gid, u32), c_int> {
    let port = u8::try_from(port).map_err(|_| libc::EINVAL)?;
    // SAFETY: the program's open device.
    let (raw, kind) = unsafe { with(context, |adapter| adapter.gid(port, index).ok_or(libc::EINVAL)) }?;
    let half = |at: usize| u64::from_ne_bytes(raw[at..at + 8].try_into().expect("eight bytes"));
    Ok((ibv_gid { raw: [half(0), half(8)] }, kind))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    to: *mut ibv_gid,
) -> c_int {
    // SAFETY: the program's open device.
    match unsafe { gid(context, port.into(), index as u32) } {
        Ok((gid, _)) => {
            // SAFETY: the caller's place.
            unsafe { *to = gid };
            0
        }
        Err(code) => {
            set_errno(code);
            -1
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    to: *mut ibv_gid_entry,
    _flags: u32,
    _size: usize,
) -> c_int {
    // SAFETY: the program's open device.
    code(unsafe { gid(context, port, index) }.map(|(gid, gid_type)| {
        let entry = ibv_gid_entry { gid, gid_index: index, port_num: port, gid_type, ndev_ifindex: 0 };
        // SAFETY: the caller's place.
        unsafe { *to = entry }
    }))
}

/// Memory is reached by its address: children that are forked take nothing away.
#[unsafe(no_mangle)]
extern "C" fn ibv_is_fork_initialized() -> Enum {
    IBV_FORK_UNNEEDED
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_async_event(context: *mut ibv_context, to: *mut ibv_async_event) -> c_int {
    // SAFETY: the program's open device.
    let shared = unsafe { &opened(context).shared };
    let counter = shared.lock().event_counter.clone();
    // Waited for without the lock.
    if counter.take().is_err() {
        return -1;
    }
    let Some(event) = shared.lock().events.pop_front() else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    let element = std::ptr::with_exposed_provenance_mut(event.element);
    // SAFETY: the caller's place.
    unsafe { *to = ibv_async_event { element, event_type: event.kind } };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_async_event(_event: *mut ibv_async_event) {}

/// Does what words say to all open devices of this process: see the module `control`. 0, or -1 and words on stderr.
#[unsafe(no_mangle)]
unsafe extern "C" fn banyan_standin_control(words: *const c_char) -> c_int {
    // SAFETY: a string of the caller's.
    let words = unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned();
    let open: Vec<Arc<Shared>> =
        OPEN.lock().expect("a list").iter().map(|(_, shared)| shared.clone()).collect();
    for shared in open {
        if let Err(why) = shared.lock().apply(&words) {
            eprintln!("standin: {why}");
            return -1;
        }
    }
    0
}

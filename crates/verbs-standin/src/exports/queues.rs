//! Completion queues and their channels; shared receive queues, and the domains of XRC.
use super::{code, give, opened, set_errno, take, with};
use crate::adapter::{Adapter, WORK_MAX};
use crate::objects::{Armed, Channel, Cq, Srq};
use crate::socket::{Counter, NUMBERS, is_forked};
use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use verbs::ffi::*;

/// A channel, as this library has it.
#[repr(C)]
struct OwnChannel {
    channel: ibv_comp_channel,
    number: u32,
    counter: Arc<Counter>,
}

/// A domain, as this library has it.
#[repr(C)]
pub(super) struct OwnXrcd {
    xrcd: ibv_xrcd,
    pub(super) domain: u64,
}

pub(super) fn fill(extended: &mut verbs_context) {
    extended.create_srq_ex = Some(create_srq_ex);
    extended.get_srq_num = Some(get_srq_num);
    extended.open_xrcd = Some(open_xrcd);
    extended.close_xrcd = Some(close_xrcd);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    let create = |adapter: &mut Adapter| {
        adapter.present()?;
        let counter = Arc::new(Counter::new().map_err(|_| libc::EMFILE)?);
        let number =
            adapter.channels.insert(Channel { counter: counter.clone(), events: VecDeque::new(), users: 0 });
        let channel = ibv_comp_channel { context, fd: counter.fd(), refcnt: 0 };
        Ok(OwnChannel { channel, number, counter })
    };
    // SAFETY: the program's open device.
    give(unsafe { with(context, create) }).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    let own = channel.cast::<OwnChannel>();
    // SAFETY: the program's channel.
    let (context, number) = unsafe { ((*own).channel.context, (*own).number) };
    let remove = |adapter: &mut Adapter| match adapter.channels.get(number).map(|channel| channel.users) {
        Some(0) => adapter.channels.remove(number).map(drop).ok_or(libc::EINVAL),
        Some(_) => Err(libc::EBUSY),
        None => Err(libc::EINVAL),
    };
    // SAFETY: the program's open device.
    let removed = unsafe { with(context, remove) };
    // SAFETY: from `ibv_create_comp_channel`.
    unsafe { take(own, removed) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    _vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: a channel of the program's, if it is one.
    let number = (!channel.is_null()).then(|| unsafe { (*channel.cast::<OwnChannel>()).number });
    let create = |adapter: &mut Adapter| {
        adapter.present()?;
        if cqe < 1 || cqe as u32 > adapter.settings.cqes {
            return Err(libc::EINVAL);
        }
        let of = number.and_then(|number| adapter.channels.get_mut(number));
        of.into_iter().for_each(|channel| channel.users += 1);
        Ok(adapter.cqs.insert(Cq {
            raw: 0,
            most: cqe as usize,
            entries: VecDeque::new(),
            armed: Armed::No,
            channel: number,
            users: 0,
            overrun: false,
            unacknowledged: 0,
        }))
    };
    // SAFETY: the program's open device.
    let made = give(unsafe { with(context, create) }.map(|handle| {
        // SAFETY: integers and pointers may be zero; nobody but the real library uses the rest.
        let zero: ibv_cq = unsafe { std::mem::zeroed() };
        ibv_cq { context, channel, cq_context, handle, cqe, ..zero }
    }));
    if !made.is_null() {
        // SAFETY: the program's open device, and what was made just now.
        let named = unsafe {
            with(context, |adapter| {
                Ok(adapter.cqs.get_mut((*made).handle).map(|cq| cq.raw = made.expose_provenance()))
            })
        };
        debug_assert!(named.is_ok());
    }
    made
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the program's queue.
    let (context, number) = unsafe { ((*cq).context, (*cq).handle) };
    let remove = |adapter: &mut Adapter| {
        let queue = adapter.cqs.get(number).ok_or(libc::EINVAL)?;
        if queue.users > 0 {
            return Err(libc::EBUSY);
        }
        // The real library waits for the acknowledgement here, without end.
        assert_eq!(queue.unacknowledged, 0, "events of a completion queue were not acknowledged");
        let (raw, of) = (queue.raw, queue.channel);
        adapter.cqs.remove(number);
        adapter.forget_events(raw);
        if let Some(channel) = of.and_then(|channel| adapter.channels.get_mut(channel)) {
            channel.users -= 1;
            let before = channel.events.len();
            channel.events.retain(|of| *of != number);
            for _ in channel.events.len()..before {
                channel.counter.take_now();
            }
        }
        Ok(())
    };
    // SAFETY: the program's open device.
    let removed = unsafe { with(context, remove) };
    // SAFETY: from `ibv_create_cq`.
    unsafe { take(cq, removed) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    to: *mut *mut ibv_cq,
    to_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the program's channel.
    let own = unsafe { &*channel.cast::<OwnChannel>() };
    // Waited for without the lock.
    if own.counter.take().is_err() {
        return -1;
    }
    // SAFETY: its device is open.
    let mut adapter = unsafe { opened(own.channel.context) }.shared.lock();
    let number = adapter.channels.get_mut(own.number).and_then(|channel| channel.events.pop_front());
    let Some(queue) = number.and_then(|number| adapter.cqs.get_mut(number)) else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    queue.unacknowledged += 1;
    let cq = std::ptr::with_exposed_provenance_mut::<ibv_cq>(queue.raw);
    // SAFETY: the caller's place.
    unsafe { *to = cq };
    // SAFETY: the caller's place, and a queue of the program's.
    unsafe { *to_context = (*cq).cq_context };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    // SAFETY: the program's queue.
    let (context, number) = unsafe { ((*cq).context, (*cq).handle) };
    // SAFETY: the program's open device.
    let acknowledged = unsafe {
        with(context, |adapter| {
            let queue = adapter.cqs.get_mut(number).ok_or(libc::EINVAL)?;
            queue.unacknowledged = queue.unacknowledged.checked_sub(count).ok_or(libc::EINVAL)?;
            Ok(())
        })
    };
    assert!(acknowledged.is_ok() || is_forked(), "more events were acknowledged than there were");
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: the program's domain and what it wants.
    let (context, domain, init) = unsafe { ((*pd).context, (*pd).handle, &mut *init) };
    let made = make_srq(domain, &init.attr, None);
    // SAFETY: the program's open device.
    unsafe { create_srq(context, pd, init.srq_context, made) }
}

/// Makes a shared receive queue of a domain; for XRC with its own domain and completion queue.
fn make_srq(
    pd: u32,
    attr: &ibv_srq_attr,
    xrc: Option<(u64, u32)>,
) -> impl FnOnce(&mut Adapter) -> Result<u32, c_int> {
    let attr = *attr;
    move |adapter| {
        adapter.present()?;
        if attr.max_wr > WORK_MAX || attr.max_sge > adapter.settings.sges {
            return Err(libc::EINVAL);
        }
        adapter.pds.get_mut(pd).into_iter().for_each(|users| *users += 1);
        let cq = xrc.and_then(|(_, cq)| adapter.cqs.get_mut(cq));
        cq.into_iter().for_each(|cq| cq.users += 1);
        let receives = VecDeque::new();
        let srq = Srq { raw: 0, pd, most: attr.max_wr, limit: attr.srq_limit, receives, users: 0, xrc };
        let number = adapter.srqs.insert(srq);
        // XRC names them by a part of a number that all devices share.
        if number < NUMBERS { Ok(number) } else { Err(libc::ENOMEM) }
    }
}

/// # Safety
/// The device is open.
unsafe fn create_srq(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    srq_context: *mut c_void,
    make: impl FnOnce(&mut Adapter) -> Result<u32, c_int>,
) -> *mut ibv_srq {
    // SAFETY: as the caller promises.
    let made = give(unsafe { with(context, make) }.map(|handle| {
        // SAFETY: integers and pointers may be zero; nobody but the real library uses the rest.
        let zero: ibv_srq = unsafe { std::mem::zeroed() };
        ibv_srq { context, srq_context, pd, handle, ..zero }
    }));
    if !made.is_null() {
        // SAFETY: the device is open, and the structure was made just now.
        let named = unsafe {
            with(context, |adapter| {
                Ok(adapter.srqs.get_mut((*made).handle).map(|srq| srq.raw = made.expose_provenance()))
            })
        };
        debug_assert!(named.is_ok());
    }
    made
}

unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: what the program wants.
    let init = unsafe { &*init };
    let has = |bit| init.comp_mask & bit != 0;
    // SAFETY: a domain of the program's, if it says so.
    let pd = if has(IBV_SRQ_INIT_ATTR_PD) { unsafe { init.pd.as_ref() } } else { None };
    let is_xrc = has(IBV_SRQ_INIT_ATTR_TYPE) && init.srq_type == IBV_SRQT_XRC;
    let complete = !is_xrc || has(IBV_SRQ_INIT_ATTR_XRCD) && has(IBV_SRQ_INIT_ATTR_CQ);
    let (Some(pd), true) = (pd, complete) else { return give(Err(libc::EINVAL)) };
    let xrc = is_xrc.then(|| {
        // SAFETY: a domain and a completion queue of the program's, as it says.
        unsafe { ((*init.xrcd.cast::<OwnXrcd>()).domain, (*init.cq).handle) }
    });
    let make = make_srq(pd.handle, &init.attr, xrc);
    // SAFETY: the program's open device.
    unsafe { create_srq(context, init.pd, init.srq_context, make) }
}

unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, to: *mut u32) -> c_int {
    // SAFETY: the program's queue.
    let (context, handle) = unsafe { ((*srq).context, (*srq).handle) };
    // SAFETY: the program's open device.
    code(unsafe {
        with(context, |adapter| {
            let is_xrc = adapter.srqs.get(handle).is_some_and(|srq| srq.xrc.is_some());
            *to = adapter.number * NUMBERS + handle;
            if is_xrc { Ok(()) } else { Err(libc::EINVAL) }
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    // SAFETY: the program's queue and what it wants.
    let (context, handle, limit) = unsafe { ((*srq).context, (*srq).handle, (*attr).srq_limit) };
    let modify = |adapter: &mut Adapter| {
        adapter.present()?;
        let srq = adapter.srqs.get_mut(handle).ok_or(libc::EINVAL)?;
        if mask as u32 != IBV_SRQ_LIMIT || limit > srq.most {
            return Err(libc::EINVAL);
        }
        srq.limit = limit;
        Ok(())
    };
    // SAFETY: the program's open device.
    code(unsafe { with(context, modify) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: the program's queue.
    let (context, handle) = unsafe { ((*srq).context, (*srq).handle) };
    let remove = |adapter: &mut Adapter| {
        let srq = adapter.srqs.get(handle).ok_or(libc::EINVAL)?;
        if srq.users > 0 {
            return Err(libc::EBUSY);
        }
        let (raw, pd, xrc) = (srq.raw, srq.pd, srq.xrc);
        adapter.srqs.remove(handle);
        adapter.forget_events(raw);
        adapter.pds.get_mut(pd).into_iter().for_each(|users| *users -= 1);
        let cq = xrc.and_then(|(_, cq)| adapter.cqs.get_mut(cq));
        cq.into_iter().for_each(|cq| cq.users -= 1);
        Ok(())
    };
    // SAFETY: the program's open device.
    let removed = unsafe { with(context, remove) };
    // SAFETY: from `create_srq`.
    unsafe { take(srq, removed) }
}

unsafe extern "C" fn open_xrcd(context: *mut ibv_context, init: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd {
    // SAFETY: what the program wants.
    let (mask, fd) = unsafe { ((*init).comp_mask, (*init).fd) };
    let open = |adapter: &mut Adapter| {
        adapter.present()?;
        if !adapter.settings.xrc {
            return Err(libc::EOPNOTSUPP);
        }
        if mask & (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS) == 0 {
            return Err(libc::EINVAL);
        }
        adapter.last_flight = adapter.last_flight.wrapping_add(1);
        let private = 1 << 63 | u64::from(adapter.number) << 32 | u64::from(adapter.last_flight);
        let domain = if fd < 0 { private } else { file(fd)? };
        Ok(OwnXrcd { xrcd: ibv_xrcd { context }, domain })
    };
    // SAFETY: the program's open device.
    give(unsafe { with(context, open) }).cast()
}

/// The domain that belongs to a file, the same in all processes.
fn file(fd: c_int) -> Result<u64, c_int> {
    // SAFETY: integers may be zero.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor, which the kernel checks, and a place.
    match unsafe { libc::fstat(fd, &mut facts) } {
        0 => Ok((facts.st_ino ^ facts.st_dev.rotate_left(40)) & !(1 << 63)),
        _ => Err(libc::EBADF),
    }
}

unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: from `open_xrcd`.
    unsafe { take(xrcd.cast::<OwnXrcd>(), Ok(())) }
}

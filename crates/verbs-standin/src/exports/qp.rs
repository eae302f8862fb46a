//! Queue pairs, and addresses of datagrams.
use super::queues::OwnXrcd;
use super::{code, give, take, with};
use crate::adapter::{Adapter, Wanted};
use crate::machine::Kind;
use crate::objects::Caps;
use crate::socket::Realm;
use crate::target::Shared;
use crate::wire::Place;
use std::ffi::c_int;
use verbs::ffi::*;

/// An address, as this library has it.
#[repr(C)]
pub(super) struct OwnAh {
    ah: ibv_ah,
    pub(super) place: Place,
}

pub(super) fn fill(extended: &mut verbs_context) {
    extended.create_qp_ex = Some(create_qp_ex);
    extended.open_qp = Some(open_qp);
}

/// The number of a structure, or 0, which is nobody's.
macro_rules! handle {
    ($pointer:expr) => {
        // SAFETY: a structure of the program's, or null.
        unsafe { $pointer.as_ref() }.map_or(0, |structure| structure.handle)
    };
}

fn caps(cap: &ibv_qp_cap) -> Caps {
    Caps {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the program's domain and what it wants.
    let (context, init) = unsafe { ((*pd).context, &*init) };
    if !matches!(Kind::of(init.qp_type), Some(Kind::Rc | Kind::Ud)) {
        return give(Err(libc::EOPNOTSUPP));
    }
    // SAFETY: integers and pointers may be zero.
    let zero: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
    let mut more = ibv_qp_init_attr_ex {
        qp_context: init.qp_context,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        cap: init.cap,
        qp_type: init.qp_type,
        sq_sig_all: init.sq_sig_all,
        comp_mask: IBV_QP_INIT_ATTR_PD,
        pd,
        ..zero
    };
    // SAFETY: the same, written at greater length.
    unsafe { create_qp_ex(context, &mut more) }
}

unsafe extern "C" fn create_qp_ex(context: *mut ibv_context, init: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    // SAFETY: what the program wants.
    let init = unsafe { &*init };
    let has = |bit| init.comp_mask & bit != 0;
    let kind = Kind::of(init.qp_type);
    let pd = if has(IBV_QP_INIT_ATTR_PD) { init.pd } else { std::ptr::null_mut() };
    let domain = match kind {
        Some(Kind::XrcReceive) if has(IBV_QP_INIT_ATTR_XRCD) => {
            // SAFETY: a domain of the program's, as it says.
            unsafe { (*init.xrcd.cast::<OwnXrcd>()).domain }
        }
        Some(Kind::Rc | Kind::Ud | Kind::XrcSend) if !pd.is_null() => 0,
        _ => return give(Err(libc::EINVAL)),
    };
    let kind = kind.expect("looked at above");
    let wanted = Wanted {
        kind,
        pd: handle!(pd),
        send_cq: handle!(init.send_cq),
        receive_cq: handle!(init.recv_cq),
        srq: (!init.srq.is_null()).then(|| handle!(init.srq)),
        domain,
        cap: caps(&init.cap),
        all_told: init.sq_sig_all != 0,
    };
    // SAFETY: integers and pointers may be zero; nobody but the real library uses the rest.
    let zero: ibv_qp = unsafe { std::mem::zeroed() };
    let (send_cq, recv_cq, srq) = (init.send_cq, init.recv_cq, init.srq);
    let (qp_context, qp_type) = (init.qp_context, init.qp_type);
    let shape = ibv_qp { context, qp_context, pd, send_cq, recv_cq, srq, qp_type, ..zero };
    // SAFETY: the program's open device.
    unsafe { create(shape, wanted) }
}

/// # Safety
/// The device of `shape` is open.
unsafe fn create(shape: ibv_qp, wanted: Wanted) -> *mut ibv_qp {
    let context = shape.context;
    let make = |adapter: &mut Adapter| {
        let is_xrc = matches!(wanted.kind, Kind::XrcSend | Kind::XrcReceive);
        if is_xrc && !adapter.settings.xrc { Err(libc::EOPNOTSUPP) } else { adapter.create_qp(wanted) }
    };
    // SAFETY: as the caller promises.
    let number = unsafe { with(context, make) };
    let made = give(number.map(|number| ibv_qp { handle: number, qp_num: number, ..shape }));
    if let Ok(number) = number {
        // SAFETY: as the caller promises.
        let named = unsafe {
            with(context, |adapter| {
                Ok(adapter.qps.get_mut(&number).map(|qp| qp.raw = made.expose_provenance()))
            })
        };
        debug_assert!(named.is_ok());
    }
    made
}

/// Another name of a receiving half of XRC, which this process has already or another one of the domain.
unsafe extern "C" fn open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp {
    // SAFETY: what the program wants.
    let attr = unsafe { &*attr };
    let needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if attr.comp_mask & needed != needed {
        return give(Err(libc::EINVAL));
    }
    // SAFETY: a domain of the program's, as it says.
    let domain = unsafe { (*attr.xrcd.cast::<OwnXrcd>()).domain };
    let number = attr.qp_num;
    // SAFETY: the program's open device.
    let found = unsafe { with(context, |adapter| find(adapter, number, domain)) };
    let adopted = found.and_then(|realm| match realm {
        None => Ok(()),
        Some(realm) => {
            // Asked for without the lock: the process that answers may ask this one.
            let shared = Shared::open(&realm, number, domain)?;
            // SAFETY: the program's open device.
            unsafe { with(context, |adapter| adapter.adopt_qp(number, of_domain(domain), shared)) }
        }
    });
    let made = give(adopted.map(|()| {
        // SAFETY: integers and pointers may be zero; nobody but the real library uses the rest.
        let zero: ibv_qp = unsafe { std::mem::zeroed() };
        ibv_qp {
            context,
            qp_context: attr.qp_context,
            handle: number,
            qp_num: number,
            qp_type: attr.qp_type,
            ..zero
        }
    }));
    if !made.is_null() {
        let name = |adapter: &mut Adapter| {
            let qp = adapter.qps.get_mut(&number).ok_or(libc::EINVAL)?;
            match (qp.raw, &mut qp.shared) {
                (0, _) => qp.raw = made.expose_provenance(),
                (_, Some(shared)) => shared.names.push(made.expose_provenance()),
                (_, None) => {}
            }
            Ok(())
        };
        // SAFETY: the program's open device.
        let named = unsafe { with(context, name) };
        debug_assert!(named.is_ok());
    }
    made
}

/// Is a receiving half open here? If not, where others are to be asked.
fn find(adapter: &mut Adapter, number: u32, domain: u64) -> Result<Option<Realm>, c_int> {
    adapter.present()?;
    match adapter.qps.get(&number) {
        Some(qp) if qp.domain == domain && qp.kind == Kind::XrcReceive => Ok(None),
        Some(_) => Err(libc::EINVAL),
        None => Ok(Some(adapter.links.realm.clone())),
    }
}

/// What a receiving half wants of the device: nothing.
fn of_domain(domain: u64) -> Wanted {
    let cap = Caps { max_send_wr: 0, max_recv_wr: 0, max_send_sge: 0, max_recv_sge: 0, max_inline_data: 0 };
    let kind = Kind::XrcReceive;
    Wanted { kind, pd: 0, send_cq: 0, receive_cq: 0, srq: None, domain, cap, all_told: false }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the program's queue pair.
    let (context, number) = unsafe { ((*qp).context, (*qp).handle) };
    let remove = |adapter: &mut Adapter| {
        let Some(own) = adapter.qps.get_mut(&number) else { return Err(libc::EINVAL) };
        let names = own.shared.as_mut().map(|shared| &mut shared.names);
        match names {
            Some(names) if own.raw != qp.addr() => names.retain(|name| *name != qp.addr()),
            // The others keep it.
            Some(names) if !names.is_empty() => {
                own.raw = names.remove(0);
                adapter.forget_events(qp.addr());
            }
            _ => return adapter.destroy_qp(number),
        }
        Ok(())
    };
    // SAFETY: the program's open device.
    let removed = unsafe { with(context, remove) };
    // SAFETY: from `create` or `open_qp`.
    unsafe { take(qp, removed) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: the program's queue pair and what it wants.
    let (context, number, attr) = unsafe { ((*qp).context, (*qp).handle, &*attr) };
    let modify = |adapter: &mut Adapter| {
        adapter.modify_qp(number, attr, mask as u32)?;
        adapter.qps.get(&number).map(|qp| qp.state.number()).ok_or(libc::EINVAL)
    };
    // SAFETY: the program's open device.
    code(unsafe { with(context, modify) }.map(|state| {
        // SAFETY: the program's queue pair.
        unsafe { (*qp).state = state }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the program's queue pair and its places.
    let (qp, attr, init) = unsafe { (&mut *qp, &mut *attr, &mut *init) };
    let query = |adapter: &mut Adapter| {
        adapter.present()?;
        adapter.load(qp.handle);
        let own = adapter.qps.get(&qp.handle).ok_or(libc::EINVAL)?;
        let (told, cap) = (&own.attr, &own.cap);
        (attr.qp_state, attr.cur_qp_state) = (own.state.number(), own.state.number());
        (attr.qkey, attr.dest_qp_num, attr.qp_access_flags) = (told.qkey, told.dest, told.access);
        (attr.rq_psn, attr.sq_psn, attr.port_num) = (told.receive_psn, told.send_psn, told.port);
        (attr.timeout, attr.retry_cnt, attr.rnr_retry) = (told.timeout, told.retries, told.rnr_retries);
        (attr.max_dest_rd_atomic, attr.min_rnr_timer) = (told.reads_in, told.rnr_timer);
        attr.cap = ibv_qp_cap {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        };
        (init.cap, init.qp_type, init.sq_sig_all) = (attr.cap, qp.qp_type, own.all_told.into());
        (init.send_cq, init.recv_cq, init.srq) = (qp.send_cq, qp.recv_cq, qp.srq);
        qp.state = own.state.number();
        Ok(())
    };
    // SAFETY: the program's open device.
    code(unsafe { with(qp.context, query) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the program's domain and an address.
    let (context, attr) = unsafe { ((*pd).context, &*attr) };
    // SAFETY: the program's open device.
    let place = unsafe { with(context, |adapter| adapter.present().and_then(|()| adapter.place(attr))) };
    give(place.map(|place| OwnAh { ah: ibv_ah { context, pd, handle: 0 }, place })).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: from `ibv_create_ah`.
    unsafe { take(ah.cast::<OwnAh>(), Ok(())) }
}

//! Protection domains and registered memory.
use super::{give, take, with};
use crate::adapter::Adapter;
use crate::memory::Region;
use std::ffi::{c_int, c_void};
use verbs::ffi::*;

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the program's open device.
    let handle = unsafe { with(context, |adapter| adapter.present().map(|()| adapter.pds.insert(0))) };
    give(handle.map(|handle| ibv_pd { context, handle }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the program's domain.
    let (context, handle) = unsafe { ((*pd).context, (*pd).handle) };
    let remove = |adapter: &mut Adapter| match adapter.pds.get(handle) {
        Some(0) => adapter.pds.remove(handle).map(|_| ()).ok_or(libc::EINVAL),
        Some(_) => Err(libc::EBUSY),
        None => Err(libc::EINVAL),
    };
    // SAFETY: the program's open device.
    let removed = unsafe { with(context, remove) };
    // SAFETY: from `ibv_alloc_pd`.
    unsafe { take(pd, removed) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the program's domain.
    let (context, domain) = unsafe { ((*pd).context, (*pd).handle) };
    let register = |adapter: &mut Adapter| {
        adapter.present()?;
        let region = Region {
            pd: domain,
            addr: addr.expose_provenance() as u64,
            bytes: length as u64,
            access: access as u32,
        };
        let most = adapter.settings.registered;
        let key = adapter.regions.register(region, most)?;
        adapter.pds.get_mut(domain).into_iter().for_each(|users| *users += 1);
        Ok(key)
    };
    // SAFETY: the program's open device.
    let key = unsafe { with(context, register) };
    give(key.map(|key| ibv_mr { context, pd, addr, length, handle: key, lkey: key, rkey: key }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the program's region.
    let (context, key) = unsafe { ((*mr).context, (*mr).handle) };
    let remove = |adapter: &mut Adapter| {
        let region = adapter.regions.deregister(key).ok_or(libc::EINVAL)?;
        adapter.pds.get_mut(region.pd).into_iter().for_each(|users| *users -= 1);
        Ok(())
    };
    // SAFETY: the program's open device.
    let removed = unsafe { with(context, remove) };
    // SAFETY: from `ibv_reg_mr`.
    unsafe { take(mr, removed) }
}

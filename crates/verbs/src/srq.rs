//! Shared receive queues.
use crate::arena::Arena;
use crate::completion::Cq;
use crate::ffi::*;
use crate::library::VerbsError;
use crate::qp::Xrcd;
use crate::work::Pd;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// Receives that many queue pairs share.
pub struct Srq {
    pd: Rc<Pd>,
    pub(crate) srq: *mut ibv_srq,
    post: PostSrqRecv,
    /// Where messages go.
    arenas: RefCell<Vec<Rc<Arena>>>,
    _domain: Option<(Rc<Xrcd>, Rc<Cq>)>,
}

impl fmt::Debug for Srq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Srq")
    }
}

impl Srq {
    /// One that takes so many receives.
    pub fn new(pd: &Rc<Pd>, receives: u32) -> Result<Rc<Srq>, VerbsError> {
        let attr = ibv_srq_attr { max_wr: receives, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: std::ptr::null_mut(), attr };
        // SAFETY: a live domain and what is wanted.
        let srq = unsafe { (pd.context.library.ibv_create_srq)(pd.pd, &mut init) };
        Self::of(pd, srq, None, "ibv_create_srq")
    }

    /// One of an XRC domain, which peers name by its number.
    pub fn of_domain(
        domain: &Rc<Xrcd>,
        pd: &Rc<Pd>,
        cq: &Rc<Cq>,
        receives: u32,
    ) -> Result<Rc<Srq>, VerbsError> {
        const CALL: &str = "ibv_create_srq_ex";
        let create = pd.context.extended().and_then(|ops| ops.create_srq_ex);
        let create = create.ok_or_else(|| VerbsError::unsupported(CALL))?;
        let mut init = ibv_srq_init_attr_ex {
            srq_context: std::ptr::null_mut(),
            attr: ibv_srq_attr { max_wr: receives, max_sge: 1, srq_limit: 0 },
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE
                | IBV_SRQ_INIT_ATTR_PD
                | IBV_SRQ_INIT_ATTR_XRCD
                | IBV_SRQ_INIT_ATTR_CQ,
            srq_type: IBV_SRQT_XRC,
            pd: pd.pd,
            xrcd: domain.xrcd,
            cq: cq.cq,
            tm_cap: [0; 2],
        };
        // SAFETY: an open device and what is wanted, all of it alive.
        let srq = unsafe { create(pd.context.context, &mut init) };
        Self::of(pd, srq, Some((domain.clone(), cq.clone())), CALL)
    }

    fn of(
        pd: &Rc<Pd>,
        srq: *mut ibv_srq,
        domain: Option<(Rc<Xrcd>, Rc<Cq>)>,
        call: &'static str,
    ) -> Result<Rc<Srq>, VerbsError> {
        if srq.is_null() {
            return Err(VerbsError::last(call));
        }
        // SAFETY: an open device.
        let post = unsafe { (*pd.context.context).ops.post_srq_recv };
        let post = post.ok_or_else(|| VerbsError::unsupported("ibv_post_srq_recv"))?;
        Ok(Rc::new(Srq { pd: pd.clone(), srq, post, arenas: RefCell::default(), _domain: domain }))
    }

    /// The number that peers name it by, if it has one.
    pub fn number(&self) -> Option<u32> {
        let number_of = self.pd.context.extended()?.get_srq_num?;
        let mut number = 0;
        // SAFETY: a live queue and a place.
        (unsafe { number_of(self.srq, &mut number) } == 0).then_some(number)
    }

    /// Lets a message come into a slot. The queue keeps the arena.
    pub fn post(&self, id: u64, arena: &Rc<Arena>, slot: usize) -> Result<(), VerbsError> {
        if !self.arenas.borrow().iter().any(|known| Rc::ptr_eq(known, arena)) {
            self.arenas.borrow_mut().push(arena.clone());
        }
        let mut sge = arena.local(slot, arena.slot_bytes()).0;
        let mut work = ibv_recv_wr { wr_id: id, next: std::ptr::null_mut(), sg_list: &mut sge, num_sge: 1 };
        let mut bad = std::ptr::null_mut();
        // SAFETY: a live queue; the request is copied; the memory stays as long as the queue.
        VerbsError::check("ibv_post_srq_recv", unsafe { (self.post)(self.srq, &mut work, &mut bad) })
    }

    /// Has the device tell when there are fewer receives than this.
    pub fn warn_below(&self, receives: u32) -> Result<(), VerbsError> {
        let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: receives };
        // SAFETY: a live queue and what is wanted.
        let code =
            unsafe { (self.pd.context.library.ibv_modify_srq)(self.srq, &mut attr, IBV_SRQ_LIMIT as i32) };
        VerbsError::check("ibv_modify_srq", code)
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: its queue pairs are gone: they keep this alive. The memory goes afterwards.
        unsafe { (self.pd.context.library.ibv_destroy_srq)(self.srq) };
    }
}

//! Queue pairs, and whom they talk to.
use crate::completion::Cq;
use crate::device::{Context, Gid};
use crate::ffi::*;
use crate::library::{Library, VerbsError};
use crate::srq::Srq;
use crate::work::{Access, Operation, Pd, Piece, Work};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pieces of a work request that this crate passes on.
const SGES_MAX: usize = 4;

/// Which kind of queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpKind {
    /// Connected, and nothing is lost.
    Rc,
    /// Datagrams.
    Ud,
    /// The sending half of XRC.
    XrcSend,
    /// The receiving half of XRC: see [`Qp::of_domain`].
    XrcReceive,
}

/// What [`Qp::init`] tells the device.
const INIT_MASK: u32 = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

fn init_attr(port: u8, access: Access) -> ibv_qp_attr {
    // SAFETY: integers may be zero.
    let mut attr: ibv_qp_attr = unsafe { std::mem::zeroed() };
    attr.qp_state = IBV_QPS_INIT;
    (attr.port_num, attr.qp_access_flags) = (port, access.bits());
    attr
}

fn connected_attr(
    send_cq: *mut ibv_cq,
    recv_cq: *mut ibv_cq,
    srq: *mut ibv_srq,
    cap: ibv_qp_cap,
) -> ibv_qp_init_attr {
    let qp_context = std::ptr::null_mut();
    ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type: IBV_QPT_RC, sq_sig_all: 0 }
}

/// Makes connected queue pairs in any thread.
struct Maker {
    library: &'static Library,
    pd: *mut ibv_pd,
    init: ibv_qp_init_attr,
    attr: ibv_qp_attr,
}

// SAFETY: a device and what was made of it may be used by several threads at once, which the library's interface promises. What is
// named here outlives the threads (see `Qp::new_many`).
unsafe impl Sync for Maker {}

/// What it has made.
struct Made(*mut ibv_qp, ibv_qp_cap);

// SAFETY: nobody else has it.
unsafe impl Send for Made {}

impl Maker {
    fn make(&self) -> Result<Made, VerbsError> {
        let (mut init, mut attr) = (self.init, self.attr);
        // SAFETY: a live domain, and what is wanted, all of it alive.
        let qp = unsafe { (self.library.ibv_create_qp)(self.pd, &mut init) };
        if qp.is_null() {
            return Err(VerbsError::last("ibv_create_qp"));
        }
        // SAFETY: a live queue pair and what is wanted.
        let code = unsafe { (self.library.ibv_modify_qp)(qp, &mut attr, INIT_MASK as i32) };
        VerbsError::check("ibv_modify_qp", code).map(|()| Made(qp, init.cap)).inspect_err(|_| {
            // SAFETY: a live queue pair, which nobody has.
            unsafe { (self.library.ibv_destroy_qp)(qp) };
        })
    }
}

/// How much of what a queue pair can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCaps {
    /// Work requests under way.
    pub work: u32,
    /// Receives of its own, where they are not shared.
    pub receives: u32,
    /// Pieces of a request.
    pub sges: u32,
    /// Bytes that can be copied when they are posted.
    pub inline_bytes: u32,
}

impl QpCaps {
    fn to_cap(self, has_srq: bool) -> ibv_qp_cap {
        ibv_qp_cap {
            max_send_wr: self.work,
            max_recv_wr: if has_srq { 0 } else { self.receives },
            max_send_sge: self.sges.min(SGES_MAX as u32),
            max_recv_sge: u32::from(!has_srq),
            max_inline_data: self.inline_bytes,
        }
    }
}

/// What two connected queue pairs must agree on, or decide for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpSettings {
    /// Bytes of a packet: 256 to 4096.
    pub mtu: u32,
    /// Reads and atomics that the peer may ask for at a time.
    pub reads_in: u8,
    /// Those that this side may ask for.
    pub reads_out: u8,
    /// How long an answer is waited for: 4.096 us times two to this power.
    pub timeout: u8,
    /// How often it is asked again: at most 7.
    pub retries: u8,
    /// How often a peer without a receive is asked again: 7 is for ever.
    pub rnr_retries: u8,
    /// How long it asks to be left alone then, in the device's code.
    pub rnr_timer: u8,
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The port of this side.
    pub port: u8,
    /// The peer's LID, inside an InfiniBand subnet.
    pub lid: u16,
    /// The address of this side and the peer's; on Ethernet always.
    pub gids: Option<(Gid, [u8; 16])>,
}

impl Address {
    fn attr(&self) -> ibv_ah_attr {
        // SAFETY: integers may be zero.
        let mut attr: ibv_ah_attr = unsafe { std::mem::zeroed() };
        (attr.dlid, attr.port_num) = (self.lid, self.port);
        if let Some((own, peer)) = &self.gids {
            attr.is_global = 1;
            let half = |at: usize| u64::from_ne_bytes(peer[at..at + 8].try_into().expect("eight bytes"));
            attr.grh.dgid = ibv_gid { raw: [half(0), half(8)] };
            (attr.grh.sgid_index, attr.grh.hop_limit) = (own.index, 64);
        }
        attr
    }
}

/// The peer's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dest {
    /// Where.
    pub address: Address,
    /// Its number.
    pub qp: u32,
    /// The number of its first packet.
    pub psn: u32,
}

/// State of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it was made.
    Reset,
    /// It may have receives.
    Init,
    /// It receives.
    Rtr,
    /// It sends.
    Rts,
    /// It finishes what was posted.
    Sqd,
    /// It is broken.
    Error,
}

/// What a queue pair needs as long as it is there.
#[allow(dead_code)] // it is kept, not used
enum Keeps {
    Queues([Rc<Cq>; 2], Option<Rc<Srq>>),
    Domain(Rc<Xrcd>),
}

/// A queue pair.
pub struct Qp {
    pd: Rc<Pd>,
    kind: QpKind,
    _keeps: Keeps,
    qp: *mut ibv_qp,
    post: PostSend,
    caps: QpCaps,
}

impl fmt::Debug for Qp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qp({:#x})", self.num())
    }
}

impl Qp {
    /// A queue pair in RESET. `caps` say what is wanted; there may be more.
    pub fn new(
        pd: &Rc<Pd>,
        kind: QpKind,
        send: &Rc<Cq>,
        receive: &Rc<Cq>,
        srq: Option<&Rc<Srq>>,
        caps: QpCaps,
    ) -> Result<Qp, VerbsError> {
        let cap = caps.to_cap(srq.is_some());
        let raw_srq = srq.map_or(std::ptr::null_mut(), |srq| srq.srq);
        let (qp, cap) = match kind {
            QpKind::Rc | QpKind::Ud => {
                let mut init = connected_attr(send.cq, receive.cq, raw_srq, cap);
                init.qp_type = if kind == QpKind::Rc { IBV_QPT_RC } else { IBV_QPT_UD };
                // SAFETY: a live domain and what is wanted, all of it alive.
                let qp = unsafe { (pd.context.library.ibv_create_qp)(pd.pd, &mut init) };
                (qp, init.cap)
            }
            QpKind::XrcSend => Self::create_extended(&pd.context, |init| {
                (init.send_cq, init.recv_cq) = (send.cq, receive.cq);
                (init.cap, init.qp_type) =
                    (ibv_qp_cap { max_recv_wr: 0, max_recv_sge: 0, ..cap }, IBV_QPT_XRC_SEND);
                (init.comp_mask, init.pd) = (IBV_QP_INIT_ATTR_PD, pd.pd);
            })?,
            QpKind::XrcReceive => return Err(VerbsError::unsupported("ibv_create_qp")),
        };
        let keeps = Keeps::Queues([send.clone(), receive.clone()], srq.cloned());
        Qp::made(pd, kind, qp, cap, keeps)
    }

    /// Connected ones in INIT, made by so many threads at once, each of which does something first. All of them, or as many as
    /// the device has, and why not more. The order is that of their numbers.
    #[allow(clippy::too_many_arguments)] // those of `new` and `init`, and how
    pub fn new_many(
        pd: &Rc<Pd>,
        cq: &Rc<Cq>,
        srq: &Rc<Srq>,
        caps: QpCaps,
        (port, access): (u8, Access),
        count: usize,
        threads: usize,
        begin: impl Fn() + Sync,
    ) -> (Vec<Qp>, Option<VerbsError>) {
        let maker = Maker {
            library: pd.context.library,
            pd: pd.pd,
            init: connected_attr(cq.cq, cq.cq, srq.srq, caps.to_cap(true)),
            attr: init_attr(port, access),
        };
        let next = AtomicUsize::new(0);
        let make = || {
            let mut made = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < count {
                match maker.make() {
                    Ok(qp) => made.push(qp),
                    Err(error) => {
                        next.store(count, Ordering::Relaxed);
                        return (made, Some(error));
                    }
                }
            }
            (made, None)
        };
        let (mut qps, mut refused) = (Vec::with_capacity(count), None);
        let mut take = |(made, error): (Vec<Made>, Option<VerbsError>)| {
            refused = refused.take().or(error);
            for Made(qp, cap) in made {
                let keeps = Keeps::Queues([cq.clone(), cq.clone()], Some(srq.clone()));
                match Qp::made(pd, QpKind::Rc, qp, cap, keeps) {
                    Ok(qp) => qps.push(qp),
                    Err(error) => refused = Some(error),
                }
            }
        };
        // This thread waits, and stays where it is bound; it helps only if there is no other.
        let threads = if threads > 1 { threads.min(count) } else { 0 };
        std::thread::scope(|scope| {
            let work = || (begin(), make()).1;
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let started: Vec<_> = (0..threads).map_while(start).collect();
            if started.is_empty() {
                take(make());
            }
            started.into_iter().filter_map(|thread| thread.join().ok()).for_each(take);
        });
        qps.sort_by_key(Qp::num);
        (qps, refused)
    }

    /// The receiving half of XRC, in RESET: what comes goes to the shared receive queue of the domain that the sender names.
    pub fn of_domain(pd: &Rc<Pd>, domain: &Rc<Xrcd>) -> Result<Qp, VerbsError> {
        let (qp, cap) = Self::create_extended(&pd.context, |init| {
            init.qp_type = IBV_QPT_XRC_RECV;
            (init.comp_mask, init.xrcd) = (IBV_QP_INIT_ATTR_XRCD, domain.xrcd);
        })?;
        Qp::made(pd, QpKind::XrcReceive, qp, cap, Keeps::Domain(domain.clone()))
    }

    /// Another name of the receiving half with this number, which a process of the domain has made. It is there as long as it has
    /// a name, in whatever process.
    pub fn open_of_domain(pd: &Rc<Pd>, domain: &Rc<Xrcd>, number: u32) -> Result<Qp, VerbsError> {
        const CALL: &str = "ibv_open_qp";
        let open = pd.context.extended().and_then(|ops| ops.open_qp);
        let open = open.ok_or_else(|| VerbsError::unsupported(CALL))?;
        let mut attr = ibv_qp_open_attr {
            comp_mask: IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
            qp_num: number,
            xrcd: domain.xrcd,
            qp_context: std::ptr::null_mut(),
            qp_type: IBV_QPT_XRC_RECV,
        };
        // SAFETY: an open device and what is wanted, all of it alive.
        let qp = unsafe { open(pd.context.context, &mut attr) };
        if qp.is_null() {
            return Err(VerbsError::last(CALL));
        }
        let nothing = ibv_qp_cap {
            max_send_wr: 0,
            max_recv_wr: 0,
            max_send_sge: 0,
            max_recv_sge: 0,
            max_inline_data: 0,
        };
        Qp::made(pd, QpKind::XrcReceive, qp, nothing, Keeps::Domain(domain.clone()))
    }

    fn made(
        pd: &Rc<Pd>,
        kind: QpKind,
        qp: *mut ibv_qp,
        cap: ibv_qp_cap,
        keeps: Keeps,
    ) -> Result<Qp, VerbsError> {
        if qp.is_null() {
            return Err(VerbsError::last("ibv_create_qp"));
        }
        // SAFETY: an open device.
        let post = unsafe { (*pd.context.context).ops.post_send };
        Ok(Qp {
            pd: pd.clone(),
            kind,
            _keeps: keeps,
            qp,
            post: post.ok_or_else(|| VerbsError::unsupported("ibv_post_send"))?,
            caps: QpCaps {
                work: cap.max_send_wr,
                receives: cap.max_recv_wr,
                sges: cap.max_send_sge,
                inline_bytes: cap.max_inline_data,
            },
        })
    }

    fn create_extended(
        context: &Context,
        fill: impl FnOnce(&mut ibv_qp_init_attr_ex),
    ) -> Result<(*mut ibv_qp, ibv_qp_cap), VerbsError> {
        let create = context.extended().and_then(|ops| ops.create_qp_ex);
        let create = create.ok_or_else(|| VerbsError::unsupported("ibv_create_qp_ex"))?;
        // SAFETY: integers and pointers may be zero.
        let mut init: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        fill(&mut init);
        // SAFETY: an open device and what is wanted, all of it alive.
        let qp = unsafe { create(context.context, &mut init) };
        Ok((qp, init.cap))
    }

    /// Its number.
    pub fn num(&self) -> u32 {
        // SAFETY: a live queue pair.
        unsafe { (*self.qp).qp_num }
    }

    /// What it has got.
    #[inline]
    pub fn caps(&self) -> QpCaps {
        self.caps
    }

    /// To RESET, from wherever it is: it forgets what was posted, and whom it talks to.
    pub fn reset(&self) -> Result<(), VerbsError> {
        self.modify(IBV_QPS_RESET, IBV_QP_STATE, |_| ())
    }

    /// RESET to INIT, of a connected one.
    pub fn init(&self, port: u8, access: Access) -> Result<(), VerbsError> {
        self.modify(IBV_QPS_INIT, INIT_MASK, |attr| *attr = init_attr(port, access))
    }

    /// RESET to RTS, of one for datagrams.
    pub fn start_datagrams(&self, port: u8, key: u32) -> Result<(), VerbsError> {
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
        self.modify(IBV_QPS_INIT, mask, |attr| (attr.port_num, attr.qkey) = (port, key))?;
        self.modify(IBV_QPS_RTR, IBV_QP_STATE, |_| ())?;
        self.modify(IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN, |_| ())
    }

    /// INIT to RTR: knows the peer's end.
    pub fn rtr(&self, to: &Dest, settings: &QpSettings) -> Result<(), VerbsError> {
        let all = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        // Devices refuse attributes that a kind does not have: the sending half of XRC answers nobody.
        let mask = match self.kind {
            QpKind::XrcSend => all,
            _ => all | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        };
        self.modify(IBV_QPS_RTR, mask, |attr| {
            attr.path_mtu = settings.mtu.clamp(256, 4096).ilog2() - 7;
            (attr.dest_qp_num, attr.rq_psn) = (to.qp, to.psn);
            (attr.max_dest_rd_atomic, attr.min_rnr_timer) = (settings.reads_in, settings.rnr_timer);
            attr.ah_attr = to.address.attr();
        })
    }

    /// RTR to RTS: sends, its packets numbered from `psn`.
    pub fn rts(&self, psn: u32, settings: &QpSettings) -> Result<(), VerbsError> {
        let all = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
        // And the receiving half asks for nothing.
        let mask = match self.kind {
            QpKind::XrcReceive => all,
            _ => all | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
        };
        self.modify(IBV_QPS_RTS, mask, |attr| {
            (attr.sq_psn, attr.timeout) = (psn, settings.timeout);
            (attr.retry_cnt, attr.rnr_retry) = (settings.retries.min(7), settings.rnr_retries.min(7));
            attr.max_rd_atomic = settings.reads_out;
        })
    }

    /// RTS to SQD: takes nothing new.
    pub fn sqd(&self) -> Result<(), VerbsError> {
        self.modify(IBV_QPS_SQD, IBV_QP_STATE, |_| ())
    }

    /// Ends it: what was posted completes with errors.
    pub fn fail(&self) -> Result<(), VerbsError> {
        self.modify(IBV_QPS_ERR, IBV_QP_STATE, |_| ())
    }

    fn modify(&self, state: u32, mask: u32, fill: impl FnOnce(&mut ibv_qp_attr)) -> Result<(), VerbsError> {
        // SAFETY: integers may be zero.
        let mut attr: ibv_qp_attr = unsafe { std::mem::zeroed() };
        attr.qp_state = state;
        fill(&mut attr);
        // SAFETY: a live queue pair and what is wanted.
        let code = unsafe { (self.pd.context.library.ibv_modify_qp)(self.qp, &mut attr, mask as i32) };
        VerbsError::check("ibv_modify_qp", code)
    }

    /// The state that the device says it is in.
    pub fn state(&self) -> Result<State, VerbsError> {
        // SAFETY: integers and pointers may be zero.
        let (mut attr, mut init): (ibv_qp_attr, ibv_qp_init_attr) = unsafe { std::mem::zeroed() };
        // SAFETY: a live queue pair and two places.
        let code = unsafe {
            (self.pd.context.library.ibv_query_qp)(self.qp, &mut attr, IBV_QP_STATE as i32, &mut init)
        };
        VerbsError::check("ibv_query_qp", code)?;
        Ok(match attr.qp_state {
            IBV_QPS_RESET => State::Reset,
            IBV_QPS_INIT => State::Init,
            IBV_QPS_RTR => State::Rtr,
            IBV_QPS_RTS => State::Rts,
            IBV_QPS_SQD => State::Sqd,
            _ => State::Error,
        })
    }

    /// Copies these bytes now and sends them as one message, which is told of: as [`Qp::post`] with [`Operation::SendCopied`], for
    /// short messages, whose way is counted in instructions.
    #[inline]
    pub fn send_copied(&self, id: u64, pieces: &[Piece<'_>]) -> Result<(), VerbsError> {
        self.send_inline(id, pieces, (IBV_WR_SEND, 0), 0)
    }

    /// The same to a shared receive queue of XRC, with a word beside it.
    #[inline]
    pub fn send_copied_to(
        &self,
        id: u64,
        pieces: &[Piece<'_>],
        srq: u32,
        immediate: u32,
    ) -> Result<(), VerbsError> {
        self.send_inline(id, pieces, (IBV_WR_SEND_WITH_IMM, immediate.to_be()), srq)
    }

    #[inline]
    fn send_inline(
        &self,
        id: u64,
        pieces: &[Piece<'_>],
        (opcode, imm_data): (u32, u32),
        srq: u32,
    ) -> Result<(), VerbsError> {
        let mut request = ibv_send_wr {
            wr_id: id,
            next: std::ptr::null_mut(),
            // (The device only reads the list.)
            sg_list: pieces.as_ptr().cast_mut().cast(),
            num_sge: pieces.len() as i32,
            opcode,
            send_flags: IBV_SEND_SIGNALED | IBV_SEND_INLINE,
            imm_data,
            wr: wr { atomic: atomic { remote_addr: 0, compare_add: 0, swap: 0, rkey: 0 } },
            remote_srqn: srq,
            rest: [0; 6],
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: a live queue pair; the request and its list, which has the device's form, are copied, and the bytes too.
        VerbsError::check("ibv_post_send", unsafe { (self.post)(self.qp, &mut request, &mut bad) })
    }

    /// Asks for work. Registered memory that it names stays as it is until the work has completed; what lies outside of what
    /// is registered makes it fail.
    pub fn post(&self, work: &Work<'_>) -> Result<(), VerbsError> {
        let mut sges = [ibv_sge { addr: 0, length: 0, lkey: 0 }; SGES_MAX];
        let (mut count, mut flags) = (0, if work.told { IBV_SEND_SIGNALED } else { 0 });
        let mut take = |sge: ibv_sge| {
            let room = sges.get_mut(count).ok_or_else(|| VerbsError::unsupported("ibv_post_send"))?;
            *room = sge;
            count += 1;
            Ok::<(), VerbsError>(())
        };
        let mut request = wr { atomic: atomic { remote_addr: 0, compare_add: 0, swap: 0, rkey: 0 } };
        let opcode = match work.operation {
            Operation::SendCopied(pieces) => {
                flags |= IBV_SEND_INLINE;
                pieces.iter().try_for_each(|piece| take(piece.0))?;
                IBV_WR_SEND
            }
            Operation::Send(from) => {
                from.iter().try_for_each(|part| take(part.0))?;
                IBV_WR_SEND
            }
            Operation::Write { from, to } => {
                from.iter().try_for_each(|part| take(part.0))?;
                request.rdma = rdma { remote_addr: to.addr, rkey: to.key };
                IBV_WR_RDMA_WRITE
            }
            Operation::Read { into, from } => {
                into.iter().try_for_each(|part| take(part.0))?;
                request.rdma = rdma { remote_addr: from.addr, rkey: from.key };
                IBV_WR_RDMA_READ
            }
            Operation::FetchAdd { into, at, add } => {
                take(into.0)?;
                request.atomic = atomic { remote_addr: at.addr, compare_add: add, swap: 0, rkey: at.key };
                IBV_WR_ATOMIC_FETCH_AND_ADD
            }
            Operation::CompareSwap { into, at, expected, new } => {
                take(into.0)?;
                request.atomic =
                    atomic { remote_addr: at.addr, compare_add: expected, swap: new, rkey: at.key };
                IBV_WR_ATOMIC_CMP_AND_SWP
            }
        };
        if let Some((ah, qp, key)) = work.datagram {
            request.ud = ud { ah: ah.ah, remote_qpn: qp, remote_qkey: key };
        }
        let beside = work.immediate.is_some();
        let mut request = ibv_send_wr {
            wr_id: work.id,
            next: std::ptr::null_mut(),
            sg_list: sges.as_mut_ptr(),
            num_sge: count as i32,
            opcode: if beside && matches!(opcode, IBV_WR_SEND | IBV_WR_RDMA_WRITE) {
                opcode + 1
            } else {
                opcode
            },
            send_flags: flags,
            imm_data: work.immediate.unwrap_or(0).to_be(),
            wr: request,
            remote_srqn: work.srq.unwrap_or(0),
            rest: [0; 6],
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: a live queue pair; the request and its list are copied. Bytes that are copied now are borrowed; others are
        // named by keys, which the device checks.
        VerbsError::check("ibv_post_send", unsafe { (self.post)(self.qp, &mut request, &mut bad) })
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: alive until now.
        unsafe { (self.pd.context.library.ibv_destroy_qp)(self.qp) };
    }
}

/// Where datagrams go.
pub struct Ah {
    pd: Rc<Pd>,
    ah: *mut ibv_ah,
}

impl fmt::Debug for Ah {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ah")
    }
}

impl Ah {
    /// An address, as the device wants it.
    pub fn new(pd: &Rc<Pd>, to: &Address) -> Result<Ah, VerbsError> {
        let mut attr = to.attr();
        // SAFETY: a live domain and an address.
        let ah = unsafe { (pd.context.library.ibv_create_ah)(pd.pd, &mut attr) };
        if ah.is_null() { Err(VerbsError::last("ibv_create_ah")) } else { Ok(Ah { pd: pd.clone(), ah }) }
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: alive until now.
        unsafe { (self.pd.context.library.ibv_destroy_ah)(self.ah) };
    }
}

/// A domain whose shared receive queues peers can name.
pub struct Xrcd {
    context: Rc<Context>,
    pub(crate) xrcd: *mut ibv_xrcd,
}

impl fmt::Debug for Xrcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Xrcd")
    }
}

impl Xrcd {
    /// One of this process alone, or the one that belongs to a file, which processes share.
    pub fn open(
        context: &Rc<Context>,
        file: Option<std::os::fd::BorrowedFd<'_>>,
    ) -> Result<Rc<Xrcd>, VerbsError> {
        use std::os::fd::AsRawFd;
        const CALL: &str = "ibv_open_xrcd";
        let open = context.extended().and_then(|ops| ops.open_xrcd);
        let open = open.ok_or_else(|| VerbsError::unsupported(CALL))?;
        let mut init = ibv_xrcd_init_attr {
            comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: file.map_or(-1, |file| file.as_raw_fd()),
            oflags: libc::O_CREAT,
        };
        // SAFETY: an open device and what is wanted.
        let xrcd = unsafe { open(context.context, &mut init) };
        match xrcd.is_null() {
            true => Err(VerbsError::last(CALL)),
            false => Ok(Rc::new(Xrcd { context: context.clone(), xrcd })),
        }
    }
}

impl Drop for Xrcd {
    fn drop(&mut self) {
        if let Some(close) = self.context.extended().and_then(|ops| ops.close_xrcd) {
            // SAFETY: open until now.
            unsafe { close(self.xrcd) };
        }
    }
}

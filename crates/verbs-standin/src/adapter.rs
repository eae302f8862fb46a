//! An open device: its objects, ports and events, and what completes.
use crate::machine::{Kind, State, check_move};
use crate::memory::Regions;
use crate::objects::*;
use crate::responder::Relay;
use crate::service::Links;
use crate::settings::{Link, Settings};
use crate::socket::{Counter, NUMBERS, Realm};
use crate::target::{Done, Shared};
use crate::wire::Place;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use verbs::ffi::*;

/// Work requests of a queue, at most.
pub(crate) const WORK_MAX: u32 = 1 << 14;
/// The longest datagram, which is a packet.
pub(crate) const MTU: u32 = 4096;
/// Addresses of a port, on Ethernet.
pub(crate) const GIDS: u32 = 3;

/// What is wanted of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub kind: Kind,
    pub pd: u32,
    pub send_cq: u32,
    pub receive_cq: u32,
    pub srq: Option<u32>,
    pub domain: u64,
    pub cap: Caps,
    pub all_told: bool,
}

/// See the module's head.
pub(crate) struct Adapter {
    pub settings: Arc<Settings>,
    /// Of all open devices of the realm, and of the devices of this process.
    pub number: u32,
    pub device: u8,
    /// Which ports are up.
    pub up: Vec<bool>,
    pub removed: bool,
    /// Protection domains, and how much belongs to each.
    pub pds: Table<u32>,
    pub regions: Regions,
    pub channels: Table<Channel>,
    pub cqs: Table<Cq>,
    pub srqs: Table<Srq>,
    pub qps: BTreeMap<u32, Qp>,
    last_qp: u32,
    pub events: VecDeque<Event>,
    pub event_counter: Arc<Counter>,
    pub links: Links,
    /// When queue pairs are to ask again.
    pub timers: BTreeSet<(Instant, u32)>,
    pub last_flight: u32,
    pub last_work: u64,
    /// What others have asked for last.
    pub done: Done,
    /// Requests that were passed on, by the numbers that they have there.
    pub relays: BTreeMap<u64, Relay>,
    pub dice: u64,
}

impl Adapter {
    pub(crate) fn new(settings: Arc<Settings>, realm: Realm, device: u8) -> io::Result<Adapter> {
        let (links, number) = Links::new(realm)?;
        let up = (1..=settings.ports).map(|port| !settings.down.contains(&port)).collect();
        let dice = settings.seed;
        Ok(Adapter {
            settings,
            number,
            device,
            up,
            removed: false,
            pds: Table::default(),
            regions: Regions::default(),
            channels: Table::default(),
            cqs: Table::default(),
            srqs: Table::default(),
            qps: BTreeMap::new(),
            // The number of an open device is used again soon: that of a queue pair is not.
            last_qp: std::process::id().wrapping_mul(37) % NUMBERS,
            events: VecDeque::new(),
            event_counter: Arc::new(Counter::new()?),
            links,
            timers: BTreeSet::new(),
            last_flight: 0,
            last_work: 0,
            done: Done::default(),
            relays: BTreeMap::new(),
            dice,
        })
    }

    /// Is it there? `EIO` if it was removed.
    pub(crate) fn present(&self) -> Result<(), c_int> {
        if self.removed { Err(libc::EIO) } else { Ok(()) }
    }

    pub(crate) fn is_up(&self, port: u8) -> bool {
        self.up.get(usize::from(port).wrapping_sub(1)).copied().unwrap_or(false)
    }

    pub(crate) fn lid(&self, port: u8) -> u16 {
        match self.settings.link {
            Link::Ethernet => 0,
            Link::InfiniBand => 0x100 + u16::from(self.settings.host) * 16 + self.place_of(port),
        }
    }

    fn place_of(&self, port: u8) -> u16 {
        u16::from(self.device) * 2 + u16::from(port) - 1
    }

    /// An address of a port, and its type.
    pub(crate) fn gid(&self, port: u8, index: u32) -> Option<([u8; 16], u32)> {
        let count = if self.settings.link == Link::Ethernet { GIDS } else { 1 };
        if port == 0 || port > self.settings.ports || index >= count {
            return None;
        }
        let (host, place) = (self.settings.host, self.place_of(port) as u8);
        let mut raw = [0; 16];
        (raw[0], raw[1], raw[14], raw[15]) = (0xfe, 0x80, host, place + 1);
        (raw[8], raw[11], raw[12]) = (2, 0xff, 0xfe);
        Some(match (self.settings.link, index) {
            (Link::InfiniBand, _) => (raw, IBV_GID_TYPE_IB),
            (Link::Ethernet, 0) => (raw, IBV_GID_TYPE_ROCE_V1),
            (Link::Ethernet, 1) => (raw, IBV_GID_TYPE_ROCE_V2),
            (Link::Ethernet, _) => {
                let mut raw = [0; 16];
                raw[10..].copy_from_slice(&[0xff, 0xff, 10, 77, host, place + 1]);
                (raw, IBV_GID_TYPE_ROCE_V2)
            }
        })
    }

    /// Is this the address of a port?
    pub(crate) fn is_at(&self, port: u8, place: &Place) -> bool {
        match place.gid {
            Some(gid) => (0..GIDS).any(|index| self.gid(port, index).is_some_and(|own| own.0 == gid)),
            None => place.lid == self.lid(port),
        }
    }

    /// Where an address leads, if this device can use it: on Ethernet it needs a GID.
    pub(crate) fn place(&self, to: &ibv_ah_attr) -> Result<Place, c_int> {
        if to.port_num == 0 || to.port_num > self.settings.ports {
            return Err(libc::EINVAL);
        }
        if to.is_global == 0 {
            let reaches = self.settings.link == Link::InfiniBand && to.dlid != 0;
            return if reaches { Ok(Place { lid: to.dlid, gid: None }) } else { Err(libc::EINVAL) };
        }
        self.gid(to.port_num, to.grh.sgid_index.into()).ok_or(libc::EINVAL)?;
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&to.grh.dgid.raw[0].to_ne_bytes());
        gid[8..].copy_from_slice(&to.grh.dgid.raw[1].to_ne_bytes());
        Ok(Place { lid: to.dlid, gid: Some(gid) })
    }

    /// Tells something.
    pub(crate) fn raise(&mut self, kind: Enum, element: usize) {
        if self.settings.trace {
            eprintln!("standin: {}: event {kind}", std::process::id());
        }
        self.events.push_back(Event { kind, element });
        self.event_counter.add();
    }

    /// A structure of the program's goes: nothing is told of it any more.
    pub(crate) fn forget_events(&mut self, element: usize) {
        let before = self.events.len();
        self.events.retain(|event| event.element != element);
        for _ in self.events.len()..before {
            self.event_counter.take_now();
        }
    }

    /// A number for a queue pair, of this device or of none.
    fn qp_number(&mut self, device: u32) -> Result<u32, c_int> {
        let made = self.qps.values().filter(|qp| qp.shared.as_ref().is_none_or(|shared| shared.is_own));
        if made.count() >= self.settings.qps as usize {
            return Err(libc::ENOMEM);
        }
        loop {
            self.last_qp = (self.last_qp + 1) % NUMBERS;
            let number = device * NUMBERS + self.last_qp;
            if !self.qps.contains_key(&number) {
                return Ok(number);
            }
        }
    }

    /// Makes a queue pair; its number.
    pub(crate) fn create_qp(&mut self, wanted: Wanted) -> Result<u32, c_int> {
        self.present()?;
        let (cap, settings) = (&wanted.cap, &self.settings);
        let too_much = cap.max_send_wr.max(cap.max_recv_wr) > WORK_MAX
            || cap.max_send_sge.max(cap.max_recv_sge) > settings.sges
            || cap.max_inline_data > settings.inline;
        let sends = wanted.kind.sends();
        let complete = (!sends || self.cqs.get(wanted.send_cq).is_some())
            && (wanted.kind != Kind::Rc && wanted.kind != Kind::Ud
                || self.cqs.get(wanted.receive_cq).is_some());
        if too_much || !complete {
            return Err(libc::EINVAL);
        }
        if wanted.kind != Kind::XrcReceive {
            let number = self.qp_number(self.number)?;
            return Ok(self.insert_qp(number, wanted, None));
        }
        let (shared, device) = Shared::new(&self.links.realm).map_err(|_| libc::ENOMEM)?;
        let number = self.qp_number(device)?;
        Ok(self.insert_qp(number, wanted, Some(shared)))
    }

    /// Has a receiving half of XRC that others have made.
    pub(crate) fn adopt_qp(&mut self, number: u32, wanted: Wanted, shared: Shared) -> Result<(), c_int> {
        self.present()?;
        self.insert_qp(number, wanted, Some(shared));
        self.load(number);
        Ok(())
    }

    fn insert_qp(&mut self, number: u32, wanted: Wanted, shared: Option<Shared>) -> u32 {
        self.count_users(&wanted, |users| *users += 1);
        let is_shared = shared.is_some();
        let qp = Qp {
            raw: 0,
            kind: wanted.kind,
            state: State::Reset,
            pd: wanted.pd,
            cap: wanted.cap,
            send_cq: wanted.send_cq,
            receive_cq: wanted.receive_cq,
            srq: wanted.srq,
            domain: wanted.domain,
            all_told: wanted.all_told,
            attr: Attributes::default(),
            work: VecDeque::new(),
            receives: VecDeque::new(),
            taken: 0,
            untold: 0,
            flight: None,
            shared,
        };
        self.qps.insert(number, qp);
        if is_shared {
            // The thread waits for those who connect to it.
            self.links.wake();
        }
        number
    }

    /// Counts a queue pair at what it uses.
    fn count_users(&mut self, of: &Wanted, count: impl Fn(&mut u32)) {
        self.pds.get_mut(of.pd).into_iter().for_each(&count);
        for cq in [of.send_cq, of.receive_cq] {
            self.cqs.get_mut(cq).into_iter().for_each(|cq| count(&mut cq.users));
        }
        let srq = of.srq.and_then(|srq| self.srqs.get_mut(srq));
        srq.into_iter().for_each(|srq| count(&mut srq.users));
    }

    /// A queue pair goes.
    pub(crate) fn destroy_qp(&mut self, number: u32) -> Result<(), c_int> {
        let Some(qp) = self.qps.remove(&number) else { return Err(libc::EINVAL) };
        self.links.leave(number);
        self.timers.retain(|(_, of)| *of != number);
        self.forget_events(qp.raw);
        self.forget_completions(number, &qp);
        let used = Wanted {
            kind: qp.kind,
            pd: qp.pd,
            send_cq: qp.send_cq,
            receive_cq: qp.receive_cq,
            srq: qp.srq,
            domain: qp.domain,
            cap: qp.cap,
            all_told: qp.all_told,
        };
        self.count_users(&used, |users| *users -= 1);
        Ok(())
    }

    /// Its completions go with it, those of receives too, even if the receives were shared: so does mlx5.
    fn forget_completions(&mut self, number: u32, qp: &Qp) {
        if self.settings.keep_completions {
            return;
        }
        for cq in [qp.send_cq, qp.receive_cq] {
            if let Some(cq) = self.cqs.get_mut(cq) {
                cq.entries.retain(|entry| entry.wc.qp_num != number);
            }
        }
    }

    /// Moves a queue pair, if the table of moves and its attributes allow it.
    pub(crate) fn modify_qp(&mut self, number: u32, attr: &ibv_qp_attr, mask: u32) -> Result<(), c_int> {
        self.present()?;
        self.load(number);
        let qp = self.qps.get(&number).ok_or(libc::EINVAL)?;
        let to = match mask & IBV_QP_STATE {
            0 => qp.state,
            _ => State::of(attr.qp_state).ok_or(libc::EINVAL)?,
        };
        check_move(qp.kind, qp.state, to, mask)?;
        let told = self.told(&qp.attr, attr, mask)?;
        match to {
            State::Reset => return self.reset(number),
            State::Error => self.break_qp(number),
            state => {
                let qp = self.qps.get_mut(&number).ok_or(libc::EINVAL)?;
                (qp.attr, qp.state) = (told, state);
                self.store(number);
                self.pump(number);
            }
        }
        Ok(())
    }

    /// What a queue pair knows when it was told these attributes, besides.
    fn told(&self, before: &Attributes, attr: &ibv_qp_attr, mask: u32) -> Result<Attributes, c_int> {
        let mut told = *before;
        let has = |bit| mask & bit != 0;
        let wrong = has(IBV_QP_PORT) && (attr.port_num == 0 || attr.port_num > self.settings.ports)
            || has(IBV_QP_PATH_MTU) && !(1..=5).contains(&attr.path_mtu)
            || has(IBV_QP_DEST_QPN) && attr.dest_qp_num >= 1 << 24
            || has(IBV_QP_TIMEOUT) && attr.timeout > 31
            || has(IBV_QP_RETRY_CNT) && attr.retry_cnt > 7
            || has(IBV_QP_RNR_RETRY) && attr.rnr_retry > 7
            || has(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31
            || has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0;
        if wrong {
            return Err(libc::EINVAL);
        }
        let set = |bit, to: &mut u8, value| *to = if has(bit) { value } else { *to };
        set(IBV_QP_PORT, &mut told.port, attr.port_num);
        set(IBV_QP_TIMEOUT, &mut told.timeout, attr.timeout);
        set(IBV_QP_RETRY_CNT, &mut told.retries, attr.retry_cnt);
        set(IBV_QP_RNR_RETRY, &mut told.rnr_retries, attr.rnr_retry);
        set(IBV_QP_MIN_RNR_TIMER, &mut told.rnr_timer, attr.min_rnr_timer);
        set(IBV_QP_MAX_DEST_RD_ATOMIC, &mut told.reads_in, attr.max_dest_rd_atomic);
        let set = |bit, to: &mut u32, value| *to = if has(bit) { value } else { *to };
        set(IBV_QP_ACCESS_FLAGS, &mut told.access, attr.qp_access_flags);
        set(IBV_QP_QKEY, &mut told.qkey, attr.qkey);
        set(IBV_QP_DEST_QPN, &mut told.dest, attr.dest_qp_num);
        set(IBV_QP_RQ_PSN, &mut told.receive_psn, attr.rq_psn & 0xff_ffff);
        set(IBV_QP_SQ_PSN, &mut told.send_psn, attr.sq_psn & 0xff_ffff);
        if has(IBV_QP_AV) {
            told.place = self.place(&attr.ah_attr)?;
        }
        Ok(told)
    }

    /// A queue pair forgets everything.
    fn reset(&mut self, number: u32) -> Result<(), c_int> {
        let qp = self.qps.get_mut(&number).ok_or(libc::EINVAL)?;
        (qp.state, qp.attr, qp.flight) = (State::Reset, Attributes::default(), None);
        (qp.taken, qp.untold) = (0, 0);
        qp.work.clear();
        qp.receives.clear();
        let qp = self.qps.remove(&number).ok_or(libc::EINVAL)?;
        self.forget_completions(number, &qp);
        self.qps.insert(number, qp);
        self.store(number);
        Ok(())
    }

    /// A queue pair breaks: what was posted is not done.
    pub(crate) fn break_qp(&mut self, number: u32) {
        self.load(number);
        let Some(qp) = self.qps.get_mut(&number) else { return };
        if qp.state == State::Error {
            return;
        }
        let was_reset = qp.state == State::Reset;
        qp.state = State::Error;
        let (last, raw) = (qp.srq.is_some() && !was_reset, qp.raw);
        self.store(number);
        self.flush_sends(number);
        self.flush_receives(number);
        if last {
            self.raise(IBV_EVENT_QP_LAST_WQE_REACHED, raw);
        }
    }

    /// What is in the send queue ends in errors.
    pub(crate) fn flush_sends(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        qp.flight = None;
        while let Some(work) = self.qps.get_mut(&number).and_then(|qp| qp.work.pop_front()) {
            self.complete_send(number, &work, IBV_WC_WR_FLUSH_ERR);
        }
    }

    fn flush_receives(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        let cq = qp.receive_cq;
        for receive in std::mem::take(&mut qp.receives) {
            let wc = completion(number, receive.id, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
            self.complete(cq, Entry { wc, frees: 0 }, true);
        }
    }

    /// Work of a send queue has ended. Success is told if somebody wants to know.
    pub(crate) fn complete_send(&mut self, number: u32, work: &Work, status: Enum) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        if status == IBV_WC_SUCCESS && !work.told && !qp.all_told {
            qp.untold += 1;
            return;
        }
        let frees = 1 + std::mem::take(&mut qp.untold);
        let mut wc = completion(number, work.id, status, work.opcode());
        wc.byte_len = work.bytes() as u32;
        let cq = qp.send_cq;
        self.complete(cq, Entry { wc, frees }, true);
    }

    /// Puts an entry into a completion queue, and wakes who waits for it.
    pub(crate) fn complete(&mut self, cq: u32, entry: Entry, solicited: bool) {
        if self.settings.trace && entry.wc.status != IBV_WC_SUCCESS {
            let ibv_wc { wr_id, status, qp_num, .. } = entry.wc;
            let pid = std::process::id();
            eprintln!("standin: {pid}: work {wr_id:#x} of {qp_num:#x} ends with status {status}");
        }
        let Some(queue) = self.cqs.get_mut(cq) else { return };
        if queue.entries.len() >= queue.most {
            if !std::mem::replace(&mut queue.overrun, true) {
                let raw = queue.raw;
                self.raise(IBV_EVENT_CQ_ERR, raw);
            }
            return;
        }
        queue.entries.push_back(entry);
        let is_awaited = match queue.armed {
            Armed::No => false,
            Armed::Solicited => solicited || entry.wc.status != IBV_WC_SUCCESS,
            Armed::Any => true,
        };
        if !is_awaited {
            return;
        }
        queue.armed = Armed::No;
        if let Some(channel) = queue.channel.and_then(|channel| self.channels.get_mut(channel)) {
            channel.events.push_back(cq);
            channel.counter.add();
        }
    }

    /// The next entry of a completion queue.
    pub(crate) fn poll(&mut self, cq: u32) -> Option<ibv_wc> {
        let entry = self.cqs.get_mut(cq)?.entries.pop_front()?;
        if let Some(qp) = self.qps.get_mut(&entry.wc.qp_num) {
            qp.taken = qp.taken.saturating_sub(entry.frees);
        }
        Some(entry.wc)
    }
}

/// A completion with what all of them have.
pub(crate) fn completion(qp: u32, id: u64, status: Enum, opcode: Enum) -> ibv_wc {
    ibv_wc {
        wr_id: id,
        status,
        opcode,
        vendor_err: 0,
        byte_len: 0,
        imm_data: 0,
        qp_num: qp,
        src_qp: 0,
        wc_flags: 0,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

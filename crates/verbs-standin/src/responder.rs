//! The side that is asked: does it in the memory of this process, and answers.
use crate::adapter::{Adapter, completion};
use crate::machine::Kind;
use crate::memory::{Piece, change, read, write};
use crate::objects::{Entry, Receive};
use crate::socket::NUMBERS;
use crate::wire::{Action, Answer, Head, Reply, Request};
use verbs::ffi::*;

/// What stands before a datagram: where it came from and went to.
const ROUTE_BYTES: usize = 40;
/// Bytes of a word that atomics change.
const WORD_BYTES: u32 = 8;
/// A bit of the numbers of requests that are passed on; those of queue pairs do not have it.
const PASSED_ON: u64 = 1 << 63;

/// What a request reaches.
#[derive(Clone, Copy, Debug)]
struct Target {
    qp: u32,
    pd: u32,
    /// Which receives it takes: shared ones, or those of the queue pair; and where they complete.
    srq: Option<u32>,
    cq: u32,
    access: u32,
    reads: bool,
    rnr_timer: u8,
}

/// A request that was passed on: the connection that it came by, its number there, the queue pair that it came to, and the
/// connection that it has gone through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relay {
    from: u32,
    flight: u64,
    qp: u32,
    via: u32,
}

/// A request that is not done.
#[derive(Debug)]
enum Undone {
    Said(Answer),
    /// Another device has the shared receive queue: it is passed on, with its domain.
    Elsewhere(u64),
}

impl Adapter {
    /// A request has come through a connection.
    pub(crate) fn serve(&mut self, from: u32, request: &Request, bytes: &[u8]) {
        if request.datagram {
            self.take_datagram(request, bytes);
            return;
        }
        self.load(request.to);
        let target = match self.target(request) {
            Ok(target) => target,
            Err(Undone::Said(answer)) => return self.answer(from, request.flight, answer, &[]),
            Err(Undone::Elsewhere(domain)) => return self.pass_on(from, request, domain, bytes),
        };
        let is_shared = request.srq != 0;
        if let Some(result) = self.done.again(request).filter(|_| is_shared && request.action != Action::Read)
        {
            let result = result.to_vec();
            return self.answer(from, request.flight, Answer::Done, &result);
        }
        match self.act(&target, request, bytes) {
            Ok(result) => {
                if is_shared && request.action != Action::Read {
                    self.done.note(request, &result);
                }
                self.answer(from, request.flight, Answer::Done, &result);
            }
            Err(answer) => {
                self.answer(from, request.flight, answer, &[]);
                self.break_responder(target.qp, answer);
            }
        }
    }

    fn answer(&mut self, to: u32, flight: u64, answer: Answer, bytes: &[u8]) {
        let reply = Reply { flight, answer, bytes: bytes.len() as u32 };
        self.links.send(to, &Head::Reply(reply), bytes);
    }

    /// What a request reaches, if everything is as it must be.
    fn target(&self, request: &Request) -> Result<Target, Undone> {
        const ABSENT: Undone = Undone::Said(Answer::Absent);
        if let Some(domain) = request.domain {
            return self.shared_target(request, domain);
        }
        let qp = self.qps.get(&request.to).ok_or(ABSENT)?;
        let is_it = matches!(qp.kind, Kind::Rc | Kind::XrcReceive)
            && qp.state.receives()
            && qp.attr.dest == request.from
            && qp.attr.receive_psn == request.psn_or_key
            && self.is_at(qp.attr.port, &request.place);
        if !is_it {
            return Err(ABSENT);
        }
        if !self.is_up(qp.attr.port) {
            return Err(Undone::Said(Answer::Silent));
        }
        if qp.kind == Kind::XrcReceive {
            if request.srq / NUMBERS != self.number {
                return Err(Undone::Elsewhere(qp.domain));
            }
            let (access, reads, rnr_timer) = (qp.attr.access, qp.attr.reads_in > 0, qp.attr.rnr_timer);
            let target = self.shared_target(request, qp.domain)?;
            return Ok(Target { access, reads, rnr_timer, ..target });
        }
        Ok(Target {
            qp: request.to,
            pd: qp.pd,
            srq: qp.srq,
            cq: qp.receive_cq,
            access: qp.attr.access,
            reads: qp.attr.reads_in > 0,
            rnr_timer: qp.attr.rnr_timer,
        })
    }

    /// What a request for a shared receive queue of a domain reaches.
    fn shared_target(&self, request: &Request, domain: u64) -> Result<Target, Undone> {
        const NONE: Undone = Undone::Said(Answer::Invalid);
        let number = request.srq % NUMBERS;
        let srq = self.srqs.get(number).ok_or(NONE)?;
        let (of, cq) = srq.xrc.ok_or(NONE)?;
        if of != domain {
            return Err(NONE);
        }
        let access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        Ok(Target { qp: request.to, pd: srq.pd, srq: Some(number), cq, access, reads: true, rnr_timer: 12 })
    }

    /// Another device of the domain has the shared receive queue.
    fn pass_on(&mut self, from: u32, request: &Request, domain: u64, bytes: &[u8]) {
        self.last_flight = self.last_flight.wrapping_add(1);
        let flight = PASSED_ON | u64::from(self.last_flight);
        let passed = Request { flight, domain: Some(domain), ..*request };
        match self.links.send_to(request.srq / NUMBERS, &Head::Request(passed), bytes) {
            Some(via) => {
                let relay = Relay { from, flight: request.flight, qp: request.to, via };
                self.relays.insert(flight, relay);
            }
            None => self.answer(from, request.flight, Answer::Invalid, &[]),
        }
    }

    /// A reply has come, to a request of this device or to one that it has passed on.
    pub(crate) fn take_reply(&mut self, reply: &Reply, bytes: &[u8]) {
        if reply.flight & PASSED_ON == 0 {
            return self.hear(reply, bytes);
        }
        if let Some(relay) = self.relays.remove(&reply.flight) {
            self.answer(relay.from, relay.flight, reply.answer, bytes);
            self.break_responder(relay.qp, reply.answer);
        }
    }

    /// A connection is gone: who passed something on through it hears nothing, and who asked through it need not.
    pub(crate) fn lose_relays(&mut self, via: u32) {
        self.relays.retain(|_, relay| relay.from != via);
        let lost: Vec<u64> =
            self.relays.iter().filter(|(_, relay)| relay.via == via).map(|(flight, _)| *flight).collect();
        for flight in lost {
            self.take_reply(&Reply { flight, answer: Answer::Absent, bytes: 0 }, &[]);
        }
    }

    /// What was asked for is wrong: the queue pair breaks on this side, too.
    fn break_responder(&mut self, number: u32, answer: Answer) {
        let event = match answer {
            Answer::Refused => Some(IBV_EVENT_QP_ACCESS_ERR),
            Answer::Invalid => Some(IBV_EVENT_QP_REQ_ERR),
            Answer::Failed => None,
            Answer::Done | Answer::NoReceive(_) | Answer::Absent | Answer::Silent => return,
        };
        let Some(raw) = self.qps.get(&number).map(|qp| qp.raw) else { return };
        event.into_iter().for_each(|event| self.raise(event, raw));
        self.break_qp(number);
    }

    fn act(&mut self, target: &Target, request: &Request, bytes: &[u8]) -> Result<Vec<u8>, Answer> {
        let piece = Piece { addr: request.addr, bytes: request.bytes, key: request.rkey };
        let allowed = |access| if target.access & access == 0 { Err(Answer::Invalid) } else { Ok(()) };
        match request.action {
            Action::Send => self.take_message(target, request, bytes).map(|()| Vec::new()),
            Action::Write => {
                allowed(IBV_ACCESS_REMOTE_WRITE)?;
                if !bytes.is_empty() {
                    self.reach(target, piece, IBV_ACCESS_REMOTE_WRITE)?;
                }
                self.write(target, request, bytes).map(|()| Vec::new())
            }
            Action::Read => {
                allowed(IBV_ACCESS_REMOTE_READ)?;
                if !target.reads {
                    return Err(Answer::Invalid);
                }
                if request.bytes == 0 {
                    return Ok(Vec::new());
                }
                self.reach(target, piece, IBV_ACCESS_REMOTE_READ)?;
                read(request.addr, request.bytes as usize).map_err(|_| Answer::Refused)
            }
            Action::CompareSwap | Action::FetchAdd => {
                allowed(IBV_ACCESS_REMOTE_ATOMIC)?;
                if !self.settings.atomics || !target.reads || !request.addr.is_multiple_of(WORD_BYTES.into())
                {
                    return Err(Answer::Invalid);
                }
                self.reach(target, Piece { bytes: WORD_BYTES, ..piece }, IBV_ACCESS_REMOTE_ATOMIC)?;
                let (operand, swap) = (request.operand, request.swap);
                let old = match request.action {
                    Action::FetchAdd => change(request.addr, |old| old.wrapping_add(operand)),
                    _ => change(request.addr, |old| if old == operand { swap } else { old }),
                };
                old.map(|old| old.to_ne_bytes().to_vec()).map_err(|_| Answer::Refused)
            }
        }
    }

    fn reach(&self, target: &Target, piece: Piece, access: u32) -> Result<(), Answer> {
        self.regions.check(target.pd, piece, access).map_err(|_| Answer::Refused)
    }

    /// Writes, and takes a receive if there is something beside.
    fn write(&mut self, target: &Target, request: &Request, bytes: &[u8]) -> Result<(), Answer> {
        let receive = match request.immediate {
            Some(_) => Some(self.take_receive(target)?),
            None => None,
        };
        let written = bytes.is_empty() || write(request.addr, bytes).is_ok();
        if let Some(receive) = receive {
            let status = if written { IBV_WC_SUCCESS } else { IBV_WC_WR_FLUSH_ERR };
            self.complete_receive(target, request, &receive, (status, IBV_WC_RECV_RDMA_WITH_IMM));
        }
        if written { Ok(()) } else { Err(Answer::Refused) }
    }

    fn take_message(&mut self, target: &Target, request: &Request, bytes: &[u8]) -> Result<(), Answer> {
        let receive = self.take_receive(target)?;
        let room: u64 = receive.pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
        let (status, end) = if (bytes.len() as u64) > room {
            (IBV_WC_LOC_LEN_ERR, Err(Answer::Invalid))
        } else if self.regions.scatter(target.pd, &receive.pieces, bytes).is_err() {
            (IBV_WC_LOC_PROT_ERR, Err(Answer::Failed))
        } else {
            (IBV_WC_SUCCESS, Ok(()))
        };
        self.complete_receive(target, request, &receive, (status, IBV_WC_RECV));
        end
    }

    fn complete_receive(
        &mut self,
        target: &Target,
        request: &Request,
        receive: &Receive,
        (status, opcode): (Enum, Enum),
    ) {
        let mut wc = completion(target.qp, receive.id, status, opcode);
        (wc.byte_len, wc.src_qp, wc.slid) = (request.bytes, request.from, request.source.lid);
        if let Some(immediate) = request.immediate {
            (wc.imm_data, wc.wc_flags) = (immediate, IBV_WC_WITH_IMM);
        }
        self.complete(target.cq, Entry { wc, frees: 0 }, request.solicited);
    }

    /// The next receive; shared ones may be few then, which is told once.
    fn take_receive(&mut self, target: &Target) -> Result<Receive, Answer> {
        const FEW: Answer = Answer::Absent;
        let none = Answer::NoReceive(target.rnr_timer);
        let Some(number) = target.srq else {
            let qp = self.qps.get_mut(&target.qp).ok_or(FEW)?;
            return qp.receives.pop_front().ok_or(none);
        };
        let srq = self.srqs.get_mut(number).ok_or(FEW)?;
        let receive = srq.receives.pop_front().ok_or(none)?;
        if (srq.receives.len() as u32) < srq.limit {
            srq.limit = 0;
            let raw = srq.raw;
            self.raise(IBV_EVENT_SRQ_LIMIT_REACHED, raw);
        }
        Ok(receive)
    }

    /// A datagram has come. What nobody can take is lost.
    fn take_datagram(&mut self, request: &Request, bytes: &[u8]) {
        let Some(qp) = self.qps.get(&request.to) else { return };
        let is_it = qp.kind == Kind::Ud
            && qp.state.receives()
            && qp.attr.qkey == request.psn_or_key
            && self.is_up(qp.attr.port)
            && self.is_at(qp.attr.port, &request.place);
        if !is_it {
            return;
        }
        let target = Target {
            qp: request.to,
            pd: qp.pd,
            srq: qp.srq,
            cq: qp.receive_cq,
            access: 0,
            reads: false,
            rnr_timer: 0,
        };
        let Ok(receive) = self.take_receive(&target) else { return };
        let mut all = vec![0; ROUTE_BYTES];
        all[8..24].copy_from_slice(&request.source.gid.unwrap_or_default());
        all[24..40].copy_from_slice(&request.place.gid.unwrap_or_default());
        all.extend_from_slice(bytes);
        let room: u64 = receive.pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
        let fits = all.len() as u64 <= room;
        let status = match fits && self.regions.scatter(target.pd, &receive.pieces, &all).is_ok() {
            true => IBV_WC_SUCCESS,
            false if fits => IBV_WC_LOC_PROT_ERR,
            false => IBV_WC_LOC_LEN_ERR,
        };
        let mut wc = completion(target.qp, receive.id, status, IBV_WC_RECV);
        (wc.byte_len, wc.src_qp, wc.slid) = (all.len() as u32, request.from, request.source.lid);
        wc.wc_flags = if request.source.gid.is_some() { IBV_WC_GRH } else { 0 };
        if let Some(immediate) = request.immediate {
            (wc.imm_data, wc.wc_flags) = (immediate, wc.wc_flags | IBV_WC_WITH_IMM);
        }
        self.complete(target.cq, Entry { wc, frees: 0 }, request.solicited);
    }
}

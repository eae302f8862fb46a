//! What every provider does, for RDMA devices.
use super::*;

impl Provider for Rdma {
    fn kind(&self) -> ProviderKind {
        KIND
    }

    fn caps(&self) -> Caps {
        Caps {
            message_max: MESSAGE_MAX,
            early: false,
            reads_alone: true,
            reads: true,
            places: false,
            refusals_break: true,
            atomics: self.atomics,
            control_on_stream: false,
        }
    }

    fn create(&mut self, _: QpClaim) -> Result<Qp, CreateError> {
        let made = self.kept.pop().map_or_else(|| self.create_qp(QpKind::Rc), Ok);
        let qp =
            made.map_err(|error| CreateError::Refused { code: error.error.raw_os_error().unwrap_or(0) })?;
        let number = qp.num();
        Ok(self.join(Link::new(End::Own(qp), number, random_psn(), self.frugal)))
    }

    fn create_for(&mut self, claim: QpClaim, peer: &Card) -> Result<Qp, CreateError> {
        match (self.home_of(peer), peer.verbs) {
            (Some(home), Some(verbs)) => self.make_sharing(home, &verbs),
            _ => self.create(claim),
        }
    }

    fn keep_ready(&mut self, count: usize) -> bool {
        // (A device that has none to spare is not asked again and again; and what nodes share is rarely made.)
        let needed = self.links.len() > 0 && self.sharing.is_none();
        let wanted = needed && self.kept.len() < count && !self.short;
        let made = if wanted { self.create_qp(QpKind::Rc) } else { return false };
        self.short = made.is_err();
        self.kept.extend(made.ok());
        !self.short
    }

    fn init(&mut self, qp: Qp, peer: &Card, role: Role) -> Result<Params, ConnectError> {
        section_of(peer)?;
        let (port, inlet) = (self.port.number, self.link(qp)?.inlet());
        let shared = match inlet {
            Which::Own => None,
            Which::Shared => Some(self.prepare_sharing(qp, role)?),
        };
        if shared.is_none() {
            self.step(qp, QpState::Init, |link| link.qp().init(port, peers_access()))?;
        }
        // A peer may fill its window from now on. With fewer slots than wanted it is slower.
        match self.inbox.make_room(&self.pd, inlet) {
            Err(error) if self.inbox.is_empty() => {
                return Err(ConnectError::Device(words(&error)));
            }
            Ok(()) | Err(_) => {}
        }
        if let Some(params) = shared {
            return Ok(params);
        }
        let mtu = self.settings.mtu as u16;
        let link = self.link(qp)?;
        link.meeting = Meeting::new(role);
        Ok(Told { number: link.name, psn: link.psn, mtu, answers: role == Role::Answers }.to_params())
    }

    fn create_ahead(&mut self, count: usize, threads: usize, cores: &CoreSet) -> Option<Ahead> {
        self.make_ahead(count, threads, cores)
    }

    fn ahead_params(&self, facts: [u64; 2], _: u32, number: u32) -> Option<Params> {
        ahead::params(facts, number)
    }

    fn rtr(&mut self, qp: Qp, peer: &Card, params: &Params) -> Result<(), ConnectError> {
        let section = *section_of(peer)?;
        if self.link(qp)?.inlet() == Which::Shared {
            return self.attach_sharing(qp, &section, params);
        }
        let address = self.address_of(&section);
        let told = Told::from_params(params)
            .ok_or_else(|| ConnectError::Device("the peer's parameters make no sense".into()))?;
        let dest = Dest { address, qp: told.number, psn: told.psn };
        let settings = QpSettings { mtu: self.settings.mtu.min(told.mtu.into()), ..self.settings };
        self.step(qp, QpState::ReadyToReceive, |link| link.qp().rtr(&dest, &settings))?;
        self.link(qp)?.meeting.met((section, dest.qp), told.answers);
        Ok(())
    }

    fn rts(&mut self, qp: Qp) -> Result<(), ConnectError> {
        let settings = self.settings;
        // From SQD back, the device has never left RTS.
        let link = self.link(qp)?;
        if link.state == QpState::SendDrained {
            link.state = QpState::ReadyToSend;
            return Ok(());
        }
        self.step(qp, QpState::ReadyToSend, |link| match &link.end {
            End::Own(qp) => qp.rts(link.psn, &settings),
            End::Shared(_) => Ok(()), // it sends to others already
        })?;
        self.say_ready(qp.index() as u32);
        Ok(())
    }

    fn sqd(&mut self, qp: Qp) -> Result<(), ConnectError> {
        // Nothing new is taken here; the device need not know.
        self.step(qp, QpState::SendDrained, |_| Ok(()))
    }

    fn is_drained(&self, qp: Qp) -> bool {
        self.links.get(qp.index(), qp.generation()).is_none_or(|link| link.busy == 0)
    }

    fn is_busy(&self, qp: Qp) -> bool {
        !self.is_drained(qp)
    }

    fn traffic(&self, qp: Qp) -> u64 {
        self.links.get(qp.index(), qp.generation()).map_or(0, |link| link.traffic)
    }

    fn state(&self, qp: Qp) -> QpState {
        self.links.get(qp.index(), qp.generation()).map_or(QpState::Reset, |link| link.state)
    }

    fn destroy(&mut self, qp: Qp) {
        let index = qp.index() as u32;
        let Some(link) = self.links.get(qp.index(), qp.generation()) else { return };
        let inlet = link.inlet();
        // What was lent belongs to this connection, not to the next one with its index; so does what was found and nobody took.
        self.give_back();
        if let Some(Found::Message { id, .. }) = self.found.take_if(|found| found.is_of(index)) {
            self.inbox.take_back(id);
        }
        self.last_number = None;
        match inlet {
            Which::Own => self.end_work(index),
            Which::Shared => self.leave_work(index),
        }
        // With some devices (mlx5) completions go with their queue pair, also those of receives that are shared: these would be
        // missing. It is in ERROR: there will not be more of them.
        (0..COMPLETIONS).find(|_| self.fetch() == 0);
        if let Some(link) = self.links.remove(index) {
            self.numbers.remove(&link.name);
            self.inbox.leave(inlet, link.granted);
            if let End::Shared(half) = &link.end {
                self.unmake_sharing(index, half);
            }
        }
    }

    fn count(&self) -> usize {
        self.links.len()
    }

    fn send_control(&mut self, _: Option<Qp>, to: &Card, bytes: &[u8]) -> Result<Sent, ControlError> {
        let section = *section_of(to)?;
        self.send_letter(&section, None, bytes)
    }

    fn register(&mut self, buf: UserBuf) -> Option<MrKey> {
        self.regions.register(&self.pd, buf)
    }

    fn deregister(&mut self, key: MrKey) {
        self.regions.deregister(key);
    }

    fn set_frugal(&mut self, frugal: bool) {
        if std::mem::replace(&mut self.frugal, frugal) == frugal {
            return;
        }
        for index in self.links.indices() {
            if let Some(link) = self.links.at_mut(index) {
                link.tell = true;
            }
            self.tell_if_needed(index);
        }
    }

    fn datagrams_dropped(&mut self) -> u64 {
        self.dropped
    }

    fn memory_bytes(&self) -> u64 {
        (self.inbox.bytes() + self.outbox.bytes()) as u64 + self.regions.bytes()
    }
}

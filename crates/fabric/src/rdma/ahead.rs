//! What peers tell each other of the ends of a connection, and queue pairs for everybody, made before anybody has asked.
use super::*;

/// What a peer has to know of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub number: u32,
    pub psn: u32,
    pub mtu: u16,
    /// Does it receive already, because the other side has asked for it?
    pub answers: bool,
}

impl Told {
    pub(super) fn to_params(self) -> Params {
        let mut params = [0; 32];
        params[..4].copy_from_slice(&self.number.to_le_bytes());
        params[4..8].copy_from_slice(&self.psn.to_le_bytes());
        params[8..10].copy_from_slice(&self.mtu.to_le_bytes());
        params[10] = self.answers.into();
        Params(params)
    }

    /// `None`: that makes no sense.
    pub(super) fn from_params(params: &Params) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(params.0[at..at + 4].try_into().expect("four bytes"));
        let mtu = u16::from_le_bytes([params.0[8], params.0[9]]);
        let told = Told { number: word(0), psn: word(4), mtu, answers: params.0[10] != 0 };
        let is_sane = mtu.is_power_of_two() && (256..=4096).contains(&mtu);
        (is_sane && told.number < 1 << 24 && told.psn < 1 << 24).then_some(told)
    }
}

/// What a peer needs to connect to the queue pair with this number.
pub(super) fn params(facts: [u64; 2], number: u32) -> Option<Params> {
    let psn = facts[0] as u32;
    let mtu = u16::try_from(facts[0] >> 32).ok()?;
    let params = Told { number, psn, mtu, answers: false }.to_params();
    Told::from_params(&params).map(|_| params)
}

impl Rdma {
    /// Queue pairs in INIT, made by threads that run on these cores; as many as there are.
    pub(super) fn make_ahead(&mut self, count: usize, threads: usize, cores: &CoreSet) -> Option<Ahead> {
        if self.sharing.is_some() || count == 0 {
            return None;
        }
        // The first one finds out what the device can have.
        let port = self.port.number;
        let mut qps: Vec<verbs::Qp> = self.create_qp(QpKind::Rc).ok().into_iter().collect();
        qps.retain(|qp| qp.init(port, peers_access()).is_ok());
        if !qps.is_empty() {
            let (caps, srq) = (self.caps_of_qps(), self.inbox.srq());
            let how = (port, peers_access());
            let begin = || cores.take();
            let (more, _) =
                verbs::Qp::new_many(&self.pd, &self.cq, srq, caps, how, count - 1, threads, begin);
            qps.extend(more);
            qps.sort_by_key(verbs::Qp::num);
        }
        let psn = random_psn();
        let facts = [u64::from(psn) | u64::from(self.settings.mtu) << 32, 0];
        let mut made = Vec::with_capacity(qps.len());
        for qp in qps {
            let number = qp.num();
            let mut link = Link::new(End::Own(qp), number, psn, self.frugal);
            (link.state, link.meeting) = (QpState::Init, Meeting::ahead());
            made.push((self.join(link), number));
        }
        // With fewer slots than wanted it is slower.
        let _ = self.inbox.make_room(&self.pd, Which::Own);
        if self.inbox.is_empty() {
            made.drain(..).for_each(|(qp, _)| self.destroy(qp));
        }
        Some(Ahead { qps: made, facts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_comes_back_and_nonsense_is_refused() {
        let told = Told { number: 0x12_3456, psn: 0xff_ffff, mtu: 1024, answers: true };
        assert_eq!(Told::from_params(&told.to_params()), Some(told));
        for wrong in [
            Told { number: 1 << 24, ..told },
            Told { psn: 1 << 24, ..told },
            Told { mtu: 1000, ..told },
            Told { mtu: 128, ..told },
            Told { mtu: 8192, ..told },
        ] {
            assert_eq!(Told::from_params(&wrong.to_params()), None, "{wrong:?}");
        }
        let expected = Told { number: 7, psn: 0x0a_0b0c, mtu: 4096, answers: false };
        assert_eq!(params([0x1000_000a_0b0c, 0], 7), Some(expected.to_params()));
        assert_eq!(params([u64::MAX, 0], 7), None);
    }
}

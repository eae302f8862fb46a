//! Queue pairs of a context: how they are made, connected and ended.
use super::*;

impl Context {
    /// A new queue pair, in RESET.
    pub fn create_qp_as(&mut self, kind: ProviderKind, claim: impl Into<QpClaim>) -> Result<Qp, CreateError> {
        self.provider(kind).create(claim.into())
    }

    /// A new queue pair for the connection to the owner of a card, in RESET.
    pub fn create_qp_for(
        &mut self,
        kind: ProviderKind,
        claim: impl Into<QpClaim>,
        peer: &Card,
    ) -> Result<Qp, CreateError> {
        self.provider(kind).create_for(claim.into(), peer)
    }

    /// Connections that are shared by nodes.
    pub fn shared_counts(&self) -> SharedCounts {
        let rdma = self.rdma.as_deref().map_or_else(SharedCounts::default, Rdma::shared_counts);
        self.soft.shared_counts().with(&rdma)
    }

    /// Does a queue pair share its connection with others to the same node?
    #[inline]
    pub fn shares(&self, qp: Qp) -> bool {
        match (qp.provider(), &self.rdma) {
            (ProviderKind::Soft, _) => self.soft.shares(qp),
            (ProviderKind::Verbs, Some(rdma)) => rdma.shares(qp),
            _ => false,
        }
    }

    /// Makes a queue pair before it is needed, if fewer than so many are kept: of shared memory, or of the RDMA device where there are
    /// connections. Was one made?
    pub fn keep_ready(&mut self, count: usize) -> bool {
        let rdma = self.rdma.as_deref_mut();
        self.soft.keep_ready(count) || rdma.is_some_and(|rdma| rdma.keep_ready(count))
    }

    /// New queue pairs in INIT for peers whose cards nobody has yet. See [`Provider::create_ahead`].
    pub fn create_ahead(&mut self, kind: ProviderKind, count: usize, threads: usize) -> Option<Ahead> {
        let cores = self.facts().core_set;
        self.provider(kind).create_ahead(count, threads, &cores)
    }

    /// So many of them are going to be connected at a time. See [`Provider::ready_together`].
    pub fn ready_together(&mut self, kind: ProviderKind, count: usize) {
        self.provider(kind).ready_together(count);
    }

    /// The same for peers who are told of each. See [`Provider::create_together`].
    pub fn create_together(&mut self, kind: ProviderKind, count: usize, threads: usize) -> Vec<(Qp, Params)> {
        self.provider(kind).create_together(count, threads)
    }

    /// What a peer needs to connect to one of them. See [`Provider::ahead_params`].
    pub fn ahead_params(
        &self,
        kind: ProviderKind,
        facts: [u64; 2],
        place: u32,
        number: u32,
    ) -> Option<Params> {
        self.provider_ref(kind).ahead_params(facts, place, number)
    }

    /// RESET to INIT. See [`Provider::init`].
    pub fn to_init(&mut self, qp: Qp, peer: &Card, role: Role) -> Result<Params, ConnectError> {
        self.provider(qp.provider()).init(qp, peer, role)
    }

    /// INIT to RTR. See [`Provider::rtr`].
    pub fn to_rtr(&mut self, qp: Qp, peer: &Card, params: &Params) -> Result<(), ConnectError> {
        self.provider(qp.provider()).rtr(qp, peer, params)
    }

    /// RTR to RTS: may send.
    pub fn to_rts(&mut self, qp: Qp) -> Result<(), ConnectError> {
        self.provider(qp.provider()).rts(qp)
    }

    /// RTS to SQD: takes nothing new.
    pub fn to_sqd(&mut self, qp: Qp) -> Result<(), ConnectError> {
        self.provider(qp.provider()).sqd(qp)
    }

    /// Has everything that was posted been taken over by the peer's memory or the network?
    pub fn is_drained(&self, qp: Qp) -> bool {
        self.provider_ref(qp.provider()).is_drained(qp)
    }

    /// Is a message on its way in that has been seen in part, or something posted that is not with the peer?
    pub fn is_busy(&self, qp: Qp) -> bool {
        self.provider_ref(qp.provider()).is_busy(qp)
    }

    /// What has gone through a queue pair, both ways, in a unit of the provider's own. It never goes down; what does
    /// not change is idle. Costs the messages nothing; on sockets the question is a system call.
    pub fn traffic(&self, qp: Qp) -> u64 {
        self.provider_ref(qp.provider()).traffic(qp)
    }

    /// The same in bytes; 0 where the provider counts messages only.
    pub fn traffic_bytes(&self, qp: Qp) -> u64 {
        const LINE: u64 = 64;
        match qp.provider() {
            ProviderKind::Soft => LINE * self.traffic(qp),
            ProviderKind::Sockets => self.traffic(qp),
            ProviderKind::Verbs => 0,
        }
    }

    /// The state of a queue pair.
    pub fn qp_state(&self, qp: Qp) -> QpState {
        self.provider_ref(qp.provider()).state(qp)
    }

    /// Ends a queue pair and gives its memory back.
    pub fn destroy_qp(&mut self, qp: Qp) {
        self.provider(qp.provider()).destroy(qp);
    }

    /// Live queue pairs of a provider.
    pub fn qps(&self, kind: ProviderKind) -> usize {
        match (kind, &self.sockets, &self.rdma) {
            (ProviderKind::Sockets, None, _) | (ProviderKind::Verbs, _, None) => 0,
            _ => self.provider_ref(kind).count(),
        }
    }
}

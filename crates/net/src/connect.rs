//! Drives `proto::wireup`: carries out what it decides on this process's device.
use crate::endpoint::Endpoint;
use fabric::{Address, Qp, QpParams};
use proto::ids::Rank;
use proto::wireup::{Action, Card, Params};
use sys::cpu;

impl Endpoint {
    /// Somebody wants to talk to a peer that is not connected.
    pub(crate) fn need(&mut self, peer: Rank) {
        let now_ns = cpu::now_ns();
        if let Err(error) = self.job.wireup.need(peer, now_ns) {
            let index = self.connection_of(peer);
            self.fail(index, error.to_string());
        }
        self.carry_out();
    }

    /// A datagram came in.
    pub(crate) fn handshake(&mut self, datagram: &[u8]) {
        // What was refused is counted by the machine; a stranger's datagram is no reason to stop.
        let _ = self.job.wireup.datagram(datagram, cpu::now_ns());
        self.carry_out();
    }

    /// Sends again what is due.
    pub(crate) fn tick(&mut self) -> bool {
        let Some(due_ns) = self.job.wireup.poll_timeout() else { return false };
        let now_ns = cpu::now_ns();
        if now_ns < due_ns {
            return false;
        }
        self.job.wireup.tick(now_ns);
        self.carry_out();
        true
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.job.wireup.poll_action() {
            match action {
                Action::Lookup { peer } => self.look_up(peer),
                Action::CreateQp { peer } => self.create(peer),
                Action::Send { peer, card, datagram } => {
                    self.send_handshake(peer, &card, datagram.as_bytes())
                }
                Action::Connect { peer, params, card } => self.connect(peer, &params, &card),
                Action::Ready { peer } => self.ready(peer),
                Action::Failed { peer, why } => {
                    let index = self.connection_of(peer);
                    self.fail(index, why);
                }
                Action::Destroy { peer } => self.destroy(peer),
            }
        }
    }

    fn look_up(&mut self, peer: Rank) {
        let now_ns = cpu::now_ns();
        let found =
            self.job.look_up(peer).and_then(|card| card.parse::<Address>().map_err(|e| e.to_string()));
        if let Ok(address) = &found
            && address.host != self.context.address().host
        {
            // Small messages to it count as sent already, so nobody here could be told.
            let why = "is on another host, and nothing here carries messages between hosts yet";
            self.abort(1, &format!("rank {peer} on node {} {why}", self.node_of(peer)));
        }
        let found = found.and_then(|address| Card::new(&address.to_bytes()).map_err(|e| e.to_string()));
        match found {
            Ok(card) => self.job.wireup.card(peer, card, now_ns).unwrap_or_default(),
            Err(why) => self.job.wireup.peer_died(peer, &why),
        }
    }

    fn create(&mut self, peer: Rank) {
        let made = self.context.create_qp().map_err(|e| e.to_string()).and_then(|qp| {
            match self.context.to_init(qp) {
                Ok(params) => Ok((qp, params)),
                Err(error) => {
                    self.context.destroy_qp(qp);
                    Err(error.to_string())
                }
            }
        });
        let index = self.connection_of(peer);
        let told = match made {
            Ok((qp, params)) => {
                self.connections[index as usize].qp = Some(qp);
                self.name_qp(qp, index);
                self.job.wireup.qp_ready(peer, Params(params.to_bytes()), cpu::now_ns())
            }
            // The peer would wait for an answer for ever, and nobody here waits to be told.
            Err(why) if self.connections[index as usize].queue.is_empty() => {
                self.abort(1, &format!("rank {peer} asks for a connection, but {why}"))
            }
            Err(why) => self.job.wireup.qp_failed(peer, &why),
        };
        told.expect("the machine asked for a queue pair");
    }

    /// The queue pair's connection, for completions.
    fn name_qp(&mut self, qp: Qp, connection: u32) {
        let at = qp.index();
        if self.by_qp.len() <= at {
            self.by_qp.resize(at + 1, u32::MAX);
        }
        self.by_qp[at] = connection;
    }

    fn send_handshake(&mut self, peer: Rank, card: &Card, datagram: &[u8]) {
        let sent = Address::from_bytes(card.as_bytes())
            .map_err(|e| e.to_string())
            .and_then(|to| self.context.send_datagram(&to, datagram).map_err(|e| e.to_string()));
        // A full mailbox is a lost datagram, which the machine sends again. A peer without a segment is gone.
        if let Err(why) = sent {
            self.job.wireup.peer_died(peer, &why);
        }
    }

    fn connect(&mut self, peer: Rank, params: &Params, card: &Card) {
        let index = self.connection_of(peer);
        let qp = self.connections[index as usize].qp.expect("made before it is connected");
        let connected = Address::from_bytes(card.as_bytes()).map_err(|e| e.to_string()).and_then(|address| {
            let params = QpParams::from_bytes(&params.0);
            self.context.to_rtr(qp, &address, &params).map_err(|e| e.to_string())?;
            self.context.to_rts(qp).map_err(|e| e.to_string())
        });
        match connected {
            Ok(()) => {
                let told = self.job.wireup.connected(peer, cpu::now_ns());
                told.expect("the machine asked for the connection");
            }
            Err(why) => self.job.wireup.peer_died(peer, &why),
        }
    }

    fn ready(&mut self, peer: Rank) {
        let index = self.connection_of(peer);
        let connection = &mut self.connections[index as usize];
        connection.ready = connection.qp;
        connection.kept_bytes = 0;
        self.counters.connected += 1;
        self.counters.connected_peak = self.counters.connected_peak.max(self.counters.connected);
        if self.node_of(peer) != self.node_of(self.rank()) {
            self.counters.connected_remote += 1;
            self.counters.connected_remote_peak =
                self.counters.connected_remote_peak.max(self.counters.connected_remote);
        }
        self.publish_connections();
        self.list(index);
        self.pump(index);
    }

    fn destroy(&mut self, peer: Rank) {
        let index = self.connection_of(peer);
        let connection = &mut self.connections[index as usize];
        connection.ready = None;
        if let Some(qp) = connection.qp.take() {
            self.context.destroy_qp(qp);
        }
    }

    /// Ranks this process is connected to, in order.
    pub fn connected_peers(&self) -> Vec<Rank> {
        let ready = self.connections.iter().filter(|connection| connection.ready.is_some());
        let mut peers: Vec<Rank> = ready.map(|connection| connection.rank).collect();
        peers.sort_unstable();
        peers
    }
}

//! Queue pairs of the world, as its devices give them out, and what the processes of a node know of theirs.
use super::*;

impl World {
    pub(super) fn create(&mut self, at: u32, peer: u32, ix: PeerIx, home: Option<u64>) -> Step {
        let (now, medium) = (self.now_ns, self.medium(at, peer));
        let (limit, chance) = (self.scene.device, self.scene.refusal_percent);
        let refused = !self.calm() && self.chance.percent(chance);
        let process = &mut self.processes[at as usize];
        let node = &mut self.nodes[(at / self.scene.per_node) as usize];
        let qp_for = process.wireup.qp_for(ix, now);
        let kept = kept(limit);
        let shared = home.and_then(|home| process.initiators.get(&home));
        let (found, asking) = (shared.is_some(), shared.is_some_and(|shared| shared.asking > 0));
        let full = limit > 0
            && match qp_for {
                QpFor::Answer if found => false,
                _ if found => !asking && node.attempts + kept >= limit,
                QpFor::Attempt => node.qps + kept >= limit,
                QpFor::PressingAttempt => node.qps >= limit || node.attempts + kept >= limit,
                QpFor::Answer => node.qps >= limit,
            };
        if full || refused {
            let why = "no queue pair left";
            let told = match full {
                true => {
                    node.refused += 1;
                    self.check_refusals(at)?;
                    let device = self.device(at);
                    self.processes[at as usize].wireup.qp_withheld(ix, why, &device, now)
                }
                false => {
                    node.put_off += 1;
                    process.wireup.qp_refused(ix, why, now)
                }
            };
            return told.map_err(|error| format!("{at}: {error}"));
        }
        let attempt = qp_for != QpFor::Answer;
        node.qps += u32::from(!found);
        node.attempts += u32::from(attempt && !asking);
        node.made += 1;
        ensure!(limit == 0 || node.qps <= limit, "the device of {at} has too many queue pairs");
        process.qps += u32::from(!found);
        if let Some(home) = home {
            let shared = process.initiators.entry(home).or_default();
            shared.pairs += 1;
            shared.asking += u32::from(attempt);
        }
        process.qps_peak = process.qps_peak.max(process.qps);
        ensure!(process.qps <= process.limit, "{at} has {} queue pairs, one too many", process.qps);
        let number = self.qps.len() as u32;
        let link = process.link(peer);
        ensure!(link.qp.is_none(), "{at} has two queue pairs for {peer}");
        link.qp = Some(number);
        self.qps.push(ModelQp {
            owner: at,
            peer,
            to: None,
            inbox: Vec::new(),
            busy_until_ns: 0,
            doomed: false,
            alive: true,
            attempt,
            home,
        });
        let mut params = [0; 32];
        params[..4].copy_from_slice(&number.to_le_bytes());
        process.wireup.qp_ready(ix, Params(params), medium, now).map_err(|error| format!("{at}: {error}"))
    }

    pub(super) fn destroy(&mut self, at: u32, peer: u32, ix: PeerIx) -> Step {
        let qp = self.processes[at as usize].link(peer).qp.take();
        ensure!(qp.is_some(), "{at} has no queue pair to {peer} that could be destroyed");
        let qp = qp.unwrap();
        match self.medium(at, peer) {
            Medium::Datagrams => self.take_in(at, qp)?,
            Medium::Stream => {
                let unread = &self.qps[qp as usize].inbox;
                let lost = self.processes[at as usize].link(peer).failed;
                ensure!(
                    lost || unread.is_empty(),
                    "{at} closes the stream of {peer}, and leaves {unread:?} there"
                );
            }
        }
        self.qps[qp as usize].alive = false;
        let process = &mut self.processes[at as usize];
        let model = &self.qps[qp as usize];
        let node = &mut self.nodes[(at / self.scene.per_node) as usize];
        node.attempts -= u32::from(model.attempt && process.answered(model.home));
        let mut last = true;
        if let Some(home) = model.home {
            let shared = process.initiators.get_mut(&home).expect("pairs share it");
            shared.pairs -= 1;
            last = shared.pairs == 0;
            if last {
                process.initiators.remove(&home);
            }
        }
        process.qps -= u32::from(last);
        node.qps -= u32::from(last);
        node.destroyed += 1;
        let free = process.wireup.destroyed(ix, self.now_ns);
        if self.scene.device > 0 && free {
            let device = self.device(at);
            self.processes[at as usize].wireup.gave_back(&device, self.now_ns);
        }
        Ok(())
    }

    fn neighbours(&self, at: u32) -> impl Iterator<Item = u32> + use<> {
        let first = at / self.scene.per_node * self.scene.per_node;
        first..(first + self.scene.per_node).min(self.scene.size)
    }

    /// What a process reads of its node's device. Slots are ranks.
    pub(super) fn device(&self, at: u32) -> NodeDevice {
        let others = || self.neighbours(at).filter(|other| *other != at);
        let process = |other: u32| &self.processes[other as usize];
        let alive = |other: &u32| process(*other).alive;
        let lack = |other: u32| process(other).wireup.lack(self.now_ns);
        NodeDevice {
            max: self.scene.device,
            kept: kept(self.scene.device),
            processes: self.neighbours(at).count() as u32,
            holding: others().filter(alive).map(|other| (other, process(other).qps)).collect(),
            wanting: others()
                .filter(alive)
                .filter_map(|other| lack(other).map(|lack| (other, lack)))
                .collect(),
        }
    }

    /// Words are as safe as datagrams.
    pub(super) fn tell(&mut self, to: u32, word: DeviceWord) {
        if self.calm() || !self.chance.percent(self.scene.loss_percent) {
            self.schedule_within(self.scene.delay_max_ns, to, Event::Hears(word));
        }
    }
}

/// The last of a device are kept for answers.
fn kept(device: u32) -> u32 {
    (device / 8).max(1)
}

//! Processes that connect at the start: each makes its queue pairs, all meet at a fence, and then each reads the board.
use super::*;

impl World {
    /// A queue pair for everybody.
    pub(super) fn ahead(&mut self, at: u32) {
        let now = self.now_ns;
        let process = &mut self.processes[at as usize];
        process.board = std::vec![None; self.scene.size as usize];
        for peer in (0..self.scene.size).filter(|peer| *peer != at) {
            let ix = process.wireup.intern(rank(peer)).unwrap();
            process.wireup.ahead(ix, now).unwrap();
        }
        let preparing = |row: &(PeerIx, Peer, &State<&str>)| row.2.is_ahead();
        process.making = Some(process.wireup.peers.iter().filter(preparing).count());
        self.end_fence();
    }

    /// One more was made, or will not be.
    pub(super) fn made_ahead(&mut self, at: u32, peer: u32, ix: PeerIx) {
        let process = &mut self.processes[at as usize];
        process.board[peer as usize] = process.wireup.published(ix);
        process.making = process.making.map(|making| making - 1);
        self.end_fence();
    }

    /// Everybody who lives is there.
    pub(super) fn end_fence(&mut self) {
        let alive = self.processes.iter().filter(|process| process.alive);
        if !self.scene.ahead || alive.clone().any(|process| process.making != Some(0)) {
            return;
        }
        self.scene.ahead = false;
        for at in 0..self.scene.size {
            self.schedule_within(self.scene.delay_max_ns, at, Event::Read);
        }
    }

    /// Whoever is not on the board is asked.
    pub(super) fn read(&mut self, at: u32) -> Step {
        for peer in (0..self.scene.size).filter(|peer| *peer != at) {
            let facts = self.processes[peer as usize].board.get(at as usize).copied().flatten();
            let process = &mut self.processes[at as usize];
            let ix = process.wireup.intern(rank(peer)).unwrap();
            if process.wireup.state(ix) != StateName::Published {
                continue;
            }
            let (card, now) = (card_of(peer), self.now_ns);
            let told = process.wireup.facts(ix, facts, card, now);
            told.map_err(|error| format!("{at}: {error}"))?;
        }
        Ok(())
    }
}

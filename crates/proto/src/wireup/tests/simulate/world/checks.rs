//! What must hold in the world of a simulation, at every step and at its end.
use super::*;

impl World {
    /// Whoever is refused waits for a word or for a timer. So an attempt fails for each need at most, if all came before
    /// the first refusal; for each queue pair that was made; three times for each that was given back (the word for it,
    /// whoever was quicker, and an own attempt that has waited long); for each that was put off; and by timers of each
    /// process, which are a millisecond at the least and double.
    pub(super) fn check_refusals(&self, at: u32) -> Step {
        let node = &self.nodes[(at / self.scene.per_node) as usize];
        let each = u64::from(self.scene.size) + 8 + self.now_ns / (10 * MS);
        let timers = u64::from(self.scene.per_node) * each;
        let most = node.made + 3 * node.destroyed + node.put_off + timers;
        ensure!(node.refused <= most, "the node of {at} refuses {} queue pairs, not {most}", node.refused);
        Ok(())
    }

    /// All that was sent arrived, all that was offered is answered, and both ends agree about each connection.
    pub(in super::super) fn check_end(&self) -> Step {
        for (at, process) in (0..).zip(&self.processes).filter(|(_, process)| process.alive) {
            for (peer, link) in (0..).zip(&process.links) {
                if let Some(link) = link {
                    self.check_link(at, peer, link)?;
                }
            }
            let open = process.links.iter().flatten().filter(|link| link.qp.is_some()).count();
            let ready = process.wireup.peers.iter().filter(|row| row.2.name() == StateName::Ready).count();
            ensure!(ready == open, "{at} has {open} queue pairs and {ready} connections");
            ensure!(process.wireup.connections().now as usize == ready, "{at}: connections");
            let books = (process.wireup.queue_pairs(), process.wireup.stats().crowded_now);
            ensure!(books.0 >= process.qps && books.1 == 0, "{at} counts {books:?}");
            let spare = books.0 - process.qps;
            ensure!(spare == 0 || self.scene.shared, "{at} counts {books:?}");
            let pairs: u32 = process.initiators.values().map(|shared| shared.pairs).sum();
            let alone = process.qps as usize - process.initiators.len();
            ensure!(alone + pairs as usize == ready, "{at}: {alone} queue pairs, and {pairs} that share one");
            ensure!(process.wireup.poll_timeout().is_none(), "{at} waits for a time");
            ensure!(process.wireup.waiting().count() == 0, "{at} waits for somebody");
        }
        Ok(())
    }

    fn check_link(&self, at: u32, peer: u32, link: &Link) -> Step {
        let other = &self.processes[peer as usize];
        if !other.alive {
            ensure!(link.failed, "{at} was not told that {peer} is dead");
            ensure!(link.qp.is_none(), "{at} keeps a queue pair for {peer}, which is dead");
            return Ok(());
        }
        ensure!(!link.failed, "{at} gave up {peer}, which lives");
        ensure!(link.queue.is_empty(), "{} messages from {at} to {peer} were never sent", link.queue.len());
        let theirs = other.links[at as usize].as_ref();
        let came = theirs.map_or(0, |link| link.came);
        ensure!(came == link.asked, "{came} of {} messages from {at} came to {peer}", link.asked);
        ensure!(link.offers == 0, "{} offers of {at} were never answered by {peer}", link.offers);
        let Some(qp) = link.qp else { return Ok(()) };
        let back = theirs.and_then(|link| link.qp);
        let connected = back.is_some() && self.qps[qp as usize].to == back;
        ensure!(connected, "{at} to {peer} is half open");
        Ok(())
    }

    /// What holds at every moment, beside what each step checks: the budget's books.
    pub(in super::super) fn check_books(&self) {
        self.processes.iter().for_each(|process| super::super::super::budget::check_books(&process.wireup));
    }
}

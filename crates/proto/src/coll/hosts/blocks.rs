//! Blocks that go from all to one, from one to all, or from all to all, where they are small: those of a host cross
//! together.
use super::super::{alltoall, gather, scatter, scatterv};
use super::*;

impl Hosts {
    /// As [`gather`](super::super::gather()).
    pub fn gather(&self, s: &mut Schedule, at: Place, root: u32, block: usize) {
        if !tuning::crosses_together(block) {
            return gather(s, at, root, block);
        }
        let home = self.host_of(root);
        if home == self.host {
            let local = self.blocks_here(block);
            let first = self.position(root);
            among(s, at, &self.mine, Spaces::SAME, |s, at| {
                gatherv(s, at, first, block, Blocks::Listed(&local));
            });
        } else {
            let packed = scratch(0, self.mine.len() * block);
            let within = Spaces { output: packed, scratch_at: packed.len, ..Spaces::SAME };
            among(s, at, &self.mine, within, |s, at| gather(s, at, 0, block));
            if at.rank == self.mine[0] {
                s.send(root, packed);
                s.wait();
            }
        }
        if at.rank == root {
            let crossing = self.crossing(at.size, home, block, Space::Output);
            crossing.iter().for_each(|host| s.recv(host.speaker, host.packed));
            s.wait();
            crossing.iter().for_each(|host| {
                host.pieces(block, |rank, piece| s.copy(piece, Blocks::Equal(block).output(rank)))
            });
        }
    }

    /// As [`scatter`](super::super::scatter()).
    pub fn scatter(&self, s: &mut Schedule, at: Place, root: u32, block: usize) {
        if !tuning::crosses_together(block) {
            return scatter(s, at, root, block);
        }
        let home = self.host_of(root);
        if at.rank == root {
            let crossing = self.crossing(at.size, home, block, Space::Input);
            crossing.iter().for_each(|host| {
                host.pieces(block, |rank, piece| s.copy(Blocks::Equal(block).input(rank), piece))
            });
            crossing.iter().for_each(|host| s.send(host.speaker, host.packed));
        }
        if home == self.host {
            let local = self.blocks_here(block);
            let first = self.position(root);
            among(s, at, &self.mine, Spaces::SAME, |s, at| {
                scatterv(s, at, first, block, Blocks::Listed(&local));
            });
        } else {
            let packed = scratch(0, self.mine.len() * block);
            if at.rank == self.mine[0] {
                s.recv(root, packed);
                s.wait();
            }
            let within = Spaces { input: packed, scratch_at: packed.len, ..Spaces::SAME };
            among(s, at, &self.mine, within, |s, at| scatter(s, at, 0, block));
        }
    }

    /// As [`alltoall`](super::super::alltoall()). Who speaks for a host has the rows of all its processes, and exchanges
    /// parts of them with the others that do.
    pub fn alltoall(&self, s: &mut Schedule, at: Place, block: usize) {
        let hosts = self.speakers.len();
        if !tuning::rows_cross_together(at, hosts, block) {
            return alltoall(s, at, block);
        }
        let (here, row) = (self.mine.len(), at.size as usize * block);
        let rows = here * row;
        let within = Spaces { output: scratch(0, 0), scratch_at: rows, ..Spaces::SAME };
        among(s, at, &self.mine, within, |s, at| gather(s, at, 0, row));
        if at.rank == self.mine[0] {
            self.exchange_rows(s, at.size, block);
        }
        let within = Spaces { input: scratch(rows, 0), scratch_at: 3 * rows, ..Spaces::SAME };
        among(s, at, &self.mine, within, |s, at| scatter(s, at, 0, row));
    }

    /// Rows to be sent stand at the beginning of the scratch; rows that were received are put behind them. In between they
    /// are what goes out, by host, and what comes in, behind that.
    fn exchange_rows(&self, s: &mut Schedule, size: u32, block: usize) {
        let (here, row) = (self.mine.len(), size as usize * block);
        let rows = here * row;
        let cell =
            |base: usize, line: usize, rank: u32| scratch(base + line * row + rank as usize * block, block);
        let ranks_of: Vec<Vec<u32>> =
            (0..self.speakers.len() as u32).map(|host| self.ranks_of(host, size)).collect();
        // Where what is exchanged with each host begins.
        let begins: Vec<usize> = ranks_of
            .iter()
            .scan(0, |next, ranks| {
                let begin = *next;
                *next += here * ranks.len() * block;
                Some(begin)
            })
            .collect();
        let others = || (0u32..).zip(&ranks_of).filter(|(host, _)| *host != self.host);
        for (host, ranks) in others() {
            let (part, begin) = (here * ranks.len() * block, begins[host as usize]);
            s.recv(self.speakers[host as usize], scratch(2 * rows + begin, part));
            for line in 0..here {
                for run in ranks.chunk_by(|one, next| one + 1 == *next) {
                    let at = ranks.partition_point(|rank| *rank < run[0]);
                    let from = cell(0, line, run[0]);
                    let into = scratch(rows + begin + (line * ranks.len() + at) * block, run.len() * block);
                    s.copy(Slice { len: into.len, ..from }, into);
                }
            }
            s.send(self.speakers[host as usize], scratch(rows + begin, part));
        }
        s.wait();
        for (host, ranks) in (0u32..).zip(&ranks_of) {
            for (at, rank) in ranks.iter().enumerate() {
                for line in 0..here {
                    let from = match host == self.host {
                        true => cell(0, at, self.mine[line]),
                        false => {
                            scratch(2 * rows + begins[host as usize] + (at * here + line) * block, block)
                        }
                    };
                    s.copy(from, cell(rows, line, *rank));
                }
            }
        }
    }

    /// Where the blocks of the own host are among those of all.
    fn blocks_here(&self, block: usize) -> Vec<Block> {
        self.mine.iter().map(|rank| Blocks::Equal(block).of(*rank)).collect()
    }

    /// Ranks of a host, in order.
    fn ranks_of(&self, host: u32, size: u32) -> Vec<u32> {
        match &self.listed {
            None => self.range(host, size).collect(),
            Some(listed) => (0..size).filter(|rank| listed[*rank as usize] == host).collect(),
        }
    }

    /// What the root exchanges with the other hosts. Where a host has a range of ranks, its blocks are exchanged in
    /// place, in `space`; otherwise in scratch.
    fn crossing(&self, size: u32, home: u32, block: usize, space: Space) -> Vec<Crossing> {
        let mut used = 0;
        let hosts = (0u32..).zip(&self.speakers).filter(|(host, _)| *host != home);
        let crossing = hosts.map(|(host, speaker)| {
            if self.in_order() {
                let range = self.range(host, size);
                let packed = Slice { space, at: range.start as usize * block, len: range.len() * block };
                return Crossing { speaker: *speaker, packed, ranks: Vec::new() };
            }
            let ranks = self.ranks_of(host, size);
            let packed = scratch(used, ranks.len() * block);
            used += packed.len;
            Crossing { speaker: *speaker, packed, ranks }
        });
        crossing.collect()
    }
}

/// The blocks of a host on their way from or to the root.
struct Crossing {
    speaker: u32,
    packed: Slice,
    /// Whose blocks they are, if they have to be brought to their places, or from there.
    ranks: Vec<u32>,
}

impl Crossing {
    fn pieces(&self, block: usize, mut each: impl FnMut(u32, Slice)) {
        for (at, rank) in self.ranks.iter().enumerate() {
            each(*rank, self.packed.part(at * block, block));
        }
    }
}

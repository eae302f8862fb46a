//! A job's board on this node, as memory that its ranks read: a copy of what the board keeps, made by following it.
//!
//! Banyan's own library looks there before it asks; everybody else is served from the board over the wire. The copy
//! needs no care for readers: what is not in it is asked for.
use proto::board::{Board, Change};
use std::io;
use sys::board::BoardWriter;

/// The copy.
#[derive(Debug)]
pub(crate) struct SharedBoard {
    writer: BoardWriter,
    fences: u64,
}

impl SharedBoard {
    /// An empty copy. A kernel that cannot seal it against writing ranks has none.
    pub(crate) fn create() -> io::Result<Self> {
        Ok(SharedBoard { writer: BoardWriter::create()?, fences: 0 })
    }

    /// The variable that tells ranks where it is.
    pub(crate) fn variable(&self) -> Vec<u8> {
        format!("{}={}", proto::env::BOARD, self.writer.locator()).into()
    }

    /// Takes what has changed on the board.
    pub(crate) fn follow(&mut self, board: &mut Board) {
        while let Some(change) = board.poll_change() {
            match change {
                // Without room it is not here, and has to be asked for.
                Change::Kept(key, value) => _ = self.writer.keep(&key, &value),
                Change::Dropped(key) => _ = self.writer.drop_key(&key),
            }
        }
    }

    /// A fence is over: what was put before it has been followed, and ranks are about to hear.
    pub(crate) fn fence_done(&mut self) {
        self.fences += 1;
        self.writer.fences_over(self.fences);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::board::{Action, BoardConfig, BoardKind, Got, Message, Mirror};
    use proto::ids::NodeId;
    use proto::lane::{Generation, JobId, Neighbour, Place};
    use proto::tree::Shape;
    use std::collections::VecDeque;
    use sys::Locator;
    use sys::board::{BoardReader, Lookup};

    /// Three nodes in a row with one rank each, and the copies of their boards.
    struct Row {
        boards: Vec<Board>,
        copies: Vec<SharedBoard>,
        readers: Vec<BoardReader>,
        posts: VecDeque<(usize, Neighbour, Message)>,
        fences: Vec<u64>,
    }

    impl Row {
        const NODES: u32 = 3;

        fn new(kind: BoardKind, entries_per_process: usize) -> Self {
            let shape = Shape::new(Self::NODES, 1);
            let places: Vec<NodeId> = (0..Self::NODES).map(NodeId).collect();
            let config = BoardConfig {
                mirror: Mirror::On,
                entries_per_process,
                ..BoardConfig::new(JobId(1), Generation(0), kind)
            };
            let boards = places.iter().map(|node| Board::new(config, &Place::new(shape, *node, &places)));
            let boards = boards.collect();
            let copies: Vec<_> = places.iter().map(|_| SharedBoard::create().unwrap()).collect();
            let readers = copies.iter().map(|copy| BoardReader::open(&located(copy)).unwrap()).collect();
            Row { boards, copies, readers, posts: VecDeque::new(), fences: vec![0; Self::NODES as usize] }
        }

        /// As an agent does after every input.
        fn pump(&mut self, node: usize) {
            loop {
                self.copies[node].follow(&mut self.boards[node]);
                match self.boards[node].poll_action() {
                    None => return,
                    Some(Action::Send(to, message)) => {
                        let (index, from) = match to {
                            Neighbour::Parent => (node - 1, Neighbour::Child(NodeId(node as u32))),
                            Neighbour::Child(child) => (child.0 as usize, Neighbour::Parent),
                        };
                        self.posts.push_back((index, from, message));
                    }
                    Some(Action::FenceDone) => {
                        self.copies[node].fence_done();
                        self.fences[node] += 1;
                    }
                    Some(Action::Answer { .. }) => {}
                }
            }
        }

        fn settle(&mut self) {
            while let Some((node, from, message)) = self.posts.pop_front() {
                self.boards[node].hear(from, message).unwrap();
                self.pump(node);
            }
        }

        fn fence(&mut self) {
            for node in 0..self.boards.len() {
                self.boards[node].enter(0).unwrap();
                self.pump(node);
            }
            self.settle();
        }

        fn put(&mut self, node: usize, key: &str, value: &str) {
            self.boards[node].put(0, key.as_bytes(), value.as_bytes()).unwrap();
            self.pump(node);
            self.settle();
        }
    }

    fn located(copy: &SharedBoard) -> Locator {
        let text = String::from_utf8(copy.variable()).unwrap();
        text.strip_prefix("BANYAN_BOARD=").unwrap().parse().unwrap()
    }

    #[test]
    fn after_a_fence_the_copy_has_what_the_board_would_answer() {
        for kind in BoardKind::ALL {
            let mut row = Row::new(kind, 4);
            for round in 0..3 {
                for node in 0..3 {
                    row.put(node, &format!("card-{node}"), &format!("{kind:?} {round}"));
                }
                row.fence();
                assert_eq!(row.fences, [round + 1; 3]);
                for (node, key) in (0..3).flat_map(|node| (0..3).map(move |of| (node, format!("card-{of}"))))
                {
                    assert_eq!(row.readers[node].fences(), round + 1);
                    let expected = format!("{kind:?} {round}");
                    match row.readers[node].get(key.as_bytes()) {
                        Lookup::Value(value) => assert_eq!(value, expected.as_bytes(), "{kind:?}: {key}"),
                        Lookup::NotHere => assert!(matches!(kind, BoardKind::Hcs | BoardKind::Hcma)),
                    }
                }
            }
        }
    }

    #[test]
    fn what_the_board_gives_up_is_not_in_the_copy() {
        let mut row = Row::new(BoardKind::HcmabLru, 2);
        for round in 0..40 {
            row.put(round % 3, &format!("key-{round}"), "value");
            row.fence();
        }
        for (node, key) in (0..3).flat_map(|node| (0..40).map(move |n| (node, format!("key-{n}")))) {
            let here = row.readers[node].get(key.as_bytes()) != Lookup::NotHere;
            let kept = row.boards[node].get(0, key.as_bytes()).unwrap() != Got::Later;
            assert_eq!(here, kept, "node {node}, {key}");
        }
        assert!(
            row.readers[2].get(b"key-0") == Lookup::NotHere
                && row.readers[2].get(b"key-39") != Lookup::NotHere
        );
    }

    #[test]
    fn a_value_that_was_found_above_is_in_the_copy_afterwards() {
        let mut row = Row::new(BoardKind::Hcma, 4);
        row.put(0, "far", "away");
        row.fence();
        assert_eq!(row.readers[2].get(b"far"), Lookup::NotHere);
        assert_eq!(row.boards[2].get(0, b"far").unwrap(), Got::Later);
        row.pump(2);
        row.settle();
        assert_eq!(row.readers[2].get(b"far"), Lookup::Value(b"away".to_vec()));
    }
}

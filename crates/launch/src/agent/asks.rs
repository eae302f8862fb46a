//! Questions of local ranks that only the launcher can answer.
use proto::ids::NodeId;
use proto::pmi2::RequestId;
use proto::tree::{Frame, Question, SpawnWish};
use std::collections::BTreeMap;

/// Most bytes of a question: it has to fit a frame, and so has an answer that repeats some of it.
const QUESTION_BYTES_MAX: usize = 192 << 10;
/// What a length costs.
const WORD: usize = 4;

/// Whose question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    /// The rank,
    pub(crate) seat: u32,
    /// and its own number for it.
    pub(crate) request: RequestId,
}

/// Open questions by number.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    next: u32,
    open: BTreeMap<u32, Asker>,
    unsent: Vec<(u32, Question)>,
}

/// A question is too long to be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request to the launcher of more than {QUESTION_BYTES_MAX} bytes")]
pub(crate) struct TooLong;

impl Asks {
    /// Asks for a rank.
    pub(crate) fn ask(&mut self, asker: Asker, question: Question) -> Result<(), TooLong> {
        if bytes_of(&question) > QUESTION_BYTES_MAX {
            return Err(TooLong);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.open.insert(number, asker);
        self.unsent.push((number, question));
        Ok(())
    }

    /// What goes to the launcher.
    pub(crate) fn take_frames(&mut self, node: NodeId) -> impl Iterator<Item = Frame> + use<> {
        let unsent = std::mem::take(&mut self.unsent);
        unsent.into_iter().map(move |(ask, question)| Frame::Ask { node, ask, question })
    }

    /// A question has been answered: whose was it?
    pub(crate) fn close(&mut self, ask: u32) -> Option<Asker> {
        self.open.remove(&ask)
    }
}

fn bytes_of(question: &Question) -> usize {
    match question {
        Question::Publish { service, port } => service.len() + port.len() + 2 * WORD,
        Question::Lookup { service } | Question::Unpublish { service } => service.len() + WORD,
        Question::Spawn(wish) => wish_bytes(wish),
    }
}

fn wish_bytes(wish: &SpawnWish) -> usize {
    let pairs = |pairs: &[proto::tree::Pair]| -> usize {
        pairs.iter().map(|pair| pair.key.len() + pair.value.len() + 2 * WORD).sum()
    };
    let commands = wish.commands.iter().map(|command| {
        let args: usize = command.args.iter().map(|arg| arg.len() + WORD).sum();
        command.program.len() + args + pairs(&command.infos) + 4 * WORD
    });
    commands.sum::<usize>() + pairs(&wish.preputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::ids::Rank;
    use proto::lane::JobId;
    use proto::tree::{Member, SpawnCommand};

    #[test]
    fn answers_find_who_asked() {
        let mut asks = Asks::default();
        let [first, second] = [(7, 1), (3, 2)].map(|(seat, id)| Asker { seat, request: RequestId(id) });
        asks.ask(first, Question::Lookup { service: b"a".to_vec() }).unwrap();
        asks.ask(second, Question::Lookup { service: b"b".to_vec() }).unwrap();
        assert_eq!(asks.take_frames(NodeId(1)).count(), 2);
        assert_eq!(asks.take_frames(NodeId(1)).count(), 0);
        assert_eq!((asks.close(1), asks.close(0), asks.close(0)), (Some(second), Some(first), None));
    }

    #[test]
    fn a_question_that_fits_no_frame_is_refused() {
        let long = || vec![b'x'; QUESTION_BYTES_MAX];
        let command = SpawnCommand { processes: 1, program: long(), args: vec![], infos: vec![] };
        let by = Member { job: JobId(0), rank: Rank(0) };
        let questions = [
            Question::Publish { service: long(), port: vec![] },
            Question::Publish { service: vec![], port: long() },
            Question::Lookup { service: long() },
            Question::Unpublish { service: long() },
            Question::Spawn(SpawnWish { by, commands: vec![command], preputs: vec![] }),
        ];
        let asker = Asker { seat: 0, request: RequestId(0) };
        for question in questions {
            let mut asks = Asks::default();
            assert_eq!(asks.ask(asker, question), Err(TooLong));
            assert_eq!(asks.take_frames(NodeId(0)).count(), 0);
        }
    }

    #[test]
    fn the_longest_question_fits_a_frame() {
        let mut asks = Asks::default();
        let asker = Asker { seat: 0, request: RequestId(0) };
        asks.ask(asker, Question::Lookup { service: vec![b'x'; QUESTION_BYTES_MAX - WORD] }).unwrap();
        let mut bytes = Vec::new();
        asks.take_frames(NodeId(0)).for_each(|frame| frame.emit(&mut bytes));
        assert!(bytes.len() > QUESTION_BYTES_MAX);
    }
}

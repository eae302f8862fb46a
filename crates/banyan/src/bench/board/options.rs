//! The command line of `banyan bench board`.
use super::super::args::{Common, each, list, number, numbers};
use proto::board::BoardKind;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench board [OPTIONS]

The bulletin board, with each of its caches: every rank puts one key, passes a fence, and gets the keys of its two
neighbours, or of all p ranks, over PMI-1 on the wire. Reported are the messages and bytes that the agents sent to
each other for it, and the time from the first rank's put to the last rank's last get. Then many rounds with new keys:
how much do agents keep?

  --ranks LIST      (default 64,128,256,512)
  --per-node N      ranks on each emulated node (default 8)
  --kinds LIST      hcs,hcma,hcmab,hcmab-lru
  --rounds N        times that everything is measured (default 3)
  --keys-rounds N   rounds of new keys (default 1000)
  --quick           once, 32 ranks, 4 on each node, 200 rounds of new keys
  --json FILE       writes the figures there as well
  --timeout S       gives up on one job after S seconds (default 120)
";

/// Most ranks of a job.
const RANKS_MAX: usize = 4096;
const KEYS_ROUNDS_MAX: usize = 9999;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told.
    pub common: Common,
    /// Sizes of the job.
    pub ranks: Vec<usize>,
    /// Ranks on a node.
    pub per_node: usize,
    /// Kinds of the board.
    pub kinds: Vec<BoardKind>,
    /// Rounds of new keys.
    pub keys_rounds: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::new(3, 120),
            ranks: vec![64, 128, 256, 512],
            per_node: 8,
            kinds: BoardKind::ALL.to_vec(),
            keys_rounds: 1000,
        }
    }
}

impl Options {
    /// Reads the command line; an error says what is wrong with it.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Options::default();
        each(args, |arg, value| {
            match arg {
                "--quick" => options.quick(),
                "--ranks" => options.ranks = numbers(arg, value()?, RANKS_MAX)?,
                "--per-node" => options.per_node = number(arg, value()?, RANKS_MAX)?,
                "--kinds" => options.kinds = list(value()?, &BoardKind::ALL, BoardKind::word)?,
                "--keys-rounds" => options.keys_rounds = number(arg, value()?, KEYS_ROUNDS_MAX)?,
                _ => options.common.take("board", arg, value)?,
            }
            Ok(())
        })?;
        Ok(options)
    }

    /// Enough to see that it works.
    fn quick(&mut self) {
        self.common.rounds = 1;
        self.ranks = vec![32];
        self.per_node = 4;
        self.keys_rounds = 200; // a tenth of them is more than agents keep
    }

    /// Nodes of a job of this size.
    pub fn nodes(&self, ranks: usize) -> usize {
        ranks.div_ceil(self.per_node)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn kinds_are_chosen_by_their_words() {
        let options = Options::parse(&split("--kinds hcmab,hcs --ranks 12 --per-node 8")).unwrap();
        assert_eq!(options.kinds, [BoardKind::Hcs, BoardKind::Hcmab]);
        assert_eq!(options.nodes(12), 2);
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[("--kinds hc", "'hc'"), ("--ranks 0", "'0'"), ("--rounds", "--rounds needs")],
        );
    }
}

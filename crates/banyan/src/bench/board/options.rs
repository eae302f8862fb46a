//! The command line of `banyan bench board`.
use super::super::args::{list, number, numbers};
use proto::board::BoardKind;
use std::path::PathBuf;
use std::time::Duration;

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
  --quick           once, 32 ranks, 4 on each node, 50 rounds of new keys
  --json FILE       writes the figures there as well
  --timeout S       gives up on one job after S seconds (default 120)
";

/// Most ranks of a job.
const RANKS_MAX: usize = 4096;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// Sizes of the job.
    pub ranks: Vec<usize>,
    /// Ranks on a node.
    pub per_node: usize,
    /// Kinds of the board.
    pub kinds: Vec<BoardKind>,
    /// Rounds.
    pub rounds: usize,
    /// Rounds of new keys.
    pub keys_rounds: usize,
    /// Where the figures go as JSON.
    pub json: Option<PathBuf>,
    /// Longest time for one job.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ranks: vec![64, 128, 256, 512],
            per_node: 8,
            kinds: BoardKind::ALL.to_vec(),
            rounds: 3,
            keys_rounds: 1000,
            json: None,
            timeout: Duration::from_secs(120),
        }
    }
}

impl Options {
    /// Reads the command line; an error says what is wrong with it.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => options.quick(),
                "--ranks" => options.ranks = numbers(arg, value()?, RANKS_MAX)?,
                "--per-node" => options.per_node = number(arg, value()?, RANKS_MAX)?,
                "--kinds" => options.kinds = list(value()?, &BoardKind::ALL, BoardKind::word)?,
                "--rounds" => options.rounds = number(arg, value()?, 1000)?,
                "--keys-rounds" => options.keys_rounds = number(arg, value()?, 9999)?,
                "--timeout" => options.timeout = Duration::from_secs(number(arg, value()?, 86_400)? as u64),
                "--json" => options.json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("'{arg}' is not an option of bench board")),
            }
        }
        Ok(options)
    }

    /// Enough to see that it works.
    fn quick(&mut self) {
        self.ranks = vec![32];
        self.per_node = 4;
        self.rounds = 1;
        self.keys_rounds = 50;
    }

    /// Nodes of a job of this size.
    pub fn nodes(&self, ranks: usize) -> usize {
        ranks.div_ceil(self.per_node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn kinds_are_chosen_by_their_words() {
        let options = parse("--kinds hcmab,hcs --ranks 12 --per-node 8").unwrap();
        assert_eq!(options.kinds, [BoardKind::Hcs, BoardKind::Hcmab]);
        assert_eq!(options.nodes(12), 2);
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        for (line, word) in [
            ("--kinds hc", "'hc'"),
            ("--ranks 0", "'0'"),
            ("--rounds", "--rounds needs"),
            ("--fast", "'--fast'"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}

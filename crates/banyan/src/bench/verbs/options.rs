//! The command line of `banyan bench verbs`.
use super::super::args::{Common, each, number};
use fabric::rdma::Config;
use proto::env::FabricChoice;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
usage: banyan bench verbs [OPTIONS]

What the RDMA device of this host takes for the steps of a connection, whether it numbers queue pairs in a row, what it
takes to register memory; and how messages between two ranks through it do beside perftest (ib_send_lat and ib_read_bw),
which uses the device alone. Both take turns, round by round, first looking for what comes (polling), then sleeping until
the device tells (events); each process has a core. The ranks' buffers are rewritten before each send and read after it.
Without perftest only Banyan's side is measured.

  --device DEVICE[:PORT[:GID]]
                    (default: the first with an active port)
  --steps N         queue pairs that are made, one after the other, and half as many handshakes (default 300)
  --round-trips N   of each latency (default 1000)
  --rounds N        times that everything else is measured (default 5)
  --quick           once, 100 queue pairs and 200 round trips
  --program FILE    the C program (bench/verbs.c), already built (default: it is built)
  --prefix DIR      an installed Banyan (default: this binary's own, else ./install is run)
  --dir DIR         where the program is built (default target/bench)
  --json FILE       writes the figures there as well
  --timeout S       gives up on one run after S seconds (default 120)
";

const STEPS_MAX: usize = 10_000;
/// As in `bench/verbs.c`.
const ROUND_TRIPS_MAX: usize = 100_000;

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What all benchmarks are told.
    pub common: Common,
    /// Which device.
    pub device: Config,
    /// Queue pairs that are made.
    pub steps: usize,
    /// Messages there and back, of each latency.
    pub round_trips: usize,
    /// The C program, if it is built already.
    pub program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            common: Common::building(5, 120),
            device: Config::default(),
            steps: 300,
            round_trips: 1000,
            program: None,
        }
    }
}

impl Options {
    /// Reads the command line; an error says what is wrong with it.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Options::default();
        each(args, |arg, value| {
            match arg {
                "--quick" => (options.common.rounds, options.steps, options.round_trips) = (1, 100, 200),
                "--device" => options.device = device(value()?)?,
                "--steps" => options.steps = number(arg, value()?, STEPS_MAX)?,
                "--round-trips" => options.round_trips = number(arg, value()?, ROUND_TRIPS_MAX)?,
                "--program" => options.program = Some(value()?.into()),
                _ => options.common.take("verbs", arg, value)?,
            }
            Ok(())
        })?;
        Ok(options)
    }
}

/// As after `--fabric verbs:`.
fn device(text: &str) -> Result<Config, String> {
    match FabricChoice::parse(&format!("verbs:{text}")) {
        Some(FabricChoice::Verbs { device, port, gid }) => {
            Ok(Config { device, port, gid, ..Config::default() })
        }
        _ => Err(format!("--device takes DEVICE[:PORT[:GID]], not '{text}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::args::tests::{mistakes_are_named, split};
    use super::*;

    #[test]
    fn devices_are_named_as_for_jobs() {
        let options = Options::parse(&split("--device rxe0:1:3 --steps 7")).unwrap();
        assert_eq!((options.device.device.as_deref(), options.device.gid), (Some("rxe0"), Some(3)));
        assert_eq!((options.steps, options.round_trips), (7, 1000));
    }

    #[test]
    fn mistakes_name_the_word_that_is_wrong() {
        mistakes_are_named(
            Options::parse,
            &[
                ("--steps 0", "'0'"),
                ("--round-trips 100001", "'100001'"),
                ("--device a:b", "'a:b'"),
                ("--program", "--program needs"),
            ],
        );
    }
}

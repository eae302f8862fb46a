//! The command line of `banyan run` and `mpiexec`. Long options may have one dash or two, as users of other
//! launchers have them in their fingers.
use crate::spec::{Bind, JobSpec, Label, RANKS_MAX, Section};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Usage: banyan run [options] program [arguments] [: [options] program [arguments]]...

Starts a parallel program: any MPI program of the MPICH family, or any other command.

  -n, -np N            number of processes (default 1); per program where several are separated by ':'
  --nodes K            emulate K nodes on this host (default 1; no more than processes are used)
  --bind-to core|none  give each process a core of its own, in turn (default none)
  --coll flat|auto     'flat': collectives by the published algorithms only (default auto)
  -wdir DIR            working folder of the processes
  -genv NAME VALUE     set a variable for all processes
  -env NAME VALUE      set a variable for the processes of this program
  -l, --prepend-rank   begin every line of output with '[rank] '
  --timeout SECONDS    end the job if it takes longer
  --kill-grace MS      milliseconds between asking processes to end and killing them (default 200)
  --stats[=json]       print at the end what connecting has cost, as a table or as one JSON object
  --stats-file FILE    print it to FILE instead of standard error
  -h, --help           this text
  --version            the version

Long options may be written with one dash or two, and as '--name value' or '--name=value'.

Exit code: the largest of the processes' exit codes; 128 + signal for a process killed by a signal; the code
given to MPI_Abort (its low 8 bits, never 0); 130 after ctrl-C; 124 after a time-out; 127 if the program was
not found, 126 if it cannot be executed; 2 for a wrong command line. A process that fails after MPI_Init ends
the job.

BANYAN_QP_MAX in the environment limits the queue pairs of a node's device (default 131072).
";

/// What the user wants.
#[derive(Debug)]
pub(crate) enum Command {
    Run(Box<JobSpec>, Option<StatsWish>),
    Help,
    Version,
}

/// How statistics are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatsWish {
    pub(crate) form: StatsForm,
    pub(crate) file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatsForm {
    Table,
    Json,
}

/// Why a command line is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("unknown option '{0}'")]
    Unknown(String),
    #[error("option '{0}' needs a value")]
    NoValue(String),
    #[error("option '{option}': '{value}' is not {wanted}")]
    BadValue { option: String, value: String, wanted: &'static str },
    #[error("no program given")]
    NoProgram,
    #[error("{0} processes are more than {RANKS_MAX}")]
    TooMany(u64),
    #[error("option '{0}' concerns the whole job: give it before the first program")]
    NotHere(String),
}

/// Parses the arguments behind `banyan run`.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Command, UsageError> {
    let mut parser = Parser {
        args: args.into(),
        spec: JobSpec { sections: Vec::new(), ..JobSpec::new("", Vec::new(), 1) },
        form: None,
        file: None,
    };
    loop {
        match parser.section()? {
            Next::Section => {}
            Next::End => break,
            Next::Help => return Ok(Command::Help),
            Next::Version => return Ok(Command::Version),
        }
    }
    let total: u64 = parser.spec.sections.iter().map(|section| u64::from(section.ranks)).sum();
    if total > u64::from(RANKS_MAX) {
        return Err(UsageError::TooMany(total));
    }
    let wish = match (parser.form, parser.file) {
        (None, None) => None,
        (form, file) => Some(StatsWish { form: form.unwrap_or(StatsForm::Table), file }),
    };
    Ok(Command::Run(Box::new(parser.spec), wish))
}

struct Parser {
    args: VecDeque<OsString>,
    spec: JobSpec,
    form: Option<StatsForm>,
    file: Option<PathBuf>,
}

enum Next {
    Section,
    End,
    Help,
    Version,
}

/// An option as it was written: its name without dashes, and the value behind `=`.
struct Written {
    text: String,
    name: String,
    value: Option<OsString>,
}

impl Parser {
    /// One program with its options, up to `:` or the end.
    fn section(&mut self) -> Result<Next, UsageError> {
        let mut section = Section { ranks: 1, ..Section::default() };
        while let Some(word) = self.args.pop_front() {
            if word == "--" {
                section.program = self.args.pop_front().ok_or(UsageError::NoProgram)?;
                return Ok(self.arguments(section));
            }
            let Some(written) = Written::new(&word) else {
                section.program = word;
                return Ok(self.arguments(section));
            };
            match written.name.as_str() {
                "h" | "help" => return Ok(Next::Help),
                "version" => return Ok(Next::Version),
                _ => self.option(&written, &mut section)?,
            }
        }
        Err(UsageError::NoProgram)
    }

    /// Everything behind the program is its own, but for a lone `:`.
    fn arguments(&mut self, mut section: Section) -> Next {
        while let Some(word) = self.args.pop_front() {
            if word == ":" {
                self.spec.sections.push(section);
                return Next::Section;
            }
            section.args.push(word);
        }
        self.spec.sections.push(section);
        Next::End
    }

    fn option(&mut self, written: &Written, section: &mut Section) -> Result<(), UsageError> {
        match written.name.as_str() {
            "n" | "np" => section.ranks = self.count(written)?,
            "env" => section.env.push(self.pair(written)?),
            _ if !self.spec.sections.is_empty() => return Err(self.misplaced(written)),
            "genv" => {
                let pair = self.pair(written)?;
                self.spec.env.push(pair);
            }
            "nodes" => self.spec.nodes = self.count(written)?,
            "bind-to" => self.spec.bind = self.binding(written)?,
            "coll" => {
                let value = self.collectives(written)?;
                self.spec.env.push(("BANYAN_COLL".into(), value));
            }
            "wdir" => self.spec.folder = Some(self.value(written)?.into()),
            "l" | "prepend-rank" => self.spec.label = Label::Rank,
            "kill-grace" => self.spec.kill_grace = Duration::from_millis(u64::from(self.number(written)?)),
            "timeout" => self.spec.timeout = Some(Duration::from_secs(u64::from(self.count(written)?))),
            "stats" => self.form = Some(stats_form(written)?),
            "stats-file" => self.file = Some(self.value(written)?.into()),
            _ => return Err(UsageError::Unknown(written.text.clone())),
        }
        Ok(())
    }

    fn misplaced(&self, written: &Written) -> UsageError {
        let known = [
            "genv", "nodes", "bind-to", "coll", "wdir", "l", "prepend-rank", "timeout", "kill-grace", "stats",
            "stats-file",
        ];
        if known.contains(&written.name.as_str()) {
            UsageError::NotHere(written.text.clone())
        } else {
            UsageError::Unknown(written.text.clone())
        }
    }

    fn value(&mut self, written: &Written) -> Result<OsString, UsageError> {
        let behind = || self.args.pop_front();
        written.value.clone().or_else(behind).ok_or_else(|| UsageError::NoValue(written.text.clone()))
    }

    /// `NAME VALUE`, or `NAME=VALUE`.
    fn pair(&mut self, written: &Written) -> Result<(OsString, OsString), UsageError> {
        let name = self.value(written)?;
        if let Some((name, value)) = name.to_str().and_then(|text| text.split_once('=')) {
            return Ok((name.into(), value.into()));
        }
        let value = self.args.pop_front().ok_or_else(|| UsageError::NoValue(written.text.clone()))?;
        Ok((name, value))
    }

    fn number(&mut self, written: &Written) -> Result<u32, UsageError> {
        let value = self.value(written)?;
        let text = value.to_string_lossy();
        text.parse().map_err(|_| written.bad(&text, "a number"))
    }

    fn count(&mut self, written: &Written) -> Result<u32, UsageError> {
        let value = self.value(written)?;
        let text = value.to_string_lossy();
        let count = text.parse().ok().filter(|count| *count > 0);
        count.ok_or_else(|| written.bad(&text, "a number of at least 1"))
    }

    fn collectives(&mut self, written: &Written) -> Result<OsString, UsageError> {
        let value = self.value(written)?;
        match value.to_string_lossy().as_ref() {
            "flat" | "auto" => Ok(value),
            other => Err(written.bad(other, "'flat' or 'auto'")),
        }
    }

    fn binding(&mut self, written: &Written) -> Result<Bind, UsageError> {
        let value = self.value(written)?;
        match value.to_string_lossy().as_ref() {
            "core" => Ok(Bind::Core),
            "none" => Ok(Bind::None),
            other => Err(written.bad(other, "'core' or 'none'")),
        }
    }
}

impl Written {
    /// `None` if the word is no option.
    fn new(word: &OsStr) -> Option<Self> {
        let text = word.to_str()?;
        let name =
            text.strip_prefix("--").or_else(|| text.strip_prefix('-')).filter(|name| !name.is_empty())?;
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (name, None),
        };
        Some(Written { text: text.into(), name: name.into(), value })
    }

    fn bad(&self, value: &str, wanted: &'static str) -> UsageError {
        UsageError::BadValue { option: self.text.clone(), value: value.into(), wanted }
    }
}

fn stats_form(written: &Written) -> Result<StatsForm, UsageError> {
    match written.value.as_deref().map(OsStr::to_string_lossy).as_deref() {
        None | Some("table") => Ok(StatsForm::Table),
        Some("json") => Ok(StatsForm::Json),
        Some(other) => Err(written.bad(other, "'json' or 'table'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn run(line: &str) -> (JobSpec, Option<StatsWish>) {
        match parse(words(line)).unwrap() {
            Command::Run(spec, wish) => (*spec, wish),
            other => panic!("{other:?}"),
        }
    }

    fn error(line: &str) -> String {
        parse(words(line)).unwrap_err().to_string()
    }

    #[test]
    fn options_come_before_the_program_with_one_dash_or_two() {
        let (spec, wish) =
            run("-np 4 --nodes=2 -bind-to core --stats=json -l -genv A 1 -genv B=2 ./prog -n 9 --x");
        assert_eq!((spec.ranks(), spec.nodes, spec.bind, spec.label), (4, 2, Bind::Core, Label::Rank));
        assert_eq!(spec.sections[0].program, "./prog");
        assert_eq!(spec.sections[0].args, ["-n", "9", "--x"]);
        assert_eq!(spec.env, [("A".into(), "1".into()), ("B".into(), "2".into())]);
        assert_eq!(wish, Some(StatsWish { form: StatsForm::Json, file: None }));
    }

    #[test]
    fn several_programs_are_separated_by_colons() {
        let (spec, _) = run("--nodes 2 -n 2 a x : -n 3 -env K V b : c");
        let ranks: Vec<_> = spec.sections.iter().map(|section| section.ranks).collect();
        assert_eq!((ranks, spec.ranks()), (vec![2, 3, 1], 6));
        assert_eq!(spec.sections[1].env, [("K".into(), "V".into())]);
        assert_eq!(
            error("a : --nodes 2 b"),
            "option '--nodes' concerns the whole job: give it before the first program"
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(error("--frobnicate prog"), "unknown option '--frobnicate'");
        assert_eq!(error("-n"), "option '-n' needs a value");
        assert_eq!(error("-n 0 prog"), "option '-n': '0' is not a number of at least 1");
        assert_eq!(error("--bind-to moon prog"), "option '--bind-to': 'moon' is not 'core' or 'none'");
        assert_eq!(error("-n 4"), "no program given");
        assert_eq!(error("-n 60000 a : -n 60000 b"), "120000 processes are more than 65536");
        assert_eq!(error("a :"), "no program given");
    }

    #[test]
    fn a_program_may_look_like_an_option_behind_two_dashes() {
        assert_eq!(run("-n 2 -- -prog -x").0.sections[0].program, "-prog");
    }

    #[test]
    fn help_wins() {
        assert!(matches!(parse(words("-n 2 --help")), Ok(Command::Help)));
        assert!(matches!(parse(words("-version")), Ok(Command::Version)));
    }
}

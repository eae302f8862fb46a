//! Reads words one by one into a job.
use super::allocation;
use super::entry::{Entry, Scope};
use super::foreign::{self, Does};
use super::hosts::{Host, parse_file, parse_list};
use super::placing::{Mapping, binding, mapping};
use super::suggest::meant;
use super::table;
use super::words::sections;
use super::written::{Written, check_word, dry_form, read_bounded, stats_form};
use super::{Command, DryForm, StatsForm, StatsWish, Understood, UsageError};
use crate::bootstrap::{Bootstrap, SSH};
use crate::job::is_here;
use crate::pattern::Pattern;
use crate::spec::{Bind, Inherit, JobSpec, Label, RANKS_MAX, Section, StdinTo, Talk};
use proto::board::{BoardKind, VALUE_BYTES_MAX};
use proto::env::{FabricChoice, NetChoice, PortRange, Values};
use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// Seconds that a job may take, for those who have set it for other launchers.
const TIMEOUT_VARIABLE: &str = "MPIEXEC_TIMEOUT";

pub(super) struct Parser {
    args: VecDeque<OsString>,
    spec: JobSpec,
    form: Option<StatsForm>,
    file: Option<PathBuf>,
    nodes: Option<u32>,
    per_node: Option<u32>,
    hosts: Option<Vec<Host>>,
    bootstrap: Option<Wanted>,
    shell: Option<Vec<String>>,
    key_file: Option<String>,
    /// Was a time for starting given?
    timed: bool,
    /// Was the number of processes of the first program given?
    counted: bool,
    /// Is nothing to be started?
    dry: Option<DryForm>,
    /// Is the universe as large as the hosts?
    is_whole_system: bool,
    from_file: bool,
    /// How processes share processors by how they are mapped, unless a binding is asked for.
    mapped: Option<Bind>,
    /// Was a binding asked for?
    is_bound: bool,
    /// What the user should know of options that were understood.
    notes: Vec<String>,
}

/// The bootstrap that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Fork,
    Ssh,
    Slurm,
    Manual,
}

pub(super) enum Next {
    Section,
    End,
    Help,
    HelpStats,
    Info,
    Version,
}

impl Parser {
    pub(super) fn new(args: Vec<OsString>) -> Self {
        Parser {
            args: args.into(),
            spec: JobSpec { sections: Vec::new(), ..JobSpec::new("", Vec::new(), 1) },
            form: None,
            file: None,
            nodes: None,
            per_node: None,
            hosts: None,
            bootstrap: None,
            shell: None,
            key_file: None,
            timed: false,
            counted: false,
            dry: None,
            is_whole_system: false,
            from_file: false,
            mapped: None,
            is_bound: false,
            notes: Vec::new(),
        }
    }

    /// The whole, once all programs have been read.
    pub(super) fn finish(mut self) -> Result<Understood, UsageError> {
        let notes = std::mem::take(&mut self.notes);
        Ok(Understood { command: self.command()?, notes })
    }

    fn command(mut self) -> Result<Command, UsageError> {
        if let (false, Some(bind)) = (self.is_bound, self.mapped.take()) {
            self.spec.bind = bind;
        }
        self.use_allocation()?;
        self.use_timeout()?;
        if self.spec.pattern.is_none() {
            let named = env::var_os(proto::env::PATTERN).filter(|file| !file.is_empty());
            self.spec.pattern = named.map(PathBuf::from);
        }
        let total: u64 = self.spec.sections.iter().map(|section| u64::from(section.ranks)).sum();
        if total > u64::from(RANKS_MAX) {
            return Err(UsageError::TooMany(total));
        }
        self.place(total as u32)?;
        if self.is_whole_system {
            self.spec.universe = Some(self.system_size());
        }
        if let StdinTo::Rank(rank) = self.spec.stdin
            && u64::from(rank) >= total
        {
            return Err(UsageError::NoSuchRank { rank, ranks: total as u32 });
        }
        if let Some(form) = self.dry {
            return Ok(Command::DryRun(Box::new(self.spec), form));
        }
        let wish = match (self.form, self.file) {
            (None, None) => None,
            (form, file) => {
                let form = form.unwrap_or(StatsForm::Table);
                self.spec.board_counters = true;
                self.spec.matrix |= form.has_matrix();
                Some(StatsWish { form, file })
            }
        };
        Ok(Command::Run(Box::new(self.spec), wish))
    }

    /// A time-out may come from the environment. As in other launchers, one below 1 is none.
    fn use_timeout(&mut self) -> Result<(), UsageError> {
        let Some(text) = env::var_os(TIMEOUT_VARIABLE).filter(|_| self.spec.timeout.is_none()) else {
            return Ok(());
        };
        let text = text.to_string_lossy();
        let seconds: i32 = text.trim().parse().map_err(|_| UsageError::Variable {
            variable: TIMEOUT_VARIABLE,
            value: text.chars().take(64).collect(),
            wanted: "a number of seconds",
        })?;
        self.spec.timeout = u64::try_from(seconds).ok().filter(|s| *s > 0).map(Duration::from_secs);
        Ok(())
    }

    /// Hosts may come from a file that the environment names. Inside the allocation of a batch system its hosts are the
    /// job's, unless the user says something else.
    fn use_allocation(&mut self) -> Result<(), UsageError> {
        let variable = |name: &str| env::var(name).ok();
        if self.nodes.is_some() || matches!(self.bootstrap, Some(Wanted::Fork | Wanted::Manual)) {
            return Ok(());
        }
        if self.hosts.is_none() {
            self.hosts = allocation::host_file(variable)?;
        }
        if let Some(hosts) = &self.hosts {
            let is_open = self.bootstrap.is_none() && self.shell.is_none();
            if is_open && allocation::slurm_has(hosts, variable) {
                self.bootstrap = Some(Wanted::Slurm);
            }
            self.fill_hosts();
            return Ok(());
        }
        let Some(allocation) = allocation::detect(variable)? else { return Ok(()) };
        if allocation.bootstrap == Bootstrap::Slurm && self.bootstrap != Some(Wanted::Ssh) {
            self.bootstrap = Some(Wanted::Slurm);
        }
        self.hosts = Some(allocation.hosts);
        self.fill_hosts();
        Ok(())
    }

    /// A single program without a number of processes gets as many as there is room for on the hosts.
    fn fill_hosts(&mut self) {
        if let ([only], false, Some(hosts)) = (self.spec.sections.as_mut_slice(), self.counted, &self.hosts) {
            let per_node = self.per_node;
            let slots = hosts.iter().map(|host| per_node.or(host.slots).unwrap_or(1));
            only.ranks = slots.fold(0_u32, u32::saturating_add).max(1);
        }
    }

    /// How many nodes there are, and how many ranks each takes.
    fn place(&mut self, ranks: u32) -> Result<(), UsageError> {
        if self.hosts.is_some() {
            return self.place_on_hosts();
        }
        match self.bootstrap {
            None | Some(Wanted::Fork) => {}
            Some(Wanted::Ssh) => return Err(UsageError::NoHosts("ssh")),
            Some(Wanted::Slurm) => return Err(UsageError::NoHosts("slurm")),
            Some(Wanted::Manual) => return Err(UsageError::NoHosts("manual")),
        }
        if let Some(each) = self.per_node {
            let nodes = self.nodes.unwrap_or(u32::MAX).min(ranks.div_ceil(each));
            // With fewer nodes than it takes, all are filled again.
            self.spec.slots = vec![each; nodes as usize];
        } else if let Some(nodes) = self.nodes {
            self.spec.nodes = nodes;
        }
        Ok(())
    }

    /// Hosts that are all this one are emulated nodes, unless another bootstrap is asked for.
    fn place_on_hosts(&mut self) -> Result<(), UsageError> {
        if self.nodes.is_some() {
            return Err(UsageError::Conflict("--hosts", "--nodes"));
        }
        let hosts = self.hosts.take().unwrap_or_default();
        let per_node = self.per_node;
        self.spec.slots = hosts.iter().map(|host| per_node.or(host.slots).unwrap_or(1)).collect();
        let all_here = || hosts.iter().all(|host| is_here(&host.host));
        let is_shell = self.shell.is_some();
        let wanted = self.bootstrap.unwrap_or_else(|| match is_shell || !all_here() {
            true => Wanted::Ssh,
            false => Wanted::Fork,
        });
        let key_file = || format!("banyan-{}.key", std::process::id());
        self.spec.bootstrap = match wanted {
            Wanted::Fork => return Ok(()),
            Wanted::Ssh => {
                Bootstrap::Shell(self.shell.take().unwrap_or_else(|| SSH.map(String::from).into()))
            }
            Wanted::Slurm => match hosts.iter().find(|host| host.host.user.is_some()) {
                Some(host) => return Err(UsageError::UserInSlurm(host.host.login())),
                None => Bootstrap::Slurm,
            },
            Wanted::Manual => {
                if !self.timed {
                    self.spec.start_timeout = Duration::ZERO; // users take their time
                }
                Bootstrap::Manual(absolute(self.key_file.take().unwrap_or_else(key_file)))
            }
        };
        self.spec.hosts = hosts.into_iter().map(|host| host.host).collect();
        Ok(())
    }

    /// One program with its options, up to `:` or the end.
    pub(super) fn section(&mut self) -> Result<Next, UsageError> {
        let mut section = Section { ranks: 1, ..Section::default() };
        while let Some(word) = self.args.pop_front() {
            if word == "--" {
                section.program = self.args.pop_front().ok_or(UsageError::NoProgram)?;
                return Ok(self.arguments(section));
            }
            if word == ":" {
                return Err(UsageError::NoProgram);
            }
            let Some(written) = Written::new(&word) else {
                section.program = word;
                return Ok(self.arguments(section));
            };
            match table::find(&written.name).map(Entry::key) {
                Some("h") => return Ok(Next::Help),
                Some("help-stats") => return Ok(Next::HelpStats),
                Some("info") => return Ok(Next::Info),
                Some("version") => return Ok(Next::Version),
                _ => self.option(written, &mut section)?,
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

    /// An option, by whatever name.
    fn option(&mut self, written: Written, section: &mut Section) -> Result<(), UsageError> {
        if let Some(entry) = table::find(&written.name) {
            let is_first = self.spec.sections.is_empty();
            let is_hosts = matches!(entry.key(), "hosts" | "f");
            return match entry.scope {
                Scope::Job if !is_first && is_hosts => Err(UsageError::HostsHere(written.text)),
                Scope::Job if !is_first => Err(UsageError::NotHere(written.text)),
                Scope::Program => self.option_of_program(&written.called(entry.key()), section),
                Scope::Either if !is_first => self.option_of_program(&written.called(entry.key()), section),
                _ => self.option_of_job(&written.called(entry.key())),
            };
        }
        if let Some(row) = foreign::find(&written.name) {
            return self.foreign_option(&written, row);
        }
        match written.with_number() {
            Some(words) => {
                words.into_iter().rev().for_each(|word| self.args.push_front(word));
                Ok(())
            }
            None => Err(UsageError::Unknown { meant: meant(&written.text), option: written.text }),
        }
    }

    /// An option of another launcher.
    fn foreign_option(&mut self, written: &Written, row: &foreign::Foreign) -> Result<(), UsageError> {
        if let Does::Refused(reason) = row.does {
            return Err(UsageError::Refused { option: written.text.clone(), reason });
        }
        let mut values = Vec::new();
        for _ in 0..row.words {
            let first = values.is_empty().then(|| written.value.clone()).flatten();
            let value = first.or_else(|| self.args.pop_front());
            values.push(value.ok_or_else(|| UsageError::NoValue(written.text.clone()))?);
        }
        if row.words == 0 {
            written.alone(())?;
        }
        match row.does {
            Does::Means(words) => self.instead(words, &values),
            Does::Noted(words, note) => {
                self.note(written, note);
                self.instead(words, &values);
            }
            Does::Choice(choices, reason) => {
                let value = values[0].to_string_lossy();
                let chosen = choices.iter().find(|(word, _)| *word == value);
                let (_, words) = chosen.ok_or_else(|| written.refused(&value, reason))?;
                self.instead(words, &values);
            }
            Does::Ignored(note) => self.note(written, note),
            Does::Nothing | Does::Refused(_) => {}
        }
        Ok(())
    }

    /// These words come next, with the value where a place is left for it.
    fn instead(&mut self, words: &[&str], values: &[OsString]) {
        for word in words.iter().rev() {
            let word = match word.split_once("{}") {
                Some((before, _)) => {
                    let mut word = OsString::from(before);
                    word.push(&values[0]);
                    word
                }
                None => word.into(),
            };
            self.args.push_front(word);
        }
    }

    fn note(&mut self, written: &Written, note: &str) {
        let option = written.text.split('=').next().unwrap_or_default();
        let note = format!(
            "note: '{option}' {}{note}",
            if note.starts_with("is ") { "" } else { "changes nothing: " }
        );
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn option_of_program(&mut self, written: &Written, section: &mut Section) -> Result<(), UsageError> {
        match written.name.as_str() {
            "n" => {
                section.ranks = self.count(written)?;
                self.counted = true;
            }
            "env" => section.env.push(self.pair(written)?),
            "envlist" => section.inherit = Some(self.listed(written)?),
            "envnone" => section.inherit = Some(written.alone(Inherit::Nothing)?),
            "envall" => section.inherit = Some(written.alone(Inherit::All)?),
            "wdir" => section.folder = Some(self.value(written)?.into()),
            _ => section.search = Some(self.value(written)?),
        }
        Ok(())
    }

    fn option_of_job(&mut self, written: &Written) -> Result<(), UsageError> {
        match written.name.as_str() {
            "genv" => {
                let pair = self.pair(written)?;
                self.spec.env.push(pair);
            }
            "x" => self.export(written)?,
            "genvlist" => self.spec.inherit = self.listed(written)?,
            "genvnone" => self.spec.inherit = written.alone(Inherit::Nothing)?,
            "genvall" => self.spec.inherit = written.alone(Inherit::All)?,
            "wdir" | "gwdir" => self.spec.folder = Some(self.value(written)?.into()),
            "path" | "gpath" => self.spec.search = Some(self.value(written)?),
            "usize" => self.universe(written)?,
            "s" => self.spec.stdin = self.stdin(written)?,
            "coll" => {
                let value = self.collectives(written)?;
                self.spec.env.push((proto::env::COLL.into(), value));
            }
            "rma" => self.tell_ranks(written, proto::env::RMA)?,
            "check" => {
                let value = check_word(written)?;
                self.spec.env.push((proto::env::CHECK.into(), value.into()));
            }
            "board" => {
                let word = self.text(written)?;
                self.spec.board = BoardKind::from_word(&word)
                    .ok_or_else(|| written.bad(&word, "hcs, hcma, hcmab or hcmab-lru"))?;
            }
            "pmi-value-max" => self.spec.pmi_value_max = self.value_max(written)?,
            "pmgr" => self.spec.pmgr = written.alone(true)?,
            "configfile" => self.config(written)?,
            "dry-run" => self.dry = Some(dry_form(written)?),
            "heartbeat" => self.spec.heartbeat = Duration::from_secs(u64::from(self.number(written)?)),
            "kill-grace" => self.spec.kill_grace = Duration::from_millis(u64::from(self.number(written)?)),
            "timeout" => self.spec.timeout = Some(Duration::from_secs(u64::from(self.count(written)?))),
            _ => return self.option_of_net(written),
        }
        Ok(())
    }

    fn option_of_net(&mut self, written: &Written) -> Result<(), UsageError> {
        match written.name.as_str() {
            "net" => self.spec.net.choice = Some(self.parsed(written, NetChoice::parse, Values::Net)?),
            "port-range" => {
                self.spec.net.ports = Some(self.parsed(written, PortRange::parse, Values::Ports)?)
            }
            "net-timeout" => {
                let seconds = |text: &str| proto::env::seconds(proto::env::NET_TIMEOUT, text).ok();
                self.spec.net.timeout = Some(self.parsed(written, seconds, Values::Seconds)?);
            }
            "fabric" => {
                self.spec.net.fabric = Some(self.parsed(written, FabricChoice::parse, Values::Fabric)?)
            }
            "reg-cache" => self.tell_ranks(written, proto::env::REG_CACHE)?,
            "rdma-timeout" => self.tell_ranks(written, proto::env::RDMA_TIMEOUT)?,
            "force-net" => self.spec.net.force = written.alone(true)?,
            "data-server" => self.spec.data_server = written.alone(true)?,
            "fault" => self.tell_ranks(written, proto::env::NET_FAULTS)?,
            "connect" => self.tell_ranks(written, proto::env::CONNECT)?,
            "connect-threads" => self.tell_ranks(written, proto::env::CONNECT_THREADS)?,
            "xrc" => self.tell_ranks(written, proto::env::XRC)?,
            "device" => self.tell_ranks(written, proto::env::DEVICE)?,
            "pattern" => self.spec.pattern = Some(self.value(written)?.into()),
            "wait" => self.tell_ranks(written, proto::env::WAIT)?,
            "qp-budget" => self.tell_ranks(written, proto::env::QP_BUDGET)?,
            "conn-memory" => self.tell_ranks(written, proto::env::CONN_MEMORY)?,
            "qp-max" => {
                let wanted = Values::Number(1, proto::env::QP_MAX_MOST);
                let number = |text: &str| {
                    text.parse().ok().filter(|n| (1..=proto::env::QP_MAX_MOST as u32).contains(n))
                };
                self.spec.qp_max = Some(self.parsed(written, number, wanted)?);
            }
            _ => return self.option_of_place(written),
        }
        Ok(())
    }

    fn option_of_place(&mut self, written: &Written) -> Result<(), UsageError> {
        match written.name.as_str() {
            "nodes" => self.nodes = Some(self.count(written)?),
            "ppn" => self.per_node = Some(self.count(written)?),
            "hosts" => {
                let text = self.text(written)?;
                self.hosts = Some(parse_list(&text).map_err(|error| written.bad_hosts(error))?);
            }
            "f" => {
                let text = self.file(written)?.1;
                self.hosts = Some(parse_file(&text).map_err(|error| written.bad_hosts(error))?);
            }
            "map-by" => {
                let text = self.text(written)?;
                self.map(mapping(&text).map_err(|wanted| written.bad(&text, wanted))?);
            }
            "bind-to" => {
                let text = self.text(written)?;
                self.spec.bind = binding(&text).ok_or_else(|| {
                    written.bad(&text, "core, core:2, hwthread, socket, numa, user:0,1,... or none")
                })?;
                self.is_bound = true;
            }
            "report-bindings" => self.spec.report_bindings = written.alone(true)?,
            _ => return self.option_of_start(written),
        }
        Ok(())
    }

    fn option_of_start(&mut self, written: &Written) -> Result<(), UsageError> {
        match written.name.as_str() {
            "bootstrap" => {
                let word = self.text(written)?;
                self.bootstrap = Some(match word.as_str() {
                    "ssh" | "rsh" => Wanted::Ssh,
                    "slurm" => Wanted::Slurm,
                    "manual" => Wanted::Manual,
                    "fork" => Wanted::Fork,
                    other => return Err(written.bad(other, "ssh, slurm, manual or fork")),
                });
            }
            "launcher-exec" => {
                let text = self.text(written)?;
                let words: Vec<String> = text.split_whitespace().map(String::from).collect();
                if words.is_empty() {
                    return Err(written.bad(&text, "a command"));
                }
                self.shell = Some(words);
            }
            "agent-path" => self.spec.agent = Some(self.text(written)?),
            "start-timeout" => {
                self.spec.start_timeout = Duration::from_secs(u64::from(self.number(written)?));
                self.timed = true;
            }
            "degree" => self.spec.degree = Some(self.count(written)?),
            "max-links" => self.spec.links_max = Some(self.count(written)?),
            "key-file" => self.key_file = Some(self.text(written)?),
            _ => return self.option_of_output(written),
        }
        Ok(())
    }

    fn option_of_output(&mut self, written: &Written) -> Result<(), UsageError> {
        match written.name.as_str() {
            "l" => self.spec.label = written.alone(Label::Rank)?,
            "prepend-pattern" => self.spec.label = Label::Pattern(self.pattern(written)?),
            "outfile-pattern" => self.spec.out_files = Some(self.pattern(written)?),
            "errfile-pattern" => self.spec.err_files = Some(self.pattern(written)?),
            "v" => self.spec.talk = written.alone(Talk::Verbose)?,
            "print-all-exitcodes" => self.spec.exit_codes = written.alone(true)?,
            "stats" => self.form = Some(stats_form(written)?),
            "stats-file" => self.file = Some(self.value(written)?.into()),
            "report" => {
                self.spec.report = Some(self.value(written)?.into());
                self.spec.matrix = true;
            }
            other => unreachable!("'{other}' is in the table and nobody reads it"),
        }
        Ok(())
    }

    /// The rest of the command line comes from a file.
    fn config(&mut self, written: &Written) -> Result<(), UsageError> {
        if std::mem::replace(&mut self.from_file, true) {
            return Err(UsageError::Conflict("--configfile", "--configfile"));
        }
        let (file, text) = self.file(written)?;
        if let Some(word) = self.args.front() {
            return Err(UsageError::Behind(word.to_string_lossy().into_owned()));
        }
        let open_quote = |line| UsageError::OpenQuote { option: written.text.clone(), file, line };
        self.args = sections(&text).map_err(open_quote)?.into();
        Ok(())
    }

    /// `NAME=VALUE`, or `NAME` as it is here.
    fn export(&mut self, written: &Written) -> Result<(), UsageError> {
        let word = self.value(written)?;
        if let Some(pair) = assignment(&word) {
            self.spec.env.push(pair);
        } else if let Some(value) = env::var_os(&word) {
            self.spec.env.push((word, value));
        }
        Ok(())
    }

    fn listed(&mut self, written: &Written) -> Result<Inherit, UsageError> {
        let text = self.text(written)?;
        Ok(Inherit::Listed(text.split(',').filter(|name| !name.is_empty()).map(OsString::from).collect()))
    }

    fn stdin(&mut self, written: &Written) -> Result<StdinTo, UsageError> {
        let text = self.text(written)?;
        match text.as_str() {
            "none" => Ok(StdinTo::Nobody),
            "all" => Ok(StdinTo::All),
            text => text.parse().map(StdinTo::Rank).map_err(|_| written.bad(text, "a rank, all or none")),
        }
    }

    fn pattern(&mut self, written: &Written) -> Result<Pattern, UsageError> {
        let value = self.text(written)?;
        let option = written.text.clone();
        Pattern::parse(&value).map_err(|error| UsageError::Pattern { option, value, error })
    }

    /// The name and the text of a file.
    fn file(&mut self, written: &Written) -> Result<(String, String), UsageError> {
        let path = self.value(written)?;
        let file = path.to_string_lossy().into_owned();
        match read_bounded(path.as_ref()) {
            Ok(text) => Ok((file, text)),
            Err(reason) => Err(UsageError::File { option: written.text.clone(), file, reason }),
        }
    }

    /// What a variable of the environment may be, too.
    fn parsed<T>(
        &mut self,
        written: &Written,
        parse: impl Fn(&str) -> Option<T>,
        wanted: Values,
    ) -> Result<T, UsageError> {
        let text = self.text(written)?;
        parse(&text).ok_or_else(|| written.bad(&text, wanted.to_string()))
    }

    fn text(&mut self, written: &Written) -> Result<String, UsageError> {
        let value = self.value(written)?;
        value.into_string().map_err(|value| written.bad(&value.to_string_lossy(), "a text in UTF-8"))
    }

    fn value(&mut self, written: &Written) -> Result<OsString, UsageError> {
        let behind = || self.args.pop_front();
        written.value.clone().or_else(behind).ok_or_else(|| UsageError::NoValue(written.text.clone()))
    }

    /// `NAME VALUE`, or `NAME=VALUE`.
    fn pair(&mut self, written: &Written) -> Result<(OsString, OsString), UsageError> {
        let name = self.value(written)?;
        if name.is_empty() || name.as_bytes().starts_with(b"=") {
            return Err(written.bad(&name.to_string_lossy(), "the name of a variable"));
        }
        if let Some(pair) = assignment(&name) {
            return Ok(pair);
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
        let count = text.parse::<u64>().ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| written.bad(&text, "a number of at least 1"))?;
        u32::try_from(count).map_err(|_| written.bad(&text, "a number of at most 4294967295"))
    }

    fn universe(&mut self, written: &Written) -> Result<(), UsageError> {
        let text = self.text(written)?;
        self.is_whole_system = text.eq_ignore_ascii_case("system");
        self.spec.universe = match text.parse().ok().filter(|size| *size > 0) {
            Some(size) => Some(size),
            None if self.is_whole_system || text.eq_ignore_ascii_case("infinite") => None,
            None => return Err(written.bad(&text, "a number of at least 1, 'system' or 'infinite'")),
        };
        Ok(())
    }

    /// Processes that the hosts take; on this host, one for each core.
    fn system_size(&self) -> u32 {
        let cores = || sys::limit::allowed_cores().map_or(1, |cores| cores.len() as u32);
        match self.spec.slots.as_slice() {
            [] => cores(),
            slots => slots.iter().fold(0, |sum, more| sum.saturating_add(*more)),
        }
    }

    /// An option that is a variable of the library's.
    fn tell_ranks(&mut self, written: &Written, variable: &'static str) -> Result<(), UsageError> {
        let text = self.text(written)?;
        proto::env::check(variable, &text).map_err(|error| written.bad(&text, error.wanted.to_string()))?;
        self.spec.env.push((variable.into(), text.into()));
        Ok(())
    }

    fn collectives(&mut self, written: &Written) -> Result<OsString, UsageError> {
        let value = self.value(written)?;
        match value.to_string_lossy().as_ref() {
            word if proto::env::COLLS.contains(&word) => Ok(value),
            other => Err(written.bad(other, "'auto', 'flat' or 'nodes'")),
        }
    }

    fn value_max(&mut self, written: &Written) -> Result<u32, UsageError> {
        let bytes = self.count(written)?;
        let fits = (2..=VALUE_BYTES_MAX as u32).contains(&bytes);
        if fits { Ok(bytes) } else { Err(written.bad(&bytes.to_string(), "a number from 2 to 65536")) }
    }

    /// What `--map-by` says, of which much is said elsewhere, too.
    fn map(&mut self, mapping: Mapping) {
        self.spec.map = mapping.by;
        self.per_node = mapping.per_node.or(self.per_node);
        self.mapped = mapping.bind.or_else(|| self.mapped.take());
    }
}

/// `NAME=VALUE`, cut at the first `=`. A value may be any bytes.
fn assignment(word: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let text = |bytes| OsStr::from_bytes(bytes).to_owned();
    Some((text(&bytes[..at]), text(&bytes[at + 1..])))
}

/// A path as it is from any folder.
fn absolute(path: String) -> String {
    std::path::absolute(&path).map_or(path, |absolute| absolute.to_string_lossy().into_owned())
}

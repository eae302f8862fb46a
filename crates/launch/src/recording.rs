//! The file of `--pattern`: what is predicted from it when a job begins, and what is learned for it when the job is over.
//!
//! A file that cannot be written is an error before anything is started. One that cannot be understood is told of, and replaced
//! by what the job teaches. It is replaced whole, by a new file that is renamed: whoever is killed leaves the old one.
use crate::launcher::JobReport;
use crate::spec::{JobSpec, Output, Talk};
use proto::pattern::{Contact, FILE_BYTES_MAX, Observed, ParseError, Pattern};
use proto::stats::Stat;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// First contacts that a rank can note.
pub(crate) const CONTACTS_MAX: u32 = 1024;
/// First contacts that ranks tell the launcher of, all together; each may tell of as many as its part, and of some in any case.
const CONTACTS_TOLD_MAX: u32 = 1 << 22;
const CONTACTS_TOLD_MIN: u32 = 16;

/// What stands at the top of a file.
const COMMENT: &str =
    "# Who talks to whom, recorded by 'banyan run --pattern'. The next job connects by it ahead of use.\n";

/// First contacts that a rank of a job of this size tells of.
pub(crate) fn contacts_told(ranks: u32) -> u32 {
    (CONTACTS_TOLD_MAX / ranks.max(1)).clamp(CONTACTS_TOLD_MIN, CONTACTS_MAX)
}

/// Why there can be no recording.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error("the pattern file '{}' cannot be written: {}", .0.display(), .1)]
    Write(PathBuf, io::Error),
    #[error("the pattern file '{}' is not a file", .0.display())]
    NoFile(PathBuf),
    #[error("'{}' is not a pattern, and would be replaced by one: --pattern names another file", .0.display())]
    NoPattern(PathBuf),
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is not text")]
    Bytes,
    #[error("it begins like none")]
    Stranger,
    #[error(transparent)]
    Parse(#[from] ParseError),
}

/// What a job does with a pattern.
#[derive(Debug)]
pub(crate) struct Recording {
    file: PathBuf,
    program: String,
    /// What was known of this program.
    before: Option<Pattern>,
    /// Was there nothing that could be lost?
    fresh: bool,
}

/// What came of it, for the report.
#[derive(Clone, Debug, Default)]
pub struct PatternReport {
    /// The file.
    pub file: PathBuf,
    /// Rules by which connections were made ahead; none: there was no pattern of this program.
    pub rules: usize,
    /// Was the file written?
    pub written: bool,
}

impl Recording {
    /// Looks at the file, and whether it can be written. Warnings are lines for the user.
    pub(crate) fn open(spec: &JobSpec, warnings: &mut Vec<String>) -> Result<Option<Self>, RecordingError> {
        let Some(named) = &spec.pattern else { return Ok(None) };
        // A link stays a link: what it leads to is replaced.
        let file = named.canonicalize().unwrap_or_else(|_| named.clone());
        check_writable(&file)?;
        let program = program_of(spec);
        let read = read(&file);
        let fresh = matches!(read, Ok(None));
        let before = match read {
            Ok(before) => before,
            Err(ReadError::Bytes | ReadError::Stranger) => return Err(RecordingError::NoPattern(file)),
            Err(error) => {
                warnings.push(format!(
                    "warning: pattern '{}': {error}; the job runs without, and replaces it",
                    named.display()
                ));
                None
            }
        };
        let (before, foreign) = match before {
            Some(before) if !before.is_of(&program) => (None, Some(before.program)),
            before => (before, None),
        };
        if let Some(other) = foreign.filter(|_| spec.talk == Talk::Verbose) {
            let (file, known) = (named.display(), if other.is_empty() { "another program" } else { &other });
            warnings.push(format!("pattern '{file}' is of '{known}', not of '{program}': it is replaced"));
        }
        Ok(Some(Recording { file, program, before, fresh }))
    }

    /// What ranks are told.
    pub(crate) fn forecast(&self) -> Option<String> {
        self.before.as_ref().filter(|before| !before.is_empty()).map(Pattern::emit_line)
    }

    /// Learns from the job, and writes the file. A job that failed has not shown all: what was known stays.
    pub(crate) fn close(&self, report: &JobReport, told: Told) -> (PatternReport, Option<String>) {
        let rules = self.before.as_ref().map_or(0, |before| before.generators.len());
        let outcome = PatternReport { file: self.file.clone(), rules, written: false };
        let observed = Observed::new(report.ranks, told.contacts, &told.cut);
        let learned = Pattern::learn(&self.program, &observed, self.before.as_ref());
        let is_useful = !learned.is_empty() && (report.exit_code == 0 || self.fresh);
        if !is_useful {
            return (outcome, None);
        }
        match replace(&self.file, &(COMMENT.to_owned() + &learned.emit())) {
            Ok(()) => {
                let (pairs, rules) = (observed.pairs(), learned.generators.len());
                let line =
                    format!("pattern '{}': {rules} rules for {pairs} pairs of ranks", self.file.display());
                (PatternReport { written: true, ..outcome }, Some(line))
            }
            Err(error) => {
                let line = format!("warning: cannot write the pattern '{}': {error}", self.file.display());
                (outcome, Some(line))
            }
        }
    }
}

/// What ranks have told of their first contacts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    contacts: Vec<Contact>,
    /// Ranks that had more than they could tell.
    cut: Vec<u32>,
}

impl Told {
    /// What a rank tells: how many there were, and rank and milliseconds in turn.
    pub(crate) fn add(&mut self, from: u32, count: u64, words: &[u32]) {
        let pairs = words.chunks_exact(2);
        if count > pairs.len() as u64 {
            self.cut.push(from);
        }
        self.contacts.extend(pairs.map(|pair| Contact { from, to: pair[0], when_ms: pair[1] }));
    }
}

impl PatternReport {
    /// For scripts.
    pub(crate) fn json(&self, report: &JobReport) -> Value {
        let (connected, used) = counts(report);
        json!({
            "file": self.file.to_string_lossy(),
            "rules": self.rules,
            "connected": connected,
            "used": used,
            "unused": connected - used,
            "written": self.written,
        })
    }

    /// For people.
    pub(crate) fn line(&self, report: &JobReport) -> String {
        let (connected, used) = counts(report);
        let file = self.file.display();
        match self.rules {
            0 => format!("pattern '{file}': nothing was known before\n"),
            rules => format!(
                "pattern '{file}': {rules} rules, {connected} connections ahead, {used} used, {} unused\n",
                connected - used
            ),
        }
    }
}

/// Connections that were made ahead, and those of them that were used.
fn counts(report: &JobReport) -> (u64, u64) {
    let sum = |stat: Stat| report.stats.iter().filter_map(|values| values.get(stat as usize)).sum::<u64>();
    let (connected, used) = (sum(Stat::ConnectionsAhead), sum(Stat::ConnectionsAheadUsed));
    (connected, used.min(connected))
}

/// Says something about the pattern where the user sees it.
pub(crate) fn say(spec: &JobSpec, report: Option<&mut JobReport>, line: &str) {
    let text = format!("banyan: {line}\n");
    match (spec.output, report) {
        (Output::Capture, Some(report)) => report.stderr.extend_from_slice(text.as_bytes()),
        (Output::Capture, None) => {}
        (Output::Inherit, _) => sys::socket::write_stderr(text.as_bytes()),
    }
}

/// The programs of a job, as a pattern knows them: by the last part of their paths.
fn program_of(spec: &JobSpec) -> String {
    let name = |section: &crate::spec::Section| {
        let path = Path::new(&section.program);
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    };
    spec.sections.iter().map(name).collect::<Vec<_>>().join(":")
}

/// `None`: there is no file yet, or it is empty.
fn read(file: &Path) -> Result<Option<Pattern>, ReadError> {
    let mut bytes = Vec::new();
    match File::open(file) {
        Ok(open) => _ = open.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(bytes).map_err(|_| ReadError::Bytes)?;
    if !Pattern::is_headed(&text) {
        return Err(ReadError::Stranger);
    }
    Ok(Some(Pattern::parse(&text)?))
}

/// May the file be written, and may one be made beside it?
fn check_writable(file: &Path) -> Result<(), RecordingError> {
    let failed = |error| RecordingError::Write(file.to_owned(), error);
    match fs::metadata(file) {
        Ok(facts) if !facts.is_file() => return Err(RecordingError::NoFile(file.to_owned())),
        Ok(_) => drop(OpenOptions::new().append(true).open(file).map_err(failed)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let beside = beside(file);
    OpenOptions::new().write(true).create_new(true).open(&beside).map_err(failed)?;
    fs::remove_file(&beside).map_err(failed)
}

/// A name for the new file.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    file.with_file_name(name)
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let beside = beside(file);
    let written = OpenOptions::new().write(true).create_new(true).open(&beside).and_then(|mut new| {
        new.write_all(text.as_bytes())?;
        if let Ok(facts) = fs::metadata(file) {
            new.set_permissions(facts.permissions())?;
        }
        new.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&beside, file));
    if replaced.is_err() {
        let _ = fs::remove_file(&beside);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(file: &Path) -> JobSpec {
        JobSpec {
            pattern: Some(file.to_owned()),
            talk: Talk::Verbose,
            ..JobSpec::new("/bin/halo", Vec::new(), 16)
        }
    }

    fn ring(ranks: u32) -> Told {
        let mut told = Told::default();
        (0..ranks).for_each(|rank| told.add(rank, 1, &[(rank + 1) % ranks, 3]));
        told
    }

    fn job(spec: &JobSpec, exit_code: i32, told: Told) -> (Vec<String>, Option<String>, PatternReport) {
        let mut warnings = Vec::new();
        let recording = Recording::open(spec, &mut warnings).unwrap().unwrap();
        let forecast = recording.forecast();
        let (report, _) = recording.close(&JobReport { exit_code, ranks: 16, ..JobReport::default() }, told);
        (warnings, forecast, report)
    }

    #[test]
    fn what_one_job_teaches_is_predicted_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(&folder.path().join("p"));
        let (warnings, forecast, report) = job(&spec, 0, ring(16));
        assert_eq!((warnings.len(), forecast, report.written, report.rules), (0, None, true, 0));
        let (_, forecast, report) = job(&spec, 0, ring(16));
        let forecast = forecast.unwrap();
        assert!(
            forecast.contains("program halo;ranks 16;") && forecast.contains(";stride 1 wrap "),
            "{forecast}"
        );
        assert_eq!(report.rules, 1);
        let text = fs::read_to_string(folder.path().join("p")).unwrap();
        assert!(text.starts_with("# ") && text.contains("\nlast predicted 32 used 32\n"), "{text}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_job_that_failed_or_showed_nothing_leaves_what_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p");
        let spec = spec(&file);
        assert!(!job(&spec, 0, Told::default()).2.written && !file.exists());
        assert!(job(&spec, 1, ring(16)).2.written, "it is better than nothing");
        let before = fs::read_to_string(&file).unwrap();
        assert!(!job(&spec, 137, ring(8)).2.written && !job(&spec, 0, Told::default()).2.written);
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
    }

    #[test]
    fn a_pattern_of_another_program_or_none_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p");
        fs::write(&file, "banyan pattern 1\nprogram other\nranks 8\nall after 0 hits 1 misses 0\n").unwrap();
        let (warnings, forecast, report) = job(&spec(&file), 0, ring(16));
        assert!(warnings[0].ends_with("is of 'other', not of 'halo': it is replaced"), "{warnings:?}");
        assert_eq!((forecast, report.written), (None, true));
        fs::write(&file, "banyan pattern 1\nranks 8\nmoon\n").unwrap();
        let (warnings, forecast, report) = job(&spec(&file), 0, ring(16));
        assert!(warnings[0].contains("line 3: 'moon' is nothing that a pattern has"), "{warnings:?}");
        assert_eq!((forecast, report.written), (None, true));
    }

    #[test]
    fn what_cannot_be_written_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let error = |file: &Path| Recording::open(&spec(file), &mut Vec::new()).unwrap_err().to_string();
        let file = folder.path().join("p");
        for bytes in [&b"\xff\xfe"[..], b"int main(void);\n"] {
            fs::write(&file, bytes).unwrap();
            assert!(error(&file).contains("is not a pattern"), "{}", error(&file));
        }
        assert!(error(folder.path()).ends_with("is not a file"));
        let missing = folder.path().join("no/such/folder");
        assert!(
            error(&missing).contains("cannot be written: No such file or directory"),
            "{}",
            error(&missing)
        );
    }

    #[test]
    fn ranks_that_could_not_tell_all_are_known() {
        let mut told = Told::default();
        told.add(3, 2, &[1, 5, 2, 6]);
        told.add(4, 9, &[1, 5]);
        assert_eq!((told.contacts.len(), told.cut), (3, vec![4]));
        assert_eq!((contacts_told(16), contacts_told(1 << 16), contacts_told(1 << 20)), (1024, 64, 16));
    }

    #[test]
    fn programs_are_known_by_their_names() {
        let mut spec = JobSpec::new("/usr/bin/a", Vec::new(), 1);
        spec.sections.push(crate::spec::Section { ranks: 1, program: "./b".into(), ..Default::default() });
        assert_eq!(program_of(&spec), "a:b");
    }
}

//! Whether what a rank wrote is shown before its line ends.
//!
//! Output goes out in whole lines, so that those of different ranks do not mix. But a prompt ends only when it is
//! answered. So an unfinished line is shown after a moment
//!
//! * where it can be told who speaks: lines are labelled, or the output is a terminal. If another rank speaks meanwhile, a
//!   new line is begun for it (`launcher::sink`);
//! * from the rank that reads standard input, if somebody may be waiting to answer it (a terminal or a pipe), or if there
//!   is no other rank.
//!
//! Elsewhere, where many ranks share a file or a pipe, lines stay whole and nothing is ever inserted.
use crate::spec::{JobSpec, Label, Output};
use proto::tree::Stream;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use sys::socket::{self, FileKind};

/// How long a line may stay unfinished until it is shown.
pub(crate) const UNFINISHED_AFTER: Duration = Duration::from_millis(100);
/// What libraries that buffer output write at once, or a multiple of it. A line that is cut there goes on with the next block;
/// nobody waits for an answer.
pub(crate) const STDIO_BLOCK_BYTES: usize = 4096;

/// Whose unfinished lines are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// Nobody's.
    Kept,
    /// Those of ranks that read standard input.
    OfReaders,
    /// Everybody's.
    Shown,
}

impl Unfinished {
    /// What suits the streams of a job, standard output first.
    pub(crate) fn of_job(spec: &JobSpec) -> [Self; 2] {
        let input = socket::file_kind(io::stdin().as_fd());
        let kind = |fd| if spec.output == Output::Inherit { socket::file_kind(fd) } else { FileKind::Plain };
        [
            Self::of_stream(spec, Stream::Out, kind(io::stdout().as_fd()), input),
            Self::of_stream(spec, Stream::Err, kind(io::stderr().as_fd()), input),
        ]
    }

    fn of_stream(spec: &JobSpec, stream: Stream, output: FileKind, input: FileKind) -> Self {
        let files = match stream {
            Stream::Out => &spec.out_files,
            Stream::Err => &spec.err_files,
        };
        if files.is_some() {
            Unfinished::Kept
        } else if spec.label != Label::None || output == FileKind::Terminal {
            Unfinished::Shown
        } else if input != FileKind::Plain || spec.ranks() == 1 {
            Unfinished::OfReaders
        } else {
            Unfinished::Kept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn lines_are_shown_early_only_where_that_does_no_harm() {
        let rule = |spec: &JobSpec, output, input| Unfinished::of_stream(spec, Stream::Out, output, input);
        let two = JobSpec::new("a", Vec::new(), 2);
        let (plain, pipe, terminal) = (FileKind::Plain, FileKind::Stream, FileKind::Terminal);
        assert_eq!(rule(&two, plain, plain), Unfinished::Kept);
        assert_eq!(rule(&two, pipe, plain), Unfinished::Kept);
        assert_eq!(rule(&two, pipe, pipe), Unfinished::OfReaders);
        assert_eq!(rule(&two, pipe, terminal), Unfinished::OfReaders);
        assert_eq!(rule(&two, terminal, plain), Unfinished::Shown);
        assert_eq!(rule(&JobSpec { label: Label::Rank, ..two.clone() }, pipe, plain), Unfinished::Shown);
        assert_eq!(rule(&JobSpec::new("a", Vec::new(), 1), pipe, plain), Unfinished::OfReaders);
        let files = JobSpec { out_files: Pattern::parse("f").ok(), ..two };
        assert_eq!(rule(&files, terminal, terminal), Unfinished::Kept);
    }
}

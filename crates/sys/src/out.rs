//! Standard output of commands, as shells expect it: a reader that has seen enough (`| head -1`) is no failure to
//! speak of.
use crate::signal::SIGPIPE;
use std::io::{self, Write};

/// The code with which a shell reports a process that SIGPIPE has ended.
pub const NOBODY_READS: i32 = 128 + SIGPIPE;

/// Prints a text, and ends the process if that cannot be done: in silence with [`NOBODY_READS`] when nobody reads it any
/// more, else with a word about why.
///
/// The signal itself stays ignored: a launcher writes to pipes of programs, whose end is no end of its own.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) else { return };
    if error.kind() != io::ErrorKind::BrokenPipe {
        crate::socket::write_stderr(format!("banyan: cannot write to standard output: {error}\n").as_bytes());
        std::process::exit(1);
    }
    std::process::exit(NOBODY_READS);
}

/// [`print`] with a format, and the end of a line behind it.
#[macro_export]
macro_rules! say {
    ($($what:tt)*) => { $crate::out::print(&format!("{}\n", format_args!($($what)*))) };
}

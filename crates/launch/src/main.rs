//! The launcher alone, for this crate's own process tests. Users have it as `banyan run` and `mpiexec`.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::Write;

fn main() {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|word| word == banyan_launch::SERVER_OPTION) {
        stand_in();
    }
    std::process::exit(banyan_launch::main(args));
}

/// Takes the place of a data server, which this crate knows nothing of but how it is started and ended.
fn stand_in() -> ! {
    sys::process::set_name(banyan_launch::SERVER_NAME);
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(b"ready\n").and_then(|()| stdout.flush());
    loop {
        std::thread::park();
    }
}

//! The launcher alone, for this crate's own process tests. Users have it as `banyan run` and `mpiexec`.
#![forbid(unsafe_code)]

fn main() {
    std::process::exit(banyan_launch::main(std::env::args_os().skip(1).collect()));
}

//! `banyan run` on its own.
fn main() {
    std::process::exit(banyan_launch::main(std::env::args_os().skip(1).collect()));
}

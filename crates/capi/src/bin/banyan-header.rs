//! Prints the `mpi.h` of one binary interface: `banyan-header mpich` or `banyan-header standard`.
#[path = "../../table/gen.rs"]
mod table;

fn main() {
    let side = match std::env::args().nth(1).as_deref() {
        Some("mpich") => table::Side::Mpich,
        Some("standard") => table::Side::Std,
        _ => {
            eprintln!("usage: banyan-header mpich|standard");
            std::process::exit(2);
        }
    };
    print!("{}", table::c_header(side));
}

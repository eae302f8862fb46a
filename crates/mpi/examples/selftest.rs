//! Checks the engine in a real job and exits non-zero with a message if anything is wrong.
//!
//! `cargo build -p banyan-mpi --example selftest`, then run it with any number of processes.
fn main() -> std::process::ExitCode {
    let rank = std::env::var("PMI_RANK").unwrap_or_else(|_| "0".into());
    match mpi::selftest::run() {
        Ok(checks) => {
            if rank == "0" {
                println!("selftest: {checks} checks on rank 0, all right");
            }
            std::process::ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("selftest: {what}");
            std::process::ExitCode::FAILURE
        }
    }
}

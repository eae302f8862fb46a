//! `pgas_kernels NAME [SIZE]`: one of the programs on global arrays; without a name it lists them.
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::ExitCode::from(pgas_kernels::main(&args) as u8)
}

//! `kernels NAME [SIZE]`: one of the kernels, or of the calls beside them; without a name it lists them.
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::ExitCode::from(kernels::main(&args) as u8)
}

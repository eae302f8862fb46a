//! `banyan info`: the version, the machine, and what its kernel allows.
use std::io;
use sys::say;

/// Prints one fact per line.
pub fn main() -> i32 {
    say!("banyan     {}", env!("CARGO_PKG_VERSION"));
    say!("processor  {}", processor());
    match sys::limit::allowed_cores() {
        Ok(cores) => say!("cores      {} ({})", cores.len(), ranges(&cores)),
        Err(e) => say!("cores      unknown: {e}"),
    }
    say!("kernel     {}", read("/proc/sys/kernel/osrelease"));
    fact(
        "memfd",
        sys::SharedMemory::create("banyan-info", 4096).map(|_| "shared segments without files".into()),
    );
    fact(
        "process_vm_readv",
        sys::probe::process_vm_readv().map(|()| "large messages are read directly from the sender".into()),
    );
    fact("membarrier", sys::probe::membarrier().map(|(between, inside)| membarrier_text(between, inside)));
    0
}

/// The processor's name, as the kernel gives it.
pub fn processor() -> String {
    let text = read("/proc/cpuinfo");
    let name =
        text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_string(), |(_, name)| name.to_string())
}

fn fact(what: &str, answer: io::Result<String>) {
    match answer {
        Ok(text) => say!("{what:<18} yes: {text}"),
        Err(e) => say!("{what:<18} no: {e}"),
    }
}

fn membarrier_text(between: bool, inside: bool) -> String {
    let word = |yes: bool| if yes { "yes" } else { "no" };
    format!("between processes {}, inside a process {}", word(between), word(inside))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_string())
}

/// "0-3,8" for 0, 1, 2, 3, 8.
fn ranges(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let part = |&(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn cores_are_written_as_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[0, 1, 2, 4, 6, 7]), "0-2,4,6-7");
    }
}

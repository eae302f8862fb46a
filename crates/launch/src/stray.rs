//! Processes of a job that no living agent, warden or launcher has among its descendants.
//!
//! Orphans come to the nearest of these that lives, so strays exist only when an agent was killed together with
//! everything above it. Whoever survives then finds them by what all processes of a job inherit, and kills them.
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use sys::process::{self, Pid, Target};
use sys::signal::SIGKILL;

/// The variable of ranks that names their job.
pub(crate) const JOB_VARIABLE: &str = "PMI_JOBID";
/// Rounds of killing: a process may fork while it is looked for.
const ROUNDS_MAX: u32 = 200;
const ROUND_PAUSE: Duration = Duration::from_millis(2);

/// Kills all processes of this user that are of a job whose name begins so. A process that has cleared its
/// environment is not found.
pub(crate) fn kill_strays(name: &str) {
    for _ in 0..ROUNDS_MAX {
        let strays = strays(name);
        if strays.is_empty() {
            return;
        }
        for pid in strays {
            let _ = process::kill(Target::Process(pid), SIGKILL);
        }
        std::thread::sleep(ROUND_PAUSE); // the kernel needs a moment to end them
    }
}

fn strays(name: &str) -> Vec<Pid> {
    let wanted = format!("{JOB_VARIABLE}={name}").into_bytes();
    let user = process::effective_user();
    let stray = |entry: fs::DirEntry| {
        let pid = Pid(entry.file_name().to_str()?.parse().ok()?);
        let is_ours = pid != Pid::own() && entry.metadata().ok()?.uid() == user;
        let environment = is_ours.then(|| fs::read(entry.path().join("environ")).ok()).flatten()?;
        environment.split(|&b| b == 0).any(|variable| variable.starts_with(&wanted)).then_some(pid)
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(stray).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn processes_of_the_job_die_and_others_live() {
        let name = format!("banyan-test-{}", std::process::id());
        let sleeper = |job: &str| Command::new("sleep").arg("60").env(JOB_VARIABLE, job).spawn().unwrap();
        let mut spawned = sleeper(&format!("{name}.1"));
        let mut first = sleeper(&name);
        let mut other = sleeper(&name[1..]);
        // A child of this process stays a zombie until it is waited for, and a zombie has no environment.
        kill_strays(&name);
        assert!(!first.wait().unwrap().success());
        assert!(!spawned.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

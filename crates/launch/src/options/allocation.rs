//! The hosts that a batch system has given to this job, as its environment tells. Pure but for reading a file.
use super::hosts::{Host, HostsError, expand_list, parse_file};
use crate::bootstrap::{Bootstrap, SSH};
use std::collections::BTreeSet;
use std::fs;

/// Longest file of hosts that a batch system writes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What a batch system has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) system: &'static str,
    pub(crate) hosts: Vec<Host>,
    pub(crate) bootstrap: Bootstrap,
}

/// Why an allocation cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AllocationError {
    #[error("{variable}: {error}")]
    Hosts { variable: &'static str, error: HostsError },
    #[error("{variable}: '{value}' is not understood")]
    Value { variable: &'static str, value: String },
    #[error("{variable}: cannot read '{file}': {reason}")]
    File { variable: &'static str, file: String, reason: String },
}

/// The hosts in the file that users of another launcher have named for all of their jobs.
pub(crate) fn host_file(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Vec<Host>>, AllocationError> {
    let name = "HYDRA_HOST_FILE";
    let Some(file) = variable(name) else { return Ok(None) };
    let hosts = parse_file(&read(name, &file)?);
    hosts.map(Some).map_err(|error| AllocationError::Hosts { variable: name, error })
}

/// Finds the allocation in an environment.
pub(crate) fn detect(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Allocation>, AllocationError> {
    let shell = || Bootstrap::Shell(SSH.map(String::from).into());
    let found = |system, hosts, bootstrap| Ok(Some(Allocation { system, hosts, bootstrap }));
    if let (Some(_), Some(list)) = (variable("SLURM_JOB_ID"), variable("SLURM_JOB_NODELIST")) {
        let slots = variable("SLURM_TASKS_PER_NODE").or_else(|| variable("SLURM_JOB_CPUS_PER_NODE"));
        return found("Slurm", slurm_hosts(&list, slots.as_deref())?, Bootstrap::Slurm);
    }
    if let Some(file) = variable("PBS_NODEFILE") {
        return found("PBS", counted_hosts(&read("PBS_NODEFILE", &file)?), shell());
    }
    if let Some(text) = variable("LSB_MCPU_HOSTS") {
        return found("LSF", lsf_hosts(&text)?, shell());
    }
    if let Some(file) = variable("PE_HOSTFILE") {
        return found("Grid Engine", engine_hosts(&read("PE_HOSTFILE", &file)?)?, shell());
    }
    Ok(None)
}

/// Has Slurm given all of these hosts to this job? Then srun reaches them.
pub(crate) fn slurm_has(hosts: &[Host], variable: impl Fn(&str) -> Option<String>) -> bool {
    let Ok(Some(allocation)) = detect(variable) else { return false };
    let given: BTreeSet<&str> = allocation.hosts.iter().map(|host| host.host.name.as_str()).collect();
    allocation.bootstrap == Bootstrap::Slurm
        && hosts.iter().all(|host| host.host.user.is_none() && given.contains(host.host.name.as_str()))
}

fn read(variable: &'static str, file: &str) -> Result<String, AllocationError> {
    let bad = |reason: String| AllocationError::File { variable, file: file.into(), reason };
    let length = fs::metadata(file).map_err(|error| bad(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(bad(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    fs::read_to_string(file).map_err(|error| bad(error.to_string()))
}

/// `n[1-4]`, with `2(x3),1` tasks.
fn slurm_hosts(list: &str, slots: Option<&str>) -> Result<Vec<Host>, AllocationError> {
    let variable = "SLURM_JOB_NODELIST";
    let names = expand_list(list).map_err(|error| AllocationError::Hosts { variable, error })?;
    let slots = slots.map(slurm_counts).transpose()?.unwrap_or_default();
    let of = |at: usize| slots.get(at).copied();
    Ok(names
        .into_iter()
        .enumerate()
        .map(|(at, name)| Host { host: name.as_str().into(), slots: of(at) })
        .collect())
}

/// `2(x3),1` is 2, 2, 2, 1.
fn slurm_counts(text: &str) -> Result<Vec<u32>, AllocationError> {
    let bad = || AllocationError::Value {
        variable: "SLURM_TASKS_PER_NODE",
        value: text.chars().take(64).collect(),
    };
    let mut counts = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => {
                (count, times.strip_suffix(')').ok_or_else(bad)?.parse().map_err(|_| bad())?)
            }
            None => (part, 1_u32),
        };
        let count: u32 = count.parse().map_err(|_| bad())?;
        if count == 0 || counts.len() + times as usize > super::hosts::HOSTS_MAX {
            return Err(bad());
        }
        counts.extend(std::iter::repeat_n(count, times as usize));
    }
    Ok(counts)
}

/// One line per slot.
fn counted_hosts(text: &str) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for name in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match hosts.iter_mut().find(|host| host.host.name == name) {
            Some(host) => host.slots = host.slots.map(|slots| slots + 1),
            None => hosts.push(Host { host: name.into(), slots: Some(1) }),
        }
    }
    hosts
}

/// `alpha 4 beta 2`.
fn lsf_hosts(text: &str) -> Result<Vec<Host>, AllocationError> {
    let bad =
        || AllocationError::Value { variable: "LSB_MCPU_HOSTS", value: text.chars().take(64).collect() };
    let words: Vec<&str> = text.split_whitespace().collect();
    let host = |pair: &[&str]| match pair {
        [name, slots] => Ok(Host { host: (*name).into(), slots: Some(slots.parse().map_err(|_| bad())?) }),
        _ => Err(bad()),
    };
    words.chunks(2).map(host).collect()
}

/// `alpha 4 queue processors` per line.
fn engine_hosts(text: &str) -> Result<Vec<Host>, AllocationError> {
    let bad = |line: &str| AllocationError::Value {
        variable: "PE_HOSTFILE",
        value: line.chars().take(64).collect(),
    };
    let host = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, slots) = (words.next().ok_or_else(|| bad(line))?, words.next().ok_or_else(|| bad(line))?);
        Ok(Host { host: name.into(), slots: Some(slots.parse().map_err(|_| bad(line))?) })
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn found(variables: &[(&str, &str)]) -> Result<Option<Allocation>, AllocationError> {
        let map: HashMap<&str, &str> = variables.iter().copied().collect();
        detect(|name| map.get(name).map(|value| (*value).into()))
    }

    fn hosts(allocation: &Allocation) -> Vec<(&str, Option<u32>)> {
        allocation.hosts.iter().map(|host| (host.host.name.as_str(), host.slots)).collect()
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(found(&[("SLURM_JOB_ID", "7"), ("HOME", "/")]), Ok(None));
    }

    #[test]
    fn srun_reaches_the_hosts_of_its_allocation_and_no_others() {
        let slurm = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[1-4]")];
        let has = |list: &str, environment: &[(&str, &str)]| {
            let hosts = super::super::hosts::parse_list(list).unwrap();
            let value =
                |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).into());
            slurm_has(&hosts, value)
        };
        assert!(has("n2:4,n4", &slurm));
        assert!(!has("n2,n5", &slurm) && !has("me@n2", &slurm));
        assert!(!has("localhost", &slurm));
        assert!(!has("n2", &[("LSB_MCPU_HOSTS", "n2 4")]));
        assert!(!has("n2", &[]));
    }

    #[test]
    fn slurm_counts_tasks_of_each_node() {
        let variables = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_NODELIST", "n[1-3],login"),
            ("SLURM_TASKS_PER_NODE", "2(x3),1"),
        ];
        let allocation = found(&variables).unwrap().unwrap();
        assert_eq!((allocation.system, &allocation.bootstrap), ("Slurm", &Bootstrap::Slurm));
        let expected = [("n1", Some(2)), ("n2", Some(2)), ("n3", Some(2)), ("login", Some(1))];
        assert_eq!(hosts(&allocation), expected);
        let bad = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n1"), ("SLURM_TASKS_PER_NODE", "2(x")];
        assert_eq!(found(&bad).unwrap_err().to_string(), "SLURM_TASKS_PER_NODE: '2(x' is not understood");
    }

    #[test]
    fn pbs_lsf_and_grid_engine_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, "alpha\nalpha\nbeta\n").unwrap();
        let pbs = found(&[("PBS_NODEFILE", file.to_str().unwrap())]).unwrap().unwrap();
        assert_eq!(hosts(&pbs), [("alpha", Some(2)), ("beta", Some(1))]);
        let lsf = found(&[("LSB_MCPU_HOSTS", "alpha 4 beta 2 ")]).unwrap().unwrap();
        assert_eq!(hosts(&lsf), [("alpha", Some(4)), ("beta", Some(2))]);
        assert!(found(&[("LSB_MCPU_HOSTS", "alpha 4 beta")]).is_err());
        std::fs::write(&file, "alpha 4 all.q UNDEFINED\nbeta 1 all.q <NULL>\n").unwrap();
        let engine = found(&[("PE_HOSTFILE", file.to_str().unwrap())]).unwrap().unwrap();
        assert_eq!(hosts(&engine), [("alpha", Some(4)), ("beta", Some(1))]);
        assert!(
            found(&[("PBS_NODEFILE", "/no/such/file")]).unwrap_err().to_string().contains("/no/such/file")
        );
    }
}

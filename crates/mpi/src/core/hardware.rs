//! The hardware that this process may use, as far as the kernel tells: packages, memory nodes, caches, cores. A process
//! belongs to a resource if all processors that it may run on do (MPI-5 7.4.2).
use std::fs;
use std::path::Path;

/// A kind of hardware, from the largest to the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// What shares memory.
    Node,
    /// A socket.
    Package,
    /// What has memory of its own.
    NumaNode,
    /// A cache for data, by level.
    Cache(u8),
    /// A core.
    Core,
    /// A hardware thread.
    Thread,
}

/// The name that MPI itself gives to a node.
const SHARED_MEMORY: &str = "mpi_shared_memory";
const PREFIX: &str = "hwloc://";
/// Processors that are looked at.
const CPUS_MAX: u32 = 1 << 16;

impl Resource {
    /// All kinds.
    pub const ALL: [Resource; 8] = [
        Resource::Node,
        Resource::Package,
        Resource::NumaNode,
        Resource::Cache(3),
        Resource::Cache(2),
        Resource::Cache(1),
        Resource::Core,
        Resource::Thread,
    ];

    /// Its name: that of MPI for a node, those of hwloc for the rest.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Node => SHARED_MEMORY,
            Resource::Package => "hwloc://Package",
            Resource::NumaNode => "hwloc://NUMANode",
            Resource::Cache(1) => "hwloc://L1Cache",
            Resource::Cache(2) => "hwloc://L2Cache",
            Resource::Cache(_) => "hwloc://L3Cache",
            Resource::Core => "hwloc://Core",
            Resource::Thread => "hwloc://PU",
        }
    }

    /// By its name, with or without the scheme, or by another name in use.
    pub fn named(name: &str) -> Option<Resource> {
        let short = name.strip_prefix(PREFIX).unwrap_or(name).to_ascii_lowercase();
        Some(match short.as_str() {
            SHARED_MEMORY | "machine" | "node" => Resource::Node,
            "package" | "socket" => Resource::Package,
            "numanode" => Resource::NumaNode,
            "l3cache" | "l3ucache" => Resource::Cache(3),
            "l2cache" | "l2ucache" => Resource::Cache(2),
            "l1cache" | "l1dcache" => Resource::Cache(1),
            "core" => Resource::Core,
            "pu" | "hwthread" => Resource::Thread,
            _ => return None,
        })
    }

    /// The one of this kind that this process belongs to: the number of its first processor. `None`: to none, or to several.
    pub fn of_this_process(self) -> Option<u32> {
        let allowed = allowed_cpus()?;
        let mut found = allowed.iter().map(|cpu| self.of_cpu(Path::new("/sys/devices/system"), *cpu));
        let first = found.next()??;
        found.all(|other| other == Some(first)).then_some(first)
    }

    /// The one that a processor belongs to.
    fn of_cpu(self, system: &Path, cpu: u32) -> Option<u32> {
        let folder = system.join(format!("cpu/cpu{cpu}"));
        let first = |file: &Path| cpus(&fs::read_to_string(file).ok()?)?.first().copied();
        match self {
            Resource::Node => Some(0),
            Resource::Thread => Some(cpu),
            Resource::Core => first(&folder.join("topology/thread_siblings_list")),
            Resource::Package => first(&folder.join("topology/core_siblings_list")),
            Resource::Cache(level) => (0..8).find_map(|index| {
                let cache = folder.join(format!("cache/index{index}"));
                let read = |name: &str| fs::read_to_string(cache.join(name)).ok();
                let fits =
                    read("level")?.trim() == level.to_string() && read("type")?.trim() != "Instruction";
                if fits { first(&cache.join("shared_cpu_list")) } else { None }
            }),
            Resource::NumaNode => {
                let lists = fs::read_dir(system.join("node")).ok()?;
                let lists =
                    lists.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("cpulist")).ok());
                let mut lists = lists.filter_map(|text| cpus(&text));
                lists.find(|list| list.contains(&cpu))?.first().copied()
            }
        }
    }
}

fn allowed_cpus() -> Option<Vec<u32>> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    cpus(line)
}

/// The processors of a list as the kernel writes it, such as `0-3,8`, in order.
fn cpus(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= CPUS_MAX {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(cpus("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus("\n"), Some(vec![]));
        assert_eq!(cpus("3-x"), None);
        assert_eq!(cpus("0-4294967295"), None);
    }

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in Resource::ALL {
            assert_eq!(Resource::named(kind.name()), Some(kind));
        }
        assert_eq!(Resource::named("socket"), Some(Resource::Package));
        assert_eq!(Resource::named("hwloc://core"), Some(Resource::Core));
        assert_eq!(Resource::named("torus"), None);
    }

    /// Two packages of two cores with two threads each, as the kernel shows them.
    #[test]
    fn processors_find_their_resources() {
        let system = std::env::temp_dir().join(format!("banyan-hardware-{}", std::process::id()));
        for cpu in 0..8u32 {
            let (core, package) = (cpu % 4, cpu % 4 / 2);
            let topology = system.join(format!("cpu/cpu{cpu}/topology"));
            let cache = system.join(format!("cpu/cpu{cpu}/cache/index0"));
            let place = [&topology, &cache];
            place.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
            let of_package =
                format!("{}-{},{}-{}", 2 * package, 2 * package + 1, 2 * package + 4, 2 * package + 5);
            fs::write(topology.join("thread_siblings_list"), format!("{core},{}\n", core + 4)).unwrap();
            fs::write(topology.join("core_siblings_list"), &of_package).unwrap();
            fs::write(cache.join("level"), "3\n").unwrap();
            fs::write(cache.join("type"), "Unified\n").unwrap();
            fs::write(cache.join("shared_cpu_list"), &of_package).unwrap();
        }
        let of = |kind: Resource, cpu| kind.of_cpu(&system, cpu);
        assert_eq!(
            (of(Resource::Core, 5), of(Resource::Core, 1), of(Resource::Core, 2)),
            (Some(1), Some(1), Some(2))
        );
        assert_eq!((of(Resource::Package, 7), of(Resource::Package, 4)), (Some(2), Some(0)));
        assert_eq!((of(Resource::Cache(3), 6), of(Resource::Cache(2), 6)), (Some(2), None));
        assert_eq!((of(Resource::Thread, 6), of(Resource::NumaNode, 6)), (Some(6), None));
        fs::remove_dir_all(system).unwrap();
    }
}

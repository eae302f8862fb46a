//! A process that is alone although another launcher has started it among others. Pure.

/// A launcher that does not speak PMI on `PMI_FD` or `PMI_PORT`, by what it sets.
struct Launcher {
    size: &'static str,
    rank: &'static str,
    name: &'static str,
    remedy: &'static str,
}

const LAUNCHERS: [Launcher; 6] = [
    Launcher {
        size: "OMPI_COMM_WORLD_SIZE",
        rank: "OMPI_COMM_WORLD_RANK",
        name: "Open MPI's mpirun",
        remedy: "start it with Banyan's 'mpiexec'",
    },
    Launcher {
        size: "SLURM_STEP_NUM_TASKS",
        rank: "SLURM_PROCID",
        name: "srun",
        remedy: "start it with 'srun --mpi=pmi2', or with Banyan's 'mpiexec' inside the allocation",
    },
    Launcher {
        size: "FLUX_JOB_SIZE",
        rank: "FLUX_TASK_RANK",
        name: "flux",
        remedy: "start it with Banyan's 'mpiexec' on the hosts of the allocation ('--hosts')",
    },
    Launcher {
        size: "JSM_NAMESPACE_SIZE",
        rank: "JSM_NAMESPACE_RANK",
        name: "jsrun",
        remedy: "start it with Banyan's 'mpiexec' on the hosts of the allocation ('--hosts')",
    },
    Launcher {
        size: "PMI_SIZE",
        rank: "PMI_RANK",
        name: "a launcher with another kind of PMI",
        remedy: "start it with Banyan's 'mpiexec', or with a launcher that sets PMI_FD or PMI_PORT",
    },
    Launcher {
        size: "PALS_SIZE",
        rank: "PALS_RANKID",
        name: "PALS",
        remedy: "start it with Banyan's 'mpiexec' on the hosts of the allocation ('--hosts')",
    },
];

/// What to say, if variables tell of more processes than one and this is the first of them.
pub(crate) fn warning(get: impl Fn(&str) -> Option<String>) -> Option<String> {
    let number = |name: &str| get(name).and_then(|text| text.trim().parse::<u32>().ok());
    let found = LAUNCHERS.iter().find_map(|launcher| {
        let size = number(launcher.size).filter(|size| *size > 1)?;
        Some((launcher, size))
    });
    let (launcher, size) = found?;
    let is_first = number(launcher.rank).unwrap_or(0) == 0;
    is_first.then(|| {
        format!(
            "banyan: warning: {} ({}={size}) has started this process, but not as a part of an MPI job that Banyan's library \
             knows of: each of the {size} processes is rank 0 of 1; {}\n",
            launcher.name, launcher.size, launcher.remedy
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(variables: &[(&str, &str)]) -> Option<String> {
        warning(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into()))
    }

    #[test]
    fn the_first_of_several_processes_says_who_started_it_and_what_helps() {
        let text = said(&[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "0")]).unwrap();
        assert!(
            text.contains("Open MPI's mpirun (OMPI_COMM_WORLD_SIZE=4)") && text.contains("'mpiexec'"),
            "{text}"
        );
        let text = said(&[("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "0")]).unwrap();
        assert!(text.contains("srun --mpi=pmi2"), "{text}");
        assert_eq!(said(&[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "1")]), None);
    }

    #[test]
    fn a_process_that_is_alone_by_right_says_nothing() {
        // In a batch script, SLURM_NTASKS is that of the allocation.
        for variables in [
            &[][..],
            &[("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")],
            &[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")],
            &[("PMI_SIZE", "nonsense")],
        ] {
            assert_eq!(said(variables), None, "{variables:?}");
        }
    }
}

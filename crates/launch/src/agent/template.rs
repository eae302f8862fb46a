//! What a rank is started with: its program and its environment.
use super::alone::{fit, place_of};
use crate::job::Group;
use crate::program::is_binary;
use crate::stray::JOB_VARIABLE;
use proto::pmgr::variables;
use std::io;
use sys::node::NodeSegment;
use sys::process::spawn::{Program, Slot};

/// The descriptor under which a rank finds its agent: the first behind the standard ones.
const PMI_FD: &str = "PMI_FD=3";
/// The longest placement that is told in the environment.
const MAPPING_BYTES_MAX: usize = 1024;
/// Has Intel MPI sleep where it waits. It does so by itself when ranks share cores, but only if its own launcher has told
/// it of them; otherwise it spins, and a spawn by 32 ranks to 32 on two cores takes 18 to 37 s instead of 8.
const WAIT_MODE: &str = "I_MPI_WAIT_MODE";

/// A program of the job with the variables that differ from rank to rank.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) program: Program,
    pub(super) rank: Slot,
    pub(super) local_rank: Slot,
    /// Its rank once more, where PMGR is served.
    pub(super) pmgr_rank: Option<Slot>,
    /// What its user should know.
    pub(super) warnings: Vec<String>,
}

impl Template {
    /// For the ranks of a section of which so many are on this node.
    pub(super) fn new(
        group: &Group,
        section: usize,
        local: u32,
        segment: &NodeSegment,
        variables: &[Vec<u8>],
    ) -> io::Result<Self> {
        let found = &group.programs[section];
        let mut env = environment(found.env.clone(), group, local, segment, variables)?;
        if segment.facts().oversubscribed && !is_set(&found.env, WAIT_MODE) {
            env.push(format!("{WAIT_MODE}=1").into());
        }
        let path = found.path_here().map_err(|error| error.as_system())?;
        let warnings = fit(&path, found.folder.as_deref(), &mut env, group.ranks());
        let mut program = Program::new(&path, found.args.clone(), env, found.folder.clone())?;
        if is_binary(&place_of(&path, found.folder.as_deref())) {
            program.set_binary();
        }
        let rank = program.add_number("PMI_RANK");
        let local_rank = program.add_number("MPI_LOCALRANKID");
        let pmgr_rank = is_set(&found.env, variables::PORT).then(|| program.add_number(variables::RANK));
        Ok(Template { program, rank, local_rank, pmgr_rank, warnings })
    }
}

/// What processes of a job on a node find in their environment, behind what their user has put there.
pub(super) fn environment(
    mut env: Vec<Vec<u8>>,
    group: &Group,
    local: u32,
    segment: &NodeSegment,
    variables: &[Vec<u8>],
) -> io::Result<Vec<Vec<u8>>> {
    env.push(PMI_FD.into());
    env.push(format!("PMI_SIZE={}", group.ranks()).into());
    env.push(format!("{JOB_VARIABLE}={}", group.name).into());
    env.push(format!("MPI_LOCALNRANKS={local}").into());
    env.push(format!("{}={}", proto::env::NODE, segment.locator()?).into());
    env.extend_from_slice(variables);
    if group.spawner.is_some() {
        env.push(b"PMI_SPAWNED=1".to_vec());
    }
    // Spares Banyan's library a question; a placement that is no few blocks is asked for.
    let mapping = group.placement.to_string();
    if mapping.len() <= MAPPING_BYTES_MAX {
        env.push(format!("{}={mapping}", proto::env::MAPPING).into());
    }
    Ok(env)
}

/// Is there a variable of this name?
fn is_set(env: &[Vec<u8>], name: &str) -> bool {
    let value_of = |variable: &[u8]| variable.strip_prefix(name.as_bytes())?.first().copied();
    env.iter().any(|variable| value_of(variable) == Some(b'='))
}

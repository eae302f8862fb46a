//! Trees and jobs as bytes, for agents that do not have them by fork.
use crate::bootstrap::Bootstrap;
use crate::job::{Counters, Group, Spread, StdinBy, Tree};
use crate::program::{Found, Search};
use crate::spec::{Bind, HostName, RANKS_MAX, StdinTo};
use crate::unfinished::Unfinished;
use proto::board::BoardKind;
use proto::ids::NodeId;
use proto::lane::JobId;
use proto::placement::{Placement, Row};
use proto::tree::{Frame, Pair, Shape};
use proto::wire::{Reader, Writer};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

/// Bytes of a description in one frame.
const PART_BYTES_MAX: usize = 192 << 10;
/// Longest description. What a user's environment and arguments can be is bounded by the system.
pub(crate) const DESCRIPTION_BYTES_MAX: u32 = 64 << 20;

/// A description that is not understood: both ends are the same program, so this is a stranger or a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a malformed description of a job")]
pub(crate) struct Malformed;

/// Collects the parts of descriptions from a link.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    bytes: Vec<u8>,
}

impl Parts {
    /// Takes the next part. The whole, once it is there.
    pub(crate) fn push(&mut self, rest: u32, bytes: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        let expected = u64::from(rest) + (self.bytes.len() + bytes.len()) as u64;
        if expected > u64::from(DESCRIPTION_BYTES_MAX) {
            return Err(Malformed);
        }
        self.bytes.extend_from_slice(bytes);
        Ok((rest == 0).then(|| std::mem::take(&mut self.bytes)))
    }
}

/// The frames that carry the description of a job.
pub(crate) fn frames(job: JobId, description: &[u8]) -> Vec<Frame> {
    cut(description, |rest, bytes| Frame::Begin { job, rest, bytes })
}

/// The frames that carry the description of a tree.
pub(crate) fn setup_frames(description: &[u8]) -> Vec<Frame> {
    cut(description, |rest, bytes| Frame::Setup { rest, bytes })
}

fn cut(description: &[u8], frame: impl Fn(u32, Vec<u8>) -> Frame) -> Vec<Frame> {
    let mut rest = description.len();
    let part = |bytes: &[u8]| {
        rest -= bytes.len();
        frame(rest as u32, bytes.to_vec())
    };
    description.chunks(PART_BYTES_MAX).map(part).collect()
}

pub(crate) fn write_tree(tree: &Tree) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = Writer(&mut bytes);
    w.bytes(tree.name.as_bytes()).u32(tree.shape.nodes()).u32(tree.shape.radix());
    w.u8(tree.spread as u8).bytes(tree.board.word().as_bytes());
    write_option(&mut w, tree.universe);
    match &tree.bind {
        Bind::None => w.u8(0),
        Bind::Core => w.u8(1),
        Bind::User(cores) => w.u8(2).list(cores, |w, core| {
            w.u32(*core as u32);
        }),
        Bind::Several(count) => w.u8(3).u32(*count),
        Bind::Package => w.u8(4),
        Bind::Memory => w.u8(5),
    };
    w.u32(tree.qp_max)
        .u32(tree.value_max)
        .u8(tree.counters as u8)
        .u8(tree.matrix as u8)
        .u8(tree.bindings as u8);
    w.u8(tree.contacts as u8).u8(tree.data_server.into());
    for word in tree.host.iter().chain(&tree.key) {
        w.u64(*word);
    }
    let texts = |w: &mut Writer<'_>, text: &String| {
        w.bytes(text.as_bytes());
    };
    w.list(&tree.hosts, |w, host| {
        w.bytes(host.name.as_bytes()).bytes(host.user.as_deref().unwrap_or_default().as_bytes());
    });
    match &tree.bootstrap {
        Bootstrap::Fork => w.u8(0),
        Bootstrap::Shell(words) => w.u8(1).list(words, texts),
        Bootstrap::Slurm => w.u8(2),
        Bootstrap::Manual(file) => w.u8(3).bytes(file.as_bytes()),
    };
    w.bytes(tree.agent.as_bytes()).u64(tree.start_timeout.as_millis() as u64);
    w.u64(tree.heartbeat.as_millis() as u64);
    bytes
}

pub(crate) fn read_tree(bytes: &[u8]) -> Result<Tree, Malformed> {
    let mut r = Reader::new(bytes);
    let tree = tree(&mut r).filter(|_| r.is_at_end());
    tree.ok_or(Malformed)
}

fn tree(r: &mut Reader<'_>) -> Option<Tree> {
    let (name, nodes, radix) = (r.text()?, r.u32()?, r.u32()?);
    if nodes == 0 || nodes > RANKS_MAX + 1 || radix == 0 {
        return None;
    }
    let spread = [Spread::OneHost, Spread::ManyHosts].get(usize::from(r.u8()?)).copied()?;
    let board = BoardKind::from_word(&r.text()?)?;
    let universe = read_option(r)?;
    let bind = match r.u8()? {
        0 => Bind::None,
        1 => Bind::Core,
        2 => Bind::User(r.list(|r| r.u32().map(|core| core as usize))?),
        3 => Bind::Several(r.u32().filter(|count| *count > 0)?),
        4 => Bind::Package,
        5 => Bind::Memory,
        _ => return None,
    };
    let (qp_max, value_max) = (r.u32()?, r.u32()?);
    let counters = wanted(r)?;
    let matrix = wanted(r)?;
    let bindings = wanted(r)?;
    let contacts = wanted(r)?;
    let data_server = wanted(r)? == Counters::Wanted;
    let host = [r.u64()?, r.u64()?];
    let key = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
    let host_name = |r: &mut Reader<'_>| {
        let (name, user) = (r.text()?, r.text()?);
        Some(HostName { name, user: (!user.is_empty()).then_some(user) })
    };
    let hosts = r.list(host_name)?;
    let bootstrap = match r.u8()? {
        0 => Bootstrap::Fork,
        1 => Bootstrap::Shell(r.list(Reader::text)?),
        2 => Bootstrap::Slurm,
        3 => Bootstrap::Manual(r.text()?),
        _ => return None,
    };
    if bootstrap != Bootstrap::Fork && hosts.len() != nodes as usize {
        return None;
    }
    Some(Tree {
        name,
        shape: Shape::new(nodes, radix),
        spread,
        hosts,
        bootstrap,
        agent: r.text()?,
        start_timeout: Duration::from_millis(r.u64()?),
        heartbeat: Duration::from_millis(r.u64()?),
        board,
        universe,
        bind,
        qp_max,
        data_server,
        value_max,
        counters,
        matrix,
        bindings,
        contacts,
        host,
        key,
    })
}

fn wanted(r: &mut Reader<'_>) -> Option<Counters> {
    [Counters::Unwanted, Counters::Wanted].get(usize::from(r.u8()?)).copied()
}

pub(crate) fn write_group(group: &Group) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = Writer(&mut bytes);
    w.u32(group.id.0).bytes(group.name.as_bytes());
    w.bytes(group.spawner.as_deref().unwrap_or_default().as_bytes());
    let rows: Vec<Row> = group.placement.rows().collect();
    w.u32(group.ranks()).list(&rows, |w, row| {
        w.u32(row.first_node).u32(row.nodes).u32(row.per_node);
    });
    w.list(&group.nodes, |w, node| {
        w.u32(node.0);
    });
    w.list(&group.programs, write_program);
    w.list(&group.preputs, |w, pair| {
        w.bytes(&pair.key).bytes(&pair.value);
    });
    match group.stdin {
        StdinTo::Rank(rank) => w.u8(0).u32(rank),
        StdinTo::All => w.u8(1),
        StdinTo::Nobody => w.u8(2),
    };
    w.u8(group.stdin_by as u8);
    for rule in group.unfinished {
        w.u8(rule as u8);
    }
    bytes
}

pub(crate) fn read_group(bytes: &[u8], tree: &Tree) -> Result<Group, Malformed> {
    let mut r = Reader::new(bytes);
    let group = group(&mut r).filter(|group| r.is_at_end() && is_sound(group, tree));
    group.ok_or(Malformed)
}

fn group(r: &mut Reader<'_>) -> Option<Group> {
    let (id, name, spawner) = (JobId(r.u32()?), r.text()?, r.text()?);
    let ranks = r.u32().filter(|ranks| *ranks <= RANKS_MAX)?;
    let row = |r: &mut Reader<'_>| Some(Row { first_node: r.u32()?, nodes: r.u32()?, per_node: r.u32()? });
    let placement = Placement::from_rows(ranks, &r.list(row)?).ok()?;
    Some(Group {
        id,
        name,
        spawner: (!spawner.is_empty()).then_some(spawner),
        placement,
        nodes: r.list(|r| r.u32().map(NodeId))?,
        programs: r.list(read_program)?,
        preputs: r.list(|r| Some(Pair { key: r.vec()?, value: r.vec()? }))?,
        stdin: match r.u8()? {
            0 => StdinTo::Rank(r.u32()?),
            1 => StdinTo::All,
            2 => StdinTo::Nobody,
            _ => return None,
        },
        stdin_by: [StdinBy::Descriptor, StdinBy::Frames].get(usize::from(r.u8()?)).copied()?,
        unfinished: [unfinished(r)?, unfinished(r)?],
    })
}

fn unfinished(r: &mut Reader<'_>) -> Option<Unfinished> {
    let rules = [Unfinished::Kept, Unfinished::OfReaders, Unfinished::Shown];
    rules.get(usize::from(r.u8()?)).copied()
}

/// Do its numbers fit each other and the tree?
fn is_sound(group: &Group, tree: &Tree) -> bool {
    let of_programs: u64 = group.programs.iter().map(|found| u64::from(found.ranks)).sum();
    let nodes = &group.nodes;
    of_programs == u64::from(group.ranks())
        && nodes.len() == group.placement.nodes() as usize
        && nodes.iter().all(|node| node.0 < tree.shape.nodes())
        && (0..group.placement.nodes()).all(|node| group.placement.count(NodeId(node)) > 0)
}

fn write_program(w: &mut Writer<'_>, found: &Found) {
    let words = |w: &mut Writer<'_>, word: &Vec<u8>| {
        w.bytes(word);
    };
    w.u32(found.ranks).bytes(found.path.to_bytes());
    match &found.search {
        Search::Done => w.u8(0),
        Search::OnHost(None) => w.u8(1),
        Search::OnHost(Some(first)) => w.u8(2).bytes(first.as_bytes()),
    };
    w.list(&found.args, words).list(&found.env, words);
    w.bytes(found.folder.as_ref().map_or(b"", |folder| folder.to_bytes()));
}

fn read_program(r: &mut Reader<'_>) -> Option<Found> {
    let (ranks, path) = (r.u32()?, CString::new(r.vec()?).ok()?);
    let search = match r.u8()? {
        0 => Search::Done,
        1 => Search::OnHost(None),
        2 => Search::OnHost(Some(OsString::from_vec(r.vec()?))),
        _ => return None,
    };
    let (args, env) = (r.list(Reader::vec)?, r.list(Reader::vec)?);
    let folder = CString::new(r.vec()?).ok()?;
    let folder = (!folder.is_empty()).then_some(folder);
    Some(Found { ranks, path, search, args, env, folder })
}

fn write_option(w: &mut Writer<'_>, value: Option<u32>) {
    match value {
        Some(value) => w.u8(1).u32(value),
        None => w.u8(0),
    };
}

fn read_option(r: &mut Reader<'_>) -> Option<Option<u32>> {
    match r.u8()? {
        0 => Some(None),
        1 => Some(Some(r.u32()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::plan;
    use crate::spec::JobSpec;

    fn example() -> (Tree, Group) {
        let spec = JobSpec {
            nodes: 3,
            bind: Bind::User(vec![0]),
            universe: Some(9),
            matrix: true,
            report_bindings: true,
            data_server: true,
            pattern: Some("p".into()),
            ..JobSpec::new("sh", vec!["-c".into(), "true".into()], 7)
        };
        let (tree, group) = plan(&spec).unwrap();
        let preputs = vec![Pair { key: b"k".to_vec(), value: b"v".to_vec() }];
        let folder = Some(c"/".to_owned());
        let mut programs = group.programs.clone();
        programs[0].folder = folder;
        let unfinished = [Unfinished::OfReaders, Unfinished::Shown];
        (tree, Group { spawner: Some("parent".into()), preputs, programs, unfinished, ..group })
    }

    #[test]
    fn descriptions_are_read_as_they_were_written() {
        let (tree, group) = example();
        assert_eq!(read_tree(&write_tree(&tree)).unwrap(), tree);
        let hosts = vec!["a".into(), HostName { name: "b".into(), user: Some("me".into()) }, "c".into()];
        let spread = Tree { hosts, bootstrap: Bootstrap::Slurm, ..tree.clone() };
        assert_eq!(read_tree(&write_tree(&spread)).unwrap(), spread);
        assert_eq!(read_group(&write_group(&group), &tree).unwrap(), group);
        for first in [None, Some("/opt/a:/opt/b".into())] {
            let mut group = group.clone();
            group.programs[0].search = Search::OnHost(first);
            assert_eq!(read_group(&write_group(&group), &tree).unwrap(), group);
        }
    }

    #[test]
    fn damaged_descriptions_are_refused_or_sound() {
        let (tree, group) = example();
        let whole = write_group(&group);
        for cut in 0..whole.len() {
            assert_eq!(read_group(&whole[..cut], &tree), Err(Malformed));
        }
        for at in 0..whole.len().min(400) {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                if let Ok(group) = read_group(&damaged, &tree) {
                    assert!(is_sound(&group, &tree));
                }
            }
        }
    }

    #[test]
    fn long_descriptions_travel_in_parts() {
        let description: Vec<u8> = (0..PART_BYTES_MAX * 2 + 5).map(|i| i as u8).collect();
        let mut parts = Parts::default();
        let mut whole = None;
        for frame in frames(JobId(3), &description) {
            let Frame::Begin { job: JobId(3), rest, bytes } = frame else { panic!("{frame:?}") };
            assert!(whole.is_none());
            whole = parts.push(rest, &bytes).unwrap();
        }
        assert_eq!(whole.unwrap(), description);
        assert_eq!(Parts::default().push(u32::MAX, b"x"), Err(Malformed));
    }
}

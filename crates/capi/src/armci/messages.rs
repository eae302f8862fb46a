//! Messages and collectives of ARMCI's own.
use super::*;
use crate::args::Scratch;
use mpi::core::{Coll, Data, Dest, Mode, OpId, Peer, Reduction, Source, Tag, TypeId};
use mpi::{ErrorClass, SendBuf};
use pgas::core::Group;

const SCOPE_ALL: c_int = 333;
const SCOPE_NODE: c_int = 337;
const SCOPE_MASTERS: c_int = 339;

/// Types of elements.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    Long,
    Float,
    Double,
}

impl Kind {
    fn of(value: c_int) -> Result<Kind> {
        match value {
            -99 => Ok(Kind::Int),
            -101 | -102 => Ok(Kind::Long),
            -306 => Ok(Kind::Float),
            -307 => Ok(Kind::Double),
            _ => {
                let text = format!("{value} is not a type of elements (ARMCI_INT, ...)");
                Err(MpiError::new(ErrorClass::Type, text))
            }
        }
    }

    fn ty(self) -> TypeId {
        match self {
            Kind::Int => TypeId::INT32_T,
            Kind::Long => TypeId::INT64_T,
            Kind::Float => TypeId::FLOAT,
            Kind::Double => TypeId::DOUBLE,
        }
    }

    /// Makes elements positive.
    fn absolute(self, x: BufMut, count: usize) -> Result<()> {
        match self {
            Kind::Int => each(x, count, i32::wrapping_abs),
            Kind::Long => each(x, count, i64::wrapping_abs),
            Kind::Float => each(x, count, f32::abs),
            Kind::Double => each(x, count, f64::abs),
        }
    }
}

fn each<T: Copy>(x: BufMut, count: usize, f: impl Fn(T) -> T) -> Result<()> {
    let place = x.place::<T>();
    (0..count).try_for_each(|at| place.set_at(at, f(place.at(at)?)))
}

/// The operation of a name, and whether it is one of absolute values.
fn operation(name: Text) -> Result<(OpId, bool)> {
    let name = name.read()?;
    let found = match name.as_str() {
        name if name.starts_with('+') => (OpId::SUM, false),
        name if name.starts_with('*') => (OpId::PROD, false),
        "max" => (OpId::MAX, false),
        "min" => (OpId::MIN, false),
        "absmax" => (OpId::MAX, true),
        "absmin" => (OpId::MIN, true),
        "&&" | "land" => (OpId::LAND, false),
        "||" | "lor" => (OpId::LOR, false),
        "&" | "band" | "and" => (OpId::BAND, false),
        "|" | "bor" | "or" => (OpId::BOR, false),
        _ => return Err(MpiError::new(ErrorClass::Op, format!("'{name}' is not an operation"))),
    };
    Ok(found)
}

/// Who takes part.
fn among<A: Abi>(session: &mut Session, driver: &mut OfCall<'_, A>, scope: c_int) -> Result<GroupId> {
    let own = session.domains.of(session.core.rank()).unwrap_or(0);
    let (known, ranks): (_, Vec<i32>) = match scope {
        SCOPE_ALL => return Ok(GroupId::WORLD),
        SCOPE_NODE => (session.node, session.domains.members(own).map(|rank| rank as i32).collect()),
        SCOPE_MASTERS => (session.firsts, session.domains.firsts().iter().map(|rank| *rank as i32).collect()),
        _ => {
            let text = format!("{scope} is not a scope (SCOPE_ALL, SCOPE_NODE, SCOPE_MASTERS)");
            return Err(MpiError::new(ErrorClass::Arg, text));
        }
    };
    if let Some(known) = known {
        return Ok(known);
    }
    let made = session.core.group_create(driver, GroupId::WORLD, &ranks)?;
    *(if scope == SCOPE_NODE { &mut session.node } else { &mut session.firsts }) = Some(made);
    Ok(made)
}

fn length(count: c_int) -> Result<i64> {
    if count < 0 {
        return Err(MpiError::new(ErrorClass::Count, format!("a length of {count}")));
    }
    Ok(count.into())
}

fn root_of(group: &Group, root: c_int) -> Result<Peer> {
    let rank = group.rank_of(process(root)).map(|rank| Peer::Rank(rank as i32));
    rank.ok_or_else(|| {
        MpiError::new(ErrorClass::Root, format!("rank {root} is not one of those who take part"))
    })
}

/// A collective over a group, and what it is.
fn collective<A: Abi>(
    name: &'static str,
    begin: impl for<'c> FnOnce(&'c mut Session, &mut OfCall<'_, A>) -> Result<(CommId, Coll<'static>)>,
) {
    let begin = |session: &mut Session, driver: &mut OfCall<'_, A>| {
        let (comm, call) = begin(session, driver)?;
        driver.call(|mpi| mpi.icollective(comm, call))
    };
    waiting::<A, _>(name, begin, |_, _| Ok(()))
}

pub(super) extern "C" fn msg_me<A: Abi>() -> c_int {
    with::<A, _>("armci_msg_me", |session, _| Ok(session.core.rank() as c_int))
}

pub(super) extern "C" fn msg_nproc<A: Abi>() -> c_int {
    with::<A, _>("armci_msg_nproc", |session, _| Ok(session.core.size() as c_int))
}

pub(super) extern "C" fn timer<A: Abi>() -> f64 {
    crate::args::monotonic_seconds()
}

pub(super) extern "C" fn msg_snd<A: Abi>(tag: c_int, buffer: BufMut, len: c_int, to: c_int) {
    let begin = |session: &mut Session, driver: &mut OfCall<'_, A>| {
        let data = Data::new(buffer.source(), length(len)?, TypeId::BYTE);
        let dest = Dest::new(Peer::Rank(to), tag);
        driver.call(|mpi| mpi.isend_now(session.messages, data, dest, Mode::Standard))
    };
    waiting::<A, _>("armci_msg_snd", begin, |_, _| Ok(()))
}

/// Receives; gives the sender.
fn receive<A: Abi>(
    name: &'static str,
    tag: c_int,
    (buffer, room): (BufMut, c_int),
    got: Ptr<c_int>,
    from: Peer,
) -> c_int {
    let begin = |session: &mut Session, driver: &mut OfCall<'_, A>| {
        let data = Data::new(buffer.target(), length(room)?, TypeId::BYTE);
        let source = Source::new(from, Tag::Is(tag));
        driver.call(|mpi| mpi.irecv(session.messages, data, source))
    };
    waiting::<A, _>(name, begin, |_, status| {
        if !got.is_null() {
            got.set(status.bytes as c_int)?;
        }
        Ok(if let Peer::Rank(rank) = status.source { rank } else { -1 })
    })
}

pub(super) extern "C" fn msg_rcv<A: Abi>(
    tag: c_int,
    buffer: BufMut,
    room: c_int,
    got: Ptr<c_int>,
    from: c_int,
) {
    receive::<A>("armci_msg_rcv", tag, (buffer, room), got, Peer::Rank(from));
}

pub(super) extern "C" fn msg_rcvany<A: Abi>(
    tag: c_int,
    buffer: BufMut,
    room: c_int,
    got: Ptr<c_int>,
) -> c_int {
    receive::<A>("armci_msg_rcvany", tag, (buffer, room), got, Peer::Any)
}

pub(super) extern "C" fn msg_barrier<A: Abi>() {
    collective::<A>("armci_msg_barrier", |session, _| Ok((session.messages, Coll::Barrier)))
}

pub(super) extern "C" fn msg_group_barrier<A: Abi>(group: Ptr<c_int>) {
    collective::<A>("armci_msg_group_barrier", |session, _| {
        Ok((session.core.group(group_of(group)?)?.comm()?, Coll::Barrier))
    })
}

/// A tree of those who take part, who are named by their ranks among all.
pub(super) extern "C" fn msg_bintree<A: Abi>(
    scope: c_int,
    root: Ptr<c_int>,
    up: Ptr<c_int>,
    left: Ptr<c_int>,
    right: Ptr<c_int>,
) {
    with::<A, _>("armci_msg_bintree", |session, _| {
        let own = session.domains.of(session.core.rank()).unwrap_or(0);
        let members: Vec<u32> = match scope {
            SCOPE_NODE => session.domains.members(own).collect(),
            SCOPE_MASTERS => session.domains.firsts().to_vec(),
            _ => (0..session.core.size()).collect(),
        };
        let at = members.iter().position(|member| *member == session.core.rank());
        let name = |at: Option<usize>| at.and_then(|at| members.get(at)).map_or(-1, |rank| *rank as c_int);
        root.set(name(Some(0)))?;
        up.set(name(at.and_then(|at| at.checked_sub(1)).map(|at| at / 2)))?;
        left.set(name(at.map(|at| 2 * at + 1)))?;
        right.set(name(at.map(|at| 2 * at + 2)))
    })
}

fn broadcast<A: Abi>(
    name: &'static str,
    who: impl FnOnce(&mut Session, &mut OfCall<'_, A>) -> Result<GroupId>,
    (buffer, len): (BufMut, c_int),
    root: c_int,
) {
    collective::<A>(name, |session, driver| {
        let group = who(session, driver)?;
        let group = session.core.group(group)?;
        let data = Data::new(buffer.target(), length(len)?, TypeId::BYTE);
        Ok((group.comm()?, Coll::Bcast { data, root: root_of(group, root)? }))
    })
}

pub(super) extern "C" fn msg_bcast<A: Abi>(buffer: BufMut, len: c_int, root: c_int) {
    broadcast::<A>("armci_msg_bcast", |_, _| Ok(GroupId::WORLD), (buffer, len), root)
}

pub(super) extern "C" fn msg_brdcst<A: Abi>(buffer: BufMut, len: c_int, root: c_int) {
    broadcast::<A>("armci_msg_brdcst", |_, _| Ok(GroupId::WORLD), (buffer, len), root)
}

pub(super) extern "C" fn msg_bcast_scope<A: Abi>(scope: c_int, buffer: BufMut, len: c_int, root: c_int) {
    let who = |session: &mut Session, driver: &mut OfCall<'_, A>| among(session, driver, scope);
    broadcast::<A>("armci_msg_bcast_scope", who, (buffer, len), root)
}

pub(super) extern "C" fn msg_group_bcast_scope<A: Abi>(
    _scope: c_int,
    buffer: BufMut,
    len: c_int,
    root: c_int,
    group: Ptr<c_int>,
) {
    broadcast::<A>("armci_msg_group_bcast_scope", |_, _| group_of(group), (buffer, len), root)
}

/// Combines what all bring; everybody has the result, or the first only.
fn combine<A: Abi>(
    name: &'static str,
    who: impl FnOnce(&mut Session, &mut OfCall<'_, A>) -> Result<GroupId>,
    (x, count, op, kind): (BufMut, c_int, Text, c_int),
    everybody: bool,
) {
    collective::<A>(name, |session, driver| {
        let group = who(session, driver)?;
        let group = session.core.group(group)?;
        let (kind, count) = (Kind::of(kind)?, length(count)?);
        let (op, absolute) = operation(op)?;
        if absolute {
            kind.absolute(x, count as usize)?;
        }
        let is_first = group.rank_of(session.core.rank()) == Some(0);
        let send = if everybody || is_first { SendBuf::IN_PLACE } else { x.source() };
        let of = Reduction { send, recv: Data::new(x.target(), count, kind.ty()), op };
        let call = if everybody { Coll::Allreduce(of) } else { Coll::Reduce { of, root: Peer::Rank(0) } };
        Ok((group.comm()?, call))
    })
}

pub(super) extern "C" fn msg_gop_scope<A: Abi>(scope: c_int, x: BufMut, count: c_int, op: Text, kind: c_int) {
    let who = |session: &mut Session, driver: &mut OfCall<'_, A>| among(session, driver, scope);
    combine::<A>("armci_msg_gop_scope", who, (x, count, op, kind), true)
}

pub(super) extern "C" fn msg_group_gop_scope<A: Abi>(
    _scope: c_int,
    x: BufMut,
    count: c_int,
    op: Text,
    kind: c_int,
    group: Ptr<c_int>,
) {
    combine::<A>("armci_msg_group_gop_scope", |_, _| group_of(group), (x, count, op, kind), true)
}

macro_rules! gops {
    ($($all:ident $group:ident, $kind:expr, $all_name:literal $group_name:literal);*) => {$(
        pub(super) extern "C" fn $all<A: Abi>(x: BufMut, count: c_int, op: Text) {
            combine::<A>($all_name, |_, _| Ok(GroupId::WORLD), (x, count, op, $kind), true)
        }

        pub(super) extern "C" fn $group<A: Abi>(x: BufMut, count: c_int, op: Text, group: Ptr<c_int>) {
            combine::<A>($group_name, |_, _| group_of(group), (x, count, op, $kind), true)
        }
    )*};
}
gops!(
    msg_igop msg_group_igop, -99, "armci_msg_igop" "armci_msg_group_igop";
    msg_lgop msg_group_lgop, -101, "armci_msg_lgop" "armci_msg_group_lgop";
    msg_llgop msg_group_llgop, -102, "armci_msg_llgop" "armci_msg_group_llgop";
    msg_fgop msg_group_fgop, -306, "armci_msg_fgop" "armci_msg_group_fgop";
    msg_dgop msg_group_dgop, -307, "armci_msg_dgop" "armci_msg_group_dgop"
);

pub(super) extern "C" fn msg_reduce<A: Abi>(x: BufMut, count: c_int, op: Text, kind: c_int) {
    combine::<A>("armci_msg_reduce", |_, _| Ok(GroupId::WORLD), (x, count, op, kind), false)
}

pub(super) extern "C" fn msg_reduce_scope<A: Abi>(
    scope: c_int,
    x: BufMut,
    count: c_int,
    op: Text,
    kind: c_int,
) {
    let who = |session: &mut Session, driver: &mut OfCall<'_, A>| among(session, driver, scope);
    combine::<A>("armci_msg_reduce_scope", who, (x, count, op, kind), false)
}

/// What a selection goes by, all of one kind. (Large integers that differ may be the same as real numbers.)
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Key {
    Whole(i64),
    Real(f64),
}

pub(super) extern "C" fn msg_sel<A: Abi>(x: BufMut, bytes: c_int, op: Text, kind: c_int, contributes: c_int) {
    msg_sel_scope::<A>(SCOPE_ALL, x, bytes, op, kind, contributes)
}

pub(super) extern "C" fn msg_sel_scope<A: Abi>(
    scope: c_int,
    x: BufMut,
    bytes: c_int,
    op: Text,
    kind: c_int,
    contributes: c_int,
) {
    let name = "armci_msg_sel_scope";
    let (group, kind, bytes, op) = with::<A, _>(name, |session, driver| {
        let group = among(session, driver, scope)?;
        let group = session.core.group(group)?.clone();
        Ok((group, Kind::of(kind)?, length(bytes)? as usize, operation(op)?.0))
    });
    // Everybody hears what the others bring, behind a byte that says whether they bring anything.
    let (mut mine, size) = (Scratch::with(bytes + 1), group.size() as usize);
    mine.write(0, &[u8::from(contributes != 0)]);
    crate::args::move_bytes(x, mine.place(1), bytes);
    let mut all = Scratch::with((bytes + 1) * size);
    let count = (bytes + 1) as i64;
    let send = Data::new(mine.source(), count, TypeId::BYTE);
    let recv = Data::new(all.target(), count, TypeId::BYTE);
    collective::<A>(name, |_, _| Ok((group.comm()?, Coll::Allgather { send, recv })));
    with::<A, _>(name, |_, _| {
        let key = |rank: usize| -> Result<Key> {
            let place = all.reads((bytes + 1) * rank + 1);
            Ok(match kind {
                Kind::Int => Key::Whole(place.cast::<i32>().get()?.into()),
                Kind::Long => Key::Whole(place.cast::<i64>().get()?),
                Kind::Float => Key::Real(place.cast::<f32>().get()?.into()),
                Kind::Double => Key::Real(place.cast::<f64>().get()?),
            })
        };
        let mut best: Option<(usize, Key)> = None;
        for rank in 0..size {
            if all.reads((bytes + 1) * rank).get()? == 0 {
                continue;
            }
            let value = key(rank)?;
            let better =
                best.is_none_or(|(_, known)| if op == OpId::MIN { value < known } else { value > known });
            if better {
                best = Some((rank, value));
            }
        }
        if let Some((rank, _)) = best {
            crate::args::move_bytes(all.place((bytes + 1) * rank + 1), x, bytes);
        }
        Ok(())
    })
}

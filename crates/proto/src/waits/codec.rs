//! The wire form of a [`Standing`]. What a process says is not trusted: a malformed one is none.
use super::{
    Arrived, Comm, Doing, Held, Look, Manner, Need, Outside, Place, Run, Served, Server, Standing, Until, Who,
};
use crate::ids::{Job, NodeId, Rank};
use crate::tree::{Ended, PmiState};
use crate::wire::{Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;

/// Longest piece of text in it.
const TEXT_BYTES_MAX: usize = 240;

impl Standing {
    /// The wire form, of at most so many bytes: what is least needed is left out.
    pub fn emit(&self, most: usize) -> Vec<u8> {
        let mut bytes = self.bytes();
        let Standing::Told(place) = self else { return bytes };
        let mut place = place.clone();
        while bytes.len() > most && shorten(&mut place) {
            bytes = Standing::Told(place.clone()).bytes();
        }
        bytes
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let w = &mut Writer(&mut bytes);
        match self {
            Standing::Told(place) => write_place(w.u8(1), place),
            Standing::Outside(Outside { doing, pmi, ours }) => {
                let (kind, call) = match doing {
                    Doing::Runs => (0, ""),
                    Doing::Sleeps(call) => (1, call.as_str()),
                    Doing::Stopped => (2, ""),
                    Doing::Unknown => (3, ""),
                };
                w.u8(2).u8(kind).bytes(call.as_bytes()).u8(*pmi as u8).u8(u8::from(*ours));
            }
            Standing::Ended(None) => _ = w.u8(3),
            Standing::Ended(Some(Ended::Exit(code))) => _ = w.u8(4).i32(*code),
            Standing::Ended(Some(Ended::Signal(signal))) => _ = w.u8(5).i32(*signal),
            Standing::Unheard => _ = w.u8(6),
            Standing::NotStarted => _ = w.u8(7),
        }
        bytes
    }

    /// Takes a whole one.
    pub fn parse(bytes: &[u8]) -> Option<Standing> {
        let r = &mut Reader::new(bytes);
        let standing = match r.u8()? {
            1 => Standing::Told(read_place(r)?),
            2 => Standing::Outside(read_outside(r)?),
            3 => Standing::Ended(None),
            4 => Standing::Ended(Some(Ended::Exit(r.i32()?))),
            5 => Standing::Ended(Some(Ended::Signal(r.i32()?))),
            6 => Standing::Unheard,
            7 => Standing::NotStarted,
            _ => return None,
        };
        r.is_at_end().then_some(standing)
    }
}

/// Leaves something out. `false`: there is nothing more.
fn shorten(place: &mut Place) -> bool {
    let spoken = |comm: usize, place: &Place| {
        place.needs.iter().any(|need| comm_of(need) == Some(comm as u16))
            || place.arrived.iter().any(|message| usize::from(message.comm) == comm)
    };
    if place.notes.pop().is_some() {
    } else if place.arrived.len() > 2 {
        place.arrived.pop();
        place.arrived_more += 1;
    } else if place.needs.len() > 4 {
        place.needs.pop();
        place.needs_more += 1;
    } else if !place.comms.is_empty() && !spoken(place.comms.len() - 1, place) {
        place.comms.pop();
    } else if let Some(comm) = place.comms.iter_mut().rev().find(|comm| comm.members.len() > 2) {
        comm.members.truncate(comm.members.len() / 2);
    } else {
        let more = place.needs.len() + place.arrived.len() + place.locks.len();
        (place.needs, place.arrived, place.comms, place.locks) = Default::default();
        return more > 0;
    }
    true
}

/// The communicator that a need is about.
pub(super) fn comm_of(need: &Need) -> Option<u16> {
    match need {
        Need::Message { comm, .. } | Need::Collective { comm, .. } => Some(*comm),
        Need::Taken { comm, .. } => *comm,
        Need::Deed { .. }
        | Need::Lock { .. }
        | Need::Served(_)
        | Need::Everyone { .. }
        | Need::Other { .. } => None,
    }
}

fn write_place(w: &mut Writer<'_>, place: &Place) {
    text(w, &place.call).u8(u8::from(place.manner == Manner::Polls)).u32(place.waited_ms);
    w.u8(u8::from(place.until == Until::Any))
        .list(&place.needs, write_need)
        .u32(place.needs_more)
        .list(&place.arrived, |w, message| {
            let Arrived { comm, from, tag, bytes } = message;
            who(w.u32((*comm).into()), *from).i32(*tag).u64(*bytes);
        })
        .u32(place.arrived_more)
        .list(&place.locks, |w, Held { win, target }| {
            who(w.u32(*win), *target);
        })
        .list(&place.comms, write_comm)
        .list(&place.notes, |w, note| {
            text(w, note);
        });
}

fn read_place(r: &mut Reader<'_>) -> Option<Place> {
    Some(Place {
        call: read_text(r)?,
        manner: if flag(r)? { Manner::Polls } else { Manner::Blocked },
        waited_ms: r.u32()?,
        until: if flag(r)? { Until::Any } else { Until::All },
        needs: r.list(read_need)?,
        needs_more: r.u32()?,
        arrived: r.list(|r| {
            Some(Arrived { comm: place_of(r)?, from: read_who(r)?, tag: r.i32()?, bytes: r.u64()? })
        })?,
        arrived_more: r.u32()?,
        locks: r.list(|r| Some(Held { win: r.u32()?, target: read_who(r)? }))?,
        comms: r.list(read_comm)?,
        notes: r.list(read_text)?,
    })
    .filter(is_sound)
}

/// Is every communicator that is spoken of in the list?
fn is_sound(place: &Place) -> bool {
    let known = |comm: u16| usize::from(comm) < place.comms.len();
    place.needs.iter().filter_map(comm_of).all(known) && place.arrived.iter().all(|m| known(m.comm))
}

fn write_need(w: &mut Writer<'_>, need: &Need) {
    match need {
        Need::Message { comm, from, tag, look } => {
            w.u8(0).u32((*comm).into()).u8(u8::from(*look == Look::Probe));
            maybe_who(w, *from);
            maybe_tag(w, *tag);
        }
        Need::Taken { comm, to, tag, bytes } => {
            who(w.u8(1).u32(comm.map_or(u32::MAX, u32::from)), *to).u64(*bytes);
            maybe_tag(w, *tag);
        }
        Need::Collective { comm, number, what, awaits } => {
            text(w.u8(2).u32((*comm).into()).u32(*number), what).list(awaits, |w, peer| {
                who(w, *peer);
            });
        }
        Need::Deed { who: peer, what } => _ = text(who(w.u8(3), *peer), what),
        Need::Other { what } => _ = text(w.u8(4), what),
        Need::Lock { win, target } => _ = who(w.u8(6).u32(*win), *target),
        Need::Everyone { what } => _ = text(w.u8(5), what),
        Need::Served(Served { target, by, lock, what }) => {
            let by = match by {
                Server::Target => None,
                Server::Node(node) => Some(node.0),
            };
            maybe_u32(maybe_u32(who(w.u8(7), *target), by), *lock);
            _ = text(w, what);
        }
    }
}

fn read_need(r: &mut Reader<'_>) -> Option<Need> {
    Some(match r.u8()? {
        0 => {
            let comm = place_of(r)?;
            let look = if flag(r)? { Look::Probe } else { Look::Receive };
            Need::Message { comm, look, from: read_maybe(r, read_who)?, tag: read_maybe(r, Reader::i32)? }
        }
        1 => {
            let comm = match r.u32()? {
                u32::MAX => None,
                comm => Some(u16::try_from(comm).ok()?),
            };
            Need::Taken { comm, to: read_who(r)?, bytes: r.u64()?, tag: read_maybe(r, Reader::i32)? }
        }
        2 => {
            let (comm, number, what) = (place_of(r)?, r.u32()?, read_text(r)?);
            Need::Collective { comm, number, what, awaits: r.list(read_who)? }
        }
        3 => Need::Deed { who: read_who(r)?, what: read_text(r)? },
        4 => Need::Other { what: read_text(r)? },
        6 => Need::Lock { win: r.u32()?, target: read_who(r)? },
        5 => Need::Everyone { what: read_text(r)? },
        7 => {
            let (target, by, lock) = (read_who(r)?, read_maybe(r, Reader::u32)?, read_maybe(r, Reader::u32)?);
            let by = by.map_or(Server::Target, |node| Server::Node(NodeId(node)));
            Need::Served(Served { target, by, lock, what: read_text(r)? })
        }
        _ => return None,
    })
}

fn write_comm(w: &mut Writer<'_>, comm: &Comm) {
    text(who(w.u32(comm.number), comm.first), &comm.name).u32(comm.begun).u32(comm.size).list(
        &comm.members,
        |w, run| {
            who(w, run.first).i32(run.stride).u32(run.count);
        },
    );
}

fn read_comm(r: &mut Reader<'_>) -> Option<Comm> {
    let (number, first, name) = (r.u32()?, read_who(r)?, read_text(r)?);
    let (begun, size) = (r.u32()?, r.u32()?);
    let members = r.list(|r| Some(Run { first: read_who(r)?, stride: r.i32()?, count: r.u32()? }))?;
    // Not more than there are: it would be a long way round through what is no member.
    let all = members.iter().fold(0_u64, |sum, run: &Run| sum + u64::from(run.count));
    (all <= u64::from(size)).then_some(Comm { number, first, name, begun, size, members })
}

fn read_outside(r: &mut Reader<'_>) -> Option<Outside> {
    let kind = r.u8()?;
    let call = read_text(r)?;
    let doing = match kind {
        0 => Doing::Runs,
        1 => Doing::Sleeps(call),
        2 => Doing::Stopped,
        3 => Doing::Unknown,
        _ => return None,
    };
    let pmi = [PmiState::Unused, PmiState::Active, PmiState::Finalized].get(usize::from(r.u8()?)).copied()?;
    Some(Outside { doing, pmi, ours: flag(r)? })
}

fn place_of(r: &mut Reader<'_>) -> Option<u16> {
    r.u32()?.try_into().ok()
}

fn flag(r: &mut Reader<'_>) -> Option<bool> {
    match r.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn who<'w, 'o>(w: &'w mut Writer<'o>, who: Who) -> &'w mut Writer<'o> {
    w.u64(who.job.0).u32(who.rank.0)
}

fn read_who(r: &mut Reader<'_>) -> Option<Who> {
    Some(Who { job: Job(r.u64()?), rank: Rank(r.u32()?) })
}

fn maybe_who(w: &mut Writer<'_>, peer: Option<Who>) {
    match peer {
        None => _ = w.u8(0),
        Some(peer) => _ = who(w.u8(1), peer),
    }
}

fn maybe_u32<'w, 'o>(w: &'w mut Writer<'o>, number: Option<u32>) -> &'w mut Writer<'o> {
    match number {
        None => w.u8(0),
        Some(number) => w.u8(1).u32(number),
    }
}

fn maybe_tag(w: &mut Writer<'_>, tag: Option<i32>) {
    match tag {
        None => _ = w.u8(0),
        Some(tag) => _ = w.u8(1).i32(tag),
    }
}

fn read_maybe<'a, T>(
    r: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    if flag(r)? { read(r).map(Some) } else { Some(None) }
}

/// Text of the program's (names of communicators) may be anything.
fn text<'w, 'o>(w: &'w mut Writer<'o>, text: &str) -> &'w mut Writer<'o> {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    w.bytes(&text.as_bytes()[..end])
}

/// What would move the cursor of a terminal does not get there.
fn read_text(r: &mut Reader<'_>) -> Option<String> {
    let text = r.text()?;
    let shown = |c: char| if c.is_control() { '?' } else { c };
    (text.len() <= TEXT_BYTES_MAX).then(|| text.chars().map(shown).collect())
}

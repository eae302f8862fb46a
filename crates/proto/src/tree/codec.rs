//! The bodies of frames, field by field.
use super::frame::{Ended, Frame, Member, PmiState, StartStep, Stream};
use super::question::{Answer, Pair, Question, SpawnCommand, SpawnWish};
use crate::ids::{NodeId, Rank};
use crate::lane::JobId;
use crate::wire::{Reader, Writer};
use alloc::vec::Vec;

/// Appends kind and body.
pub(super) fn write(w: &mut Writer<'_>, frame: &Frame) {
    match frame {
        Frame::Hello { node, pid } => w.u8(1).u32(node.0).i32(*pid),
        Frame::Started { node, job } => w.u8(2).u32(node.0).u32(job.0),
        Frame::Output { from, stream, bytes } => member(w.u8(3), *from).u8(*stream as u8).bytes(bytes),
        Frame::Credit { bytes } => w.u8(4).u32(*bytes),
        Frame::Board(message) => w.u8(5).bytes(message),
        Frame::Ask { node, ask, question } => write_question(w.u8(6).u32(node.0).u32(*ask), question),
        Frame::Answer { node, ask, answer } => write_answer(w.u8(7).u32(node.0).u32(*ask), answer),
        Frame::Begin { job, rest, bytes } => w.u8(8).u32(job.0).u32(*rest).bytes(bytes),
        Frame::Setup { rest, bytes } => w.u8(26).u32(*rest).bytes(bytes),
        Frame::Beat => w.u8(9),
        Frame::Over { job } => w.u8(25).u32(job.0),
        Frame::Revoke { job } => w.u8(28).u32(job.0),
        Frame::Stats { of, values } => numbers(member(w.u8(10), *of), values),
        Frame::Met { of, words } => member(w.u8(27), *of).list(words, |w, word| {
            w.u32(*word);
        }),
        Frame::Contacts { of, count, words } => member(w.u8(30), *of).u64(*count).list(words, |w, word| {
            w.u32(*word);
        }),
        Frame::Traffic { of, words } => numbers(member(w.u8(38), *of), words),
        Frame::RankEnded { who, pid, ended, pmi, words } => {
            write_ended(member(w.u8(11), *who).i32(*pid), *ended).u8(*pmi as u8).bytes(words.as_bytes())
        }
        Frame::Aborted { who, pid, code, message } => {
            member(w.u8(12), *who).i32(*pid).i32(*code).bytes(message.as_bytes())
        }
        Frame::StartFailed { who, step, errno } => member(w.u8(13), *who).u8(*step as u8).i32(*errno),
        Frame::AgentLost { node, pid, ended } => write_ended(w.u8(14).u32(node.0).i32(*pid), *ended),
        Frame::AgentFailed { node, reason } => w.u8(15).u32(node.0).bytes(reason.as_bytes()),
        Frame::End { grace_ms } => w.u8(16).u32(*grace_ms),
        Frame::Signal { signal } => w.u8(17).i32(*signal),
        Frame::Waiting { who, seconds } => member(w.u8(34), *who).u32(*seconds),
        Frame::Where { ask } => w.u8(35).u32(*ask),
        Frame::Here { who, ask, standing } => member(w.u8(36), *who).u32(*ask).bytes(standing),
        Frame::ServerHere { node, job, ask, pid, is_ready, standing } => {
            let w = w.u8(39).u32(node.0).u32(job.0).u32(*ask).i32(*pid);
            w.u8(u8::from(*is_ready)).bytes(standing)
        }
        Frame::ToldAll { node, ask } => w.u8(37).u32(node.0).u32(*ask),
        Frame::BadPmi { who, pid, reason } => member(w.u8(18), *who).i32(*pid).bytes(reason.as_bytes()),
        Frame::FenceBegun { who } => member(w.u8(19), *who),
        Frame::Spare { who, parted } => member(w.u8(29), *who).u8(u8::from(*parted)),
        Frame::BoardStats { node, job, values } => numbers(w.u8(20).u32(node.0).u32(job.0), values),
        Frame::ServerStats { node, job, values } => numbers(w.u8(31).u32(node.0).u32(job.0), values),
        Frame::ServerEnded { node, job, pid, ended, reason } => {
            write_ended(w.u8(32).u32(node.0).u32(job.0).i32(*pid), *ended).bytes(reason.as_bytes())
        }
        Frame::Note { node, text } => w.u8(21).u32(node.0).bytes(text.as_bytes()),
        Frame::Warn { node, text } => w.u8(33).u32(node.0).bytes(text.as_bytes()),
        Frame::Input { node, to, bytes } => member(w.u8(22).u32(node.0), *to).bytes(bytes),
        Frame::InputTaken { from, bytes } => member(w.u8(23), *from).u32(*bytes),
        Frame::AgentMissing { node, reason } => w.u8(24).u32(node.0).bytes(reason.as_bytes()),
    };
}

/// Takes a body. `None` is always a malformed one.
pub(super) fn read(r: &mut Reader<'_>, kind: u8) -> Option<Frame> {
    Some(match kind {
        1 => Frame::Hello { node: node(r)?, pid: r.i32()? },
        2 => Frame::Started { node: node(r)?, job: job(r)? },
        3 => Frame::Output { from: read_member(r)?, stream: stream(r)?, bytes: r.vec()? },
        4 => Frame::Credit { bytes: r.u32()? },
        5 => Frame::Board(r.vec()?),
        6 => Frame::Ask { node: node(r)?, ask: r.u32()?, question: read_question(r)? },
        7 => Frame::Answer { node: node(r)?, ask: r.u32()?, answer: read_answer(r)? },
        8 => Frame::Begin { job: job(r)?, rest: r.u32()?, bytes: r.vec()? },
        26 => Frame::Setup { rest: r.u32()?, bytes: r.vec()? },
        9 => Frame::Beat,
        25 => Frame::Over { job: job(r)? },
        28 => Frame::Revoke { job: job(r)? },
        10 => Frame::Stats { of: read_member(r)?, values: r.list(Reader::u64)? },
        27 => Frame::Met { of: read_member(r)?, words: r.list(Reader::u32)? },
        30 => Frame::Contacts { of: read_member(r)?, count: r.u64()?, words: r.list(Reader::u32)? },
        38 => Frame::Traffic { of: read_member(r)?, words: r.list(Reader::u64)? },
        20 => Frame::BoardStats { node: node(r)?, job: job(r)?, values: r.list(Reader::u64)? },
        31 => Frame::ServerStats { node: node(r)?, job: job(r)?, values: r.list(Reader::u64)? },
        22 => Frame::Input { node: node(r)?, to: read_member(r)?, bytes: r.vec()? },
        23 => Frame::InputTaken { from: read_member(r)?, bytes: r.u32()? },
        16 => Frame::End { grace_ms: r.u32()? },
        17 => Frame::Signal { signal: r.i32()? },
        _ => return read_news(r, kind),
    })
}

/// What concerns the life of ranks and agents.
fn read_news(r: &mut Reader<'_>, kind: u8) -> Option<Frame> {
    Some(match kind {
        11 => {
            let (who, pid) = (read_member(r)?, r.i32()?);
            Frame::RankEnded { who, pid, ended: read_ended(r)?, pmi: pmi(r)?, words: r.text()? }
        }
        12 => {
            let (who, pid) = (read_member(r)?, r.i32()?);
            Frame::Aborted { who, pid, code: r.i32()?, message: r.text()? }
        }
        13 => Frame::StartFailed { who: read_member(r)?, step: step(r)?, errno: r.i32()? },
        14 => Frame::AgentLost { node: node(r)?, pid: r.i32()?, ended: read_ended(r)? },
        15 => Frame::AgentFailed { node: node(r)?, reason: r.text()? },
        18 => Frame::BadPmi { who: read_member(r)?, pid: r.i32()?, reason: r.text()? },
        19 => Frame::FenceBegun { who: read_member(r)? },
        29 => Frame::Spare { who: read_member(r)?, parted: r.u8()? != 0 },
        32 => {
            let (node, job, pid) = (node(r)?, job(r)?, r.i32()?);
            Frame::ServerEnded { node, job, pid, ended: read_ended(r)?, reason: r.text()? }
        }
        21 => Frame::Note { node: node(r)?, text: r.text()? },
        33 => Frame::Warn { node: node(r)?, text: r.text()? },
        34 => Frame::Waiting { who: read_member(r)?, seconds: r.u32()? },
        35 => Frame::Where { ask: r.u32()? },
        36 => Frame::Here { who: read_member(r)?, ask: r.u32()?, standing: r.vec()? },
        39 => {
            let (node, job, ask, pid) = (node(r)?, job(r)?, r.u32()?, r.i32()?);
            Frame::ServerHere { node, job, ask, pid, is_ready: r.u8()? != 0, standing: r.vec()? }
        }
        37 => Frame::ToldAll { node: node(r)?, ask: r.u32()? },
        24 => Frame::AgentMissing { node: node(r)?, reason: r.text()? },
        _ => return None,
    })
}

fn member<'w, 'o>(w: &'w mut Writer<'o>, member: Member) -> &'w mut Writer<'o> {
    w.u32(member.job.0).u32(member.rank.0)
}

fn read_member(r: &mut Reader<'_>) -> Option<Member> {
    Some(Member { job: job(r)?, rank: Rank(r.u32()?) })
}

fn numbers<'w, 'o>(w: &'w mut Writer<'o>, values: &[u64]) -> &'w mut Writer<'o> {
    w.list(values, |w, value| {
        w.u64(*value);
    })
}

fn write_ended<'w, 'o>(w: &'w mut Writer<'o>, ended: Ended) -> &'w mut Writer<'o> {
    match ended {
        Ended::Exit(code) => w.u8(0).i32(code),
        Ended::Signal(signal) => w.u8(1).i32(signal),
    }
}

fn read_ended(r: &mut Reader<'_>) -> Option<Ended> {
    match r.u8()? {
        0 => Some(Ended::Exit(r.i32()?)),
        1 => Some(Ended::Signal(r.i32()?)),
        _ => None,
    }
}

fn node(r: &mut Reader<'_>) -> Option<NodeId> {
    r.u32().map(NodeId)
}

fn job(r: &mut Reader<'_>) -> Option<JobId> {
    r.u32().map(JobId)
}

fn stream(r: &mut Reader<'_>) -> Option<Stream> {
    [Stream::Out, Stream::Err].get(usize::from(r.u8()?)).copied()
}

fn pmi(r: &mut Reader<'_>) -> Option<PmiState> {
    [PmiState::Unused, PmiState::Active, PmiState::Finalized].get(usize::from(r.u8()?)).copied()
}

fn step(r: &mut Reader<'_>) -> Option<StartStep> {
    use StartStep::{Folder, Interpreter, Process, Program};
    [Process, Folder, Program, Interpreter].get(usize::from(r.u8()?)).copied()
}

fn write_question<'w, 'o>(w: &'w mut Writer<'o>, question: &Question) -> &'w mut Writer<'o> {
    match question {
        Question::Publish { service, port } => w.u8(0).bytes(service).bytes(port),
        Question::Lookup { service } => w.u8(1).bytes(service),
        Question::Unpublish { service } => w.u8(2).bytes(service),
        Question::Spawn(wish) => member(w.u8(3), wish.by)
            .list(&wish.commands, |w, command| {
                w.u32(command.processes).bytes(&command.program);
                w.list(&command.args, |w, arg| {
                    w.bytes(arg);
                })
                .list(&command.infos, write_pair);
            })
            .list(&wish.preputs, write_pair),
    }
}

fn read_question(r: &mut Reader<'_>) -> Option<Question> {
    Some(match r.u8()? {
        0 => Question::Publish { service: r.vec()?, port: r.vec()? },
        1 => Question::Lookup { service: r.vec()? },
        2 => Question::Unpublish { service: r.vec()? },
        3 => Question::Spawn(SpawnWish {
            by: read_member(r)?,
            commands: r.list(read_command)?,
            preputs: r.list(read_pair)?,
        }),
        _ => return None,
    })
}

fn read_command(r: &mut Reader<'_>) -> Option<SpawnCommand> {
    let (processes, program) = (r.u32()?, r.vec()?);
    let args: Vec<Vec<u8>> = r.list(Reader::vec)?;
    Some(SpawnCommand { processes, program, args, infos: r.list(read_pair)? })
}

fn write_pair(w: &mut Writer<'_>, pair: &Pair) {
    w.bytes(&pair.key).bytes(&pair.value);
}

fn read_pair(r: &mut Reader<'_>) -> Option<Pair> {
    Some(Pair { key: r.vec()?, value: r.vec()? })
}

fn write_answer<'w, 'o>(w: &'w mut Writer<'o>, answer: &Answer) -> &'w mut Writer<'o> {
    match answer {
        Answer::Done => w.u8(0),
        Answer::Found(port) => w.u8(1).bytes(port),
        Answer::NotFound => w.u8(2),
        Answer::Taken => w.u8(3),
        Answer::Full => w.u8(4),
        Answer::Spawned { name, processes } => w.u8(5).bytes(name).u32(*processes),
        Answer::NotSpawned(reason) => w.u8(6).bytes(reason.as_bytes()),
    }
}

fn read_answer(r: &mut Reader<'_>) -> Option<Answer> {
    Some(match r.u8()? {
        0 => Answer::Done,
        1 => Answer::Found(r.vec()?),
        2 => Answer::NotFound,
        3 => Answer::Taken,
        4 => Answer::Full,
        5 => Answer::Spawned { name: r.vec()?, processes: r.u32()? },
        6 => Answer::NotSpawned(r.text()?),
        _ => return None,
    })
}

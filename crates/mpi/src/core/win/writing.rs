//! How operations become messages. One that is long is written part by part, each when there is room for it under way.
use super::far::{Awaited, Far, Fate, Op, Way, What};
use crate::buffer::{RecvBuf, SendBuf, target_of};
use crate::core::data::Checked;
use proto::rma::wire::{NO_ANSWER, Writer};
use proto::rma::{MESSAGE_BYTES, Step};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// An operation that is being written.
pub(super) struct Part {
    op: Op,
    /// Bytes of it that are written.
    written: u64,
    /// Bytes that are written at a time.
    most: u64,
    /// Parts that have not been answered.
    left: Rc<Cell<usize>>,
}

impl Part {
    fn new(op: Op) -> Self {
        let most = match &op.what {
            What::Update { how, .. } => how.how.whole(MESSAGE_BYTES),
            _ => MESSAGE_BYTES,
        } as u64;
        let parts = (op.to.bytes() as u64).div_ceil(most).max(1);
        Part { op, written: 0, most, left: Rc::new(Cell::new(parts as usize)) }
    }

    /// Who waits for it.
    pub(super) fn fate(&self) -> Option<Rc<Fate>> {
        self.op.waits.clone()
    }

    /// What brings these bytes of an answer.
    fn data(&self, into: &Checked<RecvBuf>, range: &Range<u64>) -> Awaited {
        Awaited::Data {
            into: into.clone(),
            start: range.start,
            bytes: range.end - range.start,
            left: self.left.clone(),
            waits: self.fate(),
        }
    }
}

impl Far {
    /// Fills a message from the operation that is being written, or else from the next step.
    pub(super) fn fill(&mut self, message: &mut Writer, way: &mut Way<'_>) {
        if let Some(part) = self.part.take() {
            self.part = self.write(part, message, way);
            return;
        }
        let Some(Step::Together(numbers)) = self.steps.pop_front() else { return };
        let mut numbers = numbers.into_iter();
        while self.part.is_none()
            && let Some(number) = numbers.next()
        {
            if let Some(op) = self.ops.remove(number) {
                self.part = self.write(Part::new(op), message, way);
            }
        }
        if numbers.len() > 0 {
            self.steps.push_front(Step::Together(numbers.collect()));
        }
    }

    /// Writes an operation into a message, at least a part of it. What is left, if the message has no more room, or if no more
    /// is to be under way, is given back.
    fn write(&mut self, mut part: Part, message: &mut Writer, way: &mut Way<'_>) -> Option<Part> {
        let bytes = part.op.to.bytes() as u64;
        loop {
            let range = part.written..bytes.min(part.written + part.most);
            part.written = range.end;
            self.write_range(&part, range, message, way);
            if part.written == bytes {
                break;
            }
            if message.0.len() >= MESSAGE_BYTES || !self.flow.has_room() {
                return Some(part);
            }
        }
        // The bytes have been copied; who waits for an answer is told when it comes.
        let is_answered = !matches!(part.op.what, What::Put(_) | What::Update { into: None, .. });
        if let Some(waits) = part.op.waits.filter(|_| !is_answered) {
            waits.set(Ok(()));
        }
        None
    }

    fn write_range(&mut self, part: &Part, range: Range<u64>, message: &mut Writer, way: &mut Way<'_>) {
        let Op { what, at, to, .. } = &part.op;
        match what {
            What::Put(from) => {
                let (at, shape) = to.shape(*at, range.clone());
                message.put(at, &shape);
                append(message, from, range);
                self.unconfirmed = true;
            }
            What::Get(into) => {
                let id = self.await_answer(part.data(into, &range), message, way);
                let (at, shape) = to.shape(*at, range);
                message.get(id, at, &shape);
            }
            What::Update { from, into, how } => {
                let id = match into {
                    Some(into) => self.await_answer(part.data(into, &range), message, way),
                    None => NO_ANSWER,
                };
                let (at, shape) = to.shape(*at, range.clone());
                match from {
                    Some(from) => {
                        message.update(id, how.how.encode(), at, &shape);
                        append(message, from, range);
                    }
                    None => message.load(id, how.how.encode(), at, &shape),
                }
                self.unconfirmed |= into.is_none();
            }
            What::Swap { expected, new, into, how } => {
                let into = Checked { buf: *into, count: 1, ty: to.ty.clone() };
                let id = self.await_answer(part.data(&into, &range), message, way);
                message.swap(id, how.how.encode().ty, how.how.width() as u32, *at);
                for buf in [expected, new] {
                    let from = Checked { buf: *buf, count: 1, ty: to.ty.clone() };
                    append(message, &from, range.clone());
                }
            }
        }
    }
}

/// Adds a range of the bytes of elements to a message.
fn append(message: &mut Writer, from: &Checked<SendBuf>, range: Range<u64>) {
    let (start, bytes) = (message.0.len(), (range.end - range.start) as usize);
    message.0.resize(start + bytes, 0);
    let room = target_of(&mut message.0[start..]).range(0, bytes);
    from.ty.pack_range(from.buf, from.count, range, room);
}

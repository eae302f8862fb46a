//! Compares a message with the datatype of the receive that takes it (MPI-5 3.3.1).
use super::super::layout::Datatype;
use super::super::predefined::TABLE;
use super::*;
use net::Outcome;
use std::rc::Rc;

/// What a receive of a checked program expects.
pub(in super::super) struct Expects {
    ty: Rc<Datatype>,
    me: net::Rank,
    call: &'static str,
}

impl Mpi {
    /// What a receive into this datatype expects, if the program is checked.
    #[inline]
    pub(in super::super) fn expects(&self, ty: TypeId) -> Option<Box<Expects>> {
        self.check.as_ref()?;
        self.expects_type(self.datatype(ty).ok()?)
    }

    #[inline]
    pub(in super::super) fn expects_type(&self, ty: &Rc<Datatype>) -> Option<Box<Expects>> {
        self.check.as_ref()?;
        Some(Box::new(Expects { ty: ty.clone(), me: self.endpoint.rank(), call: current_call() }))
    }

    /// Marks the next message with the signature of this data, if the program is checked.
    #[inline(always)]
    pub(in super::super) fn note_sent<B>(&self, data: Data<B>) {
        if self.check.is_some() {
            self.note_data(data.count, data.ty);
        }
    }

    #[cold]
    fn note_data(&self, count: i64, ty: TypeId) {
        if let Ok(ty) = self.datatype(ty) {
            self.note_type(ty, count.max(0) as usize);
        }
    }

    /// As `note_sent`, of data that has been checked.
    #[inline(always)]
    pub(in super::super) fn note_type(&self, ty: &Rc<Datatype>, count: usize) {
        if let Some(check) = &self.check {
            let bytes = ty.bytes(count).unwrap_or(0);
            check.mark.set(if bytes == 0 { 0 } else { ty.signature(bytes).mark() });
        }
    }
}

impl Expects {
    /// Says so, and makes it an error, if a message that has come does not fit.
    pub(in super::super) fn judge(&self, outcome: &Outcome, status: &mut Status) {
        if outcome.mark == 0 || outcome.bytes == 0 || outcome.truncated || outcome.cancelled {
            return;
        }
        // Messages hold whole elements: one that ends inside an element of this datatype has others.
        let whole = self.ty.elements(outcome.bytes).is_some();
        let expected = self.ty.signature(outcome.bytes).mark();
        if whole && (expected == 0 || expected == outcome.mark) {
            return;
        }
        status.error = ErrorClass::Type;
        let (bytes, tag) = (outcome.bytes, outcome.tag);
        let from = match status.source {
            Peer::Rank(rank) => format!("rank {rank}"),
            _ => "its sender".into(),
        };
        let sent = match sent_as(outcome) {
            Some(words) => format!("was sent as {words}"),
            None => "has another type signature".into(),
        };
        let call = if self.call.is_empty() { "a receive" } else { self.call };
        let expected = self.ty.words(bytes);
        leftover::tell(
            self.me,
            &format!("{call} of {expected}: the message of {bytes} bytes from {from} with tag {tag} {sent}"),
        );
    }
}

/// The names by which most programs know what others have several names for.
const USUAL: [TypeId; 6] =
    [TypeId::INT, TypeId::DOUBLE, TypeId::FLOAT, TypeId::LONG, TypeId::CHAR, TypeId::UNSIGNED];

/// What a message consists of, if that is elements of one predefined datatype.
fn sent_as(outcome: &Outcome) -> Option<String> {
    USUAL.into_iter().chain((0..TypeId::PREDEFINED).map(TypeId)).find_map(|id| {
        let row = &TABLE[id.index()];
        let size = row.scalar.size_and_extent().0;
        let whole = size > 0 && outcome.bytes.is_multiple_of(size);
        let mark = whole.then(|| Datatype::predefined(id, row).signature(outcome.bytes).mark());
        (mark == Some(outcome.mark)).then(|| format!("{} x {}", outcome.bytes / size, row.name))
    })
}

//! Lower and upper bounds of datatypes (MPI-5 5.1.6 and 5.1.7).
use super::super::predefined::Scalar;
use super::Datatype;
use super::shape::sum;
use crate::error::{ErrorClass, Result, fail};

/// Where elements of a datatype begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lb: i64,
    pub(super) ub: i64,
    /// Was the lower bound set by the program? It then outweighs all that follow from data.
    lb_set: bool,
    ub_set: bool,
}

impl Bounds {
    pub(super) fn predefined(scalar: Scalar, extent: i64) -> Self {
        Bounds { lb: 0, ub: extent, lb_set: scalar == Scalar::Lower, ub_set: scalar == Scalar::Upper }
    }

    /// By the program.
    pub(super) fn set(lb: i64, ub: i64) -> Self {
        Bounds { lb, ub, lb_set: true, ub_set: true }
    }

    pub(super) fn extent(&self) -> Result<i64> {
        match self.ub.checked_sub(self.lb) {
            Some(extent) => Ok(extent),
            None => fail(ErrorClass::Arg, format!("an extent from {} to {}", self.lb, self.ub)),
        }
    }
}

/// The bounds of a datatype's parts.
#[derive(Default)]
pub(super) struct Collected {
    set_lb: Option<i64>,
    set_ub: Option<i64>,
    data: Option<(i64, i64)>,
    bytes: Option<(i64, i64)>,
}

impl Collected {
    /// Elements whose addresses are `low` to `high`.
    pub(super) fn add(&mut self, ty: &Datatype, low: i64, high: i64) -> Result<()> {
        let (lb, ub) = (sum(low, ty.bounds.lb)?, sum(high, ty.bounds.ub)?);
        if ty.bounds.lb_set {
            self.set_lb = Some(self.set_lb.map_or(lb, |other| other.min(lb)));
        }
        if ty.bounds.ub_set {
            self.set_ub = Some(self.set_ub.map_or(ub, |other| other.max(ub)));
        }
        // A lower bound alone does not say where elements end, nor an upper one where they begin.
        let marker = ty.size == 0 && ty.bounds.lb_set != ty.bounds.ub_set;
        if !marker {
            widen(&mut self.data, lb, ub);
        }
        if ty.size > 0 {
            widen(&mut self.bytes, sum(low, ty.true_lb)?, sum(high, ty.true_ub)?);
        }
        Ok(())
    }

    /// Bounds and true bounds. Where no upper bound was set, the extent is rounded up to `align` (MPI-5 5.1).
    pub(super) fn finish(self, align: i64) -> Result<(Bounds, (i64, i64))> {
        let (lb, ub) = self.data.unwrap_or((0, 0));
        let (lb_set, ub_set) = (self.set_lb.is_some(), self.set_ub.is_some());
        let mut bounds =
            Bounds { lb: self.set_lb.unwrap_or(lb), ub: self.set_ub.unwrap_or(ub), lb_set, ub_set };
        if !ub_set && self.data.is_some() {
            let rest = bounds.extent()?.rem_euclid(align);
            bounds.ub = if rest == 0 { ub } else { sum(ub, align - rest)? };
        }
        let (true_lb, true_ub) = self.bytes.unwrap_or((0, 0));
        Bounds::set(true_lb, true_ub).extent()?;
        Ok((bounds, (true_lb, true_ub)))
    }
}

fn widen(bounds: &mut Option<(i64, i64)>, low: i64, high: i64) {
    let (a, b) = bounds.unwrap_or((low, high));
    *bounds = Some((a.min(low), b.max(high)));
}

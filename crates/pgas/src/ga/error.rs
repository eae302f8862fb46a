//! What can go wrong with a global array.
use super::distribution::ShapeError;
use crate::Armci;
use mpi::{ErrorClass, MpiError};
use std::fmt;

/// An error of a global array.
#[derive(Debug)]
pub enum GaError {
    /// There can be no such array.
    Shape(ShapeError),
    /// Points that the array does not have.
    Outside {
        /// Those that were asked for.
        patch: String,
        /// Indices of the array in each dimension.
        dims: Vec<usize>,
    },
    /// A slice has not as many elements as it is to hold.
    Length {
        /// Elements that are needed.
        needed: usize,
        /// Those that are there.
        given: usize,
    },
    /// Extents that must agree do not.
    Mismatch {
        /// What does not agree, in words.
        what: String,
    },
    /// A result would be written where an operand is read.
    Overlap {
        /// Where the result goes.
        result: String,
        /// The operand in the same array.
        operand: String,
    },
    /// The operation below failed.
    Mpi(MpiError),
}

/// What operations on global arrays give.
pub type Result<T> = std::result::Result<T, GaError>;

/// Lets the engine know of a mistake that it has not seen: a process that leaves after one does not wait for the others.
pub(crate) fn noted<R>(armci: &Armci, result: Result<R>) -> Result<R> {
    if let Err(error) = &result {
        let told =
            armci.comm().core(|_| mpi::Result::<()>::Err(MpiError::new(ErrorClass::Arg, error.to_string())));
        debug_assert!(told.is_err());
    }
    result
}

impl fmt::Display for GaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GaError::Shape(error) => error.fmt(f),
            GaError::Outside { patch, dims } => {
                write!(f, "{patch} is not inside of a global array of {dims:?}")
            }
            GaError::Length { needed, given } => {
                write!(f, "{needed} elements of a global array are not {given} elements of a slice")
            }
            GaError::Mismatch { what } => f.write_str(what),
            GaError::Overlap { result, operand } => {
                write!(f, "the result goes to {result} of the array whose {operand} is an operand")
            }
            GaError::Mpi(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GaError::Shape(error) => Some(error),
            GaError::Mpi(error) => Some(error),
            _ => None,
        }
    }
}

impl From<MpiError> for GaError {
    fn from(error: MpiError) -> Self {
        GaError::Mpi(error)
    }
}

impl From<ShapeError> for GaError {
    fn from(error: ShapeError) -> Self {
        GaError::Shape(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_was_asked_for_and_what_there_is() {
        let outside = GaError::Outside { patch: "[3..9, 0..2]".into(), dims: vec![8, 8] }.to_string();
        assert_eq!(outside, "[3..9, 0..2] is not inside of a global array of [8, 8]");
        let length = GaError::Length { needed: 12, given: 11 }.to_string();
        assert_eq!(length, "12 elements of a global array are not 11 elements of a slice");
    }
}

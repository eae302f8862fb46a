//! The engine's datatype for each name of the standard. Evaluated when the tables are compiled.
use mpi::core::TypeId;
use mpi::core::predefined::TABLE;

/// The datatype called `name` (`MPI_INT`), if the engine has it.
pub const fn by_name(name: &str) -> Option<TypeId> {
    // Two names for one datatype, and names outside the standard.
    let name = if same(name, "MPI_C_COMPLEX") {
        "MPI_C_FLOAT_COMPLEX"
    } else if same(name, "MPI_LONG_LONG") {
        "MPI_LONG_LONG_INT"
    } else if same(name, "MPIX_C_FLOAT16") {
        "MPI_C_FLOAT16"
    } else if same(name, "MPIX_BFLOAT16") {
        "MPI_BFLOAT16"
    } else {
        name
    };
    let mut i = 0;
    while i < TABLE.len() {
        if same_but_prefix(name, TABLE[i].name) {
            return Some(TypeId(i as u32));
        }
        i += 1;
    }
    None
}

/// Are they equal, where the engine writes `MPI_DATATYPE_2INT` for `MPI_2INT`?
const fn same_but_prefix(name: &str, engine: &str) -> bool {
    const PREFIX: &str = "MPI_DATATYPE_";
    if same(name, engine) {
        return true;
    }
    if engine.len() <= PREFIX.len() || !same(PREFIX, engine.split_at(PREFIX.len()).0) {
        return false;
    }
    same(name.split_at("MPI_".len()).1, engine.split_at(PREFIX.len()).1)
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::DATATYPES;

    #[test]
    fn every_named_datatype_is_known() {
        for (name, ..) in DATATYPES {
            assert!(by_name(name).is_some(), "{name}");
        }
    }
}

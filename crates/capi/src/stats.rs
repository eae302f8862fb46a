//! What the library counts, for programs that ask while they run (`include/banyan.h`). Not part of MPI: errors are
//! returned and go to no handler, so that asking never ends a program.
use crate::abi::Abi;
use crate::args::{Ptr, Text, TextOut};
use crate::engine::{Call, Phase, phase};
use crate::errors::code;
use mpi::{ErrorClass, Stat};
use std::ffi::{c_int, c_ulonglong};

/// `BANYAN_MAX_STAT_NAME`
const NAME_MAX: usize = 64;

/// `BANYAN_Stat`
pub fn stat<A: Abi>(name: Text, value: Ptr<c_ulonglong>) -> c_int {
    let Some(stat) = name.read().ok().and_then(|name| Stat::from_key(&name)) else {
        return code::<A>(ErrorClass::Arg);
    };
    if phase() == Phase::Closed {
        return code::<A>(ErrorClass::Other);
    }
    let now = Call::<A>::enter("BANYAN_Stat").stat(stat);
    value.set(now).map_or(code::<A>(ErrorClass::Arg), |()| 0)
}

/// `BANYAN_Stat_name`
pub fn stat_name<A: Abi>(index: c_int, name: TextOut) -> c_int {
    let stat = usize::try_from(index).ok().and_then(|index| Stat::ALL.get(index));
    let written = stat.map(|stat| name.write(stat.key(), NAME_MAX));
    if matches!(written, Some(Ok(_))) { 0 } else { code::<A>(ErrorClass::Arg) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_fits() {
        assert!(Stat::ALL.iter().all(|stat| stat.key().len() < NAME_MAX));
        let header = include_str!("../include/banyan.h");
        assert!(header.contains(&format!("#define BANYAN_MAX_STAT_NAME {NAME_MAX}\n")));
    }
}

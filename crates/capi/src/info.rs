//! Info objects. They need no engine.
use crate::abi::Abi;
use crate::args::{Opaque, Ptr, Text, TextOut};
use crate::errors::{Outcome, anytime, fail};
use crate::handles;
use mpi::ErrorClass;
use mpi::core::{InfoId, registry};
use std::ffi::c_int;

/// A key: not empty, and not longer than the interface allows.
fn key_from<A: Abi>(key: Text) -> Outcome<String> {
    let key = key.read()?;
    if key.is_empty() || key.len() > A::C.max_info_key as usize {
        return fail(ErrorClass::InfoKey, format!("a key of {} bytes", key.len()));
    }
    Ok(key)
}

/// `MPI_Info_create`
pub fn info_create<A: Abi>(info: Ptr<A::Handle>) -> c_int {
    anytime::<A>("MPI_Info_create", || {
        info.check()?;
        Ok(info.set(handles::of_info::<A>(registry().info_create()))?)
    })
}

/// `MPI_Info_create_env`
pub fn info_create_env<A: Abi>(_argc: c_int, _argv: Opaque, info: Ptr<A::Handle>) -> c_int {
    anytime::<A>("MPI_Info_create_env", || {
        info.check()?;
        let copy = registry().info_dup(InfoId::ENV)?;
        Ok(info.set(handles::of_info::<A>(copy))?)
    })
}

/// `MPI_Info_dup`
pub fn info_dup<A: Abi>(info: A::Handle, newinfo: Ptr<A::Handle>) -> c_int {
    anytime::<A>("MPI_Info_dup", || {
        newinfo.check()?;
        let copy = registry().info_dup(handles::info::<A>(info)?)?;
        Ok(newinfo.set(handles::of_info::<A>(copy))?)
    })
}

/// `MPI_Info_free`
pub fn info_free<A: Abi>(info: Ptr<A::Handle>) -> c_int {
    anytime::<A>("MPI_Info_free", || {
        let id = handles::info::<A>(info.get()?)?;
        if id == InfoId::ENV {
            return fail(ErrorClass::Info, "MPI_INFO_ENV cannot be freed");
        }
        registry().info_free(id)?;
        Ok(info.set(A::handle(A::C.info_null))?)
    })
}

/// `MPI_Info_set`
pub fn info_set<A: Abi>(info: A::Handle, key: Text, value: Text) -> c_int {
    anytime::<A>("MPI_Info_set", || {
        let (id, key, value) = (handles::info::<A>(info)?, key_from::<A>(key)?, value.read()?);
        if value.len() > A::C.max_info_val as usize {
            return fail(ErrorClass::InfoValue, format!("a value of {} bytes", value.len()));
        }
        Ok(registry().info_set(id, &key, &value)?)
    })
}

/// `MPI_Info_delete`
pub fn info_delete<A: Abi>(info: A::Handle, key: Text) -> c_int {
    anytime::<A>("MPI_Info_delete", || {
        Ok(registry().info_delete(handles::info::<A>(info)?, &key_from::<A>(key)?)?)
    })
}

/// `MPI_Info_get`
pub fn info_get<A: Abi>(
    info: A::Handle,
    key: Text,
    valuelen: c_int,
    value: TextOut,
    flag: Ptr<c_int>,
) -> c_int {
    anytime::<A>("MPI_Info_get", || {
        if valuelen < 0 {
            return fail(ErrorClass::Arg, format!("a value of {valuelen} bytes"));
        }
        let all = registry();
        let found = all.info_get(handles::info::<A>(info)?, &key_from::<A>(key)?)?;
        flag.set(found.is_some().into())?;
        if let Some(text) = found {
            value.write(text, valuelen as usize + 1)?;
        }
        Ok(())
    })
}

/// `MPI_Info_get_string`: `buflen` counts the zero, in and out.
pub fn info_get_string<A: Abi>(
    info: A::Handle,
    key: Text,
    buflen: Ptr<c_int>,
    value: TextOut,
    flag: Ptr<c_int>,
) -> c_int {
    anytime::<A>("MPI_Info_get_string", || {
        let room = buflen.get()?;
        let all = registry();
        let found = all.info_get(handles::info::<A>(info)?, &key_from::<A>(key)?)?;
        flag.set(found.is_some().into())?;
        let Some(text) = found else { return Ok(()) };
        if room > 0 {
            value.write(text, room as usize)?;
        }
        Ok(buflen.set(text.len() as c_int + 1)?)
    })
}

/// `MPI_Info_get_valuelen`
pub fn info_get_valuelen<A: Abi>(
    info: A::Handle,
    key: Text,
    valuelen: Ptr<c_int>,
    flag: Ptr<c_int>,
) -> c_int {
    anytime::<A>("MPI_Info_get_valuelen", || {
        let all = registry();
        let found = all.info_get(handles::info::<A>(info)?, &key_from::<A>(key)?)?;
        flag.set(found.is_some().into())?;
        found.map_or(Ok(()), |text| Ok(valuelen.set(text.len() as c_int)?))
    })
}

/// `MPI_Info_get_nkeys`
pub fn info_get_nkeys<A: Abi>(info: A::Handle, nkeys: Ptr<c_int>) -> c_int {
    anytime::<A>("MPI_Info_get_nkeys", || {
        Ok(nkeys.set(registry().info_nkeys(handles::info::<A>(info)?)? as c_int)?)
    })
}

/// `MPI_Info_get_nthkey`
pub fn info_get_nthkey<A: Abi>(info: A::Handle, n: c_int, key: TextOut) -> c_int {
    anytime::<A>("MPI_Info_get_nthkey", || {
        let all = registry();
        let text = all.info_nthkey(handles::info::<A>(info)?, n.into())?;
        key.write(text, A::C.max_info_key as usize + 1)?;
        Ok(())
    })
}

//! Control variables of the tools interface: the settings of the library. They can be written until the engine starts, which
//! reads them.
use crate::abi::Abi;
use crate::args::{Buf, BufMut, Opaque, Ptr, Text, TextOut};
use crate::tool::{Told, ToolError, Tools, enum_of, find, index, put, put_text, told, words};
use crate::{handles, life};
use mpi::core::{TypeId, Variable, registry, settings};
use std::ffi::c_int;

/// Characters of a setting that is text, with its zero.
const TEXT_MAX: usize = 256;

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Variable> {
    settings()
}

/// `MPI_T_cvar_get_num`
pub fn t_cvar_get_num<A: Abi>(num_cvar: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        put(num_cvar, all().count() as c_int);
        Ok(())
    })
}

/// `MPI_T_cvar_get_index`
pub fn t_cvar_get_index<A: Abi>(name: Text, cvar_index: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        put(cvar_index, find(name, all().map(|setting| setting.name))?);
        Ok(())
    })
}

/// `MPI_T_cvar_get_info`
#[allow(clippy::too_many_arguments)] // the standard's own list
pub fn t_cvar_get_info<A: Abi>(
    cvar_index: c_int,
    name: TextOut,
    name_len: Ptr<c_int>,
    verbosity: Ptr<c_int>,
    datatype: Ptr<A::Handle>,
    enumtype: Ptr<Opaque>,
    desc: TextOut,
    desc_len: Ptr<c_int>,
    bind: Ptr<c_int>,
    scope: Ptr<c_int>,
) -> c_int {
    told::<A>(|tools| {
        let at = index(cvar_index, all().count())?;
        let setting = setting(at);
        put_text(setting.name, name, name_len);
        put_text(setting.meaning, desc, desc_len);
        put(verbosity, A::C.t_verbosity_user_basic as c_int);
        let chooses = words(setting.values).is_some();
        put(datatype, handles::of_type::<A>(if chooses { TypeId::INT } else { TypeId::CHAR }));
        put(enumtype, if chooses { enum_of(at) } else { Opaque(A::C.t_enum_null as usize) });
        put(bind, A::C.t_bind_no_object as c_int);
        // Processes that do not agree on how they talk do not understand each other.
        let writable = if tools.late == Some(true) { A::C.t_scope_readonly } else { A::C.t_scope_all_eq };
        put(scope, writable as c_int);
        Ok(())
    })
}

fn setting(at: usize) -> &'static Variable {
    all().nth(at).expect("the number was checked")
}

/// `MPI_T_cvar_handle_alloc`
pub fn t_cvar_handle_alloc<A: Abi>(
    cvar_index: c_int,
    _obj_handle: BufMut,
    handle: Ptr<Opaque>,
    count: Ptr<c_int>,
) -> c_int {
    told::<A>(|tools| {
        let at = index(cvar_index, all().count())?;
        let new = tools.cvars.add(at);
        handle.set(new).map_err(|_| ToolError::Invalid)?;
        put(count, if words(setting(at).values).is_some() { 1 } else { TEXT_MAX as c_int });
        Ok(())
    })
}

/// `MPI_T_cvar_handle_free`
pub fn t_cvar_handle_free<A: Abi>(handle: Ptr<Opaque>) -> c_int {
    told::<A>(|tools| {
        let old = handle.get().map_err(|_| ToolError::Invalid)?;
        tools.cvars.remove(old).ok_or(ToolError::InvalidHandle)?;
        put(handle, Opaque(A::C.t_cvar_handle_null as usize));
        Ok(())
    })
}

fn of(tools: &Tools, handle: Opaque) -> Told<&'static Variable> {
    tools.cvars.get(handle).map(|at| setting(*at)).ok_or(ToolError::InvalidHandle)
}

/// `MPI_T_cvar_read`
pub fn t_cvar_read<A: Abi>(handle: Opaque, buf: BufMut) -> c_int {
    told::<A>(|tools| {
        let setting = of(tools, handle)?;
        let value = registry().setting(setting.name).unwrap_or_default();
        let stored = match words(setting.values) {
            // The default of each comes first, but that memory may be read.
            Some(words) => {
                let default = if setting.name == "BANYAN_CMA" { "on" } else { words[0] };
                let value = if value.is_empty() { default } else { &value };
                let at = words.iter().position(|word| *word == value).unwrap_or(0);
                buf.place::<c_int>().set(at as c_int)
            }
            None => buf.text().write(&value, TEXT_MAX).map(drop),
        };
        stored.map_err(|_| ToolError::Invalid)
    })
}

/// `MPI_T_cvar_write`
pub fn t_cvar_write<A: Abi>(handle: Opaque, buf: Buf) -> c_int {
    told::<A>(|tools| {
        let setting = of(tools, handle)?;
        if tools.late == Some(true) {
            return Err(ToolError::SetNever);
        }
        if life::has_started() {
            return Err(ToolError::SetNotNow);
        }
        let value = match words(setting.values) {
            Some(words) => {
                let number = buf.value::<c_int>().get().map_err(|_| ToolError::Invalid)?;
                words[index(number, words.len()).map_err(|_| ToolError::Invalid)?].to_string()
            }
            None => buf.text().read().map_err(|_| ToolError::Invalid)?,
        };
        registry().set_setting(setting, &value).map_err(|_| ToolError::Invalid)
    })
}

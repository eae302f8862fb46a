//! Events of the tools interface and their sources. There are none: no number and no handle is valid.
use crate::abi::Abi;
use crate::args::{BufMut, Opaque, Ptr, Text, TextOut};
use crate::tool::{ToolError, find, put, told};
use std::ffi::c_int;

fn none<A: Abi>(number: Ptr<c_int>) -> c_int {
    told::<A>(|_| {
        put(number, 0);
        Ok(())
    })
}

fn no<A: Abi>(why: ToolError) -> c_int {
    told::<A>(|_| Err(why))
}

/// `MPI_T_event_get_num`
pub fn t_event_get_num<A: Abi>(num_events: Ptr<c_int>) -> c_int {
    none::<A>(num_events)
}

/// `MPI_T_source_get_num`
pub fn t_source_get_num<A: Abi>(num_sources: Ptr<c_int>) -> c_int {
    none::<A>(num_sources)
}

/// `MPI_T_event_get_index`
pub fn t_event_get_index<A: Abi>(name: Text, _event_index: Ptr<c_int>) -> c_int {
    told::<A>(|_| find(name, std::iter::empty()).map(drop))
}

/// `MPI_T_event_get_info`
#[allow(clippy::too_many_arguments)] // the standard's own list
pub fn t_event_get_info<A: Abi>(
    _event_index: c_int,
    _name: TextOut,
    _name_len: Ptr<c_int>,
    _verbosity: Ptr<c_int>,
    _datatypes: Ptr<A::Handle>,
    _displacements: Ptr<i64>,
    _num_elements: Ptr<c_int>,
    _enumtype: Ptr<Opaque>,
    _info: Ptr<A::Handle>,
    _desc: TextOut,
    _desc_len: Ptr<c_int>,
    _bind: Ptr<c_int>,
) -> c_int {
    no::<A>(ToolError::InvalidIndex)
}

/// `MPI_T_source_get_info`
#[allow(clippy::too_many_arguments)] // the standard's own list
pub fn t_source_get_info<A: Abi>(
    _source_index: c_int,
    _name: TextOut,
    _name_len: Ptr<c_int>,
    _desc: TextOut,
    _desc_len: Ptr<c_int>,
    _ordering: Ptr<c_int>,
    _ticks_per_second: Ptr<i64>,
    _max_ticks: Ptr<i64>,
    _info: Ptr<A::Handle>,
) -> c_int {
    no::<A>(ToolError::InvalidIndex)
}

/// `MPI_T_source_get_timestamp`
pub fn t_source_get_timestamp<A: Abi>(_source_index: c_int, _timestamp: Ptr<i64>) -> c_int {
    no::<A>(ToolError::InvalidIndex)
}

/// `MPI_T_event_handle_alloc`
pub fn t_event_handle_alloc<A: Abi>(
    _event_index: c_int,
    _obj_handle: BufMut,
    _info: A::Handle,
    _registration: Ptr<Opaque>,
) -> c_int {
    no::<A>(ToolError::InvalidIndex)
}

macro_rules! without_handles {
    ($($name:ident $mpi:literal ($($argument:ident: $kind:ty),*)),* $(,)?) => {$(
        #[doc = concat!("`", $mpi, "`")]
        pub fn $name<A: Abi>(_handle: Opaque $(, $argument: $kind)*) -> c_int {
            no::<A>(ToolError::InvalidHandle)
        }
    )*};
}

without_handles! {
    t_event_callback_get_info "MPI_T_event_callback_get_info" (_safety: c_int, _info: Ptr<A::Handle>),
    t_event_callback_set_info "MPI_T_event_callback_set_info" (_safety: c_int, _info: A::Handle),
    t_event_copy "MPI_T_event_copy" (_buffer: BufMut),
    t_event_get_source "MPI_T_event_get_source" (_source: Ptr<c_int>),
    t_event_get_timestamp "MPI_T_event_get_timestamp" (_timestamp: Ptr<i64>),
    t_event_handle_free "MPI_T_event_handle_free" (_data: BufMut, _function: Opaque),
    t_event_handle_get_info "MPI_T_event_handle_get_info" (_info: Ptr<A::Handle>),
    t_event_handle_set_info "MPI_T_event_handle_set_info" (_info: A::Handle),
    t_event_read "MPI_T_event_read" (_element: c_int, _buffer: BufMut),
    t_event_register_callback "MPI_T_event_register_callback"
        (_safety: c_int, _info: A::Handle, _data: BufMut, _function: Opaque),
    t_event_set_dropped_handler "MPI_T_event_set_dropped_handler" (_function: Opaque),
}

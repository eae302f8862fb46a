//! Calls of functions of the program: reduction functions, error handlers, attribute callbacks, generalized
//! requests. Each runs outside the engine, with handles of the caller's interface.
use crate::abi::Abi;
use crate::handles;
use mpi::core::{Grequest, TypeId, UserReduce};
use std::ffi::{c_int, c_void};

/// `UserOp::extra` of a function that takes `int` counts.
pub const SMALL: usize = 0;
/// `UserOp::extra` of a function that takes `MPI_Count` counts.
pub const LARGE: usize = 1;

/// Runs a reduction function; `extent` is that of the datatype. A function of `int` counts gets large
/// vectors in pieces.
pub fn reduce<A: Abi>(job: &UserReduce, extent: i64) {
    let ty = handles::of_type::<A>(job.ty);
    let (from, to) = (job.source.as_ptr(), job.target.as_ptr());
    if job.op.extra == LARGE {
        return reduce_large::<A>(job.op.function, from, to, job.count, ty);
    }
    let mut done = 0;
    while done < job.count {
        let piece = (job.count - done).min(c_int::MAX.into());
        let offset = (done * extent) as isize;
        reduce_small::<A>(
            job.op.function,
            from.wrapping_offset(offset),
            to.wrapping_offset(offset),
            piece,
            ty,
        );
        done += piece;
    }
}

fn reduce_small<A: Abi>(function: usize, from: *const u8, to: *mut u8, count: i64, mut ty: A::Handle) {
    type Function<H> = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut H);
    let mut count = count as c_int;
    // SAFETY: the program gave this pointer to MPI_Op_create as an MPI_User_function.
    let function = unsafe { std::mem::transmute::<usize, Function<A::Handle>>(function) };
    // SAFETY: the operands hold `count` elements; the function follows MPI-5 6.9.5.
    unsafe { function(from.cast_mut().cast(), to.cast(), &mut count, &mut ty) }
}

fn reduce_large<A: Abi>(function: usize, from: *const u8, to: *mut u8, mut count: i64, mut ty: A::Handle) {
    type Function<H> = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut H);
    // SAFETY: the program gave this pointer to MPI_Op_create_c as an MPI_User_function_c.
    let function = unsafe { std::mem::transmute::<usize, Function<A::Handle>>(function) };
    // SAFETY: the operands hold `count` elements; the function follows MPI-5 6.9.5.
    unsafe { function(from.cast_mut().cast(), to.cast(), &mut count, &mut ty) }
}

/// Runs an error handler of the program.
pub fn error_handler<A: Abi>(function: usize, mut object: A::Handle, mut code: c_int) {
    type Function<H> = unsafe extern "C" fn(*mut H, *mut c_int, ...);
    // SAFETY: the program gave this pointer to MPI_Comm_create_errhandler.
    let function = unsafe { std::mem::transmute::<usize, Function<A::Handle>>(function) };
    // SAFETY: both pointers live through the call.
    unsafe { function(&mut object, &mut code) }
}

/// Runs an attribute's copy callback: the new object's value, or none, or the callback's error code.
pub fn copy_attr<A: Abi>(
    function: usize,
    object: A::Handle,
    key: c_int,
    extra: usize,
    value: usize,
) -> Result<Option<usize>, c_int> {
    type Function<H> = unsafe extern "C" fn(H, c_int, usize, usize, *mut usize, *mut c_int) -> c_int;
    match function as i64 {
        f if f == A::C.comm_null_copy_fn => return Ok(None),
        // In the standard interface the copying function is a number.
        1 => return Ok(Some(value)),
        _ => {}
    }
    let (mut copy, mut flag) = (0, 0);
    // SAFETY: the program gave this pointer to MPI_Comm_create_keyval or its family as a copy function.
    let function = unsafe { std::mem::transmute::<usize, Function<A::Handle>>(function) };
    // SAFETY: both result pointers live through the call.
    match unsafe { function(object, key, extra, value, &mut copy, &mut flag) } {
        0 => Ok((flag != 0).then_some(copy)),
        code => Err(code),
    }
}

/// Runs an attribute's delete callback.
pub fn delete_attr<A: Abi>(
    function: usize,
    object: A::Handle,
    key: c_int,
    value: usize,
    extra: usize,
) -> Result<(), c_int> {
    type Function<H> = unsafe extern "C" fn(H, c_int, usize, usize) -> c_int;
    if function as i64 == A::C.comm_null_delete_fn {
        return Ok(());
    }
    // SAFETY: the program gave this pointer to MPI_Comm_create_keyval or its family as a delete function.
    let function = unsafe { std::mem::transmute::<usize, Function<A::Handle>>(function) };
    // SAFETY: values are passed as the program stored them.
    match unsafe { function(object, key, value, extra) } {
        0 => Ok(()),
        code => Err(code),
    }
}

/// Runs a generalized request's query and free callbacks; the status as the program filled it.
pub fn finish_grequest<A: Abi>(grequest: Grequest) -> Result<A::Status, c_int> {
    let status = query_grequest::<A>(grequest)?;
    type Free = unsafe extern "C" fn(usize) -> c_int;
    if grequest.free != 0 {
        // SAFETY: the program gave this pointer to MPI_Grequest_start as its free function.
        let free = unsafe { std::mem::transmute::<usize, Free>(grequest.free) };
        // SAFETY: called once per request, at its completion.
        let code = unsafe { free(grequest.extra) };
        if code != 0 {
            return Err(code);
        }
    }
    Ok(status)
}

/// Runs a generalized request's query callback.
pub fn query_grequest<A: Abi>(grequest: Grequest) -> Result<A::Status, c_int> {
    type Query<S> = unsafe extern "C" fn(usize, *mut S) -> c_int;
    let mut status = crate::status::empty::<A>();
    if grequest.query == 0 {
        return Ok(status);
    }
    // SAFETY: the program gave this pointer to MPI_Grequest_start as its query function.
    let query = unsafe { std::mem::transmute::<usize, Query<A::Status>>(grequest.query) };
    // SAFETY: the status lives through the call.
    match unsafe { query(grequest.extra, &mut status) } {
        0 => Ok(status),
        code => Err(code),
    }
}

/// Runs a generalized request's cancel callback.
pub fn cancel_grequest(grequest: Grequest, complete: bool) -> Result<(), c_int> {
    type Cancel = unsafe extern "C" fn(usize, c_int) -> c_int;
    if grequest.cancel == 0 {
        return Ok(());
    }
    // SAFETY: the program gave this pointer to MPI_Grequest_start as its cancel function.
    let cancel = unsafe { std::mem::transmute::<usize, Cancel>(grequest.cancel) };
    // SAFETY: the state is passed as the program gave it.
    match unsafe { cancel(grequest.extra, complete.into()) } {
        0 => Ok(()),
        code => Err(code),
    }
}

/// Is this datatype predefined (and so of known layout)?
pub fn is_predefined(ty: TypeId) -> bool {
    ty.0 < TypeId::PREDEFINED
}

//! Attributes of communicators and datatypes: keys, values and their callbacks; and the attributes that
//! `MPI_COMM_WORLD` has from the start.
use crate::abi::Abi;
use crate::args::{BufMut, Opaque, Ptr};
use crate::callbacks;
use crate::engine::Call;
use crate::errors::{Failure, On, Outcome, run};
use crate::handles;
use mpi::core::{Keyval, KeyvalId, Object};
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

fn handle_of<A: Abi>(object: Object) -> A::Handle {
    match object {
        Object::Comm(comm) => handles::of_comm::<A>(comm),
        Object::Type(ty) => handles::of_type::<A>(ty),
        Object::Win(_) => A::handle(A::C.win_null),
    }
}

/// Copies the attributes whose copy callback says so.
pub fn copy_all<A: Abi>(call: &mut Call<A>, from: Object, to: Object) -> Outcome<()> {
    for (key, value) in call.attrs(from)? {
        let keyval = call.keyval(key)?;
        let (object, number) = (handle_of::<A>(from), handles::of_keyval::<A>(key));
        let copied = call
            .outside(|| callbacks::copy_attr::<A>(keyval.copy, object, number, keyval.extra, value))
            .map_err(Failure::Callback)?;
        if let Some(copied) = copied {
            call.attr_set(to, key, copied)?;
        }
    }
    Ok(())
}

/// Deletes all attributes, the newest first.
pub fn delete_all<A: Abi>(call: &mut Call<A>, object: Object) -> Outcome<()> {
    for (key, value) in call.attrs(object)?.into_iter().rev() {
        let keyval = call.keyval(key)?;
        run_delete(call, object, key, keyval, value)?;
        call.attr_delete(object, key)?;
    }
    Ok(())
}

fn run_delete<A: Abi>(
    call: &mut Call<A>,
    object: Object,
    key: KeyvalId,
    keyval: Keyval,
    value: usize,
) -> Outcome<()> {
    let (handle, number) = (handle_of::<A>(object), handles::of_keyval::<A>(key));
    call.outside(|| callbacks::delete_attr::<A>(keyval.delete, handle, number, value, keyval.extra))
        .map_err(Failure::Callback)
}

fn create<A: Abi>(
    call: &mut Call<A>,
    copy: Opaque,
    delete: Opaque,
    out: Ptr<c_int>,
    extra: BufMut,
) -> Outcome<()> {
    out.check()?;
    let key = call.keyval_create(Keyval { copy: copy.0, delete: delete.0, extra: extra.addr() });
    Ok(out.set(handles::of_keyval::<A>(key))?)
}

fn free_key<A: Abi>(call: &mut Call<A>, keyval: Ptr<c_int>) -> Outcome<()> {
    call.keyval_free(handles::keyval::<A>(keyval.get()?)?)?;
    Ok(keyval.set(A::C.keyval_invalid as c_int)?)
}

fn set<A: Abi>(call: &mut Call<A>, object: Object, keyval: c_int, value: BufMut) -> Outcome<()> {
    let key = handles::keyval::<A>(keyval)?;
    if let Some(former) = call.attr_get(object, key)? {
        let callbacks = call.keyval(key)?;
        run_delete(call, object, key, callbacks, former)?;
    }
    call.attr_set(object, key, value.addr())?;
    Ok(())
}

fn get<A: Abi>(call: &Call<A>, object: Object, keyval: c_int, out: BufMut, flag: Ptr<c_int>) -> Outcome<()> {
    let value = call.attr_get(object, handles::keyval::<A>(keyval)?)?;
    flag.set(value.is_some().into())?;
    value.map_or(Ok(()), |value| Ok(out.store(value)?))
}

fn delete<A: Abi>(call: &mut Call<A>, object: Object, keyval: c_int) -> Outcome<()> {
    let key = handles::keyval::<A>(keyval)?;
    if let Some(value) = call.attr_get(object, key)? {
        let callbacks = call.keyval(key)?;
        run_delete(call, object, key, callbacks, value)?;
    }
    call.attr_delete(object, key)?;
    Ok(())
}

fn comm_object<A: Abi>(call: &Call<A>, comm: A::Handle) -> Outcome<Object> {
    let id = handles::comm::<A>(comm)?;
    call.comm_size(id)?;
    Ok(Object::Comm(id))
}

fn type_object<A: Abi>(call: &Call<A>, datatype: A::Handle) -> Outcome<Object> {
    let id = handles::datatype::<A>(datatype)?;
    call.type_size(id)?;
    Ok(Object::Type(id))
}

macro_rules! key_functions {
    ($($create:ident $free:ident $n1:literal $n2:literal),*) => {$(
        #[doc = concat!("`", $n1, "`")]
        pub fn $create<A: Abi>(copy: Opaque, delete: Opaque, keyval: Ptr<c_int>, extra_state: BufMut) -> c_int {
            run::<A>($n1, On::WORLD, |call| create(call, copy, delete, keyval, extra_state))
        }
        #[doc = concat!("`", $n2, "`")]
        pub fn $free<A: Abi>(keyval: Ptr<c_int>) -> c_int {
            run::<A>($n2, On::WORLD, |call| free_key(call, keyval))
        }
    )*};
}

key_functions! {
    comm_create_keyval comm_free_keyval "MPI_Comm_create_keyval" "MPI_Comm_free_keyval",
    type_create_keyval type_free_keyval "MPI_Type_create_keyval" "MPI_Type_free_keyval",
    win_create_keyval win_free_keyval "MPI_Win_create_keyval" "MPI_Win_free_keyval",
    keyval_create keyval_free "MPI_Keyval_create" "MPI_Keyval_free"
}

macro_rules! comm_value_functions {
    ($($set:ident $get:ident $delete:ident $n1:literal $n2:literal $n3:literal),*) => {$(
        #[doc = concat!("`", $n1, "`")]
        pub fn $set<A: Abi>(comm: A::Handle, keyval: c_int, value: BufMut) -> c_int {
            run::<A>($n1, On::Comm(comm), |call| {
                let object = comm_object(call, comm)?;
                set(call, object, keyval, value)
            })
        }
        #[doc = concat!("`", $n2, "`")]
        pub fn $get<A: Abi>(comm: A::Handle, keyval: c_int, value: BufMut, flag: Ptr<c_int>) -> c_int {
            run::<A>($n2, On::Comm(comm), |call| {
                let object = comm_object(call, comm)?;
                if predefined(call, keyval, value, flag)? {
                    return Ok(());
                }
                get(call, object, keyval, value, flag)
            })
        }
        #[doc = concat!("`", $n3, "`")]
        pub fn $delete<A: Abi>(comm: A::Handle, keyval: c_int) -> c_int {
            run::<A>($n3, On::Comm(comm), |call| {
                let object = comm_object(call, comm)?;
                delete(call, object, keyval)
            })
        }
    )*};
}

comm_value_functions! {
    comm_set_attr comm_get_attr comm_delete_attr "MPI_Comm_set_attr" "MPI_Comm_get_attr" "MPI_Comm_delete_attr",
    attr_put attr_get attr_delete "MPI_Attr_put" "MPI_Attr_get" "MPI_Attr_delete"
}

/// `MPI_Type_set_attr`
pub fn type_set_attr<A: Abi>(datatype: A::Handle, keyval: c_int, value: BufMut) -> c_int {
    run::<A>("MPI_Type_set_attr", On::WORLD, |call| {
        let object = type_object(call, datatype)?;
        set(call, object, keyval, value)
    })
}

/// `MPI_Type_get_attr`
pub fn type_get_attr<A: Abi>(datatype: A::Handle, keyval: c_int, value: BufMut, flag: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Type_get_attr", On::WORLD, |call| {
        let object = type_object(call, datatype)?;
        get(call, object, keyval, value, flag)
    })
}

/// `MPI_Type_delete_attr`
pub fn type_delete_attr<A: Abi>(datatype: A::Handle, keyval: c_int) -> c_int {
    run::<A>("MPI_Type_delete_attr", On::WORLD, |call| {
        let object = type_object(call, datatype)?;
        delete(call, object, keyval)
    })
}

/// The integers that predefined attributes point to.
static TAG_UB: AtomicI32 = AtomicI32::new(mpi::core::TAG_UB);
static HOST: AtomicI32 = AtomicI32::new(0);
static IO: AtomicI32 = AtomicI32::new(0);
static WTIME_IS_GLOBAL: AtomicI32 = AtomicI32::new(0);
static UNIVERSE_SIZE: AtomicI32 = AtomicI32::new(0);
static APPNUM: AtomicI32 = AtomicI32::new(0);
/// How many error classes and codes the program has added.
pub static LASTUSEDCODE: AtomicI32 = AtomicI32::new(0);

/// If the key is a predefined one, stores the address of its value.
fn predefined<A: Abi>(call: &mut Call<A>, keyval: c_int, out: BufMut, flag: Ptr<c_int>) -> Outcome<bool> {
    let place = match i64::from(keyval as u32) {
        k if k == A::C.tag_ub => Some(&TAG_UB),
        k if k == A::C.host => Some(filled(&HOST, A::C.proc_null)),
        k if k == A::C.io => Some(filled(&IO, A::C.any_source)),
        k if k == A::C.wtime_is_global => Some(&WTIME_IS_GLOBAL),
        k if k == A::C.universe_size => call.universe_size().map(|n| filled(&UNIVERSE_SIZE, n.into())),
        k if k == A::C.appnum => call.appnum().map(|n| filled(&APPNUM, n.into())),
        k if k == A::C.lastusedcode => {
            LASTUSEDCODE.fetch_max(A::C.err_lastcode as i32, Relaxed);
            Some(&LASTUSEDCODE)
        }
        _ => return Ok(false),
    };
    flag.set(place.is_some().into())?;
    if let Some(place) = place {
        out.store(place.as_ptr() as usize)?;
    }
    Ok(true)
}

fn filled(place: &'static AtomicI32, value: i64) -> &'static AtomicI32 {
    place.store(value as i32, Relaxed);
    place
}

//! Windows themselves: how they are made and freed, their memory, their names and hints.
use super::settle;
use crate::abi::{Abi, Count};
use crate::args::{Buf, BufMut, Ptr, Text, TextOut, is_in_place};
use crate::attr;
use crate::comm::{name_from, put_name};
use crate::engine::Call;
use crate::errors::{On, Outcome, fail, run};
use crate::handles;
use crate::p2p::peer;
use mpi::core::{NewWindow, Object, WinFlavor, WinId};
use mpi::{ErrorClass, RecvBuf};
use std::ffi::c_int;

/// Makes a window, with all processes of the communicator, and stores its handle.
fn make<A: Abi>(call: &mut Call<A>, comm: A::Handle, new: NewWindow, out: Ptr<A::Handle>) -> Outcome<WinId> {
    out.set(A::handle(A::C.win_null))?;
    let (win, made) = call.win_make(handles::comm::<A>(comm)?, new)?;
    settle(call, made)?;
    out.set(handles::of_win::<A>(win))?;
    Ok(win)
}

/// As [`make`], where the window brings its memory, whose address is stored too.
fn make_with_memory<A: Abi>(
    call: &mut Call<A>,
    comm: A::Handle,
    new: NewWindow,
    baseptr: BufMut,
    out: Ptr<A::Handle>,
) -> Outcome<()> {
    baseptr.place::<usize>().check()?;
    let win = make(call, comm, new, out)?;
    Ok(baseptr.store(call.win_memory(win)?.0)?)
}

/// Memory of the program that others are to reach.
fn exposed<A: Abi>(base: BufMut, bytes: i64) -> Outcome<RecvBuf> {
    let addr = base.addr();
    if bytes > 0 && (addr == 0 || is_in_place::<A>(base)) {
        return fail(ErrorClass::Base, format!("{bytes} bytes at address 0x{addr:x}"));
    }
    Ok(base.target())
}

/// `MPI_Win_create`
pub fn win_create<A: Abi, C: Count>(
    base: BufMut,
    size: i64,
    disp_unit: C,
    info: A::Handle,
    comm: A::Handle,
    win: Ptr<A::Handle>,
) -> c_int {
    run::<A>("MPI_Win_create", On::Comm(comm), |call| {
        let new = NewWindow {
            flavor: WinFlavor::Create,
            base: exposed::<A>(base, size)?,
            bytes: size,
            disp_unit: disp_unit.wide(),
            info: handles::info_or_null::<A>(info)?,
        };
        make(call, comm, new, win)?;
        Ok(())
    })
}

macro_rules! allocations {
    ($($name:ident $flavor:ident $mpi:literal),* $(,)?) => {$(
        #[doc = concat!("`", $mpi, "`")]
        pub fn $name<A: Abi, C: Count>(
            size: i64, disp_unit: C, info: A::Handle, comm: A::Handle, baseptr: BufMut, win: Ptr<A::Handle>,
        ) -> c_int {
            run::<A>($mpi, On::Comm(comm), |call| {
                let new = NewWindow {
                    flavor: WinFlavor::$flavor,
                    base: RecvBuf::NONE,
                    bytes: size,
                    disp_unit: disp_unit.wide(),
                    info: handles::info_or_null::<A>(info)?,
                };
                make_with_memory(call, comm, new, baseptr, win)
            })
        }
    )*};
}

allocations! {
    win_allocate Allocate "MPI_Win_allocate",
    win_allocate_shared Shared "MPI_Win_allocate_shared",
}

/// `MPI_Win_create_dynamic`: displacements in it are addresses.
pub fn win_create_dynamic<A: Abi>(info: A::Handle, comm: A::Handle, win: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Win_create_dynamic", On::Comm(comm), |call| {
        let new = NewWindow {
            flavor: WinFlavor::Dynamic,
            base: RecvBuf::NONE,
            bytes: 0,
            disp_unit: 1,
            info: handles::info_or_null::<A>(info)?,
        };
        make(call, comm, new, win)?;
        Ok(())
    })
}

/// `MPI_Win_attach`
pub fn win_attach<A: Abi>(win: A::Handle, base: BufMut, size: i64) -> c_int {
    run::<A>("MPI_Win_attach", On::Win(win), |call| {
        let win = handles::win::<A>(win)?;
        if size < 0 {
            return fail(ErrorClass::Size, format!("size {size} is negative"));
        }
        Ok(call.win_attach(win, exposed::<A>(base, size)?, size)?)
    })
}

/// `MPI_Win_detach`
pub fn win_detach<A: Abi>(win: A::Handle, base: Buf) -> c_int {
    run::<A>(
        "MPI_Win_detach",
        On::Win(win),
        |call| Ok(call.win_detach(handles::win::<A>(win)?, base.addr())?),
    )
}

/// `MPI_Win_free`
pub fn win_free<A: Abi>(win: Ptr<A::Handle>) -> c_int {
    let on = win.get().map_or(On::WORLD, On::Win);
    let code = run::<A>("MPI_Win_free", on, |call| {
        let id = handles::win::<A>(win.get()?)?;
        attr::delete_all(call, Object::Win(id))?;
        let begun = call.win_free(id)?;
        settle(call, begun)?;
        attr::forget_win(id);
        Ok(win.set(A::handle(A::C.win_null))?)
    });
    if code != 0 {
        forget::<A>(win);
    }
    code
}

/// What a target has refused was told by the window's own handler, so that the window had to be there still.
#[cold]
fn forget<A: Abi>(win: Ptr<A::Handle>) {
    run::<A>("MPI_Win_free", On::WORLD, |call| {
        let id = win.get().ok().and_then(|handle| handles::win::<A>(handle).ok());
        if let Some(id) = id.filter(|id| call.win_forget(*id)) {
            attr::forget_win(id);
            win.set(A::handle(A::C.win_null))?;
        }
        Ok(())
    });
}

/// `MPI_Win_shared_query`: of nobody, it asks for the first process that has memory.
pub fn win_shared_query<A: Abi, C: Count>(
    win: A::Handle,
    rank: c_int,
    size: Ptr<i64>,
    disp_unit: Ptr<C>,
    baseptr: BufMut,
) -> c_int {
    run::<A>("MPI_Win_shared_query", On::Win(win), |call| {
        let (base, bytes, unit) = call.win_shared_query(handles::win::<A>(win)?, peer::<A>(rank))?;
        let Some(unit) = C::narrow(unit) else {
            return fail(ErrorClass::ValueTooLarge, format!("a displacement unit of {unit} bytes"));
        };
        size.set(bytes)?;
        disp_unit.set(unit)?;
        Ok(baseptr.store(base)?)
    })
}

/// `MPI_Win_get_group`
pub fn win_get_group<A: Abi>(win: A::Handle, group: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Win_get_group", On::Win(win), |call| {
        group.check()?;
        let id = call.win_group(handles::win::<A>(win)?)?;
        Ok(group.set(handles::of_group::<A>(id))?)
    })
}

/// `MPI_Win_get_info`
pub fn win_get_info<A: Abi>(win: A::Handle, info_used: Ptr<A::Handle>) -> c_int {
    run::<A>("MPI_Win_get_info", On::Win(win), |call| {
        info_used.check()?;
        let info = call.win_info(handles::win::<A>(win)?)?;
        Ok(info_used.set(handles::of_info::<A>(info))?)
    })
}

/// `MPI_Win_set_info`
pub fn win_set_info<A: Abi>(win: A::Handle, info: A::Handle) -> c_int {
    run::<A>("MPI_Win_set_info", On::Win(win), |call| {
        let info = handles::info_or_null::<A>(info)?;
        Ok(call.win_set_info(handles::win::<A>(win)?, info)?)
    })
}

/// `MPI_Win_set_name`
pub fn win_set_name<A: Abi>(win: A::Handle, win_name: Text) -> c_int {
    run::<A>("MPI_Win_set_name", On::Win(win), |call| {
        Ok(call.win_set_name(handles::win::<A>(win)?, &name_from::<A>(win_name)?)?)
    })
}

/// `MPI_Win_get_name`
pub fn win_get_name<A: Abi>(win: A::Handle, win_name: TextOut, resultlen: Ptr<c_int>) -> c_int {
    run::<A>("MPI_Win_get_name", On::Win(win), |call| {
        if A::bits(win) == A::C.win_null {
            return put_name::<A>("MPI_WIN_NULL", win_name, resultlen);
        }
        put_name::<A>(&call.win_name(handles::win::<A>(win)?)?, win_name, resultlen)
    })
}

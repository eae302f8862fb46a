//! Arguments as a C caller passes them. Each pointer type here exists only as a parameter of an exported
//! function, whose caller promised what MPI demands of that parameter; so the checks that can be made (null)
//! are made here, and the rest of the crate needs no `unsafe`.
use crate::abi::{Abi, Count};
use crate::callbacks::is_predefined;
use crate::errors::{Outcome, fail};
use crate::handles;
use mpi::core::{Data, TypeId};
use mpi::{ErrorClass, MpiError, RecvBuf, Result, SendBuf};
use std::cell::RefCell;
use std::ffi::CStr;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A pointer or word that only the C caller can interpret: a callback, an extra state, an argument vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Opaque(pub usize);

/// `const T *`: a value or an array to read.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct In<T>(*const T);

/// `T *`: a value or an array to write, or to read and write.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Ptr<T>(*mut T);

/// `const void *`: data to send.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Buf(*const c_void);

/// `void *`: where data goes, or an address to store, or a place for an address.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct BufMut(*mut c_void);

/// `const char *`: a string.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Text(*const c_char);

/// `char *`: room for a string.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct TextOut(*mut c_char);

thread_local! {
    /// The last call of this thread that had null pointers among its arguments, and which.
    static NULLS: RefCell<(&'static str, Vec<&'static str>)> = const { RefCell::new(("", Vec::new())) };
}

/// A call has null pointers: where that is a mistake, the error shall name them.
#[cold]
#[inline(never)]
pub fn note_nulls(call: &'static str, arguments: &[(&'static str, bool)]) {
    let null = arguments.iter().filter(|(_, is_null)| *is_null).map(|(name, _)| *name);
    // (A thread that ends may have no place any more.)
    let _ = NULLS.try_with(|nulls| nulls.replace((call, null.collect())));
}

/// What is wrong, if this call has null pointers among its arguments.
pub fn null_words(call: &str) -> Option<String> {
    let plain = |name: &str| name.strip_suffix("_c").unwrap_or(name).to_string();
    let words = |(of, names): &(&str, Vec<&str>)| match names.as_slice() {
        [] => None,
        _ if plain(of) != plain(call) => None,
        [name] => Some(format!("argument {name} is null")),
        [names @ .., last] => Some(format!("arguments {} and {last} are null", names.join(", "))),
    };
    NULLS.try_with(|nulls| words(&nulls.borrow())).ok().flatten()
}

impl<T> In<T> {
    /// Is it null?
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The same address, seen as another type.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

impl<T> Ptr<T> {
    /// The same address, seen as another type.
    pub fn cast<U>(self) -> Ptr<U> {
        Ptr(self.0.cast())
    }
}

impl<T> From<Ptr<T>> for In<T> {
    fn from(place: Ptr<T>) -> In<T> {
        In(place.0)
    }
}

impl<T: Copy> In<T> {
    /// The address.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.0 as usize
    }

    /// The value.
    #[inline(always)]
    pub fn get(self) -> Result<T> {
        self.at(0)
    }

    /// The value at `index`, which the caller knows to be inside the array.
    #[inline(always)]
    pub fn at(self, index: usize) -> Result<T> {
        if self.0.is_null() {
            return Err(MpiError::null_pointer());
        }
        // SAFETY: not null; the C caller passed an array of as many elements as the function demands.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }

    /// The first `len` elements.
    pub fn list(self, len: usize) -> Result<Vec<T>> {
        self.mapped(len, |item| item)
    }

    /// The first `len` elements, each as `f` gives it: lists may be long, so that none is made on the way.
    fn mapped<U>(self, len: usize, f: impl Fn(T) -> U) -> Result<Vec<U>> {
        if self.0.is_null() && len > 0 {
            return Err(MpiError::null_pointer());
        }
        // SAFETY: not null; the C caller passed an array of as many elements as the function demands.
        let item = |index| unsafe { self.0.add(index).read_unaligned() };
        Ok((0..len).map(|index| f(item(index))).collect())
    }
}

impl<T: Copy> Ptr<T> {
    /// The address.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.0 as usize
    }

    /// Is it null?
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// An error if it is null: for results, before there is one.
    #[inline(always)]
    pub fn check(self) -> Result<()> {
        if self.0.is_null() { Err(MpiError::null_pointer()) } else { Ok(()) }
    }

    /// The value.
    #[inline(always)]
    pub fn get(self) -> Result<T> {
        self.at(0)
    }

    /// The value at `index`, which the caller knows to be inside the array.
    #[inline(always)]
    pub fn at(self, index: usize) -> Result<T> {
        In(self.0).at(index)
    }

    /// The first `len` elements.
    pub fn list(self, len: usize) -> Result<Vec<T>> {
        In(self.0).list(len)
    }

    /// Stores a value.
    #[inline(always)]
    pub fn set(self, value: T) -> Result<()> {
        self.set_at(0, value)
    }

    /// Stores a value at `index`, which the caller knows to be inside the array.
    #[inline(always)]
    pub fn set_at(self, index: usize, value: T) -> Result<()> {
        if self.0.is_null() {
            return Err(MpiError::null_pointer());
        }
        // SAFETY: not null; the C caller passed room for as many elements as the function demands.
        unsafe { self.0.add(index).write_unaligned(value) };
        Ok(())
    }

    /// Stores a list.
    pub fn set_list(self, values: impl IntoIterator<Item = T>) -> Result<()> {
        values.into_iter().enumerate().try_for_each(|(i, value)| self.set_at(i, value))
    }
}

impl Buf {
    /// The address.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.0 as usize
    }

    /// As a source of data.
    #[inline(always)]
    pub fn source(self) -> SendBuf {
        // SAFETY: the C caller keeps the memory that count and datatype describe valid until completion.
        unsafe { SendBuf::new(self.0.cast()) }
    }
}

impl Buf {
    /// As a value of this type, where a function says so.
    pub fn value<T>(self) -> In<T> {
        In(self.0.cast())
    }

    /// As a string, where a function says so.
    pub fn text(self) -> Text {
        Text(self.0.cast())
    }
}

impl BufMut {
    /// Is it null?
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The pointer at a distance.
    pub fn offset(self, bytes: isize) -> BufMut {
        BufMut(self.0.wrapping_byte_offset(bytes))
    }

    /// As a place for a value of this type, where a function says so.
    pub fn place<T>(self) -> Ptr<T> {
        Ptr(self.0.cast())
    }

    /// As a place for a string, where a function says so.
    pub fn text(self) -> TextOut {
        TextOut(self.0.cast())
    }

    /// The address.
    #[inline(always)]
    pub fn addr(self) -> usize {
        self.0 as usize
    }

    /// As a place for data.
    #[inline(always)]
    pub fn target(self) -> RecvBuf {
        // SAFETY: the C caller keeps the memory that count and datatype describe valid until completion.
        unsafe { RecvBuf::new(self.0.cast()) }
    }

    /// As a source of data.
    #[inline(always)]
    pub fn source(self) -> SendBuf {
        Buf(self.0).source()
    }

    /// The pointer as a place for a word (`void *attribute_val`, `void *baseptr`).
    pub fn store(self, word: usize) -> Result<()> {
        Ptr(self.0.cast::<usize>()).set(word)
    }
}

/// Memory of the program: [`Buf`] or [`BufMut`].
pub trait Memory: Copy {
    /// The same to the engine.
    type Engine: Copy;
    /// What `MPI_IN_PLACE` is to the engine.
    const IN_PLACE: Self::Engine;
    /// How many elements there are, in an error.
    const COUNT: &'static str;

    /// The address.
    fn address(self) -> usize;
    /// As the engine takes it.
    fn engine(self) -> Self::Engine;
}

impl Memory for Buf {
    type Engine = SendBuf;
    const IN_PLACE: SendBuf = SendBuf::IN_PLACE;
    const COUNT: &'static str = "send count";

    #[inline(always)]
    fn address(self) -> usize {
        self.addr()
    }

    #[inline(always)]
    fn engine(self) -> SendBuf {
        self.source()
    }
}

impl Memory for BufMut {
    type Engine = RecvBuf;
    const IN_PLACE: RecvBuf = RecvBuf::IN_PLACE;
    const COUNT: &'static str = "receive count";

    #[inline(always)]
    fn address(self) -> usize {
        self.addr()
    }

    #[inline(always)]
    fn engine(self) -> RecvBuf {
        self.target()
    }
}

/// A count or length, and what it is called.
#[inline(always)]
pub fn not_negative(name: &str, count: i64) -> Outcome<i64> {
    if count < 0 {
        return fail(ErrorClass::Count, format!("{name} {count} is negative"));
    }
    Ok(count)
}

/// Counts or displacements, by rank.
pub fn wide<C: Count>(list: In<C>, len: usize) -> Outcome<Vec<i64>> {
    Ok(list.mapped(len, C::wide)?)
}

/// The three arguments by which C names data, checked: buffer, count and datatype of every function, in the small and
/// the large form.
#[inline(always)]
pub fn data<A: Abi, M: Memory>(buf: M, count: impl Count, datatype: A::Handle) -> Outcome<Data<M::Engine>> {
    at::<A, M>(buf, count.wide(), handles::datatype::<A>(datatype)?)
}

/// As [`data`], where the datatype is known already.
#[inline(always)]
pub fn at<A: Abi, M: Memory>(buf: M, count: i64, ty: TypeId) -> Outcome<Data<M::Engine>> {
    not_negative(M::COUNT, count)?;
    let addr = buf.address();
    // Nothing is at a null address, unless the datatype holds absolute addresses (`MPI_BOTTOM`).
    let suspicious = addr == 0 || is_in_place::<A>(buf);
    if suspicious && count > 0 && is_predefined(ty) {
        return fail(ErrorClass::Buffer, format!("{count} elements at address 0x{addr:x}"));
    }
    Ok(Data::new(buf.engine(), count, ty))
}

/// As [`at`], where the buffer may be `MPI_IN_PLACE`.
#[inline(always)]
pub fn at_or_in_place<A: Abi, M: Memory>(buf: M, count: i64, ty: TypeId) -> Outcome<Data<M::Engine>> {
    if is_in_place::<A>(buf) {
        Ok(Data::new(M::IN_PLACE, not_negative(M::COUNT, count)?, ty))
    } else {
        at::<A, M>(buf, count, ty)
    }
}

/// Is the buffer `MPI_IN_PLACE`?
#[inline(always)]
pub fn is_in_place<A: Abi>(buf: impl Memory) -> bool {
    buf.address() as i64 == A::C.in_place
}

/// The arguments of [`data`] before they are looked at: a process may have to ignore them.
#[derive(Debug)]
pub struct Passed<A: Abi, M> {
    buf: M,
    count: i64,
    datatype: A::Handle,
}

impl<A: Abi, M: Memory> Passed<A, M> {
    /// As the caller passed them.
    pub fn new(buf: M, count: impl Count, datatype: A::Handle) -> Self {
        Passed { buf, count: count.wide(), datatype }
    }

    /// Where there are no blocks, there need be no buffer either.
    pub fn for_each_of(self, blocks: usize) -> Self {
        Passed { count: if blocks == 0 { self.count.min(0) } else { self.count }, ..self }
    }

    /// The data, which may be `MPI_IN_PLACE`: then count and datatype are ignored.
    pub fn data(self) -> Outcome<Data<M::Engine>> {
        if is_in_place::<A>(self.buf) {
            return Ok(Data::new(M::IN_PLACE, 0, TypeId::BYTE));
        }
        data::<A, M>(self.buf, self.count, self.datatype)
    }
}

impl Text {
    /// Is it null?
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The string, without characters that are not UTF-8.
    pub fn read(self) -> Result<String> {
        if self.0.is_null() {
            return Err(MpiError::null_pointer());
        }
        // SAFETY: not null; C strings end with a zero.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

impl Opaque {
    /// Is it null?
    pub fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Strings up to a null pointer; none, if it is null itself (`MPI_ARGV_NULL`).
    pub fn texts(self) -> Result<Vec<String>> {
        let list = In(self.0 as *const Text);
        if self.0 == 0 {
            return Ok(Vec::new());
        }
        let text = |at| list.at(at).ok().filter(|text| !text.0.is_null());
        (0..).map_while(text).map(Text::read).collect()
    }

    /// The element at `index` of an array of strings, which the caller knows to be there.
    pub fn text(self, index: usize) -> Result<Text> {
        let text = In(self.0 as *const Text).at(index)?;
        if text.is_null() {
            return Err(MpiError::new(
                ErrorClass::Arg,
                format!("element {index} of a list of strings is null"),
            ));
        }
        Ok(text)
    }

    /// The element at `index` of an array of arrays of strings; null, if the array is null itself (`MPI_ARGVS_NULL`).
    pub fn list(self, index: usize) -> Result<Opaque> {
        if self.0 == 0 { Ok(Opaque(0)) } else { In(self.0 as *const Opaque).at(index) }
    }
}

/// A copy of a socket of the program's.
pub fn socket(fd: c_int) -> Outcome<OwnedFd> {
    if fd < 0 {
        return fail(ErrorClass::Arg, format!("descriptor {fd}"));
    }
    // SAFETY: not -1; a descriptor that is not open makes the copy fail, nothing else.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let copied = borrowed.try_clone_to_owned();
    copied.or_else(|error| fail(ErrorClass::Arg, format!("descriptor {fd}: {error}")))
}

impl TextOut {
    /// Is it null?
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Stores a string and its zero, cut to `room` bytes in all; gives the length without the zero.
    pub fn write(self, text: &str, room: usize) -> Result<usize> {
        if self.0.is_null() {
            return Err(MpiError::null_pointer());
        }
        let len = text.len().min(room.saturating_sub(1));
        let bytes = Ptr(self.0.cast::<u8>());
        bytes.set_list(text.bytes().take(len).chain(std::iter::once(0)))?;
        Ok(len)
    }
}

/// Memory of our own for one operation. Whoever makes it keeps it until that operation is complete.
#[derive(Debug)]
pub struct Scratch(Vec<u8>);

impl Scratch {
    /// `bytes` zeros.
    pub fn with(bytes: usize) -> Self {
        Scratch(vec![0; bytes])
    }

    /// As a source of data.
    pub fn source(&self) -> SendBuf {
        // SAFETY: the owner keeps the memory until the operation is complete, and does not change it.
        unsafe { SendBuf::new(self.0.as_ptr()) }
    }

    /// As a place for data.
    pub fn target(&mut self) -> RecvBuf {
        // SAFETY: the owner keeps the memory until the operation is complete, and does not read it before.
        unsafe { RecvBuf::new(self.0.as_mut_ptr()) }
    }

    /// A place in it that is inside.
    pub fn place(&mut self, at: usize) -> BufMut {
        BufMut(self.0[at..].as_mut_ptr().cast())
    }

    /// The same, to be read.
    pub fn reads(&self, at: usize) -> In<u8> {
        In(self.0[at..].as_ptr())
    }

    /// Stores bytes.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// A value of our own that an operation reads: whoever has it keeps it until that has ended.
#[inline(always)]
pub(crate) fn source_of<T: Copy>(value: &T) -> SendBuf {
    // SAFETY: the bytes of a value may be read; callers keep it, and wait.
    unsafe { SendBuf::new((&raw const *value).cast()) }
}

/// A number of our own that an operation writes, as [`source_of`].
#[inline(always)]
pub(crate) fn target_of<T: Copy>(value: &mut T) -> RecvBuf {
    // SAFETY: callers pass numbers, for which any bytes are a value, keep them, and wait.
    unsafe { RecvBuf::new((&raw mut *value).cast()) }
}

/// Memory of the program that it names by an address.
pub(crate) fn target_at(address: usize) -> RecvBuf {
    BufMut(std::ptr::with_exposed_provenance_mut(address)).target()
}

/// Copies bytes of the program, which may overlap.
pub(crate) fn move_bytes(from: BufMut, to: BufMut, bytes: usize) {
    if bytes > 0 && !from.0.is_null() && !to.0.is_null() {
        // SAFETY: neither is null; the C caller promised so many bytes at both.
        unsafe { std::ptr::copy(from.0.cast::<u8>(), to.0.cast::<u8>(), bytes) }
    }
}

/// Memory of the program, or null, as `malloc` gives it; [`release`] takes it back.
pub(crate) fn raw_allocate(bytes: i64) -> BufMut {
    BufMut(allocate(bytes).map_or(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut))
}

/// Memory of the program, for `MPI_Alloc_mem`.
pub fn allocate(bytes: i64) -> Result<usize> {
    let bytes = usize::try_from(bytes)
        .map_err(|_| MpiError::new(ErrorClass::Arg, format!("{bytes} bytes were asked for")))?;
    // SAFETY: malloc accepts every size; a size of zero is made one so that null always means failure.
    let at = unsafe { libc::malloc(bytes.max(1)) };
    if at.is_null() {
        return Err(MpiError::new(ErrorClass::NoMem, format!("no {bytes} bytes")));
    }
    Ok(at as usize)
}

/// Gives memory of [`allocate`] back.
pub fn release(memory: BufMut) {
    // SAFETY: the C caller passes what `allocate` gave, once.
    unsafe { libc::free(memory.0) }
}

/// Has `function` called when the process exits in the usual way.
pub fn at_process_exit(function: extern "C" fn()) {
    // SAFETY: the function needs no arguments and does not unwind. (If it cannot be registered, the launcher will miss it.)
    unsafe { libc::atexit(function) };
}

/// Ends the process with this code at its exit, when what it has printed is out.
pub fn leave(code: i32) -> ! {
    // SAFETY: a null stream stands for all of them.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    // SAFETY: what is left of the exit is the kernel's part.
    unsafe { libc::_exit(code) }
}

/// Seconds of a clock that never goes back.
pub fn monotonic_seconds() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place; this clock always exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_pointers_are_errors_not_crashes() {
        assert_eq!(In::<i32>(std::ptr::null()).get().unwrap_err().class, ErrorClass::Arg);
        assert_eq!(Ptr::<i32>(std::ptr::null_mut()).set(1).unwrap_err().class, ErrorClass::Arg);
        assert_eq!(Text(std::ptr::null()).read().unwrap_err().class, ErrorClass::Arg);
        assert!(TextOut(std::ptr::null_mut()).write("x", 8).is_err());
    }

    #[test]
    fn an_error_names_the_null_arguments_of_its_call_only() {
        note_nulls("MPI_Isend_c", &[("buf", false), ("request", true)]);
        assert_eq!(null_words("MPI_Isend").as_deref(), Some("argument request is null"));
        assert_eq!(null_words("MPI_Irecv"), None);
        note_nulls("MPI_Type_get_extent", &[("lb", true), ("extent", true)]);
        assert_eq!(null_words("MPI_Type_get_extent").as_deref(), Some("arguments lb and extent are null"));
    }

    #[test]
    fn strings_are_cut_to_the_room_and_end_with_zero() {
        let mut room = [0x7f_u8; 6];
        let out = TextOut(room.as_mut_ptr().cast());
        assert_eq!(out.write("banyan", 4).unwrap(), 3);
        assert_eq!(&room, b"ban\0\x7f\x7f");
    }
}

//! Copies between the memories of two processes (`process_vm_readv`, `process_vm_writev`).
use crate::mem::{UserBuf, UserBufMut};
use std::io;

/// Copies `to.len()` bytes from address `from` of process `pid`.
pub fn read(pid: u32, from: u64, to: UserBufMut) -> io::Result<()> {
    transfer(to.len(), |done| {
        let part = to.part(done, to.len() - done);
        let local = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
        let remote = libc::iovec { iov_base: (from + done as u64) as *mut _, iov_len: part.len() };
        // SAFETY: the local range is writable by the constructor of UserBufMut; the kernel checks the
        // remote one and returns an error for what is not there.
        unsafe { libc::process_vm_readv(pid as libc::pid_t, &local, 1, &remote, 1, 0) }
    })
}

/// Copies `from` to address `to` of process `pid`.
pub fn write(pid: u32, from: UserBuf, to: u64) -> io::Result<()> {
    transfer(from.len(), |done| {
        let part = from.part(done, from.len() - done);
        let local = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        let remote = libc::iovec { iov_base: (to + done as u64) as *mut _, iov_len: part.len() };
        // SAFETY: the local range is only read, and readable by the constructor of UserBuf; the kernel
        // checks the remote one.
        unsafe { libc::process_vm_writev(pid as libc::pid_t, &local, 1, &remote, 1, 0) }
    })
}

/// Bytes in a row of another process: where, and how many.
pub type Row = (u64, usize);

/// Copies rows of process `pid`, one behind the other, to `to`, which must have as many bytes.
pub fn read_rows(pid: u32, rows: &mut dyn Iterator<Item = Row>, to: UserBufMut) -> io::Result<()> {
    in_batches(rows, to.len(), |rows, done, bytes| {
        let part = to.part(done, bytes);
        if let [row] = rows {
            return read(pid, row.iov_base as u64, part);
        }
        let local = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: bytes };
        // SAFETY: as in `read`; the list lives until the end of the call.
        let copied = unsafe {
            let count = rows.len() as libc::c_ulong;
            libc::process_vm_readv(pid as libc::pid_t, &local, 1, rows.as_ptr(), count, 0)
        };
        whole(copied, bytes)
    })
}

/// Copies `from` to rows of process `pid`, one behind the other, which must have as many bytes.
pub fn write_rows(pid: u32, from: UserBuf, rows: &mut dyn Iterator<Item = Row>) -> io::Result<()> {
    in_batches(rows, from.len(), |rows, done, bytes| {
        let part = from.part(done, bytes);
        if let [row] = rows {
            return write(pid, part, row.iov_base as u64);
        }
        let local = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: bytes };
        // SAFETY: as in `write`; the list lives until the end of the call.
        let copied = unsafe {
            let count = rows.len() as libc::c_ulong;
            libc::process_vm_writev(pid as libc::pid_t, &local, 1, rows.as_ptr(), count, 0)
        };
        whole(copied, bytes)
    })
}

/// Rows of one system call, and bytes that several of them may have: far from where the kernel stops.
const ROWS_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 30;

/// Calls `copy` with rows, how many bytes came before, and how many they have.
fn in_batches(
    rows: &mut dyn Iterator<Item = Row>,
    bytes: usize,
    mut copy: impl FnMut(&[libc::iovec], usize, usize) -> io::Result<()>,
) -> io::Result<()> {
    let row = |(at, len): Row| libc::iovec { iov_base: at as *mut _, iov_len: len };
    let mut rows = rows.filter(|(_, len)| *len > 0).peekable();
    // Most often there is one, which needs no list.
    if let Some(all) = rows.next_if(|(_, len)| *len == bytes) {
        let more = rows.peek().is_some();
        return if more { Err(io::ErrorKind::InvalidInput.into()) } else { copy(&[row(all)], 0, bytes) };
    }
    let mut batch = Vec::new();
    let (mut done, mut held) = (0, 0);
    for (at, len) in rows {
        if batch.len() == ROWS_MAX || held > 0 && held + len > BATCH_BYTES_MAX {
            copy(&batch, done, held)?;
            done += std::mem::take(&mut held);
            batch.clear();
        }
        batch.push(row((at, len)));
        held += len;
    }
    if done + held != bytes {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if batch.is_empty() { Ok(()) } else { copy(&batch, done, held) }
}

fn whole(copied: isize, bytes: usize) -> io::Result<()> {
    match copied {
        -1 => Err(io::Error::last_os_error()),
        copied if copied as usize == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Can this process read the word at an address of process `pid`, which should be `word`, and write it?
pub fn finds(pid: u32, at: u64, word: u64) -> io::Result<bool> {
    let mut seen = !word;
    // SAFETY: a word of this function, which lives until its end.
    let here = unsafe { UserBufMut::new((&raw mut seen).cast(), size_of::<u64>()) };
    read(pid, at, here)?;
    // It is written only where it stands already: nothing changes, whoever else does the same.
    Ok(seen == word && write(pid, here.as_source(), at).is_ok())
}

/// The kernel may stop short (about 2 GiB a call, or at a fault); go on where it stopped.
fn transfer(bytes: usize, mut step: impl FnMut(usize) -> isize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        match step(done) {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n if n > 0 => done += n as usize,
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Lets any process of the same user read this one's memory where Yama restricts it to parents.
pub fn allow_siblings() {
    // SAFETY: prctl with integers only; a kernel without Yama answers EINVAL, which is no harm.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_where_it_is_and_nowhere_else() {
        let (mut words, me) = ([7u64, 8], std::process::id());
        let at = &raw mut words as u64;
        assert!(finds(me, at, 7).unwrap() && finds(me, at + 8, 8).unwrap());
        assert!(!finds(me, at, 8).unwrap());
        assert!(finds(me, 8, 8).is_err(), "nothing is mapped there");
        assert_eq!(std::hint::black_box(words), [7, 8]);
    }

    #[test]
    fn rows_are_copied_in_order_however_many() {
        const STEP: usize = 5;
        let me = std::process::id();
        for count in [0, 1, 2, ROWS_MAX, ROWS_MAX + 1, 3 * ROWS_MAX + 7] {
            let mut spread: Vec<u8> = (0..count * STEP).map(|i| i as u8).collect();
            let base = spread.as_mut_ptr() as u64;
            let rows = || (0..count).map(|i| (base + (i * STEP) as u64, 1 + i % 3));
            let bytes = rows().map(|(_, len)| len).sum();
            let mut packed = vec![0; bytes];
            // SAFETY: bytes of this function, which live until its end.
            let here = unsafe { UserBufMut::new(packed.as_mut_ptr(), bytes) };
            read_rows(me, &mut rows(), here).unwrap();
            let expected: Vec<u8> =
                (0..count).flat_map(|i| (0..1 + i % 3).map(move |k| (i * STEP + k) as u8)).collect();
            assert_eq!(packed, expected);
            packed.iter_mut().for_each(|byte| *byte ^= 0xff);
            // SAFETY: as above.
            let here = unsafe { UserBufMut::new(packed.as_mut_ptr(), bytes) };
            write_rows(me, here.as_source(), &mut rows()).unwrap();
            for (i, byte) in std::hint::black_box(spread).into_iter().enumerate() {
                let inside = i % STEP < 1 + i / STEP % 3;
                assert_eq!(byte, if inside { !(i as u8) } else { i as u8 }, "{i}");
            }
        }
    }

    #[test]
    fn rows_that_are_not_there_or_not_as_many_are_errors() {
        let (mut words, me) = ([1u64, 2], std::process::id());
        let at = &raw mut words as u64;
        let mut room = [0u8; 16];
        // SAFETY: bytes of this function, which live until its end.
        let here = unsafe { UserBufMut::new(room.as_mut_ptr(), 16) };
        assert!(read_rows(me, &mut [(at, 8)].into_iter(), here).is_err());
        assert!(read_rows(me, &mut [(at, 16), (at, 8)].into_iter(), here).is_err());
        assert!(read_rows(me, &mut [(at, 8), (8, 8)].into_iter(), here).is_err());
        assert!(write_rows(me, here.as_source(), &mut [(at, 8), (8, 8)].into_iter()).is_err());
    }
}

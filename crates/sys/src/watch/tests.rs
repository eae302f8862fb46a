use super::*;
use std::ptr::null_mut;

/// Does something to a page.
type Way = fn(*mut libc::c_void);

const PAGE: usize = 4096;
const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const PRIVATE: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// A watch, where the system has one.
fn watch() -> Option<Watch> {
    match Watch::new(64) {
        Ok(watch) => Some(watch),
        Err(error) => {
            eprintln!("skipped: this system does not tell when memory goes away: {error}");
            None
        }
    }
}

fn map(at: *mut libc::c_void, bytes: usize, flags: libc::c_int) -> *mut libc::c_void {
    // SAFETY: new pages, or in place of pages of the test's own.
    let start = unsafe { libc::mmap(at, bytes, READ_WRITE, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start
}

fn unmap(at: *mut libc::c_void, bytes: usize) {
    // SAFETY: pages of the test's own, which nobody refers to.
    assert_eq!(unsafe { libc::munmap(at, bytes) }, 0);
}

fn advise(at: *mut libc::c_void, what: libc::c_int) {
    // SAFETY: a page of the test's own.
    assert_eq!(unsafe { libc::madvise(at, PAGE, what) }, 0);
}

fn protect(at: *mut libc::c_void, rights: libc::c_int) {
    // SAFETY: a page of the test's own.
    assert_eq!(unsafe { libc::mprotect(at, PAGE, rights) }, 0);
}

/// What `run` returns in a forked child.
fn in_child(run: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does little, and leaves without a word.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = run();
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: a child of the test's own.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

fn touch(at: *mut libc::c_void, bytes: usize) {
    // SAFETY: pages of the test's own.
    unsafe { std::ptr::write_bytes(at.cast::<u8>(), 7, bytes) };
}

/// Has the range of eight pages gone after `how`, of which the third is named? And are pages beside it still there?
fn gone_after(how: impl FnOnce(*mut libc::c_void)) -> Option<(bool, bool)> {
    let mut watch = watch()?;
    let start = map(null_mut(), 16 * PAGE, PRIVATE);
    touch(start, 16 * PAGE);
    let range = watch.add(start as u64 + 100, 8 * PAGE - 200).expect("private memory");
    let beside = watch.add(start as u64 + 8 * PAGE as u64, 8 * PAGE).expect("private memory");
    assert!(watch.is_intact(&range) && watch.is_intact(&beside));
    how(start.wrapping_byte_add(2 * PAGE));
    let gone = (!watch.is_intact(&range), !watch.is_intact(&beside));
    watch.remove(range);
    watch.remove(beside);
    unmap(start, 16 * PAGE);
    Some(gone)
}

#[test]
fn pages_that_go_away_are_noticed() {
    let ways: [(&str, Way); 6] = [
        ("munmap", |at| unmap(at, PAGE)),
        ("MADV_DONTNEED", |at| advise(at, libc::MADV_DONTNEED)),
        ("MADV_FREE", |at| advise(at, libc::MADV_FREE)),
        ("MAP_FIXED", |at| assert_eq!(map(at, PAGE, PRIVATE | libc::MAP_FIXED), at)),
        ("mremap", |at| {
            // SAFETY: a page of the test's own.
            let moved = unsafe { libc::mremap(at, PAGE, 64 * PAGE, libc::MREMAP_MAYMOVE) };
            assert!(moved != libc::MAP_FAILED && moved != at);
            unmap(moved, 64 * PAGE);
        }),
        ("mremap to there", |at| {
            let other = map(null_mut(), PAGE, PRIVATE);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: both are pages of the test's own.
            assert_eq!(unsafe { libc::mremap(other, PAGE, PAGE, flags, at) }, at);
        }),
    ];
    for (name, way) in ways {
        let Some(gone) = gone_after(way) else { return };
        assert_eq!(gone, (true, false), "{name}");
    }
}

#[test]
fn what_leaves_pages_where_they_are_is_nothing() {
    let ways: [(&str, Way); 4] = [
        ("writing", |at| touch(at, PAGE)),
        ("mprotect", |at| {
            protect(at, libc::PROT_READ);
            protect(at, READ_WRITE);
            touch(at, PAGE);
        }),
        ("a system call that writes", |at| {
            let zero = std::fs::File::open("/dev/zero").unwrap();
            // SAFETY: a page of the test's own.
            assert_eq!(unsafe { libc::read(zero.as_raw_fd(), at, PAGE) }, PAGE as isize);
        }),
        ("fork", |at| {
            let status = in_child(|| {
                touch(at, PAGE);
                unmap(at, PAGE); // nobody listens, and nobody is waited for
                0
            });
            assert_eq!(status, 0);
        }),
    ];
    for (name, way) in ways {
        let Some(gone) = gone_after(way) else { return };
        assert_eq!(gone, (false, false), "{name}");
    }
}

#[test]
fn a_large_block_that_is_freed_is_noticed() {
    let Some(mut watch) = watch() else { return };
    // SAFETY: a block of the test's own, freed once.
    let block = unsafe { libc::malloc(64 << 20) };
    touch(block, 64 << 20);
    let range = watch.add(block as u64, 64 << 20).expect("private memory");
    assert!(watch.is_intact(&range));
    // SAFETY: as above.
    unsafe { libc::free(block) };
    assert!(!watch.is_intact(&range));
}

#[test]
fn a_heap_that_shrinks_is_noticed() {
    // Other threads of the test may have the heap grow; a process of its own has none.
    if watch().is_none() {
        return;
    }
    let status = in_child(|| {
        let Ok(mut watch) = Watch::new(4) else { return 1 };
        // SAFETY: nobody else changes the heap here: what is allocated is small and fits.
        let start = unsafe { libc::sbrk(1 << 20) };
        let Some(range) = watch.add(start as u64 + PAGE as u64, PAGE) else { return 2 };
        let before = watch.is_intact(&range);
        // SAFETY: as above.
        unsafe { libc::sbrk(-(1 << 20)) };
        if before && !watch.is_intact(&range) { 0 } else { 3 }
    });
    assert_eq!(status, 0);
}

#[test]
fn memory_that_others_share_is_not_watched() {
    let Some(mut watch) = watch() else { return };
    let shared = map(null_mut(), PAGE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    touch(shared, PAGE);
    assert!(watch.add(shared as u64, PAGE).is_none());
    unmap(shared, PAGE);
    // SAFETY: a segment of the test's own, gone when it is detached.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, PAGE, libc::IPC_CREAT | 0o600) };
    // SAFETY: as above.
    let segment = unsafe { libc::shmat(id, std::ptr::null(), 0) };
    // SAFETY: as above.
    unsafe { libc::shmctl(id, libc::IPC_RMID, null_mut()) };
    assert!(watch.add(segment as u64, PAGE).is_none());
    // SAFETY: as above.
    unsafe { libc::shmdt(segment) };
    // Code of the program is a file's; nothing at all is mapped at the first page.
    assert!(watch.add(pages as fn(u64, usize) -> _ as usize as u64, 16).is_none());
    assert!(watch.add(0, PAGE).is_none());
    assert!(watch.add(shared as u64, 0).is_none());
}

#[test]
fn ranges_that_overlap_are_watched_until_the_last_is_removed() {
    let Some(mut watch) = watch() else { return };
    let start = map(null_mut(), 4 * PAGE, PRIVATE);
    touch(start, 4 * PAGE);
    let (first, second) =
        (watch.add(start as u64, 3 * PAGE).unwrap(), watch.add(start as u64 + 8192, 2 * PAGE).unwrap());
    watch.remove(first);
    assert!(watch.is_intact(&second));
    unmap(start.wrapping_byte_add(3 * PAGE), PAGE);
    assert!(!watch.is_intact(&second));
    unmap(start, 3 * PAGE);
}

#[test]
fn there_are_so_many_ranges() {
    let Some(mut watch) = watch() else { return };
    let start = map(null_mut(), 128 * PAGE, PRIVATE);
    let mut ranges: Vec<Watched> =
        (0..64).map(|page| watch.add(start as u64 + page * 8192, 16).expect("room")).collect();
    assert!(watch.add(start as u64, 16).is_none());
    watch.remove(ranges.remove(7));
    assert!(watch.add(start as u64, 16).is_some());
    unmap(start, 128 * PAGE);
}

/// Memory comes and goes at the same place, in several threads: what has come is never taken for what has gone.
#[test]
fn nobody_looks_too_early() {
    let threads: Vec<_> = (0..3)
        .map(|_| {
            std::thread::spawn(|| {
                let Some(mut watch) = watch() else { return };
                let at = map(null_mut(), 2 * PAGE, PRIVATE);
                for _ in 0..2000 {
                    let range = watch.add(at as u64, 2 * PAGE).expect("private memory");
                    assert!(watch.is_intact(&range));
                    assert_eq!(map(at, 2 * PAGE, PRIVATE | libc::MAP_FIXED), at);
                    assert!(!watch.is_intact(&range));
                    watch.remove(range);
                }
                unmap(at, 2 * PAGE);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// While one thread unmaps, another one has pages of its own at the same place, perhaps before the kernel has said a word.
#[test]
fn pages_of_another_thread_at_the_same_place_are_others() {
    // Far from where the kernel puts anything by itself.
    let at = std::ptr::without_provenance_mut(0x2000_0000_0000);
    let fresh = PRIVATE | libc::MAP_FIXED_NOREPLACE;
    let Some(mut watch) = watch() else { return };
    let barrier = std::sync::Barrier::new(2);
    const ROUNDS: usize = 3000;
    let mut trusted = 0;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..ROUNDS {
                barrier.wait();
                unmap(std::ptr::without_provenance_mut(0x2000_0000_0000), 2 * PAGE);
                barrier.wait();
            }
        });
        for _ in 0..ROUNDS {
            map(at, 2 * PAGE, fresh);
            let range = watch.add(at as u64, 2 * PAGE).expect("private memory");
            assert!(watch.is_intact(&range));
            barrier.wait();
            // SAFETY: pages of the test's own, where there are none.
            while unsafe { libc::mmap(at, 2 * PAGE, READ_WRITE, fresh, -1, 0) } != at {
                std::hint::spin_loop();
            }
            trusted += usize::from(watch.is_intact(&range));
            watch.remove(range);
            barrier.wait();
            unmap(at, 2 * PAGE);
        }
    });
    assert_eq!(trusted, 0, "times of {ROUNDS} that pages were taken for those before them");
}

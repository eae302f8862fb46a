//! The library as cargo builds it, processes that have loaded it with words of their own, and sides that talk.
#![allow(dead_code, unsafe_code)] // each file of tests uses its part; calls of a C function

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use verbs::*;

/// How long anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const SETTINGS: QpSettings = QpSettings {
    mtu: 1024,
    reads_in: 4,
    reads_out: 4,
    timeout: 14,
    retries: 7,
    rnr_retries: 7,
    rnr_timer: 12,
};
pub const CAPS: QpCaps = QpCaps { work: 64, receives: 0, sges: 2, inline_bytes: 64 };
pub const SLOT_BYTES: usize = 4096;

const LIBRARY: &str = "BANYAN_TEST_LIBIBVERBS";
const CHILD: &str = "BANYAN_TEST_STANDIN_CHILD";

/// The library, built: for a test cargo does not build what only C programs can link.
pub fn library() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = std::env::current_exe().expect("the test knows its file");
        let target = test.ancestors().nth(3).expect("target/profile/deps/test");
        let cargo = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--target-dir"])
            .arg(target)
            .status();
        assert!(cargo.expect("cargo runs").success(), "the library does not build");
        target.join("debug/libbanyan_verbs_standin.so")
    })
}

/// A process of this test with words for its devices. It does what `test` does in a child.
pub fn process(test: &str, words: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test knows its file"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(LIBRARY, library()).env("BANYAN_TEST_STANDIN", words).env(CHILD, test);
    command.env_remove("BANYAN_TEST_STANDIN_DIR");
    command
}

/// Is this a process that a test has started?
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Does `body` in a process of its own whose devices are told `words`: the library is loaded once, with what the environment says.
pub fn with(words: &str, test: &str, body: impl FnOnce()) {
    if is_child() {
        return body();
    }
    let output = process(test, words).output().expect("the process starts");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

/// Tells the devices of this process to fail.
pub fn control(words: &str) {
    let name = CString::new(library().to_str().expect("a path")).expect("no zeros");
    // SAFETY: a name; it is loaded already.
    let handle = unsafe { libc_open(name.as_ptr(), 2) };
    let symbol: &CStr = c"banyan_standin_control";
    // SAFETY: an open library and a name.
    let function = unsafe { libc_symbol(handle, symbol.as_ptr()) };
    assert!(!function.is_null());
    // SAFETY: the function of that name has this type.
    let function: extern "C" fn(*const c_char) -> c_int = unsafe { std::mem::transmute(function) };
    let words = CString::new(words).expect("no zeros");
    assert_eq!(function(words.as_ptr()), 0);
}

unsafe extern "C" {
    #[link_name = "dlopen"]
    fn libc_open(name: *const c_char, how: c_int) -> *mut std::ffi::c_void;
    #[link_name = "dlsym"]
    fn libc_symbol(handle: *mut std::ffi::c_void, name: *const c_char) -> *mut std::ffi::c_void;
}

/// An open device and what is needed to talk through it.
pub struct Side {
    pub context: Rc<Context>,
    pub pd: Rc<Pd>,
    pub cq: Rc<Cq>,
    pub srq: Rc<Srq>,
    pub arena: Rc<Arena>,
    pub port: Port,
    pub gid: Option<Gid>,
    /// Completions that were polled for and not asked for yet.
    seen: RefCell<Vec<Completion>>,
}

impl Side {
    /// The first device, with so many receives.
    pub fn open(receives: u64) -> Side {
        let devices = devices().expect("a device");
        let context = devices[0].open().expect("it opens");
        Self::on(context, receives)
    }

    pub fn on(context: Rc<Context>, receives: u64) -> Side {
        let port = context.port(1).expect("a port");
        let gid = match port.link {
            LinkLayer::Ethernet => context.gids(&port).into_iter().find(|gid| gid.kind == GidKind::RoceV2),
            LinkLayer::InfiniBand => None,
        };
        let pd = Pd::new(&context).expect("a domain");
        let cq = Cq::new(&context, 256).expect("a completion queue");
        let srq = Srq::new(&pd, 64).expect("a shared receive queue");
        let arena = Arena::new(&pd, 64, SLOT_BYTES).expect("memory");
        (0..receives).for_each(|slot| srq.post(slot, &arena, slot as usize).expect("a receive"));
        Side { context, pd, cq, srq, arena, port, gid, seen: RefCell::default() }
    }

    pub fn address(&self) -> Address {
        Address { port: 1, lid: self.port.lid, gids: self.gid.map(|gid| (gid, gid.raw)) }
    }

    pub fn qp(&self) -> Qp {
        Qp::new(&self.pd, QpKind::Rc, &self.cq, &self.cq, Some(&self.srq), CAPS).expect("a queue pair")
    }

    /// Moves a queue pair to RTS, towards a number at the same address.
    pub fn connect(&self, qp: &Qp, to: u32, settings: &QpSettings) {
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        qp.init(1, access).expect("INIT");
        qp.rtr(&Dest { address: self.address(), qp: to, psn: 5 }, settings).expect("RTR");
        qp.rts(5, settings).expect("RTS");
    }

    pub fn pair(&self) -> (Qp, Qp) {
        self.pair_with(&SETTINGS)
    }

    pub fn pair_with(&self, settings: &QpSettings) -> (Qp, Qp) {
        let (one, two) = (self.qp(), self.qp());
        self.connect(&one, two.num(), settings);
        self.connect(&two, one.num(), settings);
        (one, two)
    }

    /// The next so many completions.
    pub fn completions(&self, count: usize) -> Vec<Completion> {
        let mut seen = self.seen.borrow_mut();
        wait("completions", || {
            self.cq.poll(|completion| seen.push(completion)).expect("polled");
            (seen.len() >= count).then_some(())
        });
        seen.drain(..count).collect()
    }

    /// The next completion, by its number, if it is good.
    pub fn done(&self) -> u64 {
        let completion = self.completions(1).remove(0);
        assert!(matches!(completion.outcome, Outcome::Done { .. }), "{completion:?}");
        completion.id
    }

    /// Why the next one has failed.
    pub fn failed(&self) -> (u64, Failed) {
        let completion = self.completions(1).remove(0);
        match completion.outcome {
            Outcome::Failed(failed) => (completion.id, failed),
            done => panic!("{done:?}"),
        }
    }

    /// The next event of the device.
    pub fn event(&self) -> AsyncEvent {
        wait("an event", || self.context.next_event())
    }

    pub fn send(&self, qp: &Qp, id: u64, text: &[u8]) {
        qp.post(&Work::new(id, Operation::SendCopied(&[text.into()]))).expect("posted");
    }

    pub fn text(&self, slot: u64, bytes: usize) -> Vec<u8> {
        let mut text = vec![0; bytes];
        self.arena.read(slot as usize, 0, &mut text);
        text
    }
}

/// Does `step` until it yields something.
#[track_caller]
pub fn wait<T>(what: &str, mut step: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = step() {
            return value;
        }
        assert!(Instant::now() < until, "no sign of {what}");
        std::thread::yield_now();
    }
}

/// Is a descriptor readable now?
pub fn is_readable(fd: std::os::fd::BorrowedFd<'_>) -> bool {
    let set = sys::poll::Poll::new().expect("a set");
    set.add(fd, 0, sys::poll::Interest::Read).expect("watched");
    let mut ready = Vec::new();
    set.wait(Some(0), &mut ready).expect("asked");
    !ready.is_empty()
}

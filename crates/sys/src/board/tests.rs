//! The board against a model, against readers at full speed, and against nonsense.
use super::look::TableWord;
use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Names the board to a reader in a process of its own.
const BOARD: &str = "BANYAN_TEST_BOARD";
/// Keys that writer and hammering readers agree on.
const HAMMERED_KEYS: u32 = 24;
/// The exit code of a reader process that has seen what it should.
const ALL_WELL: i32 = 42;

fn key(n: u32) -> Vec<u8> {
    format!("key-{n}").into_bytes()
}

/// A value that shows whether it is whole: its key and version in every word, and a length that both decide.
fn marked_value(key: u32, version: u32) -> Vec<u8> {
    let word = (u64::from(key) << 32 | u64::from(version)).to_le_bytes();
    word.repeat(1 + (key * 7 + version * 13) as usize % 96)
}

fn version_of(key: u32, value: &[u8]) -> u32 {
    let version = u32::from_le_bytes(value[..4].try_into().unwrap());
    assert!(value == marked_value(key, version), "key {key}: {value:?} is not whole");
    version
}

fn value(found: Lookup) -> Option<Vec<u8>> {
    match found {
        Lookup::Value(value) => Some(value),
        Lookup::NotHere => None,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Keep(u32, usize),
    Drop(u32),
    Get(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![4 => 0usize..200, 1 => 0usize..=VALUE_BYTES_MAX];
    prop_oneof![
        5 => (0u32..600, size).prop_map(|(key, size)| Step::Keep(key, size)),
        3 => (0u32..600).prop_map(Step::Drop),
        2 => (0u32..600).prop_map(Step::Get),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_board_behaves_as_a_map(steps in prop::collection::vec(step(), 0..2000)) {
        let mut writer = BoardWriter::create().unwrap();
        let mut reader = BoardReader::open(&writer.locator()).unwrap();
        let mut model: HashMap<u32, Vec<u8>> = HashMap::new();
        for (count, step) in (0..=255u8).cycle().zip(steps) {
            match step {
                Step::Keep(k, size) => {
                    let bytes = vec![count; size];
                    prop_assert_eq!(writer.keep(&key(k), &bytes), Kept::Yes);
                    model.insert(k, bytes);
                }
                Step::Drop(k) => prop_assert_eq!(writer.drop_key(&key(k)), model.remove(&k).is_some()),
                Step::Get(k) => prop_assert_eq!(value(reader.get(&key(k))), model.get(&k).cloned()),
            }
            prop_assert_eq!(writer.entries(), model.len() as u64);
        }
        for k in 0..600 {
            prop_assert_eq!(value(reader.get(&key(k))), model.get(&k).cloned());
        }
    }

    /// Words of the segment that are anything at all: no fault, no endless loop.
    #[test]
    fn nonsense_is_survived(
        words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..64, Just(0)], 64..512),
        table in any::<u64>(),
        name in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        struct Nonsense(Vec<u64>);
        impl Load for Nonsense {
            fn load(&self, at: u64) -> Option<u64> {
                self.0.get(usize::try_from(at).ok()?).copied()
            }
        }
        let mut words = words;
        for table in [table, TableWord { unit: 1, buckets_log2: 2 }.pack()] {
            words[AT_TABLE as usize] = table;
            // Slots that do match, so that their entries are looked at.
            let at = TableWord::unpack(table).bucket(hash(&name), 0) as usize;
            if at + 1 < words.len() {
                words[at + 1] = look::Slot::new(hash(&name), 3).0;
            }
            look::attempt(&Nonsense(words.clone()), &name);
        }
    }
}

#[test]
fn keys_and_values_have_their_limits() {
    let mut writer = BoardWriter::create().unwrap();
    let mut reader = BoardReader::open(&writer.locator()).unwrap();
    let (long_key, long_value) = (vec![7; KEY_BYTES_MAX], vec![9; VALUE_BYTES_MAX]);
    assert_eq!(writer.keep(&long_key, &long_value), Kept::Yes);
    assert_eq!(value(reader.get(&long_key)), Some(long_value));
    assert_eq!(writer.keep(b"", b""), Kept::Yes);
    assert_eq!(value(reader.get(b"")), Some(Vec::new()));
    assert_eq!(writer.keep(&[7; KEY_BYTES_MAX + 1], b""), Kept::NoRoom);
    // What is too long does not leave the value before it.
    assert_eq!(writer.keep(&long_key, &[9; VALUE_BYTES_MAX + 1]), Kept::NoRoom);
    assert_eq!((value(reader.get(&long_key)), writer.entries()), (None, 1));
}

#[test]
fn a_full_board_keeps_what_it_has_and_takes_more_when_there_is_room() {
    const BYTES: usize = 64 << 10;
    let memory = SharedMemory::create("test", BYTES as u64).unwrap();
    let mut table = Table::new(memory.map(0, BYTES).unwrap(), BYTES as u64, 2);
    let kept = (0..).take_while(|n| table.keep(&key(*n), &[0; 4000]) == Kept::Yes).count() as u32;
    assert!((10..16).contains(&kept), "{kept}");
    assert_eq!(table.entries(), u64::from(kept));
    assert!(table.drop_key(&key(3)));
    assert_eq!(table.keep(&key(kept), &[0; 4000]), Kept::Yes);
    for n in 0..=kept {
        let found = look::attempt(&memory.map_read_only(BYTES, BYTES as u64).unwrap(), &key(n));
        let expected = if n == 3 { Attempt::NotHere } else { Attempt::Value(vec![0; 4000]) };
        assert_eq!(found, expected, "key {n}");
    }
}

#[test]
fn room_is_used_again() {
    let mut writer = BoardWriter::create().unwrap();
    let round = |writer: &mut BoardWriter, round: u32| {
        for n in 0..100 {
            let size = 50 + (n * 37 + round * 11) as usize % 400;
            assert_eq!(writer.keep(&key(n + round * 10), &vec![1; size]), Kept::Yes);
        }
        (0..10).for_each(|n| assert!(writer.drop_key(&key(n + round * 10))));
    };
    (0..20).for_each(|number| round(&mut writer, number));
    let touched = writer.touched_bytes().unwrap();
    (20..1000).for_each(|number| round(&mut writer, number));
    let grown = writer.touched_bytes().unwrap() - touched;
    assert!(grown <= touched, "{touched} bytes touched after 20 rounds, {grown} more after 1000");
}

#[test]
fn a_reader_follows_a_board_that_outgrows_its_window() {
    let mut writer = BoardWriter::create().unwrap();
    let mut reader = BoardReader::open(&writer.locator()).unwrap();
    for n in 0..400 {
        assert_eq!(writer.keep(&key(n), &vec![n as u8; 60_000]), Kept::Yes);
    }
    for n in (0..400).rev() {
        assert_eq!(value(reader.get(&key(n))), Some(vec![n as u8; 60_000]));
    }
    assert!(reader.map.bytes() as u64 > WINDOW_BYTES && (reader.map.bytes() as u64) < SEGMENT_BYTES);
}

#[test]
fn the_count_of_fences_is_seen() {
    let mut writer = BoardWriter::create().unwrap();
    let reader = BoardReader::open(&writer.locator()).unwrap();
    assert_eq!(reader.fences(), 0);
    writer.fences_over(3);
    assert_eq!(reader.fences(), 3);
}

#[test]
fn what_is_no_board_is_refused() {
    let open = |memory: &SharedMemory| BoardReader::open(&memory.locator().unwrap()).unwrap_err().to_string();
    let unsealed = SharedMemory::create("test", 1 << 20).unwrap();
    assert!(open(&unsealed).ends_with("not sealed"), "{}", open(&unsealed));
    let empty = SharedMemory::create_sealable("test", 1 << 20).unwrap();
    empty.seal_but_for_maps().unwrap();
    assert!(open(&empty).ends_with("not a board of this version"), "{}", open(&empty));
    let short = SharedMemory::create_sealable("test", 8).unwrap();
    short.seal_but_for_maps().unwrap();
    assert!(open(&short).ends_with("too short"), "{}", open(&short));
    let writer = BoardWriter::create().unwrap();
    let mut recycled = writer.locator();
    recycled.start_ticks += 1;
    let error = BoardReader::open(&recycled).unwrap_err().to_string();
    assert!(error.ends_with("of an earlier process with this number"), "{error}");
}

/// Replaces, drops and keeps until told to stop. Keys below a third are always there.
fn churn(writer: &mut BoardWriter, done: &mut dyn FnMut(u32) -> bool) {
    let mut round = 1;
    while !done(round) {
        for n in 0..HAMMERED_KEYS {
            if n % 3 == 0 || (n + round) % 4 != 0 {
                assert_eq!(writer.keep(&key(n), &marked_value(n, round)), Kept::Yes);
            } else {
                writer.drop_key(&key(n));
            }
        }
        // Now and then enough others that the table grows.
        if round % 256 == 0 && writer.entries() < 50_000 {
            let first = 1000 + round * 4;
            (first..first + 512).for_each(|n| assert_eq!(writer.keep(&key(n), b"x"), Kept::Yes));
        }
        round += 1;
    }
}

/// Reads until it has seen many versions: only whole values, and never an older one than before.
fn hammer(reader: &mut BoardReader, rounds: usize) {
    let mut newest = [0; HAMMERED_KEYS as usize];
    let mut found = 0;
    let limit = Instant::now() + Duration::from_secs(20);
    for (round, n) in (0..).zip((0..HAMMERED_KEYS).cycle()) {
        if let Lookup::Value(value) = reader.get(&key(n)) {
            let version = version_of(n, &value);
            assert!(version >= newest[n as usize], "key {n}: {version} after {}", newest[n as usize]);
            newest[n as usize] = version;
            found += 1;
        }
        if (round >= rounds && newest.iter().any(|version| *version > 100)) || Instant::now() > limit {
            break;
        }
    }
    assert!(found > rounds / 4, "{found} values found in {rounds} lookups");
}

#[test]
fn a_reading_thread_sees_whole_values_only() {
    let mut writer = BoardWriter::create().unwrap();
    churn(&mut writer, &mut |round| round > 1);
    let mut reader = BoardReader::open(&writer.locator()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stop = StopOnDrop(&done);
            hammer(&mut reader, 200_000);
            drop(stop);
        });
        churn(&mut writer, &mut |_| done.load(Ordering::Relaxed));
    });
}

/// Also when the reader fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn reading_processes_see_whole_values_only_and_one_that_is_killed_disturbs_nobody() {
    let mut writer = BoardWriter::create().unwrap();
    churn(&mut writer, &mut |round| round > 1);
    let start = |role: &str| other_process(&writer, role).spawn().unwrap();
    let (mut victim, mut reader) = (start("reads_for_ever"), start("reads_much"));
    let mut ended: Option<ExitStatus> = None;
    churn(&mut writer, &mut |round| {
        if round == 500 {
            victim.kill().unwrap();
        }
        if round % 64 == 0 {
            ended = reader.try_wait().unwrap();
        }
        ended.is_some() && round > 500
    });
    victim.wait().unwrap();
    assert_eq!(ended.and_then(|status| status.code()), Some(ALL_WELL));
}

#[test]
fn a_lookup_makes_no_system_call() {
    let mut writer = BoardWriter::create().unwrap();
    (0..HAMMERED_KEYS).for_each(|n| assert_eq!(writer.keep(&key(n), &marked_value(n, 1)), Kept::Yes));
    writer.fences_over(1);
    let status = other_process(&writer, "reads_without_system_calls").status().unwrap();
    assert_eq!(status.code(), Some(ALL_WELL), "{status}");
}

/// This test program again, as the reader `role` below.
fn other_process(writer: &BoardWriter, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("board::tests::{role}"), "--nocapture", "--ignored"]);
    command.env(BOARD, writer.locator().to_string()).stdout(std::process::Stdio::null());
    command
}

fn reader_of_the_other() -> BoardReader {
    let at = std::env::var(BOARD).expect("started by another test");
    BoardReader::open(&at.parse().unwrap()).unwrap()
}

#[test]
#[ignore = "the reader of another test"]
fn reads_much() {
    hammer(&mut reader_of_the_other(), 200_000);
    std::process::exit(ALL_WELL);
}

#[test]
#[ignore = "the reader of another test"]
fn reads_for_ever() {
    hammer(&mut reader_of_the_other(), usize::MAX);
}

#[test]
#[ignore = "the reader of another test"]
fn reads_without_system_calls() {
    let mut reader = reader_of_the_other();
    let keys: Vec<Vec<u8>> = (0..HAMMERED_KEYS).map(key).collect();
    let read = |reader: &mut BoardReader| {
        let whole = |n: u32| value(reader.get(&keys[n as usize])) == Some(marked_value(n, 1));
        (0..HAMMERED_KEYS).all(whole) && reader.fences() == 1
    };
    // Once before, so that memory for the values is there.
    assert!(read(&mut reader));
    forbid_system_calls();
    let all_well = (0..100).all(|_| read(&mut reader));
    // SAFETY: ends the process; the one call that is still allowed.
    unsafe { libc::syscall(libc::SYS_exit_group, if all_well { ALL_WELL } else { 1 }) };
}

/// Any system call of this thread but the one that ends the process kills the process.
fn forbid_system_calls() {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        // The number of the call is the first word.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_exit_group as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: gives up the gain of privileges on exec, which a filter requires.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: `program` and the filter it points to live until the call returns.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}

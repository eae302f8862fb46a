//! PMI-1 and PMI-2 through the real launcher, spoken by scripts that are its ranks.
mod common;
mod scripted;

use proto::pmi2::{Abort, Pair, Reply, Request, Spawn, SpawnCommand, Verb, Wait, rc};
use scripted::{One, Two, number, rank, run, say};
use std::path::Path;

/// Rounds of puts, a fence, and gets of everything.
const ROUNDS: u32 = 3;

#[test]
#[ignore = "what the ranks of the other tests run"]
fn as_a_rank() {
    let Some(script) = scripted::script() else { return };
    match script.as_str() {
        "keys" => keys(),
        "pipeline" => pipeline(),
        "threads" => threads(),
        "node" => node_attributes(),
        "gone" => gone_while_waiting(),
        "names" => names(),
        "spawn1" | "spawn2" => spawn(&script),
        "talk" => talk(),
        "too_soon" => too_soon(),
        "facts" => facts(),
        "limits" => limits(),
        "abort" => abort(),
        "leave" => std::mem::drop(Two::start()),
        "noise" => noise(),
        "flood" => flood(),
        "elsewhere" => elsewhere(),
        other => panic!("no script '{other}'"),
    }
    std::process::exit(0);
}

/// Even ranks speak PMI-1, odd ones PMI-2: they have one board.
enum Either {
    One(One),
    Two(Two),
}

impl Either {
    fn start() -> Self {
        if rank().is_multiple_of(2) { Either::One(One::start()) } else { Either::Two(Two::start()) }
    }

    fn put(&mut self, key: &str, value: &str) {
        match self {
            Either::One(one) => assert_eq!(one.put(key, value), "cmd=put_result rc=0 msg=success"),
            Either::Two(two) => assert_eq!(two.put(key, value), Reply::Put),
        }
    }

    fn get(&mut self, key: &str) -> Option<String> {
        match self {
            Either::One(one) => one.get(key),
            Either::Two(two) => two.get(key),
        }
    }

    fn fence(&mut self) {
        match self {
            Either::One(one) => one.barrier(),
            Either::Two(two) => two.fence(),
        }
    }

    fn finalize(&mut self) {
        match self {
            Either::One(one) => one.finalize(),
            Either::Two(two) => two.finalize(),
        }
    }
}

fn keys() {
    let mut client = Either::start();
    for round in 0..ROUNDS {
        client.put(&format!("key-{round}-{}", rank()), &format!("a value=of {} in {round}", rank()));
        client.fence();
        for peer in 0..number("PMI_SIZE") {
            let value = client.get(&format!("key-{round}-{peer}"));
            assert_eq!(value, Some(format!("a value=of {peer} in {round}")));
        }
        for _ in 0..2 {
            assert_eq!(client.get("absent"), None);
        }
    }
    client.finalize();
    say("right");
}

#[test]
fn keys_are_read_on_every_node_whatever_the_board_and_the_protocol() {
    for board in ["hcs", "hcma", "hcmab", "hcmab-lru"] {
        for (ranks, nodes) in [("6", "1"), ("9", "4"), ("24", "12")] {
            let (code, said, err) = run(&["-n", ranks, "--nodes", nodes, "--board", board], "keys");
            assert_eq!((code, said.len(), err.as_str()), (Some(0), ranks.parse().unwrap(), ""), "{board}");
        }
    }
}

/// A client that does not wait for answers gets them in the order of its questions.
fn pipeline() {
    let next = format!("key-{}", (rank() + 1) % number("PMI_SIZE"));
    let mut two = Two::start();
    two.send(&[
        (Request::Put { key: format!("key-{}", rank()).into(), value: b"v".to_vec() }, None),
        (Request::Fence, None),
        (Request::Get { job: None, source: None, key: next.into() }, None),
        (Request::Fence, None),
        (Request::Lookup { name: b"nothing".to_vec() }, None),
        (Request::JobGetId, None),
        (Request::Finalize, None),
    ]);
    let replies: Vec<Reply> = (0..7).map(|_| two.reply().0).collect();
    assert_eq!(replies[..2], [Reply::Put, Reply::Fenced]);
    assert_eq!(replies[2..4], [Reply::Got(Some(b"v".to_vec())), Reply::Fenced]);
    assert_eq!(replies[4], Reply::refused(Verb::Lookup, rc::FAIL, "service_not_found"));
    assert!(matches!(replies[5..], [Reply::JobId(_), Reply::Finalized]), "{replies:?}");
    say("right");
}

#[test]
fn a_client_that_runs_ahead_is_answered_in_order() {
    for board in ["hcs", "hcmab-lru"] {
        let (code, said, err) = run(&["-n", "6", "--nodes", "3", "--board", board], "pipeline");
        assert_eq!((code, said.len(), err.as_str()), (Some(0), 6, ""), "{board}");
    }
}

/// Threads of one client do not wait for each other.
fn threads() {
    let attribute = |key: &str| Request::GetNodeAttribute { key: key.into(), wait: Wait::UntilPut };
    let put = |key: &str| Request::PutNodeAttribute { key: key.into(), value: key.into() };
    let mut two = Two::start();
    two.send(&[(attribute("a"), Some("1")), (attribute("b"), Some("2")), (Request::Fence, Some("3"))]);
    two.send(&[(put("b"), Some("4")), (put("a"), Some("4"))]);
    let mut replies: Vec<_> = (0..5).map(|_| two.reply()).collect();
    replies.sort_by_key(|(_, thread)| thread.clone());
    let threads: Vec<_> = replies.iter().filter_map(|(_, thread)| thread.as_deref()).collect();
    assert_eq!(threads, ["1", "2", "3", "4", "4"]);
    assert_eq!(replies[0].0, Reply::NodeAttribute(Some(b"a".to_vec())));
    assert_eq!(replies[1].0, Reply::NodeAttribute(Some(b"b".to_vec())));
    assert_eq!(replies[2].0, Reply::Fenced);
    two.finalize();
    say("right");
}

#[test]
fn threads_of_a_client_do_not_wait_for_each_other() {
    let (code, said, err) = run(&["-n", "3", "--nodes", "3"], "threads");
    assert_eq!((code, said.len(), err.as_str()), (Some(0), 3, ""));
}

/// The last rank of a node tells the others, most of which wait already.
fn node_attributes() {
    let (local, locals) = (number("MPI_LOCALRANKID"), number("MPI_LOCALNRANKS"));
    let mut two = Two::start();
    let absent = two.ask(Request::GetNodeAttribute { key: b"no".to_vec(), wait: Wait::No });
    assert_eq!(absent, Reply::NodeAttribute(None));
    if local == locals - 1 {
        let value = rank().to_string().into_bytes();
        let put = two.ask(Request::PutNodeAttribute { key: b"last".to_vec(), value });
        assert_eq!(put, Reply::NodeAttributePut);
    }
    match two.ask(Request::GetNodeAttribute { key: b"last".to_vec(), wait: Wait::UntilPut }) {
        Reply::NodeAttribute(Some(value)) => say(&String::from_utf8(value).unwrap()),
        other => panic!("{other:?}"),
    }
    two.finalize();
}

#[test]
fn attributes_of_a_node_are_its_own_and_can_be_waited_for() {
    let (code, said, err) = run(&["-n", "7", "--nodes", "2"], "node");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(said, ["3", "3", "3", "3", "6", "6", "6"]);
}

/// Rank 1 waits for an attribute and leaves; rank 0 puts it when it has gone.
fn gone_while_waiting() {
    let mut two = Two::start();
    if rank() == 1 {
        two.put("pid", &std::process::id().to_string());
        two.fence();
        let wait = Request::GetNodeAttribute { key: b"k".to_vec(), wait: Wait::UntilPut };
        two.send(&[(wait, Some("1")), (Request::Finalize, Some("2"))]);
        assert_eq!(two.reply(), (Reply::Finalized, Some("2".into())));
        return;
    }
    two.fence();
    let process = format!("/proc/{}", two.get("pid").unwrap());
    common::wait_until("rank 1 to leave", || !Path::new(&process).exists());
    let put = two.ask(Request::PutNodeAttribute { key: b"k".to_vec(), value: b"v".to_vec() });
    assert_eq!(put, Reply::NodeAttributePut);
    two.finalize();
    say("right");
}

#[test]
fn a_rank_that_leaves_while_it_waits_is_forgotten() {
    let (code, said, err) = run(&["-n", "2"], "gone");
    assert_eq!((code, said.len(), err.as_str()), (Some(0), 1, ""));
}

fn names() {
    let service = || b"a service;".to_vec();
    let mut two = Two::start();
    if rank() == 3 {
        let publish = |port: &[u8]| Request::Publish { name: service(), port: port.to_vec() };
        assert_eq!(two.ask(publish(b"port#1;")), Reply::Published);
        let taken = Reply::refused(Verb::Publish, rc::FAIL, "key_already_present");
        assert_eq!(two.ask(publish(b"port#2")), taken);
    }
    two.fence();
    assert_eq!(two.ask(Request::Lookup { name: service() }), Reply::Found(b"port#1;".to_vec()));
    two.fence();
    if rank() == 0 {
        assert_eq!(two.ask(Request::Unpublish { name: service() }), Reply::Unpublished);
        let none = Reply::refused(Verb::Unpublish, rc::FAIL, "service_not_found");
        assert_eq!(two.ask(Request::Unpublish { name: service() }), none);
    }
    two.fence();
    let none = Reply::refused(Verb::Lookup, rc::FAIL, "service_not_found");
    assert_eq!(two.ask(Request::Lookup { name: service() }), none);
    two.finalize();
    say("right");
}

#[test]
fn names_are_found_from_every_node_over_pmi_2() {
    let (code, said, err) = run(&["-n", "4", "--nodes", "4"], "names");
    assert_eq!((code, said.len(), err.as_str()), (Some(0), 4, ""));
}

/// Rank 0 starts three more processes as two programs, and gives them a key.
fn spawn(script: &str) {
    if std::env::var_os("PMI_SPAWNED").is_some() {
        return spawned();
    }
    let (program, rank) = (std::env::current_exe().unwrap(), rank());
    let words = scripted::words(program.to_str().unwrap());
    match script {
        "spawn1" => {
            let mut one = One::start();
            if rank == 0 {
                assert_eq!(one.ask(&spawn_blocks("/no/such/program", &[])), NOT_FOUND);
                // One rank of three can be started, and is killed.
                let (first, second) =
                    (spawn_blocks(words[0], &words[1..]), "info_val_0=/no/such/folder\nendcmd");
                let half = first.strip_suffix("info_val_0=/\nendcmd").unwrap().to_string() + second;
                let refused = one.ask(&half);
                assert!(refused.starts_with("cmd=spawn_result rc=-1 msg=node "), "{refused}");
                assert!(refused.contains("working folder '/no/such/folder': No such file"), "{refused}");
                assert_eq!(one.ask(&spawn_blocks(words[0], &words[1..])), "cmd=spawn_result rc=0");
            }
            one.finalize();
        }
        _ => {
            let mut two = Two::start();
            if rank == 0 {
                let refused = two.ask(spawn_frame("/no/such/program", &[]));
                let why = "program '/no/such/program' was not found";
                assert_eq!(refused, Reply::refused(Verb::Spawn, rc::OTHER, why));
                match two.ask(spawn_frame(words[0], &words[1..])) {
                    Reply::Spawned { errcodes, .. } => assert_eq!(errcodes, [0; 3]),
                    other => panic!("{other:?}"),
                }
            }
            two.finalize();
        }
    }
}

const NOT_FOUND: &str = "cmd=spawn_result rc=-1 msg=program '/no/such/program' was not found";

fn spawn_blocks(program: &str, args: &[&str]) -> String {
    let count = args.len();
    let args: String = (1..).zip(args).map(|(i, arg)| format!("arg{i}={arg}\n")).collect();
    let block = |number: u32, processes: u32| {
        format!(
            "mcmd=spawn\nnprocs={processes}\nexecname={program}\ntotspawns=2\nspawnssofar={number}\n{args}\
             argcnt={count}\npreput_num=1\npreput_key_0=PARENT\npreput_val_0=tag=0\ninfo_num=1\ninfo_key_0=wdir\n\
             info_val_0=/\nendcmd"
        )
    };
    format!("{}\n{}", block(1, 1), block(2, 2))
}

fn spawn_frame(program: &str, args: &[&str]) -> Request {
    let command = |processes| SpawnCommand {
        program: program.into(),
        processes,
        args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        infos: vec![Pair { key: b"wdir".to_vec(), value: b"/".to_vec() }],
    };
    let preputs = vec![Pair { key: b"PARENT".to_vec(), value: b"tag=0".to_vec() }];
    Request::Spawn(Spawn { preputs, commands: vec![command(1), command(2)] })
}

fn spawned() {
    let mut two = Two::start();
    assert_eq!((two.size, two.program), (3, i32::from(rank() > 0)));
    assert!(two.spawner.as_ref().is_some_and(|job| job.starts_with(b"banyan-")));
    assert_eq!(std::env::current_dir().unwrap(), Path::new("/"));
    assert_eq!(two.get("PARENT").as_deref(), Some("tag=0"));
    two.put(&format!("key-{}", rank()), "v");
    two.fence();
    assert!((0..3).all(|peer| two.get(&format!("key-{peer}")).as_deref() == Some("v")));
    two.finalize();
    say("spawned");
}

#[test]
fn ranks_start_jobs_over_either_protocol() {
    for script in ["spawn1", "spawn2"] {
        let (code, said, err) = run(&["-n", "3", "--nodes", "3"], script);
        assert_eq!((code, said.len(), err.as_str()), (Some(0), 3, ""), "{script}");
    }
}

/// More than a pipe holds, in lines.
const MANY_LINES: usize = 4000;

/// Starts three more processes, who have much to say.
fn talk() {
    if std::env::var_os("PMI_SPAWNED").is_some() {
        let mut one = One::start();
        (0..MANY_LINES).for_each(|_| say("as long as some lines of output are"));
        return one.finalize();
    }
    let (mut one, program) = (One::start(), std::env::current_exe().unwrap());
    let words = scripted::words(program.to_str().unwrap());
    assert_eq!(one.ask(&spawn_blocks(words[0], &words[1..])), "cmd=spawn_result rc=0");
    one.finalize();
}

#[test]
fn what_spawned_ranks_write_is_read_while_they_run() {
    let (code, said, err) = run(&["-n", "1", "--timeout", "60"], "talk");
    assert_eq!((code, said.len(), err.as_str()), (Some(0), 3 * MANY_LINES, ""));
}

/// One rank of a spawned job ends before it calls MPI; the others would run for long.
fn too_soon() {
    let mut one = One::start();
    if rank() > 0 {
        return one.finalize();
    }
    let refusal = |one: &mut One, script: &str| {
        let script = format!("[ $PMI_RANK = 1 ] || exec sleep 600; {script}");
        let refused = one.ask(&spawn_blocks("sh", &["-c", &script]));
        let words =
            refused.strip_prefix("cmd=spawn_result rc=-1 msg=rank 1 of spawned job ").map(str::to_owned);
        let words = words.unwrap_or_else(|| panic!("{refused}"));
        words.split_once(", 'sh', ").map_or(words.clone(), |(_, how)| how.to_owned())
    };
    assert_eq!(refusal(&mut one, "exit 0"), "exited with code 0 and never called MPI_Init");
    assert_eq!(
        refusal(&mut one, "echo no library >&2; exit 127"),
        "exited with code 127 and never called MPI_Init; its last words: \"no library\""
    );
    let killed = "was killed by signal 9 (Killed) and never called MPI_Init";
    assert_eq!(refusal(&mut one, "kill -9 $$"), killed);
    let begun = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; exit 3";
    assert_eq!(refusal(&mut one, begun), "exited with code 3 before all of its job had called MPI_Init");
    // Nothing of that has hurt this one.
    assert_eq!(
        one.ask("cmd=lookup_name service=any"),
        "cmd=lookup_result info=ok rc=1 msg=service_not_found"
    );
    one.finalize();
    say("refused");
}

#[test]
fn a_spawn_fails_if_a_rank_ends_before_mpi_init() {
    for nodes in ["1", "2"] {
        let (code, said, err) = run(&["-n", nodes, "--nodes", nodes, "--timeout", "60"], "too_soon");
        assert_eq!((code, said), (Some(0), vec!["refused".into()]), "{err}");
    }
}

fn facts() {
    let mut two = Two::start();
    let mut attribute = |key: &str| match two.ask(Request::GetJobAttribute { key: key.into() }) {
        Reply::JobAttribute(value) => {
            say(&format!("{key}: {}", value.map_or("none".into(), |value| String::from_utf8(value).unwrap())))
        }
        other => panic!("{other:?}"),
    };
    attribute("PMI_process_mapping");
    attribute("universeSize");
    attribute("anything else");
    let job = std::env::var("PMI_JOBID").unwrap().into_bytes();
    assert_eq!(two.ask(Request::JobGetId), Reply::JobId(job.clone()));
    let get = |job: &[u8]| Request::Get { job: Some(job.to_vec()), source: Some(9), key: b"k".to_vec() };
    assert_eq!(two.ask(get(&job)), Reply::Got(None));
    assert!(matches!(two.ask(get(b"other")), Reply::Refused { verb: Verb::Get, rc: rc::INVALID_ARG, .. }));
    let connect = two.ask(Request::JobConnect { job: b"other".to_vec() });
    assert!(matches!(connect, Reply::Refused { verb: Verb::JobConnect, .. }));
    assert_eq!(two.program, i32::from(rank() == 3));
    two.finalize();
}

#[test]
fn facts_of_the_job_are_answered() {
    let program = std::env::current_exe().unwrap();
    let words = scripted::words(program.to_str().unwrap());
    let mut options = vec!["--nodes", "2", "-usize", "8", "-n", "3"];
    options.extend(words);
    options.push(":");
    let (code, said, err) = run(&options, "facts");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let expected = ["PMI_process_mapping: (vector,(0,2,2))", "anything else: none", "universeSize: 8"]
        .map(|line| [line; 4]);
    assert_eq!(said, expected.concat());
}

/// What is too long is refused, and the job goes on.
fn limits() {
    let value_max = number("VALUE_MAX") as usize;
    if rank() == 0 {
        let mut one = One::start();
        let maxes = format!("cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max={value_max}");
        assert_eq!(one.ask("cmd=get_maxes"), maxes);
        let long = "cmd=put_result rc=-1 msg=the value is too long";
        assert_eq!(one.put("k", &"v".repeat(value_max)), long);
        assert_eq!(one.put(&"k".repeat(64), "v"), "cmd=put_result rc=-1 msg=the key is too long");
        assert_eq!(one.put(&"k".repeat(63), &"v".repeat(value_max - 1)), "cmd=put_result rc=0 msg=success");
        one.barrier();
        let get = format!("cmd=get kvsname={} key={}", one.kvs, "k".repeat(5000));
        assert!(one.ask(&get).starts_with("cmd=get_result rc=-1 msg="));
        for verb in ["publish", "lookup", "unpublish"] {
            let refused = one.ask(&format!("cmd={verb}_name service={} port=p", "s".repeat(300_000)));
            let why = "rc=-1 msg=a request to the launcher of more than 196608 bytes";
            assert!(refused.ends_with(why), "{refused}");
        }
        let other = one.ask("cmd=put kvsname=other key=k value=v");
        assert_eq!(other, "cmd=put_result rc=-1 msg=no such key-value space");
        one.finalize();
    } else {
        let mut two = Two::start();
        let long = two.put("k", &"v".repeat(1025));
        assert_eq!(long, Reply::refused(Verb::Put, rc::INVALID_VAL_LENGTH, "the value is too long"));
        let long = two.put(&"k".repeat(65), "v");
        assert_eq!(long, Reply::refused(Verb::Put, rc::INVALID_KEY_LENGTH, "the key is too long"));
        assert_eq!(two.put(&"K".repeat(64), &"v".repeat(1024)), Reply::Put);
        two.fence();
        assert_eq!(two.get(&"k".repeat(63)), Some("v".repeat(value_max - 1)));
        let get = Request::Get { job: None, source: None, key: vec![b'k'; 5000] };
        assert!(matches!(two.ask(get), Reply::Refused { verb: Verb::Get, .. }));
        two.finalize();
    }
    say("right");
}

#[test]
fn what_is_too_long_is_refused_and_the_job_goes_on() {
    for (options, value_max) in [(&[][..], "1024"), (&["--pmi-value-max", "16384"], "16384")] {
        let mut options = options.to_vec();
        options.extend(["-n", "2", "--nodes", "2", "-genv", "VALUE_MAX", value_max]);
        let (code, said, err) = run(&options, "limits");
        assert_eq!((code, said.len(), err.as_str()), (Some(0), 2, ""));
    }
}

fn abort() {
    let mut two = Two::start();
    if rank() == 1 {
        let exit_code = std::env::var("CODE").ok().map(|code| code.parse().unwrap());
        let message = b"application called MPI_Abort(MPI_COMM_WORLD, 7) - process 1".to_vec();
        two.send(&[(Request::Abort(Abort { world: true, exit_code, message }), None)]);
    }
    two.fence();
}

#[test]
fn an_abort_over_pmi_2_ends_the_job_with_its_code() {
    for (options, expected) in [(&[][..], 7), (&["-genv", "CODE", "5"], 5), (&["-genv", "CODE", "256"], 1)] {
        let mut options = options.to_vec();
        options.extend(["-n", "3", "--nodes", "2", "--kill-grace", "10"]);
        let (code, _, err) = run(&options, "abort");
        assert_eq!(code, Some(expected), "{err}");
        assert!(
            err.contains("banyan: rank 1 (pid ") && err.contains(", node 0) called MPI_Abort with"),
            "{err}"
        );
    }
}

#[test]
fn leaving_without_finalize_is_named_over_pmi_2_too() {
    let (code, _, err) = run(&["-n", "1"], "leave");
    assert_eq!(code, Some(1));
    assert!(err.contains("exited with code 0 but without MPI_Finalize"), "{err}");
}

/// Bytes that are no PMI-2 at all.
fn noise() {
    let mut two = Two::start();
    if rank() == 1 {
        two.send_bytes(&std::fs::read(std::env::var("NOISE").unwrap()).unwrap());
    }
    two.fence();
}

#[test]
fn noise_ends_the_job_and_is_quoted() {
    let cases: [(&[u8], &str); 4] = [
        (b"hello!", "PMI-2 frame with 'hello!' for a length"),
        (b"999999", "PMI-2 message of 999999 bytes, at most 65536 are allowed"),
        (b"8     garbage;", "PMI-2 message without a command: 'garbage;'"),
        (b"9     cmd=\xff\xfe\0\0;", "unknown PMI-2 command"),
    ];
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = ["-n", "2", "--kill-grace", "10", "-genv", "NOISE", file.path().to_str().unwrap()];
    for (bytes, why) in cases {
        std::fs::write(file.path(), bytes).unwrap();
        let (code, _, err) = run(&options, "noise");
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("banyan: rank 1 (pid ") && err.contains("broke the PMI protocol: "), "{err}");
        assert!(err.contains(why), "{err}");
    }
}

/// More than any client has to say before it is answered.
fn flood() {
    let mut two = Two::start();
    if rank() == 1 {
        two.send(&[(Request::Fence, None)]);
        let many = vec![(Request::JobGetId, None); 2000];
        two.send(&many);
    }
    let _ = two.reply();
    two.fence();
}

#[test]
fn a_client_that_only_asks_is_stopped() {
    let (code, _, err) = run(&["-n", "2", "--kill-grace", "10"], "flood");
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("broke the PMI protocol: more than 1024 PMI-2 requests"), "{err}");
}

/// A version that nobody speaks is refused, and the client may try another.
fn elsewhere() {
    let mut one = One::bare();
    let refused = one.ask("cmd=init pmi_version=3 pmi_subversion=0");
    assert_eq!(refused, "cmd=response_to_init rc=-1 msg=only versions 1 and 2 are spoken here");
    let init = one.ask("cmd=init pmi_version=1 pmi_subversion=1");
    assert_eq!(init, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
    one.finalize();
    say("right");
}

#[test]
fn a_version_that_nobody_speaks_is_refused() {
    let (code, said, err) = run(&["-n", "1"], "elsewhere");
    assert_eq!((code, said.len(), err.as_str()), (Some(0), 1, ""));
}

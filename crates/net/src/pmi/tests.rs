//! The client against a server that says what the test's script says.
mod two;

use super::*;
use crate::job::JobFacts;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

/// What the server expects, and what it answers. An empty answer closes the connection.
type Script = &'static [(&'static str, &'static str)];

const INIT: (&str, &str) =
    ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
const NAME: (&str, &str) = ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=job_7");

fn serve(stream: impl std::io::Read + Write, script: &[(&str, &str)]) {
    let mut stream = BufReader::new(stream);
    for (expected, answer) in script {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end_matches('\n'), *expected);
        if answer.is_empty() {
            return;
        }
        // In two writes, as a server under load may do.
        let (head, tail) = answer.split_at(answer.len() / 2);
        stream.get_mut().write_all(head.as_bytes()).unwrap();
        stream.get_mut().write_all(format!("{tail}\n").as_bytes()).unwrap();
    }
}

/// A server in a thread, and what a client's environment would be.
fn server(script: Script) -> (UnixStream, JoinHandle<()>) {
    let (client, server) = UnixStream::pair().unwrap();
    (client, thread::spawn(move || serve(server, script)))
}

fn connect(client: &UnixStream) -> Result<Client, PmiError> {
    connect_with(client, None)
}

fn connect_with(client: &UnixStream, node: Option<&str>) -> Result<Client, PmiError> {
    let fd = client.as_raw_fd().to_string();
    let pmi = Client::from_variables(|name| match name {
        "PMI_FD" => Some(fd.clone()),
        "PMI_RANK" => Some("3".into()),
        "PMI_SIZE" => Some("8".into()),
        "BANYAN_NODE" => node.map(String::from),
        _ => None,
    });
    pmi.map(|pmi| pmi.expect("the environment names a launcher"))
}

const MAPPING: (&str, &str) = (
    "cmd=get kvsname=job_7 key=PMI_process_mapping",
    "cmd=get_result rc=0 msg=success value=(vector,(0,2,4))",
);
const APPNUM: (&str, &str) = ("cmd=get_appnum", "cmd=appnum rc=0 appnum=2");
const UNIVERSE: (&str, &str) = ("cmd=get_universe_size", "cmd=universe_size rc=0 size=-1");
const PUT: (&str, &str) = ("cmd=put kvsname=job_7 key=card-3 value=a=b c", "cmd=put_result rc=0 msg=success");
const BARRIER: (&str, &str) = ("cmd=barrier_in", "cmd=barrier_out rc=0");
const FINALIZE: (&str, &str) = ("cmd=finalize", "cmd=finalize_ack rc=0");

#[test]
fn a_whole_life_in_lock_step_and_ahead() {
    for node in [None, Some("1:2:3")] {
        let (client, server) = server(&[
            INIT,
            NAME,
            MAPPING,
            PUT,
            BARRIER,
            ("cmd=get kvsname=job_7 key=card-4", "cmd=get_result rc=0 msg=success value=x"),
            (
                "cmd=get kvsname=job_7 key=card-9",
                "cmd=get_result rc=-1 msg=key_card-9_not_found value=unknown",
            ),
            APPNUM,
            UNIVERSE,
            BARRIER,
            FINALIZE,
        ]);
        let mut pmi = connect_with(&client, node).unwrap();
        assert_eq!((pmi.rank(), pmi.size(), pmi.kvs_name()), (Rank(3), 8, "job_7"));
        let facts = JobFacts::discover(Some(&mut pmi)).unwrap();
        assert_eq!((facts.local_rank, facts.local_size, facts.node_of(Rank(7)).0), (3, 4, 1));
        pmi.put("card-3", "a=b c").unwrap();
        pmi.fence_begin().unwrap();
        assert_eq!(pmi.get("card-4").unwrap().as_deref(), Some("x"));
        assert_eq!(pmi.get("card-9").unwrap(), None);
        assert_eq!((pmi.appnum().unwrap(), pmi.universe_size().unwrap()), (2, None));
        pmi.fence_begin().unwrap();
        while !pmi.fence_poll(Duration::from_millis(1)).unwrap() {}
        pmi.fence_end().unwrap();
        pmi.finalize().unwrap();
        pmi.finalize().unwrap();
        server.join().unwrap();
    }
}

/// The server reads all questions before it answers the first: only a client that does not wait gets through.
#[test]
fn under_our_own_agent_questions_do_not_wait_for_each_other() {
    let (client, there) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let mut there = BufReader::new(there);
        for batch in [&[INIT, NAME][..], &[PUT, BARRIER]] {
            for (expected, _) in batch {
                let mut line = String::new();
                there.read_line(&mut line).unwrap();
                assert_eq!(line.trim_end(), *expected);
            }
            for (_, answer) in batch {
                there.get_mut().write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
        }
    });
    let mut pmi = connect_with(&client, Some("1:2:3")).unwrap();
    pmi.put("card-3", "a=b c").unwrap();
    pmi.fence_begin().unwrap();
    pmi.fence_end().unwrap();
    server.join().unwrap();
}

/// The server answers at once what comes inside the fence, as Banyan's agent does, and ends the fence after.
#[test]
fn nothing_is_asked_inside_a_fence() {
    let (client, there) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        serve(&there, &[INIT, NAME]);
        let mut reader = BufReader::new(&there);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), BARRIER.0);
        there.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        line.clear();
        assert!(reader.read_line(&mut line).is_err(), "'{line}' inside the fence");
        there.set_read_timeout(None).unwrap();
        (&there).write_all(format!("{}\n", BARRIER.1).as_bytes()).unwrap();
        serve(&there, &[APPNUM]);
    });
    let mut pmi = connect_with(&client, Some("1:2:3")).unwrap();
    pmi.fence_begin().unwrap();
    assert_eq!(pmi.appnum().unwrap(), 2);
    server.join().unwrap();
}

/// The server says nothing before it has heard everything that init has to say.
#[test]
fn what_the_agent_put_into_the_environment_is_not_asked() {
    let (client, there) = UnixStream::pair().unwrap();
    let fd = client.as_raw_fd().to_string();
    let variables = |name: &str| match name {
        "PMI_FD" => Some(fd.clone()),
        "PMI_RANK" => Some("3".into()),
        "PMI_SIZE" => Some("8".into()),
        "BANYAN_NODE" => Some("1:2:3".into()),
        "PMI_JOBID" => Some("job_7".into()),
        "BANYAN_MAPPING" => Some("(vector,(0,2,4))".into()),
        _ => None,
    };
    let mut pmi = Client::from_variables(variables).unwrap().unwrap();
    let facts = JobFacts::discover(Some(&mut pmi)).unwrap();
    assert_eq!((facts.size, facts.local_size), (8, 4));
    pmi.put("card-3", "a=b c").unwrap();
    pmi.fence_begin().unwrap();
    let server = thread::spawn(move || serve(there, &[INIT, PUT, BARRIER]));
    pmi.fence_end().unwrap();
    server.join().unwrap();
}

#[test]
fn a_late_refusal_names_what_was_refused() {
    let (client, server) = server(&[INIT, NAME, (PUT.0, "cmd=put_result rc=-1 msg=full"), BARRIER]);
    let mut pmi = connect_with(&client, Some("1:2:3")).unwrap();
    pmi.put("card-3", "a=b c").unwrap();
    pmi.fence_begin().unwrap();
    assert_eq!(pmi.fence_end().unwrap_err().to_string(), "rank 3: PMI put refused (rc -1): full");
    server.join().unwrap();
}

#[test]
fn a_launcher_that_goes_away_is_named_with_rank_and_cause() {
    let (client, server) = server(&[INIT, NAME, (BARRIER.0, "")]);
    let mut pmi = connect(&client).unwrap();
    pmi.fence_begin().unwrap();
    let error = pmi.fence_end().unwrap_err();
    assert_eq!(error.to_string(), "rank 3: the launcher closed the PMI connection during barrier_in");
    server.join().unwrap();
    assert!(pmi.is_closed());
    assert!(matches!(pmi.get("x"), Err(PmiError::Closed { .. })), "and stays closed, without a signal");
}

#[test]
fn a_launcher_without_placement_makes_ranks_exchange_host_names() {
    let (client, there) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let mut there = BufReader::new(there);
        let names = ["a", "a", "b", "b", "a", "a", "c", "c"];
        let mut line = String::new();
        while there.read_line(&mut line).unwrap() > 0 {
            let answer = match line.trim_end() {
                l if l == INIT.0 => INIT.1.into(),
                l if l == NAME.0 => NAME.1.into(),
                l if l == BARRIER.0 => BARRIER.1.into(),
                l if l.starts_with("cmd=put ") => PUT.1.to_string(),
                l => match l.rsplit_once("key=host-") {
                    Some((_, rank)) => {
                        format!("{}{}", "cmd=get_result rc=0 value=", names[rank.parse::<usize>().unwrap()])
                    }
                    None => "cmd=get_result rc=1 msg=key_not_found".into(),
                },
            };
            there.get_mut().write_all(format!("{answer}\n").as_bytes()).unwrap();
            line.clear();
        }
    });
    let mut pmi = connect(&client).unwrap();
    drop(client);
    let facts = JobFacts::discover(Some(&mut pmi)).unwrap();
    let nodes: Vec<u32> = (0..8).map(|rank| facts.node_of(Rank(rank)).0).collect();
    assert_eq!(nodes, [0, 0, 1, 1, 0, 0, 2, 2]);
    assert_eq!((facts.local_rank, facts.local_size), (1, 2));
    drop(pmi);
    server.join().unwrap();
}

#[test]
fn a_placement_that_cannot_be_read_is_quoted() {
    const ANSWER: &str = "cmd=get_result rc=0 msg=success value=(flat,(0,1,1))";
    let (client, server) = server(&[INIT, NAME, (MAPPING.0, ANSWER)]);
    let mut pmi = connect(&client).unwrap();
    let error = JobFacts::discover(Some(&mut pmi)).unwrap_err().to_string();
    assert!(
        error.starts_with("rank 3: the launcher's placement of ranks: '(flat,(0,1,1))' is not"),
        "{error}"
    );
    server.join().unwrap();
}

#[test]
fn a_placement_of_nothing_is_none() {
    const ANSWER: &str = "cmd=get_result rc=0 msg=success value=(vector,0)";
    let (client, server) = server(&[INIT, NAME, (MAPPING.0, ANSWER)]);
    let mut pmi = connect(&client).unwrap();
    assert_eq!(pmi.mapping().unwrap(), None);
    drop(pmi);
    server.join().unwrap();
}

#[test]
fn an_open_connection_is_not_closed() {
    let (client, there) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        serve(&there, &[INIT, NAME]);
        there
    });
    let mut pmi = connect(&client).unwrap();
    let there = server.join().unwrap();
    assert!(!pmi.is_closed());
    drop(there);
    assert!(pmi.is_closed());
}

#[test]
fn an_answer_that_came_while_the_end_was_looked_for_is_known() {
    let (client, server) = server(&[INIT, NAME, ("cmd=barrier_in", "cmd=barrier_out rc=0")]);
    let mut pmi = connect(&client).unwrap();
    assert!(!pmi.has_unheard());
    pmi.fence_begin().unwrap();
    server.join().unwrap();
    // The answer is there, and the server is gone.
    assert!(pmi.is_closed() && pmi.has_unheard());
    assert!(pmi.fence_poll(Duration::ZERO).unwrap());
    assert!(!pmi.has_unheard());
}

#[test]
fn a_descriptor_that_does_not_wait_is_waited_for() {
    let (client, server) = server(&[INIT, NAME, ("cmd=barrier_in", "cmd=barrier_out rc=0")]);
    client.set_nonblocking(true).unwrap();
    let mut pmi = connect(&client).unwrap();
    pmi.fence_begin().unwrap();
    pmi.fence_end().unwrap();
    server.join().unwrap();
}

#[test]
fn the_limits_are_asked_only_for_what_might_exceed_them() {
    let (client, server) = server(&[
        INIT,
        NAME,
        ("cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=200"),
    ]);
    let mut pmi = connect(&client).unwrap();
    for _ in 0..2 {
        let error = pmi.put("card-3", &"x".repeat(200)).unwrap_err();
        assert_eq!(error.to_string(), "rank 3: PMI value of 200 bytes, the launcher takes at most 199");
    }
    server.join().unwrap();
}

#[test]
fn wrong_answers_are_quoted() {
    let cases: [(Script, &str); 4] = [
        (&[(INIT.0, "hello")], "rank 3: PMI init: PMI message without a command: 'hello'"),
        (&[(INIT.0, "cmd=barrier_out")], "rank 3: PMI init: unexpected answer 'cmd=barrier_out'"),
        (
            &[(INIT.0, "cmd=response_to_init rc=0 pmi_version=3 pmi_subversion=0")],
            "rank 3: PMI init: unexpected answer 'cmd=response_to_init rc=0 pmi_version=3 pmi_subversion=0'",
        ),
        (
            &[INIT, ("cmd=get_my_kvsname", "cmd=my_kvsname rc=-1 msg=no")],
            "rank 3: PMI get_my_kvsname refused (rc -1): no",
        ),
    ];
    for (script, expected) in cases {
        let (client, server) = server(script);
        assert_eq!(connect(&client).unwrap_err().to_string(), expected);
        server.join().unwrap();
    }
}

#[test]
fn an_abort_waits_for_no_answer() {
    let (client, server) = server(&[INIT, NAME, ("cmd=abort exitcode=5", "")]);
    connect(&client).unwrap().abort(5);
    server.join().unwrap();
}

#[test]
fn tcp_mode_learns_the_size_over_the_wire() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let greeting = "cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=2\ncmd=set debug=0";
        serve(listener.accept().unwrap().0, &[("cmd=initack pmiid=2", greeting), INIT, NAME]);
    });
    let variables = |name: &str| match name {
        "PMI_PORT" => Some(port.clone()),
        "PMI_ID" => Some("2".into()),
        _ => None,
    };
    let pmi = Client::from_variables(variables).unwrap().unwrap();
    assert_eq!((pmi.rank(), pmi.size()), (Rank(2), 4));
    server.join().unwrap();
}

#[test]
fn without_a_launcher_there_is_no_pmi() {
    assert!(Client::from_variables(|_| None).unwrap().is_none());
}

#[test]
fn a_wrong_environment_is_quoted() {
    let error = |fd: &'static str, rank: &'static str| {
        let get = move |name: &str| match name {
            "PMI_FD" => Some(fd.into()),
            "PMI_RANK" => Some(rank.into()),
            "PMI_SIZE" => Some("4".into()),
            _ => None,
        };
        Client::from_variables(get).unwrap_err().to_string()
    };
    assert_eq!(
        error("five", "0"),
        "PMI_FD=\"five\" in the environment: the launcher should have set it to a number"
    );
    assert_eq!(error("0", "4"), "PMI_RANK=\"4\" in the environment: ranks of this job are below PMI_SIZE=4");
    assert!(error("999999", "0").contains("cannot use the descriptor"), "{}", error("999999", "0"));
}

/// Some servers fail when they tell the end of a fence to a process that has gone.
#[test]
fn an_abort_inside_a_fence_waits_for_its_end() {
    let (client, server) = server(&[INIT, NAME, BARRIER, ("cmd=abort exitcode=5", "")]);
    let mut pmi = connect(&client).unwrap();
    pmi.fence_begin().unwrap();
    pmi.abort(5);
    assert!(pmi.owed.is_empty());
    server.join().unwrap();
}

#[test]
fn an_abort_inside_a_fence_that_never_ends_is_sent() {
    let (client, there) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        serve(&there, &[INIT, NAME]);
        let mut lines = BufReader::new(&there).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some(BARRIER.0));
        assert_eq!(lines.next().as_deref(), Some("cmd=abort exitcode=5"));
    });
    let mut pmi = connect(&client).unwrap();
    pmi.fence_begin().unwrap();
    pmi.abort(5);
    server.join().unwrap();
}

/// Writes boards as an agent would.
fn connect_with_board(client: &UnixStream, board: &str) -> Result<Client, PmiError> {
    let fd = client.as_raw_fd().to_string();
    let pmi = Client::from_variables(|name| match name {
        "PMI_FD" => Some(fd.clone()),
        "PMI_RANK" => Some("3".into()),
        "PMI_SIZE" => Some("8".into()),
        "PMI_JOBID" => Some("job_7".into()),
        "BANYAN_NODE" => Some("1:2:3".into()),
        "BANYAN_BOARD" => Some(board.into()),
        _ => None,
    });
    pmi.map(|pmi| pmi.expect("the environment names a launcher"))
}

#[test]
fn a_key_on_the_board_in_memory_is_had_without_a_question_when_the_fence_is_over() {
    let mut board = sys::board::BoardWriter::create().unwrap();
    let (client, server) = server(&[
        INIT,
        PUT,
        BARRIER,
        ("cmd=get kvsname=job_7 key=card-5", "cmd=get_result rc=0 msg=success value=y"),
        BARRIER,
    ]);
    // A process that had this rank before has left something.
    board.keep(b"card-4", b"old");
    board.fences_over(2);
    let mut pmi = connect_with_board(&client, &board.locator().to_string()).unwrap();
    pmi.put("card-3", "a=b c").unwrap();
    pmi.fence_begin().unwrap();
    assert_eq!(pmi.get_here("card-4"), None);
    // An agent writes before it says that the fence is over.
    board.keep(b"card-4", b"x");
    board.keep(b"card-6", b"\xff");
    board.fences_over(3);
    assert_eq!(pmi.get_here("card-4"), None);
    pmi.fence_end().unwrap();
    assert_eq!(pmi.get_here("card-4").as_deref(), Some("x"));
    assert_eq!((pmi.get_here("card-5"), pmi.get_here("card-6")), (None, None));
    assert_eq!(pmi.get("card-5").unwrap().as_deref(), Some("y"));
    // From now on the board says when a fence is over.
    pmi.fence_begin().unwrap();
    assert_eq!(pmi.get_here("card-4"), None);
    board.keep(b"card-4", b"z");
    board.fences_over(4);
    assert_eq!(pmi.get_here("card-4").as_deref(), Some("z"));
    server.join().unwrap();
}

#[test]
fn a_board_that_cannot_be_opened_is_none_and_one_that_cannot_be_read_is_an_error() {
    let (client, _server) = UnixStream::pair().unwrap();
    let mut pmi = connect_with_board(&client, "1:999999:3").unwrap();
    assert_eq!(pmi.get_here("card-4"), None);
    let error = connect_with_board(&client, "somewhere").unwrap_err().to_string();
    assert!(error.starts_with("BANYAN_BOARD=\"somewhere\" in the environment"), "{error}");
}

//! PMGR through the real launcher, spoken by scripts that are its ranks.
mod common;
mod scripted;

use proto::pmgr::{CONNECTIONS_SPARE, Operation, VERSIONS, variables};
use scripted::{number, run, say};
use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
#[ignore = "what the ranks of the other tests run"]
fn as_a_rank() {
    let Some(script) = scripted::script() else { return };
    let rank = number(variables::RANK);
    match script.as_str() {
        "rounds" => rounds(),
        "abort" if rank == 1 => abort(),
        "late" if rank == 1 => std::process::exit(3),
        "dies" if rank == 1 => {
            Client::join();
            let own = std::process::id() as i32;
            common::kill(&[own], "-KILL");
        }
        "leaves" if rank == 1 => drop(Client::join()),
        "noise" if rank == 1 => Client::join().send(&9i32.to_le_bytes()),
        "strangers" if rank == 0 => strangers(),
        _ => rounds(),
    }
    std::process::exit(0);
}

struct Client {
    stream: TcpStream,
    rank: u32,
    size: u32,
}

fn connect() -> TcpStream {
    TcpStream::connect((env::var(variables::HOST).unwrap(), number(variables::PORT) as u16)).unwrap()
}

impl Client {
    fn join() -> Self {
        let (rank, size) = (number(variables::RANK), number(variables::SIZE));
        assert_eq!((rank, size), (number("PMI_RANK"), number("PMI_SIZE")));
        let mut client = Client { stream: connect(), rank, size };
        client.send(&VERSIONS.start().to_le_bytes());
        client.send(&rank.to_le_bytes());
        client
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Takes part in a round, and returns what it brings.
    fn round(&mut self, operation: &Operation, bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        operation.emit(&mut out);
        self.send(&out);
        let mut reply = vec![0; bytes];
        self.stream.read_exact(&mut reply).unwrap();
        reply
    }
}

fn rounds() {
    let mut client = Client::join();
    let (rank, size) = (client.rank, client.size);
    let all: Vec<u8> = (0..size).map(|rank| rank as u8).collect();
    for root in [0, size - 1] {
        let is_root = rank == root;
        assert_eq!(client.round(&Operation::Barrier, 4), 3i32.to_le_bytes());
        let bcast = Operation::Bcast { root, size: 3, data: is_root.then(|| b"abc".to_vec()) };
        assert_eq!(client.round(&bcast, 3), b"abc");
        let gather = Operation::Gather { root, data: vec![rank as u8] };
        let gathered = client.round(&gather, if is_root { size as usize } else { 0 });
        assert!(!is_root || gathered == all);
        let scatter = Operation::Scatter { root, size: 1, data: is_root.then(|| all.clone()) };
        assert_eq!(client.round(&scatter, 1), [rank as u8]);
        assert_eq!(client.round(&Operation::Allgather { data: vec![rank as u8] }, size as usize), all);
        let alltoall = Operation::Alltoall { size: 1, data: vec![rank as u8; size as usize] };
        assert_eq!(client.round(&alltoall, size as usize), all);
    }
    // Longer than what the system keeps of a connection: both sides have to wait for each other.
    let long = 1 << 19;
    let data = client.round(&Operation::Allgather { data: vec![rank as u8; long] }, long * size as usize);
    assert!(data.chunks(long).zip(&all).all(|(part, rank)| part.iter().all(|byte| byte == rank)));
    client.round(&Operation::Close, 0);
    say("right");
}

#[test]
fn ranks_exchange_data_through_the_launcher() {
    for (ranks, nodes) in [("1", "1"), ("5", "1"), ("12", "4")] {
        let (code, said, err) = run(&["--pmgr", "-n", ranks, "--nodes", nodes], "rounds");
        assert_eq!((code, said.len(), err.as_str()), (Some(0), ranks.parse().unwrap(), ""));
    }
}

/// A second connection that says why.
fn abort() {
    let _first = Client::join();
    let text = b"giving up\n\0";
    let mut second = connect();
    for word in [7, 1, text.len() as i32] {
        second.write_all(&word.to_le_bytes()).unwrap();
    }
    second.write_all(text).unwrap();
    std::process::exit(5); // what it said comes before how it ended
}

#[test]
fn an_abort_ends_the_job_with_its_code() {
    let (code, _, err) = run(&["--pmgr", "-n", "3", "--kill-grace", "10"], "abort");
    assert_eq!(code, Some(7), "{err}");
    assert_eq!(err, "banyan: rank 1 (node 0) called MPI_Abort with code 7: giving up; ending the job\n");
}

#[test]
fn who_fails_the_others_is_named() {
    for (script, expected, why) in [
        ("late", 3, "exited with code 3 before MPI_Init, and rank"),
        ("dies", 137, "was killed by signal 9 (Killed)"),
        ("leaves", 1, "exited with code 0 but without MPI_Finalize"),
        ("noise", 1, "broke the PMI protocol: unknown PMGR opcode 9"),
    ] {
        let (code, _, err) = run(&["--pmgr", "-n", "3", "--nodes", "2", "--kill-grace", "10"], script);
        assert_eq!(code, Some(expected), "{script}: {err}");
        assert!(err.starts_with("banyan: rank 1 (") && err.contains(why), "{script}: {err}");
    }
}

/// Connections that are nobody's, before the one that is.
fn strangers() {
    let mut silent: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
    for said in [&b"GET / HTTP/1.0\r\n\r\n"[..], b"x", b"\x08\0\0\0\x63\0\0\0\x01\0\0\0!"] {
        connect().write_all(said).unwrap();
    }
    // All that are spare, and those of ranks that have not come: the first of them makes place for the last.
    let places = CONNECTIONS_SPARE + number(variables::SIZE) as usize;
    silent.extend((0..places).map(|_| connect()));
    assert!(matches!(silent[0].read(&mut [0]), Ok(0)));
    rounds();
    drop(silent);
}

#[test]
fn strangers_are_refused_and_the_job_goes_on() {
    let (code, said, err) = run(&["--pmgr", "-v", "-n", "1"], "strangers");
    assert_eq!((code, said.len()), (Some(0), 1), "{err}");
    assert!(err.contains("PMGR: refused connection 3: no rank of this job"), "{err}");
    assert!(err.contains("PMGR: refused connection 0: it does not say whose it is"), "{err}");
}

#[test]
fn nobody_listens_unless_asked() {
    let args = ["-n", "1", "sh", "-c", "env | grep -c ^MPIRUN_"];
    let (mut command, mark) = common::launcher(&args);
    let output = command.env("MPIRUN_PORT", "1").env("MPIRUN_RANK", "9").output().unwrap();
    assert_eq!(common::texts(&output), (Some(1), "0\n".into(), String::new()));
    common::assert_nothing_left(&mark);
}

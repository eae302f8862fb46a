//! The client against servers that speak PMI-2.
use super::*;
use proto::pmi2::{self, Event, Session};
use std::collections::HashMap;
use std::io::Read;

const GREETING: &str = "cmd=init pmi_version=2 pmi_subversion=0";
const WELCOME: &str = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0";

/// Answers frames as the server of a job of rank 3 of 8 on two nodes would; returns the requests it saw.
fn serve_frames(mut there: &UnixStream) -> Vec<pmi2::Request> {
    let mut session = Session::greeted(&mut Vec::new());
    let (mut board, mut seen) = (HashMap::new(), Vec::new());
    let mut bytes = [0; 512];
    loop {
        let read = there.read(&mut bytes).unwrap();
        if read == 0 {
            return seen;
        }
        session.push(&bytes[..read]).unwrap();
        let mut out = Vec::new();
        while let Some(event) = session.next_event(&mut out).unwrap() {
            let Event::Asked { id, request } = event else { panic!("{event:?}") };
            assert!(out.is_empty() && session.outstanding() <= 1, "not in lock-step");
            if let Some(reply) = reply(&request, &mut board) {
                session.answer(id, &reply, &mut out).unwrap();
            }
            seen.push(request);
        }
        there.write_all(&out).unwrap();
    }
}

fn reply(request: &pmi2::Request, board: &mut HashMap<Vec<u8>, Vec<u8>>) -> Option<pmi2::Reply> {
    use pmi2::{Reply, Request};
    Some(match request {
        Request::FullInit(_) => Reply::FullInit { rank: 3, size: 8, appnum: 2, spawner: None },
        Request::JobGetId => Reply::JobId(b"job;7".to_vec()),
        Request::GetJobAttribute { key } if key == KEY_MAPPING.as_bytes() => {
            Reply::JobAttribute(Some(b"(vector,(0,2,4))".to_vec()))
        }
        Request::GetJobAttribute { .. } => Reply::JobAttribute(Some(b"16".to_vec())),
        Request::Put { key, value } => {
            board.insert(key.clone(), value.clone());
            Reply::Put
        }
        Request::Fence => Reply::Fenced,
        Request::Get { key, .. } => Reply::Got(board.get(key).cloned()),
        Request::Finalize => Reply::Finalized,
        Request::Abort(_) => return None,
        other => panic!("{other:?}"),
    })
}

/// A server that speaks the lines of the script and then frames.
fn server(script: Script) -> (UnixStream, JoinHandle<Vec<pmi2::Request>>) {
    let (client, there) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        serve(&there, script);
        serve_frames(&there)
    });
    (client, server)
}

fn connect_asking(client: &UnixStream, version: Option<&str>) -> Result<Client, PmiError> {
    let fd = client.as_raw_fd().to_string();
    let pmi = Client::from_variables(|name| match name {
        "PMI_FD" => Some(fd.clone()),
        "PMI_RANK" => Some("3".into()),
        "PMI_SIZE" => Some("8".into()),
        "PMI_JOBID" => Some("7.0".into()),
        "BANYAN_PMI_VERSION" => version.map(String::from),
        _ => None,
    });
    pmi.map(|pmi| pmi.expect("the environment names a launcher"))
}

fn live(pmi: &mut Client) {
    assert_eq!((pmi.rank(), pmi.size(), pmi.kvs_name()), (Rank(3), 8, "job;7"));
    let facts = JobFacts::discover(Some(pmi)).unwrap();
    assert_eq!((facts.local_rank, facts.local_size, facts.node_of(Rank(7)).0), (3, 4, 1));
    pmi.put("card-3", "a=b c").unwrap();
    pmi.fence_begin().unwrap();
    assert_eq!(pmi.get("card-3").unwrap().as_deref(), Some("a=b c"));
    assert_eq!(pmi.get("card-9").unwrap(), None);
    assert_eq!((pmi.appnum().unwrap(), pmi.universe_size().unwrap()), (2, Some(16)));
    pmi.fence_begin().unwrap();
    while !pmi.fence_poll(Duration::from_millis(1)).unwrap() {}
    pmi.finalize().unwrap();
    pmi.finalize().unwrap();
}

#[test]
fn a_whole_life_with_servers_of_version_2() {
    let cases: [(Script, Option<&str>); 3] = [
        // Knows nothing but 2.
        (&[(INIT.0, WELCOME)], None),
        // Wants to be asked for it.
        (&[(INIT.0, "cmd=response_to_init rc=-1 pmi_version=2 pmi_subversion=0"), (GREETING, WELCOME)], None),
        // The user wants it.
        (&[(GREETING, WELCOME)], Some("2")),
    ];
    for (script, version) in cases {
        let (client, server) = server(script);
        let mut pmi = connect_asking(&client, version).unwrap();
        live(&mut pmi);
        drop((pmi, client));
        let seen = server.join().unwrap();
        let init = pmi2::FullInit { job: Some(b"7.0".to_vec()), rank: Some(3), threaded: false };
        assert_eq!(seen[0], pmi2::Request::FullInit(init));
        assert_eq!(seen.last(), Some(&pmi2::Request::Finalize));
    }
}

#[test]
fn an_abort_ends_the_whole_job() {
    let (client, server) = server(&[(GREETING, WELCOME)]);
    let mut pmi = connect_asking(&client, Some("2")).unwrap();
    pmi.abort(5);
    drop((pmi, client));
    let abort = pmi2::Abort { world: true, exit_code: Some(5), message: Vec::new() };
    assert_eq!(server.join().unwrap().last(), Some(&pmi2::Request::Abort(abort)));
}

#[test]
fn values_longer_than_the_protocol_allows_are_not_sent() {
    let (client, server) = server(&[(GREETING, WELCOME)]);
    let mut pmi = connect_asking(&client, Some("2")).unwrap();
    let error = pmi.put("card-3", &"x".repeat(1025)).unwrap_err();
    assert_eq!(error.to_string(), "rank 3: PMI value of 1025 bytes, the launcher takes at most 1024");
    pmi.put("card-3", &"x".repeat(1024)).unwrap();
    drop((pmi, client));
    server.join().unwrap();
}

#[test]
fn a_server_that_refuses_both_versions_is_quoted() {
    const NO: &str = "cmd=response_to_init rc=-1 msg=go_away";
    let (client, server) = super::server(&[(INIT.0, NO), (GREETING, NO)]);
    let error = connect_asking(&client, None).unwrap_err();
    assert_eq!(error.to_string(), "rank 3: PMI init refused (rc -1): go_away");
    server.join().unwrap();
}

#[test]
fn a_server_that_takes_this_process_for_another_is_quoted() {
    let (client, there) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        serve(&there, &[(GREETING, WELCOME)]);
        assert!((&there).read(&mut [0; 512]).unwrap() > 0);
        let mut out = Vec::new();
        pmi2::Reply::FullInit { rank: 4, size: 8, appnum: 0, spawner: None }.emit(None, &mut out).unwrap();
        (&there).write_all(&out).unwrap();
        there
    });
    let error = connect_asking(&client, Some("2")).unwrap_err().to_string();
    let expected = "rank 3: PMI init: unexpected PMI-2 answer 'cmd=fullinit-response;rc=0;";
    assert!(error.starts_with(expected), "{error}");
    server.join().unwrap();
}

#[test]
fn a_server_that_does_not_wait_for_the_first_frame_is_quoted() {
    let (client, server) =
        super::server(&[(GREETING, "cmd=response_to_init rc=0 pmi_version=2\n113   cmd=")]);
    let error = connect_asking(&client, Some("2")).unwrap_err().to_string();
    assert_eq!(error, "rank 3: PMI init: the server speaks before it is asked");
    server.join().unwrap();
}

#[test]
fn a_version_that_does_not_exist_is_quoted() {
    let (client, _) = UnixStream::pair().unwrap();
    let error = connect_asking(&client, Some("3")).unwrap_err().to_string();
    assert_eq!(error, "BANYAN_PMI_VERSION=\"3\" in the environment: it can be 1 or 2");
}

//! Properties of the codec and of the session: no bytes make them panic or grow, and what one side emits the other
//! side understands.
use super::*;
use alloc::vec;
use proptest::prelude::*;
use std::string::ToString;

/// Anything; semicolons more often than chance would have it.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b";=;0\n".to_vec())];
    prop::collection::vec(byte, 0..40)
}

/// A value that is not empty, where an empty one means none.
fn name() -> impl Strategy<Value = Vec<u8>> {
    value().prop_map(|mut name| {
        name.push(b'x');
        name
    })
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    prop::collection::vec((value(), value()).prop_map(|(key, value)| Pair { key, value }), 0..4)
}

fn command() -> impl Strategy<Value = SpawnCommand> {
    (name(), any::<u32>(), prop::collection::vec(value(), 0..4), pairs())
        .prop_map(|(program, processes, args, infos)| SpawnCommand { program, processes, args, infos })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (prop::option::of(value()), prop::option::of(any::<u32>()), any::<bool>())
            .prop_map(|(job, rank, threaded)| Request::FullInit(FullInit { job, rank, threaded })),
        prop::sample::select(vec![Request::JobGetId, Request::Fence, Request::Finalize]),
        value().prop_map(|job| Request::JobConnect { job }),
        value().prop_map(|job| Request::JobDisconnect { job }),
        value().prop_map(|key| Request::GetJobAttribute { key }),
        (value(), value()).prop_map(|(key, value)| Request::Put { key, value }),
        (prop::option::of(name()), prop::option::of(0..i32::MAX as u32), value())
            .prop_map(|(job, source, key)| Request::Get { job, source, key }),
        (value(), value()).prop_map(|(key, value)| Request::PutNodeAttribute { key, value }),
        (value(), prop::sample::select(vec![Wait::No, Wait::UntilPut]))
            .prop_map(|(key, wait)| Request::GetNodeAttribute { key, wait }),
        (value(), value()).prop_map(|(name, port)| Request::Publish { name, port }),
        value().prop_map(|name| Request::Unpublish { name }),
        value().prop_map(|name| Request::Lookup { name }),
        (pairs(), prop::collection::vec(command(), 1..4))
            .prop_map(|(preputs, commands)| Request::Spawn(Spawn { preputs, commands })),
        (any::<bool>(), prop::option::of(any::<i32>()), value())
            .prop_map(|(world, exit_code, message)| { Request::Abort(Abort { world, exit_code, message }) }),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let verbs = Verb::ALL.iter().map(|row| row.0).filter(|verb| *verb != Verb::Abort).collect::<Vec<_>>();
    prop_oneof![
        (any::<u32>(), any::<u32>(), any::<i32>(), prop::option::of(value()))
            .prop_map(|(rank, size, appnum, spawner)| Reply::FullInit { rank, size, appnum, spawner }),
        value().prop_map(Reply::JobId),
        prop::option::of(value()).prop_map(Reply::JobAttribute),
        prop::option::of(value()).prop_map(Reply::Got),
        prop::option::of(value()).prop_map(Reply::NodeAttribute),
        prop::sample::select(vec![
            Reply::Connected,
            Reply::Disconnected,
            Reply::Put,
            Reply::Fenced,
            Reply::NodeAttributePut,
            Reply::Published,
            Reply::Unpublished,
            Reply::Finalized,
        ]),
        value().prop_map(Reply::Found),
        (value(), prop::collection::vec(any::<i32>(), 0..5))
            .prop_map(|(job, errcodes)| Reply::Spawned { job, errcodes }),
        (prop::sample::select(verbs), 1..i32::MAX, value()).prop_map(|(verb, rc, message)| Reply::Refused {
            verb,
            rc,
            message
        }),
    ]
}

fn body(stream: &[u8]) -> Vec<u8> {
    let mut frames = Frames::default();
    frames.push(stream).unwrap();
    let body = frames.next_body().unwrap().expect("a whole frame").to_vec();
    assert!(!frames.has_partial());
    body
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_parsed_as_they_were_emitted(request in request(), thread in prop::option::of(value())) {
        let mut bytes = Vec::new();
        let thread = thread.map(ThreadId);
        request.emit(thread.as_ref(), &mut bytes).unwrap();
        prop_assert_eq!(Request::parse(&body(&bytes)), Ok((request, thread)));
    }

    #[test]
    fn replies_are_parsed_as_they_were_emitted(reply in reply(), thread in prop::option::of(value())) {
        let mut bytes = Vec::new();
        let thread = thread.map(ThreadId);
        reply.emit(thread.as_ref(), &mut bytes).unwrap();
        prop_assert_eq!(Reply::parse(&body(&bytes)), Ok((reply, thread)));
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in value()) {
        for body in [&bytes[..], &text[..]] {
            let _ = Request::parse(body);
            let _ = Reply::parse(body);
        }
        for row in Verb::ALL {
            let mut body = [b"cmd=", row.1.as_bytes(), b";"].concat();
            body.extend(&text);
            let _ = Request::parse(&body);
        }
    }
}

/// Small and fast, with a seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below
    }
}

/// Frames as clients send them, to be spoilt.
fn seeds() -> Vec<Vec<u8>> {
    let bodies = [
        "cmd=fullinit;pmijobid=1;pmirank=0;threaded=FALSE;",
        "cmd=kvs-put;key=a;value=b;",
        "cmd=kvs-fence;thrid=1;",
        "cmd=kvs-get;jobid=1;srcid=-1;key=a;",
        "cmd=info-getnodeattr;key=a;wait=TRUE;",
        "cmd=spawn;ncmds=1;preputcount=0;subcmd=p;maxprocs=2;argc=1;argv0=x;infokeycount=0;",
        "cmd=abort;isworld=TRUE;msg=;",
        "cmd=finalize;",
    ];
    bodies.iter().map(|body| std::format!("{:<6}{body}", body.len()).into_bytes()).collect()
}

/// Spoils a frame: a byte changed, a byte lost, the end lost, or all of it noise.
fn spoil(frame: &mut Vec<u8>, chance: &mut Chance) {
    let at = chance.next(frame.len());
    match chance.next(4) {
        0 => frame[at] = chance.next(256) as u8,
        1 => {
            frame.remove(at);
        }
        2 => frame.truncate(at.max(1)),
        _ => frame[at..].iter_mut().for_each(|byte| *byte = chance.next(256) as u8),
    }
}

/// A million frames, one in two spoilt. A session that gives up is replaced, as a server closes the connection and
/// gets another client; what it holds until then is bounded.
#[test]
fn a_million_wrong_frames_are_survived() {
    const FRAMES: u32 = 1_000_000;
    let (seeds, mut chance) = (seeds(), Chance(0x9e37_79b9_7f4a_7c15));
    let mut session = Session::greeted(&mut Vec::new());
    let (mut frame, mut out) = (Vec::new(), Vec::new());
    let (mut asked, mut given_up) = (0u32, 0u32);
    for _ in 0..FRAMES {
        frame.clear();
        frame.extend_from_slice(&seeds[chance.next(seeds.len())]);
        if chance.next(2) == 0 {
            spoil(&mut frame, &mut chance);
        }
        out.clear();
        let mut result = session.push(&frame);
        while result.is_ok() {
            match session.next_event(&mut out) {
                Ok(Some(Event::Asked { id, request })) => {
                    asked += 1;
                    let reply = Reply::refused(request.verb(), rc::FAIL, "no");
                    let answered = session.answer(id, &reply, &mut out);
                    assert_eq!(answered.is_err(), request.verb() == Verb::Abort);
                }
                Ok(Some(Event::OtherVersion(_))) => unreachable!("the greeting is over"),
                Ok(None) => break,
                Err(error) => result = Err(error),
            }
        }
        if let Err(error) = result {
            assert!(error.to_string().len() < 200);
            given_up += 1;
            session = Session::greeted(&mut Vec::new());
        }
        assert!(session.outstanding() == 0 && out.len() < 4096);
    }
    assert!(asked > FRAMES / 20 && given_up > FRAMES / 20, "{asked} asked, {given_up} given up");
}

/// The same for a client that begins with a line: what is no greeting of version 2 goes to PMI-1 whole, and its parsers
/// survive it.
#[test]
fn a_million_wrong_lines_are_survived() {
    use crate::pmi;
    const LINES: u32 = 1_000_000;
    let seeds: Vec<Vec<u8>> = [
        "cmd=init pmi_version=2 pmi_subversion=0\n",
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=put kvsname=s key=k value=v=1 w\n",
        "cmd=get kvsname=s key=k\n",
        "cmd=publish_name service=a b port=p\n\n",
        "mcmd=spawn\nnprocs=1\nexecname=p\nargcnt=1\narg1=x\nendcmd\n",
        "cmd=abort exitcode=3\n",
    ]
    .iter()
    .map(|line| line.as_bytes().to_vec())
    .collect();
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let (mut session, mut lines) = (Session::new(), pmi::Lines::default());
    let (mut line, mut out) = (Vec::new(), Vec::new());
    let (mut greeted, mut understood) = (0u32, 0u32);
    for _ in 0..LINES {
        line.clear();
        line.extend_from_slice(&seeds[chance.next(seeds.len())]);
        if chance.next(2) == 0 {
            spoil(&mut line, &mut chance);
        }
        out.clear();
        let heard = session.push(&line).and_then(|()| session.next_event(&mut out));
        if let Ok(Some(Event::OtherVersion(bytes))) = &heard {
            lines.push(bytes).expect("lines that end are taken");
            while let Some(message) = lines.next_message() {
                understood += u32::from(pmi::Request::parse(message).is_ok());
                let _ = pmi::Reply::parse(message);
            }
        }
        greeted += u32::from(!out.is_empty());
        if !matches!(heard, Ok(None)) || !out.is_empty() {
            session = Session::new();
        }
        // A block whose end was lost takes what follows for its own.
        if lines.has_partial() {
            lines = pmi::Lines::default();
        }
    }
    assert!(greeted > LINES / 20 && understood > LINES / 4, "{greeted} greeted, {understood} understood");
}

//! A server's side of one client: bytes in, typed requests out; typed replies in, bytes out.
use super::fields::{Body, Fields};
use super::{
    Frames, KEY_BYTES_MAX, ParseError, Reply, Request, ThreadId, TooLong, VALUE_BYTES_MAX, Verb, quote, rc,
};
use crate::pmi;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Most requests of one client that wait for an answer: it is one for each of its threads.
pub const OUTSTANDING_MAX: usize = 1024;
/// Most bytes of requests that wait for the answer to an earlier one of the same thread.
const HELD_BYTES_MAX: usize = 256 << 10;
/// The line of a client that speaks PMI-2 is shorter than this.
const GREETING_BYTES_MAX: usize = 256;

/// One client. Feed it what was read ([`push`](Session::push)), then take events until there are none
/// ([`next_event`](Session::next_event)), and answer each request ([`answer`](Session::answer)), at once or
/// later. After an answer there may be another event.
///
/// A thread of the client (a client that names none has one) is answered in the order in which it asked: what it sends
/// before it has its answer is held back, but for an abort.
///
/// What does not depend on the server is answered here: unknown commands, requests that lack a field, keys and values
/// that are too long, anything before the first frame or after the last. Such answers are counted
/// ([`refused`](Session::refused)).
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    frames: Frames,
    outstanding: Vec<Outstanding>,
    /// Bodies that wait for the answer to an earlier one of the same thread.
    held: VecDeque<(Option<ThreadId>, Vec<u8>)>,
    held_bytes: usize,
    next_id: u32,
    refused: u64,
}

/// How far the client has got.
#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Its first line has not ended yet.
    Greeting(Vec<u8>),
    /// It speaks frames, and has to introduce itself.
    Opened,
    /// It may ask.
    Active,
    /// It has said goodbye.
    Finalized,
    /// It speaks another version; its bytes have been handed over.
    Elsewhere,
}

#[derive(Debug)]
struct Outstanding {
    id: RequestId,
    verb: Verb,
    thread: Option<ThreadId>,
}

/// Names a request of one client until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An answer (but to an abort, which ends the job).
    Asked {
        /// Names the request in [`Session::answer`].
        id: RequestId,
        /// The request.
        request: Request,
    },
    /// Another protocol. These are all its bytes so far, not answered; this session is over.
    OtherVersion(Vec<u8>),
}

/// Why the conversation cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The stream cannot be cut into frames.
    #[error(transparent)]
    Frame(#[from] TooLong),
    /// A body that says nothing that could be answered.
    #[error(transparent)]
    Body(#[from] ParseError),
    /// More requests than a client can have threads, or more than can be held back.
    #[error("more than {OUTSTANDING_MAX} PMI-2 requests or {HELD_BYTES_MAX} bytes of them at once")]
    TooManyRequests,
    /// Bytes for a session that is over.
    #[error("PMI-2 session is over")]
    Over,
}

/// Why an answer was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No such request waits for an answer.
    #[error("PMI-2 request {} was not asked, or is answered", .0.0)]
    NotAsked(RequestId),
    /// The request was another one; it still waits.
    #[error("PMI-2 {} cannot be answered by the answer to {}", .asked.name(), .answered.name())]
    WrongVerb {
        /// What was asked.
        asked: Verb,
        /// What the answer is for.
        answered: Verb,
    },
    /// The answer does not fit into a frame; a refusal was sent instead.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A client that has said nothing yet: its first line says which version it speaks.
    pub fn new() -> Self {
        Self::in_phase(Phase::Greeting(Vec::new()))
    }

    /// A client whose PMI-1 `init` asked for version 2; appends the answer to that line.
    pub fn greeted(out: &mut Vec<u8>) -> Self {
        greet(out);
        Self::in_phase(Phase::Opened)
    }

    fn in_phase(phase: Phase) -> Self {
        Session {
            phase,
            frames: Frames::default(),
            outstanding: Vec::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            next_id: 0,
            refused: 0,
        }
    }

    /// Takes what was read. Take all events before pushing more.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        match &mut self.phase {
            Phase::Greeting(line) => line.extend_from_slice(bytes),
            Phase::Elsewhere => return Err(SessionError::Over),
            _ => self.frames.push(bytes)?,
        }
        Ok(())
    }

    /// What the client wants next, or `None` until more is pushed or answered. What is answered here goes to `out`. After an error
    /// the client cannot be understood any more.
    pub fn next_event(&mut self, out: &mut Vec<u8>) -> Result<Option<Event>, SessionError> {
        if let Phase::Greeting(line) = &mut self.phase {
            let line = core::mem::take(line);
            if let Some(event) = self.read_greeting(line, out)? {
                return Ok(Some(event));
            }
        }
        while let Some(body) = self.next_body()? {
            match judge(&body, &self.phase)? {
                Verdict::Ask(request, thread) => {
                    let id = self.ask(&request, thread)?;
                    return Ok(Some(Event::Asked { id, request }));
                }
                Verdict::Refuse(refusal) => {
                    self.refused += 1;
                    refusal.emit(out);
                }
            }
        }
        Ok(None)
    }

    /// Answers a request: appends the reply to `out`.
    pub fn answer(&mut self, id: RequestId, reply: &Reply, out: &mut Vec<u8>) -> Result<(), AnswerError> {
        let asked = self.outstanding.iter().position(|one| one.id == id);
        let asked = asked.ok_or(AnswerError::NotAsked(id))?;
        let verb = self.outstanding[asked].verb;
        if verb != reply.verb() {
            return Err(AnswerError::WrongVerb { asked: verb, answered: reply.verb() });
        }
        let thread = self.outstanding.remove(asked).thread;
        match reply {
            Reply::FullInit { .. } => self.phase = Phase::Active,
            Reply::Finalized => self.phase = Phase::Finalized,
            _ => {}
        }
        reply.emit(thread.as_ref(), out).map_err(|error| {
            let refusal = Reply::refused(verb, rc::OTHER, "the answer is too long");
            let _ = refusal.emit(thread.as_ref(), out);
            error.into()
        })
    }

    /// How many requests wait for an answer.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// How many frames were wrong and refused here.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn read_greeting(&mut self, line: Vec<u8>, out: &mut Vec<u8>) -> Result<Option<Event>, SessionError> {
        let end = line.iter().position(|&b| b == b'\n');
        let Some(end) = end.or((line.len() > GREETING_BYTES_MAX).then_some(line.len())) else {
            self.phase = Phase::Greeting(line);
            return Ok(None);
        };
        match pmi::Request::parse(&line[..end]) {
            Ok(pmi::Request::Init { version: 2, .. }) => {
                greet(out);
                self.phase = Phase::Opened;
                self.frames.push(line.get(end + 1..).unwrap_or_default())?;
                Ok(None)
            }
            _ => {
                self.phase = Phase::Elsewhere;
                Ok(Some(Event::OtherVersion(line)))
            }
        }
    }

    /// The next body of a thread that does not wait for an answer, or of one that gives up.
    fn next_body(&mut self) -> Result<Option<Vec<u8>>, SessionError> {
        if let Some(at) = self.held.iter().position(|(thread, _)| !self.is_waiting(thread.as_ref())) {
            let body = self.held.remove(at).map(|(_, body)| body);
            self.held_bytes -= body.as_ref().map_or(0, Vec::len);
            return Ok(body);
        }
        while let Some(body) = self.frames.next_body()? {
            let body = body.to_vec();
            let Fields { thread, name, .. } = Fields::parse(&body)?;
            if !self.is_waiting(thread.as_ref()) || *name == *Verb::Abort.name().as_bytes() {
                return Ok(Some(body));
            }
            self.hold(thread, body)?;
        }
        Ok(None)
    }

    fn is_waiting(&self, thread: Option<&ThreadId>) -> bool {
        self.outstanding.iter().any(|one| one.thread.as_ref() == thread)
    }

    fn hold(&mut self, thread: Option<ThreadId>, body: Vec<u8>) -> Result<(), SessionError> {
        self.held_bytes += body.len();
        if self.held.len() == OUTSTANDING_MAX || self.held_bytes > HELD_BYTES_MAX {
            return Err(SessionError::TooManyRequests);
        }
        self.held.push_back((thread, body));
        Ok(())
    }

    fn ask(&mut self, request: &Request, thread: Option<ThreadId>) -> Result<RequestId, SessionError> {
        if self.outstanding.len() == OUTSTANDING_MAX {
            return Err(SessionError::TooManyRequests);
        }
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        let verb = request.verb();
        if verb != Verb::Abort {
            self.outstanding.push(Outstanding { id, verb, thread });
        }
        Ok(id)
    }
}

fn greet(out: &mut Vec<u8>) {
    pmi::Reply::Init { version: 2, subversion: 0 }.emit(out);
}

enum Verdict {
    Ask(Request, Option<ThreadId>),
    Refuse(Refusal),
}

struct Refusal {
    name: String,
    thread: Option<ThreadId>,
    rc: i32,
    message: String,
}

impl Refusal {
    fn emit(&self, out: &mut Vec<u8>) {
        let written = Body::emit(out, &[&self.name, "-response"], self.thread.as_ref(), |body| {
            body.number("rc", i64::from(self.rc)).field("errmsg", self.message.as_bytes());
        });
        debug_assert!(written.is_ok(), "names, threads and messages of refusals are short");
    }
}

/// Is the request for the server, or wrong in itself?
fn judge(body: &[u8], phase: &Phase) -> Result<Verdict, SessionError> {
    let mut fields = Fields::parse(body)?;
    let thread = fields.thread.take();
    let name = answerable(&fields, thread.as_ref())?;
    let refuse = |thread, rc, message| Ok(Verdict::Refuse(Refusal { name, thread, rc, message }));
    let request = match Request::from_fields(&fields) {
        Ok(request) => request,
        Err(error @ ParseError::UnknownCommand(_)) => return refuse(thread, rc::FAIL, error.to_string()),
        Err(error) => return refuse(thread, rc::INVALID_ARG, error.to_string()),
    };
    match objection(&request, phase) {
        Some((rc, message)) => refuse(thread, rc, message.into()),
        None => Ok(Verdict::Ask(request, thread)),
    }
}

/// The command's name, if a reply to it can be told from others and is no burden.
fn answerable(fields: &Fields<'_>, thread: Option<&ThreadId>) -> Result<String, SessionError> {
    let name = &fields.name[..];
    let plain = name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let short = name.len() <= KEY_BYTES_MAX && thread.is_none_or(|thread| thread.0.len() <= KEY_BYTES_MAX);
    if plain && short && !name.is_empty() {
        Ok(String::from_utf8_lossy(name).into_owned())
    } else {
        Err(ParseError::UnknownCommand(quote(name)).into())
    }
}

/// Why the request is refused before the server sees it.
fn objection(request: &Request, phase: &Phase) -> Option<(i32, &'static str)> {
    match (request, phase) {
        (Request::Abort(_), _) => None,
        (_, Phase::Finalized) => Some((rc::INIT, "after finalize")),
        (Request::FullInit(_), Phase::Active) => Some((rc::INIT, "initialised already")),
        (Request::FullInit(_), _) => None,
        (_, Phase::Opened) => Some((rc::INIT, "not initialised")),
        (Request::Put { key, value } | Request::PutNodeAttribute { key, value }, _) => {
            if key.len() > KEY_BYTES_MAX {
                Some((rc::INVALID_KEY_LENGTH, "the key is too long"))
            } else if value.len() > VALUE_BYTES_MAX {
                Some((rc::INVALID_VAL_LENGTH, "the value is too long"))
            } else {
                None
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi2::{Abort, FullInit, Wait};

    const GREETING: &[u8] = b"cmd=init pmi_version=2 pmi_subversion=0\n";

    fn frame(body: &str) -> Vec<u8> {
        alloc::format!("{:<6}{body}", body.len()).into_bytes()
    }

    fn take(session: &mut Session, bytes: &[u8]) -> (Option<Event>, String) {
        let mut out = Vec::new();
        session.push(bytes).unwrap();
        let event = session.next_event(&mut out).unwrap();
        (event, String::from_utf8(out).unwrap())
    }

    fn asked(session: &mut Session, body: &str) -> (RequestId, Request) {
        match take(session, &frame(body)) {
            (Some(Event::Asked { id, request }), out) if out.is_empty() => (id, request),
            other => panic!("{body}: {other:?}"),
        }
    }

    fn answered(session: &mut Session, id: RequestId, reply: Reply) -> String {
        let mut out = Vec::new();
        session.answer(id, &reply, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn active() -> Session {
        let mut session = Session::new();
        let (event, out) = take(&mut session, GREETING);
        assert_eq!((event, &out[..]), (None, "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"));
        let (id, request) = asked(&mut session, "cmd=fullinit;pmijobid=7.0;pmirank=2;threaded=FALSE;");
        let init = FullInit { job: Some(b"7.0".to_vec()), rank: Some(2), threaded: false };
        assert_eq!(request, Request::FullInit(init));
        answered(&mut session, id, Reply::FullInit { rank: 2, size: 4, appnum: 0, spawner: None });
        session
    }

    #[test]
    fn a_whole_life() {
        let mut session = active();
        let (id, request) = asked(&mut session, "cmd=kvs-put;key=a;value=1;;2;");
        assert_eq!(request, Request::Put { key: b"a".to_vec(), value: b"1;2".to_vec() });
        assert_eq!(answered(&mut session, id, Reply::Put), "26    cmd=kvs-put-response;rc=0;");
        let (id, request) = asked(&mut session, "cmd=kvs-fence;");
        assert_eq!((request, session.outstanding()), (Request::Fence, 1));
        assert_eq!(answered(&mut session, id, Reply::Fenced), "28    cmd=kvs-fence-response;rc=0;");
        let (id, request) = asked(&mut session, "cmd=kvs-get;jobid=7.0;srcid=-1;key=a;");
        assert_eq!(request, Request::Get { job: Some(b"7.0".to_vec()), source: None, key: b"a".to_vec() });
        let got = answered(&mut session, id, Reply::Got(Some(b"1;2".to_vec())));
        assert_eq!(got, "48    cmd=kvs-get-response;rc=0;found=TRUE;value=1;;2;");
        let (id, _) = asked(&mut session, "cmd=finalize;");
        assert_eq!(answered(&mut session, id, Reply::Finalized), "27    cmd=finalize-response;rc=0;");
        let late = take(&mut session, &frame("cmd=kvs-fence;"));
        assert_eq!(late, (None, "50    cmd=kvs-fence-response;rc=1;errmsg=after finalize;".into()));
    }

    #[test]
    fn threads_are_answered_in_any_order() {
        let mut session = active();
        let (first, request) = asked(&mut session, "cmd=info-getnodeattr;thrid=0xa;key=k;wait=TRUE;");
        assert_eq!(request, Request::GetNodeAttribute { key: b"k".to_vec(), wait: Wait::UntilPut });
        let (second, _) = asked(&mut session, "cmd=job-getid;thrid=0xb;");
        assert_eq!(
            answered(&mut session, second, Reply::JobId(b"j".to_vec())),
            "46    cmd=job-getid-response;thrid=0xb;rc=0;jobid=j;"
        );
        assert_eq!(
            answered(&mut session, first, Reply::NodeAttribute(None)),
            "57    cmd=info-getnodeattr-response;thrid=0xa;rc=0;found=FALSE;"
        );
    }

    #[test]
    fn an_answer_to_another_question_is_not_sent() {
        let mut session = active();
        let (id, _) = asked(&mut session, "cmd=kvs-fence;");
        let mut out = Vec::new();
        let wrong = AnswerError::WrongVerb { asked: Verb::Fence, answered: Verb::Put };
        assert_eq!(session.answer(id, &Reply::Put, &mut out), Err(wrong));
        assert_eq!(session.answer(id, &Reply::Fenced, &mut Vec::new()), Ok(()));
        assert_eq!(session.answer(id, &Reply::Fenced, &mut out), Err(AnswerError::NotAsked(id)));
        assert_eq!(out, b"");
    }

    #[test]
    fn what_is_wrong_in_itself_is_refused_and_counted() {
        let mut session = Session::greeted(&mut Vec::new());
        let cases = [
            ("cmd=kvs-fence;", "51    cmd=kvs-fence-response;rc=1;errmsg=not initialised;"),
            (
                "cmd=ring;thrid=9;count=1;",
                "68    cmd=ring-response;thrid=9;rc=-1;errmsg=unknown PMI-2 command 'ring';",
            ),
            ("cmd=kvs-put;key=a;", "65    cmd=kvs-put-response;rc=3;errmsg=PMI-2 kvs-put: no field 'value';"),
        ];
        for (body, answer) in cases {
            assert_eq!(take(&mut session, &frame(body)), (None, answer.into()));
        }
        assert_eq!(session.refused(), 3);
        let (id, _) = asked(&mut session, "cmd=fullinit;");
        answered(&mut session, id, Reply::FullInit { rank: 0, size: 1, appnum: 0, spawner: None });
        let long = alloc::format!("cmd=kvs-put;key={};value=;", "k".repeat(KEY_BYTES_MAX + 1));
        assert!(take(&mut session, &frame(&long)).1.contains("rc=5;"));
        let long = alloc::format!("cmd=info-putnodeattr;key=k;value={};", "v".repeat(VALUE_BYTES_MAX + 1));
        assert!(take(&mut session, &frame(&long)).1.contains("rc=7;"));
        assert_eq!(session.refused(), 5);
    }

    #[test]
    fn other_versions_get_all_their_bytes_back() {
        let mut session = Session::new();
        assert_eq!(take(&mut session, b"cmd=init pmi_vers").0, None);
        let (event, out) = take(&mut session, b"ion=1 pmi_subversion=1\ncmd=get_maxes\n");
        let bytes = b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\n".to_vec();
        assert_eq!((event, &out[..]), (Some(Event::OtherVersion(bytes)), ""));
        assert_eq!(session.push(b"x"), Err(SessionError::Over));
        let mut session = Session::new();
        let noise = [b'x'; GREETING_BYTES_MAX + 1];
        assert_eq!(take(&mut session, &noise).0, Some(Event::OtherVersion(noise.to_vec())));
    }

    #[test]
    fn a_client_that_does_not_wait_for_the_greeting_is_understood() {
        let mut session = Session::new();
        let mut bytes = GREETING.to_vec();
        bytes.extend(frame("cmd=abort;isworld=TRUE;msg=no;"));
        let (event, _) = take(&mut session, &bytes);
        let abort = Abort { world: true, exit_code: None, message: b"no".to_vec() };
        assert_eq!(event, Some(Event::Asked { id: RequestId(0), request: Request::Abort(abort) }));
        assert_eq!(session.outstanding(), 0);
    }

    #[test]
    fn a_thread_is_answered_in_the_order_in_which_it_asked() {
        let mut session = active();
        let (fence, _) = asked(&mut session, "cmd=kvs-fence;");
        assert_eq!(take(&mut session, &frame("cmd=job-getid;")), (None, String::new()));
        assert_eq!(take(&mut session, &frame("cmd=ring;")), (None, String::new()));
        let (other, _) = asked(&mut session, "cmd=job-getid;thrid=1;");
        answered(&mut session, other, Reply::JobId(b"j".to_vec()));
        assert_eq!(take(&mut session, b""), (None, String::new()));
        answered(&mut session, fence, Reply::Fenced);
        let (event, out) = take(&mut session, b"");
        let Some(Event::Asked { id, request: Request::JobGetId }) = event else { panic!("{event:?}") };
        assert_eq!(out, "");
        answered(&mut session, id, Reply::JobId(b"j".to_vec()));
        let unknown = "60    cmd=ring-response;rc=-1;errmsg=unknown PMI-2 command 'ring';";
        assert_eq!(take(&mut session, b""), (None, unknown.into()));
    }

    #[test]
    fn an_abort_waits_for_nothing() {
        let mut session = active();
        asked(&mut session, "cmd=kvs-fence;");
        let (_, request) = asked(&mut session, "cmd=abort;exitcode=3;");
        assert!(matches!(request, Request::Abort(Abort { exit_code: Some(3), .. })));
    }

    #[test]
    fn requests_that_nobody_answers_are_bounded() {
        let mut session = active();
        for thread in 0..OUTSTANDING_MAX {
            asked(&mut session, &alloc::format!("cmd=kvs-fence;thrid={thread};"));
        }
        session.push(&frame("cmd=kvs-fence;")).unwrap();
        assert_eq!(session.next_event(&mut Vec::new()), Err(SessionError::TooManyRequests));
        for body in ["cmd=job-getid;".to_string(), alloc::format!("cmd=x;a={};", "b".repeat(60_000))] {
            let mut session = active();
            asked(&mut session, "cmd=kvs-fence;");
            let refused = (0..=OUTSTANDING_MAX).find_map(|_| {
                session.push(&frame(&body)).unwrap();
                session.next_event(&mut Vec::new()).err()
            });
            assert_eq!(refused, Some(SessionError::TooManyRequests));
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_is_a_refusal() {
        let mut session = active();
        let (id, _) = asked(&mut session, "cmd=job-getid;");
        let mut out = Vec::new();
        let long = Reply::JobId(alloc::vec![b'j'; 1 << 20]);
        assert!(matches!(session.answer(id, &long, &mut out), Err(AnswerError::TooLong(_))));
        let refusal = b"59    cmd=job-getid-response;rc=14;errmsg=the answer is too long;";
        assert_eq!(out, refusal);
    }
}

//! A PMI-1 client that knows nothing but the wire: one question, one answer. Banyan's own library would read what it can
//! from shared memory; what is measured here is what any other library sees.
use proto::pmi::{Lines, Reply, Request, Verb};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const CHUNK_BYTES: usize = 4096;

/// A rank's connection to its agent.
#[derive(Debug)]
pub struct WireClient {
    stream: UnixStream,
    lines: Lines,
    kvs_name: Vec<u8>,
    /// This process.
    pub rank: u32,
    /// Processes of the job.
    pub size: u32,
}

impl WireClient {
    /// Connects as the environment says and introduces itself.
    pub fn from_env() -> Result<WireClient, String> {
        let number = |name: &str| -> Result<u32, String> {
            let text =
                std::env::var(name).map_err(|_| format!("{name} is not set: start it with banyan run"))?;
            text.parse().map_err(|_| format!("{name}={text} is not a number"))
        };
        let fd = i32::try_from(number("PMI_FD")?).map_err(|e| format!("PMI_FD: {e}"))?;
        let fd = sys::inherit::inherited(fd).map_err(|e| format!("PMI_FD={fd}: {e}"))?;
        Self::start(UnixStream::from(fd), number("PMI_RANK")?, number("PMI_SIZE")?)
    }

    fn start(stream: UnixStream, rank: u32, size: u32) -> Result<WireClient, String> {
        stream.set_nonblocking(false).map_err(|e| e.to_string())?;
        let mut client = WireClient { stream, lines: Lines::default(), kvs_name: Vec::new(), rank, size };
        client.ask(&Request::Init { version: 1, subversion: 1 }, |_| ())?;
        client.kvs_name = client.ask(&Request::GetMyKvsname, |reply| match reply {
            Reply::KvsName(name) => name.to_vec(),
            _ => Vec::new(),
        })?;
        Ok(client)
    }

    /// Publishes a key.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
        let kvsname = self.kvs_name.clone();
        let put = Request::Put { kvsname: &kvsname, key: key.as_bytes(), value: value.as_bytes() };
        match self.ask(&put, |reply| matches!(reply, Reply::Put))? {
            true => Ok(()),
            false => Err(format!("the put of {key} was refused")),
        }
    }

    /// Reads a key; `None` if nobody published it.
    pub fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let kvsname = self.kvs_name.clone();
        let get = Request::Get { kvsname: &kvsname, key: key.as_bytes() };
        self.ask(&get, |reply| match reply {
            Reply::Got(value) => Some(value.to_vec()),
            _ => None,
        })
    }

    /// Waits until all processes are here.
    pub fn fence(&mut self) -> Result<(), String> {
        self.ask(&Request::Barrier, |_| ())
    }

    /// Says goodbye.
    pub fn finalize(mut self) -> Result<(), String> {
        self.ask(&Request::Finalize, |_| ())
    }

    fn ask<T>(&mut self, request: &Request<'_>, pick: impl FnOnce(Reply<'_>) -> T) -> Result<T, String> {
        let verb = request.verb();
        let mut bytes = Vec::new();
        request.emit(&mut bytes);
        self.stream.write_all(&bytes).map_err(|e| format!("{}: {e}", verb.request_name()))?;
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            if let Some(line) = self.lines.next_message() {
                return answer(verb, line).map(pick);
            }
            let count = self.stream.read(&mut chunk).map_err(|e| format!("{}: {e}", verb.request_name()))?;
            if count == 0 {
                return Err(format!("{}: the agent is gone", verb.request_name()));
            }
            self.lines.push(&chunk[..count]).map_err(|e| e.to_string())?;
        }
    }
}

/// The reply, if it belongs to the question. A refusal is one only for those who may be refused.
fn answer(verb: Verb, line: &[u8]) -> Result<Reply<'_>, String> {
    let text = || String::from_utf8_lossy(line).into_owned();
    let reply = Reply::parse(line).map_err(|e| format!("{e}: {}", text()))?;
    let refused = matches!(reply, Reply::Refused { .. }) && !matches!(verb, Verb::Get | Verb::Put);
    if reply.verb() != verb || refused {
        return Err(format!("{}: unexpected answer {}", verb.request_name(), text()));
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::thread;

    /// An agent that answers with these lines, and returns what it was asked.
    fn agent(stream: UnixStream, answers: &'static [&'static str]) -> thread::JoinHandle<Vec<String>> {
        thread::spawn(move || {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut asked = Vec::new();
            for answer in answers {
                asked.push(lines.next().unwrap().unwrap());
                (&stream).write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
            asked
        })
    }

    #[test]
    fn every_question_is_a_line_and_waits_for_its_answer() {
        let (here, there) = UnixStream::pair().unwrap();
        let agent = agent(
            there,
            &[
                "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
                "cmd=my_kvsname rc=0 kvsname=space",
                "cmd=put_result rc=0 msg=success",
                "cmd=barrier_out rc=0",
                "cmd=get_result rc=0 msg=success value=a=b",
                "cmd=get_result rc=1 msg=key_not_found",
                "cmd=finalize_ack rc=0",
            ],
        );
        let mut client = WireClient::start(here, 0, 2).unwrap();
        client.put("card", "a=b").unwrap();
        client.fence().unwrap();
        assert_eq!(client.get("card").unwrap(), Some(b"a=b".to_vec()));
        assert_eq!(client.get("absent").unwrap(), None);
        client.finalize().unwrap();
        let asked = agent.join().unwrap();
        assert_eq!(asked[2], "cmd=put kvsname=space key=card value=a=b");
        assert_eq!(asked[3], "cmd=barrier_in");
    }

    #[test]
    fn an_answer_to_another_question_is_an_error() {
        let (here, there) = UnixStream::pair().unwrap();
        let agent = agent(there, &["cmd=barrier_out rc=0"]);
        let error = WireClient::start(here, 0, 2).unwrap_err();
        assert!(error.contains("barrier_out"), "{error}");
        agent.join().unwrap();
    }

    #[test]
    fn an_agent_that_leaves_is_an_error() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        assert!(WireClient::start(here, 0, 2).is_err());
    }
}

//! What a client sends.
use super::fields::{Fields, split_command};
use super::{ParseError, Spawn, Verb, quote};
use alloc::vec::Vec;

/// A request. Borrowed from the line it was parsed from, or from what the client wants to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// First contact, with the version the client speaks.
    Init {
        /// 1 for this protocol.
        version: u32,
        /// Minor version.
        subversion: u32,
    },
    /// Asks for [`super::Maxes`].
    GetMaxes,
    /// Asks for the index of the program.
    GetAppnum,
    /// Asks for the name of the job's key-value space.
    GetMyKvsname,
    /// Asks for the universe size.
    GetUniverseSize,
    /// Publishes `key`; others may read it after the next barrier.
    Put {
        /// Key-value space.
        kvsname: &'a [u8],
        /// Key.
        key: &'a [u8],
        /// Value.
        value: &'a [u8],
    },
    /// Reads `key`.
    Get {
        /// Key-value space.
        kvsname: &'a [u8],
        /// Key.
        key: &'a [u8],
    },
    /// Enters the barrier.
    Barrier,
    /// Publishes a port under a service name.
    Publish {
        /// Service name.
        service: &'a [u8],
        /// Port name.
        port: &'a [u8],
    },
    /// Asks for the port of a service.
    Lookup {
        /// Service name.
        service: &'a [u8],
    },
    /// Withdraws a service.
    Unpublish {
        /// Service name.
        service: &'a [u8],
    },
    /// Last message.
    Finalize,
    /// Ends the job. There is no reply.
    Abort {
        /// The program's error code.
        exit_code: i32,
        /// Why, if the client says so.
        message: &'a [u8],
    },
    /// A process of Banyan's library has waited so long, and does not know why. There is no reply.
    Waiting {
        /// Seconds.
        seconds: u32,
    },
    /// One block of a spawn; complete when `spawns_so_far == total_spawns`.
    Spawn(Spawn<'a>),
}

impl<'a> Request<'a> {
    /// What it asks for.
    pub fn verb(&self) -> Verb {
        match self {
            Request::Init { .. } => Verb::Init,
            Request::GetMaxes => Verb::GetMaxes,
            Request::GetAppnum => Verb::GetAppnum,
            Request::GetMyKvsname => Verb::GetMyKvsname,
            Request::GetUniverseSize => Verb::GetUniverseSize,
            Request::Put { .. } => Verb::Put,
            Request::Get { .. } => Verb::Get,
            Request::Barrier => Verb::Barrier,
            Request::Publish { .. } => Verb::Publish,
            Request::Lookup { .. } => Verb::Lookup,
            Request::Unpublish { .. } => Verb::Unpublish,
            Request::Finalize => Verb::Finalize,
            Request::Abort { .. } => Verb::Abort,
            Request::Waiting { .. } => Verb::Waiting,
            Request::Spawn(_) => Verb::Spawn,
        }
    }

    /// Parses one message of [`super::Lines`].
    pub fn parse(message: &'a [u8]) -> Result<Self, ParseError> {
        if message.starts_with(b"mcmd=") {
            return Spawn::parse(message).map(Request::Spawn);
        }
        let (name, rest) = split_command(message)?;
        let verb = Verb::of_request(name).ok_or_else(|| ParseError::UnknownCommand(quote(name)))?;
        let fields = |known| Fields::new(verb.request_name(), known, rest);
        Ok(match verb {
            Verb::Init => {
                let f = fields(&["pmi_version", "pmi_subversion"]);
                Request::Init {
                    version: f.int("pmi_version", None)?,
                    subversion: f.int("pmi_subversion", Some(0))?,
                }
            }
            Verb::GetMaxes => Request::GetMaxes,
            Verb::GetAppnum => Request::GetAppnum,
            Verb::GetMyKvsname => Request::GetMyKvsname,
            Verb::GetUniverseSize => Request::GetUniverseSize,
            Verb::Put => {
                let f = fields(&["kvsname", "key", "value"]);
                Request::Put { kvsname: f.need("kvsname")?, key: f.need("key")?, value: f.need("value")? }
            }
            Verb::Get => {
                let f = fields(&["kvsname", "key"]);
                Request::Get { kvsname: f.need("kvsname")?, key: f.need("key")? }
            }
            Verb::Barrier => Request::Barrier,
            Verb::Publish => {
                let f = fields(&["service", "port"]);
                Request::Publish { service: f.need("service")?, port: f.need("port")? }
            }
            Verb::Lookup => Request::Lookup { service: fields(&["service"]).need("service")? },
            Verb::Unpublish => Request::Unpublish { service: fields(&["service"]).need("service")? },
            Verb::Finalize => Request::Finalize,
            Verb::Abort => {
                let f = fields(&["exitcode", "message"]);
                Request::Abort {
                    exit_code: f.int("exitcode", Some(1))?,
                    message: f.find("message").unwrap_or_default(),
                }
            }
            Verb::Waiting => Request::Waiting { seconds: fields(&["seconds"]).int("seconds", None)? },
            Verb::Spawn => return Err(ParseError::UnknownCommand(quote(name))), // only as a block
        })
    }

    /// Appends the message with its newline. Text with newlines in it cannot be sent: they become blanks.
    pub fn emit(&self, out: &mut Vec<u8>) {
        if let Request::Spawn(spawn) = self {
            return spawn.emit(out);
        }
        let mut line = Line::start(out, self.verb().request_name());
        match self {
            Request::Init { version, subversion } => {
                line.number("pmi_version", i64::from(*version))
                    .number("pmi_subversion", i64::from(*subversion));
            }
            Request::Put { kvsname, key, value } => {
                line.field("kvsname", kvsname).field("key", key).field("value", value);
            }
            Request::Get { kvsname, key } => {
                line.field("kvsname", kvsname).field("key", key);
            }
            Request::Publish { service, port } => {
                line.field("service", service).field("port", port);
            }
            Request::Lookup { service } | Request::Unpublish { service } => {
                line.field("service", service);
            }
            Request::Abort { exit_code, message } => {
                line.number("exitcode", i64::from(*exit_code));
                if !message.is_empty() {
                    line.field("message", message);
                }
            }
            Request::Waiting { seconds } => _ = line.number("seconds", i64::from(*seconds)),
            _ => {}
        }
        line.end();
    }
}

/// Writes one line.
pub(super) struct Line<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Line<'o> {
    pub(super) fn start(out: &'o mut Vec<u8>, command: &str) -> Self {
        out.extend_from_slice(b"cmd=");
        out.extend_from_slice(command.as_bytes());
        Line { out }
    }

    pub(super) fn field(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.out.push(b' ');
        self.out.extend_from_slice(key.as_bytes());
        self.out.push(b'=');
        self.out.extend(value.iter().map(|&b| if b == b'\n' { b' ' } else { b }));
        self
    }

    pub(super) fn number(&mut self, key: &str, value: i64) -> &mut Self {
        self.field(key, alloc::format!("{value}").as_bytes())
    }

    pub(super) fn end(self) {
        self.out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn round_trip(request: Request<'_>) {
        let mut bytes = Vec::new();
        request.emit(&mut bytes);
        assert_eq!(bytes.pop(), Some(b'\n'));
        assert_eq!(Request::parse(&bytes), Ok(request));
    }

    #[test]
    fn every_request_is_parsed_as_it_was_emitted() {
        let all = vec![
            Request::Init { version: 1, subversion: 1 },
            Request::GetMaxes,
            Request::GetAppnum,
            Request::GetMyKvsname,
            Request::GetUniverseSize,
            Request::Put { kvsname: b"job_1", key: b"card-3", value: b"a=b key=c value=d" },
            Request::Get { kvsname: b"job_1", key: b"card-3" },
            Request::Barrier,
            Request::Publish { service: b"my service = one", port: b"tag#0$port#1 x$" },
            Request::Lookup { service: b"my service" },
            Request::Unpublish { service: b"my service" },
            Request::Finalize,
            Request::Abort { exit_code: -7, message: b"no more = left" },
            Request::Abort { exit_code: 0, message: b"" },
            Request::Waiting { seconds: 10 },
        ];
        all.into_iter().for_each(round_trip);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |line: &[u8]| alloc::format!("{}", Request::parse(line).unwrap_err());
        assert_eq!(error(b"hello"), "PMI message without a command: 'hello'");
        assert_eq!(error(b"cmd=dance x=1"), "unknown PMI command 'dance'");
        assert_eq!(error(b"cmd=put kvsname=a key=b"), "PMI put: no field 'value'");
        assert_eq!(error(b"cmd=init pmi_version=one"), "PMI init: pmi_version='one' is not a valid number");
        assert_eq!(
            error(b"cmd=abort exitcode=99999999999"),
            "PMI abort: exitcode='99999999999' is not a valid number"
        );
    }

    #[test]
    fn a_newline_in_a_value_cannot_smuggle_a_second_message() {
        let mut bytes = Vec::new();
        Request::Put { kvsname: b"k", key: b"a", value: b"1\ncmd=abort exitcode=1" }.emit(&mut bytes);
        assert_eq!(bytes.iter().filter(|&&b| b == b'\n').count(), 1);
    }
}

//! What a client sends.
use super::fields::{Body, Fields};
use super::{ParseError, Spawn, ThreadId, TooLong, Verb, quote};
use alloc::vec::Vec;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// First frame: who the client thinks it is.
    FullInit(FullInit),
    /// Asks for the name of the job.
    JobGetId,
    /// Wants to talk to another job.
    JobConnect {
        /// The other job's name.
        job: Vec<u8>,
    },
    /// Is done with another job.
    JobDisconnect {
        /// The other job's name.
        job: Vec<u8>,
    },
    /// Reads an attribute of the job.
    GetJobAttribute {
        /// Its key.
        key: Vec<u8>,
    },
    /// Publishes `key`; others may read it after the next fence.
    Put {
        /// Key.
        key: Vec<u8>,
        /// Value.
        value: Vec<u8>,
    },
    /// Enters the fence.
    Fence,
    /// Reads `key`.
    Get {
        /// Whose key-value space; `None` is the own job's.
        job: Option<Vec<u8>>,
        /// Who put it, as a hint.
        source: Option<u32>,
        /// Key.
        key: Vec<u8>,
    },
    /// Leaves an attribute for the processes of this node.
    PutNodeAttribute {
        /// Key.
        key: Vec<u8>,
        /// Value.
        value: Vec<u8>,
    },
    /// Reads an attribute of this node.
    GetNodeAttribute {
        /// Key.
        key: Vec<u8>,
        /// What to do if it is not there.
        wait: Wait,
    },
    /// Publishes a port under a service name.
    Publish {
        /// Service name.
        name: Vec<u8>,
        /// Port name.
        port: Vec<u8>,
    },
    /// Withdraws a service.
    Unpublish {
        /// Service name.
        name: Vec<u8>,
    },
    /// Asks for the port of a service.
    Lookup {
        /// Service name.
        name: Vec<u8>,
    },
    /// Wants more processes.
    Spawn(Spawn),
    /// Ends the job. There is no reply.
    Abort(Abort),
    /// Last frame.
    Finalize,
}

/// The facts of a first frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FullInit {
    /// The job's name from the environment.
    pub job: Option<Vec<u8>>,
    /// The rank from the environment.
    pub rank: Option<u32>,
    /// Will several threads ask?
    pub threaded: bool,
}

/// What a process says when it gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// The whole job, or only this process?
    pub world: bool,
    /// The program's error code, if the client says so (`libpmi2` does not).
    pub exit_code: Option<i32>,
    /// Why.
    pub message: Vec<u8>,
}

/// What to do about an attribute that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Say so at once.
    No,
    /// Answer when somebody has put it.
    UntilPut,
}

impl Request {
    /// What it asks for.
    pub fn verb(&self) -> Verb {
        match self {
            Request::FullInit(_) => Verb::FullInit,
            Request::JobGetId => Verb::JobGetId,
            Request::JobConnect { .. } => Verb::JobConnect,
            Request::JobDisconnect { .. } => Verb::JobDisconnect,
            Request::GetJobAttribute { .. } => Verb::GetJobAttribute,
            Request::Put { .. } => Verb::Put,
            Request::Fence => Verb::Fence,
            Request::Get { .. } => Verb::Get,
            Request::PutNodeAttribute { .. } => Verb::PutNodeAttribute,
            Request::GetNodeAttribute { .. } => Verb::GetNodeAttribute,
            Request::Publish { .. } => Verb::Publish,
            Request::Unpublish { .. } => Verb::Unpublish,
            Request::Lookup { .. } => Verb::Lookup,
            Request::Spawn(_) => Verb::Spawn,
            Request::Abort(_) => Verb::Abort,
            Request::Finalize => Verb::Finalize,
        }
    }

    /// Parses a body of [`super::Frames`]: the request, and the thread that asked.
    pub fn parse(body: &[u8]) -> Result<(Self, Option<ThreadId>), ParseError> {
        let mut fields = Fields::parse(body)?;
        let thread = fields.thread.take();
        Self::from_fields(&fields).map(|request| (request, thread))
    }

    pub(super) fn from_fields(fields: &Fields<'_>) -> Result<Self, ParseError> {
        let unknown = || ParseError::UnknownCommand(quote(&fields.name));
        let verb = Verb::of_request(&fields.name).ok_or_else(unknown)?;
        let need = |key| fields.need(verb.name(), key);
        Ok(match verb {
            Verb::FullInit => Request::FullInit(FullInit {
                job: fields.find("pmijobid").map(<[u8]>::to_vec),
                rank: match fields.number(verb.name(), "pmirank")? {
                    Some(rank) => Some(rank),
                    None => fields.number(verb.name(), "srcid")?,
                },
                threaded: fields.is_true("threaded"),
            }),
            Verb::JobGetId => Request::JobGetId,
            Verb::JobConnect => Request::JobConnect { job: need("jobid")? },
            Verb::JobDisconnect => Request::JobDisconnect { job: need("jobid")? },
            Verb::GetJobAttribute => Request::GetJobAttribute { key: need("key")? },
            Verb::Put => Request::Put { key: need("key")?, value: need("value")? },
            Verb::Fence => Request::Fence,
            Verb::Get => Request::Get {
                job: fields.find("jobid").filter(|job| !job.is_empty()).map(<[u8]>::to_vec),
                source: source(fields)?,
                key: need("key")?,
            },
            Verb::PutNodeAttribute => Request::PutNodeAttribute { key: need("key")?, value: need("value")? },
            Verb::GetNodeAttribute => Request::GetNodeAttribute {
                key: need("key")?,
                wait: if fields.is_true("wait") { Wait::UntilPut } else { Wait::No },
            },
            Verb::Publish => Request::Publish { name: need("name")?, port: need("port")? },
            Verb::Unpublish => Request::Unpublish { name: need("name")? },
            Verb::Lookup => Request::Lookup { name: need("name")? },
            Verb::Spawn => Request::Spawn(Spawn::parse(fields)?),
            Verb::Abort => Request::Abort(Abort {
                // Without the word it is MPI_Abort of a client that only has an exit code.
                world: fields.find("isworld").is_none() || fields.is_true("isworld"),
                exit_code: fields.number(verb.name(), "exitcode")?,
                message: fields.find("msg").or(fields.find("message")).unwrap_or_default().to_vec(),
            }),
            Verb::Finalize => Request::Finalize,
        })
    }

    /// Appends the frame. On error `out` is as it was.
    pub fn emit(&self, thread: Option<&ThreadId>, out: &mut Vec<u8>) -> Result<(), TooLong> {
        Body::emit(out, &[self.verb().name()], thread, |body| self.emit_fields(body))
    }

    fn emit_fields(&self, body: &mut Body<'_>) {
        match self {
            Request::FullInit(init) => {
                init.job.iter().for_each(|job| {
                    body.field("pmijobid", job);
                });
                init.rank.iter().for_each(|&rank| {
                    body.number("pmirank", i64::from(rank));
                });
                body.truth("threaded", init.threaded);
            }
            Request::JobConnect { job } | Request::JobDisconnect { job } => {
                body.field("jobid", job);
            }
            Request::GetJobAttribute { key } => {
                body.field("key", key);
            }
            Request::Put { key, value } | Request::PutNodeAttribute { key, value } => {
                body.field("key", key).field("value", value);
            }
            Request::Get { job, source, key } => {
                body.field("jobid", job.as_deref().unwrap_or_default())
                    .number("srcid", source.map_or(-1, i64::from))
                    .field("key", key);
            }
            Request::GetNodeAttribute { key, wait } => {
                body.field("key", key).truth("wait", *wait == Wait::UntilPut);
            }
            Request::Publish { name, port } => {
                body.field("name", name).field("port", port).number("infokeycount", 0);
            }
            Request::Unpublish { name } | Request::Lookup { name } => {
                body.field("name", name).number("infokeycount", 0);
            }
            Request::Spawn(spawn) => spawn.emit(body),
            Request::Abort(abort) => {
                body.truth("isworld", abort.world);
                abort.exit_code.iter().for_each(|&code| {
                    body.number("exitcode", i64::from(code));
                });
                // libpmi2 says the first word, Hydra wants the second and cannot take a field that ends in nothing.
                if !abort.message.is_empty() {
                    body.field("msg", &abort.message).field("message", &abort.message);
                }
            }
            Request::JobGetId | Request::Fence | Request::Finalize => {}
        }
    }
}

/// A negative source is nobody in particular.
fn source(fields: &Fields<'_>) -> Result<Option<u32>, ParseError> {
    let source: Option<i32> = fields.number(Verb::Get.name(), "srcid")?;
    Ok(source.and_then(|source| u32::try_from(source).ok()))
}

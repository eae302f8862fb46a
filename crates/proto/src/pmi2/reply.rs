//! What a server answers.
use super::fields::{Body, Fields, number};
use super::{ParseError, ThreadId, TooLong, Verb, quote};
use alloc::vec::Vec;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Who the client is.
    FullInit {
        /// Its rank.
        rank: u32,
        /// Processes of the job.
        size: u32,
        /// Index of the program in a job of several programs; -1 if unknown.
        appnum: i32,
        /// The job that spawned this one.
        spawner: Option<Vec<u8>>,
    },
    /// The name of the job.
    JobId(Vec<u8>),
    /// Keys of the other job are readable (they are not copied).
    Connected,
    /// They are not any more.
    Disconnected,
    /// An attribute of the job, if there is one.
    JobAttribute(Option<Vec<u8>>),
    /// The key is published.
    Put,
    /// All are in the fence.
    Fenced,
    /// The value, if there is one.
    Got(Option<Vec<u8>>),
    /// The attribute is there.
    NodeAttributePut,
    /// An attribute of the node, if there is one.
    NodeAttribute(Option<Vec<u8>>),
    /// The service is published.
    Published,
    /// The service is withdrawn.
    Unpublished,
    /// The port of the service.
    Found(Vec<u8>),
    /// The new job runs.
    Spawned {
        /// Its name.
        job: Vec<u8>,
        /// One code for each process, or none at all if all are well.
        errcodes: Vec<i32>,
    },
    /// Goodbye.
    Finalized,
    /// No, with a reason.
    Refused {
        /// What was asked.
        verb: Verb,
        /// Not 0; see [`super::rc`].
        rc: i32,
        /// Why.
        message: Vec<u8>,
    },
}

impl Reply {
    /// What it answers.
    pub fn verb(&self) -> Verb {
        match self {
            Reply::FullInit { .. } => Verb::FullInit,
            Reply::JobId(_) => Verb::JobGetId,
            Reply::Connected => Verb::JobConnect,
            Reply::Disconnected => Verb::JobDisconnect,
            Reply::JobAttribute(_) => Verb::GetJobAttribute,
            Reply::Put => Verb::Put,
            Reply::Fenced => Verb::Fence,
            Reply::Got(_) => Verb::Get,
            Reply::NodeAttributePut => Verb::PutNodeAttribute,
            Reply::NodeAttribute(_) => Verb::GetNodeAttribute,
            Reply::Published => Verb::Publish,
            Reply::Unpublished => Verb::Unpublish,
            Reply::Found(_) => Verb::Lookup,
            Reply::Spawned { .. } => Verb::Spawn,
            Reply::Finalized => Verb::Finalize,
            Reply::Refused { verb, .. } => *verb,
        }
    }

    /// A refusal.
    pub fn refused(verb: Verb, rc: i32, message: &str) -> Self {
        Reply::Refused { verb, rc, message: message.as_bytes().to_vec() }
    }

    /// Parses a body of [`super::Frames`]: the reply, and the thread that it is for.
    pub fn parse(body: &[u8]) -> Result<(Self, Option<ThreadId>), ParseError> {
        let mut fields = Fields::parse(body)?;
        let thread = fields.thread.take();
        Self::from_fields(&fields).map(|reply| (reply, thread))
    }

    fn from_fields(fields: &Fields<'_>) -> Result<Self, ParseError> {
        let unknown = || ParseError::UnknownCommand(quote(&fields.name));
        let verb = Verb::of_reply(&fields.name).ok_or_else(unknown)?;
        let command = verb.name();
        // Nobody leaves it out, but a reply without it can only be a success.
        let rc = fields.number(command, "rc")?.unwrap_or(0);
        if rc != 0 {
            let message = fields.find("errmsg").unwrap_or_default().to_vec();
            return Ok(Reply::Refused { verb, rc, message });
        }
        Ok(match verb {
            Verb::FullInit => Reply::FullInit {
                rank: fields.need_number(command, "rank")?,
                size: fields.need_number(command, "size")?,
                appnum: fields.number(command, "appnum")?.unwrap_or(-1),
                spawner: fields.find("spawner-jobid").map(<[u8]>::to_vec),
            },
            Verb::JobGetId => Reply::JobId(fields.need(command, "jobid")?),
            Verb::JobConnect => Reply::Connected,
            Verb::JobDisconnect => Reply::Disconnected,
            Verb::GetJobAttribute => Reply::JobAttribute(found(fields, command)?),
            Verb::Put => Reply::Put,
            Verb::Fence => Reply::Fenced,
            Verb::Get => Reply::Got(found(fields, command)?),
            Verb::PutNodeAttribute => Reply::NodeAttributePut,
            Verb::GetNodeAttribute => Reply::NodeAttribute(found(fields, command)?),
            Verb::Publish => Reply::Published,
            Verb::Unpublish => Reply::Unpublished,
            Verb::Lookup => match fields.find("port") {
                Some(port) => Reply::Found(port.to_vec()),
                None => Reply::Found(fields.need(command, "value")?),
            },
            Verb::Spawn => {
                Reply::Spawned { job: fields.need(command, "jobid")?, errcodes: errcodes(fields)? }
            }
            Verb::Finalize => Reply::Finalized,
            Verb::Abort => return Err(unknown()),
        })
    }

    /// Appends the frame. On error `out` is as it was.
    pub fn emit(&self, thread: Option<&ThreadId>, out: &mut Vec<u8>) -> Result<(), TooLong> {
        Body::emit(out, &[self.verb().name(), "-response"], thread, |body| match self {
            Reply::Refused { rc, message, .. } => {
                body.number("rc", i64::from(*rc)).field("errmsg", message);
            }
            _ => self.emit_facts(body.number("rc", 0)),
        })
    }

    /// The fields of a success.
    fn emit_facts(&self, body: &mut Body<'_>) {
        match self {
            Reply::FullInit { rank, size, appnum, spawner } => {
                body.number("pmi-version", 2)
                    .number("pmi-subversion", 0)
                    .number("rank", i64::from(*rank))
                    .number("size", i64::from(*size))
                    .number("appnum", i64::from(*appnum))
                    .truth("debugged", false)
                    .truth("pmiverbose", false);
                if let Some(spawner) = spawner {
                    body.field("spawner-jobid", spawner);
                }
            }
            Reply::JobId(job) => {
                body.field("jobid", job);
            }
            // libpmi2 insists on the word, and on FALSE.
            Reply::Connected => {
                body.truth("kvscopy", false);
            }
            Reply::JobAttribute(value) | Reply::Got(value) | Reply::NodeAttribute(value) => {
                body.truth("found", value.is_some());
                if let Some(value) = value {
                    body.field("value", value);
                }
            }
            // libpmi2 looks for the first, Hydra's clients for the second.
            Reply::Found(port) => {
                body.field("value", port).field("port", port);
            }
            Reply::Spawned { job, errcodes } => {
                body.field("jobid", job);
                if !errcodes.is_empty() {
                    let codes: Vec<_> = errcodes.iter().map(|code| alloc::format!("{code}")).collect();
                    body.field("errcodes", codes.join(",").as_bytes());
                }
            }
            _ => {}
        }
    }
}

/// The value under `found`.
fn found(fields: &Fields<'_>, command: &'static str) -> Result<Option<Vec<u8>>, ParseError> {
    if fields.is_true("found") { fields.need(command, "value").map(Some) } else { Ok(None) }
}

fn errcodes(fields: &Fields<'_>) -> Result<Vec<i32>, ParseError> {
    let Some(codes) = fields.find("errcodes") else { return Ok(Vec::new()) };
    codes.split(|&b| b == b',').map(|code| number(Verb::Spawn.name(), "errcodes", code)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn replies_look_as_all_known_clients_expect_them() {
        let text = |reply: Reply, thread: Option<&str>| {
            let mut out = Vec::new();
            let thread = thread.map(|thread| ThreadId(thread.into()));
            reply.emit(thread.as_ref(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(Reply::FullInit { rank: 1, size: 4, appnum: 0, spawner: None }, None),
            "113   cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=4;appnum=0;\
             debugged=FALSE;pmiverbose=FALSE;"
        );
        assert_eq!(
            text(Reply::Got(Some(b"v;w".to_vec())), Some("0x7ff")),
            "60    cmd=kvs-get-response;thrid=0x7ff;rc=0;found=TRUE;value=v;;w;"
        );
        assert_eq!(text(Reply::Got(None), None), "38    cmd=kvs-get-response;rc=0;found=FALSE;");
        assert_eq!(
            text(Reply::Found(b"p".to_vec()), None),
            "45    cmd=name-lookup-response;rc=0;value=p;port=p;"
        );
        assert_eq!(
            text(Reply::refused(Verb::Lookup, 1, "service_not_found"), None),
            "55    cmd=name-lookup-response;rc=1;errmsg=service_not_found;"
        );
        assert_eq!(
            text(Reply::Spawned { job: b"j".to_vec(), errcodes: alloc::vec![0, 0] }, None),
            "45    cmd=spawn-response;rc=0;jobid=j;errcodes=0,0;"
        );
        assert_eq!(text(Reply::Connected, None), "44    cmd=job-connect-response;rc=0;kvscopy=FALSE;");
    }

    #[test]
    fn replies_of_slurm_are_understood() {
        let body = b"cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=3;size=4;appnum=-1;\
                     debugged=FALSE;pmiverbose=FALSE;";
        let init = Reply::FullInit { rank: 3, size: 4, appnum: -1, spawner: None };
        assert_eq!(Reply::parse(body), Ok((init, None)));
        let lookup = b"cmd=name-lookup-response;rc=0;value=p;";
        assert_eq!(Reply::parse(lookup).unwrap().0, Reply::Found(b"p".to_vec()));
        let spawn = b"cmd=spawn-response;rc=10;errmsg=invalid command;";
        assert_eq!(Reply::parse(spawn).unwrap().0, Reply::refused(Verb::Spawn, 10, "invalid command"));
    }
}

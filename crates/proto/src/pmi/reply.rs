//! What a server answers.
use super::fields::{Fields, split_command};
use super::request::Line;
use super::{Maxes, ParseError, Verb, quote};
use alloc::vec::Vec;

/// A reply. `rc != 0` is always a [`Reply::Refused`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// To init: the version the server will speak.
    Init {
        /// 1 for this protocol.
        version: u32,
        /// Minor version.
        subversion: u32,
    },
    /// To get_maxes.
    Maxes(Maxes),
    /// To get_appnum.
    Appnum(i32),
    /// To get_my_kvsname.
    KvsName(&'a [u8]),
    /// To get_universe_size; `None` is unset.
    UniverseSize(Option<u32>),
    /// To put.
    Put,
    /// To get: the value. A key that is not there is refused.
    Got(&'a [u8]),
    /// To barrier_in, once all are in.
    BarrierOut,
    /// To publish_name.
    Published,
    /// To lookup_name: the port.
    Found(&'a [u8]),
    /// To unpublish_name.
    Unpublished,
    /// To finalize.
    Finalized,
    /// To spawn: the processes were started.
    Spawned,
    /// The request failed, or what it asked for is not there.
    Refused {
        /// What was asked.
        verb: Verb,
        /// Not zero.
        rc: i32,
        /// Why.
        message: &'a [u8],
    },
}

/// What a server says when a key is not there.
pub(super) const KEY_NOT_FOUND: &[u8] = b"key_not_found";

impl<'a> Reply<'a> {
    /// The answer to a get whose key is not there.
    pub const fn key_not_found() -> Self {
        Reply::Refused { verb: Verb::Get, rc: 1, message: KEY_NOT_FOUND }
    }

    /// What was asked.
    pub fn verb(&self) -> Verb {
        match self {
            Reply::Init { .. } => Verb::Init,
            Reply::Maxes(_) => Verb::GetMaxes,
            Reply::Appnum(_) => Verb::GetAppnum,
            Reply::KvsName(_) => Verb::GetMyKvsname,
            Reply::UniverseSize(_) => Verb::GetUniverseSize,
            Reply::Put => Verb::Put,
            Reply::Got(_) => Verb::Get,
            Reply::BarrierOut => Verb::Barrier,
            Reply::Published => Verb::Publish,
            Reply::Found(_) => Verb::Lookup,
            Reply::Unpublished => Verb::Unpublish,
            Reply::Finalized => Verb::Finalize,
            Reply::Spawned => Verb::Spawn,
            Reply::Refused { verb, .. } => *verb,
        }
    }

    /// Parses one message of [`super::Lines`].
    pub fn parse(message: &'a [u8]) -> Result<Self, ParseError> {
        let (name, rest) = split_command(message)?;
        let verb = Verb::of_reply(name).ok_or_else(|| ParseError::UnknownCommand(quote(name)))?;
        let fields = |known| Fields::new(verb.reply_name(), known, rest);
        // Old servers leave `rc` out of some replies; then the reply itself is the success.
        let outcome = fields(&["info", "rc", "msg", "port", "value"]);
        let rc = outcome.int("rc", Some(0))?;
        if rc != 0 {
            return Ok(Reply::Refused { verb, rc, message: outcome.find("msg").unwrap_or_default() });
        }
        Ok(match verb {
            Verb::Init => {
                let f = fields(&["rc", "pmi_version", "pmi_subversion"]);
                Reply::Init {
                    version: f.int("pmi_version", None)?,
                    subversion: f.int("pmi_subversion", Some(0))?,
                }
            }
            Verb::GetMaxes => {
                let f = fields(&["rc", "kvsname_max", "keylen_max", "vallen_max"]);
                let [kvsname, key, value] =
                    [f.int("kvsname_max", None)?, f.int("keylen_max", None)?, f.int("vallen_max", None)?];
                Reply::Maxes(Maxes { kvsname, key, value })
            }
            Verb::GetAppnum => Reply::Appnum(fields(&["rc", "appnum"]).int("appnum", None)?),
            Verb::GetMyKvsname => Reply::KvsName(fields(&["rc", "kvsname"]).need("kvsname")?),
            Verb::GetUniverseSize => {
                let size: i32 = fields(&["rc", "size"]).int("size", None)?;
                Reply::UniverseSize(u32::try_from(size).ok())
            }
            Verb::Put => Reply::Put,
            Verb::Get => Reply::Got(fields(&["rc", "msg", "value"]).need("value")?),
            Verb::Barrier => Reply::BarrierOut,
            Verb::Publish => Reply::Published,
            // Ports have no blanks, and Hydra goes on behind them.
            Verb::Lookup => Reply::Found(fields(&["info", "rc", "port", "msg"]).need("port")?),
            Verb::Unpublish => Reply::Unpublished,
            Verb::Finalize => Reply::Finalized,
            Verb::Spawn => Reply::Spawned,
            Verb::Abort | Verb::Waiting => return Err(ParseError::UnknownCommand(quote(name))),
        })
    }

    /// Appends the message with its newline.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut line = Line::start(out, self.verb().reply_name());
        if matches!(self.verb(), Verb::Publish | Verb::Lookup | Verb::Unpublish) {
            line.field("info", b"ok"); // MPICH before 4 looks for it
        }
        match self {
            Reply::Refused { rc, message, .. } => {
                line.number("rc", i64::from(*rc)).field("msg", message);
            }
            _ => {
                line.number("rc", 0);
                self.emit_facts(&mut line);
            }
        }
        line.end();
    }

    /// The fields of a success. `value` is the last one, because it may hold anything.
    fn emit_facts(&self, line: &mut Line<'_>) {
        match self {
            Reply::Init { version, subversion } => {
                line.number("pmi_version", i64::from(*version))
                    .number("pmi_subversion", i64::from(*subversion));
            }
            Reply::Maxes(maxes) => {
                line.number("kvsname_max", i64::from(maxes.kvsname))
                    .number("keylen_max", i64::from(maxes.key))
                    .number("vallen_max", i64::from(maxes.value));
            }
            Reply::Appnum(appnum) => {
                line.number("appnum", i64::from(*appnum));
            }
            Reply::KvsName(name) => {
                line.field("kvsname", name);
            }
            Reply::UniverseSize(size) => {
                line.number("size", size.map_or(-1, i64::from));
            }
            Reply::Got(value) => {
                line.field("msg", b"success").field("value", value);
            }
            Reply::Found(port) => {
                line.field("port", port);
            }
            Reply::Put | Reply::Published | Reply::Unpublished => {
                line.field("msg", b"success");
            }
            Reply::BarrierOut | Reply::Finalized | Reply::Spawned | Reply::Refused { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn every_reply_is_parsed_as_it_was_emitted() {
        let all = vec![
            Reply::Init { version: 1, subversion: 1 },
            Reply::Maxes(Maxes { kvsname: 256, key: 64, value: 1024 }),
            Reply::Appnum(3),
            Reply::KvsName(b"banyan_1_0"),
            Reply::UniverseSize(None),
            Reply::UniverseSize(Some(64)),
            Reply::Put,
            Reply::Got(b"(vector,(0,2,2)) rc=9 msg=x"),
            Reply::BarrierOut,
            Reply::Published,
            Reply::Found(b"tag#0$description#h$port#1$"),
            Reply::Unpublished,
            Reply::Finalized,
            Reply::Spawned,
            Reply::key_not_found(),
            Reply::Refused { verb: Verb::Publish, rc: -1, message: b"key_already_present" },
        ];
        for reply in all {
            let mut bytes = Vec::new();
            reply.emit(&mut bytes);
            assert_eq!(bytes.pop(), Some(b'\n'));
            assert_eq!(Reply::parse(&bytes), Ok(reply));
        }
    }

    #[test]
    fn replies_look_as_all_known_clients_expect_them() {
        let text = |reply: Reply<'_>| {
            let mut out = Vec::new();
            reply.emit(&mut out);
            alloc::string::String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(Reply::Init { version: 1, subversion: 1 }),
            "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
        );
        assert_eq!(text(Reply::Got(b"v")), "cmd=get_result rc=0 msg=success value=v\n");
        assert_eq!(text(Reply::key_not_found()), "cmd=get_result rc=1 msg=key_not_found\n");
        assert_eq!(text(Reply::Found(b"p")), "cmd=lookup_result info=ok rc=0 port=p\n");
        assert_eq!(text(Reply::UniverseSize(None)), "cmd=universe_size rc=0 size=-1\n");
    }

    #[test]
    fn a_port_ends_where_other_fields_begin() {
        let hydra = b"cmd=lookup_result port=otherhost:122 info=ok rc=0 msg=success";
        assert_eq!(Reply::parse(hydra), Ok(Reply::Found(b"otherhost:122")));
    }

    #[test]
    fn a_reply_without_rc_is_a_success() {
        assert_eq!(Reply::parse(b"cmd=barrier_out"), Ok(Reply::BarrierOut));
        assert_eq!(
            Reply::parse(b"cmd=get_result rc=-1 msg=key_x_not_found value=unknown").unwrap().verb(),
            Verb::Get
        );
    }
}

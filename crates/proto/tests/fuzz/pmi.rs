//! What processes say to the agent of their node, and what foreign launchers say to processes.
use crate::chance::Chance;
use crate::{Target, Verdict};
use banyan_proto::ids::{NodeId, Rank};
use banyan_proto::placement::Placement;
use banyan_proto::pmgr::{Event, Operation, Server};
use banyan_proto::pmi::{self, Lines};
use banyan_proto::pmi2::{self, Frames};

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The server's side of PMI-1.
#[derive(Default)]
pub(crate) struct OneLines {
    lines: Lines,
    waiting: usize,
}

impl Target for OneLines {
    fn seeds(&self) -> Vec<Vec<u8>> {
        texts(&[
            "cmd=init pmi_version=1 pmi_subversion=1\n",
            "cmd=get_maxes\ncmd=get_appnum\ncmd=get_my_kvsname\ncmd=get_universe_size\n",
            "cmd=put kvsname=kvs_0 key=bc-0 value=fabricname=sock cmd=get\n",
            "cmd=get kvsname=kvs_0 key=PMI_process_mapping\n",
            "cmd=barrier_in\n",
            "cmd=publish_name service=a b port=tag#0$description#h$port#1$\n",
            "cmd=lookup_name service=a\ncmd=unpublish_name service=a\n",
            "mcmd=spawn\nnprocs=2\nexecname=./a.out\ntotspawns=1\nspawnssofar=1\nargcnt=2\narg1=x\narg2=y z\n\
             preput_num=1\npreput_key_0=k\npreput_val_0=v\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/\nendcmd\n",
            "cmd=abort exitcode=3\n",
            "cmd=finalize\n",
        ])
    }

    fn feed(&mut self, input: &[u8], chance: &mut Chance) -> Verdict {
        let mut verdict = Verdict::Waiting;
        for piece in input.chunks(1 + chance.below(64)) {
            if self.lines.push(piece).is_err() {
                *self = OneLines::default();
                return Verdict::Refused;
            }
            self.waiting += piece.len();
            while let Some(message) = self.lines.next_message() {
                let request = pmi::Request::parse(message);
                assert!(request.as_ref().err().is_none_or(|error| error.to_string().len() < 400));
                self.waiting = piece.len();
                verdict = request.into();
            }
            assert!(self.waiting <= pmi::MESSAGE_BYTES_MAX + piece.len());
        }
        // A block that lost its end takes the rest for its own, up to its maximum.
        if verdict == Verdict::Waiting && chance.below(8) == 0 {
            *self = OneLines::default();
        }
        verdict
    }
}

/// The client's side, and what is hidden in its values.
pub(crate) struct OneReplies;

impl Target for OneReplies {
    fn seeds(&self) -> Vec<Vec<u8>> {
        texts(&[
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
            "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))",
            "cmd=get_result rc=-1 msg=key_not_found value=unknown",
            "cmd=lookup_result info=ok port=a b",
            "cmd=spawn_result rc=0 errcodes=0,0",
            "(vector,(0,4,16),(4,2,8))",
            "(vector,(0,4294967295,4294967295))",
        ])
    }

    fn feed(&mut self, input: &[u8], _: &mut Chance) -> Verdict {
        let placement = std::str::from_utf8(input).ok().and_then(|text| Placement::parse(text, 64).ok());
        if let Some(placement) = placement {
            let last = placement.node_of(Rank(63));
            assert!(placement.count(last) > 0 && last < NodeId(placement.nodes()));
            return Verdict::Understood;
        }
        pmi::Reply::parse(input).into()
    }
}

/// The server's side of PMI-2, without the session around it.
#[derive(Default)]
pub(crate) struct TwoFrames(Frames);

fn framed(bodies: &[&str]) -> Vec<Vec<u8>> {
    bodies.iter().map(|body| format!("{:<6}{body}", body.len()).into_bytes()).collect()
}

impl Target for TwoFrames {
    fn seeds(&self) -> Vec<Vec<u8>> {
        framed(&[
            "cmd=fullinit;pmijobid=1;pmirank=0;threaded=FALSE;",
            "cmd=job-getid;",
            "cmd=job-connect;jobid=1;",
            "cmd=info-getjobattr;key=universeSize;",
            "cmd=kvs-put;key=a;value=b;;c;",
            "cmd=kvs-fence;thrid=1;",
            "cmd=kvs-get;jobid=1;srcid=-1;key=a;",
            "cmd=info-putnodeattr;key=a;value=b;",
            "cmd=info-getnodeattr;key=a;wait=TRUE;",
            "cmd=name-publish;name=n;port=p;",
            "cmd=spawn;ncmds=1;preputcount=1;ppkey0=k;ppval0=v;subcmd=p;maxprocs=2;argc=1;argv0=x;infokeycount=0;",
            "cmd=abort;isworld=TRUE;msg=no;",
            "cmd=finalize;",
        ])
    }

    fn feed(&mut self, input: &[u8], chance: &mut Chance) -> Verdict {
        let mut verdict = Verdict::Waiting;
        for piece in input.chunks(1 + chance.below(64)) {
            let mut taken = self.0.push(piece);
            while taken.is_ok() {
                match self.0.next_body() {
                    Ok(Some(body)) => verdict = pmi2::Request::parse(body).into(),
                    Ok(None) => break,
                    Err(error) => taken = Err(error),
                }
            }
            if taken.is_err() {
                self.0 = Frames::default();
                return Verdict::Refused;
            }
        }
        if self.0.has_partial() && chance.below(8) == 0 {
            self.0 = Frames::default();
        }
        verdict
    }
}

/// The client's side of PMI-2.
pub(crate) struct TwoReplies;

impl Target for TwoReplies {
    fn seeds(&self) -> Vec<Vec<u8>> {
        texts(&[
            "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=0;size=2;appnum=0;debugged=FALSE;rc=0;",
            "cmd=job-getid-response;jobid=kvs_1;rc=0;",
            "cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,2));rc=0;",
            "cmd=kvs-get-response;thrid=2;found=FALSE;rc=0;",
            "cmd=kvs-fence-response;rc=0;",
            "cmd=name-lookup-response;value=p;;q;found=TRUE;rc=0;",
            "cmd=spawn-response;rc=0;jobid=2;nerrs=1;err0=0;",
            "cmd=kvs-put-response;rc=-1;errmsg=no room;",
        ])
    }

    fn feed(&mut self, input: &[u8], _: &mut Chance) -> Verdict {
        pmi2::Reply::parse(input).into()
    }
}

/// Processes of a PMGR job; a job that has seen something wrong is replaced.
pub(crate) struct Pmgr(Server);

/// Ranks of the job.
const SIZE: u32 = 3;

impl Pmgr {
    pub(crate) fn new() -> Self {
        Pmgr(Server::new(SIZE))
    }
}

impl Target for Pmgr {
    /// A whole life of rank 0, 1 or 2 each, so that what is wrong comes early or late.
    fn seeds(&self) -> Vec<Vec<u8>> {
        let greeting = |rank: u32| [8i32.to_le_bytes(), (rank as i32).to_le_bytes()].concat();
        let life = |rank: u32| {
            let mut bytes = greeting(rank);
            let data = vec![rank as u8; 8];
            for operation in [
                Operation::Barrier,
                Operation::Allgather { data: data.clone() },
                Operation::Gather { root: 1, data: data.clone() },
                Operation::Bcast { root: 0, size: 8, data: (rank == 0).then(|| data.clone()) },
                Operation::Alltoall { size: 8, data: data.repeat(SIZE as usize) },
                Operation::Close,
            ] {
                operation.emit(&mut bytes);
            }
            bytes
        };
        (0..SIZE).map(life).collect()
    }

    fn feed(&mut self, input: &[u8], chance: &mut Chance) -> Verdict {
        let Some(id) = self.0.connect() else {
            *self = Pmgr::new();
            return Verdict::Waiting;
        };
        let mut verdict = Verdict::Waiting;
        for piece in input.chunks(1 + chance.below(64)) {
            if self.0.wants(id) {
                self.0.push(id, piece);
            }
            while let Some(event) = self.0.poll_event() {
                match event {
                    Event::Send { .. } | Event::Joined { .. } if verdict == Verdict::Waiting => {
                        verdict = Verdict::Understood;
                    }
                    Event::Refused(refusal) => {
                        assert!(refusal.why.len() < 400);
                        verdict = Verdict::Refused;
                    }
                    _ => {}
                }
            }
        }
        if verdict == Verdict::Refused || chance.below(4) == 0 {
            self.0.ended(id);
            *self = Pmgr::new();
        }
        verdict
    }
}

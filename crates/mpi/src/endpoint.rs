//! The endpoint's interface, until `net` has it.
#![allow(missing_docs)]
use net::{Envelope, Message, NodeId, Outcome, Pattern, Probed, Rank, ReqId, SendMode, UserBuf, UserBufMut};

#[derive(Debug)]
pub struct NetError;
impl std::fmt::Display for NetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("network error")
    }
}
#[derive(Debug)]
pub struct StartError;
impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("start error")
    }
}
#[derive(Default, Debug)]
pub struct Backoff;
pub struct Config;
impl Config {
    pub fn from_env() -> Config {
        Config
    }
}
pub struct Endpoint;
#[allow(unused_variables)]
impl Endpoint {
    pub fn start(config: &Config) -> Result<Endpoint, StartError> {
        Err(StartError)
    }
    pub fn rank(&self) -> Rank {
        unimplemented!()
    }
    pub fn size(&self) -> u32 {
        unimplemented!()
    }
    pub fn node_of(&self, rank: Rank) -> NodeId {
        unimplemented!()
    }
    pub fn appnum(&self) -> Option<i32> {
        unimplemented!()
    }
    pub fn universe_size(&self) -> Option<i32> {
        unimplemented!()
    }
    pub fn isend(&mut self, to: Rank, e: Envelope, buf: UserBuf, mode: SendMode) -> Result<Option<ReqId>, NetError> {
        unimplemented!()
    }
    pub fn irecv(&mut self, pattern: Pattern, buf: UserBufMut) -> ReqId {
        unimplemented!()
    }
    pub fn is_done(&self, id: ReqId) -> bool {
        unimplemented!()
    }
    pub fn take(&mut self, id: ReqId) -> Option<Result<Outcome, NetError>> {
        unimplemented!()
    }
    pub fn forget(&mut self, id: ReqId) {
        unimplemented!()
    }
    pub fn cancel_recv(&mut self, id: ReqId) -> bool {
        unimplemented!()
    }
    pub fn iprobe(&mut self, pattern: Pattern) -> Option<Probed> {
        unimplemented!()
    }
    pub fn improbe(&mut self, pattern: Pattern) -> Option<(Message, Probed)> {
        unimplemented!()
    }
    pub fn imrecv(&mut self, message: Message, buf: UserBufMut) -> ReqId {
        unimplemented!()
    }
    pub fn progress(&mut self) -> bool {
        unimplemented!()
    }
    pub fn pause(&mut self, backoff: &mut Backoff) {
        unimplemented!()
    }
    pub fn wait(&mut self, id: ReqId) -> Result<Outcome, NetError> {
        unimplemented!()
    }
    pub fn abort(&mut self, code: i32, why: &str) -> ! {
        unimplemented!()
    }
    pub fn finish(&mut self) {
        unimplemented!()
    }
}

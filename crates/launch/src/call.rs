//! How an agent of another host calls its parent: tries the addresses it was given, and proves itself.
//!
//! It waits, with a deadline: an agent has nothing else to do before it has a parent. The other side is the
//! [`crate::door`].
use proto::ids::NodeId;
use proto::seal::{Child, HandshakeError, Key, MESSAGE_BYTES_MAX, Nonce, Progress, Seal};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::door::SILENCE_MAX;

/// Pause before the addresses are tried again after a parent hung up, doubled each time;
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// and the longest one.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long the addresses are tried, all of them once, where there is no deadline.
const ROUND: Duration = Duration::from_secs(30);
/// The shortest time that the system can be asked to wait.
const TICK: Duration = Duration::from_millis(1);

/// What happened at one address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There is no connection.
    #[error("{0}")]
    Connect(io::Error),
    /// The connection broke in the handshake.
    #[error("{0}")]
    Broken(io::Error),
    /// It hung up: it is crowded, or does not like what it heard.
    #[error("it hung up in the handshake")]
    HungUp,
    /// It says nothing.
    #[error("it did not answer in time")]
    Silent,
    /// It is not the one, or does not want us.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// None of the addresses led to the parent.
#[derive(Debug)]
pub(crate) struct CallError {
    node: NodeId,
    /// What happened last at each address.
    tried: Vec<(SocketAddr, Failure)>,
}

/// Calls the parent of `node` at each of its addresses in turn, until a deadline if there is one. The connection does not
/// wait afterwards, and all that the parent sent behind the handshake is still to be read from it.
pub(crate) fn call(
    addresses: &[SocketAddr],
    key: &Key,
    node: NodeId,
    deadline: Option<Instant>,
) -> Result<(OwnedFd, Seal), CallError> {
    let mut pause = PAUSE_MIN;
    loop {
        let until = deadline.unwrap_or_else(|| Instant::now() + ROUND);
        let mut tried = Vec::new();
        for (nth, address) in addresses.iter().enumerate() {
            // A silent address must not take the time of those behind it.
            let share = remaining(until) / (addresses.len() - nth) as u32;
            match attempt(*address, key, node, Instant::now() + share) {
                Ok(connection) => return Ok(connection),
                Err(failure) => tried.push((*address, failure)),
            }
        }
        let error = CallError { node, tried };
        let may_repeat = match deadline {
            Some(deadline) => error.is_worth_repeating() && remaining(deadline) > pause,
            None => error.is_worth_repeating() || error.is_silence(),
        };
        if !may_repeat {
            return Err(error);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn attempt(
    address: SocketAddr,
    key: &Key,
    node: NodeId,
    deadline: Instant,
) -> Result<(OwnedFd, Seal), Failure> {
    let mut stream =
        TcpStream::connect_timeout(&address, remaining(deadline).max(TICK)).map_err(Failure::Connect)?;
    stream.set_nodelay(true).map_err(Failure::Broken)?;
    sys::net::notice_silence(stream.as_fd(), SILENCE_MAX).map_err(Failure::Broken)?;
    let nonce = Nonce(sys::random::bytes().map_err(Failure::Broken)?);
    let seal = shake_hands(&mut stream, key, node, nonce, deadline)?;
    stream.set_nonblocking(true).map_err(Failure::Broken)?;
    Ok((stream.into(), seal))
}

fn shake_hands(
    stream: &mut TcpStream,
    key: &Key,
    node: NodeId,
    nonce: Nonce,
    deadline: Instant,
) -> Result<Seal, Failure> {
    let mut out = Vec::new();
    let mut child = Child::new(key.clone(), node, nonce, &mut out);
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    loop {
        stream.write_all(&out).map_err(broken)?;
        out.clear();
        let left = remaining(deadline);
        if left.is_zero() {
            return Err(Failure::Silent);
        }
        stream.set_read_timeout(Some(left.max(TICK))).map_err(Failure::Broken)?;
        match stream.read(&mut bytes[..child.wants()]) {
            Ok(0) => return Err(Failure::HungUp),
            Ok(n) => {
                if let Progress::Done(seal) = child.push(&bytes[..n], &mut out)? {
                    return Ok(seal);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
}

fn broken(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::Silent,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Failure::HungUp,
        _ => Failure::Broken(error),
    }
}

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

impl CallError {
    /// Has somebody only not answered in the time of a round?
    fn is_silence(&self) -> bool {
        let is_silence = |failure: &Failure| match failure {
            Failure::Silent => true,
            Failure::Connect(error) => error.kind() == io::ErrorKind::TimedOut,
            _ => false,
        };
        !self.is_refusal() && self.tried.iter().any(|(_, failure)| is_silence(failure))
    }

    fn is_refusal(&self) -> bool {
        let is_refusal =
            |failure: &Failure| matches!(failure, Failure::Handshake(HandshakeError::Refused(_)));
        self.tried.iter().any(|(_, failure)| is_refusal(failure))
    }

    /// Who was crowded out may come again, unless it was refused elsewhere; all else would just happen again.
    fn is_worth_repeating(&self) -> bool {
        !self.is_refusal() && self.tried.iter().any(|(_, failure)| matches!(failure, Failure::HungUp))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} did not reach its parent", self.node)?;
        if self.tried.is_empty() {
            return f.write_str(": it was given no address");
        }
        for (nth, (address, failure)) in self.tried.iter().enumerate() {
            write!(f, "{} {address} ({failure})", if nth == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for CallError {}

//! Whether a host lives, asked where nobody listens.
//!
//! A listener whose process computes has a full queue at last, and then its kernel answers no dial at all: from outside that looks like a
//! host that is dead. But a kernel refuses at once what goes to a port that nobody has. A refusal there says nothing about any
//! process, only that there is a host; where a firewall swallows it, nothing is known, as without asking.
use std::io;
use std::net::{IpAddr, SocketAddr};
use sys::tcp::Stream;

/// A port that nobody has listened at for decades (tcpmux), and none that users may listen at. Should somebody, that is an answer, too.
const NOBODYS_PORT: u16 = 1;

/// A question that is under way.
#[derive(Debug)]
pub(super) enum Knock {
    Asked(Stream),
    /// Within a host the answer is there at once.
    Answered,
}

impl Knock {
    /// Asks the host that has this address. `None`: it cannot be asked.
    pub fn at(from: Option<IpAddr>, mut host: SocketAddr) -> Option<Knock> {
        host.set_port(NOBODYS_PORT);
        match Stream::dial(from, host) {
            Ok(stream) => Some(Knock::Asked(stream)),
            Err(error) if is_answer(&error) => Some(Knock::Answered),
            Err(_) => None,
        }
    }

    /// Has the host answered by now?
    pub fn has_answered(self) -> bool {
        let Knock::Asked(stream) = self else { return true };
        let answered = stream.connected().unwrap_or_else(|error| is_answer(&error));
        stream.close_hard();
        answered
    }
}

fn is_answer(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::wait;
    use super::*;
    use std::time::Duration;
    use sys::tcp::Listener;

    /// A listener whose queue is full, and those who fill it.
    pub fn full_listener() -> (Listener, Vec<Stream>) {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), 1).unwrap();
        let at = listener.local_addr().unwrap();
        let mut inside = Vec::new();
        loop {
            let stream = Stream::dial(None, at).unwrap();
            // (Within a host who is let in is so at once.)
            if !stream.wait_writable(Duration::from_millis(100)).unwrap() {
                return (listener, inside);
            }
            inside.push(stream);
            assert!(inside.len() < 100, "never full");
        }
    }

    #[test]
    fn a_host_answers_though_its_listener_does_not() {
        let (listener, _inside) = full_listener();
        let at = listener.local_addr().unwrap();
        wait("the answer", || Knock::at(None, at).unwrap().has_answered());
    }
}

//! The stranger of the flood: somebody without the job's key who sends datagrams to a process's UDP port and connects to
//! its TCP port, until it is killed.
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// The word after `bench` that starts it.
pub const STRANGER_COMMAND: &str = "net-stranger";
const DATAGRAMS_PER_S: u32 = 10_000;
/// All of them within about five seconds: the time for which it is measured.
const CONNECTIONS: u32 = 10_000;
const CONNECTIONS_PER_S: u32 = 2_000;
/// Nobody waits longer for a stranger's connection.
const CONNECT_LIMIT: Duration = Duration::from_millis(100);
/// It must not outlive a benchmark that was killed.
const LIFE_MAX: Duration = Duration::from_secs(60);
/// In each step, as many as are due are sent.
const STEP: Duration = Duration::from_millis(2);
const GARBAGE: [u8; 64] = [0x5a; 64];

/// `ADDRESS UDP-PORT TCP-PORT`; port 0 is left alone.
pub fn stranger_main(args: &[String]) -> i32 {
    let Some((udp, tcp)) = targets(args) else {
        return crate::usage_error("net-stranger takes an address, a UDP port and a TCP port");
    };
    let start = Instant::now();
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return 1 };
    let (mut sent, mut connected) = (0, 0);
    while start.elapsed() < LIFE_MAX {
        let elapsed = start.elapsed();
        while udp.port() != 0 && sent < due(elapsed, DATAGRAMS_PER_S) {
            // A closed port is answered; the answer is an error of the next send, and means nothing here.
            let _ = socket.send_to(&GARBAGE, udp);
            sent += 1;
        }
        while tcp.port() != 0 && connected < due(elapsed, CONNECTIONS_PER_S).min(CONNECTIONS) {
            if let Ok(mut stream) = TcpStream::connect_timeout(&tcp, CONNECT_LIMIT) {
                let _ = stream.write_all(&GARBAGE);
            }
            connected += 1;
        }
        thread::sleep(STEP);
    }
    0
}

fn targets(args: &[String]) -> Option<(SocketAddr, SocketAddr)> {
    let [address, udp, tcp] = args else { return None };
    let address: Ipv4Addr = address.parse().ok()?;
    let port = |text: &str| Some(SocketAddr::from((address, text.parse::<u16>().ok()?)));
    Some((port(udp)?, port(tcp)?))
}

/// How many should have been sent by now.
fn due(elapsed: Duration, per_second: u32) -> u32 {
    (elapsed.as_secs_f64() * f64::from(per_second)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_an_address_and_two_ports() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let (udp, tcp) = targets(&words("10.0.0.1 7 0")).unwrap();
        assert_eq!((udp.to_string().as_str(), tcp.port()), ("10.0.0.1:7", 0));
        assert!(targets(&words("10.0.0.1 7")).is_none());
        assert!(targets(&words("host 7 8")).is_none());
        assert!(targets(&words("10.0.0.1 7 70000")).is_none());
    }

    #[test]
    fn it_keeps_its_pace() {
        assert_eq!(due(Duration::from_millis(500), 10_000), 5_000);
    }
}

//! The steps of a connection on the bare device, Banyan's handshake as a whole, and registering memory.
use super::super::sample::median;
use fabric::rdma::{Config, Rdma};
use fabric::{Card, Event, Params, Provider, Qp, QpClaim, Role};
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::{Duration, Instant};
use sys::UserBuf;
use verbs::{Access, Address, Cq, Dest, Pd, QpKind, Srq, VerbsError};

/// Memory that is registered, in bytes.
const LENGTHS: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];
/// A handshake whose datagrams are lost has no end.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Registrations of each length, at most.
const REGISTRATIONS_MAX: usize = 100;
const COMPLETIONS: u32 = 64;
/// The parts of a handshake, and all of it.
const HANDSHAKE: [&str; 4] = [
    "handshake: until a request is there",
    "  until the reply is there",
    "  until both can send",
    "  all of it",
];
const RECEIVES: u32 = 16;

/// How long something took, each time, in microseconds.
#[derive(Clone, Debug)]
pub struct Times(Vec<f64>);

impl Times {
    /// In any order.
    pub fn new(mut us: Vec<f64>) -> Self {
        us.sort_by(f64::total_cmp);
        Times(us)
    }

    /// How often.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The middle one.
    pub fn median(&self) -> Option<f64> {
        median(&self.0)
    }

    /// As long as 99 of 100 at most.
    pub fn most(&self) -> Option<f64> {
        let rank = (99 * self.0.len()).div_ceil(100);
        self.0.get(rank.checked_sub(1)?).copied()
    }

    /// For scripts.
    pub fn json(&self) -> Value {
        json!({ "median_us": self.median(), "p99_us": self.most(), "count": self.count() })
    }
}

/// What the device takes.
#[derive(Debug)]
pub struct Steps {
    /// By name.
    pub steps: Vec<(&'static str, Times)>,
    /// Registering and deregistering memory of so many bytes.
    pub memory: Vec<(usize, Times, Times)>,
    /// The numbers of queue pairs that were made one after the other.
    pub numbers: Vec<u32>,
}

impl Steps {
    /// Of `count` queue pairs, which exist at the same time as those of a process do.
    pub fn measure(rdma: &Rdma, count: usize) -> Result<Steps, String> {
        let said = |error: VerbsError| format!("{}: {error}", rdma.device());
        let (mut steps, numbers) = device_steps(rdma, count).map_err(said)?;
        steps.extend(HANDSHAKE.into_iter().zip(handshakes(rdma, count.div_ceil(2))?));
        let memory = registrations(rdma, count.min(REGISTRATIONS_MAX)).map_err(said)?;
        Ok(Steps { steps, memory, numbers })
    }
}

/// Opens the device.
pub fn open(config: &Config) -> Result<Rdma, String> {
    // Nobody else has to know the key.
    let config = Config { key: Some([0x5b; 32]), ..config.clone() };
    Rdma::open(&config).map_err(|why| format!("there is nothing to measure: {why}"))
}

type Step = (&'static str, Times);

fn device_steps(rdma: &Rdma, count: usize) -> Result<(Vec<Step>, Vec<u32>), VerbsError> {
    let ((port, gid), (caps, settings)) = (rdma.port(), rdma.qp_settings());
    let pd = Pd::new(rdma.context())?;
    let cq = Cq::new(rdma.context(), COMPLETIONS)?;
    let srq = Srq::new(&pd, RECEIVES)?;
    let address = Address { port: port.number, lid: port.lid, gids: gid.map(|own| (*own, own.raw)) };
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let mut qps = Vec::with_capacity(count);
    let create = each(count, |_| {
        qps.push(verbs::Qp::new(&pd, QpKind::Rc, &cq, &cq, Some(&srq), caps)?);
        Ok(())
    })?;
    let init = each(count, |at| qps[at].init(port.number, access))?;
    // Each is its own peer.
    let rtr = each(count, |at| qps[at].rtr(&Dest { address, qp: qps[at].num(), psn: 1 }, &settings))?;
    let rts = each(count, |at| qps[at].rts(1, &settings))?;
    let numbers = qps.iter().map(verbs::Qp::num).collect();
    let destroy = each(count, |_| {
        drop(qps.pop());
        Ok(())
    })?;
    let names = ["create a queue pair", "RESET to INIT", "INIT to RTR", "RTR to RTS", "destroy it"];
    Ok((names.into_iter().zip([create, init, rtr, rts, destroy]).collect(), numbers))
}

/// The numbers of so many queue pairs, made one after the other.
pub fn numbers(rdma: &Rdma, count: usize) -> Result<Vec<u32>, String> {
    device_steps(rdma, count).map(|(_, numbers)| numbers).map_err(|error| error.to_string())
}

/// Times of so many calls.
fn each(count: usize, mut call: impl FnMut(usize) -> Result<(), VerbsError>) -> Result<Times, VerbsError> {
    let mut times = Vec::with_capacity(count);
    for at in 0..count {
        let start = Instant::now();
        call(at)?;
        times.push(us(start));
    }
    Ok(Times::new(times))
}

fn us(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// Banyan's way from nothing to a connection on which both sides can send, with both sides in this process: nobody has to be
/// woken for it.
fn handshakes(like: &Rdma, count: usize) -> Result<[Times; 4], String> {
    let config = Config {
        device: Some(like.context().name().into()),
        port: Some(like.port().0.number),
        gid: like.port().1.map(|gid| gid.index),
        ..Config::default()
    };
    let (mut asks, mut answers) = (Side::open(&config, 1)?, Side::open(&config, 2)?);
    let mut parts: [Vec<f64>; 4] = Default::default();
    for round in 0..=count {
        let start = Instant::now();
        let (one, two, ends) = connect(&mut asks, &mut answers)?;
        let mut before = start;
        for (part, end) in parts.iter_mut().zip(ends) {
            part.push((end - before).as_secs_f64() * 1e6);
            before = end;
        }
        parts[3].push((before - start).as_secs_f64() * 1e6);
        asks.rdma.destroy(one);
        answers.rdma.destroy(two);
        if round == 0 {
            parts = Default::default(); // memory and addresses were had for all that follow
        }
    }
    Ok(parts.map(Times::new))
}

/// A process, as far as a handshake goes.
struct Side {
    rdma: Rdma,
    card: Card,
}

impl Side {
    fn open(config: &Config, node: u32) -> Result<Side, String> {
        let rdma = open(config)?;
        let card = Card {
            host: [node.into(), 0],
            node,
            soft: None,
            sockets: None,
            verbs: Some(rdma.section()),
            shared: false,
        };
        Ok(Side { rdma, card })
    }

    /// A queue pair, and what the peer has to know of it.
    fn make(&mut self, peer: &Card, role: Role) -> Result<(Qp, Params), String> {
        let qp = self.rdma.create(QpClaim::from(role)).map_err(|e| e.to_string())?;
        let params = self.rdma.init(qp, peer, role).map_err(|e| e.to_string())?;
        Ok((qp, params))
    }

    fn send(&mut self, peer: &Card, params: &Params) -> Result<(), String> {
        self.rdma.send_control(None, peer, &params.0).map(drop).map_err(|e| e.to_string())
    }

    fn receive(&mut self) -> Result<Params, String> {
        let until = Instant::now() + HANDSHAKE_MAX;
        while Instant::now() < until {
            if let Some(Event::Datagram(bytes)) = self.rdma.poll() {
                return bytes.try_into().map(Params).map_err(|_| "a datagram of another length".into());
            }
        }
        Err("a datagram of a handshake is lost".into())
    }

    fn connect(&mut self, qp: Qp, peer: &Card, params: &Params) -> Result<(), String> {
        self.rdma.rtr(qp, peer, params).map_err(|e| e.to_string())?;
        self.rdma.rts(qp).map_err(|e| e.to_string())
    }

    fn until_open(&mut self, qp: Qp) -> Result<(), String> {
        let until = Instant::now() + HANDSHAKE_MAX;
        while !self.rdma.has_room(qp) {
            if Instant::now() > until {
                return Err("the first word on a connection is lost".into());
            }
        }
        Ok(())
    }
}

/// Both queue pairs, and when each part was over.
fn connect(asks: &mut Side, answers: &mut Side) -> Result<(Qp, Qp, [Instant; 3]), String> {
    let (one, request) = asks.make(&answers.card, Role::Asks)?;
    asks.send(&answers.card, &request)?;
    let request = answers.receive()?;
    let asked = Instant::now();
    let (two, reply) = answers.make(&asks.card, Role::Answers)?;
    answers.connect(two, &asks.card, &request)?;
    answers.send(&asks.card, &reply)?;
    let reply = asks.receive()?;
    let answered = Instant::now();
    asks.connect(one, &answers.card, &reply)?;
    answers.until_open(two)?;
    Ok((one, two, [asked, answered, Instant::now()]))
}

fn registrations(rdma: &Rdma, count: usize) -> Result<Vec<(usize, Times, Times)>, VerbsError> {
    let pd: Rc<Pd> = Pd::new(rdma.context())?;
    let longest = LENGTHS[LENGTHS.len() - 1];
    // Its pages are there before, as those of a message are. (It is given away for good, since a device could know it.)
    let memory: &'static [u8] = vec![1; longest].leak();
    let access = Access::REMOTE_READ | Access::LOCAL_WRITE;
    LENGTHS
        .into_iter()
        .map(|bytes| {
            let buf = UserBuf::of_static(&memory[..bytes]);
            let mut regions = Vec::with_capacity(1);
            let (mut on, mut off) = (Vec::new(), Vec::new());
            for _ in 0..count {
                let start = Instant::now();
                regions.push(pd.register(&buf, access)?);
                on.push(us(start));
                let start = Instant::now();
                regions.clear();
                off.push(us(start));
            }
            Ok((bytes, Times::new(on), Times::new(off)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_middle_and_a_rare_one() {
        let times = Times::new((1..=200).rev().map(f64::from).collect());
        assert_eq!((times.median(), times.most(), times.count()), (Some(100.5), Some(198.0), 200));
        let one = Times::new(vec![7.0]);
        assert_eq!((one.median(), one.most()), (Some(7.0), Some(7.0)));
        assert_eq!(Times::new(Vec::new()).most(), None);
    }
}

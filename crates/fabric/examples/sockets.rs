//! Measures the sockets provider between two processes over loopback, beside bare sockets that spin.
//!
//! `cargo run --release -p banyan-fabric --example sockets`. Each measurement is taken in turns; medians are printed, and the ends of the
//! distribution: on a machine that does other things as well, the good end tells more.
#![allow(unsafe_code)] // buffers live as long as the operations they are given to

use banyan_fabric::{
    Card, Config, Context, Event, Node, Params, PostError, Posted, ProviderKind, Push, Qp, Role, sockets,
};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use sys::node::NodeFacts;
use sys::{UserBuf, UserBufMut};

const KIND: ProviderKind = ProviderKind::Sockets;
const TURNS: usize = 60;
const PINGS: u32 = 500;
const LONG: usize = 1 << 20;
const LONGS: usize = 50;
const SMALLS: usize = 64_000;
const WINDOW: usize = 64;
const IDLE: u64 = 500;
const STOP: u64 = u64::MAX;

fn main() {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next(), args.next()) {
        (Some("--echo"), Some(card), Some(bare)) => echo(&card, &bare),
        _ => measure(),
    }
}

fn open() -> Context {
    let facts = NodeFacts {
        node: 0,
        slots: 1,
        cores: 2,
        core_set: Default::default(),
        qp_max: 100,
        oversubscribed: false,
        host: [u64::from(std::process::id()), 0],
        key: [0; 4],
        pid_space: sys::node::pid_space(),
    };
    let sockets = sockets::Config {
        addr: [127, 0, 0, 1].into(),
        interface: "lo".into(),
        ports: None,
        key: Some([7; 32]),
        timeout: Duration::from_secs(10),
    };
    let config = Config {
        node: Node::Own(Box::new(facts)),
        cma: false,
        force_net: true,
        faults: None,
        ring_bytes_max: 1 << 18,
        conn_memory: None,
        imitation: Default::default(),
        xrc: false,
    };
    let mut context = Context::open(&config).expect("a context");
    context.open_sockets(&sockets).expect("sockets");
    context
}

fn source(bytes: &[u8]) -> UserBuf {
    // SAFETY: callers keep the bytes until the operation is over.
    unsafe { UserBuf::new(bytes.as_ptr(), bytes.len()) }
}

fn control(context: &mut Context) -> Vec<u8> {
    loop {
        if let Some(Event::Datagram(bytes)) = context.poll() {
            return bytes.to_vec();
        }
    }
}

fn params(bytes: &[u8]) -> Params {
    Params(bytes.try_into().expect("32 bytes"))
}

/// Sends, and waits until the buffer is free.
fn send(context: &mut Context, qp: Qp, header: [u64; 2], bytes: &[u8]) {
    if let Ok(Posted::Later(work)) = context.post_send(qp, header, source(bytes), Push::Now) {
        while !matches!(context.poll(), Some(Event::Done(ended, Ok(_))) if ended == work) {}
    }
}

/// Receives one message, a long one into `to`; its header.
fn receive(context: &mut Context, qp: Qp, to: &mut [u8]) -> [u64; 2] {
    // SAFETY: `to` is not touched until the message is there.
    let place = unsafe { UserBufMut::new(to.as_mut_ptr(), to.len()) };
    let mut begun = [0; 2];
    loop {
        match context.poll() {
            Some(Event::Receive { view, .. }) => {
                view.copy_to(0, place);
                return view.header();
            }
            Some(Event::Incoming { header, .. }) => begun = header,
            Some(Event::Done(_, Ok(_))) => return begun,
            Some(other) => panic!("{other:?}"),
            None => continue,
        }
        if context.place(qp, place) == Posted::Done {
            return begun;
        }
    }
}

/// The other process: answers short messages, counts others, until it is told to stop.
fn echo(card: &str, bare: &str) {
    let peer: Card = card.parse().expect("a card");
    let mut context = open();
    println!("{}", context.card());
    let qp = answer(&mut context, &peer);
    let mut stream = TcpStream::connect(bare).expect("the bare socket");
    stream.set_nodelay(true).expect("an option");
    let mut to = vec![0; LONG];
    loop {
        match receive(&mut context, qp, &mut to) {
            [STOP, _] => return,
            [0, _] => bare_echo(&mut stream),
            [3, idle] => (0..idle).for_each(|_| _ = answer(&mut context, &peer)),
            [1, answer] => send(&mut context, qp, [answer, 0], &to[..8]),
            _ => {}
        }
    }
}

fn answer(context: &mut Context, peer: &Card) -> Qp {
    let request = control(context);
    let qp = context.create_qp_as(KIND, Role::Answers).expect("a queue pair");
    let own = context.to_init(qp, peer, Role::Answers).expect("INIT");
    context.to_rtr(qp, peer, &params(&request)).expect("RTR");
    context.to_rts(qp).expect("RTS");
    context.send_control(Some(qp), peer, &own.0).expect("a reply");
    qp
}

fn ask(context: &mut Context, peer: &Card) -> Qp {
    let qp = context.create_qp_as(KIND, Role::Asks).expect("a queue pair");
    let own = context.to_init(qp, peer, Role::Asks).expect("INIT");
    context.send_control(Some(qp), peer, &own.0).expect("a request");
    let reply = control(context);
    context.to_rtr(qp, peer, &params(&reply)).expect("RTR");
    context.to_rts(qp).expect("RTS");
    qp
}

fn bare_echo(stream: &mut TcpStream) {
    stream.set_nonblocking(true).expect("an option");
    let mut bytes = [0; 32];
    for _ in 0..PINGS {
        spin(|| stream.read(&mut bytes));
        spin(|| stream.write(&bytes));
    }
}

fn spin(mut step: impl FnMut() -> io::Result<usize>) {
    while step().is_err() {}
}

fn measure() {
    let bare = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut context = open();
    let program = std::env::current_exe().expect("this program");
    let at = bare.local_addr().expect("an address").to_string();
    let args = ["--echo", &context.card().to_string(), &at];
    let mut child = Command::new(program).args(args).stdout(Stdio::piped()).spawn().expect("a child");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let peer: Card = line.trim().parse().expect("a card");
    let qp = ask(&mut context, &peer);
    let (mut stream, _) = bare.accept().expect("the child");
    stream.set_nodelay(true).expect("an option");
    let mut got: [Vec<f64>; 5] = Default::default();
    for _ in 0..TURNS {
        send(&mut context, qp, [0, 0], &[]);
        got[0].push(bare_latency(&mut stream));
        got[1].push(latency(&mut context, qp));
        got[2].push(bandwidth(&mut context, qp));
        got[3].push(rate(&mut context, qp));
    }
    let before = context.socket_bytes();
    send(&mut context, qp, [3, IDLE], &[]);
    (0..IDLE).for_each(|_| _ = ask(&mut context, &peer));
    let each = (context.socket_bytes() - before) / IDLE;
    got[4].extend((0..TURNS).map(|_| latency(&mut context, qp)));
    send(&mut context, qp, [STOP, 0], &[]);
    child.wait().expect("an end");
    let idle = format!("8 B beside {IDLE} idle, us");
    for (name, mut values) in ["bare, us", "8 B, us", "1 MiB, GB/s", "8 B, M/s", &idle].iter().zip(got) {
        values.sort_by(f64::total_cmp);
        let part = |part: usize| values[(TURNS - 1) * part / 100];
        println!("{name:24} median {:.2}, 5 % {:.2}, 95 % {:.2}", part(50), part(5), part(95));
    }
    println!("an idle connection costs {each} bytes of this process");
}

fn bare_latency(stream: &mut TcpStream) -> f64 {
    stream.set_nonblocking(true).expect("an option");
    let mut bytes = [0; 32];
    let start = Instant::now();
    for _ in 0..PINGS {
        spin(|| stream.write(&bytes));
        spin(|| stream.read(&mut bytes));
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(PINGS) / 2.0
}

fn latency(context: &mut Context, qp: Qp) -> f64 {
    let mut bytes = [0; 8];
    let start = Instant::now();
    for i in 0..PINGS {
        send(context, qp, [1, u64::from(i)], &bytes);
        receive(context, qp, &mut bytes);
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(PINGS) / 2.0
}

fn bandwidth(context: &mut Context, qp: Qp) -> f64 {
    let mut bytes = vec![1u8; LONG];
    let start = Instant::now();
    for i in 0..LONGS {
        bytes[i] = bytes[i].wrapping_add(1);
        send(context, qp, [2, 0], &bytes);
    }
    finish(context, qp);
    (LONG * LONGS) as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn rate(context: &mut Context, qp: Qp) -> f64 {
    let bytes = [1; 8];
    let start = Instant::now();
    for _ in 0..SMALLS / WINDOW {
        for _ in 0..WINDOW {
            while let Err(error) = context.post_send(qp, [2, 0], source(&bytes), Push::Soon) {
                assert_eq!(error, PostError::Full);
                context.poll();
            }
        }
        context.flush();
    }
    finish(context, qp);
    SMALLS as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Waits until the peer has everything.
fn finish(context: &mut Context, qp: Qp) {
    send(context, qp, [1, 0], &[0; 8]);
    receive(context, qp, &mut [0; 8]);
    io::stdout().flush().expect("standard output");
}

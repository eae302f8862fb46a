//! Which stream stays when both sides dial, seen from inside: every order, and never two streams in the end.
use super::*;
use crate::event::Event;
use crate::provider::Push;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct End {
    pub sockets: Sockets,
    pub card: Card,
    /// Control messages and headers of messages.
    heard: Vec<Vec<u8>>,
    got: Vec<u64>,
}

impl End {
    pub fn new() -> Self {
        Self::with_timeout(Duration::from_secs(5))
    }

    pub fn with_timeout(timeout: Duration) -> Self {
        let config = Config {
            addr: [127, 0, 0, 1].into(),
            interface: "lo".into(),
            ports: None,
            key: Some([5; 32]),
            timeout,
        };
        let sockets = Sockets::open(&config, Arc::new(Poll::new().unwrap())).unwrap();
        let card = Card {
            host: [1, 1],
            node: 0,
            soft: None,
            sockets: Some(sockets.section()),
            verbs: None,
            shared: false,
        };
        End { sockets, card, heard: Vec::new(), got: Vec::new() }
    }

    fn poll(&mut self) {
        match self.sockets.poll() {
            Some(Event::Datagram(bytes)) => self.heard.push(bytes.to_vec()),
            Some(Event::Receive { view, .. }) => self.got.push(view.header()[0]),
            Some(Event::Done(_, Ok(_))) | None => {}
            Some(other) => panic!("{other:?}"),
        }
    }

    /// Makes a queue pair that asks with a dial of this number.
    pub fn ask(&mut self, peer: &Card, number: u64) -> Qp {
        let qp = self.sockets.create(QpClaim::Answer).unwrap();
        self.sockets.init(qp, peer, Role::Asks).unwrap();
        self.sockets.links.at_mut(qp.index() as u32).unwrap().dial.as_mut().unwrap().id = number;
        qp
    }

    fn send(&mut self, qp: Qp, number: u64) {
        self.sockets.post_send(qp, [number, 0], UserBuf::EMPTY, Push::Now).unwrap();
    }

    fn connect(&mut self, qp: Qp, peer: &Card, number: u64) {
        self.sockets.rtr(qp, peer, &dial::params_of(number)).unwrap();
        self.sockets.rts(qp).unwrap();
    }

    pub fn has_one_stream(&self) -> bool {
        let links = || self.sockets.links.iter().map(|(_, link)| link);
        let streams = links().filter(|link| link.is_settled()).count();
        let losing = links().any(|link| link.losing.is_some());
        streams == 1 && !losing && self.sockets.door.guests() == 0 && self.sockets.dialling.is_empty()
    }
}

pub(super) fn wait(what: &str, mut step: impl FnMut() -> bool) {
    let start = Instant::now();
    while !step() {
        assert!(start.elapsed() < PATIENCE, "no sign of {what}");
        std::thread::yield_now();
    }
}

/// The steps of one side: it dials, hears the other's request, connects. All ways to interleave those of two.
fn interleavings() -> Vec<Vec<usize>> {
    (0u32..64)
        .filter(|bits| bits.count_ones() == 3)
        .map(|bits| (0..6).map(|at| (bits >> at & 1) as usize).collect())
        .collect()
}

#[test]
fn of_crossed_dials_the_larger_stays_in_every_order() {
    for numbers in [[10, 20], [20, 10]] {
        for order in interleavings() {
            let mut ends = [End::new(), End::new()];
            let cards = [ends[0].card, ends[1].card];
            let qps = [ends[0].ask(&cards[1], numbers[0]), ends[1].ask(&cards[0], numbers[1])];
            let mut step = [0, 0];
            for side in order.iter().copied() {
                let (other, end) = (1 - side, &mut ends[side]);
                match step[side] {
                    0 => {
                        end.sockets.send_control(Some(qps[side]), &cards[other], b"request").unwrap();
                        (0..3).for_each(|i| end.send(qps[side], i));
                    }
                    // It hears of the other's dial, if that has been made by now.
                    1 => (0..50).for_each(|_| end.poll()),
                    _ => {
                        if step[other] > 0 {
                            wait("the request", || {
                                end.poll();
                                !end.heard.is_empty()
                            });
                            end.connect(qps[side], &cards[other], numbers[other]);
                            end.send(qps[side], 3);
                        }
                    }
                }
                step[side] += 1;
            }
            for side in 0..2 {
                let [first, second] = &mut ends;
                wait("the request", || {
                    first.poll();
                    second.poll();
                    ![&*first, &*second][side].heard.is_empty()
                });
                if ends[side].sockets.state(qps[side]) == QpState::Init {
                    ends[side].connect(qps[side], &cards[1 - side], numbers[1 - side]);
                    ends[side].send(qps[side], 3);
                }
            }
            let [first, second] = &mut ends;
            wait("all messages", || {
                first.poll();
                second.poll();
                first.got.len() >= 4
                    && second.got.len() >= 4
                    && first.has_one_stream()
                    && second.has_one_stream()
            });
            (0..50).for_each(|_| {
                first.poll();
                second.poll();
            });
            assert_eq!(
                (&first.got[..], &second.got[..]),
                (&[0, 1, 2, 3][..], &[0, 1, 2, 3][..]),
                "{order:?}"
            );
            assert_eq!((first.sockets.strangers(), second.sockets.strangers()), (0, 0), "{order:?}");
        }
    }
}

#[test]
fn who_has_not_dialled_takes_the_others_stream() {
    let mut ends = [End::new(), End::new()];
    let cards = [ends[0].card, ends[1].card];
    // The side with the larger number has a queue pair that asks, and hears the other's request before it dials.
    let qps = [ends[0].ask(&cards[1], 20), ends[1].ask(&cards[0], 10)];
    ends[1].sockets.send_control(Some(qps[1]), &cards[0], b"request").unwrap();
    ends[1].send(qps[1], 0);
    ends[0].send(qps[0], 0);
    wait("the request", || {
        ends[0].poll();
        !ends[0].heard.is_empty()
    });
    ends[0].connect(qps[0], &cards[1], 10);
    ends[0].sockets.send_control(Some(qps[0]), &cards[1], b"reply").unwrap();
    // Its early message may be held back until the other side has connected.
    let [first, second] = &mut ends;
    let mut connected = false;
    wait("both messages", || {
        first.poll();
        second.poll();
        if !connected && !second.heard.is_empty() {
            second.connect(qps[1], &cards[0], 20);
            connected = true;
        }
        first.got == [0] && second.got == [0]
    });
    assert!(first.has_one_stream() && second.has_one_stream());
}

#[test]
fn a_dial_that_never_got_through_gives_way() {
    let mut ends = [End::new(), End::new()];
    let cards = [ends[0].card, ends[1].card];
    // A port where nobody listens stands for a firewall; the number would win.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut walled = cards[1];
    walled.sockets.as_mut().unwrap().tcp = nobody;
    let qps = [ends[0].ask(&walled, 20), ends[1].ask(&cards[0], 10)];
    for (side, end) in ends.iter_mut().enumerate() {
        let to = [walled, cards[0]][side];
        end.sockets.send_control(Some(qps[side]), &to, b"request").unwrap();
        end.send(qps[side], side as u64);
    }
    wait("the request", || {
        ends[0].poll();
        !ends[0].heard.is_empty()
    });
    ends[0].connect(qps[0], &cards[1], 10);
    wait("the other request", || {
        ends.iter_mut().for_each(End::poll);
        !ends[1].heard.is_empty()
    });
    ends[1].connect(qps[1], &cards[0], 20);
    wait("both messages", || {
        ends.iter_mut().for_each(End::poll);
        ends[0].got == [1] && ends[1].got == [0]
    });
    assert!(ends.iter().all(|end| end.has_one_stream()));
}

#[test]
fn time_spent_computing_is_no_attempt() {
    // Of no patience, as after a long computation.
    let mut end = End::with_timeout(Duration::from_millis(1));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut peer = end.card;
    peer.sockets.as_mut().unwrap().tcp = nobody;
    let qp = end.ask(&peer, 1);
    end.sockets.send_control(Some(qp), &peer, b"request").unwrap();
    let start = Instant::now();
    wait("the end", || {
        end.sockets.tick(start.elapsed().as_nanos() as u64);
        let end = end.sockets.poll();
        assert!(matches!(end, None | Some(Event::Broken { .. })), "{end:?}");
        end.is_some()
    });
    // Four attempts, 0.2, 0.4 and 0.8 seconds between them.
    assert!(start.elapsed() > Duration::from_millis(1300), "{:?}", start.elapsed());
}

#[test]
fn a_few_strangers_may_be_silent_and_many_may_not() {
    let mut end = End::new();
    let at = (end.sockets.section().addr, end.sockets.section().tcp);
    let mut strangers = Vec::new();
    for (count, left) in [(32, 32), (40, 32)] {
        strangers.resize_with(count, || std::net::TcpStream::connect(at).unwrap());
        wait("the strangers", || {
            end.poll();
            end.sockets.door.guests() == count
        });
        end.sockets.tick_door(u64::MAX / 2);
        assert_eq!(end.sockets.door.guests(), left);
        assert_eq!(end.sockets.door_due_ns(), None);
    }
}

#[test]
fn who_has_proven_itself_is_never_shown_out_for_others() {
    const CALLERS: usize = 5;
    const PLACES: usize = 2;
    let mut end = End::new();
    end.sockets.door.offered_max = PLACES;
    let mut callers: Vec<(End, Qp)> = Vec::new();
    for number in 0..CALLERS {
        let mut caller = End::new();
        let qp = caller.ask(&end.card, 1);
        caller.sockets.send_control(Some(qp), &end.card, &[number as u8]).unwrap();
        caller.send(qp, number as u64);
        callers.push((caller, qp));
    }
    // One is heard after the other, as places become free; and the last ones are not let in before.
    for served in 0..CALLERS {
        let there = (served + PLACES).min(CALLERS);
        for _ in 0..100 {
            end.poll();
            callers.iter_mut().for_each(|(caller, _)| caller.poll()); // (which would find out that it is broken)
        }
        wait("the next callers", || {
            end.poll();
            end.heard.len() == there
        });
        assert_eq!(end.sockets.door.guests(), there - served);
        let caller = &callers[usize::from(end.heard[served][0])].0;
        let card = caller.card;
        let qp = end.sockets.create(QpClaim::Answer).unwrap();
        end.sockets.init(qp, &card, Role::Answers).unwrap();
        end.connect(qp, &card, 1);
    }
    wait("all messages", || {
        end.poll();
        end.got.len() == CALLERS
    });
}

#[test]
fn what_is_ready_is_named_once() {
    use std::io::Write;
    const COUNT: usize = 20;
    let mut end = End::new();
    let at = (end.sockets.section().addr, end.sockets.section().tcp);
    let mut strangers: Vec<_> = (0..COUNT).map(|_| std::net::TcpStream::connect(at).unwrap()).collect();
    wait("the strangers", || {
        end.poll();
        end.sockets.door.guests() == COUNT && !end.sockets.inbox.has_some()
    });
    strangers.iter_mut().for_each(|stranger| stranger.write_all(b"B").unwrap());
    for _ in 0..COUNT {
        end.poll();
        assert!(end.sockets.inbox.ready_len() <= COUNT);
    }
}

#[test]
fn a_message_that_was_held_back_outlives_its_stream() {
    hold_back_and_hang_up(false);
}

#[test]
fn and_also_when_the_end_is_seen_first() {
    hold_back_and_hang_up(true);
}

fn hold_back_and_hang_up(polled: bool) {
    let mut ends = [End::new(), End::new()];
    let cards = [ends[0].card, ends[1].card];
    let asks = ends[0].ask(&cards[1], 10);
    ends[0].sockets.send_control(Some(asks), &cards[1], b"request").unwrap();
    wait("the request", || {
        ends[1].poll();
        !ends[1].heard.is_empty()
    });
    let answers = ends[1].sockets.create(QpClaim::Answer).unwrap();
    ends[1].sockets.init(answers, &cards[0], Role::Answers).unwrap();
    ends[1].connect(answers, &cards[0], 10);
    ends[1].sockets.send_control(Some(answers), &cards[0], b"reply").unwrap();
    ends[1].send(answers, 7);
    wait("the held message", || {
        ends[0].poll();
        ends[0].sockets.links.at(asks.index() as u32).unwrap().partial.len() == proto::stream::HEAD_BYTES
    });
    ends[1].sockets.destroy(answers);
    if polled {
        let gone = |end: &End| {
            let stream = end.sockets.links.at(asks.index() as u32).unwrap().stream.as_ref().unwrap();
            !matches!(stream.connected(), Ok(true))
        };
        wait("the end of the stream", || gone(&ends[0]));
        (0..100).for_each(|_| ends[0].poll());
    }
    ends[0].connect(asks, &cards[1], 0);
    wait("the message", || match ends[0].sockets.poll() {
        Some(Event::Receive { view, .. }) => view.header()[0] == 7,
        None => false,
        other => panic!("{other:?}"),
    });
}

#[test]
fn for_ever_is_a_timeout() {
    for timeout in [Duration::from_secs(366 * 86400), Duration::MAX] {
        let mut ends = [End::with_timeout(timeout), End::with_timeout(timeout)];
        let cards = [ends[0].card, ends[1].card];
        let asks = ends[0].ask(&cards[1], 10);
        ends[0].sockets.send_control(Some(asks), &cards[1], b"request").unwrap();
        ends[0].send(asks, 1);
        let mut answers = None;
        let start = Instant::now();
        wait("the message", || {
            for end in &mut ends {
                end.poll();
                end.sockets.tick(start.elapsed().as_nanos() as u64);
                assert!(end.sockets.next_due_ns().is_none_or(|due_ns| due_ns > 1 << 50));
            }
            if answers.is_none() && !ends[1].heard.is_empty() {
                let qp = ends[1].sockets.create(QpClaim::Answer).unwrap();
                ends[1].sockets.init(qp, &cards[0], Role::Answers).unwrap();
                ends[1].connect(qp, &cards[0], 10);
                answers = Some(qp);
            }
            ends[1].got == [1]
        });
    }
}

#[test]
fn tokens_keep_their_parts() {
    for token in [
        Token::Listener,
        Token::Datagrams,
        Token::Guest { index: 0, generation: u32::MAX },
        Token::Leaving { index: (1 << 24) - 1, generation: 7 },
        Token::Link { index: LINKS_MAX as u32, generation: u32::MAX },
        Token::Losing { index: 3, generation: 4 },
    ] {
        assert_eq!(Token::unpack(token.pack()), Some(token));
        assert!(token.pack() < 1 << 63);
    }
    assert_eq!((Token::unpack(u64::MAX), Token::unpack(u64::MAX - 1)), (None, None));
}

#[test]
fn the_key_is_not_shown() {
    let end = End::new();
    let config = Config {
        addr: [10, 0, 0, 1].into(),
        interface: "eth0".into(),
        ports: Some((5, 9)),
        key: Some([0xab; 32]),
        timeout: Duration::from_secs(60),
    };
    assert_eq!(format!("{config:?}"), "Config(10.0.0.1 (eth0), ports Some((5, 9)), timeout 60s)");
    assert!(format!("{:?}", end.sockets).contains("Secret(..)"));
    let error = io::Error::from(io::ErrorKind::AddrInUse);
    let error = OpenError::Bind { addr: config.addr, ports: config.ports, error };
    assert_eq!(error.to_string(), "cannot listen at 10.0.0.1, ports 5 to 9: address in use");
}

#[test]
fn a_stream_that_was_dialled_is_kept_alive_soon() {
    let (mut end, peer) = (End::new(), End::new());
    let qp = end.ask(&peer.card, 1);
    end.sockets.send_control(Some(qp), &peer.card, b"request").unwrap();
    let due_ns = end.sockets.silence_due_ns.expect("something was written");
    end.sockets.tick_silence(due_ns);
    assert!(end.sockets.links.at(qp.index() as u32).unwrap().keeps_alive);
}

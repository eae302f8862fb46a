//! Meetings of two endpoints at a port, by each way there is, with strangers and callers that are gone.
use super::*;
use crate::meeting::{Door, Heard, MeetError, Meeting, Span};
use proto::meeting::{Port, Talk};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;
use sys::socket::{self, Transfer};
use sys::{local, poll};

fn door() -> Rc<RefCell<Door>> {
    Rc::new(RefCell::new(Door::open(Ipv4Addr::LOCALHOST.into()).unwrap()))
}

fn port_of(door: &Rc<RefCell<Door>>) -> Port {
    door.borrow().name().parse().unwrap()
}

fn mine(end: usize) -> Vec<u8> {
    format!("end {end}").into_bytes()
}

/// What both hear, once both have heard.
fn meet(world: &mut World, meetings: &mut [Meeting; 2]) -> [Heard; 2] {
    let mut heard = [None, None];
    world.until("a meeting", |ends| {
        for ((end, meeting), heard) in ends.iter_mut().zip(&mut *meetings).zip(&mut heard) {
            if heard.is_none() {
                *heard = meeting.poll(end).unwrap();
            }
        }
        heard.iter().all(Option::is_some)
    });
    heard.map(Option::unwrap)
}

fn assert_met([called, calls]: [Heard; 2]) {
    assert_eq!((called.0, calls.0), (mine(1), mine(0)));
    assert_eq!(called.1, calls.1, "the key of the pair");
}

#[test]
fn two_meet_at_a_port_again_and_again() {
    let (mut world, door) = (World::new(ProviderKind::Soft, 2), door());
    for _ in 0..3 {
        let called = Meeting::expect(door.clone(), mine(0));
        let calls = Meeting::call(&door.borrow().name(), mine(1), None).unwrap();
        assert_met(meet(&mut world, &mut [called, calls]));
    }
}

#[test]
fn who_cannot_be_met_by_name_comes_over_the_network() {
    let (mut world, door) = (World::new(ProviderKind::Soft, 2), door());
    door.borrow_mut().close_local();
    let called = Meeting::expect(door.clone(), mine(0));
    let calls = Meeting::call(&door.borrow().name(), mine(1), None).unwrap();
    assert_met(meet(&mut world, &mut [called, calls]));
}

#[test]
fn nobody_at_a_port_is_an_error_with_its_address() {
    let (mut world, name) = (World::new(ProviderKind::Soft, 1), door().borrow().name());
    let port: Port = name.parse().unwrap();
    let told = match Meeting::call(&name, mine(0), None) {
        Err(error) => error,
        Ok(mut meeting) => {
            let mut told = None;
            world.until("a refusal", |ends| {
                told = meeting.poll(&mut ends[0]).err();
                told.is_some()
            });
            told.unwrap()
        }
    };
    assert!(matches!(told, MeetError::Unanswered(addr, _) if addr == port.addr), "{told}");
}

#[test]
fn strangers_and_callers_that_are_gone_do_not_end_an_accept() {
    let (mut world, door) = (World::new(ProviderKind::Soft, 2), door());
    let port = port_of(&door);
    let mut called = Meeting::expect(door.clone(), mine(0));
    // Somebody who does not know the key, one way and the other.
    let mut stranger = TcpStream::connect(port.addr).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let knocks = local::dial(port.local_name().as_bytes()).unwrap();
    let mut says = Vec::new();
    let talk = Talk::new([7; 32], [7; 16], &mut says);
    talk.say_first(b"let me in", &mut says);
    assert_eq!(socket::write(knocks.as_fd(), &says).unwrap(), Transfer::Bytes(says.len()));
    // Somebody who knew it, said all, and is gone.
    let mut gone = Meeting::call(&door.borrow().name(), b"gone".to_vec(), None).unwrap();
    assert!(gone.poll(&mut world.ends[1]).unwrap().is_none());
    drop(gone);
    for _ in 0..100 {
        assert!(called.poll(&mut world.ends[0]).unwrap().is_none());
    }
    let calls = Meeting::call(&door.borrow().name(), mine(1), None).unwrap();
    assert_met(meet(&mut world, &mut [called, calls]));
}

#[test]
fn one_call_is_taken_by_one_accept() {
    let (mut world, door) = (World::new(ProviderKind::Soft, 2), door());
    let name = door.borrow().name();
    let mut late = Meeting::call(&name, b"late".to_vec(), None).unwrap();
    assert!(late.poll(&mut world.ends[1]).unwrap().is_none());
    let first = Meeting::expect(door.clone(), mine(0));
    let mut early = Meeting::call(&name, mine(1), None).unwrap();
    assert!(early.poll(&mut world.ends[1]).unwrap().is_none());
    let [(heard, _), _] = meet(&mut world, &mut [first, late]);
    assert_eq!(heard, b"late");
    assert!(early.poll(&mut world.ends[1]).unwrap().is_none(), "it has to wait for the next accept");
    let next = Meeting::expect(door.clone(), mine(0));
    assert_met(meet(&mut world, &mut [next, early]));
}

/// Is the set ready that wakes a process which sleeps?
fn wakes(end: &Endpoint) -> bool {
    let mut ready: Vec<poll::Ready> = Vec::new();
    let set = end.waits.meeting_set.as_ref().expect("it was slept for");
    set.wait_for(Some(Duration::ZERO), &mut ready).unwrap();
    !ready.is_empty()
}

#[test]
fn who_sleeps_is_woken_by_whom_it_meets_and_by_nobody_else() {
    for by_name in [true, false] {
        let (mut world, door) = (World::new(ProviderKind::Soft, 2), door());
        if !by_name {
            door.borrow_mut().close_local();
        }
        let mut called = Meeting::expect(door.clone(), mine(0));
        let unpolled = Meeting::expect(door.clone(), mine(0));
        let end = &mut world.ends[0];
        end.expect_meeting(&called);
        end.expect_meeting(&unpolled);
        assert!(called.poll(end).unwrap().is_none());
        assert!(end.watch_meetings().unwrap(), "it begins to sleep");
        assert!(called.poll(end).unwrap().is_none());
        assert!(!end.watch_meetings().unwrap() && !wakes(end));
        let mut calls = Meeting::call(&door.borrow().name(), mine(1), None).unwrap();
        let mut heard = [None, None];
        world.until("the end of a meeting of sleepers", |ends| {
            if heard[1].is_none() {
                heard[1] = calls.poll(&mut ends[1]).unwrap();
            }
            // It looks at its meeting only when it is woken.
            if heard[0].is_none() && wakes(&ends[0]) {
                heard[0] = called.poll(&mut ends[0]).unwrap();
            }
            heard.iter().all(Option::is_some)
        });
        assert_met(heard.map(Option::unwrap));
        world.ends[0].end_meeting(&called);
        drop(called);
        // Nobody accepts: who knocks wakes nobody, and the last meeting takes the set with it.
        let _knocks = Meeting::call(&door.borrow().name(), mine(1), None).unwrap();
        assert!(!wakes(&world.ends[0]));
        world.ends[0].end_meeting(&unpolled);
        assert!(world.ends[0].waits.meeting_set.is_none());
    }
}

#[test]
fn who_waits_for_another_job_says_for_whom() {
    let (mut world, door) = (World::new(ProviderKind::Soft, 1), door());
    let (end, addr) = (&mut world.ends[0], port_of(&door).addr);
    let called = Meeting::expect(door.clone(), mine(0));
    let calls = Meeting::call(&door.borrow().name(), mine(0), None).unwrap();
    end.expect_meeting(&called);
    end.expect_meeting(&calls);
    let [somebody, owner] = [
        format!("; for somebody to connect at port {addr}"),
        format!("; for the owner of port {addr} to accept"),
    ];
    assert_eq!(end.waits_for(), format!("{somebody}{owner}"));
    end.end_meeting(&called);
    assert_eq!(end.waits_for(), owner);
    end.end_meeting(&calls);
    assert_eq!(end.waits_for(), "");
}

const HOUR: Duration = Duration::from_secs(3600);

/// A caller with a limit, that has said what it may say before it is accepted, and was greeted where that is done.
fn spoken(world: &mut World, door: &Rc<RefCell<Door>>) -> Meeting {
    let mut caller = Meeting::call(&door.borrow().name(), b"gives up".to_vec(), Some(HOUR)).unwrap();
    world.until("a caller that has spoken", |ends| {
        assert!(caller.poll(&mut ends[1]).unwrap().is_none());
        door.borrow_mut().greet();
        caller.has_spoken()
    });
    caller
}

/// How a caller's waiting ends, which has no patience if it is `hasty`.
fn end_of(world: &mut World, mut caller: Meeting, hasty: bool) -> MeetError {
    let mut told = None;
    world.until("the end of a caller's patience", |ends| {
        if hasty {
            caller.lose_patience();
        }
        told = caller.poll(&mut ends[1]).err();
        told.is_some()
    });
    told.unwrap()
}

#[test]
fn a_caller_gives_up_where_nobody_accepts_and_is_not_taken_for_the_next() {
    for (by_name, greets) in [(true, false), (false, false), (true, true), (false, true)] {
        let (mut world, door) = (World::new(ProviderKind::Soft, 2), door());
        if !by_name {
            door.borrow_mut().close_local();
        }
        let caller = if greets {
            spoken(&mut world, &door)
        } else {
            Meeting::call(&door.borrow().name(), b"gives up".to_vec(), Some(HOUR)).unwrap()
        };
        let error = end_of(&mut world, caller, true);
        assert!(matches!(error, MeetError::Unaccepted(..)), "{error}");
        let called = Meeting::expect(door.clone(), mine(0));
        let calls = Meeting::call(&door.borrow().name(), mine(1), None).unwrap();
        assert_met(meet(&mut world, &mut [called, calls]));
    }
}

#[test]
fn who_is_late_is_told_by_an_owner_that_accepts() {
    for by_name in [true, false] {
        let (mut world, door) = (World::new(ProviderKind::Soft, 2), door());
        if !by_name {
            door.borrow_mut().close_local();
        }
        let mut late = spoken(&mut world, &door);
        late.lose_patience();
        assert!(late.poll(&mut world.ends[1]).unwrap().is_none() && late.is_late());
        let mut called = Meeting::expect(door.clone(), mine(0));
        world.until("a caller to be dropped", |ends| {
            assert!(called.poll(&mut ends[0]).unwrap().is_none(), "it has met somebody who gives up");
            door.borrow().callers() == 0
        });
        let error = end_of(&mut world, late, false);
        assert!(matches!(error, MeetError::HungUp | MeetError::Unanswered(..)), "{error}");
    }
}

/// A job of three, which the agent says is lost.
fn other_job(world: &mut World) -> Job {
    let job = Job(78);
    world.ends[0].meet(job, 3);
    let card = world.ends[1].context.card().to_bytes();
    world.ends[0].learn(Peer::Rank { job, rank: Rank(0) }, &card, None).unwrap();
    job
}

fn is_lost(ended: Option<Result<Outcome, NetError>>) -> bool {
    matches!(ended, Some(Err(NetError::Unreachable { .. })))
}

#[test]
fn of_a_job_that_is_lost_nobody_is_waited_for() {
    const CONTEXT: u32 = 8;
    let mut world = World::new(ProviderKind::Soft, 2);
    let job = other_job(&mut world);
    let end = &mut world.ends[0];
    let never_talked_to = end.process(Peer::Rank { job, rank: Rank(2) }).unwrap();
    let survivor = Some(Process(1));
    end.span(CONTEXT, job, Span::Messages);
    end.span(CONTEXT + 1, job, Span::Collectives);
    let target = || UserBufMut::of_static(room(8));
    let pattern = |source: Option<Process>, context, tag| Pattern { context, source, tag: Some(tag) };
    let one = end.irecv(pattern(Some(never_talked_to), CONTEXT, 3), target());
    let any = end.irecv(pattern(None, CONTEXT, 3), target());
    let collective = end.irecv(pattern(survivor, CONTEXT + 1, 3), target());
    let elsewhere = end.irecv(pattern(None, CONTEXT + 2, 3), target());
    let message = end.irecv(pattern(survivor, CONTEXT, 3), target());
    let apart = end.irecv(pattern(survivor, CONTEXT + 1, -3), target());
    end.tick();
    assert!(!end.is_done(one) && !end.is_done(any) && end.loss_in(CONTEXT).is_none());
    world.node.tell_lost(job.0);
    let end = &mut world.ends[0];
    let before = end.ended();
    end.waits.dead_due_ns = 0;
    assert!(end.tick() && end.ended() > before);
    assert!(is_lost(end.take(one)) && is_lost(end.take(any)));
    assert!(is_lost(end.take(collective)), "who is left may have gone away from it");
    assert!(!end.is_done(elsewhere), "nobody of that job sends there");
    assert!(!end.is_done(message) && !end.is_done(apart), "who is left may send it");
    assert!(end.loss_in(CONTEXT).is_some() && end.loss_in(CONTEXT + 2).is_none());
    let later = end.irecv(pattern(None, CONTEXT, 3), target());
    assert!(is_lost(end.take(later)) && end.iprobe(pattern(None, CONTEXT, 3)).is_err());
    [elsewhere, message, apart].into_iter().for_each(|id| assert!(end.cancel_recv(id)));
}

#[test]
fn who_has_heard_of_a_loss_refuses_what_others_send_because_they_have_not() {
    const CONTEXT: u32 = 9;
    let mut world = World::new(ProviderKind::Soft, 2);
    let job = other_job(&mut world);
    world.ends[0].span(CONTEXT, job, Span::Collectives);
    let long = vec![7; 1 << 20];
    let send = |world: &mut World, tag, bytes: &[u8], mode| {
        let envelope = Envelope { context: CONTEXT, tag };
        world.ends[1].isend(Rank(0), envelope, source(bytes), mode).unwrap().unwrap()
    };
    let (early, small) = (
        send(&mut world, 3, &long, SendMode::Standard),
        send(&mut world, 4, &long[..8], SendMode::Synchronous),
    );
    world.until("both are kept", |ends| ends[0].matcher.unexpected_len() == 2);
    let envelope = Envelope { context: CONTEXT, tag: 5 };
    let own = world.ends[0].isend(Rank(0), envelope, source(&long), SendMode::Synchronous).unwrap().unwrap();
    world.node.tell_lost(job.0);
    world.ends[0].hear_of_losses();
    assert_eq!(world.ends[0].matcher.unexpected_len(), 0);
    let left = |ended: Result<Outcome, NetError>| matches!(ended, Err(NetError::Left { .. }));
    assert!(left(world.wait(1, early)) && left(world.wait(1, small)) && left(world.wait(0, own)));
    // Also when it has no more to do with that job.
    let end = &mut world.ends[0];
    end.forget_context(CONTEXT);
    end.forget_job(job);
    let (late, small) = (
        send(&mut world, 3, &long, SendMode::Standard),
        send(&mut world, 4, &long[..8], SendMode::Synchronous),
    );
    assert!(left(world.wait(1, late)) && left(world.wait(1, small)));
    // And from itself.
    let envelope = Envelope { context: CONTEXT, tag: 3 };
    let own = world.ends[0].isend(Rank(0), envelope, source(&long), SendMode::Synchronous).unwrap().unwrap();
    assert!(left(world.wait(0, own)));
    // What is no collective's is kept.
    let apart = send(&mut world, -1, &long, SendMode::Standard);
    world.until("it is kept", |ends| ends[0].matcher.unexpected_len() == 1);
    assert!(!world.ends[1].is_done(apart));
}

#[test]
fn a_job_that_is_met_anew_has_lost_nobody() {
    const CONTEXT: u32 = 8;
    let mut world = World::new(ProviderKind::Soft, 2);
    let job = other_job(&mut world);
    let end = &mut world.ends[0];
    end.span(CONTEXT, job, Span::Messages);
    let ix = end.intern(Peer::Rank { job, rank: Rank(0) }).unwrap();
    end.fail(ix, NetError::StaleRequest);
    assert!(end.loss_in(CONTEXT).is_some());
    end.forget_job(job);
    end.meet(job, 3);
    end.span(CONTEXT + 2, job, Span::Messages);
    assert!(end.loss_in(CONTEXT).is_none() && end.loss_in(CONTEXT + 2).is_none());
}

#[test]
fn a_job_may_be_lost_before_it_is_met() {
    let mut world = World::new(ProviderKind::Soft, 2);
    world.node.tell_lost(78);
    let job = other_job(&mut world);
    let end = &mut world.ends[0];
    let first = end.process(Peer::Rank { job, rank: Rank(0) }).unwrap();
    let pattern = Pattern { context: ENVELOPE.context, source: Some(first), tag: None };
    let id = end.irecv(pattern, UserBufMut::of_static(room(8)));
    assert!(is_lost(end.take(id)));
}

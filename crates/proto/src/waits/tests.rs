//! Jobs that hang, as their ranks tell it.
use super::*;
use crate::lane::JobId;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const JOB: Job = Job(77);

fn who(rank: u32) -> Who {
    Who { job: JOB, rank: Rank(rank) }
}

fn world(size: u32, begun: u32) -> Comm {
    let members = Run::of((0..size).map(who));
    Comm { number: 0, first: who(0), name: "MPI_COMM_WORLD".into(), begun, size, members }
}

fn part(name: &str, ranks: &[u32], begun: u32) -> Comm {
    let members = Run::of(ranks.iter().copied().map(who));
    Comm { number: 4, first: who(ranks[0]), name: name.into(), begun, size: ranks.len() as u32, members }
}

/// In a call, with one need, in a world of so many that has begun so many collectives.
fn at(call: &str, need: Need, (size, begun): (u32, u32)) -> Standing {
    let comms = vec![world(size, begun)];
    Standing::Told(Place { call: call.into(), waited_ms: 1500, needs: vec![need], comms, ..Place::default() })
}

fn message(from: impl Into<Option<u32>>, tag: impl Into<Option<i32>>) -> Need {
    Need::Message { comm: 0, from: from.into().map(who), tag: tag.into(), look: Look::Receive }
}

fn taken(to: u32) -> Need {
    Need::Taken { comm: Some(0), to: who(to), tag: Some(3), bytes: 1 << 20 }
}

fn collective(number: u32, what: &str) -> Need {
    Need::Collective { comm: 0, number, what: what.into(), awaits: Vec::new() }
}

fn outside(doing: Doing) -> Standing {
    Standing::Outside(Outside { doing, pmi: PmiState::Active, ours: true })
}

fn told(standings: Vec<Standing>) -> Explained {
    told_with(standings, &[])
}

fn told_with(standings: Vec<Standing>, servers: &[ServerSeen]) -> Explained {
    let seen = |(rank, standing)| {
        let member = Member { job: JobId(0), rank: Rank(rank) };
        Seen { member, who: who(rank), standing }
    };
    explain(&(0..).zip(standings).map(seen).collect::<Vec<_>>(), servers)
}

fn text(explained: &Explained) -> String {
    explained.lines().join("\n")
}

fn says(explained: &Explained, words: &str) {
    let text = text(explained);
    assert!(text.contains(words), "{words:?} is not in\n{text}");
}

#[test]
fn sends_in_a_ring_are_one_screen_and_one_cycle() {
    for size in [2, 64, 1000] {
        let ranks = (0..size).map(|rank| at("MPI_Send", taken((rank + 1) % size), (size, 0)));
        let explained = told(ranks.collect());
        says(
            &explained,
            "a cycle of waits, which none of them can end: rank 0 (MPI_Send) -> rank 1 (MPI_Send)",
        );
        assert!(explained.lines().len() < 8, "{}", text(&explained));
        if size > 2 {
            says(&explained, &format!("rank {} (MPI_Send)", 2));
        }
    }
}

#[test]
fn a_group_is_told_by_distance_where_all_wait_alike() {
    let ranks = (0..64).map(|rank| at("MPI_Recv", message((rank + 63) % 64, 3), (64, 0)));
    let explained = told(ranks.collect());
    says(
        &explained,
        "ranks 1-63: in MPI_Recv: for a message from the rank of its own -1 with tag 3 on MPI_COMM_WORLD",
    );
}

#[test]
fn a_wait_for_anybody_ends_while_anybody_goes_on() {
    let any = || at("MPI_Recv", message(None, 1), (3, 0));
    let hopeful = told(vec![any(), any(), outside(Doing::Runs)]);
    assert!(!text(&hopeful).contains("cycle"), "{}", text(&hopeful));
    let hopeless = told(vec![any(), any(), Standing::Ended(Some(Ended::Exit(0)))]);
    says(
        &hopeless,
        "a cycle of waits, which none of them can end: rank 0 (MPI_Recv) -> rank 1 (MPI_Recv) -> rank 0",
    );
}

#[test]
fn of_several_needs_all_or_one_must_be_met() {
    let place = |until| {
        let needs = vec![message(1, 1), message(2, 2)];
        let comms = vec![world(3, 0)];
        let call = "MPI_Waitall".into();
        Standing::Told(Place { call, until, needs, comms, ..Place::default() })
    };
    let stuck = || at("MPI_Recv", message(0, 5), (3, 0));
    let all = told(vec![place(Until::All), stuck(), outside(Doing::Runs)]);
    says(
        &all,
        "cycle of waits, which none of them can end: rank 0 (MPI_Waitall) -> rank 1 (MPI_Recv) -> rank 0",
    );
    says(&all, "with tag 1 on MPI_COMM_WORLD; and for a message from rank 2");
    let one = told(vec![place(Until::Any), stuck(), outside(Doing::Runs)]);
    assert!(!text(&one).contains("cycle"), "{}", text(&one));
    says(&one, "with tag 1 on MPI_COMM_WORLD; or for a message from rank 2");
    says(&one, "ranks 0,1 wait for rank 2, which computes");
}

#[test]
fn who_has_not_called_a_collective_is_named_with_what_it_does_instead() {
    let barrier = || at("MPI_Barrier", collective(5, "MPI_Barrier"), (4, 5));
    let absent = at("MPI_Recv", message(0, 8), (4, 4));
    let explained = told(vec![barrier(), barrier(), absent, barrier()]);
    says(&explained, "ranks 0,1,3: in MPI_Barrier: collective 5 of MPI_COMM_WORLD (1.5 s)");
    says(
        &explained,
        "collective 5 of MPI_COMM_WORLD (MPI_Barrier): not called by rank 2 (in MPI_Recv: for a message from rank 0",
    );
    says(&explained, "rank 0 (MPI_Barrier) -> rank 2 (MPI_Recv) -> rank 0");
    let gone = told(vec![barrier(), barrier(), Standing::Ended(Some(Ended::Exit(3))), barrier()]);
    says(&gone, "not called by rank 2 (has finished (exit code 3))");
    says(&gone, "ranks 0,1,3 wait for rank 2, which has finished (exit code 3)");
    let computes = told(vec![barrier(), outside(Doing::Sleeps("read".into())), barrier(), barrier()]);
    says(
        &computes,
        "not called, as far as can be told from outside, by rank 1 (sleeps in read, outside MPI)",
    );
}

#[test]
fn different_calls_of_a_collective_are_named() {
    let of = |call: &str| at(call, collective(2, call), (3, 2));
    let explained = told(vec![of("MPI_Reduce"), of("MPI_Bcast"), of("MPI_Reduce")]);
    says(
        &explained,
        "different calls as collective 2 of MPI_COMM_WORLD: ranks 0,2 call MPI_Reduce, rank 1 calls MPI_Bcast",
    );
}

#[test]
fn a_collective_of_another_communicator_is_named() {
    let barrier = |comm| {
        let mut place = Place { call: "MPI_Barrier".into(), ..Place::default() };
        place.needs = vec![Need::Collective { comm, number: 1, what: String::new(), awaits: Vec::new() }];
        place.comms = vec![world(3, u32::from(comm == 0)), part("rows", &[1, 2], u32::from(comm == 1))];
        Standing::Told(place)
    };
    let explained = told(vec![barrier(0), barrier(0), barrier(1)]);
    says(&explained, "(MPI_Barrier): not called by rank 2 (in MPI_Barrier: collective 1 of rows)");
}

#[test]
fn messages_that_nearly_fit_are_told() {
    let near = |arrived: Vec<Arrived>, need| {
        let comms = vec![world(4, 0), part("halo", &[0, 1], 0)];
        let call = "MPI_Recv".into();
        let place = Place { call, needs: vec![need], arrived, comms, ..Place::default() };
        told(vec![Standing::Told(place), outside(Doing::Runs), outside(Doing::Runs), outside(Doing::Runs)])
    };
    let there = |comm, from, tag| Arrived { comm, from: who(from), tag, bytes: 4 };
    let explained = near(vec![there(0, 3, 7)], message(3, 8));
    says(&explained, "a message from rank 3 with tag 7 waits here; what is asked for has tag 8");
    let explained = near(vec![there(0, 2, 8)], message(3, 8));
    says(&explained, "a message from rank 2 with tag 8 waits here; what is asked for is from rank 3");
    let explained = near(vec![there(1, 1, 8)], message(1, 8));
    says(
        &explained,
        "a message from rank 1 with tag 8 waits here on halo; what is asked for is on MPI_COMM_WORLD",
    );
    let explained = near(vec![there(1, 1, 9); 20], message(3, 8));
    says(&explained, "no message here fits: 20 wait, the first from rank 1 with tag 9 on halo");
    let explained = near(Vec::new(), message(3, 8));
    assert!(!text(&explained).contains("fits"), "{}", text(&explained));
}

#[test]
fn the_holder_of_a_lock_is_named_and_not_whose_window_it_is() {
    let wants = at("MPI_Win_lock", Need::Lock { win: 9, target: who(2) }, (3, 1));
    let Standing::Told(mut place) = at("MPI_Recv", message(0, 2), (3, 1)) else { unreachable!() };
    place.locks = vec![Held { win: 9, target: who(2) }];
    let explained = told(vec![wants, Standing::Told(place), outside(Doing::Runs)]);
    says(&explained, "rank 0 (MPI_Win_lock) -> rank 1 (MPI_Recv) -> rank 0");
    says(&explained, "rank 0 waits for the lock of the window of rank 2, held by rank 1 (in MPI_Recv");
}

fn served(target: u32, by: Server, lock: Option<u32>) -> Need {
    Need::Served(Served { target: who(target), by, lock, what: "to do what it was sent".into() })
}

fn server(is_ready: bool, doing: Doing) -> ServerSeen {
    let of = (2..4).map(|rank| Member { job: JobId(0), rank: Rank(rank) }).collect();
    let name = "the data server of node 1, process 7".into();
    ServerSeen { job: JOB, node: NodeId(1), name, is_ready, doing, of }
}

#[test]
fn a_data_server_that_is_waited_for_is_named_unless_it_is_idle() {
    let flush = |node| at("MPI_Win_flush", served(2, Server::Node(NodeId(node)), None), (4, 0));
    let ranks = || vec![flush(1), flush(1), flush(0), outside(Doing::Runs)];
    let stopped = told_with(ranks(), &[server(true, Doing::Stopped)]);
    says(
        &stopped,
        "ranks 0,1: in MPI_Win_flush: for the data server of node 1 to do what it was sent (1.5 s)",
    );
    says(&stopped, "=> ranks 0,1 wait for the data server of node 1, process 7, which is stopped");
    let idle = told_with(ranks(), &[server(true, Doing::Sleeps("epoll_wait".into()))]);
    assert!(!text(&idle).contains("=> ranks 0,1 wait for the data server"), "{}", text(&idle));
}

#[test]
fn ranks_that_wait_for_the_start_of_a_data_server_say_so() {
    let started = at("MPI_Init", Need::Other { what: "the launcher".into() }, (4, 0));
    let ranks = vec![started.clone(), started, Standing::NotStarted, Standing::NotStarted];
    let explained = told_with(ranks, &[server(false, Doing::Stopped)]);
    says(&explained, "ranks 2,3: has not been started");
    says(&explained, "=> ranks 2,3 wait for the data server of node 1, process 7 to start, which is stopped");
}

#[test]
fn a_lock_that_others_hold_is_no_fault_of_who_serves_the_window() {
    let Standing::Told(mut holder) = at("MPI_Recv", message(0, 2), (3, 1)) else { unreachable!() };
    holder.locks = vec![Held { win: 9, target: who(2) }];
    for by in [Server::Target, Server::Node(NodeId(1))] {
        let wants = at("MPI_Win_flush", served(2, by, Some(9)), (3, 1));
        let idle = [server(true, Doing::Sleeps("epoll_wait".into()))];
        let ranks = vec![wants.clone(), Standing::Told(holder.clone()), outside(Doing::Runs)];
        let explained = told_with(ranks, &idle);
        says(&explained, "rank 0 (MPI_Win_flush) -> rank 1 (MPI_Recv) -> rank 0");
        says(&explained, "rank 0 waits for the lock of the window of rank 2, held by rank 1 (in MPI_Recv");
        // Without a holder it is who serves it, if that one can be at fault at all.
        let alone = told_with(vec![wants, outside(Doing::Runs), outside(Doing::Runs)], &idle);
        assert!(!text(&alone).contains("lock of the window"), "{}", text(&alone));
        assert_eq!(text(&alone).contains("rank 0 waits for rank 2, which computes"), by == Server::Target);
    }
}

#[test]
fn at_the_end_all_wait_for_who_has_not_come_there() {
    let end = || at("MPI_Finalize", Need::Everyone { what: "to call MPI_Finalize".into() }, (3, 0));
    let explained = told(vec![end(), outside(Doing::Stopped), end()]);
    says(&explained, "ranks 0,2 wait for rank 1, which is stopped");
    let here = told(vec![end(), end(), end()]);
    assert!(here.verdicts.is_empty(), "{}", text(&here));
}

#[test]
fn a_program_of_another_library_is_described_from_outside() {
    let theirs = |pmi| Standing::Outside(Outside { doing: Doing::Sleeps("poll".into()), pmi, ours: false });
    let explained = told(vec![theirs(PmiState::Active), theirs(PmiState::Unused), Standing::Unheard]);
    says(&explained, "none of 3 processes waits in MPI");
    says(&explained, "rank 0: sleeps in poll; it uses another MPI library, and so is seen from outside only");
    says(&explained, "rank 1: sleeps in poll, and has not called MPI_Init");
    says(&explained, "rank 2: is not known of");
}

#[test]
fn who_waits_for_itself_is_told_so() {
    says(&told(vec![at("MPI_Ssend", taken(0), (1, 0))]), "rank 0 (MPI_Ssend) waits for itself");
}

#[test]
fn two_thousand_that_wait_in_a_hundred_ways_are_a_screen() {
    let ranks = (0..2000).map(|rank| match rank % 100 {
        0 => outside(Doing::Runs),
        tag => at("MPI_Recv", message((rank * 7 + 1) % 2000, tag as i32), (2000, 0)),
    });
    let explained = told(ranks.collect());
    assert!(explained.lines().len() < 64, "{}", explained.lines().len());
    assert_eq!(explained.waiting, 1980);
}

#[test]
fn ranks_are_named_in_ranges_by_job() {
    let member = |job, rank| Member { job: JobId(job), rank: Rank(rank) };
    let members: Vec<Member> = [7, 0, 1, 2, 3].map(|rank| member(0, rank)).to_vec();
    assert_eq!(ranges(&members), "ranks 0-3,7");
    assert_eq!(ranges(&[member(0, 4), member(2, 0), member(2, 1)]), "rank 4 and ranks 0,1 of spawned job 2");
    let odd: Vec<Member> = (0..100).map(|rank| member(0, 2 * rank)).collect();
    assert!(ranges(&odd).ends_with("22 and 88 more"), "{}", ranges(&odd));
}

#[test]
fn runs_of_members_keep_their_order() {
    for ranks in
        [vec![], vec![5], vec![0, 1, 2, 3], vec![0, 2, 4], vec![4, 2, 0], vec![1, 1, 7], vec![3, 9, 10, 11]]
    {
        let runs = Run::of(ranks.iter().copied().map(who));
        let back: Vec<u32> = runs.iter().flat_map(|run| run.iter()).map(|who| who.rank.0).collect();
        assert_eq!(back, ranks);
    }
}

#[test]
fn what_does_not_fit_is_left_out_and_counted() {
    let mut place = Place { call: "MPI_Waitall".into(), ..Place::default() };
    place.needs = (0..24).map(|rank| message(rank, 1)).collect();
    place.arrived = vec![Arrived { comm: 1, from: who(1), tag: 2, bytes: 3 }; 16];
    place.notes = vec!["x".repeat(240); 6];
    let odd: Vec<u32> = (0..96).map(|rank| rank * rank).collect();
    place.comms = vec![world(9, 1), part("odd", &odd, 3)];
    for most in [4088, 1000, 200, 64] {
        let bytes = Standing::Told(place.clone()).emit(most);
        assert!(bytes.len() <= most, "{} of {most}", bytes.len());
        let Some(Standing::Told(told)) = Standing::parse(&bytes) else { panic!("{most}") };
        assert_eq!(told.call, "MPI_Waitall");
        if !told.needs.is_empty() {
            assert_eq!(told.needs.len() as u32 + told.needs_more, 24);
        }
    }
}

#[test]
fn names_that_would_move_a_cursor_are_not_shown() {
    let mut comm = world(1, 0);
    comm.name = "a\x1b[2Jb\n".into();
    let place = Place { comms: vec![comm], ..Place::default() };
    let Some(Standing::Told(told)) = Standing::parse(&Standing::Told(place).emit(999)) else { panic!() };
    assert_eq!(told.comms[0].name, "a?[2Jb?");
}

fn any_who() -> impl Strategy<Value = Who> {
    (any::<u64>(), any::<u32>()).prop_map(|(job, rank)| Who { job: Job(job), rank: Rank(rank) })
}

fn any_need() -> impl Strategy<Value = Need> {
    let look = prop_oneof![Just(Look::Receive), Just(Look::Probe)];
    prop_oneof![
        (0..2_u16, proptest::option::of(any_who()), any::<Option<i32>>(), look)
            .prop_map(|(comm, from, tag, look)| Need::Message { comm, from, tag, look }),
        (proptest::option::of(0..2_u16), any_who(), any::<Option<i32>>(), any::<u64>())
            .prop_map(|(comm, to, tag, bytes)| Need::Taken { comm, to, tag, bytes }),
        (0..2_u16, any::<u32>(), "[a-zA-Z_]{0,20}", proptest::collection::vec(any_who(), 0..3))
            .prop_map(|(comm, number, what, awaits)| Need::Collective { comm, number, what, awaits }),
        (any_who(), "[a-z ]{0,9}").prop_map(|(who, what)| Need::Deed { who, what }),
        (any::<u32>(), any_who()).prop_map(|(win, target)| Need::Lock { win, target }),
        (any_who(), any::<Option<u32>>(), any::<Option<u32>>(), "[a-z ]{0,9}").prop_map(
            |(target, node, lock, what)| {
                let by = node.map_or(Server::Target, |node| Server::Node(NodeId(node)));
                Need::Served(Served { target, by, lock, what })
            }
        ),
        "[a-z ]{0,9}".prop_map(|what| Need::Everyone { what }),
        "[a-z ]{0,9}".prop_map(|what| Need::Other { what }),
    ]
}

prop_compose! {
    fn any_place()(
        call in "[A-Za-z_]{0,30}",
        polls in any::<bool>(),
        any in any::<bool>(),
        waited_ms in any::<u32>(),
        needs in proptest::collection::vec(any_need(), 0..4),
        from in any_who(),
        (tag, bytes) in (any::<i32>(), any::<u64>()),
        notes in proptest::collection::vec("[a-zä ]{0,30}", 0..3),
    ) -> Place {
        Place {
            call, waited_ms, needs, notes,
            manner: if polls { Manner::Polls } else { Manner::Blocked },
            until: if any { Until::Any } else { Until::All },
            needs_more: waited_ms / 2,
            arrived: vec![Arrived { comm: 1, from, tag, bytes }],
            arrived_more: 1,
            locks: vec![Held { win: tag as u32, target: from }],
            comms: vec![world(4, tag as u32), part("p", &[1, 3, 9], 2)],
        }
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(place in any_place(), code in any::<i32>(), call in "[a-z_0-9]{0,20}") {
        let all = [
            Standing::Told(place),
            outside(Doing::Sleeps(call)),
            outside(Doing::Unknown),
            Standing::Ended(None),
            Standing::Ended(Some(Ended::Exit(code))),
            Standing::Ended(Some(Ended::Signal(code))),
            Standing::Unheard,
            Standing::NotStarted,
        ];
        for standing in all {
            prop_assert_eq!(Standing::parse(&standing.emit(usize::MAX)), Some(standing));
        }
    }

    /// Ranks write what they like; nothing of it may end the launcher.
    #[test]
    fn nonsense_is_refused_or_explained(place in any_place(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = Standing::Told(place).emit(usize::MAX);
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Some(standing) = Standing::parse(&bytes) {
            let lines = told(vec![standing, outside(Doing::Runs)]).lines();
            prop_assert!(lines[0].to_string().contains("of 2 processes"));
        }
        let _ = Standing::parse(&bytes[..at]);
    }
}

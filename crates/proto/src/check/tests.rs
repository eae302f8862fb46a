use super::*;
use alloc::string::ToString;
use alloc::vec;

const INTS: Block = Block { bytes: 16, mark: 7 };

fn record(rank: u32, call: &str) -> Record {
    Record {
        key: Key { number: 3, members: 9, sequence: 16 },
        rank,
        size: 4,
        first: 4,
        who: format!("rank {rank}"),
        ticket: 100 + u64::from(rank),
        waits: true,
        comm: "MPI_COMM_WORLD".into(),
        call: call.into(),
        arguments: String::new(),
        root: None,
        op: None,
        same: None,
        gives: Flow::Unknown,
        takes: Flow::Unknown,
    }
}

fn hear_all(records: impl IntoIterator<Item = Record>) -> (Hub<u32>, Vec<Verdict<u32>>) {
    let mut hub = Hub::default();
    let told = records.into_iter().flat_map(|record| {
        let from = record.rank;
        hub.hear(record, from)
    });
    let told = told.collect();
    (hub, told)
}

fn fault(records: impl IntoIterator<Item = Record>) -> Option<String> {
    hear_all(records).1.into_iter().find_map(|verdict| verdict.fault)
}

#[test]
fn all_are_told_when_the_last_has_called() {
    let mut hub = Hub::default();
    for rank in [2, 0, 3] {
        assert_eq!(hub.hear(record(rank, "MPI_Barrier"), rank), []);
    }
    let key = record(0, "").key;
    assert_eq!(hub.missing(key).as_deref(), Some("not called by rank 1"));
    let told = hub.hear(record(1, "MPI_Barrier"), 1);
    let mut tickets: Vec<u64> = told.iter().map(|verdict| verdict.ticket).collect();
    tickets.sort_unstable();
    assert_eq!(tickets, [100, 101, 102, 103]);
    assert!(told.iter().all(|verdict| verdict.fault.is_none()));
    assert_eq!((hub.open(), hub.missing(key)), (0, None));
}

#[test]
fn a_fault_is_told_at_once_and_to_those_who_come_later() {
    let mut hub = Hub::default();
    let bcast = |rank| Record { root: Some(1), arguments: "root 1".into(), ..record(rank, "MPI_Bcast") };
    assert_eq!(hub.hear(bcast(3), 3), []);
    let told = hub.hear(record(0, "MPI_Barrier"), 0);
    assert_eq!(told.iter().map(|verdict| verdict.to).collect::<Vec<_>>(), [3, 0]);
    let text = told[0].fault.clone().unwrap_or_default();
    assert_eq!(
        text,
        "rank 0: MPI_Barrier() as collective 17 of MPI_COMM_WORLD; rank 3: MPI_Bcast(root 1): different calls"
    );
    let late = hub.hear(bcast(1), 1);
    assert_eq!(late, [Verdict { to: 1, ticket: 101, fault: Some(text) }]);
    hub.hear(bcast(2), 2);
    assert_eq!(hub.open(), 0);
}

#[test]
fn roots_and_operations_are_compared() {
    let root = |rank, root| Record { root: Some(root), ..record(rank, "MPI_Bcast") };
    assert!(fault([root(0, 1), root(1, 1)]).is_none());
    assert!(fault([root(0, 1), root(1, 2)]).is_some_and(|text| text.ends_with("different roots")));
    let op = |rank, op| Record { op: Some(op), ..record(rank, "MPI_Allreduce") };
    assert!(fault([op(0, 1), op(1, 2)]).is_some_and(|text| text.ends_with("different operations")));
}

#[test]
fn what_must_be_the_same_is_compared_by_bytes_and_signature() {
    let of = |rank, same| Record { same: Some(same), ..record(rank, "MPI_Allreduce") };
    assert!(fault([of(0, INTS), of(1, INTS)]).is_none());
    let floats = Block { mark: 8, ..INTS };
    assert!(fault([of(0, INTS), of(1, floats)]).is_some_and(|text| text.ends_with("other datatypes")));
    let fewer = Block { bytes: 12, ..INTS };
    assert!(fault([of(0, INTS), of(1, fewer)]).is_some_and(|text| text.ends_with("12 bytes for 16")));
    // Raw bytes fit anything of their length, and nothing fits nothing of any kind.
    assert!(fault([of(0, INTS), of(1, Block { mark: 0, ..INTS })]).is_none());
    let nothing = |mark| Block { bytes: 0, mark };
    assert!(fault([of(0, nothing(1)), of(1, nothing(2))]).is_none());
}

#[test]
fn what_one_gives_is_what_the_other_expects() {
    let takes = |takes| Record { takes, ..record(0, "MPI_Gatherv") };
    let gives = |rank, block| Record { gives: Flow::Only(0, block), ..record(rank, "MPI_Gatherv") };
    let other = Block { bytes: 20, mark: 7 };
    let each = Flow::Each(vec![INTS, INTS, other]);
    assert!(fault([takes(each.clone()), gives(1, INTS), gives(2, other)]).is_none());
    let text = fault([gives(1, INTS), gives(2, INTS), takes(each)]).unwrap_or_default();
    assert!(text.ends_with("rank 2 sends rank 0 16 bytes for 20"), "{text}");
    // Members that send each other nothing have nothing to compare.
    assert!(fault([gives(1, INTS), gives(2, other)]).is_none());
    assert!(fault([takes(Flow::Every(INTS)), gives(1, other)]).is_some());
}

#[test]
fn two_groups_exchange_with_each_other_only() {
    let inter = |rank, call| Record { first: 1, ..record(rank, call) };
    let takes = Flow::Each(vec![INTS, INTS, Block { bytes: 20, mark: 7 }]);
    let one = || Record { gives: Flow::Every(INTS), takes: takes.clone(), ..inter(0, "MPI_Allgatherv") };
    let other = |rank, bytes| Record {
        gives: Flow::Every(Block { bytes, mark: 7 }),
        takes: Flow::Every(INTS),
        ..inter(rank, "MPI_Allgatherv")
    };
    assert!(fault([other(1, 16), one(), other(2, 16), other(3, 20)]).is_none());
    let text = fault([one(), other(1, 16), other(3, 16)]).unwrap_or_default();
    assert!(text.ends_with("rank 3 sends rank 0 16 bytes for 20"), "{text}");
    // The root's own group names no root, but for the root itself.
    let root = |rank, root| Record { root, ..inter(rank, "MPI_Bcast") };
    assert!(fault([root(1, None), root(0, Some(3)), root(2, None), root(3, Some(3))]).is_none());
    assert!(fault([root(1, None), root(0, Some(2)), root(3, Some(3))]).is_some());
    let (hub, _) = hear_all([inter(3, "MPI_Barrier")]);
    let absent = hub.missing(record(0, "").key);
    assert_eq!(absent.as_deref(), Some("not called by rank 0 and rank 0, 1 of the other group"));
}

#[test]
fn who_does_not_wait_is_not_told() {
    let free = Record { waits: false, ..record(0, "MPI_Comm_free") };
    let (hub, told) = hear_all([free, record(1, "MPI_Barrier")]);
    assert_eq!(told.iter().map(|verdict| verdict.to).collect::<Vec<_>>(), [1]);
    assert_eq!(hub.open(), 1);
}

fn later(rank: u32, number: u32, sequence: u32, call: &str) -> Record {
    Record { key: Key { number, members: 9, sequence }, ..record(rank, call) }
}

#[test]
fn past_the_maximum_a_collective_is_let_through_for_all_or_none() {
    let mut hub = Hub { meetings_max: 1, ..Hub::default() };
    assert_eq!(hub.hear(record(0, "MPI_Ibarrier"), 0), []);
    assert_eq!(hub.hear(later(0, 3, 17, "MPI_Ibarrier"), 0), [Verdict { to: 0, ticket: 100, fault: None }]);
    for rank in 1..4 {
        let told = hub.hear(record(rank, "MPI_Ibarrier"), rank);
        assert_eq!(told.len(), if rank == 3 { 4 } else { 0 });
    }
    // There is room now, but the first member was not asked to wait.
    for rank in 1..4 {
        assert_eq!(hub.hear(later(rank, 3, 17, "MPI_Ibarrier"), rank).len(), 1);
    }
    // The next ones are compared again, and so is another communicator.
    assert_eq!(hub.hear(later(1, 3, 18, "MPI_Ibarrier"), 1), []);
    assert_eq!(hub.hear(later(2, 3, 18, "MPI_Bcast"), 2).len(), 2);
    assert_eq!(hub.open(), 1);
}

#[test]
fn members_that_free_all_they_have_leave_room_for_collectives() {
    let mut hub = Hub { meetings_max: 4, ..Hub::default() };
    for rank in [2, 0, 3, 1] {
        for number in 10..110 {
            let free = Record { waits: false, ..later(rank, number, 5, "MPI_Comm_free") };
            assert_eq!(hub.hear(free, rank), []);
            assert!(hub.open() <= 4 && hub.idle.len() <= 8);
        }
        let told = hub.hear(record(rank, "MPI_Reduce"), rank);
        assert_eq!(told.len(), if rank == 1 { 4 } else { 0 });
    }
    assert_eq!(hub.hear(later(0, 3, 17, "MPI_Reduce"), 0), []);
    assert_eq!(hub.hear(later(1, 3, 17, "MPI_Bcast"), 1).len(), 2, "still compared");
}

#[test]
fn parse_after_emit_is_the_identity_and_parse_never_panics() {
    let full = Record {
        root: Some(-3),
        op: Some(4),
        same: Some(INTS),
        gives: Flow::Each(vec![INTS; 3]),
        takes: Flow::Only(2, INTS),
        arguments: "root -3".to_string(),
        ..record(1, "MPI_Reduce")
    };
    let every = Record { gives: Flow::Every(INTS), waits: false, ..record(2, "MPI_Allgather") };
    for record in [full, every] {
        let bytes = record.emit();
        assert_eq!(Record::parse(&bytes), Some(record));
        for len in 0..bytes.len() {
            assert_eq!(Record::parse(&bytes[..len]), None);
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let _ = Record::parse(&changed);
        }
    }
}

#[test]
fn signatures_do_not_depend_on_how_a_sequence_is_cut() {
    let (int, double) = (Signature::one(2), Signature::one(11));
    let pair = int.then(double);
    assert_eq!(pair.repeated(3), int.then(double).then(int).then(double.then(pair)));
    assert_eq!(int.repeated(5), int.repeated(2).then(int.repeated(3)));
    assert_eq!(int.repeated(0), Signature::EMPTY);
    let marks = [int, double, pair, double.then(int), int.repeated(2), Signature::EMPTY].map(Signature::mark);
    for (at, mark) in marks.iter().enumerate() {
        assert!(*mark > 0 && !marks[..at].contains(mark), "{marks:?}");
    }
    assert_eq!(int.then(Signature::WILD).mark(), 0);
}

//! Placements against their definition, rank by rank.
use super::*;
use alloc::format;
use alloc::string::ToString;
use proptest::prelude::*;
use std::vec;

/// The definition of a list of blocks.
fn oracle(rows: &[(u32, u32, u32)], ranks: u32) -> Vec<NodeId> {
    let mut all = Vec::new();
    while all.len() < ranks as usize {
        for &(first, nodes, per_node) in rows {
            for node in first..first + nodes {
                all.extend((0..per_node).map(|_| NodeId(node)));
            }
        }
    }
    all.truncate(ranks as usize);
    all
}

fn placement(rows: &[(u32, u32, u32)], ranks: u32) -> Placement {
    let text: String = rows.iter().map(|(first, nodes, each)| format!(",({first},{nodes},{each})")).collect();
    Placement::parse(&format!("(vector{text})"), ranks).unwrap()
}

fn nodes(placement: &Placement) -> Vec<NodeId> {
    (0..placement.ranks()).map(|rank| placement.node_of(Rank(rank))).collect()
}

fn counts(placement: &Placement) -> Vec<u32> {
    (0..placement.nodes()).map(|node| placement.count(NodeId(node))).collect()
}

/// Every rank has one place, whichever way it is asked for, and the text says the same.
fn check(placement: &Placement) {
    let ranks = placement.ranks();
    assert_eq!(Placement::parse(&placement.to_string(), ranks).as_ref(), Ok(placement));
    assert_eq!(Placement::from_rows(ranks, &placement.rows().collect::<Vec<_>>()).as_ref(), Ok(placement));
    let mut seen = vec![false; ranks as usize];
    for node in (0..placement.nodes()).map(NodeId) {
        assert_eq!(placement.count(node), placement.ranks_of(node).count() as u32);
        for (local, rank) in (0..).zip(placement.ranks_of(node)) {
            assert_eq!((placement.node_of(rank), placement.local_of(rank)), (node, local));
            assert!(!core::mem::replace(&mut seen[rank.index()], true));
        }
    }
    assert!(seen.iter().all(|seen| *seen));
    assert!(placement.count(NodeId(placement.nodes() - 1)) > 0);
}

proptest! {
    #[test]
    fn agrees_with_the_definition(
        rows in proptest::collection::vec((0..6u32, 0..4u32, 0..4u32), 1..6),
        ranks in 1..60u32,
    ) {
        prop_assume!(rows.iter().any(|row| row.1 * row.2 > 0));
        let expected = oracle(&rows, ranks);
        let placement = placement(&rows, ranks);
        prop_assert_eq!(&nodes(&placement), &expected);
        prop_assert_eq!(&nodes(&Placement::from_nodes(&expected).unwrap()), &expected);
        for node in (0..9).map(NodeId) {
            let wanted: Vec<u32> = (0..ranks).filter(|&rank| expected[rank as usize] == node).collect();
            let on: Vec<u32> = placement.ranks_of(node).map(|rank| rank.0).collect();
            prop_assert_eq!(&on, &wanted);
            prop_assert_eq!(placement.count(node), wanted.len() as u32);
            for (local, rank) in (0..).zip(wanted) {
                prop_assert_eq!(placement.local_of(Rank(rank)), local);
            }
        }
        check(&placement);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\(vector(,\\([0-9]{1,11},[0-9]{1,11},[0-9]{1,11}\\)){0,3}\\)") {
        if let Ok(placement) = Placement::parse(&text, 1_000_000) {
            let node = placement.node_of(Rank(999_999));
            prop_assert!(node.0 < placement.nodes());
            placement.local_of(Rank(999_999));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in "\\PC{0,40}") {
        let _ = Placement::parse(&text, 7);
    }
}

#[test]
fn every_rank_has_one_place() {
    for (ranks, nodes) in [(1, 1), (2, 5), (7, 3), (8, 2), (64, 8), (65, 8)] {
        check(&Placement::new(ranks, nodes));
        check(&Placement::cyclic(ranks, nodes));
        check(&Placement::slots(ranks, &[1, 3, 2, 2]));
        check(&Placement::dealt(ranks, &[1, 3, 2, 2]));
        check(&Placement::dealt(ranks, &[2, 2]));
    }
}

#[test]
fn blocks_are_as_equal_as_possible() {
    for (ranks, nodes) in [(1, 1), (4, 2), (7, 3), (64, 8), (5, 5)] {
        let counts = counts(&Placement::new(ranks, nodes));
        assert!(counts.iter().all(|count| (ranks / nodes..=ranks / nodes + 1).contains(count)), "{counts:?}");
        assert!(counts.is_sorted_by(|a, b| a >= b));
    }
}

#[test]
fn even_blocks_are_told_shortly() {
    assert_eq!(Placement::new(4, 2).to_string(), "(vector,(0,2,2))");
    assert_eq!(Placement::new(7, 3).to_string(), "(vector,(0,1,3),(1,2,2))");
    assert_eq!(Placement::cyclic(7, 3).to_string(), "(vector,(0,3,1))");
}

#[test]
fn a_short_list_is_repeated() {
    let nodes = |text: &str, ranks| {
        let placement = Placement::parse(text, ranks).unwrap();
        nodes(&placement).into_iter().map(|node| node.0).collect::<Vec<_>>()
    };
    assert_eq!(nodes("(vector,(0,2,1))", 5), [0, 1, 0, 1, 0]);
    assert_eq!(nodes("(vector, (0,1,2), (4,1,1))", 4), [0, 0, 4, 0]);
}

#[test]
fn turns_pass_over_nodes_that_are_full() {
    let dealt = Placement::dealt(6, &[1, 3, 2]);
    assert_eq!(nodes(&dealt), [0, 1, 2, 1, 2, 1].map(NodeId));
    assert_eq!(dealt.to_string(), "(vector,(0,3,1),(1,2,1),(1,1,1))");
    assert_eq!(counts(&Placement::dealt(8, &[1, 3, 2])), [2, 4, 2]);
    assert_eq!(Placement::dealt(5, &[4, 4]), Placement::cyclic(5, 2));
    assert_eq!(counts(&Placement::dealt(1, &[4, 4])), [1]);
}

#[test]
fn slots_are_filled_in_order_and_again_if_they_are_not_enough() {
    assert_eq!(counts(&Placement::slots(5, &[2, 2, 2])), [2, 2, 1]);
    assert_eq!(counts(&Placement::slots(2, &[2, 2])), [2]);
    assert_eq!(counts(&Placement::slots(9, &[1, 3])), [3, 6]);
    assert_eq!(counts(&Placement::slots(5, &[1, 3])), [2, 3]);
}

#[test]
fn a_million_ranks_cost_one_block() {
    let ranks = 1_000_000;
    let large = placement(&[(0, 15_625, 64)], ranks);
    assert_eq!(large.node_of(Rank(999_999)), NodeId(15_624));
    for regular in [large, Placement::new(ranks, 15_625), Placement::cyclic(ranks, 2)] {
        assert_eq!(regular.blocks.len(), 1);
    }
    // Half a million repetitions are not walked through; if they were, this would take minutes.
    let turns = Placement::cyclic(ranks, 2);
    assert!((0..ranks).all(|rank| turns.local_of(Rank(rank)) == rank / 2));
}

#[test]
fn blocks_past_the_job_are_not_stored() {
    assert_eq!(placement(&[(0, 2, 2), (2, 100, 1)], 4), placement(&[(0, 2, 2)], 4));
    assert_eq!(placement(&[(0, 100, 1)], 4).nodes(), 4);
}

#[test]
fn nonsense_is_refused() {
    for text in ["", "(vector)", "(vector,(0,0,0))", "(vector,(0,1))", "(vector,(0,1,2,3))", "(flat,(0,1,1))"]
    {
        assert!(Placement::parse(text, 4).is_err(), "{text}");
    }
    assert!(Placement::parse("(vector,(0,1,x))", 4).unwrap_err().to_string().contains("(0,1,x)"));
    assert_eq!(Placement::parse("(vector,(0,1,1))", 0), Err(PlacementError::Empty));
    assert_eq!(Placement::from_nodes(&[]), Err(PlacementError::Empty));
    let error = Placement::parse("(vector,(4294967295,2,1))", 2).unwrap_err();
    assert_eq!(error.to_string(), "a block of 2 nodes from node 4294967295 on");
}

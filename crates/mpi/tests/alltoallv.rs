//! Parts of any length, in a process alone; `crates/kernels` (is) has them among many. One test: a process starts once.
use mpi::ErrorClass;

#[test]
fn parts_must_make_up_the_data_and_there_is_one_for_each() {
    let world = mpi::init().expect("a process alone").world();
    assert_eq!(world.alltoallv(&[1, 2, 3], &[3], &[3]).expect("an exchange"), [1, 2, 3]);
    assert_eq!(world.alltoallv::<u64>(&[], &[0], &[0]).expect("an exchange"), []);
    for (sends, recvs) in [(&[2][..], &[2][..]), (&[3], &[]), (&[1, 2], &[3]), (&[usize::MAX, 4], &[3])] {
        let wrong = world.alltoallv(&[1, 2, 3], sends, recvs).expect_err("lengths that do not fit");
        assert_eq!(wrong.class, ErrorClass::Count, "{sends:?} {recvs:?}: {wrong}");
    }
    world.barrier().expect("a mistake of the caller ends nothing");
}

//! The library has the names of its interface, all of them and no others; and programs run on it.
#[path = "../../capi/tests/shared/library.rs"]
mod library;

const DATA: &[&str] = &[
    "MPI_UNWEIGHTED",
    "MPI_WEIGHTS_EMPTY",
    "MPI_F_STATUS_IGNORE",
    "MPI_F_STATUSES_IGNORE",
    "MPI_F08_STATUS_IGNORE",
    "MPI_F08_STATUSES_IGNORE",
    "MPI_T_PVAR_ALL_HANDLES",
    "MPIR_Dup_fn",
];

#[test]
fn every_function_of_the_table_is_exported_and_nothing_else() {
    library::check(library::Side::Mpich, "libbanyan_mpich.so", DATA);
}

#[test]
fn each_process_has_the_library_at_another_place() {
    library::check_alignment("libbanyan_mpich.so");
}

#[test]
fn the_library_is_known_as_libmpi_12() {
    library::check_soname("libbanyan_mpich.so", "libmpi.so.12");
}

#[test]
fn programs_run_alone_and_mistakes_end_them_with_a_message() {
    library::check_programs(library::Side::Mpich, "libbanyan_mpich.so", "libmpi.so.12");
}

#[test]
fn mistakes_of_checked_programs_are_named() {
    library::check_mistakes(library::Side::Mpich, "libbanyan_mpich.so", "libmpi.so.12");
}

#[test]
fn right_programs_raise_no_false_alarm() {
    library::check_no_false_alarm(library::Side::Mpich, "libbanyan_mpich.so", "libmpi.so.12");
}

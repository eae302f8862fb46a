//! The library has the names of its interface, all of them and no others; and programs run on it.
#[path = "../../capi/tests/shared/library.rs"]
mod library;

#[test]
fn every_function_of_the_table_is_exported_and_nothing_else() {
    library::check(library::Side::Std, "libbanyan_abi.so", &[]);
}

#[test]
fn each_process_has_the_library_at_another_place() {
    library::check_alignment("libbanyan_abi.so");
}

#[test]
fn the_library_is_known_as_libmpi_abi_1() {
    library::check_soname("libbanyan_abi.so", "libmpi_abi.so.1");
}

#[test]
fn programs_run_alone_and_mistakes_end_them_with_a_message() {
    library::check_programs(library::Side::Std, "libbanyan_abi.so", "libmpi_abi.so.1");
}

#[test]
fn mistakes_of_checked_programs_are_named() {
    library::check_mistakes(library::Side::Std, "libbanyan_abi.so", "libmpi_abi.so.1");
}

#[test]
fn right_programs_raise_no_false_alarm() {
    library::check_no_false_alarm(library::Side::Std, "libbanyan_abi.so", "libmpi_abi.so.1");
}

//! The library has the names of its interface, all of them and no others.
#[path = "../../capi/table/exports_check.rs"]
mod exports;

#[test]
fn every_function_of_the_table_is_exported_and_nothing_else() {
    exports::check(exports::Side::Std, "libbanyan_abi.so", &[]);
}

#[test]
fn the_library_is_known_as_libmpi_abi_1() {
    exports::check_soname("libbanyan_abi.so", "libmpi_abi.so.1");
}

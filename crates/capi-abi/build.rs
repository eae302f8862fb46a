//! Writes the exports of the library from the table, and names it.
#[path = "../capi/table/gen.rs"]
mod table;

fn main() {
    println!("cargo::rerun-if-changed=../capi/table");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    table::link("libmpi_abi.so.1", &out);
    std::fs::write(format!("{out}/exports.rs"), table::rust_exports(table::Side::Std))
        .expect("exports are written");
}

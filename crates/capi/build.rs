//! Writes the constants of the two interfaces from the table, and what ARMCI's functions are from its headers.
#[path = "table/armci.rs"]
mod armci;
#[path = "table/gen.rs"]
mod table;

fn main() {
    println!("cargo::rerun-if-changed=table");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(format!("{out}/constants.rs"), table::rust_constants()).expect("constants are written");
    println!("cargo::rerun-if-changed=include");
    std::fs::write(format!("{out}/armci.rs"), armci::translation()).expect("the table is written");
}

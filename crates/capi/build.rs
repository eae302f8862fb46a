//! Writes the constants of the two interfaces from the table.
#[path = "table/gen.rs"]
mod table;

fn main() {
    println!("cargo::rerun-if-changed=table");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(format!("{out}/constants.rs"), table::rust_constants()).expect("constants are written");
}

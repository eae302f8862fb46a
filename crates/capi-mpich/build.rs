//! Writes the exports of the library from the table, and names it.
#[path = "../capi/table/gen.rs"]
mod table;

fn main() {
    println!("cargo::rerun-if-changed=../capi/table");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.12");
    // Calls inside the library stay inside it, also when a profiler defines the same names.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,max-page-size={}", table::PAGE_SIZE_MAX);
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(format!("{out}/exports.rs"), table::rust_exports(table::Side::Mpich))
        .expect("exports are written");
}

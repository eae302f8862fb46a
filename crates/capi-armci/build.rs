//! Writes the exports of the library from ARMCI's headers, and names it.
#[path = "../capi/table/armci.rs"]
mod armci;

fn main() {
    println!("cargo::rerun-if-changed=../capi/table/armci.rs");
    println!("cargo::rerun-if-changed=../capi/include");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libarmci.so");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(format!("{out}/exports.rs"), armci::exports()).expect("exports are written");
}

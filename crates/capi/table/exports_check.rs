//! Checks that a library exports what the table lists, and nothing else. Shared by the tests of the leaf crates.
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

#[path = "gen.rs"]
mod table;
pub use table::Side;

/// Compares `nm` of the library called `file` with the table, plus `others`.
pub fn check(side: Side, file: &str, others: &[&str]) {
    let mut listed: BTreeSet<String> = others.iter().map(|name| name.to_string()).collect();
    for f in table::functions().iter().filter(|f| f.exists_on(side)) {
        listed.insert(f.name.clone());
        listed.insert(format!("P{}", f.name));
    }
    let exported = exported(&library(file));
    let missing: Vec<_> = listed.difference(&exported).collect();
    let foreign: Vec<_> = exported.difference(&listed).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    assert!(foreign.is_empty(), "exported but not listed: {foreign:?}");
}

/// Checks the name that the dynamic linker knows the library by.
pub fn check_soname(file: &str, soname: &str) {
    let output = Command::new("readelf").arg("-d").arg(library(file)).output().expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("[{soname}]")), "no soname {soname} in:\n{text}");
}

/// The library, built: for a test cargo does not build a library that only C programs can link.
fn library(file: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its file");
    let target = test.ancestors().nth(3).expect("target/profile/deps/test");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--target-dir"])
        .arg(target)
        .status()
        .expect("cargo runs");
    assert!(built.success(), "{file} does not build");
    target.join("debug").join(file)
}

fn exported(library: &PathBuf) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().expect("nm runs");
    assert!(output.status.success(), "nm failed");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| name.split('@').next().unwrap_or(name).to_string())
        .collect()
}

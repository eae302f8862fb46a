//! Every `BANYAN_*` variable that is named anywhere in the project is in the list of `proto::env`.
use banyan_proto::env::{PREFIX, TEST_PREFIX, find};
use std::fs;
use std::path::{Path, PathBuf};

/// Names that tests use because nothing has them.
const NO_SUCH: &str = "BANYAN_NO_SUCH";
/// Macros of the C interface.
const MACROS: [&str; 4] = ["BANYAN_MAX_STAT_NAME", "BANYAN_H", "BANYAN_ARMCI_H", "BANYAN_ARMCI_MESSAGE_H"];
/// The list itself, with its examples of wrong names.
const LIST: &str = "crates/proto/src/env.rs";

#[test]
fn every_variable_that_is_named_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("test"), root.join("README.md"), root.join("ARCHITECTURE.md")];
    for folder in ["crates", "tests"] {
        collect(&root.join(folder), &mut files);
    }
    let mut seen = 0;
    for file in files.iter().filter(|file| !file.ends_with(LIST)) {
        let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        for name in names(&text) {
            seen += 1;
            let other = name.starts_with(TEST_PREFIX) || name.starts_with(NO_SUCH) || MACROS.contains(&name);
            let fine = other || find(name).is_some();
            assert!(fine, "{} names {name}, which is not in {LIST}", file.display());
        }
    }
    assert!(seen > 100, "only {seen} names were found: the search is broken");
}

/// The files below a folder, but for what is built.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && entry.file_name() != "target" {
            collect(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

/// Names of variables; functions of the C interface begin alike, and have small letters.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rests = text.match_indices(PREFIX).map(|(at, _)| &text[at..]);
    let names = rests.map(move |rest| &rest[..rest.find(|c| !is_letter(c)).unwrap_or(rest.len())]);
    names.filter(|name| name.len() > PREFIX.len() && !name.contains(|c: char| c.is_ascii_lowercase()))
}

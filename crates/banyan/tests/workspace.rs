//! The rules of ARCHITECTURE.md that a compiler does not check: who may depend on whom, where `unsafe` may
//! stand, where C symbols come from, and that every counter is explained.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crate, and the crates of this workspace that it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("sys", &[]),
    ("verbs", &["sys"]),
    ("verbs-standin", &["sys", "verbs"]),
    ("fabric", &["proto", "sys", "verbs"]),
    ("net", &["proto", "sys", "fabric"]),
    ("mpi-derive", &[]),
    ("mpi", &["net", "proto", "mpi-derive"]),
    ("pgas", &["mpi"]),
    ("kernels", &["mpi"]),
    ("pgas-kernels", &["mpi", "pgas", "kernels"]),
    ("capi", &["mpi", "pgas"]),
    ("capi-mpich", &["capi"]),
    ("capi-abi", &["capi"]),
    ("capi-armci", &[]),
    ("launch", &["proto", "sys"]),
    (
        "banyan",
        &[
            "proto",
            "sys",
            "verbs",
            "fabric",
            "net",
            "mpi",
            "pgas",
            "pgas-kernels",
            "kernels",
            "capi",
            "launch",
        ],
    ),
];

/// Crates that may use `unsafe`; the others forbid it for all of their code.
const UNSAFE_CRATES: &[&str] =
    &["sys", "verbs", "verbs-standin", "capi", "capi-mpich", "capi-abi", "capi-armci"];
/// Files outside those crates that may.
const UNSAFE_FILES: &[&str] = &[
    "mpi/src/buffer.rs",
    "mpi/src/buffer/atomic.rs",
    "mpi/src/buffer/kernel.rs",
    "pgas/src/slices.rs",
    // A trait that is a promise, and the macro that has checked what it promises: both write the word, neither does anything.
    "mpi/src/datum.rs",
    "mpi-derive/src/implementation.rs",
];
/// Crates that export C symbols. A symbol exported by `capi` itself would be in both libraries.
const EXPORTING_CRATES: &[&str] = &["capi-mpich", "capi-abi", "capi-armci", "verbs-standin"];
/// Lines above an unsafe block in which its reason must begin.
const REASON_WITHIN: usize = 8;

#[test]
fn crates_depend_only_on_what_the_table_allows() {
    for (name, manifest) in manifests() {
        let allowed = allowed(&name);
        let members: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
        for (section, dependency) in dependencies(&manifest) {
            let inside = members.contains(dependency.as_str());
            let legal = !inside || allowed.contains(&dependency.as_str());
            assert!(legal, "{name} has {dependency} in [{section}]; the table allows {allowed:?}");
        }
    }
}

#[test]
fn every_crate_is_in_the_table() {
    let in_tree: Vec<String> = manifests().into_keys().collect();
    let mut in_table: Vec<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    in_table.sort_unstable();
    assert_eq!(in_tree, in_table);
}

#[test]
fn every_counter_has_its_line_in_the_documentation() {
    let text = read(&crates().join("../STATISTICS.md"));
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = proto::stats::Stat::ALL
        .iter()
        .map(|stat| format!("| `{}` | {} |", stat.key(), stat.line()))
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn links_between_documents_lead_somewhere() {
    for page in pages() {
        let text = read(&page);
        let folder = page.parent().expect("a page is in a folder");
        for link in links(&text) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            let there = target.exists() && (heading.is_empty() || has_heading(&read(&target), heading));
            assert!(there, "{}: nothing is at {link}", page.display());
        }
    }
}

#[test]
fn every_decision_is_in_the_index() {
    let folder = crates().join("../docs/decisions");
    let index = read(&folder.join("README.md"));
    for page in pages().into_iter().filter(|page| page.starts_with(&folder) && !page.ends_with("README.md")) {
        let text = read(&page);
        for title in text.lines().filter_map(|line| line.strip_prefix("## ")) {
            assert!(
                index.contains(&format!("- [{title}](")),
                "{}: '{title}' is not in the index",
                page.display()
            );
        }
    }
}

#[test]
fn proto_cannot_name_the_host() {
    let lib = read(&crates().join("proto/src/lib.rs"));
    assert!(lib.contains("#![no_std]") && lib.contains("#![forbid(unsafe_code)]"));
    let code = code_lines(&crates().join("proto/src/lib.rs")).collect::<Vec<_>>();
    let std = code.iter().position(|(_, line)| line.contains("extern crate std")).map(|at| &code[at - 1].1);
    assert!(std.is_none_or(|line| line.contains("cfg(test)")), "std only for tests");
}

#[test]
fn unsafe_is_confined() {
    for name in manifests().into_keys().filter(|name| !UNSAFE_CRATES.contains(&name.as_str())) {
        for root in ["lib.rs", "main.rs"].map(|file| crates().join(&name).join("src").join(file)) {
            if root.exists() {
                assert_forbids(&name, &read(&root));
            }
        }
        for file in sources(&name).into_iter().filter(|file| !UNSAFE_FILES.contains(&short(file).as_str())) {
            let found = code_lines(&file).find(|(_, line)| is_unsafe(line));
            assert!(found.is_none(), "{}: unsafe in line {}", short(&file), found.unwrap().0);
        }
    }
}

#[test]
fn every_unsafe_block_has_its_reason() {
    let mut without = Vec::new();
    for file in manifests().into_keys().flat_map(|name| sources(&name)) {
        let text = read(&file);
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in code_lines(&file) {
            let mut behind = line.split("unsafe ").skip(1);
            let block = behind.any(|rest| rest.starts_with('{') || rest.starts_with("impl"));
            let above = &lines[number.saturating_sub(REASON_WITHIN + 1)..number];
            if block && !above.iter().any(|line| line.contains("SAFETY:")) {
                without.push(format!("{}:{number}", short(&file)));
            }
        }
    }
    assert!(without.is_empty(), "unsafe without `// SAFETY:` in {without:#?}");
}

#[test]
fn c_symbols_come_from_the_leaf_crates_only() {
    for name in manifests().into_keys().filter(|name| !EXPORTING_CRATES.contains(&name.as_str())) {
        for file in sources(&name) {
            let found = code_lines(&file)
                .find(|(_, line)| line.contains("no_mangle") || line.contains("export_name"));
            assert!(found.is_none(), "{}: a C symbol in line {}", short(&file), found.unwrap().0);
        }
    }
}

fn assert_forbids(name: &str, root: &str) {
    // mpi has one module that may, so its root denies (by the workspace's lints) and forbids nothing.
    let lenient = UNSAFE_FILES.iter().any(|file| file.starts_with(&format!("{name}/")));
    let forbids = root.contains("#![forbid(unsafe_code)]");
    assert!(forbids || lenient, "{name} does not forbid unsafe code");
    assert!(!root.contains("#![allow(unsafe_code)]"), "{name} allows unsafe code everywhere");
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder").to_path_buf()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The documents: those at the root, and below `docs`.
fn pages() -> Vec<PathBuf> {
    let root = crates().join("..");
    let mut found = Vec::new();
    for folder in [root.clone(), root.join("docs"), root.join("docs/decisions")] {
        let entries = fs::read_dir(&folder).expect("documents").map(|entry| entry.expect("readable").path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    found
}

/// Where a document links to inside the repository.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    ends.filter(|link| !link.contains("://") && !link.contains(' '))
}

/// Has a document this heading, as links write it?
fn has_heading(text: &str, wanted: &str) -> bool {
    let written = |heading: &str| -> String {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    };
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim()).any(|heading| written(heading) == wanted)
}

/// "net/src/lib.rs".
fn short(path: &Path) -> String {
    path.strip_prefix(crates()).unwrap_or(path).display().to_string()
}

/// Folder name of each crate, with its manifest.
fn manifests() -> BTreeMap<String, String> {
    let folders = fs::read_dir(crates()).expect("the crates").map(|entry| entry.expect("readable").path());
    let with_manifest = folders.filter(|folder| folder.join("Cargo.toml").exists());
    with_manifest
        .map(|folder| {
            (folder.file_name().unwrap().to_string_lossy().into_owned(), read(&folder.join("Cargo.toml")))
        })
        .collect()
}

fn allowed(name: &str) -> &'static [&'static str] {
    ALLOWED.iter().find(|(known, _)| *known == name).map_or(&[], |(_, allowed)| allowed)
}

/// (section, name) of every dependency, by the names that the workspace uses.
fn dependencies(manifest: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_string();
        } else if section.ends_with("dependencies") && line.contains('=') && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.push((section.clone(), name.trim_start_matches("banyan-").to_string()));
        }
    }
    found
}

/// All Rust files below a crate's `src`.
fn sources(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![crates().join(name).join("src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).expect("sources").map(|entry| entry.expect("readable").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The lines with code, numbered from 1; comments cut off.
fn code_lines(path: &Path) -> impl Iterator<Item = (usize, String)> {
    let text = read(path);
    let lines: Vec<(usize, String)> = text
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.split("//").next().unwrap_or_default().to_string()))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    lines.into_iter()
}

/// The keyword, not a word that contains it (`unsafe_code`).
fn is_unsafe(line: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    line.split(|c| !word(c)).any(|token| token == "unsafe")
}

#[cfg(test)]
mod of_this_file {
    use super::*;

    #[test]
    fn dependencies_are_read_in_every_spelling() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nnet.workspace = true\nsys = { path = \"..\" }\n\
                        # mpi = 1\n[dev-dependencies]\nbanyan-proto = \"1\"\n";
        let expected = [("dependencies", "net"), ("dependencies", "sys"), ("dev-dependencies", "proto")];
        let expected = expected.map(|(a, b)| (a.to_string(), b.to_string()));
        assert_eq!(dependencies(manifest), expected);
    }

    #[test]
    fn the_keyword_is_told_from_words_that_contain_it() {
        assert!(is_unsafe("pub unsafe fn f()"));
        assert!(!is_unsafe("#![forbid(unsafe_code)]"));
    }
}

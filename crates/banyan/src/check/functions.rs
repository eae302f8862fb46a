//! Which functions a program uses, and which of them are not there.
use super::report::Report;
use launch::library::{Family, Linkage, Maker, Symbols, family_of, is_fortran};
use std::collections::{BTreeMap, BTreeSet};

/// The one list of what Banyan's libraries have.
const TABLE: &str = include_str!("../../../capi/table/functions.txt");

/// Is a function there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Yes,
    /// It names itself and raises an error.
    No,
}

/// What Banyan's library of a family has, by name.
fn of_banyan(family: Family) -> BTreeMap<&'static str, Has> {
    let wanted = if family == Family::Standard { "std" } else { "mpich" };
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        let (side, module) = (words.next()?, words.next()?);
        let head = line.split('(').next()?;
        let name = head.split_whitespace().last()?;
        let has = if module == "-" { Has::No } else { Has::Yes };
        (side == "both" || side == wanted).then_some((name, has))
    };
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

/// Does a name look like one of MPI's, in C or in Fortran, or of what MPICH's bindings want of its library?
fn is_of_mpi(name: &str) -> bool {
    let prefixes = ["MPI_", "PMPI_", "MPIX_", "PMPIX_", "MPII_", "MPIR_", "mpi_", "pmpi_", "mpix_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// What the parts of a program want and have of MPI.
#[derive(Debug, Default)]
struct Names {
    /// What the program and its libraries import, but for libraries of bindings.
    wanted: BTreeSet<String>,
    /// What has to be there for the program to be loaded at all.
    at_once: BTreeSet<String>,
    there: BTreeSet<String>,
}

impl Names {
    fn of(linkage: &Linkage) -> Self {
        let mut names = Names::default();
        for loaded in &linkage.loaded {
            let Ok(symbols) = Symbols::read(&loaded.path) else { continue };
            let of_mpi = |all: BTreeSet<String>| all.into_iter().filter(|name| is_of_mpi(name));
            names.there.extend(of_mpi(symbols.exports));
            if family_of(file_name(&loaded.name)).is_some() {
                continue;
            }
            names.at_once.extend(of_mpi(if loaded.elf.binds_now {
                symbols.imports.clone()
            } else {
                symbols.at_once
            }));
            // Of bindings, only what the program calls is called.
            if !is_fortran(file_name(&loaded.name)) {
                names.wanted.extend(of_mpi(symbols.imports));
            }
        }
        names
    }
}

fn file_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Fills in what the program uses, what nothing that it loads has, and what Banyan's library refuses.
pub(super) fn compare(linkage: &Linkage, mpi: &str, family: Family, maker: Maker, report: &mut Report) {
    let names = Names::of(linkage);
    let table = of_banyan(family);
    let by_lower: BTreeMap<String, &str> =
        table.keys().map(|name| (name.to_ascii_lowercase(), *name)).collect();
    // A name of Fortran's or of the profiling interface is the function's.
    let plain = |name: &str| {
        let name = name.strip_prefix(['P', 'p']).unwrap_or(name);
        let of_fortran = name.starts_with("mpi_").then(|| by_lower.get(name.trim_end_matches('_'))).flatten();
        of_fortran.map_or_else(|| name.to_owned(), |name| (*name).to_owned())
    };
    let used: BTreeSet<String> = names.wanted.iter().map(|name| plain(name)).collect();
    report.functions = used.iter().filter(|name| name.starts_with("MPI_")).count();
    let has_mpi = linkage.find(mpi).is_some();
    if has_mpi && linkage.missing.is_empty() {
        report.unloadable = names.at_once.difference(&names.there).cloned().collect();
        let lacking = names.wanted.difference(&names.there);
        report.absent = lacking.filter(|name| !names.at_once.contains(*name)).cloned().collect();
    }
    if !family.joins() {
        return;
    }
    report.unsupported =
        used.iter().filter(|name| table.get(name.as_str()) == Some(&Has::No)).cloned().collect();
    if maker != Maker::Banyan {
        let is_function = |name: &&String| name.starts_with("MPI") && !is_variable(name);
        report.absent_in_banyan = used
            .iter()
            .filter(is_function)
            .filter(|name| !table.contains_key(name.as_str()))
            .cloned()
            .collect();
    }
}

/// Names of the library that are no functions.
fn is_variable(name: &str) -> bool {
    name.ends_with("_IGNORE")
        || matches!(name, "MPI_UNWEIGHTED" | "MPI_WEIGHTS_EMPTY" | "MPI_T_PVAR_ALL_HANDLES")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let mpich = of_banyan(Family::Mpich);
        assert_eq!(mpich.get("MPI_Send"), Some(&Has::Yes));
        assert_eq!(mpich.get("MPI_File_open"), Some(&Has::No));
        assert_eq!(mpich.get("MPI_Address"), Some(&Has::Yes), "only there");
        assert!(!of_banyan(Family::Standard).contains_key("MPI_Address"));
        assert!(mpich.keys().all(|name| name.starts_with("MPI")), "{mpich:?}");
        assert!(mpich.len() > 600);
    }
}

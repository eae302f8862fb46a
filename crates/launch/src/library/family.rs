//! What an MPI library is, by its name and by what it has. Pure.
use super::elf::Symbols;
use super::linker::Linkage;
use std::fmt;

/// A binary interface of MPI: libraries of one family replace each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// MPICH and its relatives (Intel MPI, MVAPICH, Cray MPICH): `libmpi.so.12`.
    Mpich,
    /// The standard interface of MPI 5: `libmpi_abi.so`.
    Standard,
    /// Open MPI and its relatives.
    OpenMpi,
    /// Something with MPI in its name.
    Unknown,
}

/// Whose library it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Ours.
    Banyan,
    /// MPICH, or a relative that cannot be told from it.
    Mpich,
    /// Intel MPI.
    Intel,
    /// Open MPI.
    OpenMpi,
    /// Nobody known.
    Unknown,
}

impl Family {
    /// In one word, for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Family::Mpich => "mpich",
            Family::Standard => "standard",
            Family::OpenMpi => "openmpi",
            Family::Unknown => "unknown",
        }
    }

    /// Does a library of this family join a job of Banyan's launcher, as far as its name tells?
    pub fn joins(self) -> bool {
        matches!(self, Family::Mpich | Family::Standard)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Mpich => "MPICH's binary interface (libmpi.so.12)",
            Family::Standard => "MPI 5's standard interface (libmpi_abi.so)",
            Family::OpenMpi => "Open MPI's binary interface",
            Family::Unknown => "an unknown binary interface",
        })
    }
}

impl Maker {
    /// By what the library has.
    pub fn of(symbols: &Symbols) -> Maker {
        let has = |name: &str| symbols.exports.contains(name) || symbols.imports.contains(name);
        match () {
            () if has("BANYAN_Stat") => Maker::Banyan,
            () if has("ompi_mpi_comm_world") || has("opal_init") => Maker::OpenMpi,
            () if has("impi_malloc") || has("I_MPI_Abort") => Maker::Intel,
            () if has("MPIX_Query_cuda_support") || has("MPIR_Err_create_code") || has("MPI_Init") => {
                Maker::Mpich
            }
            () => Maker::Unknown,
        }
    }
}

impl Maker {
    /// In one word, for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Maker::Banyan => "banyan",
            Maker::Mpich => "mpich",
            Maker::Intel => "intel",
            Maker::OpenMpi => "openmpi",
            Maker::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Maker::Banyan => "Banyan's",
            Maker::Mpich => "MPICH's or a relative's",
            Maker::Intel => "Intel MPI's",
            Maker::OpenMpi => "Open MPI's",
            Maker::Unknown => "an unknown one",
        })
    }
}

/// The family of a library with this file name; `None` if it is no MPI library of C.
pub fn family_of(name: &str) -> Option<Family> {
    let version =
        |prefix: &str| name.strip_prefix(prefix).map(|rest| rest.split('.').next().unwrap_or_default());
    if name.starts_with("libmpi_abi.so") {
        return Some(Family::Standard);
    }
    if let Some(version) = version("libmpi.so.") {
        return Some(match version {
            "12" => Family::Mpich,
            "0" | "1" | "20" | "40" | "80" => Family::OpenMpi,
            _ => Family::Unknown,
        });
    }
    let is = |known: &[&str]| known.iter().any(|known| name.starts_with(known));
    match () {
        () if is(&["libmpich.so", "libmpi_cray.so", "libmpi_gnu", "libmpi_intel.so", "libmpi_ilp64.so"]) => {
            Some(Family::Mpich)
        }
        () if is(&["libopen-rte.so", "libopen-pal.so", "liboshmem.so", "libmpi_ibm.so"]) => {
            Some(Family::OpenMpi)
        }
        () if name == "libmpi.so" => Some(Family::Unknown),
        () => None,
    }
}

/// Is it a library of Fortran bindings?
pub fn is_fortran(name: &str) -> bool {
    ["libmpifort", "libmpichfort", "libmpi_mpifh", "libmpi_usempi", "libfmpich", "libmpichf90"]
        .iter()
        .any(|known| name.starts_with(known))
}

impl Linkage {
    /// The MPI library that the program loads, or would if it were found: its name and family. Open MPI's are known by
    /// what comes with them, too: an old one is called `libmpi.so.12`.
    pub fn mpi(&self) -> Option<(&str, Family)> {
        let names = || self.names().filter_map(|name| family_of(name).map(|family| (name, family)));
        let is_open = names().any(|(_, family)| family == Family::OpenMpi);
        let (name, family) = names().find(|(name, _)| name.starts_with("libmpi"))?;
        Some((name, if is_open { Family::OpenMpi } else { family }))
    }

    /// The library of Fortran bindings that the program loads, or would if it were found.
    pub fn fortran(&self) -> Option<&str> {
        self.names().find(|name| is_fortran(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_name() {
        for (name, family) in [
            ("libmpi.so.12", Some(Family::Mpich)),
            ("libmpi.so.12.5.2", Some(Family::Mpich)),
            ("libmpich.so.12", Some(Family::Mpich)),
            ("libmpi_abi.so.1", Some(Family::Standard)),
            ("libmpi.so.40", Some(Family::OpenMpi)),
            ("libmpi.so.40.30.4", Some(Family::OpenMpi)),
            ("libopen-pal.so.80", Some(Family::OpenMpi)),
            ("libmpi.so", Some(Family::Unknown)),
            ("libmpifort.so.12", None),
            ("libmpich-test.so", None),
            ("libmpiwrapper.so", None),
            ("libmpicxx.so.12", None),
            ("libc.so.6", None),
        ] {
            assert_eq!(family_of(name), family, "{name}");
        }
        assert!(
            is_fortran("libmpifort.so.12") && is_fortran("libmpi_mpifh.so.40") && !is_fortran("libmpi.so.12")
        );
    }
}

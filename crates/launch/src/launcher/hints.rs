//! What the last words of a rank mean, where users ask the same question again and again. Pure.
use crate::library::folder_beside;
use std::path::Path;

/// A library that was not found, or a name in it, with the remedy; `own` is this executable.
pub(super) fn hint(words: &str, own: Option<&Path>) -> Option<String> {
    let has = |text: &str| words.contains(text);
    if has("cannot load MPI library") {
        let folder = folder_of("libmpi.so.12", own);
        return Some(format!(
            "note: mpi4py has found no MPI library; '-genv MPI4PY_LIBMPI {folder}/libmpi.so.12' names Banyan's"
        ));
    }
    if has("cannot open shared object file") {
        let name = words
            .split([' ', ':', '\'', '"'])
            .find(|word| word.starts_with("libmpi") && word.contains(".so"))?;
        return Some(match crate::library::is_fortran(name) {
            true => format!(
                "note: {name} has Fortran bindings, which Banyan does not have; those of the MPI library that the program \
                 was built with are needed ('banyan check PROGRAM' says more)"
            ),
            false => format!(
                "note: a process has not found {name}; '-genv LD_LIBRARY_PATH {}' says where it is",
                folder_of(name, own)
            ),
        });
    }
    let is_name_of_mpi = ["MPI_", "PMPI_", "MPIX_", "MPII_", "MPIR_", "mpi_"]
        .iter()
        .any(|name| words.split("undefined symbol: ").nth(1).is_some_and(|rest| rest.starts_with(name)));
    is_name_of_mpi.then(|| {
        "note: the program, or a library of Fortran bindings, expects what the loaded MPI library does not have; 'banyan \
         check PROGRAM' names it all"
            .into()
    })
}

fn folder_of(library: &str, own: Option<&Path>) -> String {
    let beside = own.and_then(|own| folder_beside(own, library));
    beside.map_or_else(|| "PREFIX/lib".into(), |folder| folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_found_is_named_with_the_remedy() {
        let of = |words: &str| hint(words, None).unwrap_or_default();
        let missing = "./a: error while loading shared libraries: libmpi.so.12: cannot open shared object file: No such file";
        assert!(of(missing).contains("libmpi.so.12; '-genv LD_LIBRARY_PATH PREFIX/lib'"), "{}", of(missing));
        let fortran = missing.replace("libmpi.so", "libmpifort.so");
        assert!(of(&fortran).contains("Fortran bindings"), "{}", of(&fortran));
        assert!(
            of("RuntimeError: cannot load MPI library").contains("MPI4PY_LIBMPI PREFIX/lib/libmpi.so.12")
        );
        let symbol = "./f: symbol lookup error: /x/libmpifort.so.12: undefined symbol: MPII_F_TRUE";
        assert!(of(symbol).contains("'banyan check PROGRAM'"), "{}", of(symbol));
        for other in [
            "./a: error while loading shared libraries: libfoo.so: cannot open shared object file",
            "undefined symbol: foo",
            "Segmentation fault",
            "",
        ] {
            assert_eq!(hint(other, None), None, "{other}");
        }
    }

    #[test]
    fn a_library_beside_this_executable_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib");
        std::fs::create_dir(&lib).unwrap();
        std::fs::write(lib.join("libmpi.so.12"), "").unwrap();
        let words = "libmpi.so.12: cannot open shared object file";
        let said = hint(words, Some(&folder.path().join("bin/banyan"))).unwrap();
        assert!(said.contains(lib.to_str().unwrap()), "{said}");
    }
}

//! Which libraries a program would load, found by reading files as the dynamic linker reads them: nothing is executed.
//!
//! [`Elf`] reads one file, [`linkage`] follows what it needs (`DT_NEEDED`, `RPATH`, `RUNPATH`, `LD_LIBRARY_PATH`,
//! `LD_PRELOAD`, `ld.so.cache`, the default folders; ld.so(8)), [`Family`] says what an MPI library is. What a program
//! opens by itself (`dlopen`), as interpreters do, cannot be seen here.
mod cache;
mod elf;
mod family;
mod linker;

pub use elf::{Elf, ElfError, Symbols};
pub use family::{Family, Maker, family_of, is_fortran};
pub use linker::{Environment, Linkage, Loaded, Missing, linkage};

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What kind of file a program is.
#[derive(Debug)]
pub enum Program {
    /// It is loaded with libraries.
    Dynamic(Box<Linkage>),
    /// It has everything in itself.
    Static(Elf),
    /// It is run by this interpreter.
    Script(String),
}

/// Looks at a program. The error is for people.
pub fn look(path: &Path, environment: &Environment) -> Result<Program, String> {
    if let Some(interpreter) = elf::interpreter_of_script(path)? {
        return Ok(Program::Script(interpreter));
    }
    let elf = Elf::open(path).map_err(|error| error.to_string())?;
    match elf.is_dynamic() {
        true => Ok(Program::Dynamic(Box::new(linkage(path, elf, environment)))),
        false => Ok(Program::Static(elf)),
    }
}

/// Where a program is, as `banyan run` searches it. The error is for people.
pub fn program_path(program: &OsStr) -> Result<PathBuf, String> {
    crate::program::find_program(program, None, None).map_err(|error| error.to_string())
}

/// The folder of Banyan's own libraries beside this executable, if it has this one.
pub fn folder_beside(executable: &Path, library: &str) -> Option<PathBuf> {
    let prefix = executable.parent()?.parent()?;
    ["lib", "lib64"]
        .map(|folder| prefix.join(folder))
        .into_iter()
        .find(|folder| folder.join(library).is_file())
}

//! Follows what a program needs, in the order and through the folders of the dynamic linker.
use super::cache::Cache;
use super::elf::Elf;
use std::path::{Path, PathBuf};

/// Most libraries of a program.
const LOADED_MAX: usize = 512;

/// What of the environment decides where libraries are found.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `LD_LIBRARY_PATH`.
    pub library_path: String,
    /// `LD_PRELOAD`.
    pub preload: String,
    /// The folder in which the program is started; relative names are seen from there.
    pub folder: PathBuf,
}

impl Environment {
    /// From variables.
    pub fn new(variable: impl Fn(&str) -> Option<String>, folder: PathBuf) -> Self {
        let text = |name| variable(name).unwrap_or_default();
        Environment { library_path: text("LD_LIBRARY_PATH"), preload: text("LD_PRELOAD"), folder }
    }
}

/// A file that is loaded.
#[derive(Debug)]
pub struct Loaded {
    /// The name under which it is needed.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Who needs it first; nobody for the program.
    pub by: Option<usize>,
    /// What it is.
    pub elf: Elf,
}

/// A library that is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// The name of who needs it.
    pub by: String,
}

/// A program with its libraries.
#[derive(Debug)]
pub struct Linkage {
    /// The program, then its libraries in the order in which they are loaded.
    pub loaded: Vec<Loaded>,
    /// Libraries that are not found.
    pub missing: Vec<Missing>,
}

impl Linkage {
    /// The names of all libraries, found or not.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let found = self.loaded.iter().skip(1).map(|loaded| file_name(&loaded.name));
        found.chain(self.missing.iter().map(|missing| missing.name.as_str()))
    }

    /// The library of this name, if it is found.
    pub fn find(&self, name: &str) -> Option<&Loaded> {
        self.loaded.iter().skip(1).find(|loaded| file_name(&loaded.name) == name)
    }
}

fn file_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Follows what a program needs.
pub fn linkage(path: &Path, program: Elf, environment: &Environment) -> Linkage {
    let name = path.to_string_lossy().into_owned();
    let preloads =
        environment.preload.split([' ', ':']).filter(|name| !name.is_empty()).map(String::from).collect();
    let program = Loaded { name, path: path.to_owned(), by: None, elf: program };
    let mut linker =
        Linker { environment, cache: None, found: Linkage { loaded: vec![program], missing: Vec::new() } };
    linker.load_all(0, preloads);
    let mut next = 0;
    while next < linker.found.loaded.len() {
        let needed = linker.found.loaded[next].elf.needed.clone();
        linker.load_all(next, needed);
        next += 1;
    }
    linker.found
}

struct Linker<'e> {
    environment: &'e Environment,
    /// Read when it is needed.
    cache: Option<Cache>,
    found: Linkage,
}

impl Linker<'_> {
    fn load_all(&mut self, by: usize, names: Vec<String>) {
        for name in names {
            let is_there = |loaded: &Loaded| loaded.name == name || loaded.elf.soname.as_ref() == Some(&name);
            let is_missing = self.found.missing.iter().any(|missing| missing.name == name);
            if is_missing || self.found.loaded.len() >= LOADED_MAX || self.found.loaded.iter().any(is_there) {
                continue;
            }
            match self.search(by, &name) {
                Some((path, elf)) => {
                    let is_same = |loaded: &Loaded| loaded.path == path;
                    if !self.found.loaded.iter().any(is_same) {
                        self.found.loaded.push(Loaded { name, path, by: Some(by), elf });
                    }
                }
                None => {
                    let by = file_name(&self.found.loaded[by].name).to_owned();
                    self.found.missing.push(Missing { name, by });
                }
            }
        }
    }

    /// The first file of this name that fits the program.
    fn search(&mut self, by: usize, name: &str) -> Option<(PathBuf, Elf)> {
        if name.contains('/') {
            let path = self.expanded(by, name)?;
            return Self::fitting(path);
        }
        for folder in self.folders_before(by) {
            let found = Self::fitting(folder.join(name));
            if found.is_some() {
                return found;
            }
        }
        if self.found.loaded[by].elf.no_default {
            return None;
        }
        let cache = self.cache.get_or_insert_with(|| Cache::read(Path::new("/etc/ld.so.cache")));
        let defaults = DEFAULTS.iter().map(|folder| Path::new(folder).join(name));
        let candidates: Vec<PathBuf> = cache.files(name).into_iter().chain(defaults).collect();
        candidates.into_iter().find_map(Self::fitting)
    }

    /// Folders that come before the cache.
    fn folders_before(&self, by: usize) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        // Paths of those who need it, up to the program, unless it has one of the newer kind.
        if self.found.loaded[by].elf.runpath.is_none() {
            let mut at = Some(by);
            while let Some(index) = at {
                let loaded = &self.found.loaded[index];
                if loaded.elf.runpath.is_none() {
                    self.add(&mut folders, index, loaded.elf.rpath.as_deref());
                }
                at = loaded.by;
            }
        }
        self.add(
            &mut folders,
            0,
            Some(&self.environment.library_path).filter(|path| !path.is_empty()).map(String::as_str),
        );
        self.add(&mut folders, by, self.found.loaded[by].elf.runpath.as_deref());
        folders
    }

    fn add(&self, folders: &mut Vec<PathBuf>, of: usize, path: Option<&str>) {
        let parts = path.into_iter().flat_map(|path| path.split([':', ';']));
        folders.extend(parts.filter_map(|part| match part {
            "" => Some(self.environment.folder.clone()),
            part => self.expanded(of, part),
        }));
    }

    /// With `$ORIGIN`, `$LIB` and `$PLATFORM` put in, as seen from the program's folder.
    fn expanded(&self, of: usize, text: &str) -> Option<PathBuf> {
        let absolute = std::path::absolute(self.environment.folder.join(&self.found.loaded[of].path)).ok()?;
        // The linker takes the folder where the file really is.
        let real = absolute.canonicalize().unwrap_or(absolute);
        let origin = real.parent()?.to_string_lossy().into_owned();
        let mut text = text.to_owned();
        for (name, value) in [("ORIGIN", origin.as_str()), ("LIB", LIB), ("PLATFORM", std::env::consts::ARCH)]
        {
            text = text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        }
        Some(self.environment.folder.join(text))
    }

    /// A file is passed over if it is not for this machine.
    fn fitting(path: PathBuf) -> Option<(PathBuf, Elf)> {
        let elf = Elf::open(&path).ok()?;
        Some((path, elf))
    }
}

#[cfg(target_arch = "aarch64")]
const LIB: &str = "lib/aarch64-linux-gnu";
#[cfg(not(target_arch = "aarch64"))]
const LIB: &str = "lib/x86_64-linux-gnu";

/// Folders that are searched in the end; those of Debian's and of others' arrangement.
const DEFAULTS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(path: &str, library_path: &str) -> Linkage {
        let environment =
            Environment { library_path: library_path.into(), preload: String::new(), folder: "/".into() };
        linkage(Path::new(path), Elf::open(Path::new(path)).unwrap(), &environment)
    }

    #[test]
    fn a_program_of_this_machine_finds_all() {
        let linkage = looked("/bin/sh", "");
        assert!(linkage.missing.is_empty(), "{:?}", linkage.missing);
        assert!(linkage.names().any(|name| name == "libc.so.6") && linkage.mpi().is_none());
    }

    #[test]
    fn library_path_comes_before_the_cache_and_nonsense_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("libc.so.6"), "not a library").unwrap();
        let of_machine = looked("/bin/sh", "").find("libc.so.6").unwrap().path.clone();
        assert_eq!(looked("/bin/sh", text).find("libc.so.6").unwrap().path, of_machine);
        std::fs::remove_file(folder.path().join("libc.so.6")).unwrap();
        std::fs::copy(&of_machine, folder.path().join("libc.so.6")).unwrap();
        let here = looked("/bin/sh", &format!("/no/such/folder:{text}"));
        assert_eq!(here.find("libc.so.6").unwrap().path, folder.path().join("libc.so.6"));
    }
}

//! Info objects: ordered lists of keys and values.
use super::*;
use crate::error::{ErrorClass, Result, fail};

/// Keys and values in the order they were set.
pub type Pairs = Vec<(String, String)>;

impl Registry {
    /// A new, empty object.
    pub fn info_create(&mut self) -> InfoId {
        InfoId(self.infos.insert(Pairs::new()))
    }

    /// Sets a key.
    pub fn info_set(&mut self, info: InfoId, key: &str, value: &str) -> Result<()> {
        let pairs = self.pairs_mut(info)?;
        match pairs.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value.into(),
            None => pairs.push((key.into(), value.into())),
        }
        Ok(())
    }

    /// Reads a key.
    pub fn info_get(&self, info: InfoId, key: &str) -> Result<Option<&str>> {
        Ok(self.pairs(info)?.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str()))
    }

    /// Removes a key; `InfoNokey` if it is absent.
    pub fn info_delete(&mut self, info: InfoId, key: &str) -> Result<()> {
        let pairs = self.pairs_mut(info)?;
        match pairs.iter().position(|(k, _)| k == key) {
            Some(at) => {
                pairs.remove(at);
                Ok(())
            }
            None => fail(ErrorClass::InfoNokey, format!("key '{key}'")),
        }
    }

    /// Number of keys.
    pub fn info_nkeys(&self, info: InfoId) -> Result<usize> {
        Ok(self.pairs(info)?.len())
    }

    /// The n-th key.
    pub fn info_nthkey(&self, info: InfoId, n: i64) -> Result<&str> {
        let pairs = self.pairs(info)?;
        match usize::try_from(n).ok().and_then(|n| pairs.get(n)) {
            Some((key, _)) => Ok(key),
            None => fail(ErrorClass::Arg, format!("key number {n} of {}", pairs.len())),
        }
    }

    /// A new object with these keys and values.
    pub fn info_with(&mut self, pairs: Pairs) -> InfoId {
        InfoId(self.infos.insert(pairs))
    }

    /// All keys and values.
    pub fn info_pairs(&self, info: InfoId) -> Result<Pairs> {
        self.pairs(info).cloned()
    }

    /// A copy.
    pub fn info_dup(&mut self, info: InfoId) -> Result<InfoId> {
        let pairs = self.pairs(info)?.clone();
        Ok(InfoId(self.infos.insert(pairs)))
    }

    /// The program gives the object up.
    pub fn info_free(&mut self, info: InfoId) -> Result<()> {
        self.pairs_mut(info)?;
        self.infos.remove(info.0);
        Ok(())
    }

    fn pairs(&self, info: InfoId) -> Result<&Pairs> {
        match self.infos.get(info.0) {
            Some(pairs) => Ok(pairs),
            None => fail(ErrorClass::Info, format!("there is no info object {}", info.0)),
        }
    }

    fn pairs_mut(&mut self, info: InfoId) -> Result<&mut Pairs> {
        match self.infos.get_mut(info.0) {
            Some(pairs) if info != InfoId::ENV => Ok(pairs),
            Some(_) => fail(ErrorClass::Info, "the environment's info object cannot be changed"),
            None => fail(ErrorClass::Info, format!("there is no info object {}", info.0)),
        }
    }
}

/// What the process was started with (MPI-5 11.2.1).
pub(super) fn environment() -> Pairs {
    let mut pairs = Pairs::new();
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    if let Some(command) = arguments.next() {
        pairs.push(("command".into(), command));
    }
    let rest: Vec<String> = arguments.collect();
    if !rest.is_empty() {
        pairs.push(("argv".into(), rest.join(" ")));
    }
    if let Ok(folder) = std::env::current_dir() {
        pairs.push(("wdir".into(), folder.to_string_lossy().into_owned()));
    }
    if let Ok(size) = std::env::var("PMI_SIZE") {
        pairs.push(("maxprocs".into(), size));
    }
    pairs.push(("arch".into(), std::env::consts::ARCH.into()));
    pairs.push(("thread_level".into(), "MPI_THREAD_SINGLE".into()));
    pairs
}

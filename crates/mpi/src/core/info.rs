//! Info objects: ordered lists of keys and values.
use super::*;
use crate::error::Result;

impl Mpi {
    /// A new, empty object.
    pub fn info_create(&mut self) -> InfoId {
        unimplemented!()
    }
    /// Sets a key.
    pub fn info_set(&mut self, info: InfoId, key: &str, value: &str) -> Result<()> {
        unimplemented!()
    }
    /// Reads a key.
    pub fn info_get(&self, info: InfoId, key: &str) -> Result<Option<&str>> {
        unimplemented!()
    }
    /// Removes a key; `InfoNokey` if it is absent.
    pub fn info_delete(&mut self, info: InfoId, key: &str) -> Result<()> {
        unimplemented!()
    }
    /// Number of keys.
    pub fn info_nkeys(&self, info: InfoId) -> Result<usize> {
        unimplemented!()
    }
    /// The n-th key.
    pub fn info_nthkey(&self, info: InfoId, n: i64) -> Result<&str> {
        unimplemented!()
    }
    /// A copy.
    pub fn info_dup(&mut self, info: InfoId) -> Result<InfoId> {
        unimplemented!()
    }
    /// The program gives the object up.
    pub fn info_free(&mut self, info: InfoId) -> Result<()> {
        unimplemented!()
    }
}

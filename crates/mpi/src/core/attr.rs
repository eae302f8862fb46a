//! Attributes: values that a program hangs on an object, and the keys that name them. The callbacks that
//! copy and delete values are data here; whoever speaks the program's language calls them.
use super::*;
use crate::error::Result;

/// What can carry attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A communicator.
    Comm(CommId),
    /// A datatype.
    Type(TypeId),
    /// A window, by number.
    Win(u32),
}

/// An attribute key: callbacks and extra state, all opaque words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyval {
    /// The copy callback.
    pub copy: usize,
    /// The delete callback.
    pub delete: usize,
    /// The extra state given to both.
    pub extra: usize,
}

impl Mpi {
    /// A new key.
    pub fn keyval_create(&mut self, keyval: Keyval) -> KeyvalId {
        unimplemented!()
    }
    /// The key's callbacks; valid also after it was freed, while an object carries it.
    pub fn keyval(&self, id: KeyvalId) -> Result<Keyval> {
        unimplemented!()
    }
    /// The program gives the key up.
    pub fn keyval_free(&mut self, id: KeyvalId) -> Result<()> {
        unimplemented!()
    }
    /// Sets a value; gives the former one (whose delete callback the caller has run *before*, see `attr_get`).
    pub fn attr_set(&mut self, object: Object, key: KeyvalId, value: usize) -> Result<Option<usize>> {
        unimplemented!()
    }
    /// Reads a value.
    pub fn attr_get(&self, object: Object, key: KeyvalId) -> Result<Option<usize>> {
        unimplemented!()
    }
    /// Removes a value.
    pub fn attr_delete(&mut self, object: Object, key: KeyvalId) -> Result<Option<usize>> {
        unimplemented!()
    }
    /// All keys and values of an object, in the order they were set.
    pub fn attrs(&self, object: Object) -> Result<Vec<(KeyvalId, usize)>> {
        unimplemented!()
    }
}

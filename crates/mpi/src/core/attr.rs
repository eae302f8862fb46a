//! Attributes: values that a program hangs on an object, and the keys that name them. The callbacks that
//! copy and delete values are data here; whoever speaks the program's language calls them.
use super::*;
use crate::error::{ErrorClass, Result, fail};

/// What can carry attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A communicator.
    Comm(CommId),
    /// A datatype.
    Type(TypeId),
    /// A window.
    Win(WinId),
}

/// What an attribute key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Communicators.
    Comm,
    /// Datatypes.
    Type,
    /// Windows.
    Win,
}

impl Object {
    fn carrier(self) -> Carrier {
        match self {
            Object::Comm(_) => Carrier::Comm,
            Object::Type(_) => Carrier::Type,
            Object::Win(_) => Carrier::Win,
        }
    }
}

/// An attribute key: callbacks and extra state, all opaque words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyval {
    /// What carries it.
    pub carrier: Carrier,
    /// The copy callback.
    pub copy: usize,
    /// The delete callback.
    pub delete: usize,
    /// The extra state given to both.
    pub extra: usize,
}

/// A key, and how many values and programs still need it.
#[derive(Debug)]
pub(super) struct KeyvalEntry {
    keyval: Keyval,
    references: usize,
    pub(super) freed: bool,
}

/// Keys and values in the order they were set.
pub(super) type Attributes = Vec<(KeyvalId, usize)>;

impl Mpi {
    /// A new key.
    pub fn keyval_create(&mut self, keyval: Keyval) -> KeyvalId {
        KeyvalId(self.keyvals.insert(KeyvalEntry { keyval, references: 1, freed: false }))
    }

    /// The key's callbacks; valid also after it was freed, while an object carries it.
    pub fn keyval(&self, id: KeyvalId) -> Result<Keyval> {
        match self.keyvals.get(id.0) {
            Some(entry) => Ok(entry.keyval),
            None => fail(ErrorClass::Keyval, format!("there is no attribute key {}", id.0)),
        }
    }

    /// The program gives the key up. While an object carries it, it may say so again: MPI-5 7.7.2 lets a delete function
    /// do it for each of several objects.
    pub fn keyval_free(&mut self, id: KeyvalId) -> Result<()> {
        match self.keyvals.get_mut(id.0) {
            Some(entry) if entry.freed => return Ok(()),
            Some(entry) => entry.freed = true,
            None => return fail(ErrorClass::Keyval, format!("there is no attribute key {}", id.0)),
        }
        self.release_keyval(id);
        Ok(())
    }

    /// Sets a value; gives the former one (whose delete callback the caller runs *before*, see `attr_get`).
    pub fn attr_set(&mut self, object: Object, key: KeyvalId, value: usize) -> Result<Option<usize>> {
        if self.keyval(key)?.carrier != object.carrier() {
            return fail(ErrorClass::Keyval, format!("attribute key {} is for other objects", key.0));
        }
        let attributes = self.attributes_mut(object)?;
        if let Some((_, old)) = attributes.iter_mut().find(|(k, _)| *k == key) {
            return Ok(Some(std::mem::replace(old, value)));
        }
        attributes.push((key, value));
        if let Some(entry) = self.keyvals.get_mut(key.0) {
            entry.references += 1;
        }
        Ok(None)
    }

    /// Reads a value.
    pub fn attr_get(&self, object: Object, key: KeyvalId) -> Result<Option<usize>> {
        self.keyval(key)?;
        Ok(self.attributes(object)?.iter().find(|(k, _)| *k == key).map(|(_, value)| *value))
    }

    /// Removes a value.
    pub fn attr_delete(&mut self, object: Object, key: KeyvalId) -> Result<Option<usize>> {
        self.keyval(key)?;
        let attributes = self.attributes_mut(object)?;
        let Some(at) = attributes.iter().position(|(k, _)| *k == key) else { return Ok(None) };
        let (_, value) = attributes.remove(at);
        self.release_keyval(key);
        Ok(Some(value))
    }

    /// All keys and values of an object, in the order they were set.
    pub fn attrs(&self, object: Object) -> Result<Vec<(KeyvalId, usize)>> {
        Ok(self.attributes(object)?.to_vec())
    }

    fn attributes(&self, object: Object) -> Result<&[(KeyvalId, usize)]> {
        Ok(match object {
            Object::Comm(comm) => &self.comm(comm)?.attributes,
            Object::Type(ty) => &self.type_entry(ty)?.attributes,
            Object::Win(win) => self.win_attributes.get(&win).map_or(&[], |list| list.as_slice()),
        })
    }

    fn attributes_mut(&mut self, object: Object) -> Result<&mut Attributes> {
        Ok(match object {
            Object::Comm(comm) => &mut self.comm_mut(comm)?.attributes,
            Object::Type(ty) => &mut self.type_entry_mut(ty)?.attributes,
            Object::Win(win) => self.win_attributes.entry(win).or_default(),
        })
    }

    pub(super) fn release_keyval(&mut self, id: KeyvalId) {
        if let Some(entry) = self.keyvals.get_mut(id.0) {
            entry.references -= 1;
            if entry.references == 0 {
                self.keyvals.remove(id.0);
            }
        }
    }
}

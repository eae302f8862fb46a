//! Attributes that processes of one node leave for each other.
use super::Wait;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Most attributes of one node.
pub const ATTRIBUTES_MAX: usize = 16_384;
/// Most processes (or threads) that wait for attributes.
pub const WAITERS_MAX: usize = 16_384;

/// There is no room for another attribute, or for another that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {ATTRIBUTES_MAX} node attributes, or {WAITERS_MAX} waiting for one")]
pub struct AttributesFull;

/// What to answer to one who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeAnswer<'a> {
    /// This is it.
    Found(&'a [u8]),
    /// Nobody has put it.
    NotFound,
    /// Nothing now: a later [`NodeAttributes::put`] names the one who asked.
    Later,
}

/// The attributes of a node, and who waits for which. `W` names one who waits: a client and its request.
#[derive(Debug)]
pub struct NodeAttributes<W> {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    waiting: BTreeMap<Vec<u8>, Vec<W>>,
    waiters: usize,
}

impl<W> Default for NodeAttributes<W> {
    fn default() -> Self {
        NodeAttributes { values: BTreeMap::new(), waiting: BTreeMap::new(), waiters: 0 }
    }
}

impl<W> NodeAttributes<W> {
    /// Sets an attribute, and names those that waited for it, in the order in which they asked. Each is to be answered
    /// with this value. A second put replaces the value.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Vec<W>, AttributesFull> {
        if self.values.len() == ATTRIBUTES_MAX && !self.values.contains_key(key) {
            return Err(AttributesFull);
        }
        self.values.insert(key.to_vec(), value.to_vec());
        let served = self.waiting.remove(key).unwrap_or_default();
        self.waiters -= served.len();
        Ok(served)
    }

    /// Reads an attribute for `who`.
    pub fn get(&mut self, key: &[u8], wait: Wait, who: W) -> Result<AttributeAnswer<'_>, AttributesFull> {
        if let Some(value) = self.values.get(key) {
            return Ok(AttributeAnswer::Found(value));
        }
        match wait {
            Wait::No => Ok(AttributeAnswer::NotFound),
            Wait::UntilPut if self.waiters == WAITERS_MAX => Err(AttributesFull),
            Wait::UntilPut => {
                self.waiting.entry(key.to_vec()).or_default().push(who);
                self.waiters += 1;
                Ok(AttributeAnswer::Later)
            }
        }
    }

    /// Those for whom `gone` is true wait no more: their client has ended.
    pub fn forget(&mut self, gone: impl Fn(&W) -> bool) {
        self.waiting.retain(|_, waiting| {
            waiting.retain(|who| !gone(who));
            !waiting.is_empty()
        });
        self.waiters = self.waiting.values().map(Vec::len).sum();
    }

    /// How many wait.
    pub fn waiters(&self) -> usize {
        self.waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_waits_is_named_by_the_put() {
        let mut node = NodeAttributes::default();
        assert_eq!(node.get(b"k", Wait::No, 1), Ok(AttributeAnswer::NotFound));
        assert_eq!(node.get(b"k", Wait::UntilPut, 2), Ok(AttributeAnswer::Later));
        assert_eq!(node.get(b"k", Wait::UntilPut, 3), Ok(AttributeAnswer::Later));
        assert_eq!(node.get(b"other", Wait::UntilPut, 4), Ok(AttributeAnswer::Later));
        assert_eq!(node.put(b"k", b"v"), Ok([2, 3].to_vec()));
        assert_eq!(node.get(b"k", Wait::UntilPut, 5), Ok(AttributeAnswer::Found(b"v")));
        assert_eq!(node.put(b"k", b"w"), Ok(Vec::new()));
        assert_eq!(node.get(b"k", Wait::No, 6), Ok(AttributeAnswer::Found(b"w")));
        assert_eq!(node.waiters(), 1);
    }

    #[test]
    fn one_who_has_ended_is_not_answered() {
        let mut node = NodeAttributes::default();
        for who in [1, 2, 1] {
            assert_eq!(node.get(b"k", Wait::UntilPut, who), Ok(AttributeAnswer::Later));
        }
        node.forget(|who| *who == 1);
        assert_eq!((node.waiters(), node.put(b"k", b"v")), (1, Ok([2].to_vec())));
    }

    #[test]
    fn attributes_and_waiters_are_bounded() {
        let mut node = NodeAttributes::default();
        let key = |i: usize| i.to_le_bytes();
        assert!((0..ATTRIBUTES_MAX).all(|i| node.put(&key(i), b"").is_ok()));
        assert_eq!(node.put(&key(ATTRIBUTES_MAX), b""), Err(AttributesFull));
        assert_eq!(node.put(&key(3), b"x"), Ok(Vec::new()));
        assert!((0..WAITERS_MAX).all(|i| node.get(b"never", Wait::UntilPut, i).is_ok()));
        assert_eq!(node.get(b"never", Wait::UntilPut, 0), Err(AttributesFull));
    }
}

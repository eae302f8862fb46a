//! Numbers and bytes of wire formats: little endian, lengths before bytes. What they mean is the formats' business.
use crate::lane::Bytes;
use alloc::string::String;
use alloc::vec::Vec;

/// Appends fields.
#[derive(Debug)]
pub struct Writer<'o>(pub &'o mut Vec<u8>);

impl Writer<'_> {
    /// A byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Four bytes with a sign.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.u32(value as u32)
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Items behind their number.
    pub fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.u32(items.len() as u32);
        for each in items {
            item(self, each);
        }
        self
    }
}

/// Takes fields. `None` is always a malformed input.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// From the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// Has everything been taken?
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes that have not been taken.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// So many bytes.
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(head)
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Four bytes with a sign.
    pub fn i32(&mut self) -> Option<i32> {
        self.u32().map(|value| value as i32)
    }

    /// Bytes behind their length.
    pub fn slice(&mut self) -> Option<&'a [u8]> {
        let bytes = self.u32()? as usize;
        self.take(bytes)
    }

    /// The same, owned.
    pub fn vec(&mut self) -> Option<Vec<u8>> {
        self.slice().map(<[u8]>::to_vec)
    }

    /// The same, at most `max` of them, to be shared.
    pub fn bytes(&mut self, max: usize) -> Option<Bytes> {
        self.slice().filter(|bytes| bytes.len() <= max).map(Bytes::from)
    }

    /// The same, as text.
    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.vec()?).ok()
    }

    /// As many items as announced. Nothing is reserved ahead: the announcement may be a lie.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }
}

//! The linker's cache of libraries (`/etc/ld.so.cache`). Pure but for reading the file.
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0\0";
const OLD_ENTRY_BYTES: usize = 12;
const HEADER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
/// Longest cache that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The cache, as a file.
#[derive(Debug, Default)]
pub(super) struct Cache(Vec<u8>);

impl Cache {
    /// A cache that cannot be read knows nothing.
    pub(super) fn read(path: &Path) -> Self {
        let is_small = std::fs::metadata(path).is_ok_and(|meta| meta.len() <= FILE_BYTES_MAX);
        Cache(if is_small { std::fs::read(path).unwrap_or_default() } else { Vec::new() })
    }

    /// The files that it has under a name; several for different processors.
    pub(super) fn files(&self, name: &str) -> Vec<PathBuf> {
        let Some(table) = self.table() else { return Vec::new() };
        let count = word(table, MAGIC.len()).unwrap_or(0) as usize;
        let text = |at: u32| {
            let rest = table.get(at as usize..)?;
            let end = rest.iter().position(|byte| *byte == 0)?;
            std::str::from_utf8(&rest[..end]).ok()
        };
        let entries = table.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(ENTRY_BYTES).take(count);
        let file = |entry: &[u8]| {
            let (key, value) = (word(entry, 4)?, word(entry, 8)?);
            (text(key)? == name).then(|| text(value).map(PathBuf::from)).flatten()
        };
        entries.filter_map(file).collect()
    }

    /// The part in the present form; an older one may stand before it.
    fn table(&self) -> Option<&[u8]> {
        if self.0.starts_with(MAGIC) {
            return Some(&self.0);
        }
        let old = self.0.strip_prefix(OLD_MAGIC)?;
        let entries = word(old, 0)? as usize;
        let end = (OLD_MAGIC.len() + 4).checked_add(entries.checked_mul(OLD_ENTRY_BYTES)?)?;
        let table = self.0.get(end.next_multiple_of(8)..)?;
        table.starts_with(MAGIC).then_some(table)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with these libraries.
    fn written(libraries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((libraries.len() as u32).to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        let mut at = (HEADER_BYTES + libraries.len() * ENTRY_BYTES) as u32;
        let mut texts = Vec::new();
        for (name, file) in libraries {
            let value = at + name.len() as u32 + 1;
            for number in [0x0303, at, value, 0, 0, 0] {
                bytes.extend(u32::to_le_bytes(number));
            }
            at = value + file.len() as u32 + 1;
            texts.extend([name.as_bytes(), b"\0", file.as_bytes(), b"\0"].concat());
        }
        bytes.extend(texts);
        bytes
    }

    #[test]
    fn libraries_are_found_by_name() {
        let cache = Cache(written(&[
            ("liba.so.1", "/x/liba.so.1"),
            ("libb.so", "/y/libb.so"),
            ("liba.so.1", "/z/a"),
        ]));
        assert_eq!(cache.files("liba.so.1"), [PathBuf::from("/x/liba.so.1"), "/z/a".into()]);
        assert!(cache.files("liba.so").is_empty());
        // Behind a table of the older form.
        let mut old = OLD_MAGIC.to_vec();
        old.extend(1_u32.to_le_bytes());
        old.resize(OLD_MAGIC.len() + 4 + OLD_ENTRY_BYTES, 0);
        old.resize(old.len().next_multiple_of(8), 0);
        old.extend(written(&[("libb.so", "/y/libb.so")]));
        assert_eq!(Cache(old).files("libb.so"), [PathBuf::from("/y/libb.so")]);
    }

    #[test]
    fn a_damaged_cache_knows_less_and_does_no_harm() {
        let whole = written(&[("liba.so.1", "/x/liba.so.1"), ("libb.so", "/y/libb.so")]);
        for length in 0..whole.len() {
            let _ = Cache(whole[..length].to_vec()).files("libb.so");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = Cache(bytes).files("libb.so");
            }
        }
    }

    #[test]
    fn the_cache_of_this_machine_has_the_c_library() {
        let cache = Cache::read(Path::new("/etc/ld.so.cache"));
        assert!(cache.0.is_empty() || !cache.files("libc.so.6").is_empty());
    }
}

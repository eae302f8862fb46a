//! The block of lines that asks for more processes.
use super::fields::number;
use super::{ParseError, quote};
use alloc::vec::Vec;

/// Most arguments, pre-put keys and infos in one block, together.
pub const SPAWN_ITEMS_MAX: usize = 16_384;

/// A key and its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair<'a> {
    /// Key.
    pub key: &'a [u8],
    /// Value.
    pub value: &'a [u8],
}

/// One command of a spawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawn<'a> {
    /// Processes to start.
    pub processes: u32,
    /// Program.
    pub program: &'a [u8],
    /// Blocks in this spawn.
    pub total_spawns: u32,
    /// Number of this block, from 1.
    pub spawns_so_far: u32,
    /// Arguments.
    pub args: Vec<&'a [u8]>,
    /// Keys that the new job's key-value space has from the start.
    pub preputs: Vec<Pair<'a>>,
    /// Hints (wdir, path, host, ...).
    pub infos: Vec<Pair<'a>>,
}

impl<'a> Spawn<'a> {
    /// Is this the last block of its spawn?
    pub fn is_last(&self) -> bool {
        self.spawns_so_far >= self.total_spawns
    }

    /// Parses a block. Counts (`argcnt` and the like) are redundant and are ignored: clients differ in
    /// where they put them.
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, ParseError> {
        let mut lines = message.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let first = lines.next().unwrap_or_default();
        if first.trim_ascii_end() != b"mcmd=spawn" {
            return Err(ParseError::UnknownCommand(quote(first)));
        }
        let mut spawn = Spawn { processes: 1, total_spawns: 1, spawns_so_far: 1, ..Spawn::default() };
        for line in lines {
            let at = line.iter().position(|&b| b == b'=').unwrap_or(line.len());
            spawn.take(&line[..at], line.get(at + 1..).unwrap_or_default())?;
        }
        if spawn.program.is_empty() {
            return Err(ParseError::Missing { command: "spawn", field: "execname" });
        }
        Ok(spawn)
    }

    fn take(&mut self, key: &'a [u8], value: &'a [u8]) -> Result<(), ParseError> {
        if self.args.len() + self.preputs.len() + self.infos.len() >= SPAWN_ITEMS_MAX {
            return Err(ParseError::TooManyItems);
        }
        match key {
            b"nprocs" => self.processes = count("nprocs", value)?,
            b"execname" => self.program = value,
            b"totspawns" => self.total_spawns = count("totspawns", value)?,
            b"spawnssofar" => self.spawns_so_far = count("spawnssofar", value)?,
            _ if indexed(key, b"arg") => self.args.push(value),
            _ if indexed(key, b"preput_key_") => self.preputs.push(Pair { key: value, value: b"" }),
            _ if indexed(key, b"preput_val_") => set_value(&mut self.preputs, value),
            _ if indexed(key, b"info_key_") => self.infos.push(Pair { key: value, value: b"" }),
            _ if indexed(key, b"info_val_") => set_value(&mut self.infos, value),
            _ => {}
        }
        Ok(())
    }

    /// Appends the block.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let mut line = |key: &str, value: &[u8]| {
            out.extend_from_slice(key.as_bytes());
            out.push(b'=');
            out.extend(value.iter().map(|&b| if b == b'\n' { b' ' } else { b }));
            out.push(b'\n');
        };
        let text = |n: usize| alloc::format!("{n}").into_bytes();
        line("mcmd", b"spawn");
        line("nprocs", &text(self.processes as usize));
        line("execname", self.program);
        line("totspawns", &text(self.total_spawns as usize));
        line("spawnssofar", &text(self.spawns_so_far as usize));
        line("argcnt", &text(self.args.len()));
        for (i, arg) in self.args.iter().enumerate() {
            line(&alloc::format!("arg{}", i + 1), arg);
        }
        for (name, pairs) in [("preput", &self.preputs), ("info", &self.infos)] {
            line(&alloc::format!("{name}_num"), &text(pairs.len()));
            for (i, pair) in pairs.iter().enumerate() {
                line(&alloc::format!("{name}_key_{i}"), pair.key);
                line(&alloc::format!("{name}_val_{i}"), pair.value);
            }
        }
        out.extend_from_slice(b"endcmd\n");
    }
}

/// Is `key` the prefix followed by digits only?
fn indexed(key: &[u8], prefix: &[u8]) -> bool {
    key.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
}

fn set_value<'a>(pairs: &mut [Pair<'a>], value: &'a [u8]) {
    if let Some(last) = pairs.last_mut() {
        last.value = value;
    }
}

fn count(field: &'static str, value: &[u8]) -> Result<u32, ParseError> {
    number(value).and_then(|n| u32::try_from(n).ok()).ok_or_else(|| ParseError::BadNumber {
        command: "spawn",
        field,
        value: quote(value),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;
    use alloc::vec;

    #[test]
    fn a_spawn_block_is_parsed_as_it_was_emitted() {
        let spawn = Spawn {
            processes: 3,
            program: b"./worker one",
            total_spawns: 2,
            spawns_so_far: 1,
            args: vec![b"-x", b"a=b c", b""],
            preputs: vec![Pair { key: b"PARENT_ROOT_PORT_NAME", value: b"tag=0" }],
            infos: vec![Pair { key: b"wdir", value: b"/" }, Pair { key: b"host", value: b"h" }],
        };
        let mut bytes = Vec::new();
        Request::Spawn(spawn.clone()).emit(&mut bytes);
        bytes.pop();
        assert_eq!(Request::parse(&bytes), Ok(Request::Spawn(spawn.clone())));
        assert!(!spawn.is_last());
    }

    #[test]
    fn counts_may_come_after_the_arguments() {
        let block = b"mcmd=spawn\nnprocs=1\nexecname=p\narg1=x\nargcnt=1\ntotspawns=1\nspawnssofar=1\nendcmd";
        let Ok(Request::Spawn(spawn)) = Request::parse(block) else { panic!("not a spawn") };
        assert_eq!((spawn.args, spawn.processes), (vec![&b"x"[..]], 1));
    }
}

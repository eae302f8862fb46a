//! The request for more processes.
use super::fields::{Body, Fields, number};
use super::{ParseError, Verb};
use alloc::vec::Vec;

/// A key and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Key.
    pub key: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

/// One program of a spawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnCommand {
    /// Program.
    pub program: Vec<u8>,
    /// Processes to start.
    pub processes: u32,
    /// Arguments.
    pub args: Vec<Vec<u8>>,
    /// Hints (wdir, path, host, ...).
    pub infos: Vec<Pair>,
}

/// A whole spawn: programs that become one new job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawn {
    /// Keys that the new job's key-value space has from the start.
    pub preputs: Vec<Pair>,
    /// Programs, at least one.
    pub commands: Vec<SpawnCommand>,
}

const COMMAND: &str = "spawn";

impl Spawn {
    /// Counts (`ncmds`, `argc` and the like) are redundant: what is there counts.
    pub(super) fn parse(fields: &Fields<'_>) -> Result<Self, ParseError> {
        let mut spawn = Spawn::default();
        for (key, value) in fields.iter() {
            spawn.take(key, value)?;
        }
        if spawn.commands.iter().any(|command| command.program.is_empty()) || spawn.commands.is_empty() {
            return Err(ParseError::Missing { command: COMMAND, field: "subcmd" });
        }
        Ok(spawn)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), ParseError> {
        if key == b"subcmd" {
            let program = value.to_vec();
            self.commands.push(SpawnCommand { program, processes: 1, ..SpawnCommand::default() });
        } else if indexed(key, b"ppkey") {
            self.preputs.push(Pair { key: value.to_vec(), value: Vec::new() });
        } else if indexed(key, b"ppval") {
            set_value(&mut self.preputs, value);
        } else if let Some(command) = self.commands.last_mut() {
            command.take(key, value)?;
        }
        Ok(())
    }

    pub(super) fn emit(&self, body: &mut Body<'_>) {
        body.number("ncmds", self.commands.len() as i64).number("preputcount", self.preputs.len() as i64);
        for (i, pair) in self.preputs.iter().enumerate() {
            body.indexed("ppkey", i, &pair.key).indexed("ppval", i, &pair.value);
        }
        self.commands.iter().for_each(|command| command.emit(body));
    }
}

impl SpawnCommand {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), ParseError> {
        if key == b"maxprocs" {
            self.processes = number(Verb::Spawn.name(), "maxprocs", value)?;
        } else if indexed(key, b"argv") {
            self.args.push(value.to_vec());
        } else if indexed(key, b"infokey") {
            self.infos.push(Pair { key: value.to_vec(), value: Vec::new() });
        } else if indexed(key, b"infoval") {
            set_value(&mut self.infos, value);
        }
        Ok(())
    }

    fn emit(&self, body: &mut Body<'_>) {
        body.field("subcmd", &self.program)
            .number("maxprocs", i64::from(self.processes))
            .number("argc", self.args.len() as i64);
        for (i, arg) in self.args.iter().enumerate() {
            body.indexed("argv", i, arg);
        }
        body.number("infokeycount", self.infos.len() as i64);
        for (i, pair) in self.infos.iter().enumerate() {
            body.indexed("infokey", i, &pair.key).indexed("infoval", i, &pair.value);
        }
    }
}

/// Is `key` the prefix followed by digits only?
fn indexed(key: &[u8], prefix: &[u8]) -> bool {
    key.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
}

fn set_value(pairs: &mut [Pair], value: &[u8]) {
    if let Some(last) = pairs.last_mut() {
        last.value = value.to_vec();
    }
}

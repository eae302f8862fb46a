//! What an option is: its names, what it takes, and what help, completion and manual pages say of it. Pure.

/// Where an option may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Before any program, for that program.
    Program,
    /// Before the first program, for the whole job.
    Job,
    /// Before the first program for the whole job, behind a `:` for that program.
    Either,
    /// Before any program, for the whole job wherever it stands.
    Anywhere,
}

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A value of any kind.
    Value,
    /// One of these, or a value that begins like one of them.
    Word(&'static [&'static str]),
    /// Nothing, or one of these behind `=`.
    Maybe(&'static [&'static str]),
    /// The name of a file.
    File,
    /// The name of a folder.
    Folder,
    /// `NAME VALUE` or `NAME=VALUE`.
    Pair,
}

/// An option of `banyan run`.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its names with their dashes, as help shows them. The first is what the parser knows it by.
    pub names: &'static [&'static str],
    /// Other names for it.
    pub also: &'static [&'static str],
    /// How help writes what follows.
    pub value: &'static str,
    /// What follows.
    pub takes: Takes,
    /// Where it may stand.
    pub scope: Scope,
    /// What it does.
    pub text: &'static str,
}

/// Options with something in common.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// What that is.
    pub title: &'static str,
    /// The options.
    pub entries: &'static [Entry],
    /// What is to be said of all of them.
    pub note: &'static str,
}

impl Entry {
    /// An option of the whole job.
    pub(super) const fn new(
        names: &'static [&'static str],
        value: &'static str,
        takes: Takes,
        text: &'static str,
    ) -> Self {
        Entry { names, also: &[], value, takes, scope: Scope::Job, text }
    }

    pub(super) const fn at(self, scope: Scope) -> Self {
        Entry { scope, ..self }
    }

    pub(super) const fn also(self, also: &'static [&'static str]) -> Self {
        Entry { also, ..self }
    }

    /// The name that the parser knows it by.
    pub(super) fn key(&self) -> &'static str {
        bare(self.names[0])
    }

    /// All its names, with dashes.
    pub fn all_names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().chain(self.also).copied()
    }

    /// Its names and what follows, as help writes them.
    pub fn usage(&self) -> String {
        let space = if self.value.is_empty() || self.value.starts_with('[') { "" } else { " " };
        format!("{}{space}{}", self.names.join(", "), self.value)
    }
}

/// Without dashes.
pub(super) fn bare(name: &'static str) -> &'static str {
    name.trim_start_matches('-')
}

//! The command lines of benchmarks: what all of them understand, and how values are read.
use super::workshop::Workshop;
use std::path::PathBuf;
use std::time::Duration;

/// Most rounds of a benchmark.
const ROUNDS_MAX: usize = 1000;
const TIMEOUT_S_MAX: usize = 86_400;

/// What every benchmark is told.
#[derive(Debug)]
pub struct Common {
    /// How often everything is measured.
    pub rounds: usize,
    /// Where the figures go as JSON.
    pub json: Option<PathBuf>,
    /// Longest time for one run.
    pub timeout: Duration,
    /// Where libraries and programs are found and built.
    pub workshop: Workshop,
    /// Is anything built?
    builds: bool,
}

impl Common {
    /// What holds unless something else is said, where nothing is built.
    pub fn new(rounds: usize, timeout_s: u64) -> Self {
        let timeout = Duration::from_secs(timeout_s);
        Common { rounds, json: None, timeout, workshop: Workshop::default(), builds: false }
    }

    /// The same where libraries and programs are built.
    pub fn building(rounds: usize, timeout_s: u64) -> Self {
        Common { builds: true, ..Self::new(rounds, timeout_s) }
    }

    /// Takes an option that `bench` has not taken itself.
    pub fn take<'a>(
        &mut self,
        bench: &str,
        option: &str,
        value: impl FnOnce() -> Result<&'a String, String>,
    ) -> Result<(), String> {
        match option {
            "--rounds" => self.rounds = number(option, value()?, ROUNDS_MAX)?,
            "--prefix" if self.builds => self.workshop.prefix = Some(value()?.into()),
            "--dir" if self.builds => self.workshop.dir = value()?.into(),
            "--json" => self.json = Some(value()?.into()),
            "--timeout" => {
                self.timeout = Duration::from_secs(number(option, value()?, TIMEOUT_S_MAX)? as u64);
            }
            _ => return Err(format!("'{option}' is not an option of bench {bench}")),
        }
        Ok(())
    }
}

/// Goes through a command line: `take` gets each option, and how to get its value.
pub fn each<'a>(
    args: &'a [String],
    mut take: impl FnMut(&'a str, &mut dyn FnMut() -> Result<&'a String, String>) -> Result<(), String>,
) -> Result<(), String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        take(arg, &mut || args.next().ok_or_else(|| format!("{arg} needs a value")))?;
    }
    Ok(())
}

/// A number from 1 to `max`.
pub fn number(option: &str, text: &str, max: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(format!("{option} takes a number from 1 to {max}, not '{text}'")),
    }
}

/// The members of `all` that a comma-separated list names, in the order of `all`.
pub fn list<T: Copy>(text: &str, all: &[T], key: impl Fn(T) -> &'static str) -> Result<Vec<T>, String> {
    let wanted: Vec<&str> = text.split(',').collect();
    if let Some(unknown) = wanted.iter().find(|name| !all.iter().any(|&one| key(one) == **name)) {
        let known = all.iter().map(|&one| key(one)).collect::<Vec<_>>().join(", ");
        return Err(format!("'{unknown}' is not one of {known}"));
    }
    Ok(all.iter().copied().filter(|&one| wanted.contains(&key(one))).collect())
}

/// Numbers from 1 to `max`, separated by commas.
pub fn numbers(option: &str, text: &str, max: usize) -> Result<Vec<usize>, String> {
    text.split(',').map(|one| number(option, one, max)).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The words of a line.
    pub fn split(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    /// Does the error for each of these lines contain the word that is wrong in it?
    pub fn mistakes_are_named<T>(parse: fn(&[String]) -> Result<T, String>, mistakes: &[(&str, &str)]) {
        let of_all = [
            ("--fast", "'--fast'"),
            ("--json", "--json needs"),
            ("--timeout 0", "'0'"),
            ("--rounds", "--rounds needs"),
            ("--rounds 1001", "'1001'"),
        ];
        for (line, word) in of_all.iter().chain(mistakes) {
            let error = parse(&split(line)).err().unwrap_or_else(|| panic!("{line} is taken"));
            assert!(error.contains(word), "{line}: {error}");
        }
    }

    #[test]
    fn lists_name_what_is_wrong_in_them() {
        assert_eq!(numbers("--ranks", "1,16", 64), Ok(vec![1, 16]));
        for text in ["", "1,", "0", "65", "a"] {
            assert!(numbers("--ranks", text, 64).unwrap_err().contains("--ranks"), "{text}");
        }
    }
}

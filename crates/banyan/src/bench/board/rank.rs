//! What a rank of the benchmark does with the bulletin board. It is the hidden command `bench board-rank`.
use super::client::WireClient;
use std::time::{SystemTime, UNIX_EPOCH};
use sys::say;

/// What ranks do, after they have met in a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Nothing: what is counted of it is counted of all others too.
    Meet,
    /// One put, a fence, and gets of both neighbours' keys.
    TwoGets,
    /// One put, a fence, and gets of all keys.
    AllGets,
    /// One put, a fence, and two gets of the rank's own key: no board can be faster.
    TwoOwnGets,
    /// The same with as many gets as there are ranks.
    AllOwnGets,
    /// So often: a put of a new key, a fence, and gets of both neighbours' keys.
    Rounds(usize),
    /// The same, and then many gets of a key that nobody puts.
    RoundsThenAbsent(usize),
}

/// Gets of an absent key, by every rank.
pub const ABSENT_GETS: usize = 10;
/// As long as a process's address usually is.
const VALUE_BYTES: usize = 40;

impl Deed {
    /// The words of the command line.
    pub fn words(self) -> Vec<String> {
        let (name, count) = match self {
            Deed::Meet => ("meet", None),
            Deed::TwoGets => ("two", None),
            Deed::AllGets => ("all", None),
            Deed::TwoOwnGets => ("two-own", None),
            Deed::AllOwnGets => ("all-own", None),
            Deed::Rounds(count) => ("rounds", Some(count)),
            Deed::RoundsThenAbsent(count) => ("absent", Some(count)),
        };
        [Some(name.to_string()), count.map(|count| count.to_string())].into_iter().flatten().collect()
    }

    fn from_words(words: &[String]) -> Option<Deed> {
        let count = || words.get(1)?.parse().ok();
        match (words.first()?.as_str(), words.len()) {
            ("meet", 1) => Some(Deed::Meet),
            ("two", 1) => Some(Deed::TwoGets),
            ("all", 1) => Some(Deed::AllGets),
            ("two-own", 1) => Some(Deed::TwoOwnGets),
            ("all-own", 1) => Some(Deed::AllOwnGets),
            ("rounds", 2) => Some(Deed::Rounds(count()?)),
            ("absent", 2) => Some(Deed::RoundsThenAbsent(count()?)),
            _ => None,
        }
    }
}

/// Runs one rank, and prints when it began and ended.
pub fn main(words: &[String]) -> i32 {
    let Some(deed) = Deed::from_words(words) else {
        return crate::usage_error("bench board-rank is for bench board only");
    };
    match perform(deed) {
        Ok((began, ended)) => {
            say!("began_us {began}\nended_us {ended}");
            0
        }
        Err(what) => {
            eprintln!("bench board-rank: {what}");
            1
        }
    }
}

/// Microseconds since some time that all ranks of a host share.
fn now_us() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_nanos() as f64 / 1e3)
}

fn perform(deed: Deed) -> Result<(f64, f64), String> {
    let mut client = WireClient::from_env()?;
    let (rank, size) = (client.rank, client.size);
    let neighbours = [(rank + size - 1) % size, (rank + 1) % size];
    client.fence()?;
    let began = now_us();
    match deed {
        Deed::Meet => {}
        Deed::TwoGets => exchange(&mut client, 0, neighbours)?,
        Deed::AllGets => exchange(&mut client, 0, (1..=size).map(|step| (rank + step) % size))?,
        Deed::TwoOwnGets => exchange(&mut client, 0, [rank; 2])?,
        Deed::AllOwnGets => exchange(&mut client, 0, (0..size).map(|_| rank))?,
        Deed::Rounds(count) | Deed::RoundsThenAbsent(count) => {
            (0..count).try_for_each(|round| exchange(&mut client, round, neighbours))?;
        }
    }
    if matches!(deed, Deed::RoundsThenAbsent(_)) {
        for _ in 0..ABSENT_GETS {
            if client.get("a-key-that-nobody-puts")?.is_some() {
                return Err("a key that nobody puts has a value".into());
            }
        }
    }
    let ended = now_us();
    client.finalize()?;
    Ok((began, ended))
}

/// One put, a fence, and gets of what these ranks put.
fn exchange(
    client: &mut WireClient,
    round: usize,
    whose: impl IntoIterator<Item = u32>,
) -> Result<(), String> {
    client.put(&key(round, client.rank), &value(round, client.rank))?;
    client.fence()?;
    for rank in whose {
        let key = key(round, rank);
        let got = client.get(&key)?.ok_or_else(|| format!("{key} is not on the board"))?;
        if got != value(round, rank).as_bytes() {
            return Err(format!("{key} has the value {}", String::from_utf8_lossy(&got)));
        }
    }
    Ok(())
}

fn key(round: usize, rank: u32) -> String {
    format!("round-{round:04}-card-{rank:05}")
}

fn value(round: usize, rank: u32) -> String {
    format!("{:v<VALUE_BYTES$}", format!("{round}-{rank}-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deed_survives_the_command_line() {
        let deeds = [
            Deed::Meet,
            Deed::TwoGets,
            Deed::AllGets,
            Deed::TwoOwnGets,
            Deed::AllOwnGets,
            Deed::Rounds(7),
            Deed::RoundsThenAbsent(1000),
        ];
        for deed in deeds {
            assert_eq!(Deed::from_words(&deed.words()), Some(deed));
        }
        let wrong = ["", "rounds", "rounds x", "two 2"];
        for words in wrong.map(|text| text.split(' ').map(String::from).collect::<Vec<_>>()) {
            assert_eq!(Deed::from_words(&words), None, "{words:?}");
        }
    }

    #[test]
    fn values_differ_by_round_and_rank_and_have_one_length() {
        assert_eq!(value(3, 14).len(), VALUE_BYTES);
        assert_ne!(value(1, 11), value(11, 1));
        assert_ne!(key(1, 11), key(11, 1));
    }
}

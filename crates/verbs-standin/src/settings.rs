//! What tests ask for, by words: `BANYAN_TEST_STANDIN=word,word=value,...`
//!
//! | word | what it means | without it |
//! |---|---|---|
//! | `devices=N` | so many devices, `standin0` and on | 1 |
//! | `ports=N` | so many ports each | 1 |
//! | `down=PORT` | that port of every device is down at first | none |
//! | `link=ethernet`, `link=infiniband` | what ports are connected to: addresses are GIDs or LIDs | ethernet |
//! | `host=N` | whose addresses they have, up to 200 | 1 |
//! | `no-xrc`, `no-atomics` | they cannot do that | they can |
//! | `qps=N` | queue pairs of an open device; more are refused with `ENOMEM` | 4000 |
//! | `registered=BYTES` | bytes that a device may have registered; more are refused with `ENOMEM` | no limit |
//! | `inline=BYTES` | bytes that can be copied when they are posted | 512 |
//! | `sges=N` | pieces of a request | 16 |
//! | `message=BYTES` | the longest message | 1G |
//! | `cqes=N` | entries of a completion queue | 65536 |
//! | `loss=PERCENT` | datagrams that are lost | 0 |
//! | `seed=N` | which ones | 1 |
//! | `absent-ms=MS` | how long a peer that is not there is asked again, at most | 300 |
//! | `keep-completions` | completions of a queue pair stay when it is destroyed, as rxe has it, not mlx5 | they go |
//! | `trace` | completions with errors and events are told on stderr | they are not |
//!
//! Bytes may end in `K`, `M` or `G`. An unknown word is an error on stderr, and there are no devices.
use std::time::Duration;

/// The variable with the words.
pub(crate) const NAMED_BY: &str = "BANYAN_TEST_STANDIN";
/// The variable that names the directory whose processes reach each other.
pub(crate) const DIRECTORY: &str = "BANYAN_TEST_STANDIN_DIR";

/// Most devices, and ports of one.
const DEVICES_MAX: u64 = 4;
pub(crate) const PORTS_MAX: u64 = 2;

/// What ports are connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    InfiniBand,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub devices: u8,
    pub ports: u8,
    pub down: Vec<u8>,
    pub link: Link,
    pub host: u8,
    pub xrc: bool,
    pub atomics: bool,
    pub qps: u32,
    pub registered: u64,
    pub inline: u32,
    pub sges: u32,
    pub message: u32,
    pub cqes: u32,
    pub loss: u64,
    pub seed: u64,
    pub absent: Duration,
    pub keep_completions: bool,
    pub trace: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            devices: 1,
            ports: 1,
            down: Vec::new(),
            link: Link::Ethernet,
            host: 1,
            xrc: true,
            atomics: true,
            qps: 4000,
            registered: u64::MAX,
            inline: 512,
            sges: 16,
            message: 1 << 30,
            cqes: 1 << 16,
            loss: 0,
            seed: 1,
            absent: Duration::from_millis(300),
            keep_completions: false,
            trace: false,
        }
    }
}

impl Settings {
    /// The words of a test.
    pub(crate) fn parse(words: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            settings.take(word)?;
        }
        Ok(settings)
    }

    fn take(&mut self, word: &str) -> Result<(), String> {
        let number = |least, most| number(word, least, most);
        match word.split('=').next().unwrap_or(word) {
            "devices" => self.devices = number(0, DEVICES_MAX)? as u8,
            "ports" => self.ports = number(1, PORTS_MAX)? as u8,
            "down" => self.down.push(number(1, PORTS_MAX)? as u8),
            "link" => {
                self.link = match word {
                    "link=ethernet" => Link::Ethernet,
                    "link=infiniband" => Link::InfiniBand,
                    _ => return Err(format!("{word}: it is ethernet or infiniband")),
                }
            }
            "host" => self.host = number(0, 200)? as u8,
            "no-xrc" if word == "no-xrc" => self.xrc = false,
            "no-atomics" if word == "no-atomics" => self.atomics = false,
            "qps" => self.qps = number(0, 4000)? as u32,
            "registered" => self.registered = number(0, u64::MAX)?,
            "inline" => self.inline = number(0, 4096)? as u32,
            "sges" => self.sges = number(1, 64)? as u32,
            "message" => self.message = number(1, 1 << 31)? as u32,
            "cqes" => self.cqes = number(1, 1 << 20)? as u32,
            "loss" => self.loss = number(0, 100)?,
            "seed" => self.seed = number(1, u64::MAX)?,
            "absent-ms" => self.absent = Duration::from_millis(number(0, 60_000)?),
            "keep-completions" if word == "keep-completions" => self.keep_completions = true,
            "trace" if word == "trace" => self.trace = true,
            _ => return Err(format!("{word}: there is no such word")),
        }
        Ok(())
    }
}

/// The number behind the `=` of a word.
pub(crate) fn number(word: &str, least: u64, most: u64) -> Result<u64, String> {
    let text = word.split_once('=').map_or("", |(_, text)| text);
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let value = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    value
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| format!("{word}: a number from {least} to {most} is wanted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_others_refused() {
        let settings = Settings::parse("qps=3, registered=64K,link=infiniband,down=2,no-xrc").unwrap();
        assert_eq!((settings.qps, settings.registered, settings.link), (3, 65536, Link::InfiniBand));
        assert_eq!((settings.down, settings.xrc, settings.atomics), (vec![2], false, true));
        assert_eq!(Settings::parse(""), Ok(Settings::default()));
        for wrong in ["qp=3", "qps", "qps=x", "qps=-1", "link=token-ring", "no-xrc=1", "ports=3"] {
            let why = Settings::parse(wrong).unwrap_err();
            assert!(why.starts_with(wrong), "{why}");
        }
    }
}

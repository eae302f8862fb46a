//! Lists of hosts, on the command line and in files. Pure, and bounded: a range cannot ask for more hosts than
//! a job can have ranks.
use crate::spec::{HostName, RANKS_MAX};
use std::net::Ipv6Addr;

/// Most hosts of a list.
pub(crate) const HOSTS_MAX: usize = RANKS_MAX as usize;
/// Longest name of a host or user.
const NAME_BYTES_MAX: usize = 255;
/// Longest name of an interface (Linux: IFNAMSIZ, less the zero).
const INTERFACE_BYTES_MAX: usize = 15;
/// Digits of a number in a range.
const DIGITS_MAX: usize = 9;

/// A host, and how many ranks it takes before the next one is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) host: HostName,
    pub(crate) slots: Option<u32>,
}

/// Why a list is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostsError {
    #[error("a host has no name")]
    NoName,
    #[error("'{0}' is not the name of a host")]
    BadName(String),
    #[error("'{0}' is not the name of a user")]
    BadUser(String),
    #[error("'{0}' is not a number of processes of at least 1")]
    BadSlots(String),
    #[error("'[{0}]' is not a range such as [1-4,7]")]
    BadRange(String),
    #[error("a '[' or ']' in '{0}' has no partner")]
    Unbalanced(String),
    #[error("'{0}' is not understood behind a host")]
    BadWord(String),
    #[error("more than {HOSTS_MAX} hosts")]
    TooMany,
    #[error("there are no hosts in it")]
    Empty,
    #[error("line {0}: {1}")]
    Line(usize, Box<HostsError>),
}

/// `n[01-64]:8,login,me@other:2,[fe80::1%eth0]:4`.
pub(crate) fn parse_list(text: &str) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    let mut depth = 0_u32;
    let mut first = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1).ok_or_else(|| HostsError::Unbalanced(short(text)))?,
            ',' if depth == 0 => {
                parse_entry(text[first..at].trim(), None, &mut hosts)?;
                first = at + 1;
            }
            _ => {}
        }
    }
    parse_entry(text[first..].trim(), None, &mut hosts)?;
    Ok(hosts)
}

/// `n[01-64],login`, all of them names.
pub(super) fn expand_list(text: &str) -> Result<Vec<String>, HostsError> {
    Ok(parse_list(text)?.into_iter().map(|host| host.host.name).collect())
}

/// Lines of `host`, `host:2` or `host slots=2`, with `#` comments; a host may have `user@` before it.
pub(crate) fn parse_file(text: &str) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(entry) = words.next() else { continue };
        let outcome = slots_of(words).and_then(|slots| parse_entry(entry, slots, &mut hosts));
        outcome.map_err(|error| HostsError::Line(number, Box::new(error)))?;
    }
    if hosts.is_empty() { Err(HostsError::Empty) } else { Ok(hosts) }
}

fn slots_of<'t>(words: impl Iterator<Item = &'t str>) -> Result<Option<u32>, HostsError> {
    let mut slots = None;
    for word in words {
        match word.split_once('=') {
            Some(("slots", number)) => slots = Some(parse_slots(number)?),
            // An upper limit: nothing here ever goes beyond the slots unasked.
            Some(("max_slots" | "max-slots", number)) => drop(parse_slots(number)?),
            _ => return Err(HostsError::BadWord(short(word))),
        }
    }
    Ok(slots)
}

fn parse_slots(text: &str) -> Result<u32, HostsError> {
    let slots = text.parse().ok().filter(|slots| (1..=RANKS_MAX).contains(slots));
    slots.ok_or_else(|| HostsError::BadSlots(short(text)))
}

/// One entry with its ranges.
fn parse_entry(text: &str, slots: Option<u32>, hosts: &mut Vec<Host>) -> Result<(), HostsError> {
    // At the last one, as ssh does it: names of users may have their domain behind an '@'.
    let (user, place) = match text.rsplit_once('@') {
        Some((user, place)) if is_user(user) => (Some(user), place),
        Some((user, _)) => return Err(HostsError::BadUser(short(user))),
        None => (None, text),
    };
    let (name, own) = bracketed(place).unwrap_or_else(|| match place.rsplit_once(':') {
        // More than one colon: an address of IPv6.
        Some((name, number)) if !name.contains(':') => (name, Some(number)),
        _ => (place, None),
    });
    let slots = own.map(parse_slots).transpose()?.or(slots);
    if name.is_empty() {
        return Err(HostsError::NoName);
    }
    for name in expand(name, HOSTS_MAX - hosts.len())? {
        if !is_name(&name) {
            return Err(HostsError::BadName(short(&name)));
        }
        hosts.push(Host { host: HostName { name, user: user.map(String::from) }, slots });
    }
    Ok(())
}

/// An address of IPv6 in brackets, and what is behind it and a colon. Ranges have no colon between their brackets.
fn bracketed(place: &str) -> Option<(&str, Option<&str>)> {
    let (address, rest) = place.strip_prefix('[')?.split_once(']')?;
    let slots = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
    address.contains(':').then_some((address, slots))
}

/// A name, or an address. One of IPv6 may have the interface on which it is valid behind a '%'.
fn is_name(name: &str) -> bool {
    if let Some((address, interface)) = name.split_once('%') {
        return address.parse::<Ipv6Addr>().is_ok() && is_interface(interface);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('-') && name.chars().all(fits)
}

fn is_interface(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= INTERFACE_BYTES_MAX && name.chars().all(fits)
}

fn is_user(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '@');
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('-') && name.chars().all(fits)
}

/// Every name that a text with ranges stands for, at most `room` of them.
fn expand(text: &str, room: usize) -> Result<Vec<String>, HostsError> {
    let unbalanced = || HostsError::Unbalanced(short(text));
    let mut names = vec![String::new()];
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('[') {
        let (range, after) = after.split_once(']').ok_or_else(unbalanced)?;
        let values = expand_range(range, room)?;
        if names.len().saturating_mul(values.len()) > room {
            return Err(HostsError::TooMany);
        }
        let join =
            |name: &String| values.iter().map(|value| format!("{name}{plain}{value}")).collect::<Vec<_>>();
        names = names.iter().flat_map(join).collect();
        if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
            return Err(HostsError::BadName(short(text)));
        }
        rest = after;
    }
    if rest.contains(']') || names.iter().any(|name| name.contains(']')) {
        return Err(unbalanced());
    }
    if names.len() > room {
        return Err(HostsError::TooMany);
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// `01-03,7` as `01`, `02`, `03`, `7`.
fn expand_range(text: &str, room: usize) -> Result<Vec<String>, HostsError> {
    let bad = || HostsError::BadRange(short(text));
    let number = |text: &str| {
        let fits = !text.is_empty() && text.len() <= DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit());
        if fits { text.parse::<u32>().map_err(|_| bad()) } else { Err(bad()) }
    };
    let mut values = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (from, to, width) = (number(first)?, number(last)?, first.len());
        if from > to {
            return Err(bad());
        }
        if (to - from) as usize >= room.saturating_sub(values.len()) {
            return Err(HostsError::TooMany);
        }
        values.extend((from..=to).map(|value| format!("{value:0width$}")));
    }
    Ok(values)
}

/// So much of a text as a message can show.
fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<(String, Option<u32>)> {
        parse_list(text).unwrap().into_iter().map(|host| (host.host.login(), host.slots)).collect()
    }

    fn named(names: &[(&str, Option<u32>)]) -> Vec<(String, Option<u32>)> {
        names.iter().map(|(name, slots)| (name.to_string(), *slots)).collect()
    }

    #[test]
    fn ranges_keep_their_zeros() {
        let hosts = list("n[01-64]:8,login");
        assert_eq!(hosts.len(), 65);
        assert_eq!((&hosts[0], &hosts[63]), (&("n01".into(), Some(8)), &("n64".into(), Some(8))));
        assert_eq!(hosts[64], ("login".into(), None));
        assert_eq!(
            list("n[9-11,3]x"),
            named(&[("n9x", None), ("n10x", None), ("n11x", None), ("n3x", None)])
        );
        assert_eq!(list("r[1-2]n[1-2]").len(), 4);
        assert_eq!(list("::1, 10.0.0.1:2"), named(&[("::1", None), ("10.0.0.1", Some(2))]));
    }

    #[test]
    fn files_of_both_kinds_are_read() {
        let hosts = parse_file("# all\nalpha:2\n\nbeta slots=3 max_slots=4 # big\nn[1-2]\n").unwrap();
        let hosts: Vec<_> = hosts.into_iter().map(|host| (host.host.login(), host.slots)).collect();
        assert_eq!(hosts, named(&[("alpha", Some(2)), ("beta", Some(3)), ("n1", None), ("n2", None)]));
    }

    #[test]
    fn a_user_is_not_part_of_the_name() {
        let hosts = parse_list("me@n[1-2]:4,you@corp@::1,n3").unwrap();
        let parts: Vec<_> =
            hosts.iter().map(|h| (h.host.user.as_deref(), h.host.name.as_str(), h.slots)).collect();
        let (me, you) = (Some("me"), Some("you@corp"));
        assert_eq!(parts, [(me, "n1", Some(4)), (me, "n2", Some(4)), (you, "::1", None), (None, "n3", None)]);
        assert_eq!(expand_list("me@n[1-2]").unwrap(), ["n1", "n2"]);
        let file = parse_file("me@alpha slots=2\nyou@beta:3\n").unwrap();
        assert_eq!(file.iter().map(|host| host.host.login()).collect::<Vec<_>>(), ["me@alpha", "you@beta"]);
        assert_eq!(file.iter().map(|host| host.slots).collect::<Vec<_>>(), [Some(2), Some(3)]);
    }

    #[test]
    fn an_address_may_stand_in_brackets_and_name_its_interface() {
        assert_eq!(
            list("fe80::1%eth0,[fe80::2%eth0.7]:4,me@[fd00::1]:2,[fd00::2],fe80::[3-4]%ib0,[1-2]:3"),
            named(&[
                ("fe80::1%eth0", None),
                ("fe80::2%eth0.7", Some(4)),
                ("me@fd00::1", Some(2)),
                ("fd00::2", None),
                ("fe80::3%ib0", None),
                ("fe80::4%ib0", None),
                ("1", Some(3)),
                ("2", Some(3)),
            ])
        );
        let file = parse_file("[fe80::1%eth0]:4\nfe80::2%eth0 slots=2\n[fe80::3%eth0] slots=3\n").unwrap();
        assert_eq!(file.iter().map(|host| host.slots).collect::<Vec<_>>(), [Some(4), Some(2), Some(3)]);
        let error = |text: &str| parse_list(text).unwrap_err().to_string();
        for name in ["n1%eth0", "10.0.0.1%eth0", "fe80::1%", "fe80::1%eth0;x", "fe80::1%a234567890123456"] {
            assert_eq!(error(name), format!("'{name}' is not the name of a host"));
        }
        assert_eq!(error("[fe80::1%eth0]:0"), "'0' is not a number of processes of at least 1");
        assert_eq!(error("[fe80::1%eth0]4"), "'[fe80::1%eth0]' is not a range such as [1-4,7]");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| parse_list(text).unwrap_err().to_string();
        assert_eq!(error("a,,b"), "a host has no name");
        assert_eq!(error("a:0"), "'0' is not a number of processes of at least 1");
        assert_eq!(error("n[4-1]"), "'[4-1]' is not a range such as [1-4,7]");
        assert_eq!(error("n[1-2"), "a '[' or ']' in 'n[1-2' has no partner");
        assert_eq!(error("n]1["), "a '[' or ']' in 'n]1[' has no partner");
        assert_eq!(error("-oProxyCommand=x"), "'-oProxyCommand=x' is not the name of a host");
        assert_eq!(error("-l@n1"), "'-l' is not the name of a user");
        assert_eq!(error("u[1-2]@n1"), "'u[1-2]' is not the name of a user");
        assert_eq!(
            (error("@n1"), error("me@")),
            ("'' is not the name of a user".into(), "a host has no name".into())
        );
        assert_eq!(error("n[0-999999999]"), "more than 65536 hosts");
        assert_eq!(error("n[1-999][1-999]"), "more than 65536 hosts");
        let error = |text: &str| parse_file(text).unwrap_err().to_string();
        assert_eq!(error("a\nb cpus=2\n"), "line 2: 'cpus=2' is not understood behind a host");
        assert_eq!(error("# none\n"), "there are no hosts in it");
    }

    /// Whatever is written, the answer is a bounded list of names or an error.
    #[test]
    fn no_text_breaks_the_parsers() {
        const LETTERS: &[char] = &[
            'n', '@', 'a', '0', '1', '9', '[', ']', '-', ',', ':', '=', ' ', '\n', '#', 's', '.', 'é', '\0',
            '%',
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for _ in 0..20_000 {
            let length = next(24);
            let text: String = (0..length).map(|_| LETTERS[next(LETTERS.len())]).collect();
            for hosts in [parse_list(&text), parse_file(&text)].into_iter().flatten() {
                assert!(!hosts.is_empty() && hosts.len() <= HOSTS_MAX, "{text:?}");
                let is_sound = |host: &Host| {
                    is_name(&host.host.name)
                        && host.host.user.as_deref().is_none_or(is_user)
                        && host.slots != Some(0)
                };
                assert!(hosts.iter().all(is_sound), "{text:?}");
            }
        }
    }
}

//! How two processes of different jobs tell each other who they are, over a stream: the name of a port, and the talk.
//!
//! A port's name has the address where its owner listens and a key. Whoever has the name has the key, and nobody else
//! is believed: each side greets with a nonce, and the one message that each then sends carries a keyed hash over both
//! nonces and all its bytes. So what was recorded is worth nothing in another talk, and a side's own message is not
//! taken for the other's.
//!
//! ```text
//! greeting                 message
//! bytes  field             bytes  field
//!     4  "BnyM"                4  length of what is said
//!     4  version              16  tag
//!    16  nonce              rest  what is said
//! ```
//! Nothing is read beyond the message: the stream may be the program's own (`MPI_Comm_join`).
//!
//! On a stream inside a host, which nobody can record, who calls need not hear a nonce first: it greets and says its
//! message at once, with a tag over its own nonce alone, and the answer is the other side's greeting and message.
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use constant_time_eq::constant_time_eq;
use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;

/// What can be said at most.
pub const SAID_BYTES_MAX: usize = 64 << 20;
/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

const PREFIX: &str = "banyan-port";
/// Bytes of chance in the name on the owner's host.
const LOCAL_NAME_BYTES: usize = 16;
const MAGIC: &[u8; 4] = b"BnyM";
const VERSION: u32 = 1;
const NONCE_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
const GREETING_BYTES: usize = 8 + NONCE_BYTES;
const HEAD_BYTES: usize = 4 + TAG_BYTES;

/// Where a process waits for others, and what they must know.
#[derive(Clone, PartialEq, Eq)]
pub struct Port {
    /// Where it listens.
    pub addr: SocketAddr,
    /// What proves that somebody was told the name.
    pub key: [u8; KEY_BYTES],
}

impl Port {
    /// The name by which its owner is met on its own host. Who sees it does not learn the key.
    pub fn local_name(&self) -> String {
        let hash = blake3::keyed_hash(&self.key, b"the owner's name on its host");
        let mut name = String::from(PREFIX);
        name.push('-');
        hash.as_bytes()[..LOCAL_NAME_BYTES].iter().for_each(|byte| name += &format!("{byte:02x}"));
        name
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port({}, ..)", self.addr)
    }
}

/// Not the name of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not the name of a port of Banyan's")]
pub struct NoPort;

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}@{}@", self.addr)?;
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Port {
    type Err = NoPort;

    fn from_str(text: &str) -> Result<Self, NoPort> {
        let mut parts = text.trim().split('@');
        let (Some(PREFIX), Some(addr), Some(key), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NoPort);
        };
        let addr = addr.parse().map_err(|_| NoPort)?;
        if key.len() != 2 * KEY_BYTES || !key.is_ascii() {
            return Err(NoPort);
        }
        let mut bytes = [0; KEY_BYTES];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&key[2 * at..2 * at + 2], 16).map_err(|_| NoPort)?;
        }
        Ok(Port { addr, key: bytes })
    }
}

/// Why a talk ends without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TalkError {
    /// Something else altogether.
    #[error("it does not begin like another Banyan")]
    Magic,
    /// Another Banyan's.
    #[error("it speaks version {0} instead of {VERSION}")]
    Version(u32),
    /// It repeats what this side says.
    #[error("it is an echo")]
    Echo,
    /// Longer than anything that is said.
    #[error("a message of {0} bytes")]
    Length(usize),
    /// It does not know the key.
    #[error("it does not hold the key of the port")]
    Tag,
}

/// One side of a talk.
#[derive(Clone)]
pub struct Talk {
    key: [u8; KEY_BYTES],
    nonce: [u8; NONCE_BYTES],
    theirs: Option<[u8; NONCE_BYTES]>,
    /// What was read of the part that is being read.
    part: Vec<u8>,
    /// Length and tag of their message.
    head: Option<(usize, [u8; TAG_BYTES])>,
    /// The nonce that their tag is over beside their own.
    bound_to: [u8; NONCE_BYTES],
    over: bool,
}

/// Stands for the nonce of who has not greeted yet.
const NO_NONCE: [u8; NONCE_BYTES] = [0; NONCE_BYTES];

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Talk(greeted: {}, over: {})", self.theirs.is_some(), self.over)
    }
}

impl Talk {
    /// Begins; `out` gets the greeting. The nonce must be one that nobody had before.
    pub fn new(key: [u8; KEY_BYTES], nonce: [u8; 16], out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&nonce);
        Talk { key, nonce, theirs: None, part: Vec::new(), head: None, bound_to: nonce, over: false }
    }

    /// The other side calls on a stream that nobody can record, and speaks [first](Self::say_first).
    pub fn expect_first(&mut self) {
        self.bound_to = NO_NONCE;
    }

    /// Has the other side greeted? Then something can be said.
    pub fn is_greeted(&self) -> bool {
        self.theirs.is_some()
    }

    /// How many bytes to read next, at most; 0 when all is heard.
    pub fn wants(&self) -> usize {
        let whole = match (&self.theirs, &self.head) {
            _ if self.over => return 0,
            (None, _) => GREETING_BYTES,
            (_, None) => HEAD_BYTES,
            (_, Some((len, _))) => *len,
        };
        whole - self.part.len()
    }

    /// Says something, once, when the other side has greeted.
    pub fn say(&self, what: &[u8], out: &mut Vec<u8>) {
        self.say_to(&self.theirs.expect("the other side has greeted"), what, out);
    }

    /// Says something, once, before the other side has greeted, which [expects](Self::expect_first) that.
    pub fn say_first(&self, what: &[u8], out: &mut Vec<u8>) {
        self.say_to(&NO_NONCE, what, out);
    }

    fn say_to(&self, theirs: &[u8; NONCE_BYTES], what: &[u8], out: &mut Vec<u8>) {
        assert!(what.len() <= SAID_BYTES_MAX, "{} bytes are more than can be said", what.len());
        out.extend_from_slice(&(what.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.tag(&self.nonce, theirs, what));
        out.extend_from_slice(what);
    }

    /// Takes what was read, at most as much as it [wants](Self::wants). Gives what the other side says, when it is
    /// complete and true.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, TalkError> {
        self.part.extend_from_slice(bytes);
        while self.wants() == 0 && !self.over {
            let part = core::mem::take(&mut self.part);
            match (self.theirs, self.head) {
                (None, _) => self.theirs = Some(self.greeting(&part)?),
                (Some(_), None) => self.head = Some(head(&part)?),
                (Some(theirs), Some((_, tag))) => {
                    self.over = true;
                    if !constant_time_eq(&tag, &self.tag(&theirs, &self.bound_to, &part)) {
                        return Err(TalkError::Tag);
                    }
                    return Ok(Some(part));
                }
            }
        }
        Ok(None)
    }

    /// A key that only both sides know, when the other side was heard.
    pub fn pair_key(&self) -> Option<[u8; KEY_BYTES]> {
        let theirs = self.theirs.filter(|_| self.over)?;
        let (low, high) = (self.nonce.min(theirs), self.nonce.max(theirs));
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"pair").update(&low).update(&high);
        Some(*hasher.finalize().as_bytes())
    }

    fn greeting(&self, part: &[u8]) -> Result<[u8; NONCE_BYTES], TalkError> {
        let (head, nonce) = part.split_at(8);
        if head[..4] != *MAGIC {
            return Err(TalkError::Magic);
        }
        let version = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        if version != VERSION {
            return Err(TalkError::Version(version));
        }
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().map_err(|_| TalkError::Magic)?;
        if nonce == self.nonce { Err(TalkError::Echo) } else { Ok(nonce) }
    }

    fn tag(&self, by: &[u8; NONCE_BYTES], to: &[u8; NONCE_BYTES], what: &[u8]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(MAGIC).update(by).update(to).update(what);
        *hasher.finalize().as_bytes().first_chunk().expect("a hash is longer than a tag")
    }
}

fn head(part: &[u8]) -> Result<(usize, [u8; TAG_BYTES]), TalkError> {
    let (len, tag) = part.split_at(4);
    let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    if len > SAID_BYTES_MAX {
        return Err(TalkError::Length(len));
    }
    Ok((len, tag.try_into().map_err(|_| TalkError::Length(len))?))
}

/// A name of a service as it can stand in a line of PMI: what would end a word is written as its number.
pub fn service_word(name: &str) -> String {
    let plain = |c: &char| c.is_ascii_graphic() && !matches!(c, '%' | '=' | ';' | '\\');
    let mut word = String::new();
    for c in name.chars() {
        match c {
            c if plain(&c) => word.push(c),
            c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| word += &format!("%{byte:02x}")),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec;

    /// Reads what is there, in pieces of at most `most` bytes; gives what was heard.
    fn hear(talk: &mut Talk, from: &mut Vec<u8>, most: usize) -> Result<Option<Vec<u8>>, TalkError> {
        while !from.is_empty() && talk.wants() > 0 {
            let piece: Vec<u8> = from.drain(..talk.wants().min(most).min(from.len())).collect();
            if let Some(said) = talk.push(&piece)? {
                return Ok(Some(said));
            }
        }
        Ok(None)
    }

    fn pair(keys: [u8; 2]) -> ([Talk; 2], [Vec<u8>; 2]) {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let talks = [Talk::new([keys[0]; 32], [1; 16], &mut a), Talk::new([keys[1]; 32], [2; 16], &mut b)];
        (talks, [a, b])
    }

    #[test]
    fn each_hears_what_the_other_says_and_nothing_behind_it() {
        for most in [1, 7, 1000] {
            let ([mut a, mut b], [mut from_a, mut from_b]) = pair([9, 9]);
            assert_eq!(
                (hear(&mut a, &mut from_b, most), hear(&mut b, &mut from_a, most)),
                (Ok(None), Ok(None))
            );
            a.say(b"who I am", &mut from_a);
            b.say(b"", &mut from_b);
            from_a.extend_from_slice(b"the program's");
            assert_eq!(hear(&mut b, &mut from_a, most), Ok(Some(b"who I am".to_vec())));
            assert_eq!(from_a, b"the program's");
            // Nothing said is something heard: its tag is true.
            assert_eq!(a.pair_key(), None);
            assert_eq!(hear(&mut a, &mut from_b, most), Ok(Some(vec![])));
            assert!(a.pair_key().is_some() && a.pair_key() == b.pair_key());
        }
    }

    #[test]
    fn who_calls_inside_a_host_speaks_first_and_is_answered() {
        for most in [1, 1000] {
            let ([mut a, mut b], [mut from_a, mut from_b]) = pair([9, 9]);
            a.say_first(b"who I am", &mut from_a);
            let mut recorded = from_a.clone();
            b.expect_first();
            assert_eq!(hear(&mut b, &mut from_a, most), Ok(Some(b"who I am".to_vec())));
            b.say(b"who we are", &mut from_b);
            assert_eq!(hear(&mut a, &mut from_b, most), Ok(Some(b"who we are".to_vec())));
            assert!(a.pair_key().is_some() && a.pair_key() == b.pair_key());
            // On a stream that can be recorded it is worth nothing.
            let mut other = Talk::new([9; 32], [3; 16], &mut Vec::new());
            assert_eq!(hear(&mut other, &mut recorded, most), Err(TalkError::Tag));
        }
        let ([a, mut b], [mut from_a, _]) = pair([9, 8]);
        a.say_first(b"who I am", &mut from_a);
        b.expect_first();
        assert_eq!(hear(&mut b, &mut from_a, 99), Err(TalkError::Tag));
    }

    #[test]
    fn who_does_not_hold_the_key_is_not_believed() {
        let ([mut a, mut b], [mut from_a, mut from_b]) = pair([9, 8]);
        assert_eq!(hear(&mut a, &mut from_b, 99), Ok(None));
        assert_eq!(hear(&mut b, &mut from_a, 99), Ok(None));
        a.say(b"who I am", &mut from_a);
        assert_eq!(hear(&mut b, &mut from_a, 99), Err(TalkError::Tag));
    }

    #[test]
    fn an_echo_and_a_recording_are_found_out() {
        let ([mut a, mut b], [mut from_a, mut from_b]) = pair([9, 9]);
        let mut echo = from_a.clone();
        assert_eq!(hear(&mut a.clone(), &mut echo, 99), Err(TalkError::Echo));
        hear(&mut a, &mut from_b, 99).unwrap();
        hear(&mut b, &mut from_a, 99).unwrap();
        a.say(b"who I am", &mut from_a);
        // In another talk of B the nonce is another one.
        let mut out = Vec::new();
        let mut later = Talk::new([9; 32], [3; 16], &mut out);
        let mut recorded = vec![];
        Talk::new([9; 32], [1; 16], &mut recorded);
        recorded.extend_from_slice(&from_a);
        assert_eq!(hear(&mut later, &mut recorded, 99), Err(TalkError::Tag));
        let mut nonsense = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        assert_eq!(hear(&mut b.clone(), &mut nonsense.clone(), 99), Err(TalkError::Length(0x2054_4547)));
        assert_eq!(
            hear(&mut Talk::new([9; 32], [3; 16], &mut out), &mut nonsense, 99),
            Err(TalkError::Magic)
        );
    }

    #[test]
    fn the_name_on_a_host_is_the_ports_own_and_keeps_the_key() {
        let port = |key: u8| Port { addr: SocketAddr::from(([127, 0, 0, 1], 1)), key: [key; 32] };
        let (one, other) = (port(1).local_name(), port(2).local_name());
        assert!(one == port(1).local_name() && one != other);
        assert!(one.len() <= 64 && !one.contains("0101"), "{one}");
    }

    #[test]
    fn names_of_services_are_one_word() {
        assert_eq!(service_word("MyTest-1"), "MyTest-1");
        assert_eq!(service_word("a b=c;%é"), "a%20b%3dc%3b%25%c3%a9");
    }

    proptest! {
        #[test]
        fn a_port_is_what_its_name_says(v6 in any::<bool>(), ip in any::<[u8; 16]>(), port in any::<u16>(), key in any::<[u8; 32]>()) {
            let addr = match v6 {
                true => SocketAddr::new(core::net::IpAddr::from(ip), port),
                false => SocketAddr::new(core::net::IpAddr::from([ip[0], ip[1], ip[2], ip[3]]), port),
            };
            let port = Port { addr, key };
            let name = port.to_string();
            prop_assert!(name.len() < 200 && !name.contains([' ', '=', ';']));
            prop_assert_eq!(name.parse::<Port>(), Ok(port));
        }

        #[test]
        fn other_texts_are_no_ports(text in "\\PC{0,120}") {
            prop_assert_eq!(text.parse::<Port>().is_ok(), false);
        }
    }
}

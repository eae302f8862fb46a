//! What is in an agent's poll set, and under which number.

/// Tokens of the poll set: what it is, and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Signals,
    Uplink,
    Child(u32),
    Pmi(u32),
    Out(u32),
    Err(u32),
    /// Of this job.
    Failures(u32),
    Listener(u32),
    Knock(u32),
    StarterIn(u32),
    StarterErr(u32),
    /// The standard input of a rank.
    Input(u32),
    Warden,
    /// What the data server of this job asks.
    ServerPmi(u32),
    /// That it can be reached.
    ServerReady(u32),
}

impl Token {
    pub(crate) fn pack(self) -> u64 {
        let (kind, index) = match self {
            Token::Signals => (0, 0),
            Token::Uplink => (1, 0),
            Token::Child(index) => (2, index),
            Token::Pmi(index) => (3, index),
            Token::Out(index) => (4, index),
            Token::Err(index) => (5, index),
            Token::Failures(job) => (6, job),
            Token::Listener(index) => (7, index),
            Token::Knock(index) => (8, index),
            Token::StarterIn(index) => (9, index),
            Token::StarterErr(index) => (10, index),
            Token::Input(index) => (11, index),
            Token::Warden => (12, 0),
            Token::ServerPmi(job) => (13, job),
            Token::ServerReady(job) => (14, job),
        };
        kind << 32 | u64::from(index)
    }

    pub(super) fn unpack(token: u64) -> Option<Token> {
        let index = token as u32;
        Some(match token >> 32 {
            0 => Token::Signals,
            1 => Token::Uplink,
            2 => Token::Child(index),
            3 => Token::Pmi(index),
            4 => Token::Out(index),
            5 => Token::Err(index),
            6 => Token::Failures(index),
            7 => Token::Listener(index),
            8 => Token::Knock(index),
            9 => Token::StarterIn(index),
            10 => Token::StarterErr(index),
            11 => Token::Input(index),
            12 => Token::Warden,
            13 => Token::ServerPmi(index),
            14 => Token::ServerReady(index),
            _ => return None,
        })
    }
}

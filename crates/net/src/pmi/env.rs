//! What the launcher left in the environment, and the descriptor behind it.
use super::PmiError;
use super::board::Board;
use proto::ids::Rank;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::str::FromStr;

/// How the launcher can be reached.
#[derive(Debug)]
pub(super) enum Contact {
    /// An inherited stream (`PMI_FD`), with rank and size beside it.
    Descriptor { fd: OwnedFd, rank: Rank, size: u32 },
    /// An address (`PMI_PORT`), connected; the size comes over the wire.
    Address { stream: TcpStream, rank: Rank },
}

/// What Banyan's own agent says in the environment already.
#[derive(Debug, Default)]
pub(super) struct AgentFacts {
    pub(super) kvs_name: Option<String>,
    pub(super) mapping: Option<String>,
    pub(super) board: Board,
}

/// What Banyan's own agent left, if this process is one of its ranks.
pub(super) fn agent(get: impl Fn(&str) -> Option<String>) -> Result<Option<AgentFacts>, PmiError> {
    if get("BANYAN_NODE").is_none() {
        return Ok(None);
    }
    let board = Board::from_variables(&get)?;
    Ok(Some(AgentFacts { kvs_name: get("PMI_JOBID"), mapping: get("BANYAN_MAPPING"), board }))
}

/// Which version of PMI to ask for (`BANYAN_PMI_VERSION`): 1 unless the user wants 2.
pub(super) fn version(get: impl Fn(&str) -> Option<String>) -> Result<u32, PmiError> {
    const NAME: &str = "BANYAN_PMI_VERSION";
    match get(NAME).as_deref().map(str::trim) {
        None | Some("1") => Ok(1),
        Some("2") => Ok(2),
        Some(_) => Err(wrong(&get, NAME, "it can be 1 or 2".into())),
    }
}

/// Reads the variables and opens what they name. An inherited stream is preferred to an address.
pub(super) fn contact(get: impl Fn(&str) -> Option<String>) -> Result<Option<Contact>, PmiError> {
    if get("PMI_FD").is_some() {
        return descriptor(&get).map(Some);
    }
    get("PMI_PORT").map(|port| address(&get, port)).transpose()
}

fn descriptor(get: &impl Fn(&str) -> Option<String>) -> Result<Contact, PmiError> {
    let number: i32 = number(get, "PMI_FD")?;
    let rank: u32 = self::number(get, "PMI_RANK")?;
    let size: u32 = self::number(get, "PMI_SIZE")?;
    if rank >= size {
        return Err(wrong(get, "PMI_RANK", format!("ranks of this job are below PMI_SIZE={size}")));
    }
    let fd = sys::inherit::inherited(number).map_err(|error| {
        wrong(
            get,
            "PMI_FD",
            format!("cannot use the descriptor that the launcher should have left ({error})"),
        )
    })?;
    Ok(Contact::Descriptor { fd, rank: Rank(rank), size })
}

fn address(get: &impl Fn(&str) -> Option<String>, port: String) -> Result<Contact, PmiError> {
    let rank = Rank(number(get, "PMI_ID")?);
    let stream = TcpStream::connect(&port)
        .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
        .map_err(|error| wrong(get, "PMI_PORT", format!("cannot connect to the launcher ({error})")))?;
    Ok(Contact::Address { stream, rank })
}

fn number<T: FromStr>(get: &impl Fn(&str) -> Option<String>, name: &'static str) -> Result<T, PmiError> {
    let parsed = get(name).and_then(|value| value.trim().parse().ok());
    parsed.ok_or_else(|| wrong(get, name, "the launcher should have set it to a number".into()))
}

fn wrong(get: &impl Fn(&str) -> Option<String>, name: &'static str, why: String) -> PmiError {
    PmiError::Environment { name, value: get(name).unwrap_or_default(), why }
}

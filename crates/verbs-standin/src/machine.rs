//! States of queue pairs, and which attributes a move between two of them needs and allows: the table of the specification,
//! as Linux has it.
use std::ffi::c_int;
use verbs::ffi::*;

const CUR_STATE: u32 = 1 << 1;
const SQD_EVENT: u32 = 1 << 2;
const ALT_PATH: u32 = 1 << 14;
const PATH_MIG: u32 = 1 << 18;

/// Which kind of queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rc,
    Ud,
    XrcSend,
    XrcReceive,
}

impl Kind {
    pub(crate) fn of(number: Enum) -> Option<Kind> {
        match number {
            IBV_QPT_RC => Some(Kind::Rc),
            IBV_QPT_UD => Some(Kind::Ud),
            IBV_QPT_XRC_SEND => Some(Kind::XrcSend),
            IBV_QPT_XRC_RECV => Some(Kind::XrcReceive),
            _ => None,
        }
    }

    /// Has it a send queue?
    pub(crate) fn sends(self) -> bool {
        self != Kind::XrcReceive
    }
}

/// State of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Error,
}

impl State {
    pub(crate) fn of(number: Enum) -> Option<State> {
        const ALL: [State; 7] =
            [State::Reset, State::Init, State::Rtr, State::Rts, State::Sqd, State::Sqe, State::Error];
        ALL.into_iter().find(|state| state.number() == number)
    }

    pub(crate) fn number(self) -> Enum {
        match self {
            State::Reset => IBV_QPS_RESET,
            State::Init => IBV_QPS_INIT,
            State::Rtr => IBV_QPS_RTR,
            State::Rts => IBV_QPS_RTS,
            State::Sqd => IBV_QPS_SQD,
            State::Sqe => IBV_QPS_SQE,
            State::Error => IBV_QPS_ERR,
        }
    }

    /// Does a queue pair in it take what comes?
    pub(crate) fn receives(self) -> bool {
        matches!(self, State::Rtr | State::Rts | State::Sqd | State::Sqe)
    }
}

/// May a queue pair of this kind move so with these attributes? `EINVAL` if not.
pub(crate) fn check_move(kind: Kind, from: State, to: State, mask: u32) -> Result<(), c_int> {
    let (needed, allowed) = attributes(kind, from, to).ok_or(libc::EINVAL)?;
    let given = mask & !IBV_QP_STATE;
    let is_right = given & needed == needed && given & !(needed | allowed) == 0;
    if is_right { Ok(()) } else { Err(libc::EINVAL) }
}

/// What a move needs, and what may be given besides. `None`: there is no such move.
fn attributes(kind: Kind, from: State, to: State) -> Option<(u32, u32)> {
    use State::*;
    let ud = kind == Kind::Ud;
    let access = if ud { IBV_QP_QKEY } else { IBV_QP_ACCESS_FLAGS };
    let path = ALT_PATH | IBV_QP_ACCESS_FLAGS | PATH_MIG;
    Some(match (from, to) {
        (_, Reset | Error) => (0, 0),
        (Reset, Init) => (IBV_QP_PKEY_INDEX | IBV_QP_PORT | access, 0),
        (Init, Init) => (0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | access),
        (Init, Rtr) if ud => (0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
        (Init, Rtr) => (to_rtr(kind), ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX),
        (Rtr, Rts) if ud => (IBV_QP_SQ_PSN, CUR_STATE | IBV_QP_QKEY),
        (Rtr, Rts) => (to_rts(kind), CUR_STATE | path | rnr_timer(kind)),
        (Rts | Sqe, Rts) | (Sqd, Rts) if ud => (0, CUR_STATE | IBV_QP_QKEY),
        (Rts | Sqd, Rts) => (0, CUR_STATE | path | rnr_timer(kind)),
        (Rts, Sqd) => (0, SQD_EVENT),
        (Sqd, Sqd) => (0, IBV_QP_PKEY_INDEX | access),
        _ => return None,
    })
}

fn to_rtr(kind: Kind) -> u32 {
    let all = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    let answers = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if kind == Kind::XrcSend { all } else { all | answers }
}

fn to_rts(kind: Kind) -> u32 {
    let all = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;
    let asks = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if kind == Kind::XrcReceive { all } else { all | asks }
}

/// Only who answers tells others to wait.
fn rnr_timer(kind: Kind) -> u32 {
    if kind == Kind::XrcSend { 0 } else { IBV_QP_MIN_RNR_TIMER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_need_their_attributes_and_no_others() {
        let init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        assert_eq!(check_move(Kind::Rc, State::Reset, State::Init, init | IBV_QP_ACCESS_FLAGS), Ok(()));
        assert!(check_move(Kind::Rc, State::Reset, State::Init, init).is_err());
        assert!(check_move(Kind::Ud, State::Reset, State::Init, init | IBV_QP_ACCESS_FLAGS).is_err());
        assert!(check_move(Kind::Rc, State::Reset, State::Rtr, IBV_QP_STATE | to_rtr(Kind::Rc)).is_err());
        assert!(check_move(Kind::XrcSend, State::Init, State::Rtr, to_rtr(Kind::Rc)).is_err());
        assert_eq!(check_move(Kind::XrcSend, State::Init, State::Rtr, to_rtr(Kind::XrcSend)), Ok(()));
        for from in (0..7).filter_map(State::of) {
            assert_eq!(check_move(Kind::Rc, from, State::Error, IBV_QP_STATE), Ok(()));
            assert_eq!(check_move(Kind::Ud, from, State::Reset, IBV_QP_STATE), Ok(()));
        }
        assert!(check_move(Kind::Rc, State::Error, State::Init, init | IBV_QP_ACCESS_FLAGS).is_err());
    }
}

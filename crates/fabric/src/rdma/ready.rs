//! Whether a peer receives yet. See the provider's head.
use super::*;

/// Beside a datagram that says that its sender receives, and beside one that answers it.
const READY: u32 = 1;
const READY_TOO: u32 = 2;
/// Beside one that says that its sender's end is broken.
const BROKEN: u32 = 3;
/// Beside one that says that what its receiver sends to is not there any more.
const GONE: u32 = 4;
/// Addresses of peers that are kept.
const ADDRESSES_MAX: usize = 1024;
/// What such a datagram says: the queue pair that it is for, and that of the sender.
const LETTER_BYTES: usize = 8;
/// How long an answer is waited for, at first and at most.
const WAIT_NS: u64 = 10_000_000;
const WAIT_NS_MAX: u64 = 1_000_000_000;

/// What is known of the peer's end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meeting {
    /// Does it receive?
    pub open: bool,
    /// Has this side asked?
    asks: bool,
    /// Were both ends made for each other by what a board says? Then the peer is asked whether it is there when something is to be
    /// sent to it.
    later: bool,
    /// Where it is: whom, and which queue pair there.
    peer: Option<(VerbsSection, u32)>,
    /// When it is told again that this side is there, and how long that is from the last time.
    pub due_ns: Option<u64>,
    wait_ns: u64,
}

impl Meeting {
    pub(super) fn new(role: Role) -> Self {
        Meeting { asks: role == Role::Asks, ..Meeting::default() }
    }

    /// Of one that was made before its peer was known.
    pub(super) fn ahead() -> Self {
        Meeting { asks: true, later: true, ..Meeting::default() }
    }

    /// The peer's parameters are known. If it has answered, it receives.
    pub(super) fn met(&mut self, peer: (VerbsSection, u32), answered: bool) {
        (self.peer, self.open) = (Some(peer), self.open || answered);
    }
}

impl Rdma {
    /// This side sends and receives: tells the peer.
    pub(super) fn say_ready(&mut self, index: u32) {
        let now_ns = self.now_ns;
        let Some(link) = self.links.at_mut(index) else { return };
        if link.meeting.open {
            // It waits for the first word.
            link.tell = true;
            self.tell_if_needed(index);
        } else if link.meeting.asks && !link.meeting.later {
            // Two requests have crossed.
            (link.meeting.due_ns, link.meeting.wait_ns) = (Some(now_ns + WAIT_NS), WAIT_NS);
            self.send_ready(index, READY);
        }
    }

    /// Something is to be sent to a peer that may not be there yet: it is asked, once.
    #[cold]
    pub(super) fn ask_if_later(&mut self, index: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        let connected = matches!(link.state, QpState::ReadyToSend | QpState::SendDrained);
        if connected && !link.meeting.open && std::mem::take(&mut link.meeting.later) {
            self.say_ready(index);
        }
    }

    fn send_ready(&mut self, index: u32, kind: u32) {
        let Some(link) = self.links.at_mut(index) else { return };
        let Some((section, number)) = link.meeting.peer else { return };
        let mut letter = [0; LETTER_BYTES];
        letter[..4].copy_from_slice(&number.to_le_bytes());
        letter[4..].copy_from_slice(&link.name.to_le_bytes());
        // That it receives is sent again if it is lost.
        let _ = self.send_letter(&section, Some(kind), &letter);
    }

    /// This side's end has broken. (If that gets lost, the peer hears it from its device when it sends something.)
    pub(super) fn say_broken(&mut self, index: u32) {
        self.send_ready(index, BROKEN);
    }

    /// A message came for a connection that is not there, by a target that others use: no device tells its sender. (If this gets
    /// lost, the next message has it said again.)
    #[cold]
    pub(super) fn say_gone(&mut self, target: u32, name: u32) {
        let Some(section) = self.sender_to(target) else { return };
        let mut letter = [0; LETTER_BYTES];
        letter[..4].copy_from_slice(&name.to_le_bytes());
        letter[4..].copy_from_slice(&(self.section.nonce as u32).to_le_bytes());
        let _ = self.send_letter(&section, Some(GONE), &letter);
    }

    /// What a connection sends to is not there, the peer says. One that is being closed may hear that.
    fn hear_gone(&mut self, name: u32, peer: u32) {
        let is_it = |link: &Link| {
            let half = link.half().is_some_and(|half| half.to == name && half.peer as u32 == peer);
            half && link.state == QpState::ReadyToSend
        };
        let found = self.links.iter().find(|(_, link)| is_it(link)).map(|(index, _)| index);
        if let Some(index) = found {
            let why = BreakReason::Device { device: self.device(), why: "the peer's end is gone".into() };
            self.break_link(index, why);
        }
    }

    /// A datagram about this came.
    pub(super) fn hear_ready(&mut self, kind: u32, letter: &[u8]) {
        let Ok(letter) = <&[u8; LETTER_BYTES]>::try_from(letter) else { return };
        let word = |at: usize| u32::from_le_bytes(letter[at..at + 4].try_into().expect("four bytes"));
        if kind == GONE {
            return self.hear_gone(word(0), word(4));
        }
        let Some(index) = self.numbers.get(&word(0)).copied() else { return };
        let Some(link) = self.links.at_mut(index) else { return };
        let is_it = link.meeting.peer.is_some_and(|(_, number)| number == word(4));
        if kind == BROKEN {
            if is_it {
                let why = BreakReason::Device { device: self.device(), why: "the peer's end broke".into() };
                self.break_link(index, why);
            }
            return;
        }
        // Who is not there yet will say so itself, and is answered then.
        if !is_it || !matches!(link.state, QpState::ReadyToSend | QpState::SendDrained) {
            return;
        }
        (link.meeting.open, link.meeting.due_ns) = (true, None);
        if kind == READY {
            self.send_ready(index, READY_TOO);
        }
        self.tell_if_needed(index);
    }

    /// When [`Rdma::tick`] is due.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.links.iter().filter_map(|(_, link)| link.meeting.due_ns).min()
    }

    pub(super) fn tick_meetings(&mut self) {
        let now_ns = self.now_ns;
        let is_due = |(index, link): (u32, &Link)| {
            link.meeting.due_ns.is_some_and(|due_ns| due_ns <= now_ns).then_some(index)
        };
        let due: Vec<u32> = self.links.iter().filter_map(is_due).collect();
        for index in due {
            if let Some(link) = self.links.at_mut(index) {
                link.meeting.wait_ns = (2 * link.meeting.wait_ns).min(WAIT_NS_MAX);
                link.meeting.due_ns = Some(now_ns + link.meeting.wait_ns);
            }
            self.send_ready(index, READY);
        }
    }

    /// Sends a datagram, with a tag that only who holds the key can make.
    pub(super) fn send_letter(
        &mut self,
        to: &VerbsSection,
        kind: Option<u32>,
        bytes: &[u8],
    ) -> Result<Sent, ControlError> {
        if self.down_since.is_some_and(|since| since.elapsed() > PORT_PATIENCE) {
            let why = format!("the port has been down for {} s", PORT_PATIENCE.as_secs());
            return Err(ControlError::Device { device: self.device(), why });
        }
        let secret = self.secrets.with(to.nonce).ok_or(ReachError::NoKey)?;
        let sealed = secret.datagram(to.nonce, bytes);
        let device = self.device();
        let refused = |error| ControlError::Device { device, why: words(&error) };
        if !self.addresses.contains_key(to) {
            // Of those that datagrams went to long ago, none are kept for ever. (None may be in use.)
            if self.addresses.len() >= ADDRESSES_MAX && self.outbox.is_silent() {
                self.addresses.clear();
            }
            match Ah::new(&self.pd, &self.address_of(to)) {
                Ok(ah) => drop(self.addresses.insert(*to, ah)),
                Err(error) => return Err(refused(error)),
            }
        }
        self.post_datagram(to, kind, &sealed).map_err(refused)
    }
}

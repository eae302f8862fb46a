//! The moves of one connection: the old state and an input give the new state, and actions.
use super::{Again, Answer, Input, Link, Local, PeerCloses, Refusal, Remote, State, Target, Tries};
use crate::ids::{Peer, PeerIx};
use crate::wireup::budget::{Claim, Places};
use crate::wireup::pace::Pace;
use crate::wireup::plant::{Plant, Planted};
use crate::wireup::policy::Order;
use crate::wireup::{Action, Card, Config, Epoch, Medium, Message, MessageKind, Params, Stats};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// What all connections of a process share.
#[derive(Clone, Debug)]
pub(in crate::wireup) struct Common<W> {
    pub config: Config,
    pub actions: VecDeque<Action<W>>,
    pub next_epoch: Epoch,
    pub pace: Pace,
    pub places: Places,
    pub stats: Stats,
    pub planted: Planted,
}

/// One peer at one moment.
pub(in crate::wireup) struct Pair<'a, W> {
    pub ix: PeerIx,
    pub peer: Peer,
    /// The peer's last connection that was closed.
    pub closed: &'a mut Option<Epoch>,
    pub now_ns: u64,
    pub common: &'a mut Common<W>,
}

impl<W: Clone> Pair<'_, W> {
    /// The one place where a connection changes.
    pub(in crate::wireup) fn step(&mut self, state: State<W>, input: Input<W>) -> State<W> {
        match (state, input) {
            (State::Failed { why }, input) => self.failed(why, &input),
            (state, Input::Broken(why)) => self.fail(&state, why),
            (State::Idle, Input::Need) => self.needed(),
            (State::Idle | State::Addressing { .. }, Input::Request(message)) => {
                self.asked(Remote::from(&message))
            }
            (State::Addressing { since_ns }, Input::Card(card)) => {
                self.found(card, Tries { since_ns, attempts: 0 })
            }
            (state @ (State::Idle | State::Addressing { .. }), Input::Announce(card)) => {
                self.announced(state, card)
            }
            (State::Idle, Input::Ahead) => self.ahead(),
            (State::Preparing { target: Target::Ahead { .. }, tries }, Input::Need) => {
                State::Preparing { target: Target::Ahead { needed: true }, tries }
            }
            (State::Preparing { target, tries }, Input::Request(message)) => {
                State::Preparing { target: target.asked(Remote::from(&message)), tries }
            }
            (State::Preparing { target, .. }, Input::QpReady(params, medium)) => {
                self.prepared(target, params, medium)
            }
            (State::Preparing { target, tries }, Input::QpRefused(why, refusal)) => {
                self.refused(target, tries, why, refusal)
            }
            (State::Starved { target, tries, .. }, Input::Request(message)) => {
                self.prepare(target.asked(Remote::from(&message)), tries)
            }
            (State::Starved { target, tries, .. }, Input::Due) => self.prepare(target, tries),
            (State::Crowded { target, tries, since_ns }, Input::Request(message)) => {
                State::Crowded { target: target.asked(Remote::from(&message)), tries, since_ns }
            }
            (State::Crowded { target, tries, since_ns }, Input::Place) => {
                let waited_ns = self.now_ns.saturating_sub(since_ns);
                self.common.stats.crowded_longest_ns = self.common.stats.crowded_longest_ns.max(waited_ns);
                self.prepare(target, tries)
            }
            (State::Published { local, tries }, input) => self.published(local, tries, input),
            (state @ State::Requesting { .. }, input) => self.requesting(state, input),
            (State::Connecting { link, answer, peer_closes }, input) => {
                self.connecting(link, answer, peer_closes, input)
            }
            (state @ (State::Ready { .. } | State::Draining { .. }), input) => self.open(state, input),
            (state @ (State::Closing { .. } | State::Yielding { .. }), input) => self.ending(state, input),
            (state, _) => state,
        }
    }

    /// The board will tell, or somebody who has read it.
    fn published(&mut self, local: Local, tries: Tries, input: Input<W>) -> State<W> {
        let link = |remote| Link { local, remote };
        match input {
            Input::Facts(remote) => self.connect(link(remote), PeerCloses::NotYet, Answer::Sent),
            // The peer has not found this side on the board.
            Input::Request(message) => {
                self.connect(link(Remote::from(&message)), PeerCloses::NotYet, Answer::Owed)
            }
            Input::CloseRequest(message) => {
                self.connect(link(Remote::from(&message)), PeerCloses::Asked, Answer::Sent)
            }
            // The board has nothing of the peer. It has to be asked, and may have to be reached in another way.
            Input::NoFacts(card) => {
                self.common.places.leave(self.row());
                self.act(Action::Destroy { ix: self.ix });
                self.found(card, tries)
            }
            _ => State::Published { local, tries },
        }
    }

    fn requesting(&mut self, state: State<W>, input: Input<W>) -> State<W> {
        let State::Requesting { local, card, tries, .. } = state else {
            unreachable!("called while requesting")
        };
        let connect = |remote| Link { local, remote };
        match input {
            Input::Request(message) if self.common.planted.is(Plant::CrossedRequestsConnectTwice) => {
                self.prepare(Target::Asked(Remote::from(&message)), tries)
            }
            Input::Request(message) => {
                self.common.stats.crossed += 1;
                self.connect(connect(Remote::from(&message)), PeerCloses::NotYet, Answer::Sent)
            }
            Input::Reply(message) => {
                if let Some(took_ns) = self.now_ns.checked_sub(message.stamp_ns) {
                    self.common.pace.sample(took_ns);
                }
                self.connect(connect(Remote::from(&message)), PeerCloses::NotYet, Answer::Sent)
            }
            // It has overtaken the reply, and has all that the reply had. What waits here still goes over this
            // connection: the peer takes it in before it lets go.
            Input::CloseRequest(message) => {
                self.connect(connect(Remote::from(&message)), PeerCloses::Asked, Answer::Sent)
            }
            Input::Due => {
                self.common.stats.retransmits += 1;
                self.request(local, card, tries)
            }
            _ => state,
        }
    }

    fn connecting(
        &mut self,
        link: Link,
        answer: Answer,
        peer_closes: PeerCloses,
        input: Input<W>,
    ) -> State<W> {
        match input {
            Input::Request(message) => {
                // It came again, so this side's own request may have been lost.
                let link = Link { remote: Remote::from(&message), ..link };
                State::Connecting { link, answer: Answer::Owed, peer_closes }
            }
            Input::CloseRequest(_) => State::Connecting { link, answer, peer_closes: PeerCloses::Asked },
            Input::Connected => self.connected(link, answer, peer_closes),
            _ => State::Connecting { link, answer, peer_closes },
        }
    }

    /// Ready, or draining by this side's own wish.
    fn open(&mut self, state: State<W>, input: Input<W>) -> State<W> {
        match (state, input) {
            (State::Ready { link }, Input::Request(message))
                if self.common.planted.is(Plant::RepeatedRequestDestroys) =>
            {
                let before = *self.closed;
                self.closed(&link);
                *self.closed = before;
                self.asked(Remote::from(&message))
            }
            (state, Input::Request(message)) => self.asked_again(state, &message),
            (State::Ready { link }, Input::Close) => {
                self.drain();
                State::Draining { link, again: Again::No }
            }
            (State::Ready { link }, Input::CloseRequest(_)) => {
                self.drain();
                State::Yielding { link, again: Again::No }
            }
            (State::Draining { link, .. }, Input::Need) => State::Draining { link, again: Again::Needed },
            // It is draining already, and now the peer waits for the end of that.
            (State::Draining { link, again }, Input::CloseRequest(_)) => State::Yielding { link, again },
            (State::Draining { link, again }, Input::Drained) => {
                self.close(link, again, Tries { since_ns: self.now_ns, attempts: 0 })
            }
            (state, _) => state,
        }
    }

    /// A close was sent, or asked for.
    fn ending(&mut self, state: State<W>, input: Input<W>) -> State<W> {
        match (state, input) {
            // The peer begins anew, so it has seen the close through. Its last words are there already, or, on a stream,
            // still on their way, and behind all that it has sent.
            (State::Closing { link, tries, due_ns, .. }, Input::Request(message))
                if message.epoch > link.remote.epoch && self.ends_behind(&link) =>
            {
                let again = Again::Asked(Box::new(Remote::from(&message)));
                State::Closing { link, again, tries, due_ns }
            }
            (State::Closing { link, .. }, Input::Request(message)) if message.epoch > link.remote.epoch => {
                self.closed(&link);
                self.asked(Remote::from(&message))
            }
            (state, Input::Request(message)) => self.asked_again(state, &message),
            (State::Closing { link, again, .. }, Input::CloseRequest(_) | Input::CloseReply) => {
                self.closed(&link);
                self.reopen(&link, again)
            }
            (State::Closing { link, again, tries, .. }, Input::Due) => {
                self.common.stats.retransmits += 1;
                self.close(link, again, tries)
            }
            (State::Closing { link, again: Again::No, tries, due_ns }, Input::Need) => {
                State::Closing { link, again: Again::Needed, tries, due_ns }
            }
            (State::Yielding { link, .. }, Input::Need) => State::Yielding { link, again: Again::Needed },
            (State::Yielding { link, again }, Input::Drained) => {
                self.send(MessageKind::CloseReply, &link.local, &link.remote, link.remote.stamp_ns);
                self.closed(&link);
                self.reopen(&link, again)
            }
            (state @ State::Yielding { .. }, Input::CloseRequest(_)) => {
                self.common.stats.stale += 1;
                state
            }
            (state, _) => state,
        }
    }

    fn failed(&mut self, why: W, input: &Input<W>) -> State<W> {
        // It was being made when the notice came.
        match input {
            Input::QpReady(..) => self.act(Action::Destroy { ix: self.ix }),
            Input::QpRefused(..) => drop(self.common.places.left(self.row())),
            _ => {}
        }
        State::Failed { why }
    }
}

impl<W: Clone> Pair<'_, W> {
    fn row(&self) -> u32 {
        self.ix.index() as u32
    }

    /// The node whose processes share the connection to the owner of a card.
    fn home(&self, card: &Card) -> Option<u64> {
        self.common.config.homes.and_then(|home| home(&self.common.config.card, card))
    }

    fn act(&mut self, action: Action<W>) {
        self.common.actions.push_back(action);
    }

    fn needed(&mut self) -> State<W> {
        self.common.stats.started += 1;
        self.act(Action::Lookup { ix: self.ix, peer: self.peer });
        State::Addressing { since_ns: self.now_ns }
    }

    /// This side asks, and knows where. Who is told at once makes its queue pair meanwhile.
    fn found(&mut self, card: Card, tries: Tries) -> State<W> {
        let overlaps = self.common.config.policy.rules().order() == Order::AnnounceFirst;
        if overlaps && self.common.places.is_free(Claim::Ask, self.home(&card)) {
            let local =
                Local { epoch: self.common.next_epoch, params: Params([0; 32]), medium: Medium::Datagrams };
            let message = self.message(MessageKind::Announce, &local, None, self.now_ns);
            let (ix, peer) = (self.ix, self.peer);
            self.act(Action::Announce { ix, peer, card, datagram: message.emit() });
        }
        self.prepare(Target::Found(card), tries)
    }

    /// The peer will ask as soon as it has its queue pair. Where places are few, it has to.
    fn announced(&mut self, state: State<W>, card: Card) -> State<W> {
        let tries = |since_ns| Tries { since_ns, attempts: 0 };
        match state {
            State::Addressing { since_ns } => self.prepare(Target::Found(card), tries(since_ns)),
            state if !self.common.places.is_free(Claim::Ask, self.home(&card)) => state,
            _ => {
                self.common.stats.answered += 1;
                self.prepare(Target::Found(card), tries(self.now_ns))
            }
        }
    }

    /// A queue pair before anybody has asked, if there is a place.
    fn ahead(&mut self) -> State<W> {
        if !self.common.places.take(Claim::Ask, self.row(), None) {
            return State::Idle;
        }
        self.common.stats.started += 1;
        self.act(Action::CreateAhead { ix: self.ix, peer: self.peer });
        let tries = Tries { since_ns: self.now_ns, attempts: 0 };
        State::Preparing { target: Target::Ahead { needed: false }, tries }
    }

    /// The peer asks; it brings its card.
    fn asked(&mut self, remote: Remote) -> State<W> {
        self.common.stats.answered += 1;
        self.prepare(Target::Asked(remote), Tries { since_ns: self.now_ns, attempts: 0 })
    }

    /// Does the end of the connection come behind all that was sent on it, and on no other way?
    fn ends_behind(&self, link: &Link) -> bool {
        link.local.medium == Medium::Stream && !self.common.planted.is(Plant::NextRequestCutsStream)
    }

    /// The peer asks for the connection that is there already: it has not heard of this side's end.
    fn asked_again(&mut self, state: State<W>, message: &Message) -> State<W> {
        if self.common.planted.is(Plant::ReplyNeverResent) {
            return state;
        }
        let link = *state.link().expect("there is a connection");
        self.common.stats.repeated_replies += 1;
        self.send(MessageKind::Reply, &link.local, &Remote::from(message), message.stamp_ns);
        state
    }

    /// Asks for the queue pair, if there is a place for it; waits for a place, if not.
    fn prepare(&mut self, target: Target, tries: Tries) -> State<W> {
        let card = target.card().expect("somebody has asked");
        let home = self.home(&card);
        if !self.common.places.take(Claim::from(&target), self.row(), home) {
            self.common.stats.crowded += u64::from(!self.common.places.is_coming(home));
            return State::Crowded { target, tries, since_ns: self.now_ns };
        }
        self.act(Action::CreateQp { ix: self.ix, peer: self.peer, card });
        State::Preparing { target, tries }
    }

    fn refused(&mut self, target: Target, tries: Tries, why: W, refusal: Refusal) -> State<W> {
        self.common.stats.starved += 1;
        let row = self.row();
        let Common { places, pace, .. } = &mut *self.common;
        places.give_back(row);
        if refusal == Refusal::Device {
            places.device.refused(Claim::from(&target));
        }
        if let Target::Ahead { needed } = target {
            // It is made when it is needed.
            return if needed { self.needed() } else { State::Idle };
        }
        if refusal == Refusal::Device {
            let home = target.card().and_then(|card| self.home(&card));
            self.common.places.waits_for(self.row(), home);
            return State::Crowded { target, tries, since_ns: self.now_ns };
        }
        let due_ns = self.now_ns.saturating_add(pace.refused_ns(tries.attempts));
        let tries = Tries { attempts: tries.attempts.saturating_add(1), ..tries };
        State::Starved { target, tries, due_ns, why }
    }

    fn prepared(&mut self, target: Target, params: Params, medium: Medium) -> State<W> {
        let mut epoch = self.common.next_epoch;
        self.common.next_epoch = epoch.next();
        if self.closed.is_some() && self.common.planted.is(Plant::StaleEpochReopens) {
            epoch = Epoch::FIRST;
        }
        let local = Local { epoch, params, medium };
        let row = self.row();
        self.common.places.homes.made(row);
        if !self.common.places.homes.has_joined(row) {
            self.common.places.device.made(Claim::from(&target));
        }
        let tries = Tries { since_ns: self.now_ns, attempts: 0 };
        match target {
            Target::Asked(remote) => self.connect(Link { local, remote }, PeerCloses::NotYet, Answer::Owed),
            Target::Found(card) => self.request(local, card, tries),
            Target::Ahead { .. } => State::Published { local, tries },
        }
    }

    /// Sends the request, for the first time or again.
    fn request(&mut self, local: Local, card: Card, tries: Tries) -> State<W> {
        let message = self.message(MessageKind::Request, &local, None, self.now_ns);
        self.act(Action::Send { ix: self.ix, peer: self.peer, card, datagram: message.emit() });
        let due_ns = self.due_ns(local.medium, tries);
        State::Requesting { local, card, tries: tries.another(), due_ns }
    }

    fn connect(&mut self, link: Link, peer_closes: PeerCloses, answer: Answer) -> State<W> {
        self.act(Action::Connect { ix: self.ix, params: link.remote.params, card: link.remote.card });
        State::Connecting { link, answer, peer_closes }
    }

    fn connected(&mut self, link: Link, answer: Answer, peer_closes: PeerCloses) -> State<W> {
        self.common.stats.ready += 1;
        self.common.stats.reopened += u64::from(self.closed.is_some());
        if answer == Answer::Owed {
            self.send(MessageKind::Reply, &link.local, &link.remote, link.remote.stamp_ns);
        }
        self.act(Action::Ready { ix: self.ix, name: link.remote.name });
        match peer_closes {
            PeerCloses::NotYet => State::Ready { link },
            PeerCloses::Asked => {
                self.drain();
                State::Yielding { link, again: Again::No }
            }
        }
    }

    fn drain(&mut self) {
        self.act(Action::Drain { ix: self.ix });
    }

    /// Sends the close, for the first time or again.
    fn close(&mut self, link: Link, again: Again, tries: Tries) -> State<W> {
        self.send(MessageKind::Close, &link.local, &link.remote, self.now_ns);
        let due_ns = self.due_ns(link.local.medium, tries);
        State::Closing { link, again, tries: tries.another(), due_ns }
    }

    /// Both sides have agreed.
    fn closed(&mut self, link: &Link) {
        self.common.stats.closed += 1;
        *self.closed = Some(link.remote.epoch);
        match self.common.planted.is(Plant::PlaceFreeTooEarly) {
            true => self.common.places.give_back(self.row()),
            false => self.common.places.leave(self.row()),
        }
        self.act(Action::Destroy { ix: self.ix });
        self.act(Action::Closed { ix: self.ix });
    }

    fn reopen(&mut self, link: &Link, again: Again) -> State<W> {
        match again {
            Again::No => State::Idle,
            Again::Needed => {
                self.common.stats.started += 1;
                // The peer's own card, from its last message, is no older than what a lookup would find.
                self.found(link.remote.card, Tries { since_ns: self.now_ns, attempts: 0 })
            }
            Again::Asked(remote) => self.asked(*remote),
        }
    }

    fn fail(&mut self, state: &State<W>, why: W) -> State<W> {
        if state.holds_place() {
            self.common.places.leave(self.row());
        }
        if state.has_qp() {
            self.act(Action::Destroy { ix: self.ix });
        }
        self.act(Action::Failed { ix: self.ix, why: why.clone() });
        State::Failed { why }
    }

    /// The peer wants to close what is closed here: the answer got lost.
    pub(in crate::wireup) fn close_again(&mut self, message: &Message) {
        let Some(epoch) = message.echo else { return };
        self.common.stats.repeated_replies += 1;
        // The parameters of a queue pair that is gone mean nothing to anybody.
        let local = Local { epoch, params: Params([0; 32]), medium: Medium::Datagrams };
        self.send(MessageKind::CloseReply, &local, &Remote::from(message), message.stamp_ns);
    }

    fn due_ns(&mut self, medium: Medium, tries: Tries) -> Option<u64> {
        match medium {
            Medium::Datagrams if self.common.planted.is(Plant::RetransmitStorm) => {
                Some(self.now_ns + crate::wireup::pace::FIRST_MIN_NS)
            }
            Medium::Datagrams => Some(self.now_ns.saturating_add(self.common.pace.wait_ns(tries.attempts))),
            Medium::Stream => None,
        }
    }

    fn send(&mut self, kind: MessageKind, local: &Local, remote: &Remote, stamp_ns: u64) {
        let message = self.message(kind, local, Some(remote.epoch), stamp_ns);
        let (ix, peer, card) = (self.ix, self.peer, remote.card);
        self.act(Action::Send { ix, peer, card, datagram: message.emit() });
    }

    fn message(&self, kind: MessageKind, local: &Local, echo: Option<Epoch>, stamp_ns: u64) -> Message {
        Message {
            kind,
            from: self.common.config.me,
            to: self.peer,
            epoch: local.epoch,
            echo,
            stamp_ns,
            params: local.params,
            name: self.ix.to_wire(),
            card: self.common.config.card,
        }
    }
}

impl Tries {
    fn another(self) -> Self {
        Tries { attempts: self.attempts.saturating_add(1), ..self }
    }
}

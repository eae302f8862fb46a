//! Known bugs of connection protocols, to be planted by tests that have to find them. Outside of tests nothing can be
//! planted, and what asks for it is constant.

/// A bug that others had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plant {
    /// A request that comes twice is taken for a new start of the peer, and the live connection is destroyed.
    RepeatedRequestDestroys,
    /// A reply that got lost is not given again.
    ReplyNeverResent,
    /// Who has asked answers a crossed request with a second queue pair.
    CrossedRequestsConnectTwice,
    /// A close is believed without a look at its epoch.
    StaleCloseKills,
    /// Requests are repeated at a short, constant interval.
    RetransmitStorm,
    /// A new connection has the epoch of the one before.
    StaleEpochReopens,
    /// A request for the next connection ends the last one, though its stream is not read to its end.
    NextRequestCutsStream,
    /// What the board says of a connection that was closed meanwhile is believed.
    StaleFactsConnect,
    /// A place counts as free before the queue pair is destroyed.
    PlaceFreeTooEarly,
    /// Attempts may hold every place.
    NoReserve,
    /// A place that several peers share is free when one of them is closed.
    SharedPlaceGoesWithOne,
    /// What waits for a queue pair that others are being given tries for one of its own.
    NobodyWaitsForOthers,
    /// When the device refuses a queue pair, the next need is tried at once.
    RefusalTriesTheNext,
    /// The endpoint forgets what it owes to a peer when their connection is closed. Planted above the connections.
    #[cfg(test)]
    EvictionForgetsOffers,
    /// The endpoint closes without waiting for its bytes to arrive. Planted above the connections.
    #[cfg(test)]
    DrainDoesNotWait,
}

/// What is planted: at most one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Planted(#[cfg(test)] pub Option<Plant>);

impl Planted {
    #[cfg(test)]
    pub(super) fn is(self, plant: Plant) -> bool {
        self.0 == Some(plant)
    }

    #[cfg(not(test))]
    pub(super) const fn is(self, _: Plant) -> bool {
        false
    }

    /// May the table of moves be violated?
    pub(super) fn any(self) -> bool {
        #[cfg(test)]
        return self.0.is_some();
        #[cfg(not(test))]
        false
    }
}

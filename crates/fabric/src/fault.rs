//! A fault injector for datagrams: loss, duplication and reordering, by chance that a seed decides. It sits above any
//! provider, so that handshakes meet on a laptop what they meet on a network.
use crate::card::Card;
use crate::qp::{ProviderKind, Qp};
use std::str::FromStr;

/// What happens to datagrams on their way.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    loss: f64,
    dup: f64,
    reorder: f64,
    chance: u64,
    /// Held back until another one has gone first.
    held: Option<Datagram>,
}

/// A datagram, and the way it was meant to take.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Datagram {
    pub kind: ProviderKind,
    pub qp: Option<Qp>,
    pub to: Card,
    pub bytes: Vec<u8>,
}

/// Faults that are not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a list such as loss=5%,dup=2%,reorder=5%,seed=7")]
pub struct FaultsError(String);

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Self, FaultsError> {
        let bad = || FaultsError(text.into());
        let mut faults = Faults { loss: 0.0, dup: 0.0, reorder: 0.0, chance: 1, held: None };
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            let place = match name {
                "loss" => &mut faults.loss,
                "dup" => &mut faults.dup,
                "reorder" => &mut faults.reorder,
                "seed" => {
                    faults.chance = value.parse().map_err(|_| bad())?;
                    continue;
                }
                _ => return Err(bad()),
            };
            let part = match value.strip_suffix('%') {
                Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
                None => value.parse().ok(),
            };
            *place = part.filter(|part| (0.0..=0.9).contains(part)).ok_or_else(bad)?;
        }
        Ok(faults)
    }
}

impl Faults {
    /// Makes chance differ between processes that were given the same seed.
    pub fn for_process(mut self, number: u64) -> Self {
        self.chance = self.chance.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self
    }

    /// What becomes of a datagram, and of one that was held back.
    pub(crate) fn meet(&mut self, datagram: Datagram) -> Vec<Datagram> {
        let mut out = vec![datagram.clone()];
        if self.happens(self.loss) {
            out.clear();
        } else if self.happens(self.dup) {
            out.push(datagram);
        }
        if self.held.is_none() && self.happens(self.reorder) {
            self.held = out.pop();
        } else {
            out.extend(self.held.take());
        }
        out
    }

    fn happens(&mut self, probability: f64) -> bool {
        // splitmix64
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 <= probability && probability > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(kind: ProviderKind, number: u32) -> Datagram {
        let to = Card { host: [1, 2], node: number, soft: None, sockets: None, verbs: None, shared: false };
        Datagram { kind, qp: None, to, bytes: number.to_le_bytes().into() }
    }

    #[test]
    fn what_was_held_back_goes_the_way_it_was_meant_to() {
        let mut faults: Faults = "reorder=0.5,seed=11".parse().unwrap();
        let mut late = 0;
        for i in 0..1_000u32 {
            let kind = |i: u32| if i.is_multiple_of(2) { ProviderKind::Soft } else { ProviderKind::Sockets };
            for sent in faults.meet(datagram(kind(i), i)) {
                let number = u32::from_le_bytes(sent.bytes[..].try_into().unwrap());
                assert_eq!(sent, datagram(kind(number), number));
                late += usize::from(number != i && kind(number) != kind(i));
            }
        }
        assert!(late > 100, "{late} were sent beside one for the other provider");
    }

    #[test]
    fn faults_are_read_and_nonsense_is_refused() {
        let faults: Faults = "loss=0.05,dup=0.1,reorder=0.2,seed=7".parse().unwrap();
        assert_eq!((faults.loss, faults.dup, faults.reorder, faults.chance), (0.05, 0.1, 0.2, 7));
        for text in ["", "loss", "loss=2", "loss=x", "delay=1", "loss=-1", "seed=x"] {
            assert!(text.parse::<Faults>().is_err(), "{text}");
        }
    }

    #[test]
    fn about_as_many_are_lost_and_doubled_as_was_asked_for() {
        let mut faults: Faults = "loss=0.2,dup=0.1,reorder=0.1,seed=3".parse().unwrap();
        let (mut sent, mut late) = (0, 0);
        for i in 0..10_000u32 {
            let out = faults.meet(datagram(ProviderKind::Soft, i));
            sent += out.len();
            late += out.iter().filter(|datagram| datagram.bytes[..] != i.to_le_bytes()).count();
        }
        assert!((8_600..9_000).contains(&sent), "{sent}");
        assert!((500..1_200).contains(&late), "{late}");
    }
}

//! Numbers that look random, and what stands for the bits of a result: for programs that are held against one process.
use mpi::{Communicator, Op};

/// A number that looks random (splitmix64).
pub fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The same, from 0 to 1 (excluded).
pub fn unit(seed: u64) -> f64 {
    (mix(seed) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Stands for the bits of some values at their places. Which process has which of them, and in which order they are
/// added, makes no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Adds a value.
    pub fn add(&mut self, place: usize, value: f64) {
        self.0 ^= mix(mix(place as u64) ^ value.to_bits());
    }

    /// That of the values of all processes.
    pub fn of_all(self, comm: &Communicator) -> mpi::Result<Fingerprint> {
        let mut all = [0];
        comm.allreduce(&[self.0], &mut all, Op::Xor)?;
        Ok(Fingerprint(all[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_knows_places_but_no_order() {
        let of = |values: &[(usize, f64)]| {
            let mut print = Fingerprint::default();
            values.iter().for_each(|(place, value)| print.add(*place, *value));
            print
        };
        assert_eq!(of(&[(0, 1.0), (1, 2.0)]), of(&[(1, 2.0), (0, 1.0)]));
        assert_ne!(of(&[(0, 1.0), (1, 2.0)]), of(&[(0, 2.0), (1, 1.0)]));
        assert_ne!(of(&[(0, 0.0)]), of(&[(0, -0.0)]));
    }
}

//! The keys that a process proves itself with: that of its job, and one for each job that it has met.
use proto::stream::Secret;
use proto::stream::proof::{HELLO_HEAD_BYTES, hello_from};
use std::collections::BTreeSet;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// Not known yet: nobody is let in.
    own: Option<Secret>,
    met: Vec<Met>,
}

/// Processes of another job, by the nonces in their cards.
#[derive(Debug)]
struct Met {
    secret: Secret,
    nonces: BTreeSet<u64>,
}

impl Secrets {
    /// Is the own job's key not known yet?
    pub(super) fn is_none(&self) -> bool {
        self.own.is_none()
    }

    pub(super) fn set_own(&mut self, key: [u8; 32]) {
        self.own = Some(Secret::new(key));
    }

    /// The process with this nonce is of another job, with which this one shares the key.
    pub(super) fn share(&mut self, nonce: u64, key: [u8; 32]) {
        self.forget(nonce);
        let secret = Secret::new(key);
        match self.met.iter_mut().find(|met| met.secret == secret) {
            Some(met) => _ = met.nonces.insert(nonce),
            None => self.met.push(Met { secret, nonces: [nonce].into() }),
        }
    }

    /// Its job has disconnected.
    pub(super) fn forget(&mut self, nonce: u64) {
        for met in &mut self.met {
            met.nonces.remove(&nonce);
        }
        self.met.retain(|met| !met.nonces.is_empty());
    }

    /// The key that is shared with the process of this nonce.
    pub(super) fn with(&self, nonce: u64) -> Option<&Secret> {
        let met = self.met.iter().find(|met| met.nonces.contains(&nonce));
        met.map(|met| &met.secret).or(self.own.as_ref())
    }

    /// The key that who says this hello should have.
    pub(super) fn of_hello(&self, hello: &[u8]) -> Option<&Secret> {
        self.with(hello_from(hello.first_chunk::<HELLO_HEAD_BYTES>()?))
    }

    /// The message in a datagram that came to `to`: it does not say who sent it.
    pub(super) fn check_datagram<'a>(&self, to: u64, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut secrets = self.own.iter().chain(self.met.iter().map(|met| &met.secret));
        secrets.find_map(|secret| secret.check_datagram(to, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_is_believed_with_its_own_key_only() {
        let mut secrets = Secrets::default();
        assert!(secrets.is_none() && secrets.with(1).is_none());
        secrets.set_own([1; 32]);
        secrets.share(7, [2; 32]);
        secrets.share(8, [2; 32]);
        let hello = |key, from| Secret::new([key; 32]).hello(from, 99, 5, b"m");
        let believed = |secrets: &Secrets, key, from| {
            let hello = hello(key, from);
            secrets.of_hello(&hello).is_some_and(|secret| secret.check_hello(99, &hello).is_ok())
        };
        assert!(believed(&secrets, 1, 3) && believed(&secrets, 2, 7) && believed(&secrets, 2, 8));
        assert!(!believed(&secrets, 2, 3) && !believed(&secrets, 1, 7));
        let datagram = Secret::new([2; 32]).datagram(99, b"m");
        assert_eq!(secrets.check_datagram(99, &datagram), Some(&b"m"[..]));
        secrets.forget(7);
        assert!(!believed(&secrets, 2, 7) && believed(&secrets, 2, 8));
        secrets.forget(8);
        assert_eq!(secrets.check_datagram(99, &datagram), None);
    }
}

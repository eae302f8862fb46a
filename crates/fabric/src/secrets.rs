//! The keys that a process proves itself with: that of its job, and one for each job that it has met.
use proto::stream::proof::{HELLO_HEAD_BYTES, hello_from};
use proto::stream::{Hello, Secret};
use std::collections::BTreeSet;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
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
    pub(crate) fn is_none(&self) -> bool {
        self.own.is_none()
    }

    pub(crate) fn set_own(&mut self, key: [u8; 32]) {
        self.own = Some(Secret::new(key));
    }

    /// The key is shared with another job, and it is the one for the process of that job that has the nonce.
    pub(crate) fn share(&mut self, key: [u8; 32], nonce: Option<u64>) {
        let secret = Secret::new(key);
        if let Some(nonce) = nonce {
            self.met.iter_mut().for_each(|met| _ = met.nonces.remove(&nonce));
        }
        match self.met.iter_mut().find(|met| met.secret == secret) {
            Some(met) => met.nonces.extend(nonce),
            None => self.met.push(Met { secret, nonces: nonce.into_iter().collect() }),
        }
    }

    /// The job that it was shared with has disconnected.
    pub(crate) fn forget(&mut self, key: [u8; 32]) {
        let secret = Secret::new(key);
        self.met.retain(|met| met.secret != secret);
    }

    /// The key that is shared with the process of this nonce.
    pub(crate) fn with(&self, nonce: u64) -> Option<&Secret> {
        let met = self.met.iter().find(|met| met.nonces.contains(&nonce));
        met.map(|met| &met.secret).or(self.own.as_ref())
    }

    /// Checks a hello that came to `to`. Who opened its sockets after the jobs had met has a nonce that nobody was told:
    /// its key says which job it is of, and is its key from then on.
    pub(crate) fn check_hello<'a>(&mut self, to: u64, bytes: &'a [u8]) -> Option<Hello<'a>> {
        let from = hello_from(bytes.first_chunk::<HELLO_HEAD_BYTES>()?);
        let checks = |secret: &Secret| secret.check_hello(to, bytes).ok();
        if let Some(met) = self.met.iter().find(|met| met.nonces.contains(&from)) {
            return checks(&met.secret);
        }
        if let Some(hello) = self.own.as_ref().and_then(checks) {
            return Some(hello);
        }
        let met = self.met.iter_mut().find(|met| checks(&met.secret).is_some())?;
        met.nonces.insert(from);
        checks(&met.secret)
    }

    /// The message in a datagram that came to `to`: it does not say who sent it.
    pub(crate) fn check_datagram<'a>(&self, to: u64, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut secrets = self.own.iter().chain(self.met.iter().map(|met| &met.secret));
        secrets.find_map(|secret| secret.check_datagram(to, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn believed(secrets: &mut Secrets, key: u8, from: u64) -> bool {
        let hello = Secret::new([key; 32]).hello(from, 99, 5, b"m");
        secrets.check_hello(99, &hello).is_some()
    }

    #[test]
    fn each_job_is_believed_with_its_own_key_only() {
        let mut secrets = Secrets::default();
        assert!(secrets.is_none() && secrets.with(1).is_none());
        secrets.set_own([1; 32]);
        secrets.share([2; 32], Some(7));
        assert!(believed(&mut secrets, 1, 3) && believed(&mut secrets, 2, 7));
        assert!(!believed(&mut secrets, 1, 7) && !believed(&mut secrets, 3, 3));
        let datagram = Secret::new([2; 32]).datagram(99, b"m");
        assert_eq!(secrets.check_datagram(99, &datagram), Some(&b"m"[..]));
        secrets.forget([2; 32]);
        assert_eq!((secrets.check_datagram(99, &datagram), believed(&mut secrets, 2, 7)), (None, false));
    }

    #[test]
    fn a_nonce_that_nobody_was_told_is_of_the_job_whose_key_it_has() {
        let mut secrets = Secrets::default();
        secrets.set_own([1; 32]);
        secrets.share([2; 32], None);
        assert!(believed(&mut secrets, 2, 4) && !believed(&mut secrets, 1, 4));
        assert_eq!(secrets.with(4), Some(&Secret::new([2; 32])));
        // The same two jobs meet again, with another key.
        secrets.share([3; 32], Some(4));
        assert!(believed(&mut secrets, 3, 4) && !believed(&mut secrets, 2, 4));
    }
}

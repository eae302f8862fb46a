//! Arrivals at a point where all processes meet.
use alloc::vec;
use alloc::vec::Vec;

/// The local processes and the children of a node that are there.
#[derive(Debug)]
pub(crate) struct Arrivals {
    number: u32,
    clients: Vec<bool>,
    children: Vec<bool>,
    missing: usize,
}

impl Arrivals {
    pub(crate) fn new(clients: usize, children: usize) -> Self {
        let missing = clients + children;
        Arrivals { number: 0, clients: vec![false; clients], children: vec![false; children], missing }
    }

    /// How often all have met.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn all_in(&self) -> bool {
        self.missing == 0
    }

    pub(crate) fn has_clients(&self) -> bool {
        self.clients.contains(&true)
    }

    /// False if it was in already.
    pub(crate) fn client_enters(&mut self, client: usize) -> bool {
        let is_new = !core::mem::replace(&mut self.clients[client], true);
        self.missing -= usize::from(is_new);
        is_new
    }

    /// False if it was in already.
    pub(crate) fn child_enters(&mut self, child: usize) -> bool {
        let is_new = !core::mem::replace(&mut self.children[child], true);
        self.missing -= usize::from(is_new);
        is_new
    }

    /// All go on.
    pub(crate) fn next(&mut self) {
        self.number = self.number.wrapping_add(1);
        self.clients.fill(false);
        self.children.fill(false);
        self.missing = self.clients.len() + self.children.len();
    }
}

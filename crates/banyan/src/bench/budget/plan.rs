//! What is run: limits on connections, and first contacts.

/// What a user may ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// What limits cost.
    Costs,
    /// How long first contacts take.
    Contacts,
}

impl Group {
    /// In the order of the report.
    pub const ALL: &'static [Group] = &[Group::Costs, Group::Contacts];

    /// The name on the command line.
    pub fn key(self) -> &'static str {
        match self {
            Group::Costs => "costs",
            Group::Contacts => "contacts",
        }
    }
}

/// A limit on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// There is none.
    None,
    /// For each process.
    Budget(usize),
    /// Queue pairs for each node.
    Device(usize),
}

impl Limit {
    /// The launcher's options.
    pub fn args(self) -> Vec<String> {
        match self {
            Limit::None => Vec::new(),
            Limit::Budget(most) => vec!["--qp-budget".into(), most.to_string()],
            Limit::Device(most) => vec!["--qp-max".into(), most.to_string()],
        }
    }

    /// The name of the row.
    pub fn label(self) -> String {
        match self {
            Limit::None => "no limit".into(),
            Limit::Budget(most) => format!("budget {most}"),
            Limit::Device(most) => format!("device {most}"),
        }
    }
}

/// Who meets whom, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One pair after the other.
    OneByOne,
    /// As many pairs as there can be.
    AtOnce,
}

/// What happens to datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// What the machine does.
    None,
    /// Some are lost, doubled and reordered.
    Injected,
}

/// One way to measure first contacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Who meets whom.
    pub order: Order,
    /// What happens to datagrams.
    pub faults: Faults,
}

/// What is injected, without a seed.
const INJECTED: &str = "loss=5%,dup=5%,reorder=5%";

impl Contact {
    /// In the order of the table.
    pub const ALL: [Contact; 4] = [
        Contact { order: Order::OneByOne, faults: Faults::None },
        Contact { order: Order::OneByOne, faults: Faults::Injected },
        Contact { order: Order::AtOnce, faults: Faults::None },
        Contact { order: Order::AtOnce, faults: Faults::Injected },
    ];

    /// The launcher's options; each round has faults of its own.
    pub fn args(self, round: usize) -> Vec<String> {
        match self.faults {
            Faults::None => Vec::new(),
            Faults::Injected => vec!["--fault".into(), format!("{INJECTED},seed={}", round + 1)],
        }
    }

    /// The program's argument.
    pub fn mode(self) -> &'static str {
        match self.order {
            Order::OneByOne => "connect",
            Order::AtOnce => "connect-all",
        }
    }

    /// The name of the row.
    pub fn label(self) -> &'static str {
        match (self.order, self.faults) {
            (Order::OneByOne, Faults::None) => "one by one",
            (Order::OneByOne, Faults::Injected) => "one by one, faults",
            (Order::AtOnce, Faults::None) => "all at once",
            (Order::AtOnce, Faults::Injected) => "all at once, faults",
        }
    }
}

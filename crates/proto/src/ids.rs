//! The numbers everything is named by. Newtypes, so that a rank is never taken for a node.
use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A process of a job, numbered from 0 (its rank in the world of the job).
    Rank(u32)
}
id! {
    /// A node of a job: a host, or an emulated node on one.
    NodeId(u32)
}
id! {
    /// A queue pair's number, unique on its node.
    QpNum(u32)
}
id! {
    /// A device's local identifier on the fabric.
    Lid(u16)
}

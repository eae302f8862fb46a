//! Names of objects: dense numbers per kind. Those of predefined objects are fixed, so that a handle of a
//! binary interface is translated by a table or by arithmetic.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A communicator.
    CommId
}
id! {
    /// A datatype. The predefined ones are constants of this type (`TypeId::INT` ...).
    TypeId
}
id! {
    /// A reduction operation. The predefined ones are constants of this type (`OpId::SUM` ...).
    OpId
}
id! {
    /// A request.
    RequestId
}
id! {
    /// A group of processes.
    GroupId
}
id! {
    /// An error handler.
    ErrhandlerId
}
id! {
    /// An info object.
    InfoId
}
id! {
    /// An attribute key.
    KeyvalId
}
id! {
    /// A session.
    SessionId
}
id! {
    /// A message taken by a matched probe.
    MessageId
}
id! {
    /// A window.
    WinId
}

impl CommId {
    /// Every process of the job.
    pub const WORLD: CommId = CommId(0);
    /// This process alone.
    pub const SELF: CommId = CommId(1);
}

impl GroupId {
    /// The group without members.
    pub const EMPTY: GroupId = GroupId(0);
}

impl ErrhandlerId {
    /// Ends every process of the job.
    pub const FATAL: ErrhandlerId = ErrhandlerId(0);
    /// Gives the error to the caller.
    pub const RETURN: ErrhandlerId = ErrhandlerId(1);
    /// Ends the processes of the communicator.
    pub const ABORT: ErrhandlerId = ErrhandlerId(2);
}

impl InfoId {
    /// What the process was started with.
    pub const ENV: InfoId = InfoId(0);
}

impl RequestId {
    /// A send that was complete when it was started. Waiting for it is free; it is never used up.
    pub const SENT: RequestId = RequestId(0);
}

impl MessageId {
    /// The message that a matched probe of the null process gives.
    pub const NO_PROC: MessageId = MessageId(0);
}

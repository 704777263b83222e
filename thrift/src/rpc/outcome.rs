//! What became of a call, told apart by what the caller may conclude.

use thrift::ApplicationErrorKind;

/// The end of a call.
///
/// A *refusal* is a [`CallResult::Done`] whose result struct has a declared exception set: only the caller knows which fields
/// those are. Together with it these are the four outcomes of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult<T> {
    /// The peer answered with the method's result struct.
    Done(T),
    /// No byte of the frame left this process, and none will: it did not happen.
    NotSent(NotSent),
    /// It may have happened, once.
    Unknown(Unknown),
}

impl<T> CallResult<T> {
    /// Changes the result of a finished call.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> CallResult<U> {
        match self {
            CallResult::Done(value) => CallResult::Done(change(value)),
            CallResult::NotSent(reason) => CallResult::NotSent(reason),
            CallResult::Unknown(reason) => CallResult::Unknown(reason),
        }
    }

    /// The result, or the reason why there is none as an error for people.
    pub fn into_result(self) -> Result<T, CallError> {
        match self {
            CallResult::Done(value) => Ok(value),
            CallResult::NotSent(reason) => Err(CallError::NotSent(reason)),
            CallResult::Unknown(reason) => Err(CallError::Unknown(reason)),
        }
    }
}

/// A call without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// See [`CallResult::NotSent`].
    #[error("the call was not sent: {0}")]
    NotSent(#[source] NotSent),
    /// See [`CallResult::Unknown`].
    #[error("the call was sent, but its result is unknown: {0}")]
    Unknown(#[source] Unknown),
}

/// Why nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The peer's name has no address.
    #[error("cannot resolve {peer}: {reason}")]
    Resolve {
        /// The peer.
        peer: String,
        /// The system's words.
        reason: String,
    },
    /// No connection could be opened.
    #[error("cannot connect to {peer}: {reason}")]
    Connect {
        /// The peer.
        peer: String,
        /// The system's words.
        reason: String,
    },
    /// No connection was there in time.
    #[error("no connection to {peer} in time")]
    ConnectTimeout {
        /// The peer.
        peer: String,
    },
    /// Too many calls or bytes wait for this peer already.
    #[error("too much waits to be sent to this peer already")]
    Backlogged,
    /// The connection ended while the call was waiting its turn.
    #[error("the connection ended before the call's turn: {0}")]
    ConnectionLost(String),
    /// The call's turn did not come in time, and it was taken out of the queue.
    #[error("the call's turn to be sent did not come in time")]
    SendTimeout,
    /// The caller's own limit had passed when the call's turn came, by the clock that counts suspend.
    #[error(
        "its time was over before its turn came: was this machine or program paused, or the disk slow?"
    )]
    TooLate,
    /// The arguments cannot be encoded, or not within the frame limit.
    #[error("{0}")]
    Encode(String),
}

/// Why the result is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The peer answered with an exception that the method does not declare.
    #[error("the peer answered with an exception ({kind:?}): {message}")]
    Exception {
        /// Thrift's kind.
        kind: ApplicationErrorKind,
        /// The peer's words.
        message: String,
    },
    /// A part of the frame was sent, but not all of it in time.
    #[error("the call could not be sent completely in time")]
    SendTimeout,
    /// The frame was sent, but no reply came in time.
    #[error("no reply came in time")]
    ReceiveTimeout,
    /// The connection ended after the first byte of the frame was sent.
    #[error("the connection ended before the reply: {0}")]
    ConnectionLost(String),
    /// A reply came that is not one to this call.
    #[error("the reply cannot be understood: {0}")]
    BadReply(String),
}

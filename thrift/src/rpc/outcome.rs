//! The outcome of a call, in the classes from which a caller can draw conclusions.

use bytes::Bytes;
use thrift::ApplicationErrorKind;
use thrift::protocol::{TInputProtocol, TMessageType, TSerializable};

use super::frame;
use super::limits::Limits;
use super::protocol::{MessageInput, describe};

/// The outcome of a call.
///
/// A *refusal* is a [`CallResult::Done`] whose result struct has a declared exception set; only the caller knows the names of those fields.
/// Together with it, these are the four outcomes of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallResult<T> {
    /// The peer answered with the method's result struct.
    Done(T),
    /// No byte of the frame left this process, and none will: the call did not happen.
    NotSent(NotSent),
    /// The call may have happened, once.
    Unknown(Unknown),
}

impl<T> CallResult<T> {
    /// Returns whether one side's certificate is of an authority that the other one does not trust.
    pub fn is_of_other_authority(&self) -> bool {
        matches!(
            self,
            CallResult::NotSent(NotSent::OtherAuthority(_))
                | CallResult::Unknown(Unknown::OtherAuthority(_))
        )
    }

    /// Maps the result of a finished call.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> CallResult<U> {
        match self {
            CallResult::Done(value) => CallResult::Done(change(value)),
            CallResult::NotSent(reason) => CallResult::NotSent(reason),
            CallResult::Unknown(reason) => CallResult::Unknown(reason),
        }
    }

    /// Returns the result, or an error for people that says why there is none.
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

/// Why no byte was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// The peer's name has no address.
    #[error("cannot resolve {peer}: {reason}")]
    Resolve {
        /// The peer.
        peer: String,
        /// The system's error text.
        reason: String,
    },
    /// No connection could be opened.
    #[error("cannot connect to {peer}: {reason}")]
    Connect {
        /// The peer.
        peer: String,
        /// The system's error text.
        reason: String,
    },
    /// No connection was open in time.
    #[error("no connection to {peer} in time")]
    ConnectTimeout {
        /// The peer.
        peer: String,
    },
    /// Too many calls or bytes are already queued for this peer.
    #[error("too many calls to this peer are queued already")]
    Backlogged,
    /// The connection ended while the call was queued.
    #[error("the connection ended before the call was sent: {0}")]
    ConnectionLost(String),
    /// One side's certificate is of an authority that the other one does not trust. See [`CallResult::is_of_other_authority`].
    #[error("the authorities of the two sides differ: {0}")]
    OtherAuthority(String),
    /// The call was not sent in time, and was removed from the queue.
    #[error("the call could not be sent in time")]
    SendTimeout,
    /// The caller's own time limit had passed when the call could be sent, by the clock that counts suspended time.
    #[error(
        "the call's time limit passed before it could be sent: this machine or program may have been paused, or the disk slow"
    )]
    TooLate,
    /// The arguments cannot be encoded, or exceed the frame limit.
    #[error("{0}")]
    Encode(String),
}

/// Why the result is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The peer answered with an exception that the method does not declare.
    #[error("the peer answered with an exception ({kind:?}): {message}")]
    Exception {
        /// The kind of the exception.
        kind: ApplicationErrorKind,
        /// The peer's error text.
        message: String,
    },
    /// A part of the frame was sent, but not all of it in time.
    #[error("only a part of the call was sent in time")]
    SendTimeout,
    /// The frame was sent, but no reply came in time.
    #[error("no reply came in time")]
    ReceiveTimeout,
    /// The connection ended after the first byte of the frame was sent.
    #[error("the connection ended before the answer: {0}")]
    ConnectionLost(String),
    /// The peer does not trust the authority of this program's certificate. See [`CallResult::is_of_other_authority`].
    #[error("the authorities of the two sides differ: {0}")]
    OtherAuthority(String),
    /// The reply does not belong to this call or cannot be decoded.
    #[error("the reply cannot be understood: {0}")]
    BadReply(String),
}

/// Decodes the payload of a frame that answers a call of `method`.
pub(super) fn decode_reply<R: TSerializable>(
    payload: &Bytes,
    method: &'static str,
    limits: &Limits,
) -> Result<R, Unknown> {
    let bad = |error: &thrift::Error| Unknown::BadReply(format!("{method}: {}", describe(error)));
    let envelope =
        frame::open(payload).map_err(|error| Unknown::BadReply(format!("{method}: {error}")))?;
    let mut input = MessageInput::new(envelope.dialect.encoding(), envelope.message, limits);
    let name = input.read_message_begin().map_err(|error| bad(&error))?;
    match name.message_type {
        TMessageType::Reply if name.name == method => {
            R::read_from_in_protocol(&mut input).map_err(|error| bad(&error))
        }
        TMessageType::Exception => {
            let error = thrift::Error::read_application_error_from_in_protocol(&mut input)
                .map_err(|error| bad(&error))?;
            Err(Unknown::Exception {
                kind: error.kind,
                message: error.message,
            })
        }
        TMessageType::Reply => Err(Unknown::BadReply(format!(
            "it is one to {} instead of {method}",
            name.name.escape_debug()
        ))),
        TMessageType::Call | TMessageType::OneWay => Err(Unknown::BadReply(format!(
            "{method}: it is a call instead of a reply"
        ))),
    }
}

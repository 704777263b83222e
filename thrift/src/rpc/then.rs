//! Calls whose outcome goes to a function, and the decoding of every call's outcome.

use std::sync::Weak;

use brasserie_common::Time;
use bytes::Bytes;
use thrift::protocol::{TInputProtocol, TMessageType, TSerializable};

use super::client::{Inner, PeerAddr};
use super::frame;
use super::limits::Limits;
use super::link::{Done, Ending, Link, Rejected, Sequence};
use super::outcome::{CallResult, NotSent, Unknown};
use super::protocol::MessageInput;
use super::responder::{CallKind, describe};

/// One retry. If a newly opened connection is dead as well, the peer is at fault.
pub(super) const ATTEMPTS: usize = 2;

/// A call whose outcome goes to a function.
pub(super) struct Way {
    /// Weak, because a waiting call must not keep its pool's connections open.
    pub(super) inner: Weak<Inner>,
    pub(super) peer: PeerAddr,
    pub(super) sequence: Sequence,
    pub(super) not_after: Time,
}

impl Way {
    /// Sends the call over an open connection, and over another one if that was dead before any byte left.
    pub(super) fn over(self, link: &Link, frame: Vec<u8>, done: Done) {
        let (sequence, not_after) = (self.sequence, self.not_after);
        let retried: Done = Box::new(move |ending| match ending {
            Ending::Returned { frame, why: _ } => self.anew(frame, ATTEMPTS - 1, done),
            ending @ (Ending::Reply(_)
            | Ending::Written
            | Ending::NotSent(_)
            | Ending::Unknown(_)) => done(ending),
        });
        if let Err((rejected, done)) = link.submit_then(sequence, frame, not_after, retried) {
            let why = NotSent::ConnectionLost("it was closed at that moment".to_owned());
            done(match rejected {
                Rejected::Closed(frame) => Ending::Returned { frame, why },
                Rejected::Backlogged => Ending::NotSent(NotSent::Backlogged),
            });
        }
    }

    /// Sends the call over a connection that may have to be opened first.
    pub(super) fn anew(self, frame: Vec<u8>, attempts: usize, done: Done) {
        let Some(inner) = self.inner.upgrade() else {
            let why = "the client shuts down".to_owned();
            return done(Ending::NotSent(NotSent::ConnectionLost(why)));
        };
        tokio::spawn(async move {
            let call = (self.sequence, CallKind::Call);
            let ending = inner.drive(&self.peer, call, frame, self.not_after, attempts);
            done(ending.await);
        });
    }
}

pub(super) fn result_of<R: TSerializable>(
    ending: Ending,
    method: &'static str,
    limits: &Limits,
) -> CallResult<R> {
    match ending {
        Ending::Reply(payload) => decode_reply(&payload, method, limits),
        Ending::Returned { why, .. } | Ending::NotSent(why) => CallResult::NotSent(why),
        Ending::Unknown(why) => CallResult::Unknown(why),
        Ending::Written => unreachable!("only oneway calls end when they are written"),
    }
}

fn decode_reply<R: TSerializable>(
    payload: &Bytes,
    method: &'static str,
    limits: &Limits,
) -> CallResult<R> {
    match try_decode_reply(payload, method, limits) {
        Ok(result) => CallResult::Done(result),
        Err(reason) => CallResult::Unknown(reason),
    }
}

fn try_decode_reply<R: TSerializable>(
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

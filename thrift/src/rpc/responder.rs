//! One call as a service sees it: its arguments, and the responder for its one answer.

use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;

use brasserie_common::access::{CallOrigin, Table, callers};
use brasserie_common::{NotPermitted, Principal};
use brasserie_common_runtime::Clock;
use thrift::protocol::{TMessageType, TOutputProtocol, TSerializable};
use thrift::{ApplicationError, ApplicationErrorKind};

use super::frame::{ClientProtocol, Dialect};
use super::outbox::{ConnectionOutbox, OtherIdentity};
use super::protocol::{CallKind, MessageInput, MessageName, describe, encode_frame};

/// A service that answers calls.
///
/// `call` runs on the connection's own task, so it must not block. It answers at once, or passes the [`Responder`] on. An answer given
/// before `call` returns costs no task, no wake-up and no system call of its own.
pub trait Service: Send + Sync + 'static {
    /// Serves one call.
    fn call(&self, call: IncomingCall<'_>);

    /// Serves a call while so many unanswered calls exist that only the reserve has capacity. The reserve is for health calls, which show
    /// peers that the other side is alive. A service accepts these, and must answer every other call before it returns. This default
    /// refuses all.
    fn call_from_reserve(&self, call: IncomingCall<'_>) {
        call.refuse_for_lack_of_room();
    }
}

impl<S: Service + ?Sized> Service for Arc<S> {
    fn call(&self, call: IncomingCall<'_>) {
        (**self).call(call);
    }

    fn call_from_reserve(&self, call: IncomingCall<'_>) {
        (**self).call_from_reserve(call);
    }
}

/// The answer to a call that exceeds a limit.
pub const LACK_OF_ROOM: &str = "too many calls are in progress here; try again later";

/// A call whose name is decoded and whose arguments are still bytes.
pub struct IncomingCall<'a> {
    pub(super) input: MessageInput<'a>,
    pub(super) responder: Responder,
}

impl IncomingCall<'_> {
    /// Returns the name of the method.
    pub fn method(&self) -> &str {
        &self.responder.method
    }

    /// Returns the bytes of the call's frame, and some for its bookkeeping.
    pub fn frame_bytes(&self) -> usize {
        self.responder.held.bytes
    }

    /// Keeps a value until the call is answered.
    pub fn keep(&mut self, value: impl Send + Sync + 'static) {
        self.responder.held.kept = Some(Box::new(value));
    }

    /// Returns the other end of the connection.
    pub fn peer(&self) -> CallOrigin {
        self.responder.outbox.peer()
    }

    /// Returns who the caller is. One whose identity has ended is a stranger.
    pub fn principal(&self) -> Principal {
        let outbox = &self.responder.outbox;
        let known = outbox.principal();
        let Some(stranger) = known.expired(Clock.wall()) else {
            return known;
        };
        outbox.expire(stranger.clone());
        stranger
    }

    /// Returns who the caller is if the table allows the call to it. Otherwise the call is answered with the reason, and logged.
    pub fn permitted(self, table: &Table) -> Result<(Self, Principal), NotPermitted> {
        let principal = self.principal();
        match principal.check(table, self.method()) {
            Ok(()) => Ok((self, principal)),
            Err(refusal) => {
                // Callers of another release recognize the answer.
                match callers(table, self.method()) {
                    Some(_) => self.responder.refuse(&refusal),
                    None => self.unknown_method(),
                }
                Err(refusal)
            }
        }
    }

    /// Returns the dialect of the call. If the caller is a server too, it is likely to understand the same dialect.
    pub fn protocol(&self) -> ClientProtocol {
        ClientProtocol::of(self.responder.dialect)
    }

    /// Returns whether the caller expects an answer.
    pub fn kind(&self) -> CallKind {
        self.responder.kind
    }

    /// Decodes the arguments and passes them to `handler` with the responder. Arguments that cannot be decoded are answered with a
    /// `ProtocolError` exception, without a call of `handler`.
    pub fn serve<T: TSerializable>(self, handler: impl FnOnce(T, Responder)) {
        if let Some((arguments, responder)) = self.arguments() {
            handler(arguments, responder);
        }
    }

    /// Decodes the arguments like [`IncomingCall::serve`]. `None` means that the call has been answered with an exception.
    pub fn arguments<T: TSerializable>(mut self) -> Option<(T, Responder)> {
        match T::read_from_in_protocol(&mut self.input) {
            Ok(arguments) => Some((arguments, self.responder)),
            Err(error) => {
                let message = format!(
                    "cannot decode the arguments of {}: {}",
                    self.responder.method,
                    describe(&error)
                );
                self.responder
                    .exception(ApplicationErrorKind::ProtocolError, &message);
                None
            }
        }
    }

    /// Answers that the method does not exist.
    pub fn unknown_method(self) {
        let message = format!("there is no method {}", self.responder.method);
        self.responder
            .exception(ApplicationErrorKind::UnknownMethod, &message);
    }

    /// Answers that too many calls wait, without decoding the arguments.
    pub fn refuse_for_lack_of_room(self) {
        self.responder
            .exception(ApplicationErrorKind::InternalError, LACK_OF_ROOM);
    }

    /// Discards the arguments, for an answer that does not depend on them.
    pub fn into_responder(self) -> Responder {
        self.responder
    }
}

/// The one chance to answer a call, from any thread, now or later.
///
/// If it is dropped without an answer, it sends an `InternalError` exception, so that no caller waits in vain. Answers to a oneway call,
/// and to a caller that has gone, are discarded.
pub struct Responder {
    pub(super) outbox: Arc<ConnectionOutbox>,
    pub(super) dialect: Dialect,
    pub(super) sequence: i32,
    pub(super) method: String,
    pub(super) kind: CallKind,
    pub(super) state: AnswerState,
    pub(super) held: Held,
}

/// The bytes and the value that a call holds until it is answered.
pub(super) struct Held {
    /// Bytes of the connection's account.
    bytes: usize,
    /// A value of the service, dropped after the answer.
    kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Held {
    pub(super) fn new(bytes: usize) -> Self {
        Held { bytes, kept: None }
    }
}

/// Tells whether a caller may still call over its connection.
#[derive(Clone)]
pub struct CallerCheck(Arc<ConnectionOutbox>);

impl CallerCheck {
    /// Returns the same as [`Responder::is_expelled`].
    pub fn is_expelled(&self) -> bool {
        self.0.is_expelled()
    }
}

/// ```text
/// Pending --reply, exception--> Given
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerState {
    /// The caller may still wait; dropping the responder answers with an exception.
    Pending,
    /// The answer is in the outbox, or was not expected.
    Given,
}

impl Responder {
    /// Returns the name of the called method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns who the caller is now.
    pub fn principal(&self) -> Principal {
        self.outbox.principal()
    }

    /// Returns whether the connection has ended, so that no answer can arrive. Then the work for one is useless.
    pub fn is_gone(&self) -> bool {
        self.outbox.is_gone()
    }

    /// Returns whether the server closes the connection because the caller may no longer call, or must prove anew who it is
    /// ([`Disconnector`](super::Disconnector)). A service that performs a change later than the call asks first. The end of a connection for
    /// another reason does not count: the change may take effect although no answer can arrive.
    pub fn is_expelled(&self) -> bool {
        self.outbox.is_expelled()
    }

    /// Returns what tells whether the caller is expelled, for another thread that performs the change.
    pub fn caller_check(&self) -> CallerCheck {
        CallerCheck(Arc::clone(&self.outbox))
    }

    /// Marks the caller as known to the service, so that the server does not close its connection to free a place. A service marks a peer
    /// whose call it has accepted as one of its worker or of its scheduler, never by its address.
    pub fn mark_known(&self) {
        self.outbox.mark_known();
    }

    /// Makes the caller the one that it has proven to be, or a stranger, from the next call on. Errors if the caller has proven another
    /// identity over this connection. Then no next call begins: the connection ends after the answer that is given before the service
    /// returns.
    pub fn identify(&self, principal: Principal) -> Result<(), OtherIdentity> {
        self.outbox.identify(principal)
    }

    /// Answers with a generated result struct: a value or a declared exception.
    pub fn reply<T: TSerializable>(self, result: &T) {
        self.reply_or_advise(result, "");
    }

    /// Answers like [`Responder::reply`]. If the answer exceeds the frame limit, the caller receives `advice` on what to do instead.
    pub fn reply_or_advise<T: TSerializable>(mut self, result: &T, advice: &str) {
        let encoded = self.encode(TMessageType::Reply, &mut |out| {
            result.write_to_out_protocol(out)
        });
        match encoded {
            Ok(frame) => self.finish(frame),
            Err(reason) => {
                // The reply is too long or too deep, and the caller should receive the reason instead of waiting.
                let text = match advice {
                    "" => reason,
                    advice => format!("{reason}. {advice}"),
                };
                self.answer_exception(ApplicationErrorKind::InternalError, &text);
            }
        }
    }

    /// Answers that the call cannot be served, with an exception that the method does not declare.
    pub fn fail(self, why: impl Display) {
        self.exception(ApplicationErrorKind::InternalError, &why.to_string());
    }

    /// Answers that the caller may not make this call, and logs that.
    pub fn refuse(self, refusal: &NotPermitted) {
        let text = refusal.to_string();
        if let Some(count) = self.outbox.budget().count_refusal(&text) {
            tracing::warn!(from = %refusal.caller, count, "{text}");
        }
        self.exception(ApplicationErrorKind::Unknown, &text);
    }

    /// Answers that the arguments are invalid, with an exception that the method does not declare.
    pub fn reject_arguments(self, why: impl Display) {
        self.exception(ApplicationErrorKind::ProtocolError, &why.to_string());
    }

    /// Answers with an exception that the method does not declare.
    pub fn exception(mut self, kind: ApplicationErrorKind, message: &str) {
        self.answer_exception(kind, message);
    }

    fn answer_exception(&mut self, kind: ApplicationErrorKind, message: &str) {
        let error = ApplicationError::new(kind, message);
        let encoded = self.encode(TMessageType::Exception, &mut |out| {
            thrift::Error::write_application_error_to_out_protocol(&error, out)
        });
        match encoded {
            Ok(frame) => self.finish(frame),
            Err(reason) => {
                // Happens only with a frame limit below the size of an exception. The caller times out.
                tracing::warn!(method = %self.method, reason, "cannot send an exception");
                self.finish(Vec::new());
            }
        }
    }

    fn encode(
        &self,
        kind: TMessageType,
        write_body: &mut dyn FnMut(&mut dyn TOutputProtocol) -> thrift::Result<()>,
    ) -> Result<Vec<u8>, String> {
        let mut frame = Vec::new();
        if self.kind == CallKind::Oneway {
            return Ok(frame);
        }
        let name = MessageName {
            method: self.method.clone(),
            kind,
            sequence: self.sequence,
        };
        let limit = self.outbox.limits().max_frame_bytes;
        encode_frame(&mut frame, self.dialect, name, limit, write_body)
            .map_err(|error| format!("cannot answer {}: {error}", self.method))?;
        Ok(frame)
    }

    fn finish(&mut self, frame: Vec<u8>) {
        self.state = AnswerState::Given;
        self.outbox.end_call(frame, self.held.bytes);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        match self.state {
            AnswerState::Given => {}
            AnswerState::Pending => {
                let message = format!("{} was dropped without an answer", self.method);
                self.answer_exception(ApplicationErrorKind::InternalError, &message);
            }
        }
    }
}

//! One connection of a server: reads many frames at once, passes them to the service, and writes many answers at once.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::CallOrigin;
use bytes::BytesMut;
use thrift::protocol::{TInputProtocol, TMessageType};
use thrift::{ApplicationError, ApplicationErrorKind};
use tokio::io::Interest;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::authentication::Authenticator;
use super::budget::{CallRoom, Scope};
use super::frame::{self, Dialect, Envelope, FrameError, LENGTH_BYTES};
use super::limits::TURN_BYTES;
use super::outbox::{ConnectionOutbox, Doze};
use super::protocol::{CallKind, MessageInput, MessageName, encode_frame};
use super::responder::{AnswerState, Held, IncomingCall, Responder, Service};
use super::stream::{Proof, Stream, drop_handled, make_place};

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Close {
    #[error("the peer closed the connection")]
    PeerClosed,
    #[error("the server shuts down")]
    ShutDown,
    #[error("i/o: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a message whose beginning cannot be decoded")]
    BadMessage,
    #[error("no first call within {0:?}")]
    Silent(Duration),
    #[error("no call for {0:?}")]
    Idle(Duration),
    #[error("it was idle, and the server closed it to accept a new connection")]
    MadeRoom,
    #[error("a frame was not complete after {0:?}")]
    SlowFrame(Duration),
    #[error("the peer does not read the answers")]
    Stalled,
    #[error("the peer does not read the answers, or another peer needs the place")]
    Ended,
    #[error("the peer has shown another identity, or a false one, after a true one")]
    OtherIdentity,
    #[error("the peer may no longer call, or must prove anew who it is")]
    Expelled,
    #[error(
        "calls were not answered in time after the peer closed its side or the server began to shut down"
    )]
    NotDrained,
}

/// ```text
/// Open --peer closes its side, shutdown--> Draining --all answered and sent, or too late--> (closed)
///   \--error, idle, slow, stalled----------------------------------------------------------/
/// ```
enum ConnectionPhase {
    /// Frames are read, and their calls begin.
    Open,
    /// No bytes are read. Calls that have begun are answered until `until`.
    Draining { until: Instant, because: Close },
}

/// The calls that a connection accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    All,
    /// Only health calls, and calls that are answered at once, because all other capacity is used.
    HealthCalls,
}

pub(super) struct Connection<S> {
    stream: Stream,
    authenticator: Arc<dyn Authenticator>,
    outbox: Arc<ConnectionOutbox>,
    service: Arc<S>,
    phase: ConnectionPhase,
    /// The exceeded limit because of which this connection is not read; `None` while it is read.
    pause: Option<Scope>,
    /// The time since which a limit is exceeded, if the connection has not been read to its end since.
    crowded_since: Option<Instant>,
    /// Bytes of unhandled frames, from a length field on.
    input: BytesMut,
    booked_input: usize,
    /// Chunks to write; the first one is written up to `written`.
    output: VecDeque<Vec<u8>>,
    written: usize,
    /// The time at which bytes last moved in either direction.
    last_activity: Instant,
    /// The time since which the kernel has accepted no byte of `output`.
    blocked_since: Option<Instant>,
    /// The time at which the wait for the first frame in `input` began.
    frame_since: Option<Instant>,
    /// The number of bytes of an incomplete frame.
    incomplete: usize,
    /// The deadline for the first byte of the first call; `None` once it has arrived.
    first_call_by: Option<Instant>,
}

impl<S: Service> Connection<S> {
    pub(super) fn new(
        stream: Stream,
        authenticator: Arc<dyn Authenticator>,
        outbox: Arc<ConnectionOutbox>,
        service: Arc<S>,
    ) -> Self {
        let now = Instant::now();
        let first_call_by = Some(now + outbox.limits().first_call_timeout);
        Connection {
            stream,
            authenticator,
            outbox,
            service,
            phase: ConnectionPhase::Open,
            pause: None,
            crowded_since: None,
            input: BytesMut::new(),
            booked_input: 0,
            output: VecDeque::new(),
            written: 0,
            last_activity: now,
            blocked_since: None,
            frame_since: None,
            incomplete: 0,
            first_call_by,
        }
    }

    /// Serves until the connection ends, and returns the reason.
    pub(super) async fn run(mut self, shutdown: CancellationToken) -> Close {
        let close = loop {
            if let Err(close) = self.turn() {
                break close;
            }
            if let Err(close) = self.wait(&shutdown).await {
                break close;
            }
        };
        self.stream.finish();
        self.outbox.close();
        self.outbox.rebook_input(self.booked_input, 0);
        close
    }

    /// Handles the bytes that have arrived and writes ready replies, without waiting.
    fn turn(&mut self) -> Result<(), Close> {
        let mut taken = 0;
        if self.pause.is_none() && self.input.is_empty() {
            self.end_crowd();
        }
        while let ConnectionPhase::Open = self.phase {
            self.dispatch()?;
            if self.pause.is_some() || taken >= TURN_BYTES {
                break;
            }
            match self.read()? {
                Some(bytes) => taken += bytes,
                None => {
                    self.end_crowd();
                    break;
                }
            }
        }
        self.flush()?;
        if self.outbox.must_leave() {
            return Err(Close::MadeRoom);
        }
        if let ConnectionPhase::Draining { because, .. } = &mut self.phase
            && self.outbox.calls() == 0
            && self.outbox.unsent() == 0
            && self.stream.flush()?
        {
            return Err(std::mem::replace(because, Close::NotDrained));
        }
        Ok(())
    }

    /// Notes that all received bytes are handled. If no limit is exceeded any more, the next excess starts a new wait.
    fn end_crowd(&mut self) {
        if self.crowded_since.is_some() && self.outbox.room() == CallRoom::Free {
            self.crowded_since = None;
        }
    }

    /// Passes complete frames to the service while limits allow.
    fn dispatch(&mut self) -> Result<(), Close> {
        let mut consumed = 0;
        let mut ended = Ok(());
        self.incomplete = 0;
        self.pause = loop {
            let rest = &self.input[consumed..];
            let most = self.outbox.max_frame_bytes();
            let payload = match frame::complete_payload(rest, most) {
                Ok(Some(length)) => &rest[LENGTH_BYTES..LENGTH_BYTES + length],
                Ok(None) => {
                    self.incomplete = rest.len();
                    break self.accepts(rest.len()).err();
                }
                Err(error) => {
                    ended = Err(Close::Frame(error));
                    break None;
                }
            };
            // Calls that were answered at once no longer count here. So only calls that wait for their answers pause the connection.
            let accepts = match self.accepts(0) {
                Ok(accepts) => accepts,
                Err(scope) => break Some(scope),
            };
            // Another thread, or the call before this one, may have revoked what the peer may do.
            if self.outbox.is_expelled() {
                ended = Err(Close::Expelled);
                break None;
            }
            if let Err(close) = take_frame(&*self.service, &self.outbox, payload, accepts) {
                ended = Err(close);
                break None;
            }
            consumed += LENGTH_BYTES + payload.len();
            if self.outbox.has_changed_identity() {
                ended = Err(Close::OtherIdentity);
                break None;
            }
        };
        if self.pause.is_some() {
            self.crowded_since.get_or_insert_with(Instant::now);
        }
        if consumed > 0 {
            self.outbox.note_call();
        }
        drop_handled(&mut self.input, consumed, self.outbox.spare_bytes());
        self.note_input(consumed);
        if ended.is_err() {
            // Tries to send the answers to the frames before the one at which it ended.
            self.flush()?;
        }
        ended
    }

    /// Returns the calls that may be accepted while `incomplete` bytes of a frame are held. Errors with the owner of the exceeded limit if
    /// the connection must not be read.
    ///
    /// A connection whose peer sends more than the server can answer is not read for a while. If the excess persists, a health call may be
    /// stuck behind the others, so they are read and refused.
    fn accepts(&self, incomplete: usize) -> Result<Accepts, Scope> {
        let limits = self.outbox.limits();
        match self.outbox.room() {
            CallRoom::Free => Ok(Accepts::All),
            CallRoom::Full(scope) => Err(scope),
            // The reserve has calls but no memory for a long frame.
            CallRoom::Reserve(scope) if incomplete >= limits.connection_allowance_bytes => {
                Err(scope)
            }
            CallRoom::Reserve(scope) => match self.crowded_since {
                Some(since) if since.elapsed() >= limits.room_wait => Ok(Accepts::HealthCalls),
                Some(_) | None => Err(scope),
            },
        }
    }

    /// Updates the account and the clock to the content of the read buffer.
    fn note_input(&mut self, consumed: usize) {
        self.outbox
            .rebook_input(self.booked_input, self.input.len());
        self.booked_input = self.input.len();
        if self.input.is_empty() {
            self.frame_since = None;
        } else if consumed > 0 || self.frame_since.is_none() {
            self.frame_since = Some(Instant::now());
        }
    }

    /// Reads once. Returns `None` if there are no more bytes, for now or ever.
    fn read(&mut self) -> Result<Option<usize>, Close> {
        make_place(&mut self.input);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => {
                self.drain(Close::PeerClosed);
                Ok(None)
            }
            Ok(bytes) => {
                self.last_activity = Instant::now();
                if self.first_call_by.take().is_some() {
                    self.identify();
                }
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => {
                self.note_failure(&error);
                Err(Close::Io(error))
            }
        }
    }

    /// Reports an error of TLS before the peer has proven who it is. An end of the connection is no such error.
    fn note_failure(&self, error: &io::Error) {
        if let (CallOrigin::Network(from), Proof::Incomplete) =
            (self.outbox.peer(), self.stream.proof())
            && error.kind() == io::ErrorKind::InvalidData
        {
            self.authenticator.failed(from, &error.to_string());
        }
    }

    /// Finds out who the peer is, before the first of its calls is read.
    fn identify(&self) {
        let from = match self.outbox.peer() {
            CallOrigin::Network(address) => address,
            CallOrigin::Local(user) => {
                self.outbox.note_no_certificate();
                let _ = self.outbox.identify(self.authenticator.local(user));
                return;
            }
        };
        match self.stream.proof() {
            // Bytes of a call come after the proof.
            Proof::Incomplete => {}
            Proof::Plain => {
                self.outbox.note_no_certificate();
                let _ = self.outbox.identify(self.authenticator.plain(from));
            }
            Proof::Certificates(shown) => {
                if shown.is_empty() {
                    self.outbox.note_no_certificate();
                }
                let identify = || {
                    let shown = self.authenticator.identify(from, shown);
                    self.outbox.identify(shown)
                };
                // A revocation in the meantime has closed the connections of those who were known, and this peer was not. Then its first
                // call is refused, and the connection ends.
                let _ = identify().and_then(|()| identify());
            }
        }
    }

    /// Writes until everything is sent or the kernel accepts no more.
    fn flush(&mut self) -> Result<(), Close> {
        loop {
            if self.output.is_empty() {
                self.outbox.take(&mut self.output);
            }
            let Some(chunk) = self.output.front() else {
                self.outbox.note_unread(0);
                return Ok(());
            };
            match self
                .stream
                .try_write_vectored(&[IoSlice::new(&chunk[self.written..])])
            {
                Ok(bytes) => {
                    let whole = self.written + bytes == chunk.len();
                    self.written = if whole { 0 } else { self.written + bytes };
                    if whole {
                        self.output.pop_front();
                    }
                    self.outbox.sent(bytes);
                    self.blocked_since = None;
                    self.last_activity = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert_with(Instant::now);
                    self.outbox.note_unread(self.outbox.unsent());
                    return Ok(());
                }
                Err(error) => return Err(Close::Io(error)),
            }
        }
    }

    fn drain(&mut self, because: Close) {
        let until = Instant::now() + self.outbox.limits().drain_timeout;
        self.frame_since = None;
        self.first_call_by = None;
        self.phase = ConnectionPhase::Draining { until, because };
    }

    /// Waits until there is work.
    async fn wait(&mut self, shutdown: &CancellationToken) -> Result<(), Close> {
        let outbox = Arc::clone(&self.outbox);
        match outbox.doze(&self.output) {
            Doze::Asleep => {}
            Doze::Busy => {
                self.resume().await;
                return Ok(());
            }
            Doze::Ending if outbox.is_expelled() => return Err(Close::Expelled),
            Doze::Ending => return Err(Close::Ended),
        }
        let room = outbox.budget().room();
        tokio::pin!(room);
        if self.pause.is_some() {
            room.as_mut().enable();
            // Capacity may have been released since the pause began, and no event will report that.
            if self.accepts(self.incomplete).is_ok() {
                self.resume().await;
                return Ok(());
            }
        }
        let open = matches!(self.phase, ConnectionPhase::Open);
        let interest = match (open && self.pause.is_none(), !self.output.is_empty()) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        };
        let deadline = self.deadline();
        let mut outcome = Ok(());
        tokio::select! {
            () = shutdown.cancelled(), if open => self.drain(Close::ShutDown),
            ready = self.stream.ready(interest.unwrap_or(Interest::READABLE)), if interest.is_some() => {
                outcome = ready.map_err(Close::Io);
            }
            () = outbox.changed() => {}
            () = &mut room, if self.pause == Some(Scope::Server) => {}
            () = tokio::time::sleep_until(deadline) => outcome = self.check_deadlines(),
        }
        outbox.rouse();
        outcome
    }

    /// Continues without an event, but lets other tasks of this thread run first.
    async fn resume(&self) {
        self.outbox.rouse();
        tokio::task::yield_now().await;
    }

    /// Returns the next moment at which [`Connection::check_deadlines`] could close the connection.
    fn deadline(&self) -> Instant {
        let limits = self.outbox.limits();
        let mut deadline = self.last_activity + limits.idle_timeout;
        if let ConnectionPhase::Draining { until, .. } = self.phase {
            deadline = deadline.min(until);
        }
        if let Some(since) = self.blocked_since {
            deadline = deadline.min(since + limits.write_stall_timeout);
        }
        if let Some(since) = self.frame_since {
            deadline = deadline.min(since + limits.frame_timeout);
        }
        if let Some(by) = self.first_call_by {
            deadline = deadline.min(by);
        }
        if let (Some(_), Some(since)) = (self.pause, self.crowded_since)
            && since.elapsed() < limits.room_wait
        {
            deadline = deadline.min(since + limits.room_wait);
        }
        deadline
    }

    fn check_deadlines(&mut self) -> Result<(), Close> {
        let now = Instant::now();
        let limits = self.outbox.limits();
        if let ConnectionPhase::Draining { until, .. } = self.phase
            && now >= until
        {
            return Err(Close::NotDrained);
        }
        if let Some(since) = self.blocked_since
            && now >= since + limits.write_stall_timeout
        {
            return Err(Close::Stalled);
        }
        if let Some(since) = self.frame_since
            && now >= since + limits.frame_timeout
        {
            // A connection that is not read because of its own calls may have complete frames waiting.
            if self.pause == Some(Scope::Connection) {
                self.frame_since = Some(now);
            } else {
                return Err(Close::SlowFrame(limits.frame_timeout));
            }
        }
        if self.first_call_by.is_some_and(|by| now >= by) {
            if self.pause.is_none() {
                return Err(Close::Silent(limits.first_call_timeout));
            }
            // The peer may have sent its call, but the server's limits prevented the read.
            self.first_call_by = Some(now + limits.first_call_timeout);
        }
        if now >= self.last_activity + limits.idle_timeout {
            if self.outbox.calls() == 0 {
                return Err(Close::Idle(limits.idle_timeout));
            }
            self.last_activity = now;
        }
        Ok(())
    }
}

/// Passes one frame to the service, or answers it here if it is not a valid call.
fn take_frame<S: Service>(
    service: &S,
    outbox: &Arc<ConnectionOutbox>,
    payload: &[u8],
    accepts: Accepts,
) -> Result<(), Close> {
    let envelope = match frame::open(payload) {
        Ok(envelope) => envelope,
        Err(FrameError::Answerable {
            dialect,
            kind,
            message,
        }) => return refuse(outbox, dialect, kind, message),
        Err(error) => return Err(Close::Frame(error)),
    };
    let Envelope { dialect, message } = envelope;
    let limits = outbox.limits();
    let mut input = MessageInput::new(dialect.encoding(), message, limits);
    let name = input.read_message_begin().map_err(|_| Close::BadMessage)?;
    let kind = match name.message_type {
        TMessageType::Call => CallKind::Call,
        TMessageType::OneWay => CallKind::Oneway,
        TMessageType::Reply | TMessageType::Exception => return Err(Close::BadMessage),
    };
    if name.name.len() > limits.max_method_bytes {
        return Err(Close::BadMessage);
    }
    let held = outbox.begin_call(payload.len());
    let call = IncomingCall {
        input,
        responder: Responder {
            outbox: Arc::clone(outbox),
            dialect,
            sequence: name.sequence_number,
            method: name.name,
            kind,
            state: AnswerState::Pending,
            held: Held::new(held),
        },
    };
    match accepts {
        Accepts::All => service.call(call),
        Accepts::HealthCalls => service.call_from_reserve(call),
    }
    Ok(())
}

/// Refuses a frame of which only the part of the header transport could be read.
fn refuse(
    outbox: &ConnectionOutbox,
    dialect: Dialect,
    kind: ApplicationErrorKind,
    message: &'static str,
) -> Result<(), Close> {
    let sequence = match dialect {
        Dialect::Framed(_) => 0,
        Dialect::Header { sequence, .. } => sequence.cast_signed(),
    };
    let name = MessageName {
        method: String::new(),
        kind: TMessageType::Exception,
        sequence,
    };
    let error = ApplicationError::new(kind, message);
    let mut frame = Vec::new();
    encode_frame(
        &mut frame,
        dialect,
        name,
        outbox.limits().max_frame_bytes,
        &mut |out| thrift::Error::write_application_error_to_out_protocol(&error, out),
    )
    .map_err(|_| Close::BadMessage)?;
    outbox.send(frame);
    Ok(())
}

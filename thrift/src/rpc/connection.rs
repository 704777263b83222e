//! One connection of a server: reads many frames at once, hands them to the service, writes many answers at once.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use thrift::protocol::{TInputProtocol, TMessageType};
use thrift::{ApplicationError, ApplicationErrorKind};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budget::{Room, Scope};
use super::frame::{self, Dialect, Envelope, FrameError, LENGTH_BYTES};
use super::limits::{KEEP_BUFFER_BYTES, READ_CHUNK_BYTES, TURN_BYTES};
use super::outbox::{Doze, Outbox};
use super::protocol::{MessageInput, MessageName, encode_frame};
use super::responder::{Answer, CallKind, IncomingCall, Responder, Service};

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
    #[error("it was idle, and a new connection needed its place")]
    MadeRoom,
    #[error("a frame was not complete after {0:?}")]
    SlowFrame(Duration),
    #[error("the peer does not read its replies")]
    Stalled,
    #[error(
        "calls were not answered in time after the peer closed its side or the server began to shut down"
    )]
    NotDrained,
}

/// ```text
/// Open --peer closes its side, shutdown--> Draining --all answered and sent, or too late--> (closed)
///   \--error, idle, slow, stalled----------------------------------------------------------/
/// ```
enum Phase {
    /// Frames are read and calls begun.
    Open,
    /// Nothing is read; what was begun is answered until `until`.
    Draining { until: Instant, because: Close },
}

/// Which calls may be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    All,
    /// Only the reserve has room: health calls, and calls that are answered at once.
    HealthCalls,
}

pub(super) struct Connection<S> {
    stream: TcpStream,
    outbox: Arc<Outbox>,
    service: Arc<S>,
    phase: Phase,
    /// Whose limit keeps this connection from being read; `None` while it is read.
    pause: Option<Scope>,
    /// Since when this connection has had too little room, without having been read to the end since.
    crowded_since: Option<Instant>,
    /// Bytes of frames not handled yet; all of them start with a length field.
    input: BytesMut,
    booked_input: usize,
    /// Pieces on their way to the kernel, the first one from `written` on.
    output: VecDeque<Vec<u8>>,
    written: usize,
    /// When bytes last moved, either way.
    last_activity: Instant,
    /// Since when the kernel has taken nothing of `output`.
    blocked_since: Option<Instant>,
    /// When the frame that starts `input` began to be waited for.
    frame_since: Option<Instant>,
    /// How many bytes there are of a frame that is not complete.
    incomplete: usize,
    /// Until when the first call must begin to arrive; `None` after it.
    first_call_by: Option<Instant>,
}

impl<S: Service> Connection<S> {
    pub(super) fn new(stream: TcpStream, outbox: Arc<Outbox>, service: Arc<S>) -> Self {
        let now = Instant::now();
        let first_call_by = Some(now + outbox.limits().first_call_timeout);
        Connection {
            stream,
            outbox,
            service,
            phase: Phase::Open,
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

    /// Serves until the connection ends and says why.
    pub(super) async fn run(mut self, shutdown: CancellationToken) -> Close {
        let close = loop {
            if let Err(close) = self.turn() {
                break close;
            }
            if let Err(close) = self.wait(&shutdown).await {
                break close;
            }
        };
        self.outbox.close();
        self.outbox.rebook_input(self.booked_input, 0);
        close
    }

    /// Handles what has arrived and writes what is ready, without waiting.
    fn turn(&mut self) -> Result<(), Close> {
        let mut taken = 0;
        if self.pause.is_none() && self.input.is_empty() {
            self.end_crowd();
        }
        while let Phase::Open = self.phase {
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
        if let Phase::Draining { because, .. } = &mut self.phase
            && self.outbox.calls() == 0
            && self.outbox.unsent() == 0
        {
            return Err(std::mem::replace(because, Close::NotDrained));
        }
        Ok(())
    }

    /// Notes that nothing waits to be read; the next shortage of room begins anew, if this one is over.
    fn end_crowd(&mut self) {
        if self.crowded_since.is_some() && self.outbox.room() == Room::Free {
            self.crowded_since = None;
        }
    }

    /// Hands complete frames to the service while limits allow.
    fn dispatch(&mut self) -> Result<(), Close> {
        let limits = self.outbox.limits();
        let mut consumed = 0;
        let mut ended = Ok(());
        self.incomplete = 0;
        self.pause = loop {
            let rest = &self.input[consumed..];
            let payload = match frame::complete_payload(rest, limits.max_frame_bytes) {
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
            // Calls that were answered at once no longer count here, so only calls that wait for their answers pause the connection.
            let accepts = match self.accepts(0) {
                Ok(accepts) => accepts,
                Err(scope) => break Some(scope),
            };
            if let Err(close) = take_frame(&*self.service, &self.outbox, payload, accepts) {
                ended = Err(close);
                break None;
            }
            consumed += LENGTH_BYTES + payload.len();
        };
        if self.pause.is_some() {
            self.crowded_since.get_or_insert_with(Instant::now);
        }
        if consumed > 0 {
            self.outbox.note_call();
        }
        self.input.advance(consumed);
        self.note_input(consumed);
        if ended.is_err() {
            // Answers to the good frames before the bad one are worth a try.
            self.flush()?;
        }
        ended
    }

    /// Which calls may be accepted while `incomplete` bytes of a frame are held; otherwise whose limit forbids to read.
    ///
    /// A connection whose peer sends more than can be answered is not read for a while. If that does not help, a call that keeps the
    /// peer alive may be stuck behind the others, so that these are read and refused.
    fn accepts(&self, incomplete: usize) -> Result<Accepts, Scope> {
        let limits = self.outbox.limits();
        match self.outbox.room() {
            Room::Free => Ok(Accepts::All),
            Room::Full(scope) => Err(scope),
            // The reserve has calls but no memory for a long frame.
            Room::Reserve(scope) if incomplete >= limits.connection_allowance_bytes => Err(scope),
            Room::Reserve(scope) => match self.crowded_since {
                Some(since) if since.elapsed() >= limits.room_wait => Ok(Accepts::HealthCalls),
                Some(_) | None => Err(scope),
            },
        }
    }

    /// Keeps account, clock and size of the read buffer in step with its content.
    fn note_input(&mut self, consumed: usize) {
        self.outbox
            .rebook_input(self.booked_input, self.input.len());
        self.booked_input = self.input.len();
        if self.input.is_empty() {
            self.frame_since = None;
            if self.input.capacity() > KEEP_BUFFER_BYTES {
                self.input = BytesMut::new();
            }
        } else if consumed > 0 || self.frame_since.is_none() {
            self.frame_since = Some(Instant::now());
        }
    }

    /// Reads once; `None` when there is nothing more for now or ever.
    fn read(&mut self) -> Result<Option<usize>, Close> {
        // The buffer grows with what has arrived, never with what a length field promises.
        self.input.reserve(READ_CHUNK_BYTES);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => {
                self.drain(Close::PeerClosed);
                Ok(None)
            }
            Ok(bytes) => {
                self.last_activity = Instant::now();
                self.first_call_by = None;
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Close::Io(error)),
        }
    }

    /// Writes until everything is sent or the kernel takes no more.
    fn flush(&mut self) -> Result<(), Close> {
        loop {
            if self.output.is_empty() {
                self.outbox.take(&mut self.output);
            }
            let Some(chunk) = self.output.front() else {
                return Ok(());
            };
            match self.stream.try_write(&chunk[self.written..]) {
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
        self.phase = Phase::Draining { until, because };
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, shutdown: &CancellationToken) -> Result<(), Close> {
        let outbox = Arc::clone(&self.outbox);
        match outbox.doze(&self.output) {
            Doze::Asleep => {}
            Doze::Busy => {
                self.resume().await;
                return Ok(());
            }
            Doze::Doomed => return Err(Close::Stalled),
        }
        let room = outbox.budget().room();
        tokio::pin!(room);
        if self.pause.is_some() {
            room.as_mut().enable();
            // Answered or sent since the pause began, so that no event will tell.
            if self.accepts(self.incomplete).is_ok() {
                self.resume().await;
                return Ok(());
            }
        }
        let open = matches!(self.phase, Phase::Open);
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
                outcome = ready.map(|_| ()).map_err(Close::Io);
            }
            () = outbox.changed() => {}
            () = &mut room, if self.pause == Some(Scope::Server) => {}
            () = tokio::time::sleep_until(deadline) => outcome = self.check_deadlines(),
        }
        outbox.rouse();
        outcome
    }

    /// Goes on without an event, but lets other tasks of this thread run first.
    async fn resume(&self) {
        self.outbox.rouse();
        tokio::task::yield_now().await;
    }

    /// The next moment at which [`Connection::check_deadlines`] could close the connection.
    fn deadline(&self) -> Instant {
        let limits = self.outbox.limits();
        let mut deadline = self.last_activity + limits.idle_timeout;
        if let Phase::Draining { until, .. } = self.phase {
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
        if let Phase::Draining { until, .. } = self.phase
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
            // A connection that we do not read because of its own calls may have good frames waiting.
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
            // The peer may have sent its call, which the server had no room to read.
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

/// Gives one frame to the service, or answers it here if it cannot be a call.
fn take_frame<S: Service>(
    service: &S,
    outbox: &Arc<Outbox>,
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
            state: Answer::Pending,
            held,
        },
    };
    match accepts {
        Accepts::All => service.call(call),
        Accepts::HealthCalls => service.call_from_reserve(call),
    }
    Ok(())
}

/// Answers a frame of which only the header transport's part could be read.
fn refuse(
    outbox: &Outbox,
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

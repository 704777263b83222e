//! The task that moves a client connection's bytes: reads replies first, then writes calls, then waits.

use std::io;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use tokio::io::Interest;
use tokio_util::sync::CancellationToken;

use super::authentication::Credentials;
use super::frame::{self, LENGTH_BYTES};
use super::limits::{CallTimeouts, KEEP_BUFFER_BYTES, Limits, READ_CHUNK_BYTES, TURN_BYTES};
use super::link::{Leftovers, Link, Sequence, Useless};
use super::stream::{Proof, Stream, is_about_authority};

/// The side that ended a connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClosedBy {
    /// The connection was unused, or the pool is gone.
    Us,
    /// The peer closed the connection, it broke, or it was closed because the peer was silent or did not read.
    Peer,
}

pub(super) struct LinkTask {
    stream: Stream,
    link: Arc<Link>,
    limits: Arc<Limits>,
    timeouts: CallTimeouts,
    input: BytesMut,
    /// Checks the proof of the peer once it is complete, and is gone then.
    checks: Option<Arc<dyn Credentials>>,
}

/// Why the connection ended.
#[derive(Debug, thiserror::Error)]
enum Close {
    #[error("the peer closed the connection")]
    PeerClosed,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the peer sent {0}")]
    Frame(#[from] frame::FrameError),
    #[error("the peer sent a message without a sequence id")]
    NoSequence,
    #[error("idle")]
    Idle,
    #[error("{0}")]
    Unresponsive(String),
    #[error("the client shuts down")]
    ShutDown,
    #[error("the peer is not accepted: {0}")]
    NotAccepted(String),
}

impl Close {
    fn by(&self) -> ClosedBy {
        match self {
            Close::Idle | Close::ShutDown => ClosedBy::Us,
            Close::PeerClosed
            | Close::Io(_)
            | Close::Frame(_)
            | Close::NoSequence
            | Close::NotAccepted(_)
            | Close::Unresponsive(_) => ClosedBy::Peer,
        }
    }

    fn leftovers(&self) -> Leftovers {
        match self {
            Close::Io(error) if is_about_authority(error) => Leftovers::ReturnToOther,
            Close::PeerClosed
            | Close::Io(_)
            | Close::Frame(_)
            | Close::NoSequence
            | Close::Idle
            | Close::Unresponsive(_)
            | Close::ShutDown
            | Close::NotAccepted(_) => Leftovers::Return,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteState {
    Empty,
    Blocked,
}

impl LinkTask {
    pub(super) fn new(
        stream: Stream,
        link: Arc<Link>,
        limits: Arc<Limits>,
        timeouts: CallTimeouts,
        checks: Option<Arc<dyn Credentials>>,
    ) -> Self {
        LinkTask {
            stream,
            link,
            limits,
            timeouts,
            input: BytesMut::new(),
            checks,
        }
    }

    /// Moves bytes until the connection ends. Its link then accepts no more calls.
    pub(super) async fn run(mut self, shutdown: CancellationToken) -> ClosedBy {
        let close = loop {
            if let Err(close) = self.turn(&shutdown).await {
                break close;
            }
        };
        self.stream.finish();
        self.link.close(&close.to_string(), close.leftovers());
        close.by()
    }

    async fn turn(&mut self, shutdown: &CancellationToken) -> Result<(), Close> {
        // Reads first: if the stream has ended, waiting calls end as `NotSent`.
        self.read()?;
        self.check_peer()?;
        let output = if self.link.write(&mut self.stream)? {
            WriteState::Empty
        } else {
            WriteState::Blocked
        };
        let overdue_at = self.link.end_overdue(&self.timeouts);
        match self.link.end_if_useless() {
            None => {}
            Some(Useless::Idle) => return Err(Close::Idle),
            Some(Useless::Unresponsive(reason)) => return Err(Close::Unresponsive(reason)),
        }
        let interest = match output {
            WriteState::Empty => Interest::READABLE,
            WriteState::Blocked => Interest::READABLE | Interest::WRITABLE,
        };
        let look_at = overdue_at.into_iter().chain([self.link.idle_at()]).min();
        let look_at = look_at.expect("Invariant: a link is idle at some time");
        tokio::select! {
            () = shutdown.cancelled() => return Err(Close::ShutDown),
            ready = self.stream.ready(interest) => ready?,
            () = self.link.changed() => {}
            () = tokio::time::sleep_until(look_at) => {}
        }
        Ok(())
    }

    /// Checks the peer as soon as its proof is complete. No call has left before.
    fn check_peer(&mut self) -> Result<(), Close> {
        let Some(checks) = &self.checks else {
            return Ok(());
        };
        match self.stream.proof() {
            Proof::Incomplete => return Ok(()),
            Proof::Plain => {}
            Proof::Certificates(shown) => {
                checks.accepts(shown).map_err(Close::NotAccepted)?;
            }
        }
        self.checks = None;
        Ok(())
    }

    /// Reads the bytes that have arrived, and delivers the complete replies among them.
    fn read(&mut self) -> Result<(), Close> {
        let mut taken = 0;
        while taken < TURN_BYTES {
            self.input.reserve(READ_CHUNK_BYTES);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return Err(Close::PeerClosed),
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Close::Io(error)),
            }
            let limit = self.limits.max_frame_bytes;
            while let Some(length) = frame::complete_payload(&self.input, limit)? {
                self.input.advance(LENGTH_BYTES);
                let payload = self.input.split_to(length).freeze();
                let sequence = frame::sequence_of(&frame::open(&payload)?);
                let sequence = sequence.ok_or(Close::NoSequence)?;
                self.link.deliver(Sequence(sequence), payload);
            }
            if self.input.is_empty() && self.input.capacity() > KEEP_BUFFER_BYTES {
                self.input = BytesMut::new();
            }
        }
        if taken > 0 {
            self.link.received();
        }
        Ok(())
    }
}

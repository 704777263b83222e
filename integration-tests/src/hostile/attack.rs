//! Sends invalid frames to one server, and counts only those that the server processed. Each is followed by a valid call, whose answer
//! shows how far the server came before it closed the connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use brasserie_thrift::generated::fb303::FacebookServiceGetStatusArgs;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use nix::unistd::Pid;
use thrift::protocol::TMessageType;

use super::mutation::{Framing, Mutator};
use super::originals::{Dialect, LENGTH_BYTES, Target, framed, payload, payloads};
use crate::e2e::resident_bytes;

/// Invalid frames sent on one connection. Most connections end sooner.
const FRAMES_PER_CONNECTION: usize = 24;
/// Simultaneous connections, enough to keep a server busy.
const SENDERS: u64 = 4;
/// First sequence id of the valid calls. Invalid frames have such ids only by chance.
const FIRST_PROBE: i32 = 1_000_000;
/// A server that sends nothing for this time is stuck.
const SILENCE: Duration = Duration::from_secs(30);
/// Permitted growth of memory after the first per cent of the frames.
pub const MAX_GROWTH_BYTES: u64 = 16 * 1024 * 1024;
/// Number of source addresses. Each provides the kernel's whole range of ports, and every connection blocks a port for a minute.
const SOURCES: u64 = 200;

/// The parameters of one attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    pub target: Target,
    pub port: u16,
    /// The process whose memory is measured.
    pub process: Pid,
    pub frames: u64,
    pub seed: u64,
}

/// The result of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttackReport {
    pub frames: u64,
    pub connections: u64,
    /// Resident memory after the first per cent of the frames.
    pub first_bytes: u64,
    /// Maximum resident memory since then.
    pub most_bytes: u64,
}

/// The damage that an attack caused.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error("the server is dead after {frames} frames (seed {seed})")]
    Dead { frames: u64, seed: u64 },
    #[error("the server does not answer any more after {frames} frames (seed {seed}): {error}")]
    Silent {
        frames: u64,
        seed: u64,
        error: std::io::Error,
    },
    #[error(
        "the server grew by {grown} bytes within {frames} frames (seed {seed}); {MAX_GROWTH_BYTES} are allowed"
    )]
    Grown { frames: u64, seed: u64, grown: u64 },
}

impl Attack {
    /// Sends the frames. Calls `progress` with the number of frames processed so far.
    ///
    /// # Errors
    /// If the server was damaged.
    pub fn run(self, progress: &(dyn Fn(u64) + Sync)) -> Result<AttackReport, Damage> {
        let (looked_at, connections) = (AtomicU64::new(0), AtomicU64::new(0));
        let mut watch = MemoryWatch {
            attack: self,
            first: None,
            most: 0,
        };
        // Rounds of one per cent, so that memory is measured while no frames are in flight.
        let round = self.frames.div_ceil(100).max(1);
        let mut number = 0;
        while looked_at.load(Ordering::Relaxed) < self.frames {
            let goal = (looked_at.load(Ordering::Relaxed) + round).min(self.frames);
            let send = |sender: u64| {
                let seed = self
                    .seed
                    .wrapping_mul(1_000_003)
                    .wrapping_add(number * SENDERS + sender);
                let mut sender = Sender::new(self, seed);
                while looked_at.load(Ordering::Relaxed) < goal {
                    looked_at.fetch_add(sender.connection()?, Ordering::Relaxed);
                    connections.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            };
            let outcomes: Vec<Result<(), std::io::Error>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..SENDERS)
                    .map(|sender| scope.spawn(move || send(sender)))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or(Ok(())))
                    .collect()
            });
            let frames = looked_at.load(Ordering::Relaxed);
            for outcome in outcomes {
                outcome.map_err(|error| self.damage(frames, error))?;
            }
            watch.look(frames)?;
            progress(frames);
            number += 1;
        }
        Ok(AttackReport {
            frames: looked_at.into_inner(),
            connections: connections.into_inner(),
            first_bytes: watch.first.unwrap_or(0),
            most_bytes: watch.most,
        })
    }

    fn damage(self, frames: u64, error: std::io::Error) -> Damage {
        match resident_bytes(self.process) {
            None => Damage::Dead {
                frames,
                seed: self.seed,
            },
            Some(_) => Damage::Silent {
                frames,
                seed: self.seed,
                error,
            },
        }
    }
}

/// Measures the memory of the server.
struct MemoryWatch {
    attack: Attack,
    first: Option<u64>,
    most: u64,
}

impl MemoryWatch {
    fn look(&mut self, frames: u64) -> Result<(), Damage> {
        let seed = self.attack.seed;
        let now = resident_bytes(self.attack.process).ok_or(Damage::Dead { frames, seed })?;
        let first = *self.first.get_or_insert(now);
        self.most = self.most.max(now);
        match now.saturating_sub(first) {
            grown if grown > MAX_GROWTH_BYTES => Err(Damage::Grown {
                frames,
                seed,
                grown,
            }),
            _ => Ok(()),
        }
    }
}

struct Sender {
    attack: Attack,
    mutator: Mutator,
    source: u64,
    batch: Vec<u8>,
    replies: Vec<u8>,
}

impl Sender {
    fn new(attack: Attack, seed: u64) -> Self {
        Sender {
            attack,
            mutator: Mutator::new(seed, payloads(attack.target)),
            source: seed,
            batch: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Sends some frames, and returns how many of them the server processed.
    fn connection(&mut self) -> std::io::Result<u64> {
        self.batch.clear();
        let mut sent = 0;
        for number in 0..FRAMES_PER_CONNECTION {
            let (frame, framing) = self.mutator.frame();
            self.batch.extend(frame);
            sent += 1;
            if framing == Framing::Broken {
                break;
            }
            self.batch.extend(probe(number));
        }
        self.source = self.source.wrapping_add(1);
        let mut stream = connect_from(self.source % SOURCES, self.attack.port)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        // The server may close the connection early with a reset.
        let _ = stream
            .write_all(&self.batch)
            .and_then(|()| stream.shutdown(Shutdown::Write));
        self.replies.clear();
        match stream.read_to_end(&mut self.replies) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(error),
            // A reset may discard earlier replies; then fewer frames are counted.
            Ok(_) | Err(_) => {}
        }
        let answered = last_probe(&self.replies).map_or(0, |last| last + 1);
        // The frame after the last answered call made the server close the connection.
        Ok((answered + 1).min(sent))
    }
}

/// Returns a valid call with this number.
fn probe(number: usize) -> Vec<u8> {
    let sequence = FIRST_PROBE + i32::try_from(number).unwrap_or(0);
    framed(&payload(
        Dialect::FramedCompact,
        "getStatus",
        TMessageType::Call,
        sequence,
        &FacebookServiceGetStatusArgs {},
    ))
}

/// Returns the highest number of an answered valid call.
fn last_probe(replies: &[u8]) -> Option<u64> {
    let mut last = None;
    let mut rest = replies;
    while let Some((length, after)) = rest.split_first_chunk::<LENGTH_BYTES>() {
        let Some(payload) = after.get(..u32::from_be_bytes(*length) as usize) else {
            break;
        };
        last = last.max(probe_number(payload));
        rest = &after[payload.len()..];
    }
    last
}

fn probe_number(payload: &[u8]) -> Option<u64> {
    // A compact reply of version 1: the prefix, the sequence id as a varint, then the method's name.
    let rest = payload.strip_prefix(b"\x82\x41")?;
    let (mut value, mut shift) = (0_u64, 0);
    for (at, byte) in rest.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            let is_status = rest[at + 1..].starts_with(b"\x09getStatus");
            let number = value.checked_sub(u64::from(FIRST_PROBE.unsigned_abs()))?;
            return (is_status && number < FRAMES_PER_CONNECTION as u64).then_some(number);
        }
    }
    None
}

pub(super) fn connect_from(source: u64, port: u16) -> std::io::Result<TcpStream> {
    let host = u8::try_from(source + 2).unwrap_or(2);
    let descriptor = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 1, host), 0));
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let address = |a: SocketAddr| match a {
        SocketAddr::V4(a) => SockaddrIn::from(a),
        SocketAddr::V6(_) => SockaddrIn::new(127, 0, 0, 1, a.port()),
    };
    let raw = std::os::fd::AsRawFd::as_raw_fd(&descriptor);
    bind(raw, &address(from))?;
    connect(raw, &address(to))?;
    let stream = TcpStream::from(descriptor);
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_thrift::generated::fb303::{FacebookServiceGetStatusResult, FbStatus};

    #[test]
    fn answers_to_good_calls_are_found_among_others() {
        let answer = |sequence| {
            let body = FacebookServiceGetStatusResult {
                result_value: Some(FbStatus::ALIVE),
            };
            framed(&payload(
                Dialect::FramedCompact,
                "getStatus",
                TMessageType::Reply,
                sequence,
                &body,
            ))
        };
        assert_eq!(last_probe(&[]), None);
        assert_eq!(last_probe(&answer(7)), None, "not one of ours");
        let mut replies = answer(FIRST_PROBE + 2);
        replies.extend(framed(b"something else"));
        replies.extend(answer(FIRST_PROBE + 1));
        replies.extend(b"\x00\x00\x00\x20cut short");
        assert_eq!(last_probe(&replies), Some(2));
    }
}

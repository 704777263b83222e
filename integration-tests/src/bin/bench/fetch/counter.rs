//! Counts a worker's calls to its scheduler by forwarding them, because neither program counts them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Length of a frame's length field. The message follows, with the method's name near its beginning.
const LENGTH_BYTES: usize = 4;
/// The name is within this many bytes of the message, in each dialect.
const HEAD_BYTES: usize = 48;
const BUFFER: usize = 64 * 1024;

/// Methods with separate counts; all others are counted together.
const METHODS: [&str; 3] = ["requestWork", "updateStatus", "processHeartbeat"];

/// The number of calls of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallCounts {
    pub requests: u64,
    pub statuses: u64,
    pub heartbeats: u64,
    pub others: u64,
}

/// A port that forwards connections to another port, and counts the frames that arrive.
#[derive(Debug)]
pub struct Counter {
    pub port: u16,
    counts: Arc<[AtomicU64; METHODS.len() + 1]>,
}

impl Counter {
    /// Starts a counter that runs until this program ends.
    pub fn before(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let own = listener.local_addr().expect("it is bound").port();
        let counts: Arc<[AtomicU64; METHODS.len() + 1]> = Arc::default();
        let shared = Arc::clone(&counts);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                pass_on(client, port, &shared);
            }
        });
        Counter { port: own, counts }
    }

    pub fn calls(&self) -> CallCounts {
        let [requests, statuses, heartbeats, others] =
            [0, 1, 2, 3].map(|at| self.counts[at].load(Ordering::Relaxed));
        CallCounts {
            requests,
            statuses,
            heartbeats,
            others,
        }
    }
}

impl CallCounts {
    pub fn since(self, before: CallCounts) -> CallCounts {
        CallCounts {
            requests: self.requests - before.requests,
            statuses: self.statuses - before.statuses,
            heartbeats: self.heartbeats - before.heartbeats,
            others: self.others - before.others,
        }
    }
}

fn pass_on(client: TcpStream, port: u16, counts: &Arc<[AtomicU64; METHODS.len() + 1]>) {
    // If nothing listens there, the worker's connection is closed, so that it sees the same.
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
        return;
    };
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a socket of TCP");
    }
    let back = (
        server.try_clone().expect("a descriptor is free"),
        client.try_clone().expect("a descriptor is free"),
    );
    let counts = Arc::clone(counts);
    std::thread::spawn(move || {
        let mut frames = Frames::default();
        copy(client, server, |bytes| {
            frames.take(bytes, |head| {
                counts[kind(head)].fetch_add(1, Ordering::Relaxed);
            });
        });
    });
    std::thread::spawn(move || copy(back.0, back.1, |_| {}));
}

/// Copies until one of the streams is closed, and then closes both.
fn copy(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8])) {
    let mut buffer = vec![0_u8; BUFFER];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        look(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // A stream that is already closed needs no handling.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn kind(head: &[u8]) -> usize {
    let has = |name: &str| head.windows(name.len()).any(|part| part == name.as_bytes());
    let known = METHODS.iter().position(|name| has(name));
    known.unwrap_or(METHODS.len())
}

/// Finds the beginnings of frames in a stream that arrives in any pieces.
#[derive(Debug, Default)]
struct Frames {
    /// The length field and the first bytes of the incomplete frame.
    head: Vec<u8>,
    /// The number of its bytes that have arrived.
    came: usize,
}

impl Frames {
    fn take(&mut self, mut bytes: &[u8], mut whole: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let wanted = match self.length() {
                None => LENGTH_BYTES - self.came,
                Some(length) => LENGTH_BYTES + length - self.came,
            };
            let (own, rest) = bytes.split_at(wanted.min(bytes.len()));
            let kept = (LENGTH_BYTES + HEAD_BYTES).saturating_sub(self.head.len());
            self.head.extend_from_slice(&own[..kept.min(own.len())]);
            self.came += own.len();
            bytes = rest;
            if self
                .length()
                .is_some_and(|length| self.came == LENGTH_BYTES + length)
            {
                whole(&self.head[LENGTH_BYTES..]);
                *self = Frames::default();
            }
        }
    }

    fn length(&self) -> Option<usize> {
        let (length, _) = self.head.split_first_chunk::<LENGTH_BYTES>()?;
        Some(u32::from_be_bytes(*length) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let long = [b"updateStatus".to_vec(), vec![b'x'; 1000]].concat();
        let messages = [b"requestWork".to_vec(), Vec::new(), long, b"else".to_vec()];
        let stream: Vec<u8> = messages
            .iter()
            .flat_map(|message| {
                let length = u32::try_from(message.len()).expect("short").to_be_bytes();
                [&length[..], message].concat()
            })
            .collect();
        for size in [1, 3, 7, stream.len()] {
            let (mut frames, mut kinds) = (Frames::default(), Vec::new());
            for part in stream.chunks(size) {
                frames.take(part, |head| kinds.push(kind(head)));
            }
            assert_eq!(kinds, [0, 3, 1, 3], "in parts of {size}");
        }
    }
}

//! A crowd of unused connections: some are silent, others send a beginning. Closed ones are opened again.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::attack::connect_from;

/// Number of source addresses, so that no range of ports is exhausted.
const SOURCES: u64 = 100;
/// The length field of a frame and its first byte.
const FRAME: &[u8] = &[0, 0, 0, 99, 0x82];
/// A record of TLS with the beginning of a handshake.
const HANDSHAKE: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
/// Pause before a connection at a port with TLS is opened again: 200 a second replace all strangers that a server keeps within the time that
/// it gives them for a handshake.
const REOPEN: Duration = Duration::from_millis(5);
/// Pause between two rounds over all connections, far shorter than any timeout of a server.
const ROUND: Duration = Duration::from_millis(20);

/// Holds connections to a local port until it is dropped.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicU64>,
    keeper: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Opens `size` connections, every second one with the beginning of a frame, and returns once each has been opened.
    ///
    /// # Panics
    /// If a connection cannot be opened.
    pub fn at(port: u16, size: usize) -> Self {
        Self::sending(port, size, &[FRAME, &[]], Duration::ZERO)
    }

    /// Does the same as [`Crowd::at`] at a port that speaks TLS: others are in the middle of a handshake.
    ///
    /// # Panics
    /// If a connection cannot be opened.
    pub fn at_tls(port: u16, size: usize) -> Self {
        Self::sending(port, size, &[FRAME, &[], HANDSHAKE, &[0x16]], REOPEN)
    }

    fn sending(
        port: u16,
        size: usize,
        beginnings: &'static [&'static [u8]],
        pause: Duration,
    ) -> Self {
        let (stop, opened) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let open = move |number: u64| -> std::io::Result<TcpStream> {
            let mut stream = connect_from(number % SOURCES, port)?;
            let which = number % beginnings.len() as u64;
            let which = usize::try_from(which).unwrap_or_default();
            // The server may close the connection at this moment.
            let _ = stream.write_all(beginnings[which]);
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let mut numbers = 0..;
        let mut crowd: Vec<TcpStream> = numbers
            .by_ref()
            .take(size)
            .map(|number| open(number).expect("the server accepts connections"))
            .collect();
        opened.store(size as u64, Ordering::Relaxed);
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&opened));
        let keeper = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for stream in &mut crowd {
                    if is_closed(stream)
                        && let Some(number) = numbers.next()
                        && let Ok(other) = open(number)
                    {
                        *stream = other;
                        count.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(pause);
                    }
                }
                std::thread::sleep(ROUND);
            }
        });
        Crowd {
            stop,
            opened,
            keeper: Some(keeper),
        }
    }

    /// Returns the number of connections opened so far, including those that replaced closed ones.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(keeper) = self.keeper.take() {
            // The panic of the thread has been printed.
            let _ = keeper.join();
        }
    }
}

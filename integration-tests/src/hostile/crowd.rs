//! A crowd of connections that nobody uses: some say nothing, some send the beginning of a frame. Closed ones are opened again.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::attack::connect_from;

/// Addresses to call from, so that no range of ports runs out.
const SOURCES: u64 = 100;
/// The length of a frame and the first byte of it.
const BEGINNING: &[u8] = &[0, 0, 0, 99, 0x82];
/// Pause between two rounds over all connections: far shorter than any timeout of a server.
const ROUND: Duration = Duration::from_millis(20);

/// Holds connections to a local port until it is dropped.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicU64>,
    keeper: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Opens `size` connections, and returns when each was opened once.
    ///
    /// # Panics
    /// When a connection cannot be opened at all.
    pub fn at(port: u16, size: usize) -> Self {
        let (stop, opened) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let open = move |number: u64| -> std::io::Result<TcpStream> {
            let mut stream = connect_from(number % SOURCES, port)?;
            if number.is_multiple_of(2) {
                // The server may close it at this moment.
                let _ = stream.write_all(BEGINNING);
            }
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

    /// How many connections were opened so far, those in the place of closed ones included.
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
            // Its panic has been printed.
            let _ = keeper.join();
        }
    }
}

//! Finds free ports, for servers that must return at the same address after a restart.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port, below the kernel's range for outgoing connections, so that none takes the port while the server is down.
const FIRST: u16 = 10_000;
/// Number of ports to try.
const COUNT: u16 = 20_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// Returns a loopback port that is unused and that this process has not returned before.
///
/// # Panics
/// If none is left.
pub fn free_port() -> u16 {
    // Concurrent test programs start at different offsets.
    let offset = u16::try_from(std::process::id().wrapping_mul(97) % u32::from(COUNT)).unwrap_or(0);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port =
            FIRST + (u32::from(offset) + u32::from(step)).rem_euclid(u32::from(COUNT)) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("all ports from {FIRST} are taken");
}

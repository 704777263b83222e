//! Free ports: for servers that must come back at the same address after a restart.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the kernel hands out by itself, so that no outgoing connection takes one between two lives of a server.
const FIRST: u16 = 10_000;
/// How many there are to try.
const COUNT: u16 = 20_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A loopback port that nobody listens on and that this process has not given out before.
///
/// # Panics
/// When none is left.
pub fn free_port() -> u16 {
    // Test programs that run side by side start at different places.
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

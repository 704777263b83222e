//! A TCP listener that holds back new connections while many are open.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Open connections: some browsers and probes; more wait in the kernel's queue and cannot exhaust the descriptors that
/// workers need.
const MAX_CONNECTIONS: usize = 128;
/// Pause after a failed `accept`: long enough not to spin while descriptors are exhausted, too short to be noticed.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

pub(super) struct Limited {
    listener: TcpListener,
    seats: Arc<Semaphore>,
}

impl Limited {
    pub(super) fn new(listener: TcpListener) -> Self {
        Limited {
            listener,
            seats: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }
    }
}

/// A connection with its seat, given back when it closes.
pub(super) struct Seated {
    stream: TcpStream,
    _seat: Option<OwnedSemaphorePermit>,
}

impl Listener for Limited {
    type Io = Seated;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Seated, SocketAddr) {
        // The semaphore is never closed, so there is always a seat sooner or later.
        let seat = Arc::clone(&self.seats).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let seated = Seated {
                        stream,
                        _seat: seat,
                    };
                    return (seated, address);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an HTTP connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for Seated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

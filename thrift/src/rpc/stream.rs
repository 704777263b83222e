//! The bytes of one connection: plain, or inside TLS. Nothing here waits but [`Stream::ready`].
//!
//! A server recognizes TLS by its first byte. No plain frame begins with it: [`TLS_HANDSHAKE`] would be the first byte of a length of more
//! than 350 MiB, and the largest frame is far smaller.

use std::io::{self, BufRead as _, IoSlice, Write as _};
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, ServerConfig,
    ServerConnection,
};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use super::limits::{KEEP_BUFFER_BYTES, LEAST_READ_BYTES, Limits, READ_CHUNK_BYTES};

/// The first byte of a TLS connection: the type of a record with a part of the handshake.
pub const TLS_HANDSHAKE: u8 = 0x16;
const _: () = assert!(Limits::DEFAULT.max_frame_bytes < (TLS_HANDSHAKE as usize) << 24);
/// Bytes that one read takes from the kernel for TLS: some records.
const TLS_READ_BYTES: usize = 64 << 10;
/// Bytes that one write encrypts: about a socket buffer, and four records.
const TLS_WRITE_BYTES: usize = 64 << 10;

/// A connection's bytes.
pub(super) struct Stream {
    socket: Socket,
    layer: Layer,
}

/// The kernel's side of a connection.
pub(super) enum Socket {
    Tcp(TcpStream),
    Local(UnixStream),
}

impl Socket {
    fn try_read_buf(&self, into: &mut BytesMut) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_read_buf(into),
            Socket::Local(stream) => stream.try_read_buf(into),
        }
    }

    fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_write_vectored(slices),
            Socket::Local(stream) => stream.try_write_vectored(slices),
        }
    }

    async fn ready(&self, interest: Interest) -> io::Result<()> {
        let ready = match self {
            Socket::Tcp(stream) => stream.ready(interest).await,
            Socket::Local(stream) => stream.ready(interest).await,
        };
        ready.map(|_| ())
    }
}

/// ```text
/// Undecided --first byte of TLS--> Tls
///     \-------another byte-------> Plain
/// ```
enum Layer {
    /// A server has received nothing yet. With this configuration it accepts TLS.
    Undecided(Arc<ServerConfig>),
    Plain,
    Tls(Box<TlsLayer>),
}

struct TlsLayer {
    connection: Connection,
    /// Bytes from the kernel that TLS has not taken.
    incoming: BytesMut,
    /// Whether decrypted bytes wait.
    has_plaintext: bool,
}

impl Stream {
    pub(super) fn plain(socket: Socket) -> Self {
        Stream {
            socket,
            layer: Layer::Plain,
        }
    }

    /// A server's side. The first byte decides whether it is TLS; without a configuration, it never is.
    pub(super) fn accepted(socket: Socket, tls: Option<Arc<ServerConfig>>) -> Self {
        Stream {
            socket,
            layer: tls.map_or(Layer::Plain, Layer::Undecided),
        }
    }

    /// A client's side, inside TLS. The handshake begins with the first read or write.
    pub(super) fn secured(
        socket: Socket,
        tls: Arc<ClientConfig>,
        peer: ServerName<'static>,
    ) -> io::Result<Self> {
        let connection = ClientConnection::new(tls, peer).map_err(io::Error::other)?;
        Ok(Stream {
            socket,
            layer: Layer::Tls(TlsLayer::new(connection.into())),
        })
    }

    /// Reads once into the free capacity, as `try_read_buf` of tokio does: 0 means that there are no more bytes ever, `WouldBlock` that there
    /// are none now. Invariant: some capacity is free.
    pub(super) fn try_read_buf(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        let socket = &self.socket;
        match &mut self.layer {
            Layer::Plain => socket.try_read_buf(into),
            Layer::Tls(tls) => tls.read(socket, into),
            Layer::Undecided(config) => {
                let mut first = BytesMut::with_capacity(READ_CHUNK_BYTES);
                let taken = socket.try_read_buf(&mut first)?;
                if first.first() != Some(&TLS_HANDSHAKE) {
                    if taken > 0 {
                        into.extend_from_slice(&first);
                        self.layer = Layer::Plain;
                    }
                    return Ok(taken);
                }
                let connection = ServerConnection::new(Arc::clone(config));
                let mut tls = TlsLayer::new(connection.map_err(io::Error::other)?.into());
                tls.incoming = first;
                let read = tls.read(socket, into);
                self.layer = Layer::Tls(tls);
                read
            }
        }
    }

    /// Writes once, as `try_write_vectored` of tokio does. Inside TLS, bytes count as written once they are encrypted, as they then
    /// leave in any case or end with the connection. So no more are encrypted before those have left.
    pub(super) fn try_write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.layer {
            Layer::Plain | Layer::Undecided(_) => self.socket.try_write_vectored(slices),
            Layer::Tls(tls) => tls.write(&self.socket, slices),
        }
    }

    /// Passes encrypted bytes on to the kernel. Returns whether it has all of them.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match &mut self.layer {
            Layer::Plain | Layer::Undecided(_) => Ok(true),
            Layer::Tls(tls) => tls.flush(&self.socket),
        }
    }

    /// Tells the peer that no more bytes follow, as far as the kernel takes that without waiting.
    pub(super) fn finish(&mut self) {
        if let Layer::Tls(tls) = &mut self.layer {
            tls.connection.send_close_notify();
            // The connection ends in any case.
            let _ = tls.flush(&self.socket);
        }
    }

    /// Waits until a read or a write may succeed, and inside TLS also until the handshake can continue.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<()> {
        let interest = match &self.layer {
            Layer::Plain | Layer::Undecided(_) => interest,
            Layer::Tls(tls) if interest.is_readable() && tls.has_plaintext => return Ok(()),
            Layer::Tls(tls) => tls.interest(interest),
        };
        self.socket.ready(interest).await
    }

    /// Returns the proof of the peer once it is complete: the certificates that it has shown and that were verified, the peer's own first.
    pub(super) fn proof(&self) -> Proof<'_> {
        match &self.layer {
            Layer::Undecided(_) => Proof::Incomplete,
            Layer::Plain => Proof::Plain,
            Layer::Tls(tls) if tls.connection.is_handshaking() => Proof::Incomplete,
            Layer::Tls(tls) => {
                Proof::Certificates(tls.connection.peer_certificates().unwrap_or_default())
            }
        }
    }
}

/// Makes place for a read. The buffer grows with the bytes that have arrived, never with the value of a length field: up to the size of the
/// longest frame of a stranger in small steps, so that incomplete frames cost little more memory than their bytes, and then by doubling.
pub(super) fn make_place(input: &mut BytesMut) {
    if input.try_reclaim(LEAST_READ_BYTES) {
        return;
    }
    if input.len() > Limits::DEFAULT.connection_allowance_bytes {
        return input.reserve(READ_CHUNK_BYTES);
    }
    *input = with_place(input);
}

/// Drops bytes from the front that are handled. The bytes after them move to a small buffer if the present one is larger than they are by
/// more than `spare`, so that nobody holds the memory of a long frame with the first byte of the next.
pub(super) fn drop_handled(input: &mut BytesMut, handled: usize, spare: usize) {
    if handled == 0 {
        return;
    }
    let capacity = input.capacity();
    input.advance(handled);
    if capacity <= input.len() + spare {
        return;
    }
    *input = match input.is_empty() {
        true => BytesMut::new(),
        false => with_place(input),
    };
}

/// Copies the bytes to a buffer with place for the next read.
fn with_place(bytes: &[u8]) -> BytesMut {
    let mut larger = BytesMut::with_capacity(bytes.len() + READ_CHUNK_BYTES);
    larger.extend_from_slice(bytes);
    larger
}

/// Returns whether a connection has failed because one side's certificate is of an authority that the other one does not trust.
pub(super) fn is_about_authority(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(
        cause,
        Some(
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)
                | rustls::Error::AlertReceived(AlertDescription::UnknownCA)
        )
    )
}

/// The transport's knowledge of a server's peer.
pub(super) enum Proof<'a> {
    /// Nothing has arrived, or the handshake is under way.
    Incomplete,
    /// The connection is not encrypted.
    Plain,
    /// Empty if the peer has shown none.
    Certificates(&'a [CertificateDer<'static>]),
}

impl TlsLayer {
    fn new(mut connection: Connection) -> Box<Self> {
        connection.set_buffer_limit(Some(TLS_WRITE_BYTES));
        Box::new(TlsLayer {
            connection,
            incoming: BytesMut::new(),
            has_plaintext: false,
        })
    }

    fn read(&mut self, socket: &Socket, into: &mut BytesMut) -> io::Result<usize> {
        self.flush(socket)?;
        loop {
            let mut plaintext = self.connection.reader();
            match plaintext.fill_buf() {
                Ok(chunk) => {
                    // The rest stays in the layer, so that the buffer grows as its owner wants.
                    let bytes = chunk.len().min(into.capacity() - into.len());
                    into.extend_from_slice(&chunk[..bytes]);
                    plaintext.consume(bytes);
                    // The next read finds out whether there is more.
                    self.has_plaintext = bytes > 0;
                    return Ok(bytes);
                }
                // The peer ended without a goodbye. Frames tell whether anything is missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.has_plaintext = false;
                }
                Err(error) => return Err(error),
            }
            self.take_records(socket)?;
        }
    }

    /// Decrypts what has arrived. Errors with `WouldBlock` if nothing has.
    fn take_records(&mut self, socket: &Socket) -> io::Result<()> {
        let mut has_ended = false;
        if self.incoming.is_empty() {
            self.incoming.reserve(TLS_READ_BYTES);
            match socket.try_read_buf(&mut self.incoming) {
                Ok(0) => has_ended = true,
                Ok(_) => {}
                Err(error) => {
                    // An idle connection keeps no buffer.
                    if self.incoming.capacity() >= KEEP_BUFFER_BYTES {
                        self.incoming = BytesMut::new();
                    }
                    return Err(error);
                }
            }
        }
        let mut rest = &self.incoming[..];
        let taken = self.connection.read_tls(&mut rest)?;
        debug_assert!(
            taken > 0 || has_ended,
            "plaintext was taken before, so there is room"
        );
        let left = rest.len();
        self.incoming.advance(self.incoming.len() - left);
        let processed = self.connection.process_new_packets();
        // Also after an error, so that the peer learns why.
        let flushed = self.flush(socket);
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        flushed.map(|_| ())
    }

    fn write(&mut self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.flush(socket)? || self.connection.is_handshaking() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut taken = 0;
        for slice in slices {
            let part = self.connection.writer().write(slice)?;
            taken += part;
            if part < slice.len() {
                break;
            }
        }
        self.flush(socket)?;
        Ok(taken)
    }

    fn flush(&mut self, socket: &Socket) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Kernel(socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns what the kernel must be ready for, so that the caller can do what it is interested in.
    fn interest(&self, wanted: Interest) -> Interest {
        let is_handshaking = self.connection.is_handshaking();
        let reads = wanted.is_readable() || is_handshaking;
        let writes = self.connection.wants_write() || (wanted.is_writable() && !is_handshaking);
        match (reads, writes) {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (false, true) => Interest::WRITABLE,
            (true, false) | (false, false) => Interest::READABLE,
        }
    }
}

/// The kernel's side of a connection, for TLS to write to without waiting.
struct Kernel<'a>(&'a Socket);

impl io::Write for Kernel<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_frame_costs_little_more_than_its_bytes() {
        let mut input = BytesMut::new();
        while input.len() < Limits::DEFAULT.connection_allowance_bytes {
            make_place(&mut input);
            let free = input.capacity() - input.len();
            assert!(
                (LEAST_READ_BYTES..=READ_CHUNK_BYTES).contains(&free),
                "{free}"
            );
            input.extend_from_slice(&[7; 1000]);
        }
        // Places of bytes that were taken are used again.
        input.resize(input.capacity(), 7);
        let (capacity, start) = (input.capacity(), input.as_ptr());
        input.advance(input.len() - 1);
        make_place(&mut input);
        assert_eq!((input.capacity(), input.as_ptr()), (capacity, start));
        // The first bytes of the next frame do not keep the memory of a long one.
        for (rest, spare) in [(1, 0), (1, KEEP_BUFFER_BYTES), (0, KEEP_BUFFER_BYTES)] {
            let most = rest + rest * READ_CHUNK_BYTES;
            let mut input = BytesMut::from(&[7; 72 << 10][..]);
            let handled = input.len() - rest;
            drop_handled(&mut input, handled, spare);
            assert_eq!(input.len(), rest);
            // The whole buffer, also the part before the rest.
            let taken_again = input.try_reclaim(most + 1 - rest);
            assert!(!taken_again && input.capacity() <= most, "{rest}");
        }
        // The copies of a long frame stay few.
        input.resize(1 << 20, 7);
        make_place(&mut input);
        input.resize(input.capacity(), 7);
        make_place(&mut input);
        assert!(input.capacity() >= 2 << 20, "{}", input.capacity());
    }
}

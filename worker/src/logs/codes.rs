//! Encodes streams, and computes checksums, for segments and their indexes.

use std::hash::Hasher;

use brasserie_common::logs::LogStream;
use siphasher::sip::SipHasher13;

/// Returns the code of a stream.
pub(super) fn stream_code(stream: LogStream) -> u8 {
    match stream {
        LogStream::Stdout => 0,
        LogStream::Stderr => 1,
        LogStream::Statuses => 2,
    }
}

/// Returns the stream with this code; `None` for a code of a later release.
pub(super) fn stream_of(code: u8) -> Option<LogStream> {
    LogStream::ALL
        .into_iter()
        .find(|stream| stream_code(*stream) == code)
}

/// Returns a checksum. It protects against torn writes and damaged disks, not against attackers, so the key is fixed.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

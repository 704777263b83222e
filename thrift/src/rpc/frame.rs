//! Frames: finds the end of a frame, recognizes its dialect (one of three), and wraps a reply in the same dialect.
//!
//! ```text
//! framed   length:u32 | message                                   message starts with 0x82 (compact) or 0x8001 (binary)
//! header   length:u32 | 0x0FFF | flags:u16 | sequence:u32 | words:u16 | header, padded to words*4 | message
//!                                                           header: varint protocol, varint transforms, info headers
//! ```

use std::fmt;

use thrift::ApplicationErrorKind;

use super::stream::TLS_HANDSHAKE;

/// Length of the length field before every frame, in bytes.
pub(super) const LENGTH_BYTES: usize = 4;

const HEADER_MAGIC: [u8; 2] = [0x0F, 0xFF];
/// Length of magic, flags, sequence id and header length, in bytes.
const HEADER_FIXED_BYTES: usize = 10;
/// Length of the only header that this crate sends: protocol id, no transforms, two bytes of padding.
const OUR_HEADER_WORDS: u16 = 1;

const COMPACT_ID: u8 = 0x82;
const COMPACT_VERSION: u8 = 0x01;
const COMPACT_VERSION_MASK: u8 = 0x1F;
const BINARY_VERSION_1: [u8; 2] = [0x80, 0x01];

const HEADER_PROTOCOL_BINARY: u32 = 0;
const HEADER_PROTOCOL_COMPACT: u32 = 2;

/// The encoding of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Thrift's compact protocol.
    Compact,
    /// Thrift's strict binary protocol.
    Binary,
}

/// The wrapping of a frame. A reply repeats that of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Framed(Encoding),
    Header {
        encoding: Encoding,
        flags: u16,
        /// The header's own sequence id, which may differ from the message's.
        sequence: u32,
    },
}

impl Dialect {
    pub(super) fn encoding(self) -> Encoding {
        match self {
            Dialect::Framed(encoding) | Dialect::Header { encoding, .. } => encoding,
        }
    }
}

/// The protocol and transport of a client's calls. Servers of this crate understand all of them; others may understand only one. So call a
/// peer in the dialect in which its own calls arrive ([`IncomingCall::protocol`](super::IncomingCall::protocol)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientProtocol {
    /// The compact protocol in plain frames, the shortest encoding.
    #[default]
    FramedCompact,
    /// The binary protocol in plain frames.
    FramedBinary,
    /// The compact protocol in the header transport.
    HeaderCompact,
    /// The binary protocol in the header transport.
    HeaderBinary,
}

impl ClientProtocol {
    pub(super) fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Framed(Encoding::Compact) => ClientProtocol::FramedCompact,
            Dialect::Framed(Encoding::Binary) => ClientProtocol::FramedBinary,
            Dialect::Header { encoding, .. } => match encoding {
                Encoding::Compact => ClientProtocol::HeaderCompact,
                Encoding::Binary => ClientProtocol::HeaderBinary,
            },
        }
    }

    /// Returns the wrapping of a call with this sequence id.
    pub(super) fn dialect(self, sequence: i32) -> Dialect {
        let header = |encoding| Dialect::Header {
            encoding,
            flags: 0,
            sequence: sequence.cast_unsigned(),
        };
        match self {
            ClientProtocol::FramedCompact => Dialect::Framed(Encoding::Compact),
            ClientProtocol::FramedBinary => Dialect::Framed(Encoding::Binary),
            ClientProtocol::HeaderCompact => header(Encoding::Compact),
            ClientProtocol::HeaderBinary => header(Encoding::Binary),
        }
    }
}

/// A frame without its wrapping.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    pub(super) dialect: Dialect,
    pub(super) message: &'a [u8],
}

/// Why a frame cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("bytes of {0}, which is not Thrift")]
    Foreign(Foreign),
    #[error("a frame of {length} bytes exceeds the limit of {limit} bytes")]
    TooLong { length: usize, limit: usize },
    #[error(
        "a frame in none of the supported encodings: framed compact, framed strict binary and header transport"
    )]
    UnknownDialect,
    #[error("a malformed header, or one that is longer than its frame")]
    BadHeader,
    /// An error that can be answered, because dialect and sequence id are known.
    #[error("{message}")]
    Answerable {
        dialect: Dialect,
        kind: ApplicationErrorKind,
        message: &'static str,
    },
}

/// Another protocol than Thrift, recognized by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    Http,
    Tls,
}

impl Foreign {
    /// Recognizes the first bytes of another protocol in place of a frame's length. Read as a length, each of them exceeds 300 MB.
    fn of(first: [u8; LENGTH_BYTES]) -> Option<Self> {
        match &first {
            // The beginning of a reply, and the methods of requests.
            b"HTTP" | b"GET " | b"HEAD" | b"POST" | b"PUT " | b"PATC" | b"DELE" | b"OPTI"
            | b"CONN" | b"TRAC" | b"PRI " => Some(Foreign::Http),
            // A TLS record with a handshake or an alert, version 1.0 to 1.3.
            [0x15 | TLS_HANDSHAKE, 0x03, 0x00..=0x04, _] => Some(Foreign::Tls),
            _ => None,
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Foreign::Http => "HTTP",
            Foreign::Tls => "TLS",
        })
    }
}

/// Returns the payload length of the frame that starts `buffer`; `None` while its length field or payload is incomplete.
///
/// The length is checked as soon as it has arrived, before the payload.
pub(super) fn complete_payload(buffer: &[u8], limit: usize) -> Result<Option<usize>, FrameError> {
    let Some((length, rest)) = buffer.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let first = *length;
    let length = u32::from_be_bytes(first) as usize;
    if length > limit {
        if let Some(foreign) = Foreign::of(first) {
            return Err(FrameError::Foreign(foreign));
        }
        // Unframed Thrift also ends here.
        return Err(FrameError::TooLong { length, limit });
    }
    Ok((rest.len() >= length).then_some(length))
}

/// Recognizes the dialect and finds the message.
pub(super) fn open(payload: &[u8]) -> Result<Envelope<'_>, FrameError> {
    match payload {
        [COMPACT_ID, version, ..] if version & COMPACT_VERSION_MASK == COMPACT_VERSION => {
            Ok(Envelope {
                dialect: Dialect::Framed(Encoding::Compact),
                message: payload,
            })
        }
        [first, second, ..] if [*first, *second] == BINARY_VERSION_1 => Ok(Envelope {
            dialect: Dialect::Framed(Encoding::Binary),
            message: payload,
        }),
        [first, second, ..] if [*first, *second] == HEADER_MAGIC => open_header(payload),
        _ => Err(FrameError::UnknownDialect),
    }
}

fn open_header(payload: &[u8]) -> Result<Envelope<'_>, FrameError> {
    let (fixed, rest) = payload
        .split_first_chunk::<HEADER_FIXED_BYTES>()
        .ok_or(FrameError::BadHeader)?;
    let flags = u16::from_be_bytes([fixed[2], fixed[3]]);
    let sequence = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
    let header_bytes = usize::from(u16::from_be_bytes([fixed[8], fixed[9]])) * 4;
    let (mut header, message) = rest
        .split_at_checked(header_bytes)
        .ok_or(FrameError::BadHeader)?;
    let protocol = read_varint(&mut header).ok_or(FrameError::BadHeader)?;
    let transforms = read_varint(&mut header).ok_or(FrameError::BadHeader)?;
    // The rest of the header is info headers and padding, which are not needed.
    let encoding = match protocol {
        HEADER_PROTOCOL_BINARY => Encoding::Binary,
        HEADER_PROTOCOL_COMPACT => Encoding::Compact,
        _ => {
            return Err(FrameError::Answerable {
                // The sender's own protocol is unknown. Every implementation supports binary.
                dialect: Dialect::Header {
                    encoding: Encoding::Binary,
                    flags,
                    sequence,
                },
                kind: ApplicationErrorKind::InvalidProtocol,
                message: "unknown protocol in the header: use 0 (binary) or 2 (compact)",
            });
        }
    };
    let dialect = Dialect::Header {
        encoding,
        flags,
        sequence,
    };
    if transforms != 0 {
        return Err(FrameError::Answerable {
            dialect,
            kind: ApplicationErrorKind::InvalidTransform,
            message: "transforms are not supported: send the message as it is",
        });
    }
    Ok(Envelope { dialect, message })
}

/// Returns the sequence id by which a reply finds its call.
///
/// The header transport's own id counts there, because some servers leave the message's id at zero.
pub(super) fn sequence_of(envelope: &Envelope<'_>) -> Option<i32> {
    match envelope.dialect {
        Dialect::Header { sequence, .. } => Some(sequence.cast_signed()),
        Dialect::Framed(Encoding::Compact) => {
            let mut rest = envelope.message.get(2..)?;
            Some(read_varint(&mut rest)?.cast_signed())
        }
        Dialect::Framed(Encoding::Binary) => {
            let (name_length, rest) = envelope.message.get(4..)?.split_first_chunk::<4>()?;
            let name_length = usize::try_from(u32::from_be_bytes(*name_length)).ok()?;
            let sequence = rest.get(name_length..)?.first_chunk::<4>()?;
            Some(i32::from_be_bytes(*sequence))
        }
    }
}

/// Starts a frame at the end of `out`, and returns the value for [`end`]. The caller appends the message in between.
pub(super) fn begin(out: &mut Vec<u8>, dialect: Dialect) -> FrameStart {
    let start = FrameStart(out.len());
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    match dialect {
        Dialect::Framed(Encoding::Compact | Encoding::Binary) => {}
        Dialect::Header {
            encoding,
            flags,
            sequence,
        } => {
            let protocol = match encoding {
                Encoding::Binary => HEADER_PROTOCOL_BINARY,
                Encoding::Compact => HEADER_PROTOCOL_COMPACT,
            };
            out.extend_from_slice(&HEADER_MAGIC);
            out.extend_from_slice(&flags.to_be_bytes());
            out.extend_from_slice(&sequence.to_be_bytes());
            out.extend_from_slice(&OUR_HEADER_WORDS.to_be_bytes());
            // Both ids are below 128, so each is a varint of one byte.
            out.extend_from_slice(&[protocol as u8, 0, 0, 0]);
        }
    }
    start
}

/// The position in its buffer at which a frame begins.
pub(super) struct FrameStart(usize);

/// Writes the length field. A frame above the limit is removed from `out`.
pub(super) fn end(out: &mut Vec<u8>, start: FrameStart, limit: usize) -> Result<(), FrameError> {
    let length = out.len() - start.0 - LENGTH_BYTES;
    match u32::try_from(length) {
        Ok(field) if length <= limit => {
            out[start.0..start.0 + LENGTH_BYTES].copy_from_slice(&field.to_be_bytes());
            Ok(())
        }
        Ok(_) | Err(_) => {
            out.truncate(start.0);
            Err(FrameError::TooLong { length, limit })
        }
    }
}

/// Reads an unsigned varint of at most 32 bits.
fn read_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in [0, 7, 14, 21, 28] {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1000;

    fn header_frame(header: &[u8], message: &[u8]) -> Vec<u8> {
        let mut payload = vec![0x0F, 0xFF, 0, 1, 0, 0, 0, 9];
        payload.extend_from_slice(&u16::try_from(header.len() / 4).unwrap().to_be_bytes());
        payload.extend_from_slice(header);
        payload.extend_from_slice(message);
        payload
    }

    #[test]
    fn a_frame_is_complete_with_its_last_byte() {
        assert_eq!(complete_payload(&[0, 0, 0], LIMIT), Ok(None));
        assert_eq!(complete_payload(&[0, 0, 0, 2, 1], LIMIT), Ok(None));
        assert_eq!(complete_payload(&[0, 0, 0, 2, 1, 2], LIMIT), Ok(Some(2)));
        assert_eq!(complete_payload(&[0, 0, 0, 2, 1, 2, 3], LIMIT), Ok(Some(2)));
    }

    #[test]
    fn a_long_frame_is_refused_by_its_length_alone() {
        assert_eq!(
            complete_payload(&[0, 0, 3, 233], LIMIT),
            Err(FrameError::TooLong {
                length: 1001,
                limit: LIMIT
            })
        );
        for (bytes, foreign) in [
            (&b"GET / HTTP/1.1"[..], Foreign::Http),
            (b"HTTP/1.1 400 Bad Request", Foreign::Http),
            (b"\x16\x03\x01\x02\x00\x01", Foreign::Tls),
            (b"\x15\x03\x03\x00\x02\x02", Foreign::Tls),
        ] {
            let error = FrameError::Foreign(foreign);
            assert_eq!(complete_payload(bytes, LIMIT), Err(error));
        }
        assert!(complete_payload(&[0x80, 1, 0, 1], LIMIT).is_err());
    }

    #[test]
    fn old_binary_and_empty_frames_are_unknown() {
        assert_eq!(
            open(&[0, 0, 0, 4, b'p']).unwrap_err(),
            FrameError::UnknownDialect
        );
        assert_eq!(open(&[]).unwrap_err(), FrameError::UnknownDialect);
    }

    #[test]
    fn info_headers_and_padding_are_skipped() {
        let payload = header_frame(&[2, 0, 1, 1, 1, b'k', 1, b'v'], b"message");
        let envelope = open(&payload).unwrap();
        assert_eq!(envelope.message, b"message");
        assert_eq!(
            envelope.dialect,
            Dialect::Header {
                encoding: Encoding::Compact,
                flags: 1,
                sequence: 9
            }
        );
        assert_eq!(sequence_of(&envelope), Some(9));
    }

    #[test]
    fn transforms_and_unknown_protocols_can_be_answered() {
        let transform = open_error(&header_frame(&[0, 1, 1, 0], b""));
        assert_eq!(transform, Some(ApplicationErrorKind::InvalidTransform));
        let protocol = open_error(&header_frame(&[5, 0, 0, 0], b""));
        assert_eq!(protocol, Some(ApplicationErrorKind::InvalidProtocol));
    }

    fn open_error(payload: &[u8]) -> Option<ApplicationErrorKind> {
        match open(payload).unwrap_err() {
            FrameError::Answerable { kind, .. } => Some(kind),
            FrameError::Foreign(_)
            | FrameError::TooLong { .. }
            | FrameError::UnknownDialect
            | FrameError::BadHeader => None,
        }
    }

    #[test]
    fn a_header_longer_than_its_frame_is_refused() {
        let mut payload = header_frame(&[0, 0, 0, 0], b"");
        payload[9] = 2;
        assert_eq!(open(&payload).unwrap_err(), FrameError::BadHeader);
        assert_eq!(
            open(&[0x0F, 0xFF, 0]).unwrap_err(),
            FrameError::BadHeader,
            "cut short"
        );
        assert_eq!(
            open(&header_frame(&[], b"")).unwrap_err(),
            FrameError::BadHeader,
            "no protocol id"
        );
        assert_eq!(
            open(&header_frame(
                &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0],
                b""
            ))
            .unwrap_err(),
            FrameError::BadHeader,
            "endless varint"
        );
    }

    #[test]
    fn what_begin_and_end_write_is_opened_again() {
        for dialect in [
            Dialect::Framed(Encoding::Compact),
            Dialect::Header {
                encoding: Encoding::Binary,
                flags: 3,
                sequence: 77,
            },
        ] {
            let mut out = Vec::new();
            let start = begin(&mut out, dialect);
            out.extend_from_slice(&[0x82, 0x21, 5]);
            end(&mut out, start, LIMIT).unwrap();
            assert_eq!(
                complete_payload(&out, LIMIT).unwrap(),
                Some(out.len() - LENGTH_BYTES)
            );
            let envelope = open(&out[LENGTH_BYTES..]).unwrap();
            assert_eq!(envelope.dialect, dialect);
            assert_eq!(envelope.message, &[0x82, 0x21, 5]);
        }
    }

    #[test]
    fn a_reply_above_the_limit_leaves_no_trace() {
        let mut out = vec![1, 2, 3];
        let start = begin(&mut out, Dialect::Framed(Encoding::Binary));
        out.resize(out.len() + LIMIT + 1, 0);
        assert!(end(&mut out, start, LIMIT).is_err());
        assert_eq!(out, [1, 2, 3]);
    }
}

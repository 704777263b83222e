//! The `thrift` crate's protocols over a slice, with limits for the claims of one message.
//!
//! Generated code trusts the protocol, so the protocol rejects hostile sizes. No string or container can be longer than the bytes that have
//! arrived. Every struct and element is charged to the message's allowance, at an estimate of its memory.

use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TCompactInputProtocol, TCompactOutputProtocol,
    TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TMessageIdentifier,
    TMessageType, TOutputProtocol, TSetIdentifier, TStructIdentifier, TType,
};
use thrift::{ProtocolErrorKind, TConfiguration};

use super::frame::{self, Dialect, Encoding};
use super::limits::Limits;

/// Estimated memory of a struct: generated ones have up to some twenty fields of 24 bytes, and most have half of that.
const STRUCT_COST_BYTES: usize = 256;
/// Estimated memory of an element of a list, set or map: a `String` or `Vec` and its share of spare capacity or tree node.
const ELEMENT_COST_BYTES: usize = 32;

enum Inner<'a> {
    Compact(TCompactInputProtocol<&'a [u8]>),
    Binary(TBinaryInputProtocol<&'a [u8]>),
}

/// Reads one message from the bytes of one frame.
pub(super) struct MessageInput<'a> {
    inner: Inner<'a>,
    remaining_cost: usize,
}

impl<'a> MessageInput<'a> {
    pub(super) fn new(encoding: Encoding, message: &'a [u8], limits: &Limits) -> Self {
        let size = message.len();
        let config = TConfiguration::builder()
            .max_message_size(Some(size))
            .max_frame_size(Some(size))
            .max_string_size(Some(size))
            .max_container_size(Some(size.min(limits.max_container_len)))
            .max_recursion_depth(Some(limits.max_depth))
            .build()
            .expect("the frame size does not exceed the message size, as they are equal");
        let inner = match encoding {
            Encoding::Compact => {
                Inner::Compact(TCompactInputProtocol::with_config(message, config))
            }
            Encoding::Binary => {
                Inner::Binary(TBinaryInputProtocol::with_config(message, true, config))
            }
        };
        MessageInput {
            inner,
            remaining_cost: limits.max_decoded_bytes,
        }
    }

    fn charge(&mut self, cost: usize) -> thrift::Result<()> {
        match self.remaining_cost.checked_sub(cost) {
            Some(rest) => {
                self.remaining_cost = rest;
                Ok(())
            }
            None => Err(thrift::new_protocol_error(
                ProtocolErrorKind::SizeLimit,
                "the message holds more structs and elements than may be decoded at once",
            )),
        }
    }

    fn charge_elements(&mut self, size: i32) -> thrift::Result<()> {
        let size = usize::try_from(size).map_err(|_| {
            thrift::new_protocol_error(
                ProtocolErrorKind::NegativeSize,
                "a container of negative size",
            )
        })?;
        self.charge(size.saturating_mul(ELEMENT_COST_BYTES))
    }
}

/// Calls a method of the message's protocol.
macro_rules! delegate {
    ($self:ident.$name:ident()) => {
        match &mut $self.inner {
            Inner::Compact(inner) => inner.$name(),
            Inner::Binary(inner) => inner.$name(),
        }
    };
}

/// Defines methods that only delegate.
macro_rules! delegates {
    ($($name:ident -> $result:ty;)*) => {
        $(fn $name(&mut self) -> thrift::Result<$result> {
            delegate!(self.$name())
        })*
    };
}

impl TInputProtocol for MessageInput<'_> {
    delegates! {
        read_message_begin -> TMessageIdentifier;
        read_message_end -> ();
        read_struct_end -> ();
        read_field_begin -> TFieldIdentifier;
        read_field_end -> ();
        read_bool -> bool;
        read_bytes -> Vec<u8>;
        skip_binary -> ();
        read_i8 -> i8;
        read_i16 -> i16;
        read_i32 -> i32;
        read_i64 -> i64;
        read_double -> f64;
        read_uuid -> uuid::Uuid;
        read_string -> String;
        read_list_end -> ();
        read_set_end -> ();
        read_map_end -> ();
        read_byte -> u8;
    }

    fn read_struct_begin(&mut self) -> thrift::Result<Option<TStructIdentifier>> {
        self.charge(STRUCT_COST_BYTES)?;
        delegate!(self.read_struct_begin())
    }

    fn read_list_begin(&mut self) -> thrift::Result<TListIdentifier> {
        let list = delegate!(self.read_list_begin())?;
        self.charge_elements(list.size)?;
        Ok(list)
    }

    fn read_set_begin(&mut self) -> thrift::Result<TSetIdentifier> {
        let set = delegate!(self.read_set_begin())?;
        self.charge_elements(set.size)?;
        Ok(set)
    }

    fn read_map_begin(&mut self) -> thrift::Result<TMapIdentifier> {
        let map = delegate!(self.read_map_begin())?;
        self.charge_elements(map.size)?;
        Ok(map)
    }

    fn min_serialized_size(&self, field_type: TType) -> usize {
        match &self.inner {
            Inner::Compact(inner) => inner.min_serialized_size(field_type),
            Inner::Binary(inner) => inner.min_serialized_size(field_type),
        }
    }
}

/// Whether the caller waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A reply is expected.
    Call,
    /// No answer is ever sent.
    Oneway,
}

/// The method, kind and sequence id of a message.
pub(super) struct MessageName {
    pub(super) method: String,
    pub(super) kind: TMessageType,
    pub(super) sequence: i32,
}

/// Why a message could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum EncodeError {
    #[error("cannot encode the message: {0}")]
    Thrift(#[from] thrift::Error),
    #[error("cannot send the message: {0}")]
    Frame(#[from] frame::FrameError),
}

/// Appends one frame to `out`. On an error, `out` is unchanged.
pub(super) fn encode_frame(
    out: &mut Vec<u8>,
    dialect: Dialect,
    name: MessageName,
    max_frame_bytes: usize,
    write_body: &mut dyn FnMut(&mut dyn TOutputProtocol) -> thrift::Result<()>,
) -> Result<(), EncodeError> {
    let before = out.len();
    let start = frame::begin(out, dialect);
    let identifier = TMessageIdentifier::new(name.method, name.kind, name.sequence);
    let written = match dialect.encoding() {
        Encoding::Compact => {
            let mut protocol = TCompactOutputProtocol::new(&mut *out);
            write_message(&mut protocol, &identifier, write_body)
        }
        Encoding::Binary => {
            let mut protocol = TBinaryOutputProtocol::new(&mut *out, true);
            write_message(&mut protocol, &identifier, write_body)
        }
    };
    if let Err(error) = written {
        out.truncate(before);
        return Err(error.into());
    }
    frame::end(out, start, max_frame_bytes)?;
    Ok(())
}

fn write_message(
    protocol: &mut dyn TOutputProtocol,
    identifier: &TMessageIdentifier,
    write_body: &mut dyn FnMut(&mut dyn TOutputProtocol) -> thrift::Result<()>,
) -> thrift::Result<()> {
    protocol.write_message_begin(identifier)?;
    write_body(protocol)?;
    protocol.write_message_end()
}

/// Describes an error of Thrift in words, because its own message appears only with `Debug`.
pub(super) fn describe(error: &thrift::Error) -> String {
    match error {
        thrift::Error::Transport(inner) => format!("{inner}: {}", inner.message),
        thrift::Error::Protocol(inner) => format!("{inner}: {}", inner.message),
        thrift::Error::Application(inner) => format!("{inner}: {}", inner.message),
        thrift::Error::User(inner) => inner.to_string(),
    }
}

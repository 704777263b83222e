//! Helpers of the transport's tests: a small service, its structs written by hand, and a client that sends raw bytes.

// Each test file is a program of its own and uses only some of these.
#![expect(dead_code, reason = "no test file uses all of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::{CallOrigin, Identity, IdentityProof, Role, TokenNumber};
use brasserie_common::{Principal, WallTime};
use brasserie_thrift::rpc::{
    CallKind, IncomingCall, Limits, PeerAddr, Responder, Server, ServerHandle, Service,
};
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TCompactInputProtocol, TCompactOutputProtocol,
    TFieldIdentifier, TInputProtocol, TListIdentifier, TMessageIdentifier, TMessageType,
    TOutputProtocol, TSerializable, TStructIdentifier, TType,
};
use thrift::{ApplicationError, ApplicationErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Longer than any wait of a passing test.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The number of a token whose life has ended.
pub const EXPIRED: i32 = 9;

/// Arguments of every method here: `1: string text, 2: i32 number, 3: list<string> items, 4: bool flag`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Note {
    pub text: String,
    pub number: i32,
    pub items: Vec<String>,
    pub flag: bool,
}

impl TSerializable for Note {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut note = Note::default();
        input.read_struct_begin()?;
        loop {
            let field = input.read_field_begin()?;
            match (field.field_type, field.id) {
                (TType::Stop, _) => break,
                (_, Some(1)) => note.text = input.read_string()?,
                (_, Some(2)) => note.number = input.read_i32()?,
                (_, Some(3)) => {
                    let list = input.read_list_begin()?;
                    for _ in 0..list.size {
                        note.items.push(input.read_string()?);
                    }
                    input.read_list_end()?;
                }
                (_, Some(4)) => note.flag = input.read_bool()?,
                (other, _) => input.skip(other)?,
            }
            input.read_field_end()?;
        }
        input.read_struct_end()?;
        Ok(note)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("Note"))?;
        output.write_field_begin(&TFieldIdentifier::new("text", TType::String, 1))?;
        output.write_string(&self.text)?;
        output.write_field_end()?;
        output.write_field_begin(&TFieldIdentifier::new("number", TType::I32, 2))?;
        output.write_i32(self.number)?;
        output.write_field_end()?;
        output.write_field_begin(&TFieldIdentifier::new("items", TType::List, 3))?;
        let size = i32::try_from(self.items.len()).expect("tests send short lists");
        output.write_list_begin(&TListIdentifier::new(TType::String, size))?;
        for item in &self.items {
            output.write_string(item)?;
        }
        output.write_list_end()?;
        output.write_field_end()?;
        output.write_field_begin(&TFieldIdentifier::new("flag", TType::Bool, 4))?;
        output.write_bool(self.flag)?;
        output.write_field_end()?;
        output.write_field_stop()?;
        output.write_struct_end()
    }
}

pub fn note(text: &str, number: i32) -> Note {
    Note {
        text: text.to_owned(),
        number,
        items: vec!["one".to_owned(), String::new(), "thrée".to_owned()],
        flag: number % 2 == 0,
    }
}

/// Result of every method here: `0: Note success, 1: exception Note refused`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NoteResult {
    pub success: Option<Note>,
    pub refused: Option<Note>,
}

impl NoteResult {
    pub fn success(note: Note) -> Self {
        NoteResult {
            success: Some(note),
            refused: None,
        }
    }
}

impl TSerializable for NoteResult {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let mut result = NoteResult::default();
        input.read_struct_begin()?;
        loop {
            let field = input.read_field_begin()?;
            match (field.field_type, field.id) {
                (TType::Stop, _) => break,
                (_, Some(0)) => result.success = Some(Note::read_from_in_protocol(input)?),
                (_, Some(1)) => result.refused = Some(Note::read_from_in_protocol(input)?),
                (other, _) => input.skip(other)?,
            }
            input.read_field_end()?;
        }
        input.read_struct_end()?;
        Ok(result)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("NoteResult"))?;
        for (id, field) in [(0, &self.success), (1, &self.refused)] {
            if let Some(note) = field {
                output.write_field_begin(&TFieldIdentifier::new("note", TType::Struct, id))?;
                note.write_to_out_protocol(output)?;
                output.write_field_end()?;
            }
        }
        output.write_field_stop()?;
        output.write_struct_end()
    }
}

/// The test service. `echo` answers at once; `who` says who the caller is; `prove` makes it the holder of the token
/// `number`, see [`holder_of`]; `join` answers as `echo` does, and marks its caller as known. `refuse` answers with the declared exception,
/// `drop` not at all, and `grow` with `number` bytes. `later` and oneway calls go to the test.
pub struct TestService {
    pub later: mpsc::UnboundedSender<(Note, Responder)>,
}

impl Service for TestService {
    fn call(&self, call: IncomingCall<'_>) {
        if call.kind() == CallKind::Oneway {
            call.serve(|note, responder| {
                // The test may have dropped the receiver.
                drop(self.later.send((note, responder)));
            });
            return;
        }
        match call.method() {
            "echo" => call.serve(|note: Note, responder| {
                responder.reply(&NoteResult::success(note));
            }),
            "join" => call.serve(|note: Note, responder| {
                responder.mark_known();
                responder.reply(&NoteResult::success(note));
            }),
            "prove" => {
                let from = call.peer();
                call.serve(
                    |note: Note, to| match to.identify(holder_of(note.number, from)) {
                        Ok(()) => to.reply(&NoteResult::success(note)),
                        Err(other) => to.fail(other),
                    },
                );
            }
            "refuse" => call.serve(|note: Note, responder| {
                let refused = Some(note);
                responder.reply(&NoteResult {
                    success: None,
                    refused,
                });
            }),
            "drop" => call.serve(|_: Note, responder| drop(responder)),
            "who" => {
                let caller = call.principal();
                let who = match &caller {
                    Principal::Authenticated(identity) => {
                        let shard = identity.shard.as_ref().map(ToString::to_string);
                        format!("{} {}", identity.role, shard.unwrap_or_default())
                    }
                    Principal::Stranger(stranger) => format!("stranger: {}", stranger.why),
                    Principal::Unauthenticated(_) => "anyone".to_owned(),
                    Principal::Own => "this process".to_owned(),
                };
                call.serve(|_: Note, to| to.reply(&NoteResult::success(note(&who, 0))));
            }
            "grow" => call.serve(|asked: Note, responder| {
                let size = usize::try_from(asked.number).unwrap_or_default();
                responder.reply(&NoteResult::success(note(&"x".repeat(size), 0)));
            }),
            "later" => call.serve(|note, responder| {
                drop(self.later.send((note, responder)));
            }),
            _ => call.unknown_method(),
        }
    }

    /// Serves `echo` and `join`, the health calls of this service.
    fn call_from_reserve(&self, call: IncomingCall<'_>) {
        match call.method() {
            "echo" | "join" => self.call(call),
            _ => call.refuse_for_lack_of_room(),
        }
    }
}

/// Returns the holder of a token: 0 is false, and `EXPIRED` has expired.
pub fn holder_of(token: i32, from: CallOrigin) -> Principal {
    let Some(number) = token.try_into().ok().filter(|number| *number > 0) else {
        return Principal::stranger(from, "a false token");
    };
    Principal::Authenticated(Arc::new(Identity {
        token: Some(TokenNumber(number)),
        until: (token == EXPIRED).then_some(WallTime(0)),
        ..Identity::new(Role::Viewer, IdentityProof::Token, from)
    }))
}

pub struct TestServer {
    pub handle: ServerHandle,
    pub later: mpsc::UnboundedReceiver<(Note, Responder)>,
    pub shutdown: CancellationToken,
}

impl TestServer {
    pub async fn start(limits: Limits) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::start_at(any, limits).await
    }

    pub async fn start_at(addr: SocketAddr, limits: Limits) -> Self {
        let server = Server::bind(addr).await.expect("the port is free");
        Self::serve(server, limits)
    }

    pub fn serve(server: Server, limits: Limits) -> Self {
        let (sender, later) = mpsc::unbounded_channel();
        let shutdown = CancellationToken::new();
        let service = TestService { later: sender };
        TestServer {
            handle: server.serve(service, limits, shutdown.clone()),
            later,
            shutdown,
        }
    }

    pub fn addr(&self) -> SocketAddr {
        self.handle.local_addr()
    }

    pub fn peer(&self) -> PeerAddr {
        self.addr().into()
    }

    pub async fn connect(&self) -> RawClient {
        RawClient {
            stream: TcpStream::connect(self.addr())
                .await
                .expect("the server listens"),
        }
    }

    pub async fn next_later(&mut self) -> (Note, Responder) {
        tokio::time::timeout(PATIENCE, self.later.recv())
            .await
            .expect("a call arrives")
            .expect("the service lives as long as the server")
    }
}

/// A received reply or exception.
#[derive(Debug, PartialEq)]
pub enum RawReply {
    Reply(String, i32, Box<NoteResult>),
    Exception(String, i32, ApplicationErrorKind, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawEncoding {
    Compact,
    Binary,
}

/// A client that sends raw bytes.
pub struct RawClient {
    pub stream: TcpStream,
}

impl RawClient {
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .await
            .expect("the server reads");
    }

    /// Sends bytes to a server that may close the connection.
    pub async fn try_send(&mut self, bytes: &[u8]) {
        // The server need not read everything.
        drop(self.stream.write_all(bytes).await);
    }

    /// Returns the payload of the next frame; `None` when the server has closed the connection.
    pub async fn next_frame(&mut self) -> Option<Vec<u8>> {
        let read = async {
            let length = self.stream.read_u32().await.ok()?;
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.ok()?;
            Some(payload)
        };
        tokio::time::timeout(PATIENCE, read)
            .await
            .expect("the server answers or closes")
    }

    pub async fn next_reply(&mut self, encoding: RawEncoding) -> RawReply {
        let payload = self.next_frame().await.expect("a reply");
        parse_reply(encoding, &payload)
    }

    pub async fn expect_closed(&mut self) {
        assert_eq!(self.next_frame().await, None, "the server should close");
    }
}

pub fn parse_reply(encoding: RawEncoding, message: &[u8]) -> RawReply {
    match encoding {
        RawEncoding::Compact => parse_with(&mut TCompactInputProtocol::new(message)),
        RawEncoding::Binary => parse_with(&mut TBinaryInputProtocol::new(message, true)),
    }
}

fn parse_with(input: &mut dyn TInputProtocol) -> RawReply {
    let name = input.read_message_begin().expect("a message");
    match name.message_type {
        TMessageType::Reply => {
            let result = NoteResult::read_from_in_protocol(input).expect("a result");
            RawReply::Reply(name.name, name.sequence_number, Box::new(result))
        }
        TMessageType::Exception => {
            let ApplicationError { kind, message } =
                thrift::Error::read_application_error_from_in_protocol(input)
                    .expect("an exception");
            RawReply::Exception(name.name, name.sequence_number, kind, message)
        }
        other => panic!("a server sent a {other:?}"),
    }
}

/// Encodes a message without a frame.
pub fn message(
    encoding: RawEncoding,
    method: &str,
    kind: TMessageType,
    sequence: i32,
    body: &dyn Fn(&mut dyn TOutputProtocol),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let name = TMessageIdentifier::new(method, kind, sequence);
    let write = |output: &mut dyn TOutputProtocol| {
        output.write_message_begin(&name).expect("a Vec takes all");
        body(output);
        output.write_message_end().expect("a Vec takes all");
    };
    match encoding {
        RawEncoding::Compact => write(&mut TCompactOutputProtocol::new(&mut bytes)),
        RawEncoding::Binary => write(&mut TBinaryOutputProtocol::new(&mut bytes, true)),
    }
    bytes
}

pub fn call(encoding: RawEncoding, method: &str, sequence: i32, arguments: &Note) -> Vec<u8> {
    message(encoding, method, TMessageType::Call, sequence, &|output| {
        arguments
            .write_to_out_protocol(output)
            .expect("a Vec takes all");
    })
}

/// Wraps a payload in a frame.
pub fn framed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("tests send short frames");
    [&length.to_be_bytes()[..], payload].concat()
}

/// Returns the payload of a frame in the header transport with the given header bytes, which are padded here.
pub fn with_header(flags: u16, sequence: u32, header: &[u8], message: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    header.resize(header.len().next_multiple_of(4), 0);
    let words = u16::try_from(header.len() / 4).expect("tests send short headers");
    [
        &[0x0F, 0xFF][..],
        &flags.to_be_bytes(),
        &sequence.to_be_bytes(),
        &words.to_be_bytes(),
        &header,
        message,
    ]
    .concat()
}

/// Waits until a condition is true.
pub async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let seen = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    assert!(seen.is_ok(), "{what}");
}

/// Small pseudorandom numbers from a seed (xorshift64*), so that a failure can be reproduced.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }
}

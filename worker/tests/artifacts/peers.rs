//! A peer that serves one artifact as a test decides, and a small one.

use std::sync::{Arc, Mutex};

use brasserie_thrift::generated::common::{Artifact, ArtifactHolder, ServiceAddress};
use brasserie_thrift::generated::worker::{
    ArtifactPiece, ArtifactPieces, BistroWorkerFetchArtifactsArgs, BistroWorkerFetchArtifactsResult,
};
use brasserie_thrift::rpc::{IncomingCall, Limits, Responder, Server, ServerHandle, Service};
use sha2::{Digest, Sha256};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The bytes of one answer.
pub const ANSWER: usize = 100_000;

/// The content of another artifact of a peer.
pub const OTHER: &[u8] = b"more";

/// The answers to calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// The first answer has bytes, and all later ones are busy.
    BusyAfterOne,
    /// Every answer has bytes.
    Open,
    /// Every answer after the first waits for two others, and they are sent in the opposite order of their calls.
    Threes,
    /// Calls from this byte on are refused.
    BreaksAt(usize),
    /// The artifact is missing from this byte on.
    LacksFrom(usize),
}

/// A call with its responder.
type Call = (BistroWorkerFetchArtifactsArgs, Responder);

/// The received calls, and the next answers.
struct Script {
    mood: Mood,
    /// The offset of each call.
    offsets: Vec<i64>,
    /// The calls that wait for others.
    held: Vec<Call>,
}

/// A peer with one artifact.
pub struct Peer {
    script: Arc<Mutex<Script>>,
    content: Arc<Vec<u8>>,
    server: ServerHandle,
    _stop: DropGuard,
}

#[derive(Clone)]
struct PeerService {
    script: Arc<Mutex<Script>>,
    content: Arc<Vec<u8>>,
}

impl Service for PeerService {
    fn call(&self, call: IncomingCall<'_>) {
        match call.method() {
            "fetchArtifacts" => call.serve(|args, responder| self.fetch(args, responder)),
            _ => call.unknown_method(),
        }
    }
}

impl PeerService {
    fn fetch(&self, args: BistroWorkerFetchArtifactsArgs, responder: Responder) {
        let mut script = self.script.lock().expect("no panic");
        let begins = args.ranges[0].offset == Some(0);
        let mut calls = vec![(args, responder)];
        if script.mood == Mood::Threes && !begins {
            script.held.append(&mut calls);
            if script.held.len() == 3 {
                calls = script.held.drain(..).rev().collect();
            }
        }
        drop(script);
        for (args, responder) in calls {
            responder.reply(&BistroWorkerFetchArtifactsResult {
                result_value: Some(self.answer(&args)),
                ex: None,
            });
        }
    }

    fn answer(&self, args: &BistroWorkerFetchArtifactsArgs) -> ArtifactPieces {
        let mut script = self.script.lock().expect("no panic");
        if args.ranges[0].id.as_deref() == Some(&Sha256::digest(OTHER)[..]) {
            return pieces(Some(OTHER), OTHER.len());
        }
        let offset = args.ranges[0].offset.expect("an offset");
        script.offsets.push(offset);
        if script.mood == Mood::BusyAfterOne && script.offsets.len() > 1 {
            return ArtifactPieces {
                busy: Some(true),
                ..ArtifactPieces::default()
            };
        }
        let begin = usize::try_from(offset).expect("an offset");
        if matches!(script.mood, Mood::BreaksAt(byte) if byte <= begin) {
            // An answer without pieces is none.
            return ArtifactPieces::default();
        }
        let end = (begin + ANSWER).min(self.content.len());
        let has_rest = !matches!(script.mood, Mood::LacksFrom(byte) if byte <= begin);
        let bytes = has_rest.then_some(&self.content[begin..end]);
        pieces(bytes, self.content.len())
    }
}

/// Returns an answer with bytes of an artifact of this size, or that it is missing.
fn pieces(bytes: Option<&[u8]>, size: usize) -> ArtifactPieces {
    ArtifactPieces {
        busy: None,
        pieces: Some(vec![ArtifactPiece {
            bytes: bytes.map(<[u8]>::to_vec),
            size: bytes.and(i64::try_from(size).ok()),
        }]),
        transfer: Some(1),
    }
}

/// Returns the other artifact of each peer, whose content is [`OTHER`].
pub fn other_artifact() -> Artifact {
    Artifact {
        id: Some(Sha256::digest(OTHER).to_vec()),
        size: i64::try_from(OTHER.len()).ok(),
        form: Some("file".to_owned()),
    }
}

impl Peer {
    pub async fn open(content: Vec<u8>, mood: Mood) -> Peer {
        let script = Arc::new(Mutex::new(Script {
            mood,
            offsets: Vec::new(),
            held: Vec::new(),
        }));
        let content = Arc::new(content);
        let any = "127.0.0.1:0".parse().expect("an address");
        let server = Server::bind(any).await.expect("a port");
        let stop = CancellationToken::new();
        let service = PeerService {
            script: Arc::clone(&script),
            content: Arc::clone(&content),
        };
        Peer {
            script,
            content,
            server: server.serve(service, Limits::DEFAULT, stop.clone()),
            _stop: stop.drop_guard(),
        }
    }

    pub fn holder(&self) -> ArtifactHolder {
        holder_at(self.server.local_addr().port())
    }

    pub fn artifact(&self) -> Artifact {
        Artifact {
            id: Some(Sha256::digest(&*self.content).to_vec()),
            size: i64::try_from(self.content.len()).ok(),
            form: Some("file".to_owned()),
        }
    }

    pub fn set(&self, mood: Mood) {
        self.script.lock().expect("no panic").mood = mood;
    }

    pub fn offsets(&self) -> Vec<i64> {
        self.script.lock().expect("no panic").offsets.clone()
    }
}

/// Returns a holder on another machine, which is reached at a port of this one.
pub fn holder_at(port: u16) -> ArtifactHolder {
    ArtifactHolder {
        address: Some(ServiceAddress {
            ip_or_host: Some("127.0.0.1".to_owned()),
            port: Some(port.into()),
        }),
        hostname: Some("elsewhere".to_owned()),
        rack: None,
    }
}

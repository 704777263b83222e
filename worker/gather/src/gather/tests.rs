//! Tests of the fetching of artifacts: vectors of single rules, properties of random histories, and a model of one hot artifact.

mod hot_artifact;
mod properties;
mod script;
mod vectors;
mod world;

use std::time::Duration;

use brasserie_common::Time;
use brasserie_common::rng::{Purpose, Rng};

use super::super::types::{ArtifactId, ByteCount, Peer, PeerId, Priority, WaitingTask};

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn rng(seed: u64) -> Rng {
    Rng::new(seed, Purpose::PeerOrder)
}

fn artifact(number: u8) -> ArtifactId {
    let mut id = [0; 32];
    id[0] = number;
    ArtifactId(id)
}

/// Returns a peer by its name. The first letter is its location: `h` for the host of this worker, `r` for its rack, others are elsewhere.
fn peer(name: &str) -> Peer {
    let (host, rack) = match name.as_bytes().first() {
        Some(b'h') => ("here", None),
        Some(b'r') => (name, Some("rack".into())),
        _ => (name, Some("elsewhere".into())),
    };
    Peer {
        id: name.into(),
        host: host.into(),
        rack,
    }
}

fn me() -> Peer {
    Peer {
        id: "me".into(),
        host: "here".into(),
        rack: Some("rack".into()),
    }
}

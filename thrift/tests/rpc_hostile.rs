//! Sends random and mutated frames: the server neither crashes nor stops serving others, and holds no resources afterwards.

mod rpc_support;

use rpc_support::*;

use std::time::Duration;

use brasserie_thrift::rpc::Limits;
use tokio::io::AsyncWriteExt;

/// Number of frames. The end-to-end test sends a million.
const FRAMES: usize = 20_000;
/// Frames sent on one connection before a new one. Most damaged frames end the connection anyway.
const FRAMES_PER_CONNECTION: usize = 10;

/// Returns valid payloads, from which mutation starts.
fn originals() -> Vec<Vec<u8>> {
    let mut originals = Vec::new();
    for method in ["echo", "refuse", "drop", "unknown"] {
        for (encoding, protocol) in [(RawEncoding::Binary, 0), (RawEncoding::Compact, 2)] {
            let message = call(encoding, method, 1, &note("mutation", 77));
            originals.push(with_header(0, 1, &[protocol, 0], &message));
            originals.push(message);
        }
    }
    originals
}

fn hostile_frame(random: &mut Random, originals: &[Vec<u8>]) -> Vec<u8> {
    match random.below(8) {
        // Only random bytes, including the length field.
        0 => (0..random.below(64)).map(|_| random.next() as u8).collect(),
        // A frame of random bytes.
        1 => {
            let noise: Vec<u8> = (0..random.below(200))
                .map(|_| random.next() as u8)
                .collect();
            framed(&noise)
        }
        // Random bytes after a valid beginning.
        2 => {
            let original = &originals[random.below(originals.len())];
            let mut payload = original[..random.below(original.len())].to_vec();
            payload.extend((0..random.below(100)).map(|_| random.next() as u8));
            framed(&payload)
        }
        // A truncated payload with its correct length.
        3 => {
            let original = &originals[random.below(originals.len())];
            framed(&original[..random.below(original.len())])
        }
        // A length that exceeds the payload.
        4 => {
            let original = &originals[random.below(originals.len())];
            let mut frame = framed(original);
            frame[random.below(4)] ^= 1 << random.below(8);
            frame
        }
        // A payload with some bytes changed.
        _ => {
            let mut payload = originals[random.below(originals.len())].clone();
            for _ in 0..=random.below(4) {
                let place = random.below(payload.len());
                payload[place] = match random.below(4) {
                    0 => 0xFF,
                    1 => 0x7F,
                    2 => 0,
                    _ => random.next() as u8,
                };
            }
            framed(&payload)
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_and_mutated_frames_harm_nobody() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let originals = originals();
    let mut bystander = server.connect().await;
    for round in 0..FRAMES / FRAMES_PER_CONNECTION {
        let mut random = Random::new(round as u64 + 1);
        let mut client = server.connect().await;
        for _ in 0..FRAMES_PER_CONNECTION {
            client
                .try_send(&hostile_frame(&mut random, &originals))
                .await;
        }
        // The server answers what it can and then closes, because the sending side is closed.
        drop(client.stream.shutdown().await);
        while client.next_frame().await.is_some() {}
        if round % 100 == 0 {
            let sequence = i32::try_from(round).expect("few rounds");
            let arguments = note("still here", sequence);
            bystander
                .send(&framed(&call(
                    RawEncoding::Compact,
                    "echo",
                    sequence,
                    &arguments,
                )))
                .await;
            let RawReply::Reply(_, got, result) = bystander.next_reply(RawEncoding::Compact).await
            else {
                panic!("the bystander got an exception in round {round}");
            };
            assert_eq!((got, result.success), (sequence, Some(arguments)));
        }
    }
    drop(bystander);
    // Connections end a moment after their peers.
    let settled = async {
        while server.handle.load() != Default::default() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled)
        .await
        .expect("the server holds nothing for those who have gone");
}

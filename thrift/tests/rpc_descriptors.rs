//! Tests a process without free descriptors. The limit affects the whole process, so this test has its own file.

mod rpc_support;

use rpc_support::*;

use std::fs::File;

use brasserie_thrift::rpc::Limits;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Low enough that the test quickly uses all descriptors.
const DESCRIPTORS: u64 = 128;
/// Number of strangers with an unused connection.
const STRANGERS: usize = 8;

#[tokio::test]
async fn a_server_without_descriptors_takes_those_of_idle_strangers() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("every process has limits");
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS, hard).expect("it is lowered");
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut known = server.connect().await;
    greets(&mut known, "join", 1).await;
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        let mut stranger = server.connect().await;
        greets(&mut stranger, "echo", 1).await;
        strangers.push(stranger);
    }
    let mut spare = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        spare.push(file);
    }
    // Clients and server share the process. Each client gets a descriptor, and the server has none left for it.
    for stranger in &mut strangers {
        drop(spare.pop());
        let mut newcomer = server.connect().await;
        greets(&mut newcomer, "join", 2).await;
        stranger.expect_closed().await;
        greets(&mut known, "echo", 3).await;
        // Both descriptors of this connection stay in use.
        std::mem::forget(newcomer);
    }
}

async fn greets(client: &mut RawClient, method: &str, sequence: i32) {
    let arguments = note("alive", sequence);
    let payload = call(RawEncoding::Compact, method, sequence, &arguments);
    client.send(&framed(&payload)).await;
    let RawReply::Reply(_, got, _) = client.next_reply(RawEncoding::Compact).await else {
        panic!("{method} is answered");
    };
    assert_eq!(got, sequence);
}

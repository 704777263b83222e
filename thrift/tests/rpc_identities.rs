//! Tests that a connection counts and is revoked by the identity that its peer has proven, whatever the peer shows later.

mod rpc_support;

use rpc_support::*;

use std::time::Duration;

use brasserie_common::Principal;
use brasserie_common::access::TokenNumber;
use brasserie_thrift::rpc::Limits;

const ENCODING: RawEncoding = RawEncoding::Compact;
const TOKEN: i32 = 7;
const OTHER: i32 = 8;
const FALSE: i32 = 0;

fn frame(method: &str, number: i32) -> Vec<u8> {
    framed(&call(ENCODING, method, 1, &note("", number)))
}

fn limits() -> Limits {
    Limits {
        drain_timeout: Duration::from_millis(10),
        ..Limits::DEFAULT
    }
}

/// Returns the text of an answer, or of the exception.
async fn text(client: &mut RawClient) -> String {
    match client.next_reply(ENCODING).await {
        RawReply::Reply(_, _, result) => result.success.expect("an answer").text,
        RawReply::Exception(_, _, _, text) => text,
    }
}

fn is_holder(peer: &Principal) -> bool {
    let token = match peer {
        Principal::Authenticated(identity) => identity.token,
        _ => None,
    };
    token.is_some_and(|token| [7, 9].map(TokenNumber).contains(&token))
}

#[tokio::test]
async fn a_connection_whose_peer_shows_another_identity_ends_after_the_answer() {
    let server = TestServer::start(limits()).await;
    let show = async |second: i32| {
        let mut client = server.connect().await;
        // The calls after the second proof are in the same buffer.
        let calls = [frame("prove", TOKEN), frame("prove", second)].concat();
        client
            .send(&[calls, frame("who", 0).repeat(100)].concat())
            .await;
        assert_eq!(text(&mut client).await, "");
        client
    };
    let mut same = show(TOKEN).await;
    assert_eq!(text(&mut same).await, "");
    for _ in 0..100 {
        assert!(text(&mut same).await.starts_with("viewer"));
    }
    for second in [OTHER, FALSE] {
        let mut other = show(second).await;
        let answer = text(&mut other).await;
        assert!(answer.contains("a connection of its own"), "{answer}");
        other.expect_closed().await;
    }
    // A peer that has proven nothing may try again.
    let mut stranger = server.connect().await;
    stranger
        .send(&[frame("prove", FALSE), frame("prove", TOKEN)].concat())
        .await;
    assert_eq!(text(&mut stranger).await, "");
    assert_eq!(text(&mut stranger).await, "");
    stranger.send(&frame("who", 0)).await;
    assert!(text(&mut stranger).await.starts_with("viewer"));
}

#[tokio::test]
async fn calls_that_wait_are_void_once_an_identity_is_revoked_that_their_connection_had() {
    let mut server = TestServer::start(limits()).await;
    // The peer shows a false token, its token expires, it leaves, or it is somebody else.
    let cases = [
        (TOKEN, frame("prove", FALSE), false, true),
        (EXPIRED, frame("who", 0), true, true),
        (TOKEN, Vec::new(), false, true),
        (OTHER, Vec::new(), true, false),
    ];
    for (token, then, stays, is_void) in cases {
        let mut client = server.connect().await;
        let calls = [frame("prove", token), frame("later", token), then.clone()];
        client.send(&calls.concat()).await;
        let (_, responder) = server.next_later().await;
        text(&mut client).await;
        if !then.is_empty() {
            text(&mut client).await;
        }
        if token == EXPIRED {
            let now = responder.principal();
            assert!(matches!(now, Principal::Stranger(_)), "{now}");
        }
        let client = stays.then_some(client);
        if client.is_none() {
            wait_for("the connection to end", || {
                responder.is_gone() && server.handle.load().connections == 0
            })
            .await;
        }
        assert!(!responder.is_expelled(), "token {token}");
        server.handle.disconnector().disconnect(is_holder);
        assert_eq!(responder.is_expelled(), is_void, "token {token}");
        match client {
            Some(mut client) if is_void => client.expect_closed().await,
            Some(mut client) => {
                client.send(&frame("who", 0)).await;
                assert!(text(&mut client).await.starts_with("viewer"));
            }
            None => {}
        }
    }
}

#[tokio::test]
async fn a_caller_whose_token_has_expired_leaves_places_and_its_changes_stay() {
    let mut server = TestServer::start(Limits {
        max_connections: 80,
        ..limits()
    })
    .await;
    let mut honest = server.connect().await;
    honest.send(&frame("prove", TOKEN)).await;
    assert_eq!(text(&mut honest).await, "");
    let (mut crowd, mut changes) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let mut client = server.connect().await;
        let calls = ["prove", "later", "who"].map(|method| frame(method, EXPIRED));
        client.send(&calls.concat()).await;
        assert_eq!(text(&mut client).await, "");
        let stranger = text(&mut client).await;
        assert!(stranger.starts_with("stranger: "), "{stranger}");
        changes.push(server.next_later().await.1);
        crowd.push(client);
    }
    let mut late = server.connect().await;
    late.send(&frame("prove", OTHER)).await;
    assert_eq!(text(&mut late).await, "");
    honest.send(&frame("who", 0)).await;
    assert!(text(&mut honest).await.starts_with("viewer"));
    assert!(server.handle.load().connections <= 81);
    let closed = changes.iter().filter(|change| change.is_gone()).count();
    assert!((20..=22).contains(&closed), "{closed}");
    assert!(!changes.iter().any(|change| change.is_expelled()));
}

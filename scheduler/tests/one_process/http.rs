//! Tests the HTTP server with silent peers, incomplete requests and unknown host names, and the answers to probes while the disk fails.

use std::net::SocketAddr;
use std::time::Duration;

use brasserie_common_runtime::ListenAddress;
use brasserie_scheduler::{NewCluster, SchedulerHandle, StartOptions, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::worker::{FakeWorker, Tasks};
use super::{PATIENCE, Place, until};

/// Far longer than a shutdown gives to requests (2 s), and far shorter than any timeout of a hanging connection.
const SOON: Duration = Duration::from_secs(15);

async fn start_with_http(place: &Place, new_cluster: NewCluster) -> (SchedulerHandle, SocketAddr) {
    let options = StartOptions {
        http_listen: Some(ListenAddress::ANY_LOOPBACK_PORT),
        http_hosts: vec!["status.example.org".to_owned()],
        new_cluster,
        ..place.options()
    };
    let scheduler = start(options).await.unwrap();
    let address = scheduler.http_address().unwrap();
    (scheduler, address)
}

async fn request(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = String::new();
    let read = tokio::time::timeout(SOON, stream.read_to_string(&mut response)).await;
    read.expect("an answer, and the end of the connection")
        .unwrap();
    response
}

async fn get(address: SocketAddr, path: &str) -> String {
    request(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n"),
    )
    .await
}

#[tokio::test]
async fn silent_connections_do_not_keep_probes_out() {
    let place = Place::new();
    let (scheduler, address) = start_with_http(&place, NewCluster::Yes).await;
    let mut crowd = Vec::new();
    for number in 0..300_u16 {
        let mut silent = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            silent.write_all(b"GET / HT").await.unwrap();
        }
        crowd.push(silent);
    }
    for _ in 0..5 {
        assert!(get(address, "/health").await.ends_with("alive\n"));
    }
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_machine_with_many_connections_drives_out_none_of_another() {
    let place = Place::new();
    let (scheduler, address) = start_with_http(&place, NewCluster::Yes).await;
    let connect = |from: [u8; 4]| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(address)
    };
    let mut crowd = Vec::new();
    let mut slow = connect([127, 0, 0, 2]).await.unwrap();
    for _ in 0..300 {
        crowd.push(connect([127, 0, 0, 1]).await.unwrap());
    }
    // This answer comes after all of the crowd were accepted.
    assert!(get(address, "/health").await.ends_with("alive\n"));
    let text = format!("GET /health HTTP/1.1\r\nhost: {address}\r\n\r\n");
    slow.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("alive\n"), "{answer}");
    // The oldest of the crowd had to go.
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(SOON, crowd[0].read_to_end(&mut rest)).await;
    assert!(closed.is_ok() && rest.is_empty());
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let place = Place::new();
    let (scheduler, address) = start_with_http(&place, NewCluster::Yes).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: local")
        .await
        .unwrap();
    for stream in [&mut silent, &mut slow] {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "it is still open");
    }
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_single_byte_does_not_hold_up_a_shutdown() {
    let place = Place::new();
    let (scheduler, address) = start_with_http(&place, NewCluster::Yes).await;
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(b"G").await.unwrap();
    let silent = TcpStream::connect(address).await.unwrap();
    // This connection is accepted after both others.
    assert!(get(address, "/health").await.ends_with("alive\n"));
    let ended = tokio::time::timeout(SOON, scheduler.shutdown()).await;
    ended.expect("the shutdown waits for nobody").unwrap();
    drop((half, silent));
}

#[tokio::test]
async fn names_of_others_are_refused() {
    let place = Place::new();
    let (scheduler, address) = start_with_http(&place, NewCluster::Yes).await;
    for head in [
        "GET /status HTTP/1.1\r\nhost: attacker.example:6790\r\n\r\n",
        "GET http://attacker.example/status HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET http://attacker.example/ HTTP/1.0\r\n\r\n",
    ] {
        let refused = request(address, head).await;
        assert!(refused.starts_with("HTTP/1."), "{refused}");
        assert!(refused.contains(" 421 "), "{refused}");
        assert!(
            refused.contains("`attacker.example`") && refused.contains("--http-host"),
            "{refused}"
        );
    }
    for host in ["", "host: a\r\nhost: b\r\n", "host: a b\r\n"] {
        let head = format!("GET /health HTTP/1.1\r\n{host}\r\n");
        let answer = request(address, &head).await;
        let expected = if host.is_empty() { " 200 " } else { " 400 " };
        assert!(answer.contains(expected), "{host:?}: {answer}");
    }
    for host in [
        "localhost:6790",
        "status.example.org",
        "192.0.2.1",
        "[::1]:7",
    ] {
        let head = format!("GET /health HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let answer = request(address, &head).await;
        assert!(answer.contains(" 200 "), "{host}: {answer}");
    }
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_scheduler_that_waits_is_alive_and_not_ready() {
    let place = Place::new();
    let (scheduler, address) = start_with_http(&place, NewCluster::No).await;
    for path in ["/health", "/health/live"] {
        let live = get(address, path).await;
        assert!(
            live.contains(" 200 ") && live.ends_with("alive\n"),
            "{live}"
        );
    }
    let ready = get(address, "/health/ready").await;
    assert!(ready.contains(" 503 "), "{ready}");
    assert!(
        ready.contains("not ready: ") && ready.contains("wait"),
        "{ready}"
    );
    scheduler.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_that_cannot_write_is_alive_and_not_ready() {
    let place = Place::new();
    let (scheduler, address) = start_with_http(&place, NewCluster::Yes).await;
    let ready = async |what: &'static str, is_so: &dyn Fn(&str) -> bool| {
        let asked = async {
            while !is_so(&get(address, "/health/ready").await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, asked).await;
        assert!(seen.is_ok(), "not {what}");
    };
    let mut worker = FakeWorker::start(&scheduler, "one", Tasks::AreLeftToTheTest).await;
    let first = worker.next_start().await;
    ready("ready", &|text| {
        text.ends_with("ready\n") && text.contains(" 200 ")
    })
    .await;

    let other = rusqlite::Connection::open(place.store()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let reporter = worker.reporter.clone();
    let report = tokio::spawn(async move { reporter.report(first, "done").await });
    ready("failing", &|text| {
        text.contains(" 503 ") && text.contains("store")
    })
    .await;
    assert!(get(address, "/health").await.ends_with("alive\n"));
    other.execute_batch("ROLLBACK").unwrap();
    until(&scheduler, "recovered", |s| s.nothing_starts.is_empty()).await;
    assert!(get(address, "/health/ready").await.ends_with("ready\n"));
    drop(report.await.unwrap());
    scheduler.shutdown().await.unwrap();
}

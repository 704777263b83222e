//! Tests the conditions that prevent a start, whose errors must tell the operator what to do, and conditions that do not.

use brasserie_common_runtime::{ListenAddress, NetworkExposure};
use brasserie_scheduler::{StartError, StartOptions, start};
use brasserie_scheduler_core::ReadBy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Place, read, status, until};

#[tokio::test]
async fn a_directory_has_one_scheduler_at_a_time() {
    let place = Place::new();
    let first = place.start().await;
    let error = start(place.options()).await.err().unwrap();
    assert!(matches!(error, StartError::DataDir(_)), "{error}");
    assert!(
        error
            .to_string()
            .contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    first.shutdown().await.unwrap();
    place.start().await.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let listen = ListenAddress::check(address, NetworkExposure::LoopbackOnly).unwrap();
    let thrift = StartOptions {
        listen,
        ..place.options()
    };
    let http = StartOptions {
        http_listen: Some(listen),
        ..place.options()
    };
    for options in [thrift, http] {
        let error = start(options).await.err().unwrap().to_string();
        assert!(
            error.contains(&address.to_string()) && error.contains("port"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_first_start_wants_a_good_config_and_a_later_one_goes_on_with_the_last() {
    let place = Place::new();
    let good = read(&place.config());
    let bad = good.replace("\"db\"]", "\"worker\"]");
    std::fs::write(place.config(), &bad).unwrap();
    let error = start(place.options()).await.err().unwrap().to_string();
    assert!(
        error.contains("jobs.json:4:") && error.contains("worker"),
        "{error}"
    );
    std::fs::remove_file(place.config()).unwrap();
    let error = start(place.options()).await.err().unwrap().to_string();
    assert!(error.contains("cannot read it"), "{error}");

    std::fs::write(place.config(), &good).unwrap();
    place.start().await.shutdown().await.unwrap();
    std::fs::write(place.config(), &bad).unwrap();
    let mut options = place.options();
    options.periods.config_update = std::time::Duration::from_millis(10);
    let scheduler = start(options).await.unwrap();
    let found = status(&scheduler).await;
    assert!(
        found.jobs.len() == 2 && found.errors[0].contains("jobs.json:4:"),
        "{found:?}"
    );
    let kept = found.config.expect("the last good one");
    assert_eq!(kept.read_by, ReadBy::AnEarlierScheduler);
    std::fs::write(place.config(), &good).unwrap();
    until(&scheduler, "mended", |s| {
        s.jobs.len() == 2 && s.errors.is_empty()
    })
    .await;
    let mended = status(&scheduler).await.config.expect("the file");
    assert_eq!(
        (mended.read_by, mended.since),
        (ReadBy::ThisScheduler, kept.since)
    );
    scheduler.shutdown().await.unwrap();
}

async fn get(scheduler: &brasserie_scheduler::SchedulerHandle, path: &str) -> String {
    let mut stream = TcpStream::connect(scheduler.http_address().unwrap())
        .await
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn http_tells_that_it_lives_and_how_it_is() {
    let place = Place::new();
    let http_listen = Some(ListenAddress::ANY_LOOPBACK_PORT);
    let scheduler = start(StartOptions {
        http_listen,
        ..place.options()
    })
    .await
    .unwrap();
    until(&scheduler, "loaded", |s| s.nodes_loaded).await;
    assert!(get(&scheduler, "/health").await.ends_with("alive\n"));
    let json = get(&scheduler, "/status").await;
    assert!(json.contains("application/json"), "{json}");
    let body = json.split("\r\n\r\n").nth(1).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(parsed["jobs"][0]["name"], "copy");
    assert_eq!(parsed["jobs"][0]["unstarted"], 3);
    let page = get(&scheduler, "/").await;
    assert!(
        page.contains("<td>copy</td><td>waiting</td><td>3</td>"),
        "{page}"
    );
    assert!(
        get(&scheduler, "/nothing")
            .await
            .starts_with("HTTP/1.1 404")
    );
    scheduler.shutdown().await.unwrap();
}

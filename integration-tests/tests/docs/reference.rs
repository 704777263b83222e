//! Tests the pages of `docs/src/reference` against the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use brasserie_common::access::{PAGES, SCHEDULER_CALLS, Table, WORKER_CALLS};
use integration_tests::e2e::{SchedulerSpec, Stage, wait_for};

use super::{check_generated, command_line, page, root};

#[test]
fn the_command_line_is_what_the_programs_parse() {
    assert_eq!(command_line::arguments_without_help(), [""; 0]);
    check_generated("docs/src/reference/command-line.md", &command_line::page());
}

/// Returns the calls of each service of an interface file.
fn services(idl: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut services = BTreeMap::new();
    let mut current: Option<(String, BTreeSet<String>)> = None;
    for line in idl.lines() {
        if let Some(rest) = line.strip_prefix("service ") {
            let name = rest.split_whitespace().next().unwrap_or_default();
            current = Some((name.to_owned(), BTreeSet::new()));
        } else if line == "}" {
            services.extend(current.take());
        } else if let Some((_, calls)) = &mut current {
            // A call begins two columns from the left: its type, its name, and an opening parenthesis.
            let call = line
                .strip_prefix("  ")
                .filter(|it| !it.starts_with([' ', '/', ')']));
            let before = call.and_then(|call| Some(call.split_once('(')?.0));
            calls.extend(
                before
                    .and_then(|it| it.rsplit(' ').next())
                    .map(str::to_owned),
            );
        }
    }
    services
}

/// Returns the calls in the tables below each heading that is a name in backquotes.
fn listed_calls(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut service = String::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            service = name.trim_matches('`').to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let call = row.split('`').next().unwrap_or_default().to_owned();
            let calls = listed.entry(service.clone()).or_default();
            assert!(
                calls.insert(call.clone()),
                "{service}.{call} is listed twice"
            );
        }
    }
    listed
}

/// Returns the calls of all services of the interface.
fn interface() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(root().join("thrift/idl")).expect("the interface is readable") {
        let path = entry.expect("a folder entry is readable").path();
        let idl = fs::read_to_string(&path).expect("an interface file is UTF-8");
        all.extend(services(&idl));
    }
    assert!(
        all.len() >= 5 && all.values().all(|calls| !calls.is_empty()),
        "{all:?}"
    );
    all
}

#[test]
fn the_page_of_calls_lists_the_calls_of_the_interface() {
    let listed = listed_calls(&page("docs/src/reference/calls.md"));
    assert_eq!(listed, interface());
}

fn names(table: &Table) -> BTreeSet<String> {
    table.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[test]
fn the_tables_of_callers_have_all_calls_of_the_interface_and_no_others() {
    let all = interface();
    let of = |services: [&str; 3]| -> BTreeSet<String> {
        let calls = services.iter().flat_map(|service| &all[*service]);
        calls.cloned().collect()
    };
    let scheduler = of(["FacebookService", "BistroScheduler", "Brasserie"]);
    assert_eq!(names(SCHEDULER_CALLS), scheduler);
    let worker = of(["FacebookService", "BistroWorker", "BrasserieWorker"]);
    assert_eq!(names(WORKER_CALLS), worker);
    let served = scheduler.union(&worker).collect::<BTreeSet<_>>();
    assert_eq!(served, all.values().flatten().collect(), "no other service");
}

/// Returns the paths of the routers in a source file.
fn routes(source: &str) -> BTreeSet<String> {
    let source = page(source);
    let routes = source.split(".route(").skip(1);
    let path = |rest: &str| {
        let rest = rest.trim_start().strip_prefix('"')?;
        Some(rest.split('"').next()?.to_owned())
    };
    let routes = routes.map(|rest| path(rest).expect("a route has its path as a text"));
    routes.collect()
}

#[test]
fn the_table_of_callers_has_all_pages_of_the_server_and_no_others() {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(root().join("scheduler/src/http")).expect("the sources") {
        let name = entry.expect("a folder entry is readable").file_name();
        files.insert(name.into_string().expect("a name is UTF-8"));
    }
    let files = files.iter().filter(|name| name.ends_with(".rs"));
    let all = files.flat_map(|name| routes(&format!("scheduler/src/http/{name}")));
    assert_eq!(names(PAGES), all.collect());
}

/// Returns the paths in the first table of the page about HTTP, with their content types.
fn listed_paths() -> BTreeMap<String, String> {
    let page = page("docs/src/reference/http.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `/"));
    let row = |row: &str| {
        let path = format!("/{}", row.split('`').next().unwrap_or_default());
        let kind = row.trim_end_matches(['`', ' ', '|']).rsplit('`').next();
        (path, kind.unwrap_or_default().to_owned())
    };
    rows.map(row).collect()
}

#[test]
fn the_page_of_http_paths_lists_the_paths_of_the_server() {
    let routes = routes("scheduler/src/http/mod.rs");
    let listed: BTreeSet<String> = listed_paths().into_keys().collect();
    assert!(routes.len() >= 5, "{routes:?}");
    assert_eq!(listed, routes);
    let page = page("docs/src/reference/http.md");
    for (path, _) in PAGES {
        assert!(page.contains(&format!("`{path}`")), "{path}");
    }
}

/// Returns the head and the body of an answer.
fn request(spec: &SchedulerSpec, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect((spec.address, spec.http_port)).expect("it listens");
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn the_server_answers_as_the_page_of_http_paths_says() {
    let stage = Stage::new();
    let spec = stage.calm_spec(&stage.write_work(1, Duration::ZERO));
    let _scheduler = stage.start_scheduler(&spec);
    wait_for("a ready scheduler", || {
        TcpStream::connect((spec.address, spec.http_port)).ok()?;
        (request(&spec, "GET", "/health/ready").1 == "ready\n").then_some(())
    });
    for (path, kind) in listed_paths() {
        let (head, body) = request(&spec, "GET", &path);
        assert!(head.starts_with("http/1.1 200 "), "{path}: {head}");
        assert!(
            head.contains(&format!("content-type: {kind}\r\n")),
            "{path}: {kind}: {head}"
        );
        assert!(!body.is_empty(), "{path}");
        let (head, _) = request(&spec, "POST", &path);
        assert!(head.starts_with("http/1.1 405 "), "{path}: {head}");
    }
    assert_eq!(request(&spec, "GET", "/health").1, "alive\n");
    assert_eq!(request(&spec, "GET", "/health/live").1, "alive\n");
    for (path, code) in [
        ("/no-path", 404),
        ("/status?job=none", 404),
        ("/status?limit=x", 400),
    ] {
        let (head, _) = request(&spec, "GET", path);
        assert!(
            head.starts_with(&format!("http/1.1 {code} ")),
            "{path}: {head}"
        );
    }
}

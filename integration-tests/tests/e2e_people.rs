//! Tests how people and programs reach a scheduler that asks for proofs: its pages, its local socket, and contexts. The programs are real.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{panic, thread};

use brasserie_common::access::{Callers, PAGES, Role};
use brasserie_common_identity::{Token, client_config};
use integration_tests::e2e::{
    SchedulerSpec, Secured, Stage, python, wait_for, wait_within, warn_not_run,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::Value;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections that say nothing.
const SILENT: u64 = 5000;
/// A user without any rights.
const NOBODY: u32 = 65534;

/// Runs a command on a terminal, types a line once the terminal hides what is typed, and says how the command ends and whether the terminal
/// shows again what is typed.
const TYPED: &str = "
import os, pty, sys, termios, time
typed, command = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execv(command[0], command)
def shows():
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
while shows():
    time.sleep(0.01)
os.write(terminal, typed.encode())
try:
    while part := os.read(terminal, 4096):
        os.write(1, part)
except OSError:
    pass
status = os.waitpid(child, 0)[1]
print('ended', os.waitstatus_to_exitcode(status), 'shows', shows())
";

/// A scheduler that asks for proofs, and its pages.
struct Pages {
    secured: Secured,
    /// The IP address at which they are read.
    reached: IpAddr,
}

impl Deref for Pages {
    type Target = Secured;

    fn deref(&self) -> &Secured {
        &self.secured
    }
}

/// An answer to a request over HTTP.
#[derive(Debug)]
struct Answer {
    code: u16,
    /// The head in lower case.
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the header that shows a cookie which the answer sets, and the cookie's attributes.
    fn cookie(&self, start: &str) -> (String, String) {
        let cookies = self.head.lines();
        let mut cookies = cookies.filter_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookies.find(|cookie| cookie.starts_with(start));
        let cookie = cookie.unwrap_or_else(|| panic!("{start}: {self:?}"));
        let (pair, attributes) = cookie.split_once(';').expect("attributes");
        (format!("Cookie: {pair}"), attributes.to_owned())
    }

    /// Returns the secret in the form of a page.
    fn form(&self) -> String {
        let (_, rest) = self
            .body
            .split_once("name=\"form\" value=\"")
            .expect("a form");
        rest.split('"').next().expect("a value").to_owned()
    }
}

/// The transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Plain,
    Tls,
}

fn talk(mut stream: impl Read + Write, request: &str) -> std::io::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer {
        code: code.unwrap_or_default(),
        head: head.replace("\r\n", "\n").to_lowercase(),
        body: body.to_owned(),
    })
}

impl Pages {
    fn start(flags: &[&str]) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), flags)
    }

    /// Starts a scheduler whose pages are read at this address.
    fn start_at(reached: IpAddr, flags: &[&str]) -> Self {
        let stage = Stage::new();
        let config = stage.write_work(1, Duration::ZERO);
        let mut spec = stage.calm_spec(&config);
        spec.address = Ipv4Addr::UNSPECIFIED;
        spec.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        let command = command(&stage, &spec, reached);
        Pages {
            secured: Secured::start_by(stage, spec, command),
            reached,
        }
    }

    fn socket(&self) -> PathBuf {
        self.spec.data_dir.join("control.sock")
    }

    /// Keeps a token in a file as its holder would.
    fn token_file(&self, name: &str, token: &str) -> String {
        let file = self.stage.write_secret(name, token);
        file.to_string_lossy().into_owned()
    }

    /// Creates a token in a file.
    fn new_token_file(&self, name: &str, arguments: &[&str]) -> String {
        self.token_file(name, &self.new_token(arguments))
    }

    /// Checks the outcomes of the logins with a token in the audit log, from the oldest on.
    fn check_logins(&self, token: &str, outcomes: &[&str]) {
        let number = Token::from_text(token).expect("a token").secret.number();
        let number = number.to_string();
        wait_for("the logins in the audit log", || {
            let seen = self.lines(&["--what", "/login", "--who", &number]);
            let seen: Vec<_> = seen.iter().map(|line| line["outcome"].as_str()).collect();
            let wanted: Vec<_> = outcomes.iter().copied().map(Some).collect();
            (seen == wanted).then_some(())
        });
    }

    fn http(&self) -> SocketAddr {
        (self.reached, self.spec.http_port).into()
    }

    /// Sends a request with these lines in its head.
    fn request(&self, over: Over, line: &str, lines: &[&str], body: &str) -> Answer {
        let host = format!("Host: {}", self.http());
        let is_named = lines.iter().any(|line| line.starts_with("Host:"));
        let mut head = vec![line, "Connection: close"];
        head.extend((!is_named).then_some(host.as_str()));
        head.extend(lines);
        let length = format!("Content-Length: {}", body.len());
        head.extend((!body.is_empty()).then_some(length.as_str()));
        let request = format!("{}\r\n\r\n{body}", head.join("\r\n"));
        let stream = TcpStream::connect(self.http()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let answer = match over {
            Over::Plain => talk(stream, &request),
            Over::Tls => {
                let authority = self.authority();
                let trusted = [authority.authority().certificate().clone()];
                let tls = client_config(None, &trusted, b"http/1.1").expect("a configuration");
                let name = ServerName::IpAddress(self.reached.into());
                let connection = ClientConnection::new(tls, name).expect("a connection");
                talk(StreamOwned::new(connection, stream), &request)
            }
        };
        answer.unwrap_or_else(|error| panic!("{over:?} {line}: {error}"))
    }

    fn get(&self, over: Over, path: &str, lines: &[&str]) -> Answer {
        self.request(over, &format!("GET {path} HTTP/1.1"), lines, "")
    }

    fn origin(&self, over: Over) -> String {
        let scheme = match over {
            Over::Plain => "http",
            Over::Tls => "https",
        };
        format!("Origin: {scheme}://{}", self.http())
    }

    /// Sends a form.
    fn post(&self, over: Over, path: &str, lines: &[&str], body: &str) -> Answer {
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let lines = [&[kind], lines].concat();
        self.request(over, &format!("POST {path} HTTP/1.1"), &lines, body)
    }

    /// Logs in as a browser does, and returns the answer to the form.
    fn log_in(&self, over: Over, token: &str, next: &str) -> Answer {
        let page = self.get(over, &format!("/login?next={next}"), &[]);
        assert_eq!(page.code, 200, "{page:?}");
        assert_eq!(page.header("referrer-policy"), Some("same-origin"));
        let (cookie, _) = page.cookie("brasserie-login=");
        let body = format!("token={token}&next={next}&form={}", page.form());
        self.post(over, "/login", &[&cookie, &self.origin(over)], &body)
    }
}

/// Returns the command line of a scheduler that serves its pages at this address.
fn command(stage: &Stage, spec: &SchedulerSpec, reached: IpAddr) -> Command {
    let usual = stage.scheduler_command(spec);
    let mut command = Command::new(usual.get_program());
    let mut arguments = usual.get_args();
    while let Some(argument) = arguments.next() {
        command.arg(argument);
        if argument == "--http-listen" {
            arguments.next();
            command.arg(SocketAddr::from((reached, spec.http_port)).to_string());
        }
    }
    command
}

fn check_headers(answer: &Answer) {
    let policy = answer.header("content-security-policy").expect("a policy");
    for part in [
        "default-src 'none'",
        "style-src 'sha256-",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert!(answer.header("referrer-policy").is_some(), "{answer:?}");
}

#[test]
fn each_role_sees_exactly_the_pages_of_the_table() {
    let secured = Pages::start(&[]);
    let mut shown = vec![(None, None)];
    for role in ["viewer", "submitter", "operator", "admin"] {
        let mut arguments = vec!["--role", role];
        if role == "submitter" {
            arguments.extend(["--owner", "ana"]);
        }
        let token = secured.new_token(&arguments);
        shown.push((
            Role::from_name(role),
            Some(format!("Authorization: Bearer {token}")),
        ));
    }
    for &(path, allowed) in PAGES {
        for over in [Over::Plain, Over::Tls] {
            for (role, header) in &shown {
                let lines: Vec<&str> = header.iter().map(String::as_str).collect();
                let answer = secured.get(over, path, &lines);
                let is_refused = matches!(answer.code, 303 | 401 | 403);
                let said = format!("{over:?} {path} by {role:?}: {answer:?}");
                assert_eq!(!is_refused, allowed.include(*role), "{said}");
                check_headers(&answer);
                check_form(path, &answer);
                if is_refused {
                    let asks = answer.header("www-authenticate");
                    assert!(
                        asks.is_some_and(|asks| asks.starts_with("bearer")),
                        "{said}"
                    );
                }
            }
        }
    }
    let join = secured.new_token(&["--role", "worker"]);
    let other = format!("brt1-{}-{}", "ab".repeat(32), "cd".repeat(32));
    for (token, why) in [
        (join.as_str(), "for a worker that joins"),
        (&other, "no such token"),
        ("x", "this is no token"),
    ] {
        let header = format!("Authorization: Bearer {token}");
        let answer = secured.get(Over::Tls, "/status", &[&header]);
        assert_eq!(answer.code, 401, "{answer:?}");
        assert!(answer.body.contains(why), "{answer:?}");
    }
    assert!(PAGES.iter().any(|(_, allowed)| *allowed != Callers::Anyone));
    let log = secured.scheduler.output();
    assert!(log.contains("a caller has shown no valid token") && !log.contains(&"cd".repeat(32)));
    wait_for("the audit log to name the false tokens", || {
        let audited = secured.ask(&["audit", "--refused"]).output;
        let told = ["/status", "no such token", "this is no token"];
        told.iter().all(|told| audited.contains(told)).then_some(())
    });
    let foreign = secured.get(Over::Tls, "/health", &["Host: evil.example"]);
    assert_eq!(foreign.code, 421, "{foreign:?}");
    check_headers(&foreign);
    check_form("/health", &foreign);
    assert_eq!(secured.get(Over::Tls, "/no-path", &[]).code, 404);
}

/// Errors of the JSON document are JSON too, and those of other paths are lines of text, without control characters.
fn check_form(path: &str, answer: &Answer) {
    // The answer to a method that the path does not have is empty.
    if answer.code < 400 || answer.code == 405 {
        return;
    }
    let kind = answer.header("content-type").unwrap_or_default();
    if path == "/status" {
        assert_eq!(kind, "application/json", "{answer:?}");
        let document: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert!(document["error"]["message"].is_string(), "{answer:?}");
    } else {
        assert!(kind.starts_with("text/"), "{answer:?}");
        let line = answer.body.strip_suffix('\n').expect("a line");
        assert!(!line.contains(char::is_control), "{answer:?}");
    }
}

#[test]
fn refusals_have_the_form_of_their_page_and_repeat_no_control_character() {
    let secured = Pages::start(&[]);
    let token = secured.new_token(&["--role", "viewer"]);
    let bearer = format!("Authorization: Bearer {token}");
    let (foreign, false_token) = ("Origin: https://evil.example", "Authorization: Bearer x");
    for path in ["/status", "/"] {
        for (lines, query, code) in [
            (&["Host: evil.example"][..], "", 421),
            (&["Host: a b"], "", 400),
            (&[&bearer, foreign], "", 403),
            (&[], "", 401),
            (&[false_token], "", 401),
            (&[&bearer], "?job=%1b%5b31m%9b%e2%80%8f", 404),
            (&[&bearer], "?%1b%5b31m=1", 400),
            (&[&bearer], "?limit=%1b%5b31m", 400),
        ] {
            let answer = secured.get(Over::Tls, &format!("{path}{query}"), lines);
            assert_eq!(answer.code, code, "{path}{query} {lines:?}: {answer:?}");
            check_headers(&answer);
            check_form(path, &answer);
        }
        let sent = secured.post(Over::Tls, path, &[], "a=b");
        assert_eq!(sent.code, 403, "{sent:?}");
        check_form(path, &sent);
    }
}

#[test]
fn a_browser_logs_in_and_out_and_pages_of_other_sites_cannot() {
    let secured = Pages::start(&[]);
    let token = secured.new_token(&["--role", "viewer"]);
    for over in [Over::Plain, Over::Tls] {
        let sent = secured.get(over, "/status?job=a", &["Accept: text/html"]);
        let to = Some("/login?next=%2fstatus%3fjob%3da");
        assert_eq!((sent.code, sent.header("location")), (303, to), "{sent:?}");
        let opened = secured.log_in(over, &token, "/status");
        let to = opened.header("location");
        assert_eq!((opened.code, to), (303, Some("/status")), "{opened:?}");
        let (cookie, rest) = opened.cookie("brasserie-session-");
        assert!(rest.contains("httponly; samesite=strict") && rest.contains("path=/;"));
        assert_eq!(rest.contains("secure"), over == Over::Tls, "{rest}");
        let cookie = cookie.replace(": ", ": a=b; ");
        let seen = secured.get(over, "/status", &[&cookie]);
        assert_eq!(seen.code, 200, "{seen:?}");
        let page = secured.get(over, "/", &[&cookie]);
        assert!(
            page.body.contains("You are here as viewer"),
            "{}",
            page.body
        );
        let (form, origin) = (format!("form={}", page.form()), secured.origin(over));
        let foreign = "Origin: https://evil.example";
        for (lines, body, code) in [
            (&[cookie.as_str()][..], form.as_str(), 403),
            (&[&cookie, foreign], &form, 403),
            (&[&cookie, "Origin: null"], &form, 403),
            (&[&cookie, &origin], "form=00", 403),
            (&[&origin], &form, 401),
        ] {
            let refused = secured.post(over, "/logout", lines, body);
            assert_eq!(refused.code, code, "{lines:?} {body}: {refused:?}");
        }
        let read = secured.get(over, "/status", &[&cookie, foreign]);
        assert_eq!(read.code, 403, "{read:?}");
        assert_eq!(secured.get(over, "/status", &[&cookie]).code, 200);
        let ended = secured.post(over, "/logout", &[&cookie, &origin], &form);
        assert_eq!(
            (ended.code, ended.header("location")),
            (303, Some("/login"))
        );
        assert_eq!(secured.get(over, "/status", &[&cookie]).code, 401);
    }
    let refused = secured.log_in(Over::Tls, &token.replace("brt1", "brj1"), "/");
    assert_eq!(refused.code, 401, "{refused:?}");
    secured.check_logins(&token, &["ok", "ok", "refused"]);
    let led = secured.log_in(Over::Tls, &token, "//evil.example");
    assert_eq!(led.header("location"), Some("/"), "{led:?}");
    // A form that another site has sent has no cookie of this one.
    let origin = secured.origin(Over::Tls);
    let body = format!("token={token}&next=/&form=00");
    for (lines, code) in [(&[origin.as_str()][..], 403), (&[], 403)] {
        assert_eq!(secured.post(Over::Tls, "/login", lines, &body).code, code);
    }
}

#[test]
fn a_session_ends_with_its_token() {
    let secured = Pages::start(&[]);
    let token = secured.new_token(&["--role", "operator"]);
    let brief = secured.new_token(&["--role", "viewer", "--ttl", "2s"]);
    let sessions = [&token, &brief].map(|token| {
        let opened = secured.log_in(Over::Tls, token, "/");
        opened.cookie("brasserie-session-").0
    });
    wait_for("the session of the expired token to end", || {
        let code = secured.get(Over::Tls, "/status", &[&sessions[1]]).code;
        (code == 401).then_some(())
    });
    assert_eq!(secured.get(Over::Tls, "/status", &[&sessions[0]]).code, 200);
    let listed = secured.asked(&["token", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let mut tokens = listed["tokens"].as_array().expect("tokens").iter();
    let number = tokens.find(|token| token["role"] == "operator");
    let number = number
        .and_then(|token| token["number"].as_str())
        .expect("it is listed");
    secured.asked(&["token", "revoke", number]);
    assert_eq!(secured.get(Over::Tls, "/status", &[&sessions[0]]).code, 401);
}

/// Returns an address of this machine that others reach. Sends nothing.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn other_machines_see_pages_over_tls_alone() {
    let Some(outer) = outer_address() else {
        let why = "this machine has no other address than loopback";
        return warn_not_run("the test of pages for other machines", &why);
    };
    let secured = Pages::start_at(outer, &[]);
    let token = secured.new_token(&["--role", "viewer"]);
    let bearer = format!("Authorization: Bearer {token}");
    let plain = secured.get(Over::Plain, "/status", &[&bearer]);
    assert_eq!(plain.code, 403, "{plain:?}");
    assert!(plain.body.contains("https"), "{plain:?}");
    assert_eq!(secured.get(Over::Plain, "/login", &[]).code, 403);
    assert_eq!(secured.get(Over::Plain, "/health", &[]).code, 200);
    assert_eq!(secured.get(Over::Tls, "/health", &[]).code, 200);
    assert_eq!(secured.get(Over::Tls, "/status", &[]).code, 401);
    assert_eq!(secured.get(Over::Tls, "/status", &[&bearer]).code, 200);
}

#[test]
fn silent_strangers_keep_nobody_from_the_pages() {
    let secured = Pages::start(&[]);
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("one's own limit");
    let count = SILENT.min(hard.saturating_sub(200));
    let token = secured.new_token(&["--role", "viewer"]);
    let bearer = format!("Authorization: Bearer {token}");
    let form = "POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: https://localhost\r\nContent-Length: 9\r\nContent-Type: \
                application/x-www-form-urlencoded\r\n\r\n";
    let mut silent = Vec::new();
    for number in 0..count {
        let mut stream = TcpStream::connect(secured.http()).expect("it listens");
        // Some begin a handshake, a request or a form and never end it. Whoever is closed at once has done its part.
        let begun: &[u8] = match number % 4 {
            0 => &[],
            1 => &[0x16, 3, 1],
            2 => b"GET / HT",
            _ => form.as_bytes(),
        };
        let _ = stream.write_all(begun);
        silent.push(stream);
        if number % 500 == 0 {
            assert_eq!(secured.get(Over::Plain, "/health", &[]).code, 200);
        }
    }
    for over in [Over::Plain, Over::Tls] {
        assert_eq!(secured.get(over, "/health", &[]).code, 200);
        assert_eq!(secured.get(over, "/status", &[&bearer]).code, 200);
    }
}

/// Connections that one token may have at a time (`MAX_OF_A_TOKEN` in `scheduler/src/http/connections.rs`).
const OF_A_TOKEN: usize = 32;

#[test]
fn one_token_takes_no_places_of_others() {
    let secured = Pages::start(&[]);
    let [one, other] = ["one", "other"].map(|_| secured.new_token(&["--role", "viewer"]));
    let (session, _) = secured
        .log_in(Over::Plain, &one, "/")
        .cookie("brasserie-session");
    let [one, other] = [one, other].map(|token| format!("Authorization: Bearer {token}"));
    // The server waits some seconds for the form of each.
    let begun = format!(
        "POST /logout HTTP/1.1\r\nHost: {}\r\n{}\r\n{session}\r\nContent-Length: 9\r\nContent-Type: \
         application/x-www-form-urlencoded\r\n\r\n",
        secured.http(),
        secured.origin(Over::Plain)
    );
    let hold = |_| {
        let mut stream = TcpStream::connect(secured.http()).expect("it listens");
        stream.write_all(begun.as_bytes()).expect("it reads");
        stream
    };
    let (held, refused) = wait_for("a refusal", || {
        let held: Vec<TcpStream> = (0..OF_A_TOKEN).map(hold).collect();
        let answer = secured.get(Over::Plain, "/", &[&one]);
        (answer.code == 429).then_some((held, answer))
    });
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.body.contains("32 requests with this token"));
    check_headers(&refused);
    assert_eq!(secured.get(Over::Plain, "/", &[&other]).code, 200);
    assert_eq!(secured.get(Over::Plain, "/health", &[&one]).code, 200);
    drop(held);
    wait_for("the places to be free", || {
        (secured.get(Over::Plain, "/", &[&one]).code == 200).then_some(())
    });
}

/// Programs that read pages with one token without a pause: more than the connections that the server accepts.
const GREEDY: usize = 160;
/// The time after which a probe gives up.
const PROMPT: Duration = Duration::from_secs(5);

#[test]
fn pages_without_a_pause_keep_no_probe_out() {
    let secured = Pages::start(&[]);
    let token = secured.new_token(&["--role", "viewer"]);
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        secured.http()
    );
    let (asked, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..GREEDY {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let stream = TcpStream::connect(secured.http()).expect("it listens");
                    let answer = talk(stream, &request);
                    asked.fetch_add(1, Ordering::Relaxed);
                    // A refused program tries again, but leaves the others of this machine some time.
                    if !answer.is_ok_and(|answer| answer.code == 200) {
                        thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
        wait_for("all to ask", || {
            (asked.load(Ordering::Relaxed) > GREEDY).then_some(())
        });
        let probe = |over| {
            let began = Instant::now();
            let code = panic::catch_unwind(|| secured.get(over, "/health", &[]).code);
            (code.unwrap_or_default(), began.elapsed())
        };
        let probes = [Over::Plain, Over::Tls].into_iter().cycle().take(100);
        let answers: Vec<_> = probes.map(probe).collect();
        // The others end first, so that a failure is no wait for them.
        is_over.store(true, Ordering::Relaxed);
        let is_good = |(code, took): &(u16, Duration)| *code == 200 && *took < PROMPT;
        assert!(answers.iter().all(is_good), "{answers:?}");
    });
}

#[test]
fn the_schedulers_own_user_needs_no_token() {
    let mut secured = Pages::start(&[]);
    let mode = fs::metadata(secured.socket())
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let directory = secured.spec.data_dir.to_string_lossy().into_owned();
    let (mut worker, _) = secured.join("w1");
    for source in ["--data-dir", "--token-file"] {
        wait_within(PATIENCE, "the worker to be healthy", || {
            let status = secured
                .stage
                .brasserie(&["status", "--json", source, &directory]);
            let status: Value = serde_json::from_str(&status.output).unwrap_or_default();
            (status["workers"][0]["state"] == "healthy").then_some(())
        });
    }
    // Calls to workers go with a certificate, which the scheduler issues over the socket too.
    let drained = secured.ask(&["worker", "drain", "w1"]);
    assert_eq!(drained.code, Some(0), "{}", drained.output);
    assert!(worker.wait().success(), "{}", worker.output());
    // A scheduler that was killed has left its socket.
    secured.secured.scheduler.kill_program();
    let gone = secured.ask(&["status"]);
    assert_eq!(gone.code, Some(1), "{}", gone.output);
    let again = command(&secured.stage, &secured.spec, secured.reached);
    let again = secured.stage.start("scheduler", again);
    again.wait_for_output("the scheduler is up");
    assert_eq!(secured.ask(&["status"]).code, Some(0));
}

#[test]
fn other_users_of_the_machine_get_nothing() {
    if !nix::unistd::geteuid().is_root() {
        let why = "only root can run a program as another user";
        return warn_not_run("the test of other users", &why);
    }
    let secured = Pages::start(&[]);
    let program = secured.stage.path("brasserie");
    let built = secured.stage.brasserie_command(&[]);
    fs::copy(built.get_program(), &program).expect("a copy");
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/");
        command.env_clear();
        secured.stage.finish("nobody", command)
    };
    let address = format!("unix:{}", secured.socket().display());
    let open = |path: PathBuf, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
    };
    open(secured.stage.path(""), 0o755);
    open(program.clone(), 0o755);
    let refused = as_nobody(&["status", "--scheduler", &address]);
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    let told = |output: &str, what: &[&str]| {
        assert!(what.iter().all(|what| output.contains(what)), "{output}");
    };
    let owner = ["belongs to the user `root`", "--token-file"];
    told(&refused.output, &owner);
    assert!(!refused.output.contains("Is one running there?"));
    let directory = secured.spec.data_dir.to_string_lossy().into_owned();
    for source in ["--data-dir", "--token-file"] {
        let refused = as_nobody(&["status", source, &directory]);
        assert_eq!(refused.code, Some(2), "{}", refused.output);
        told(&refused.output, &["Permission denied", owner[0]]);
    }
    // Also if somebody opens the socket to all.
    open(secured.spec.data_dir.clone(), 0o755);
    open(secured.socket(), 0o777);
    let refused = as_nobody(&["status", "--scheduler", &address]);
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    let why = "the scheduler's own user and root";
    assert!(refused.output.contains(why), "{}", refused.output);
}

#[test]
fn a_context_names_a_cluster_and_a_token() {
    let secured = Pages::start(&[]);
    let brasserie = |arguments: &[&str]| secured.stage.brasserie(arguments);
    let address = format!("127.0.0.1:1,127.0.0.1:{}", secured.spec.port);
    let token = secured.new_token(&["--role", "viewer"]);
    let file = secured.token_file("viewer", &token);
    let add = |name: &str, file: &str| {
        brasserie(&[
            "context",
            "add",
            name,
            "--scheduler",
            &address,
            "--token-file",
            file,
        ])
    };
    let added = add("prod", &file);
    assert_eq!(added.code, Some(0), "{}", added.output);
    assert!(
        added.output.contains("you are viewer. It is in use."),
        "{}",
        added.output
    );
    assert_eq!(brasserie(&["status"]).code, Some(0));
    let denied = brasserie(&["token", "list", "--context", "prod"]);
    assert!(
        denied.output.contains("the role viewer"),
        "{}",
        denied.output
    );
    // A token of another authority, and one that is not known: neither is kept.
    let secret = token.rsplit('-').next().expect("a secret");
    let other = format!("brt1-{}-{secret}", "ab".repeat(32));
    let unknown = token.replace(secret, &"cd".repeat(32));
    for (token, why) in [
        (other, "does not have the authority"),
        (unknown, "no such token"),
    ] {
        let refused = add("other", &secured.token_file("other", &token));
        assert_eq!(refused.code, Some(1), "{}", refused.output);
        assert!(refused.output.contains(why), "{}", refused.output);
    }
    let mut piped = Command::new("sh");
    let program = secured.stage.brasserie_command(&[]);
    let line = format!(
        "cat {file} | {} context add second --scheduler {address} --token-file -",
        program.get_program().display()
    );
    piped
        .args(["-c", &line])
        .env("XDG_CONFIG_HOME", secured.stage.path("config"));
    let piped = secured.stage.finish("piped", piped);
    assert_eq!(piped.code, Some(0), "{}", piped.output);
    let listed = brasserie(&["context", "list"]);
    let cluster = secured.status()["cluster"].clone();
    let cluster = cluster.as_str().expect("the cluster of `status`");
    let shows = |text: &str| listed.output.contains(text);
    assert!(shows("prod") && shows("second") && shows(cluster) && shows("viewer"));
    assert!(!shows(secret), "{}", listed.output);
    let mut chosen = secured.stage.brasserie_command(&["status", "--json"]);
    chosen.env("BRASSERIE_CONTEXT", "second");
    assert_eq!(secured.stage.finish("chosen", chosen).code, Some(0));
    assert_eq!(brasserie(&["context", "rm", "prod"]).code, Some(0));
    assert_eq!(brasserie(&["status", "--context", "prod"]).code, Some(2));
    assert_eq!(brasserie(&["context", "use", "second"]).code, Some(0));
    assert_eq!(brasserie(&["status"]).code, Some(0));
}

#[test]
fn a_token_is_read_from_standard_input_and_a_terminal_does_not_show_it() {
    let secured = Pages::start(&[]);
    let token = secured.new_token(&["--role", "viewer"]);
    let address = secured.address();
    let command =
        secured
            .stage
            .brasserie_command(&["status", "--scheduler", &address, "--token-file", "-"]);
    let typed = |text: &str| {
        let mut terminal = Command::new(python());
        terminal.args(["-I", "-c", TYPED, text]);
        terminal.arg(command.get_program()).args(command.get_args());
        secured.stage.finish("on a terminal", terminal).output
    };
    let told = typed(&format!("{token}\n"));
    assert!(told.contains("Token: ") && !told.contains(&token), "{told}");
    assert!(
        told.contains("work") && told.contains("ended 0 shows True"),
        "{told}"
    );
    // Ctrl-C ends the command by its signal, once the terminal is as before.
    let told = typed("\u{3}");
    assert!(told.contains("ended -2 shows True"), "{told}");
    let file = secured.token_file("viewer", &token);
    for (input, code) in [(file.as_str(), 0), ("/dev/null", 2)] {
        let mut piped = Command::new("sh");
        piped.args([
            "-c",
            "input=$1; shift; exec \"$@\" < \"$input\"",
            "sh",
            input,
        ]);
        piped.arg(command.get_program()).args(command.get_args());
        let piped = secured.stage.finish("piped", piped);
        assert_eq!(piped.code, Some(code), "{}", piped.output);
    }
}

#[test]
fn a_list_of_tokens_has_those_of_use_and_wrong_terms_are_wrong_usage() {
    let secured = Pages::start(&[]);
    let (_worker, _) = secured.join("w1");
    let viewer = secured.new_token(&["--role", "viewer"]);
    let number = |token: &str| {
        let token = Token::from_text(token).expect("a token");
        token.secret.number().to_string()
    };
    let used = fs::read_to_string(secured.stage.path("join-w1")).expect("a token");
    let used = number(used.trim());
    let listed = secured.asked(&["token", "list"]);
    assert!(
        !listed.contains(&used) && listed.contains(&number(&viewer)),
        "{listed}"
    );
    assert!(listed.contains("--all shows: 1"), "{listed}");
    let all = secured.asked(&["token", "list", "--all"]);
    let row = all.lines().find(|row| row.starts_with(&used));
    assert!(row.is_some_and(|row| row.contains("used up")), "{all}");
    secured.asked(&["token", "revoke", &number(&viewer).to_uppercase()]);
    for (terms, why) in [
        (&["--role", "viewer", "--ttl", "3000d"][..], "at most"),
        (&["--role", "worker", "--uses", "0"], "1 to"),
        (
            &["--role", "viewer", "--shard", "w1"],
            "only tokens for joining",
        ),
        (&["--role", "submitter"], "--owner"),
        (
            &["--role", "submitter", "--owner", "a", "--run-as", ":"],
            "no account",
        ),
        (&["--role", "nobody"], "possible values"),
    ] {
        let refused = secured.ask(&[&["token", "create"], terms].concat());
        assert_eq!(refused.code, Some(2), "{}", refused.output);
        assert!(refused.output.contains(why), "{}", refused.output);
    }
}

#[test]
fn a_context_of_a_local_socket_takes_no_token() {
    let secured = Pages::start(&[]);
    let address = format!("unix:{}", secured.socket().display());
    let token = secured.new_token_file("viewer", &["--role", "viewer"]);
    let add = ["context", "add", "here", "--scheduler", &address];
    let proving = [&add[..], &["--token-file", &token]].concat();
    let refused = secured.stage.brasserie(&proving);
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    let why = "a local socket takes no token";
    assert!(refused.output.contains(why), "{}", refused.output);
    let added = secured.stage.brasserie(&add);
    let how = "whose local socket knows you by your user";
    assert!(added.output.contains(how), "{}", added.output);
    assert_eq!(secured.stage.brasserie(&["token", "list"]).code, Some(0));
}

#[test]
fn other_machines_are_called_in_plain_text_by_request_alone() {
    let stage = Stage::new();
    for command in [&["status"][..], &["context", "add", "far"]] {
        let far = [command, &["--scheduler", "192.0.2.1:6789"]].concat();
        let refused = stage.brasserie(&far);
        assert_eq!(refused.code, Some(2), "{}", refused.output);
        assert!(
            refused.output.contains("in plain text"),
            "{}",
            refused.output
        );
        let by_request = [&far[..], &["--insecure-network"]].concat();
        let nobody = stage.brasserie(&by_request);
        assert_eq!(nobody.code, Some(1), "{}", nobody.output);
    }
}

#[test]
fn a_scheduler_that_asks_for_no_proof_has_a_context_without_a_token() {
    let stage = Stage::new();
    let spec = stage.default_spec(&stage.write_work(1, Duration::ZERO));
    let scheduler = stage.start_scheduler(&spec);
    scheduler.wait_for_output("the scheduler is up");
    let address = format!("127.0.0.1:{}", spec.port);
    let added = stage.brasserie(&["context", "add", "home", "--scheduler", &address]);
    assert!(
        added.output.contains("asks for no proof"),
        "{}",
        added.output
    );
    let status = stage.brasserie(&["status", "--context", "home"]);
    assert_eq!(status.code, Some(0), "{}", status.output);
    assert!(!spec.data_dir.join("control.sock").exists());
    // It closes connections with a token, and no command tries again.
    let token = format!("brt1-{}-{}", "ab".repeat(32), "cd".repeat(32));
    let token = stage.write_secret("token", &token);
    let shown = [
        "--scheduler",
        &address,
        "--token-file",
        &token.to_string_lossy(),
    ];
    for command in [
        &["status"][..],
        &["job", "wait", "work"],
        &["token", "list", "--json"],
    ] {
        let refused = stage.brasserie(&[command, &shown].concat());
        assert_eq!(refused.code, Some(1), "{}", refused.output);
        let is_told = refused.output.contains("has no authority");
        assert!(
            is_told && !refused.output.contains("trying again"),
            "{}",
            refused.output
        );
    }
}

/// Passes plain connections on to a port of this machine, and closes those of TLS. Returns the address to call.
fn without_tls(port: u16) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    };
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            let (caller, mut first) = (caller.expect("a caller"), [0]);
            if caller.peek(&mut first).is_ok_and(|_| first != [0x16]) {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server");
                let copies = (caller.try_clone(), server.try_clone());
                pass(copies.0.expect("a copy"), server);
                pass(copies.1.expect("a copy"), caller);
            }
        }
    });
    address
}

#[test]
fn a_scheduler_with_an_authority_that_answers_in_plain_text_is_not_said_to_have_none() {
    let secured = Pages::start(&["--plain-loopback"]);
    let file = secured.new_token_file("viewer", &["--role", "viewer"]);
    let address = without_tls(secured.spec.port);
    let named = ["status", "--scheduler", &address];
    let plain = secured.stage.brasserie(&named);
    assert_eq!(plain.code, Some(0), "{}", plain.output);
    let shown = [&named[..], &["--token-file", &file]].concat();
    let lost = secured.stage.brasserie(&shown);
    assert_eq!(lost.code, Some(1), "{}", lost.output);
    let is_told = lost.output.contains("cannot ask the scheduler");
    let is_wrong = lost.output.contains("has no authority");
    assert!(is_told && !is_wrong, "{}", lost.output);
}

#[test]
fn contexts_that_are_added_at_the_same_time_are_all_kept() {
    let stage = Stage::new();
    let spec = stage.default_spec(&stage.write_work(1, Duration::ZERO));
    let scheduler = stage.start_scheduler(&spec);
    scheduler.wait_for_output("the scheduler is up");
    let address = format!("127.0.0.1:{}", spec.port);
    let names: Vec<String> = (0..12).map(|number| format!("home-{number}")).collect();
    let adding = names.iter().map(|name| {
        let add = ["context", "add", name, "--scheduler", &address];
        stage.start(name, stage.brasserie_command(&add))
    });
    for mut added in adding.collect::<Vec<_>>() {
        assert_eq!(added.wait().code(), Some(0), "{}", added.output());
    }
    let listed = stage.brasserie(&["context", "list"]);
    for name in &names {
        assert!(listed.output.contains(name), "{}", listed.output);
    }
}

#[test]
fn no_program_repeats_a_token_of_its_command_line() {
    let stage = Stage::new();
    let secret = "cd".repeat(32);
    let token = format!("brt1-{}-{secret}", "ab".repeat(32));
    let joining = token.replace("brt1", "brj1");
    let damaged = &token[..100];
    let mut worker = stage.worker_program();
    worker.args(["--scheduler", "127.0.0.1:1", "--join-token", &joining]);
    let mut scheduler = stage.scheduler_program();
    scheduler.args(["--config", "jobs.json", &token]);
    let finished = [
        stage.brasserie(&["status", "--", &token]),
        stage.finish("scheduler", scheduler),
        stage.brasserie(&["status", "--token-file", &token]),
        stage.brasserie(&["status", "--json", "--context", damaged]),
        stage.brasserie(&["token", "revoke", &joining]),
        stage.brasserie(&["job", "wait", "--scheduler", &token]),
        stage.finish("worker", worker),
    ];
    for finished in finished {
        assert_eq!(finished.code, Some(2), "{}", finished.output);
        let (hidden, told) = (&secret[..16], "shell's history");
        assert!(
            !finished.output.contains(hidden) && finished.output.contains(told),
            "{}",
            finished.output
        );
    }
}

#[test]
fn a_token_without_an_address_is_for_the_context_in_use() {
    let secured = Pages::start(&[]);
    let address = secured.address();
    let viewer = secured.new_token_file("viewer", &["--role", "viewer"]);
    let operator = secured.new_token(&["--role", "operator"]);
    let file = secured.token_file("operator", &operator);
    let add = ["context", "add", "prod", "--scheduler", &address];
    let add = [&add[..], &["--token-file", &viewer]].concat();
    assert_eq!(secured.stage.brasserie(&add).code, Some(0));
    let refused = secured.stage.brasserie(&["audit", "--json"]);
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    let document: Value = serde_json::from_str(&refused.output).expect("JSON");
    let remedy = document["error"]["remedy"].as_str().unwrap_or_default();
    assert!(remedy.starts_with("Ask an administrator"), "{document}");
    let named = secured.stage.brasserie(&["audit", "--token-file", &file]);
    assert_eq!(named.code, Some(0), "{}", named.output);
    let mut command = secured.stage.brasserie_command(&["audit"]);
    command.env("BRASSERIE_TOKEN", &operator);
    let named = secured.stage.finish("by the environment", command);
    assert_eq!(named.code, Some(0), "{}", named.output);
    let secret = operator.rsplit('-').next().expect("a secret");
    let other = format!("brt1-{}-{secret}", "ab".repeat(32));
    let other = secured.token_file("other", &other);
    let refused = secured.stage.brasserie(&["audit", "--token-file", &other]);
    let why = "of another authority than that of the context `prod`";
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    assert!(refused.output.contains(why), "{}", refused.output);
    // A second context of the same name replaces the first by request alone.
    let kept = secured.stage.brasserie(&add);
    assert_eq!(kept.code, Some(2), "{}", kept.output);
    assert!(kept.output.contains("--replace"), "{}", kept.output);
    let add = [&add[..5], &["--token-file", &file, "--replace"]].concat();
    let replaced = secured.stage.brasserie(&add);
    assert!(
        replaced.output.contains("you are operator. It is in use."),
        "{}",
        replaced.output
    );
    assert_eq!(secured.stage.brasserie(&["audit"]).code, Some(0));
}

#[test]
fn commands_that_wait_end_with_the_refusal_of_their_token() {
    let secured = Pages::start(&[]);
    let address = secured.address();
    let token = secured.new_token(&["--role", "operator"]);
    let number = Token::from_text(&token).expect("a token").secret.number();
    let file = secured.token_file("operator", &token);
    let start = |command: &[&str]| {
        let named = ["--scheduler", &address, "--token-file", &file];
        let started = secured.stage.brasserie_command(&[command, &named].concat());
        secured.stage.start(command[1], started)
    };
    let waits = start(&["job", "wait", "work"]);
    let watches = start(&["worker", "work-fetch", "--watch"]);
    let follows = start(&["audit", "--follow"]);
    follows.wait_for_output("createToken");
    waits.wait_for_output("1 waiting");
    watches.wait_for_output("no worker has connected");
    secured.asked(&["token", "revoke", &number.to_string()]);
    for mut command in [waits, watches, follows] {
        let code = command.wait().code();
        assert_eq!(code, Some(1), "{}", command.output());
        assert!(
            command.output().contains("no such token"),
            "{}",
            command.output()
        );
    }
}

#[test]
fn a_token_in_a_file_for_everybody_comes_with_the_command_that_hides_it() {
    let secured = Pages::start(&[]);
    let file = secured.stage.path("my token");
    let program = secured.stage.brasserie_command(&[]);
    let mut shell = Command::new("sh");
    let line = "umask 022; exec \"$1\" token create --role viewer --scheduler \"$2\" > \"$3\"";
    shell
        .args(["-c", line, "sh"])
        .arg(program.get_program())
        .arg(format!("unix:{}", secured.socket().display()))
        .arg(&file);
    let created = secured.stage.finish("creates", shell);
    assert_eq!(created.code, Some(0), "{}", created.output);
    assert!(
        created.output.contains("mode is 0644"),
        "{}",
        created.output
    );
    let file = file.to_string_lossy().into_owned();
    let address = secured.address();
    let named = ["status", "--scheduler", &address, "--token-file", &file];
    let refused = secured.stage.brasserie(&[&named[..], &["--json"]].concat());
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    let document: Value = serde_json::from_str(&refused.output).expect("JSON");
    let remedy = document["error"]["remedy"].as_str().unwrap_or_default();
    let command = remedy.split("run: ").nth(1).unwrap_or_default();
    let command = command.split(". ").next().unwrap_or_default();
    assert!(command.starts_with("chmod 600 "), "{document}");
    let changed = Command::new("sh").args(["-c", command]).status();
    assert!(changed.expect("a shell").success(), "{command}");
    assert_eq!(secured.stage.brasserie(&named).code, Some(0));
}

#[test]
fn callers_without_a_proof_create_no_tokens_where_a_flag_lets_them_do_all_else() {
    let open = Pages::start(&["--plain-loopback"]);
    let address = open.address();
    let create = ["token", "create", "--role", "admin", "--scheduler"];
    let create = [&create[..], &[&address]].concat();
    let refused = open.stage.brasserie(&create);
    assert_eq!(refused.code, Some(1), "{}", refused.output);
    let why = "without a proof. Show the token of an administrator";
    assert!(refused.output.contains(why), "{}", refused.output);
    let token = open.spec.data_dir.to_string_lossy().into_owned();
    let created = open
        .stage
        .brasserie(&[&create[..], &["--token-file", &token]].concat());
    assert_eq!(created.code, Some(0), "{}", created.output);
}

#[test]
fn status_warns_about_flags_that_open_the_ports_and_about_the_end_of_a_token() {
    let errors = |status: &Value| status["errors"].to_string();
    let closed = Pages::start(&[]);
    assert_eq!(errors(&closed.status()), "[]");
    let open = Pages::start(&["--plain-loopback"]);
    assert!(errors(&open.status()).contains("--plain-loopback"));
    let page = open.get(Over::Plain, "/", &[]);
    assert!(
        page.code == 200 && page.body.contains("--plain-loopback"),
        "{page:?}"
    );
    let open = Pages::start(&["--insecure-network"]);
    let status = open.address();
    let status = open.stage.brasserie(&["status", "--scheduler", &status]);
    assert!(
        status.output.contains("--insecure-network"),
        "{}",
        status.output
    );
    let brief = closed.new_token_file("brief", &["--role", "viewer", "--ttl", "9s"]);
    let address = closed.address();
    let flags = ["status", "--scheduler", &address, "--token-file", &brief];
    let status = closed.stage.brasserie(&flags);
    assert!(
        !status.output.contains("your token expires"),
        "{}",
        status.output
    );
    wait_for("the last third of the token's life", || {
        let status = closed.stage.brasserie(&flags);
        status.output.contains("your token expires").then_some(())
    });
}

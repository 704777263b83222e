//! Tests typical mistakes with real programs: each message names cause, place and remedy, has the right exit code, and has a JSON form.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use integration_tests::e2e::{
    Client, Process, SchedulerSpec, Stage, WorkerSpec, free_port, wait_for,
};
use serde_json::Value;

/// One line of [`ROWS`].
struct Row {
    code: i32,
    form: &'static str,
    program: &'static str,
    arguments: Vec<&'static str>,
    /// The texts that the message must contain, each with its aspect (see [`ASPECTS`]).
    named: Vec<(&'static str, &'static str)>,
}

/// The aspects that every message must name, in the order of the last cells of a row.
const ASPECTS: [&str; 3] = ["place", "cause", "remedy"];

impl Row {
    fn read(line: &'static str) -> Row {
        let mut cells = line.split('|').map(str::trim);
        let mut cell = || cells.next().expect("a cell");
        let (code, form) = (cell().parse().expect("an exit code"), cell());
        let mut words = cell().split_whitespace();
        Row {
            code,
            form,
            program: words.next().expect("a program"),
            arguments: words.collect(),
            named: Vec::new(),
        }
        .with_aspects(cells)
    }

    fn with_aspects(mut self, cells: impl Iterator<Item = &'static str>) -> Row {
        for (aspect, cell) in ASPECTS.into_iter().zip(cells) {
            let parts = cell.split(" & ").filter(|part| !part.is_empty());
            self.named.extend(parts.map(|part| (aspect, part)));
        }
        self
    }

    fn lacks(&self, aspect: &str) -> bool {
        !self.named.iter().any(|(of, _)| *of == aspect)
    }
}

/// One mistake per line: exit code, form, command, and the texts for place, cause and remedy that the message must contain. ` & ` separates
/// texts.
///
/// The form is the expected output of `--json`: `error` for an error object, `POINTER=VALUE` for a value in the command's own document,
/// `-` for a command without this flag. `@FILE` is a file of the stage; `%sched`, `%http`, `%tls`, `%free`, `%two` and `%worker` are
/// addresses.
const ROWS: &str = r#"
# Files.
2 | /files/0/good=false | brasserie config check @none.json | @none.json | No such file | Check the path
2 | /files/0/errors/0/line=3 | brasserie config check @broken.json | @broken.json:3:1 | found the end of the file | expected a key in double quotes
2 | /good=false | brasserie config check @wrong.json | @wrong.json: & bistro_job->x.priority | found "high" | expected a number
2 | /good=false | brasserie config check @source.json | @source.json: & node_sources[0].source | found "manul" | did you mean `manual`?
0 | /files/0/warnings/0/line=6 | brasserie config check @program.json | @program.json:6: & bistro_job->copy.command[0] | @gone.sh does not exist | whole path
0 | /files/0/warnings/0/line=6 | brasserie config check @above.json | @above.json:6: & bistro_job->copy | needs 1 of `disk` & level `host` is 0 | raise
2 | /good=false | brasserie config check @times.json | @times.json:3: & node_sources[1] | under "a" and under "b" | add `{parent}` to `format`
2 | /good=false | brasserie config check @abbreviated.json | @abbreviated.json:3: & bistro_settings.nodes.lvls | unknown key | did you mean `levels`?
2 | /good=false | brasserie config check @typo.json | @typo.json:6: & bistro_job->copy | comand: unknown key | did you mean `command`?
0 | /files/0/warnings/0/line=7 | brasserie config check @key.json | @key.json:7: & bistro_job-copy | makes no job | did you mean "bistro_job->copy"?
0 | /files/0/warnings/0/line=2 | brasserie config check @settings.json | @settings.json:2: | settings and no job | bistro_job->NAME
2 | - | brasserie config export @none.json | @none.json | No such file | Check the path
1 | - | brasserie config export @config.json --job nobody | @config.json | no job `nobody` | first jobs are: copy
2 | error | brasserie plan @none.json --scheduler %sched | @none.json | No such file | Check the path
2 | error | brasserie plan @config.json --folder here --scheduler %sched | --folder here | is relative | whole path
2 | error | brasserie run @none.json | @none.json | No such file | Check the path
2 | error | brasserie run @wrong.json | @wrong.json: & bistro_job->x.priority | found "high" | expected a number
2 | error | brasserie status --data-dir @new | @new | no run has used | Name the directory
2 | error | brasserie logs --follow --data-dir @new | @new | no run has used | Name the directory
2 | error | brasserie run @config.json --data-dir @new --retry-failed | @new | no run has used | leave --retry-failed out
2 | error | brasserie run @config.json --failed-to @config.json | --failed-to | @config.json is the config file | another file
2 | error | brasserie run @config.json --failed-to /no/such/file | /no/such/file | No such file | an existing folder
2 | error | brasserie job submit @none.json --scheduler %sched | @none.json | No such file | Check the path
2 | error | brasserie job submit @config.json --scheduler %sched | @config.json | this is a config file | bistro_job->NAME
2 | error | brasserie job submit @bad.json --scheduler %sched | @bad.json:2:14 & command | found "echo" | expected an array
2 | error | brasserie job submit @relative.json --scheduler %sched | @relative.json:1:14 & command | "./x.sh" is relative | whole path
2 | error | brasserie job submit - --scheduler %sched | standard input | has no name | --name
2 | error | brasserie job forgive copy --data-dir @new | `brasserie job forgive` | needs a running scheduler | --retry-failed
2 | error | brasserie job wait copy --data-dir @new | `brasserie job wait` | needs a running scheduler | --scheduler HOST:PORT
2 | error | brasserie task kill copy a --data-dir @new | `brasserie task kill` | needs a running scheduler | --scheduler HOST:PORT
2 | error | brasserie artifact list --data-dir @new | `brasserie artifact list` | needs a running scheduler | --scheduler HOST:PORT
2 | error | brasserie plan @config.json --data-dir @new | `brasserie plan` | needs a running scheduler | --scheduler HOST:PORT
2 | error | brasserie rnu @config.json | 'rnu' | unrecognized subcommand | 'run'
# Nobody, root included, may make a folder there.
2 | error | brasserie run @config.json --data-dir /sys/brasserie | /sys/brasserie | cannot create the data directory | Choose another --data-dir
2 | error | brasserie run @config.json --data-dir @extra.json | @extra.json | is a file | Name a directory
2 | error | brasserie run @config.json --data-dir @mixed | @mixed/worker | is the data directory of a scheduler & used.json | Choose another --data-dir
2 | error | brasserie run @config.json --data-dir @lost | @lost/scheduler/state.sqlite3 | this file is missing | choose another --data-dir
2 | error | brasserie explain copy a --data-dir @extra.json | @extra.json | is a file | Name a directory
# Addresses.
1 | error | brasserie status --scheduler %free | %free | refused | Is one running there? & --scheduler
2 | error | brasserie status --scheduler 127.0.0.1 | 127.0.0.1 | no scheduler address | HOST:PORT
2 | error | brasserie status --scheduler here:99999 | here:99999 | no scheduler address | HOST:PORT & from 1 to 65535
1 | error | brasserie status --scheduler %http | %http | HTTP | --listen & 6789
1 | error | brasserie task list --scheduler %tls | %tls | TLS | without TLS
1 | error | brasserie task list --scheduler %worker | %worker | getTaskPage | name the scheduler
# The command line.
2 | error | brasserie statsu | statsu | unrecognized | 'status'
2 | error | brasserie status --jobs | --jobs | unexpected | '--job'
2 | error | brasserie task list --state faild | --state | `faild` is no state | states are & failed
2 | error | brasserie task list --state done,runing | --state | `runing` is no state | did you mean `running`?
2 | error | brasserie task list --limit 0 | --limit | '0' | above 0
2 | error | brasserie logs copy --regex a(b | --regex | a(b | unclosed group
2 | error | brasserie logs --stderr --events | --stderr | cannot be used with '--events' | --help
2 | error | brasserie job wait copy --timeout soon | --timeout | `soon` is no duration | 30s
2 | error | brasserie job submit @new.json --replace --expect-version 1 | --replace | cannot be used with '--expect-version | --help
# Jobs, nodes, workers and tasks that are not there.
1 | error | brasserie logs nobody --scheduler %sched | no worker has such lines | no job is called `nobody` | status --all
1 | error | brasserie logs nobody --regex x --scheduler %sched | no worker has such lines | no job is called `nobody` | status --all
1 | error | brasserie logs nobody --all --scheduler %sched | no worker has such lines | no job is called `nobody` | status --all
1 | error | brasserie logs copy nowhere --scheduler %sched | no worker has such lines | no node is called `nowhere` | task list
1 | error | brasserie logs copy nowhere --follow --scheduler %sched | no worker has such lines | no node is called `nowhere` | task list
1 | error | brasserie job delete-history copy --node nowhere --scheduler %sched | `nowhere` | there is no node | nothing was deleted
1 | error | brasserie explain copi a --scheduler %sched | `copi` | no job is called | did you mean `copy`? & status --all
1 | error | brasserie explain nobody a --scheduler %sched | `nobody` | no job is called | status --all
1 | error | brasserie explain copy nowhere --scheduler %sched | `nowhere` | no node is called | task list
1 | error | brasserie task list --job nobody --scheduler %sched | `nobody` | no job is called | status --all
1 | error | brasserie artifact list copi --scheduler %sched | `copi` | no job is called | did you mean `copy`? & status --all
1 | error | brasserie artifact locate copy --scheduler %sched | job `copy` | has outputs | no key `outputs`
1 | error | brasserie artifact get copy a table --scheduler %sched | job `copy` on `a` | has no outputs | no key `outputs`
1 | error | brasserie artifact rm copy --scheduler %sched | job `copy` | nothing was forgotten | no key `outputs`
1 | /tasks/0/node="a" | brasserie task kill copy a --scheduler %sched | copy on a | does not run | explain copy a
1 | /tasks/0/node="nowhere" | brasserie task kill copy nowhere --scheduler %sched | `nowhere` | no node is called | task list --state running
1 | error | brasserie job wait nobody --scheduler %sched | `nobody` | no job is called | status --all
1 | error | brasserie job pause nobody --scheduler %sched | `nobody` | no job is called | job list
1 | error | brasserie job cancel nobody --scheduler %sched | `nobody` | no job is called | job list
1 | - | brasserie worker forget nobody --yes --scheduler %sched | `nobody` | no worker called | The scheduler knows `one`
1 | error | brasserie worker work-fetch nobody --scheduler %sched | `nobody` | no worker | it knows one
# Jobs that are there.
1 | error | brasserie job submit @extra.json --scheduler %sched | `extra` | exists | --expect-version 1 & --replace
1 | error | brasserie job submit @extra.json --expect-version 7 --scheduler %sched | `extra` | has version 1 & not the expected 7 | then expect version 1
1 | error | brasserie job submit @new.json --name copy --scheduler %sched | `copy` | is in the config file | change it there
1 | error | brasserie job delete copy --scheduler %sched | `copy` | is in the config file | change it there
# The other programs.
2 | - | brasserie-scheduler --data-dir @other | --config | required arguments were not provided | <FILE>
2 | - | brasserie-scheduler --config @none.json --data-dir @other --listen %free --http-listen %two | @none.json | the configuration is not usable & No such file | Check the path
2 | - | brasserie-scheduler --config @broken.json --data-dir @other --listen %free --http-listen %two | @broken.json:3:1 | the configuration is not usable | expected a key
2 | - | brasserie-scheduler --config @config.json --data-dir @empty --after-restoring-a-backup --listen %free --http-listen %two | @empty | nothing was restored & state.sqlite3 | leave the flag out
1 | - | brasserie-scheduler --config @config.json --data-dir @other --listen %sched --http-listen %two | %sched | in use | --listen
1 | - | brasserie-scheduler --config @config.json --data-dir @scheduler --listen %free --http-listen %two | @scheduler | in use by process | --data-dir
1 | - | brasserie-scheduler --config @config.json --data-dir @extra.json --listen %free --http-listen %two | @extra.json | cannot create the data directory | Choose another --data-dir
2 | - | brasserie-worker --scheduler here --data-dir @other | --scheduler | `here` is not HOST:PORT | write for example
3 | - | brasserie-worker --scheduler %sched --data-dir @worker-one | @worker-one | in use by process | --data-dir
3 | - | brasserie-worker --scheduler %sched --data-dir @extra.json | @extra.json | cannot | Choose another --data-dir
1 | - | brasserie-scheduler --config @config.json --data-dir /sys/brasserie | /sys/brasserie | cannot create the data directory | Choose another --data-dir
3 | - | brasserie-worker --scheduler %sched --data-dir /sys/brasserie | /sys/brasserie | cannot | Choose another --data-dir
"#;

const CONFIG: &str = r#"{
  "bistro_settings": {
    "nodes": {"levels": ["host"], "node_sources": [{"source": "manual", "prefs": {"a": [], "b": []}}]},
    "resources": {}
  },
  "bistro_job->copy": {"owner": "test", "command": ["/bin/true"], "arguments": "none"}
}"#;

/// A node source that gives each host a child without the host's name.
const TIMES: &str = r#"{"source": "add_time", "prefs": {"parent_level": "host", "format": "{time}",
      "schedule": [{"cron": {"epoch": {"period": 60}}, "lifetime": 60}]}}"#;

struct Played {
    stage: Stage,
    spec: SchedulerSpec,
    worker_address: String,
    tls: String,
    free: String,
    two: String,
    scheduler: Process,
    _worker: Process,
}

/// Writes the files with mistakes beside the config, and the directories of runs.
fn write_mistakes(stage: &Stage) {
    for (name, text) in [
        ("broken.json", "{\n  \"bistro_settings\": {\n"),
        (
            "wrong.json",
            &CONFIG
                .replace("copy", "x")
                .replace("\"owner\"", "\"priority\": \"high\", \"owner\""),
        ),
        ("source.json", &CONFIG.replace("\"manual\"", "\"manul\"")),
        ("program.json", &CONFIG.replace("/bin/true", "./gone.sh")),
        (
            "key.json",
            &CONFIG.replace("\n}", ",\n  \"bistro_job-copy\": {}\n}"),
        ),
        (
            "settings.json",
            &format!(
                "{}\n  }}\n}}",
                CONFIG.split("\n  },").next().expect("settings")
            ),
        ),
        // The directories of runs: a scheduler has used the worker's folder of one, and the other has lost its store.
        ("mixed/lock", ""),
        ("mixed/worker/used.json", "{}"),
        ("lost/lock", ""),
        ("lost/scheduler/used.json", "{}"),
        ("typo.json", &CONFIG.replace("\"command\"", "\"comand\"")),
        (
            "abbreviated.json",
            &CONFIG.replace("\"levels\"", "\"lvls\""),
        ),
        (
            "above.json",
            &CONFIG.replace(
                r#""resources": {}"#,
                r#""resources": {"host": {"disk": {"default": 1, "limit": 0}}}"#,
            ),
        ),
        (
            "times.json",
            &CONFIG
                .replace(r#"["host"]"#, r#"["host", "time"]"#)
                .replace("}}]}", &format!("}}}}, {TIMES}]}}")),
        ),
        ("bad.json", "{\n  \"command\": \"echo\"\n}"),
        ("relative.json", r#"{"command": ["./x.sh"]}"#),
        (
            "extra.json",
            r#"{"command": ["/bin/true"], "arguments": "none"}"#,
        ),
        (
            "new.json",
            r#"{"command": ["/bin/true"], "arguments": "none"}"#,
        ),
    ] {
        stage.write(name, text);
    }
}

impl Played {
    fn start() -> Self {
        let stage = Stage::new();
        let config = stage.write("config.json", CONFIG);
        write_mistakes(&stage);
        let spec = stage.calm_spec(&config);
        let scheduler = stage.start_scheduler(&spec);
        let worker: WorkerSpec = stage.worker_spec("one", &spec);
        let worker = stage.start_worker(&worker);
        let client = Client::new(spec.port);
        let status = client.wait_all_done();
        let workers = status.workers.unwrap_or_default();
        let address = workers.first().and_then(|worker| worker.address.clone());
        let played = Played {
            tls: a_server_with_tls(),
            free: format!("127.0.0.1:{}", free_port()),
            two: format!("127.0.0.1:{}", free_port()),
            worker_address: address.expect("the worker's address"),
            stage,
            spec,
            scheduler,
            _worker: worker,
        };
        let extra = Row::read("0 | - | brasserie job submit @extra.json --scheduler %sched");
        assert_eq!(played.run(&extra, &[]).0, Some(0));
        played
    }

    fn fill(&self, text: &str) -> String {
        let text = match text.strip_prefix('@') {
            Some(name) => self.stage.path(name).display().to_string(),
            None => text.to_owned(),
        };
        let address = |port: u16| format!("127.0.0.1:{port}");
        text.replace("%sched", &address(self.spec.port))
            .replace("%http", &address(self.spec.http_port))
            .replace("%tls", &self.tls)
            .replace("%free", &self.free)
            .replace("%two", &self.two)
            .replace("%worker", &self.worker_address)
    }

    /// Returns a required text of a message, with paths and addresses in place of `@FILE`, `%sched` and so on.
    fn filled(&self, named: &str) -> String {
        let words = named.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => {
                let (name, place) = name.split_once(':').unwrap_or((name, ""));
                let colon = if word.contains(':') { ":" } else { "" };
                format!("{}{colon}{place}", self.stage.path(name).display())
            }
            None => self.fill(word),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn run(&self, row: &Row, more: &[&str]) -> (Option<i32>, String, String) {
        let mut command: Command = match row.program {
            "brasserie" => self.stage.brasserie_command(&[]),
            "brasserie-scheduler" => self.stage.scheduler_program(),
            "brasserie-worker" => self.stage.worker_program(),
            other => panic!("no program `{other}`"),
        };
        let arguments = row.arguments.iter().map(|word| self.fill(word));
        let output = command
            .args(arguments)
            .args(more)
            .stdin(Stdio::null())
            .output();
        let output = output.expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    /// Runs the row's command, and returns the faults of its message, one per line; empty if there are none.
    fn wrong(&self, row: &Row) -> String {
        let mut wrong = String::new();
        let mut note = |what: String| writeln!(wrong, "  {what}").expect("text");
        let (code, out, err) = self.run(row, &[]);
        if code != Some(row.code) {
            note(format!("exit code {code:?} instead of {}", row.code));
        }
        let said = format!("{out}{err}");
        for aspect in ASPECTS.into_iter().filter(|aspect| row.lacks(aspect)) {
            note(format!("the row has no {aspect}"));
        }
        for (aspect, named) in &row.named {
            let named = self.filled(named);
            if !said.contains(&named) {
                note(format!("does not name the {aspect} `{named}`"));
            }
        }
        if let Some(twice) = said_twice(&err) {
            note(format!("says twice `{twice}`"));
        }
        if let Some(what) = self.wrong_form(row) {
            note(what);
        }
        match wrong.is_empty() {
            true => wrong,
            false => format!("{:?}:\n{wrong}  it says: {said}\n", row.arguments),
        }
    }

    fn wrong_form(&self, row: &Row) -> Option<String> {
        if row.form == "-" {
            return None;
        }
        let (code, out, err) = self.run(row, &["--json"]);
        let Ok(document) = serde_json::from_str::<Value>(&out) else {
            return Some(format!("with --json it prints no document: {out}{err}"));
        };
        if code != Some(row.code) {
            return Some(format!("with --json exit code {code:?}"));
        }
        if let Some((place, value)) = row.form.split_once('=') {
            let found = document.pointer(place).map(Value::to_string);
            return (found.as_deref() != Some(value)).then(|| format!("{place} is {found:?}"));
        }
        if out.lines().count() != 1 {
            return Some(format!("with --json an error takes several lines: {out}"));
        }
        let error = &document["error"];
        if error["exit_code"] != row.code || error["program"] != "brasserie" {
            return Some(format!("with --json: {document}"));
        }
        let mut parts = vec![error["message"].clone(), error["remedy"].clone()];
        for list in ["causes", "problems"] {
            parts.extend(error[list].as_array().cloned().unwrap_or_default());
        }
        let parts = parts.iter().filter_map(Value::as_str);
        let said = parts.collect::<Vec<_>>().join(" ");
        let named = row.named.iter().map(|(_, named)| self.filled(named));
        let missing = named.into_iter().find(|named| !said.contains(named))?;
        Some(format!(
            "with --json it does not name `{missing}`: {document}"
        ))
    }
}

/// Returns a system error that one line contains twice. A program that repeats a cause already in its message prints such a line.
fn said_twice(text: &str) -> Option<String> {
    let system = [1, 2, 13, 17, 20, 30, 98].map(|number| format!("(os error {number})"));
    system.into_iter().find(|error| {
        text.lines()
            .any(|line| line.matches(error.as_str()).count() > 1)
    })
}

/// Starts a server that answers the first bytes with a TLS alert and closes the connection. Returns its address.
fn a_server_with_tls() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"\x15\x03\x03\x00\x02\x02\x46");
        }
    });
    address
}

#[test]
fn messages_about_typical_mistakes_name_cause_place_and_remedy() {
    let lines = ROWS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<Row> = lines.map(Row::read).collect();
    assert!(rows.len() >= 30, "{}", rows.len());
    let played = Played::start();
    let wrong: String = rows.iter().map(|row| played.wrong(row)).collect();
    assert!(wrong.is_empty(), "{wrong}");
    // The scheduler also logs a peer that uses the wrong protocol.
    let sched = ("127.0.0.1", played.spec.port);
    let mut browser = TcpStream::connect(sched).expect("the scheduler accepts");
    browser
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("it is sent");
    wait_for("a line about it", || {
        let log = played.scheduler.output();
        log.contains("a peer speaks HTTP on a port for Thrift")
            .then_some(())
    });
}

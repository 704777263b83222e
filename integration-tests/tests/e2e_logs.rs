//! Tests the logs of three worker programs behind one scheduler: paged with filters in both directions, and followed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use brasserie_common::logs::{LineId, LinePart, LogQuery, LogStream};
use brasserie_common::{InvocationId, JobName, NodeName, WallTime};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerGetJobLogsByIDArgs, BistroSchedulerGetJobLogsByIDResult,
};
use brasserie_worker::logs::{LogConfig, LogStore, Share, TaskTag};
use integration_tests::e2e::{Client, SchedulerSpec, Stage, wait_for};
use nix::sys::signal::Signal;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// An unoptimized build takes some hundred times as long for each line to write, find, merge, encode and decode it.
const LINES: usize = if cfg!(debug_assertions) {
    60_000
} else {
    1_000_000
};
const WORKERS: [&str; 3] = ["one", "two", "three"];
const SEED: u64 = 7;
/// Number of lines in one millisecond over all workers, so that their ids coincide.
const LINES_A_MILLISECOND: usize = 40;
const RUNS: i64 = 50;

/// A written line with its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    id: LineId,
    shard: &'static str,
    number: usize,
}

impl Written {
    fn job(number: usize) -> String {
        format!("job{}", number % 3)
    }

    fn node(number: usize) -> String {
        format!("node{}", number % 10)
    }

    fn run(number: usize) -> InvocationId {
        InvocationId::new(1, i64::try_from(number).expect("small") % RUNS)
    }
}

/// The request of a reader.
#[derive(Clone, Debug, Default)]
struct Wanted {
    job: String,
    node: String,
    run: Option<InvocationId>,
    /// The last digit of the line's number.
    last_digit: Option<usize>,
    from: Option<LineId>,
    ascending: bool,
}

impl Wanted {
    fn takes(&self, line: &Written) -> bool {
        let number = line.number;
        let in_range = self.from.is_none_or(|from| match self.ascending {
            true => line.id >= from,
            false => line.id <= from,
        });
        in_range
            && (self.job.is_empty() || self.job == Written::job(number))
            && (self.node.is_empty() || self.node == Written::node(number))
            && self.run.is_none_or(|run| run == Written::run(number))
            && self.last_digit.is_none_or(|digit| digit == number % 10)
    }

    fn numbers(&self, all: &[Written]) -> Vec<usize> {
        let takes = |line: &&Written| self.takes(line);
        let number = |line: &Written| line.number;
        match self.ascending {
            true => all.iter().filter(takes).map(number).collect(),
            false => all.iter().rev().filter(takes).map(number).collect(),
        }
    }

    fn regex(&self) -> String {
        let digit = |digit: usize| format!("^line [0-9]*{digit} ");
        self.last_digit.map(digit).unwrap_or_default()
    }

    /// Draws a random request.
    fn any(random: &mut ChaCha8Rng, all: &[Written]) -> Self {
        let mut number = || usize::try_from(random.next_u32()).expect("fits") % all.len();
        let mut wanted = Wanted {
            ascending: number() % 2 == 0,
            ..Wanted::default()
        };
        match number() % 5 {
            0 => wanted.job = Written::job(number()),
            1 => wanted.node = Written::node(number()),
            2 => wanted.run = Some(Written::run(number())),
            3 => wanted.last_digit = Some(number() % 10),
            _ => (wanted.job, wanted.node) = (Written::job(number()), Written::node(number())),
        }
        wanted.from = (number() % 2 == 0).then(|| all[number()].id);
        wanted
    }
}

/// Writes the logs of all workers. Returns the lines in the order in which all pages together must show them.
fn write(folders: &[(&'static str, &Path)], random: &mut ChaCha8Rng) -> Vec<Written> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let yesterday = since.expect("the clock is set") - Duration::from_secs(86_400);
    let start = i64::try_from(yesterday.as_millis()).expect("in range");
    let millis = Arc::new(AtomicI64::new(start));
    let stores = folders.iter().map(|(shard, folder)| {
        let config = LogConfig {
            segment_bytes: 1 << 20,
            ..LogConfig::new(folder.join("logs"))
        };
        let millis = Arc::clone(&millis);
        let clock = move || WallTime::from_millis(millis.load(Ordering::SeqCst));
        (
            *shard,
            LogStore::open(config, Arc::new(clock)).expect("a store"),
        )
    });
    let stores: Vec<(&str, LogStore)> = stores.collect();
    let mut written = Vec::new();
    for number in 0..LINES {
        let passed = i64::try_from(number / LINES_A_MILLISECOND).expect("small");
        millis.store(start + passed, Ordering::SeqCst);
        let (shard, store) = &stores[random.next_u32() as usize % stores.len()];
        let tag = TaskTag::new(
            Written::run(number),
            &JobName::try_from(Written::job(number)).expect("a name"),
            &NodeName::try_from(Written::node(number)).expect("a name"),
        );
        let line = format!("line {number} of many\n");
        let id = store.batch(&tag, &mut Share::default()).append(
            LogStream::Stdout,
            LinePart::Last,
            line.as_bytes(),
        );
        written.push(Written { id, shard, number });
    }
    written.sort();
    for (shard, store) in &stores {
        page_one_store(shard, store, &written, random);
    }
    written
}

fn number_of(line: &str) -> usize {
    let number = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    number.expect("a line of this test")
}

/// Reads the pages of one worker, of random sizes.
fn page_one_store(shard: &str, store: &LogStore, all: &[Written], random: &mut ChaCha8Rng) {
    let own: Vec<Written> = all
        .iter()
        .filter(|line| line.shard == shard)
        .copied()
        .collect();
    for _ in 0..4 {
        let wanted = Wanted::any(random, &own);
        let mut query = LogQuery {
            stream: LogStream::Stdout,
            jobs: names(&wanted.job),
            nodes: names(&wanted.node),
            from: wanted.from,
            ascending: wanted.ascending,
            limit: 0,
            regex: wanted.regex(),
            invocation: wanted.run,
        };
        let mut found = Vec::new();
        loop {
            query.limit = 1 + random.next_u32() as usize % 3000;
            let page = store.query(&query).expect("a valid question");
            assert!(page.lines.len() <= query.limit);
            found.extend(page.lines.iter().map(|line| number_of(&line.line)));
            match page.next {
                Some(next) => query.from = Some(next),
                None => break,
            }
        }
        assert!(found == wanted.numbers(&own), "{shard}: {wanted:?}");
    }
}

fn names<N: TryFrom<String>>(name: &str) -> Vec<N> {
    let name = Some(name.to_owned()).filter(|name| !name.is_empty());
    name.and_then(|name| N::try_from(name).ok())
        .into_iter()
        .collect()
}

/// Reads all pages from the scheduler, which merges those of the workers.
fn page_all(client: &Client, wanted: &Wanted) -> Vec<usize> {
    let mut arguments = BistroSchedulerGetJobLogsByIDArgs {
        logtype: "stdout".to_owned(),
        job_id: wanted.job.clone(),
        node_id: wanted.node.clone(),
        line_id: wanted.from.map_or(-1, |id| id.0),
        is_ascending: wanted.ascending,
        regex_filter: wanted.regex(),
        invocation: wanted.run.map(Into::into),
    };
    let mut found = Vec::new();
    loop {
        let page = client.call("getJobLogsByID", &arguments).expect("a page");
        let page: BistroSchedulerGetJobLogsByIDResult = page;
        let page = page.result_value.expect("lines");
        for line in page.lines.iter().flatten() {
            let text = line.line.as_deref().unwrap_or_default();
            assert_ne!(line.line_id, Some(-1), "{text}");
            found.push(number_of(text));
        }
        match page.next_line_id {
            Some(-1) | None => return found,
            Some(next) => arguments.line_id = next,
        }
    }
}

/// Returns a scheduler without jobs, so that only the test writes.
fn no_work(stage: &Stage) -> SchedulerSpec {
    let config = r#"{"bistro_settings": {"enabled": true, "nodes": {"levels": ["item"], "node_sources": [
        {"source": "range_label", "prefs": {"parent_level": "instance", "format": "n{i}", "start": 1, "end": 1}}
    ]}}}"#;
    stage.calm_spec(&stage.write("config.json", config))
}

#[test]
fn pages_over_three_workers_show_every_line_once_and_in_order() {
    let stage = Stage::new();
    let spec = no_work(&stage);
    let workers = WORKERS.map(|shard| stage.worker_spec(shard, &spec));
    let folders = [0, 1, 2].map(|i| (WORKERS[i], workers[i].data_dir.as_path()));
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let all = write(&folders, &mut random);
    for (_, folder) in folders {
        std::fs::write(folder.join("lock"), "")
            .expect("the file that shows that a worker has used it");
    }
    let _scheduler = stage.start_scheduler(&spec);
    let _workers = workers.each_ref().map(|worker| stage.start_worker(worker));
    let client = Client::new(spec.port);
    client.wait_healthy(WORKERS.len());
    for ascending in [true, false] {
        let wanted = Wanted {
            ascending,
            ..Wanted::default()
        };
        assert!(
            page_all(&client, &wanted) == wanted.numbers(&all),
            "{wanted:?}"
        );
    }
    for _ in 0..12 {
        let wanted = Wanted::any(&mut random, &all);
        assert!(
            page_all(&client, &wanted) == wanted.numbers(&all),
            "{wanted:?}"
        );
    }
}

#[test]
fn a_follower_shows_each_line_once_also_of_a_worker_that_stood_still() {
    const NODES: usize = 60;
    let stage = Stage::new();
    let config = stage.write_work(NODES, Duration::from_millis(100));
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let one = stage.start_worker(&stage.worker_spec("one", &spec));
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    client.wait_healthy(2);
    let address = format!("127.0.0.1:{}", spec.port);
    let arguments = ["logs", "work", "--follow", "--scheduler", &address];
    let mut follower = stage.start_brasserie(&arguments);
    let shown = || {
        let mut shown: BTreeMap<String, usize> = BTreeMap::new();
        for line in follower.output().lines() {
            if let Some((_, node)) = line.split_once(": working on ") {
                *shown.entry(node.to_owned()).or_default() += 1;
            }
        }
        shown
    };
    let wait = |count: usize| {
        wait_for("lines at the follower", || {
            (shown().len() >= count).then_some(())
        });
    };
    wait(10);
    one.signal_program(Signal::SIGSTOP);
    wait(25);
    one.signal_program(Signal::SIGCONT);
    wait(NODES);
    let twice: Vec<_> = shown()
        .into_iter()
        .filter(|(_, count)| *count != 1)
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
    follower.signal(Signal::SIGINT);
    assert!(follower.wait().success(), "Ctrl-C is its usual end");
}

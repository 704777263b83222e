//! Tests of tasks that may not wait, from one scheduler with lingering requests: the number of requests, and how long processors are idle
//! between tasks.

use super::*;

const CPUS: usize = 4;
/// One way.
const LATENCY: Duration = Duration::from_millis(1);
/// Both ways, plus the minimum time between two rounds and between two requests.
const ROUND_TRIP: Duration = Duration::from_millis(2 + 5 + 11);

/// A scheduler that always has such tasks, and accounts for credit like a real one.
struct Server {
    /// Mean run time of a task, in seconds.
    seconds: f64,
    /// Number of tasks after which a request has no more credit.
    most: usize,
    /// Time after which it drops a request without notice.
    forgets: Option<Duration>,
    newest: Option<Wanted>,
    /// Tasks that were sent and are not known to have ended.
    running: BTreeSet<TaskNumber>,
    sent: u64,
}

struct Wanted {
    secs: f64,
    instances: f64,
    idle: f64,
    there: f64,
    comes_back: bool,
    left: usize,
}

impl Server {
    fn new(seconds: f64) -> Self {
        Server {
            seconds,
            most: 4000,
            forgets: None,
            newest: None,
            running: BTreeSet::new(),
            sent: 0,
        }
    }

    fn hears(&mut self, request: &Request, known: &BTreeSet<TaskNumber>) -> (Sent, WorkReply) {
        let demand = &request.demands[0];
        let on_its_way = self.running.difference(known).count() as f64;
        let newest = Wanted {
            secs: demand.instance_secs - on_its_way * self.seconds,
            instances: demand.instances - on_its_way,
            idle: demand.idle - on_its_way,
            there: demand.there,
            comes_back: demand.waiting == Some(0.0),
            left: self.most,
        };
        let is_left = newest.secs > 0.0 || newest.instances > 0.0 || newest.idle > 0.0;
        self.newest = Some(newest);
        let sent = self.sends();
        let (verdict, delay) = match sent.len() {
            0 if demand.wants_something() && !is_left => (WorkVerdict::Deferred, 1000),
            0 => (WorkVerdict::Limited, 11),
            tasks => (WorkVerdict::Granted(tasks as u32), 11),
        };
        let reply = WorkReply {
            request_delay: Duration::from_millis(delay),
            ..says(request, verdict)
        };
        (sent, reply)
    }

    fn hears_end(&mut self, of: TaskNumber) -> Sent {
        self.running.remove(&of);
        if let Some(newest) = self.newest.as_mut().filter(|newest| newest.comes_back) {
            newest.idle = newest.idle.max((newest.idle + 1.0).min(newest.there));
        }
        self.sends()
    }

    fn sends(&mut self) -> Sent {
        let mut sent = Vec::new();
        let Some(newest) = &mut self.newest else {
            return sent;
        };
        while newest.idle > 0.0 && newest.left > 0 {
            newest.secs -= self.seconds;
            newest.instances -= 1.0;
            newest.idle -= 1.0;
            newest.left -= 1;
            self.sent += 1;
            let number = TaskNumber(self.sent);
            self.running.insert(number);
            sent.push(number);
        }
        sent
    }
}

type Sent = Vec<TaskNumber>;

enum Happens {
    Hears(Request, BTreeSet<TaskNumber>),
    Replies(WorkReply),
    Comes(TaskNumber),
    Ends(TaskNumber),
    HearsEnd(TaskNumber),
    Forgets,
}

/// A worker and its scheduler.
struct Both {
    rig: Rig,
    server: Server,
    leaves: Leaves,
    happens: BTreeMap<(Time, u64), Happens>,
    events: u64,
    requests: usize,
    /// The time since which each idle CPU is idle.
    idle: Vec<Time>,
    longest: Duration,
    all_idle: Duration,
}

impl Both {
    fn new(server: Server, leaves: Leaves) -> Self {
        let mut both = Both {
            rig: Rig::new(&[100.0]),
            server,
            leaves,
            happens: BTreeMap::new(),
            events: 0,
            requests: 0,
            idle: vec![Time::ZERO; CPUS],
            longest: Duration::ZERO,
            all_idle: Duration::ZERO,
        };
        if let Some(every) = both.server.forgets {
            both.at(every, Happens::Forgets);
        }
        both
    }

    fn at(&mut self, after: Duration, what: Happens) {
        self.events += 1;
        let at = self.rig.now + after;
        self.happens.insert((at, self.events), what);
    }

    fn comes(&mut self, sent: Sent) {
        for number in sent {
            self.at(LATENCY, Happens::Comes(number));
        }
    }

    fn happens(&mut self, what: Happens) {
        match what {
            Happens::Hears(request, known) => {
                let (sent, reply) = self.server.hears(&request, &known);
                self.comes(sent);
                self.at(LATENCY, Happens::Replies(reply));
            }
            Happens::Replies(reply) => self.rig.fetcher.answered(self.rig.now, FIRST, &reply),
            Happens::Comes(number) => {
                let idle = self.rig.now.since(self.idle.remove(0));
                self.longest = self.longest.max(idle);
                self.all_idle += idle;
                self.rig.takes_one(FIRST, number, self.server.seconds);
                // Run times vary from four to six fifths, so that tasks do not run in step.
                let part = 0.8 + 0.4 * (number.0 as f64 * 0.618_034).fract();
                let takes = Duration::from_secs_f64(part * self.server.seconds);
                self.at(takes, Happens::Ends(number));
            }
            Happens::Ends(number) => {
                let is_it = |task: &Task| task.number == number;
                let place = self.rig.tasks.iter().position(is_it).expect("it runs");
                let task = self.rig.tasks.remove(place);
                self.idle.push(self.rig.now);
                self.rig.fetcher.task_stopped(self.rig.now, &task);
                let end = TaskResult::Well {
                    given: None,
                    took: self.server.seconds,
                };
                let now = self.rig.now;
                self.rig.fetcher.task_ended(now, &task, end, self.leaves);
                self.at(LATENCY, Happens::HearsEnd(number));
            }
            Happens::HearsEnd(number) => {
                let sent = self.server.hears_end(number);
                self.comes(sent);
            }
            Happens::Forgets => {
                self.server.newest = None;
                if let Some(every) = self.server.forgets {
                    self.at(every, Happens::Forgets);
                }
            }
        }
    }

    /// Runs until this many seconds have passed.
    fn runs(&mut self, seconds: f64) {
        let end = at(seconds);
        while self.rig.now < end {
            for task in &mut self.rig.tasks {
                task.remaining = (self.server.seconds
                    - self.rig.now.since(task.received).as_secs_f64())
                .max(0.0);
            }
            if self.rig.fetcher.due() <= self.rig.now
                && let FetcherStep::Ask(request) = self.rig.next()
            {
                self.requests += 1;
                let known = self.rig.tasks.iter().map(|task| task.number).collect();
                self.at(LATENCY, Happens::Hears(request, known));
            }
            let first = self.happens.first_key_value();
            let next = first.map_or(Time::NEVER, |((at, _), _)| *at);
            let due = self.rig.fetcher.due();
            if due < next {
                assert!(due > self.rig.now, "it does nothing, and waits for nothing");
                self.rig.now = due.min(end);
            } else if let Some(((at, _), what)) = self.happens.pop_first() {
                self.rig.now = at;
                self.happens(what);
            }
        }
        self.all_idle += self
            .idle
            .iter()
            .map(|since| end.since(*since))
            .sum::<Duration>();
    }
}

/// Runs a worker with this scheduler for two minutes.
fn runs(server: Server, leaves: Leaves) -> Both {
    let mut both = Both::new(server, leaves);
    both.runs(120.0);
    both
}

#[test]
fn short_tasks_follow_each_other_with_hardly_a_request() {
    for (seconds, most) in [(0.05, 20), (0.2, 20), (1.0, 20), (5.0, 20)] {
        let relied = runs(Server::new(seconds), Leaves::Idle);
        assert!(relied.requests <= most, "{seconds}: {}", relied.requests);
        // The next task comes as soon as with a request at each completion.
        let asks = runs(Server::new(seconds), Leaves::Nothing);
        assert!(asks.requests > 4 * most, "{seconds}: {}", asks.requests);
        assert_eq!(relied.server.sent, asks.server.sent, "{seconds}");
        assert!(relied.longest <= ROUND_TRIP, "{seconds}");
    }
}

#[test]
fn who_drops_requests_is_asked_soon() {
    for seconds in [0.05, 0.2, 1.0] {
        let server = || Server {
            forgets: Some(Duration::from_millis(7_300)),
            ..Server::new(seconds)
        };
        let relied = runs(server(), Leaves::Idle);
        let asks = runs(server(), Leaves::Nothing);
        assert!(relied.requests < asks.requests, "{seconds}");
        assert!(relied.longest <= REFILL_TIME + ROUND_TRIP, "{seconds}");
    }
}

#[test]
fn who_sends_fewer_for_a_request_than_it_is_relied_on_for_is_asked_soon() {
    let server = Server {
        most: 100,
        ..Server::new(0.2)
    };
    let relied = runs(server, Leaves::Idle);
    assert!(relied.longest <= REFILL_TIME + ROUND_TRIP);
}

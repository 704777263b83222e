//! The vocabulary of the scenarios: one arm for each command, with an example above it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::story::Fault;
use brasserie_common::worker::Intake;
use brasserie_common::{
    BackoffDuration, CallOutcome, EndedBy, InvocationId, JobName, ListedState, NodeName, Principal,
    RefusalCode, ReportedStatus, RunningTask, SchedulerId, Shard, Standing, Story, WorkerId,
    WorkerSetId,
};
use brasserie_common_config::{ParseOptions, parse};
use brasserie_scheduler_core::{Answer, CallReply, Event, JobChange, Options, Query, TaskList};

use crate::behave::Unanswered;
use crate::config_text::ConfigText;
use crate::names::hash_of;
use crate::show::timer_text;
use crate::transcript::Words;
use crate::world::{Asked, Store, World, lock};

impl World {
    pub fn command(&mut self, command: &str) -> Result<(), String> {
        let mut words = Words::new(command);
        let w = &mut words;
        match w.word("a command")? {
            // worker w1 shard a lock host:81 start 10 [period 15s] [protocol 2] [cores 2]
            //     [original]
            // Declares a worker instance. Its shard has its name unless the command gives one. `original`: built from the original
            // interface.
            "worker" => self.declare_worker(w)?,
            // scheduler other start 5
            // Declares a scheduler instance that this data directory does not know.
            "scheduler" => self.declare_scheduler(w)?,
            // set X of S1 version 3 workers w1 w2 [settled]
            // Declares a set id that no scheduler of this scenario has sent. `settled`: its scheduler had left its initial wait.
            "set" => self.declare_set(w)?,
            // old-run old#1 on w1 n0 started 100s [kill-wait 20s]
            // Declares a run that started so long ago, outside of this scenario. w1 may list it.
            "old-run" => self.declare_run(w)?,
            // start [new-cluster] [allow-bump-unhealthy-worker] [startup-wait 30s] [lose 500s] [request-interval 100ms]
            //     [requests-a-second 10]
            // Starts a scheduler instance on the data directory, with the latest configuration.
            "start" => {
                let options = self.flags(w)?;
                self.start(options)?;
            }
            // crash
            // Kills the process; what was not synced is lost.
            "crash" => self.crash()?,
            // restart [flags as of start]
            // Syncs everything, ends the process, and starts another one.
            "restart" => {
                let options = self.flags(w)?;
                self.sync()?;
                self.crash()?;
                self.start(options)?;
            }
            // backup
            // Copies the data directory as it is on disk.
            "backup" => {
                self.backup = Some(self.durable.clone());
                self.say("the data directory is copied");
            }
            // restore
            // Replaces the data directory with the copy, between two schedulers.
            "restore" => self.restore()?,
            // store waits | store syncs
            // Sets whether records wait for `sync`, or are synced at the end of each turn.
            "store" => self.change_store(w)?,
            // sync
            "sync" => {
                w.finish()?;
                self.sync()?;
            }
            // config n0 n1 [backoff 5 repeat | backoff 1 2 fail] [leave-wait-before 60s]
            //     [no-job | disabled | faulty] [switched-off] [without-node n2] [working-wait 2s]
            //     [orphans-end-after 20s] [job-orphans-end-after 5s | job-orphans-stay]
            //     [kill-by term_wait_kill] [job-kill-by kill] [nodes-later] [each 60s 90s]
            //     [may-wait] [takes 60s] [due 90s]
            // Configures job j on these nodes. `leave-wait-before`: the operator's override, a time so far in the future. `no-job`: the job
            // does not exist. `faulty`: it has errors. `switched-off`: the settings disable everything. `without-node`: one node is
            // disabled. Kill methods wait 7 s. `nodes-later`: the nodes load at the command `nodes`. `each`: a node for each such time of
            // the clock, with that lifetime.
            "config" => self.configure(w)?,
            // nodes [of-before]
            // Loads the nodes of the last configuration that lacks them, or of the one before it.
            "nodes" => {
                let latest = self.nodes_to_come.pop();
                let config = match w.take("of-before") {
                    true => self.nodes_to_come.pop(),
                    false => latest,
                };
                self.load_nodes(config.ok_or("no nodes are to come")?)?;
            }
            // refresh
            // Reads the node sources of the latest configuration again.
            "refresh" => {
                let config = self.config.clone();
                self.load_nodes(config.ok_or("there is no configuration")?)?;
            }
            // heartbeat w1 [fresh | echo S1/2] [goodbye] [draining] [shard b] [lock host:82] [period 30s]
            //     [protocol 1]
            // Sends a heartbeat, which echoes the set of the last answer that reached the worker, unless the command names another.
            "heartbeat" => self.hear_heartbeat(w)?,
            // join w1 w2
            // Lets these workers do everything that makes them HEALTHY, with no running tasks.
            "join" => {
                let workers: Vec<&str> = std::iter::from_fn(|| w.next()).collect();
                if workers.is_empty() {
                    return Err("no worker is named".to_owned());
                }
                self.join(&workers)?;
            }
            // advance 75s [count-unanswered] [with w1 w2]
            // Lets time pass and serves every timer. The named workers send heartbeats and answer healthchecks. `count-unanswered`:
            // unanswered healthchecks and fetches are counted, not shown.
            "advance" => self.pass_time(w)?,
            // stand-still 10s
            // Lets time pass while the scheduler's process is stopped.
            "stand-still" => self.now = self.now + w.duration("how long")?,
            // advance-clock 10s
            // Lets time pass while no scheduler runs.
            "advance-clock" => {
                if self.scheduler.is_some() {
                    return Err("a scheduler runs; `advance`".to_owned());
                }
                self.now = self.now + w.duration("how long")?;
            }
            // answer run#1 ok | refused busy TEXT | refused bound-to S2 | not-sent TEXT | unknown TEXT
            // answer fetch#1 lists nothing | lists run#1 run#2
            // Completes a call with this outcome.
            "answer" => self.answer(w)?,
            // ended run#1 done
            // Makes the worker list this run as ended with this status and not acknowledged, from now on.
            "ended" => self.note_end(w)?,
            // status w1 run#1 done [to S1]
            // Sends `updateStatus`, also for healthchecks: done, failed, incomplete, incomplete_backoff, error_backoff, was_not_running,
            // taken_back.
            "status" => self.hear_status(w)?,
            // kill n0
            // Makes an operator kill j on n0.
            "kill" => self.hear_kill(w)?,
            // forget a [w1 w2]
            // Makes an operator declare these instances of a shard dead. Without instances, lists those that may be declared dead.
            "forget" => self.hear_forget(w)?,
            // request-work w1 seq 1 [secs 60] [instances 2] [idle 2] [delay 5] [linger 120s] [to S1]
            //     [rides] [knows run#1 run#2]
            // Sends a work request for CPUs. `rides`: in a heartbeat, whose answer has the outcome.
            "request-work" => self.hear_work_request(w)?,
            // delete-history [n0 n1]
            // Makes an operator delete the history of j on these nodes, or on all nodes.
            "delete-history" => self.hear_deletion(w)?,
            // pause | cancel | resume
            // Makes an operator pause, cancel or resume job j.
            "pause" => self.hear_change("pause", JobChange::Pause)?,
            "cancel" => self.hear_change("cancel", JobChange::Cancel)?,
            "resume" => self.hear_change("resume", JobChange::Resume)?,
            other => self.question(other, w)?,
        }
        words.finish()
    }

    /// Runs a command that changes nothing.
    fn question(&mut self, what: &str, w: &mut Words<'_>) -> Result<(), String> {
        match what {
            // show
            // Shows what `status` shows to an operator.
            "show" => {
                let now = self.now;
                match self.core()?.answer(now, &Query::Status) {
                    Answer::Status(status) => self.show_status(&status),
                    other => return Err(format!("not a status: {other:?}")),
                }
            }
            // wait
            // Shows whether the initial wait stands, and if it is over, why.
            "wait" => {
                let now = self.now;
                match self.core()?.answer(now, &Query::Status) {
                    Answer::Status(status) => self.show_wait(&status),
                    other => return Err(format!("not a status: {other:?}")),
                }
            }
            // explain n0
            // Shows why j on n0 does not run.
            "explain" => self.explain(w)?,
            // list [failed backoff]
            // Lists the tasks in these states, in pages of one task.
            "list" => self.list(w)?,
            // timer
            // Shows when the scheduler wants to be woken.
            "timer" => {
                let now = self.now;
                let due = self.core()?.poll_timeout();
                self.say(timer_text(due.map(|at| at.since(now))));
            }
            other => return Err(format!("unknown command `{other}`")),
        }
        Ok(())
    }

    fn declare_worker(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let name = w.word("a name")?;
        self.add_peer(name, w)
    }

    fn declare_scheduler(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let name = w.word("a name")?.to_owned();
        if !w.take("start") {
            return Err("`start N` is missing".to_owned());
        }
        let start: i64 = w.number("a start time")?;
        self.names.name_scheduler(SchedulerId::new(start, 1), name);
        Ok(())
    }

    fn declare_set(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let name = w.word("a name")?.to_owned();
        if !w.take("of") {
            return Err("`of SCHEDULER` is missing".to_owned());
        }
        let scheduler = self.names.find_scheduler(w.word("a scheduler")?)?;
        if !w.take("version") {
            return Err("`version N` is missing".to_owned());
        }
        let version = w.number("a version")?;
        if !w.take("workers") {
            return Err("`workers ...` is missing".to_owned());
        }
        let mut members = Vec::new();
        let mut standing = Standing::Unsettled;
        while let Some(word) = w.next() {
            match word {
                "settled" => standing = Standing::Settled,
                worker => members.push(self.names.find_worker(worker)?),
            }
        }
        let set = WorkerSetId {
            scheduler,
            version,
            hash: hash_of(members.into_iter()),
            standing,
        };
        self.sets.insert(name, set);
        Ok(())
    }

    fn declare_run(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let name = w.word("a name")?.to_owned();
        if !w.take("on") {
            return Err("`on WORKER NODE` is missing".to_owned());
        }
        let shard = self.peer(w.word("a worker")?)?.description.shard.clone();
        let node = w.word("a node")?;
        if !w.take("started") {
            return Err("`started DURATION` is missing".to_owned());
        }
        let ago =
            i64::try_from(w.duration("how long ago")?.as_secs()).map_err(|e| e.to_string())?;
        let kill_wait = if w.take("kill-wait") {
            w.duration("a kill wait")?
        } else {
            Duration::from_secs(5)
        };
        let rand = i64::try_from(self.tasks.len()).map_err(|e| e.to_string())?;
        let invocation = InvocationId::new(self.wall().as_secs() - ago, rand);
        self.names.name_run(invocation, name.clone());
        let task = RunningTask {
            job: JobName::try_from("j").map_err(|e| e.to_string())?,
            node: NodeName::try_from(node).map_err(|e| e.to_string())?,
            invocation,
            shard,
            resources: Vec::new(),
            gpus: Vec::new(),
            gpus_wanted: None,
            next_backoff: BackoffDuration {
                no_more_backoffs: false,
                seconds: 15,
                times: 1,
            },
            suicide_kill_wait: kill_wait,
            physical: None,
            fence: None,
            worker_slots: None,
            outputs: Vec::new(),
            ended: None,
            story: None,
            work: Default::default(),
        };
        self.tasks.insert(name, task);
        Ok(())
    }

    fn flags(&mut self, w: &mut Words<'_>) -> Result<Options, String> {
        let mut options = self.options();
        while let Some(flag) = w.next() {
            match flag {
                "new-cluster" => options.new_cluster = true,
                "request-interval" => {
                    options.work.min_request_interval = w.duration("how long")?;
                }
                "requests-a-second" => {
                    options.work.max_requests_per_second = w.number("how many")?;
                }
                "allow-bump-unhealthy-worker" => options.allow_bump_unhealthy_worker = true,
                "startup-wait" => options.startup_wait = Some(w.duration("a wait")?),
                "lose" => options.timeouts.lose_unhealthy_worker_after = w.duration("a time")?,
                other => return Err(format!("`{other}` is no flag of a scheduler")),
            }
        }
        Ok(options)
    }

    fn restore(&mut self) -> Result<(), String> {
        if self.scheduler.is_some() {
            return Err("a scheduler runs; `crash` it".to_owned());
        }
        let backup = self.backup.clone();
        self.durable = backup.ok_or_else(|| "there is no `backup`".to_owned())?;
        self.say("the copy takes the place of the data directory");
        Ok(())
    }

    /// Runs `store waits`, `store syncs`, `store fails disk full` or `store recovers`.
    fn change_store(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        match w.word("what about it")? {
            "waits" => self.store = Store::WaitsForSync,
            "syncs" => {
                self.sync()?;
                self.store = Store::SyncsAtOnce;
            }
            "fails" => {
                self.store = Store::WaitsForSync;
                let message = w.rest().to_owned();
                self.event(Event::StoreFailed { message })?;
            }
            "recovers" => self.event(Event::StoreRecovered)?,
            other => {
                return Err(format!(
                    "a store neither waits, syncs, fails nor recovers: `{other}`"
                ));
            }
        }
        Ok(())
    }

    fn configure(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let wall = self.wall().as_secs();
        let mut text = ConfigText::default();
        while let Some(word) = w.next() {
            text.add(word, w, wall)?;
        }
        let parsed =
            parse(&text.render(), ParseOptions::default()).map_err(|e| format!("{e:?}"))?;
        let config = Arc::new(parsed.config);
        self.config = Some(Arc::clone(&config));
        match &self.scheduler {
            Some(_) if text.nodes_later => {
                self.nodes_to_come.push(Arc::clone(&config));
                self.load_without_nodes(config)
            }
            Some(_) => self.load(config),
            None => Ok(()),
        }
    }

    fn hear_heartbeat(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let name = w.word("a worker")?;
        let peer = self.peer(name)?;
        let (mut worker, mut set) = (peer.description.clone(), peer.told);
        let mut goodbye = false;
        while let Some(word) = w.next() {
            match word {
                "fresh" => set = WorkerSetId::default(),
                "echo" => {
                    let known = w.word("a set")?;
                    let found = self.sets.get(known);
                    set = peer.keeps(*found.ok_or_else(|| format!("no set is called `{known}`"))?);
                }
                "goodbye" => goodbye = true,
                "draining" => worker.intake = Intake::Draining,
                "shard" => {
                    let shard = w.word("a shard")?;
                    worker.shard = shard.try_into().map_err(|e| format!("{e}"))?;
                }
                "lock" => worker.machine_lock = lock(w.word("host:port")?)?,
                "period" => worker.heartbeat_period = w.duration("a period")?,
                "protocol" => worker.protocol_version = w.number("a version")?,
                other => return Err(format!("`{other}` is nothing that a heartbeat says")),
            }
        }
        self.heartbeat(name, worker, set, goodbye)
    }

    fn pass_time(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let d = w.duration("how long")?;
        let unanswered = match w.take("count-unanswered") {
            true => Unanswered::Counted,
            false => Unanswered::Shown,
        };
        let mut workers = Vec::new();
        if w.take("with") {
            workers.extend(std::iter::from_fn(|| w.next()));
        }
        for worker in &workers {
            self.peer(worker)?;
        }
        self.advance(d, unanswered, &workers)
    }

    fn answer(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let call = w.word("a call")?;
        let open = self.calls.get(call).map(|open| open.id);
        let id = open.ok_or_else(|| format!("no open call is called `{call}`"))?;
        let outcome = match w.word("an outcome")? {
            "ok" => CallOutcome::Done(CallReply::Empty),
            "lists" => CallOutcome::Done(CallReply::RunningTasks(self.listing(w)?)),
            "refused" => {
                let code = match w.take("bound-to") {
                    true => {
                        RefusalCode::BoundTo(self.names.find_scheduler(w.word("a scheduler")?)?)
                    }
                    false => refusal_code(w.word("a code")?)?,
                };
                CallOutcome::Refused(code, w.rest().to_owned())
            }
            "not-sent" => CallOutcome::NotSent(w.rest().to_owned()),
            "unknown" => CallOutcome::Unknown(w.rest().to_owned()),
            other => return Err(format!("`{other}` is no outcome")),
        };
        self.calls.remove(call);
        self.complete(id, outcome)
    }

    fn listing(&self, w: &mut Words<'_>) -> Result<Vec<RunningTask>, String> {
        if w.take("nothing") {
            return Ok(Vec::new());
        }
        let mut listed = Vec::new();
        while let Some(run) = w.next() {
            let task = self.tasks.get(run);
            listed.push(
                task.ok_or_else(|| format!("no run is called `{run}`"))?
                    .clone(),
            );
        }
        match listed.is_empty() {
            true => Err("runs or `nothing` are missing".to_owned()),
            false => Ok(listed),
        }
    }

    fn note_end(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let run = w.word("a run")?;
        let status = reported(w.word("a status")?)?;
        let task = self.tasks.get_mut(run);
        task.ok_or_else(|| format!("no run is called `{run}`"))?
            .ended = Some(status);
        Ok(())
    }

    fn hear_status(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let worker = w.word("a worker")?;
        let id: WorkerId = self.peer(worker)?.description.id;
        let run = w.word("a run")?;
        let label = w.word("a status")?;
        let status = match label {
            "taken_back" => (ReportedStatus::taken_back(), Some(Arc::new(taken_back()))),
            label => (reported(label)?, None),
        };
        let scheduler = if w.take("to") {
            self.names.find_scheduler(w.word("a scheduler")?)?
        } else {
            self.core()?.id()
        };
        let asked = format!("status {worker} {run} {label}");
        self.report_as(id, scheduler, run, status, &asked)
    }

    fn hear_kill(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let node = w.word("a node")?;
        let request = self.ask(Asked::Other {
            text: format!("kill {node}"),
        });
        self.event(Event::KillTask {
            request,
            from: Principal::Own,
            job: JobName::try_from("j").map_err(|e| e.to_string())?,
            node: NodeName::try_from(node).map_err(|e| e.to_string())?,
        })
    }

    fn hear_forget(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let shard = w.word("a shard")?;
        let text = format!("forget {shard}");
        let mut confirmed = Vec::new();
        while let Some(worker) = w.next() {
            confirmed.push(self.names.find_worker(worker)?);
        }
        let request = self.ask(Asked::Other { text });
        self.event(Event::ForgetWorker {
            request,
            from: Principal::Own,
            shard: Shard::try_from(shard).map_err(|e| e.to_string())?,
            confirmed,
        })
    }

    fn hear_deletion(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let mut nodes = Vec::new();
        while let Some(node) = w.next() {
            nodes.push(NodeName::try_from(node).map_err(|e| e.to_string())?);
        }
        self.hear_change("delete-history", JobChange::DeleteHistory { nodes })
    }

    fn hear_change(&mut self, what: &str, change: JobChange) -> Result<(), String> {
        let text = what.to_owned();
        let request = self.ask(Asked::Other { text });
        self.event(Event::ChangeJob {
            request,
            from: Principal::Own,
            job: JobName::try_from("j").map_err(|e| e.to_string())?,
            change,
        })
    }

    fn list(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let mut list = TaskList {
            job: None,
            states: BTreeSet::new(),
            after: None,
            limit: 1,
        };
        while let Some(word) = w.next() {
            let state = ListedState::parse(word);
            list.states.insert(state?);
        }
        loop {
            let now = self.now;
            let page = match self.core()?.answer(now, &Query::Tasks(list.clone())) {
                Answer::Tasks(page) => page,
                other => return Err(format!("no list: {other:?}")),
            };
            for listed in &page.tasks {
                self.show_listed(listed);
            }
            match page.next {
                Some(next) => list.after = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn explain(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let query = Query::Explain {
            job: "j".to_owned(),
            node: w.word("a node")?.to_owned(),
        };
        let now = self.now;
        match self.core()?.answer(now, &query) {
            Answer::Explain(reasons) => {
                for reason in reasons {
                    let reason = self.names.in_text(&reason);
                    self.say(reason);
                }
                Ok(())
            }
            Answer::Unknown(text) => Err(text),
            other => Err(format!("not reasons: {other:?}")),
        }
    }
}

fn refusal_code(word: &str) -> Result<RefusalCode, String> {
    Ok(match word {
        "unhealthy" => RefusalCode::Unhealthy,
        "wrong-id" => RefusalCode::WrongId,
        "old-sequence" => RefusalCode::OldSequence,
        "duplicate" => RefusalCode::Duplicate,
        "busy" => RefusalCode::Busy,
        "draining" => RefusalCode::Draining,
        "unspecified" => RefusalCode::Unspecified,
        other => return Err(format!("`{other}` is no code of a refusal")),
    })
}

/// Returns the story of a run that its worker has returned before it began.
fn taken_back() -> Story {
    Story {
        ended_by: Some(EndedBy::TakeBack),
        ..Story::not_started("taken back", Fault::Nobody, Duration::ZERO)
    }
}

fn reported(word: &str) -> Result<ReportedStatus, String> {
    Ok(match word {
        "done" => ReportedStatus::done(),
        "failed" => ReportedStatus::failed(),
        "incomplete" => ReportedStatus::incomplete(),
        "incomplete_backoff" => ReportedStatus::incomplete_backoff("it was killed"),
        "error_backoff" => ReportedStatus::error_backoff("it went wrong"),
        "was_not_running" => ReportedStatus::was_not_running(),
        other => return Err(format!("`{other}` is no status")),
    })
}

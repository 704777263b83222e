//! The commands of the scenarios: one match arm for each command, with an example above it.

use std::time::Duration;

use brasserie_common::ids::{HEALTHCHECK_JOB, HEALTHCHECK_NEW_WORKER_NODE};
use brasserie_common::worker::{DrainTerms, HeartbeatResponse, PROTOCOL_VERSION};
use brasserie_common::{
    CallOutcome, EndedBy, Health, Kill, KillMethod, KillRequest, Principal, RefusalCode,
    ReportedStatus, RunningTask, SchedulerId, SequenceNumber, Story, TaskSubprocessOptions,
    Timeouts, WorkerId, WorkerSetId,
};
use brasserie_worker_core::{CallReply, DrainRequest, Event, RunTask, Worker};

use crate::routine::Checks;
use crate::transcript::{Words, show_duration};
use crate::world::{OTHER, Peer, World};

impl World {
    pub fn command(&mut self, command: &str) -> Result<(), String> {
        let mut words = Words::new(command);
        let w = &mut words;
        match w.word("a command")? {
            // scheduler S1 start 100
            // Declares a scheduler instance. The one with the later start is newer.
            "scheduler" => self.declare_scheduler(w)?,
            // start [period 15s] [worker-command /bin/task] [shutdown-wait 5s] [drain-timeout 60s]
            // Starts the worker w1. (w9 is the name of another worker.)
            "start" => self.start(w)?,
            // join S1
            // Lets S1 answer, fetch the tasks, send a healthcheck and answer again, until the worker is HEALTHY.
            "join" => {
                let scheduler = w.word("a scheduler")?;
                self.join(scheduler)?;
            }
            // answer heartbeat#1 S1 HEALTHY [version 2] [lose 30s] [counting 3s] [protocol 1] [set-of S2]
            // answer report#1 ok
            // answer heartbeat#1 refused TEXT | not-sent TEXT | unknown TEXT
            // Gives the outcome of a call. `version` is that of the worker set.
            "answer" => self.answer(w)?,
            // fetch from S1 [for w9] | fetch from nobody
            // Calls `getRunningTasks`. A peer of the original interface gives no name.
            "fetch" => self.hear_fetch(w)?,
            // run run#1 n0 from S1 [sequence 1] [for w9] [kill-wait 20s] [no-command]
            //     [timeout 10s] [deadline 60s] [limit-kill TERM|KILL|TERM-KILL 3s]
            // Calls `runTask` for job j. A name that was used before means the same run.
            "run" => self.hear_run(w)?,
            // healthcheck check#1 from S1 [new-worker]
            "healthcheck" => self.hear_healthcheck(w)?,
            // started run#1
            // The process of the run exists.
            "started" => {
                let run: &RunningTask = self.run(w.word("a run")?)?;
                let (task, invocation) = (run.key(), run.invocation);
                self.event(Event::TaskStarted { task, invocation })?;
            }
            // end run#1 done [by timeout|deadline]
            // The process is gone. Status: done, failed, incomplete, incomplete_backoff, error_backoff. `by` names the limit that ended it.
            "end" => self.hear_end(w)?,
            // notify from S1 sequence 1 run#1 run#2
            // Calls `notifyIfTasksNotRunning`.
            "notify" => self.hear_notify(w)?,
            // lost-run run#1 n0
            // Names a run whose `runTask` never arrived. The scheduler may ask about it.
            "lost-run" => {
                let (name, node) = (w.word("a name")?, w.word("a node")?);
                self.new_run(name, "j", node)?;
            }
            // suicide from S1 [for w9]
            "suicide" => self.hear_suicide(w)?,
            // kill run#1 from S1
            // Calls `killTask`, with 3 s between TERM and KILL.
            "kill" => self.hear_kill(w)?,
            // drain
            // The operator drains the worker by a signal.
            "drain" => self.event(Event::Drain)?,
            // request-drain a [for w9] [deadline 60s]
            // The operator drains this worker by a call.
            "request-drain" => self.hear_drain(w)?,
            // shutdown
            // The operator ends the worker.
            "shutdown" => self.event(Event::Shutdown)?,
            // connection-lost
            // The connection to the scheduler broke.
            "connection-lost" => self.connection_lost()?,
            // advance 15s [with S1 [no-healthchecks]]
            // Moves the clock and handles each timer when it is due. S1 repeats its last answer and sends healthchecks.
            "advance" => {
                let d = w.duration("how long")?;
                let scheduler = match w.take("with") {
                    true => Some(w.word("a scheduler")?),
                    false => None,
                };
                let checks = match w.take("no-healthchecks") {
                    true => Checks::None,
                    false => Checks::EachPeriod,
                };
                self.advance(d, scheduler, checks)?;
            }
            // sleep 100s
            // Moves the clock without a turn, as if the process were stopped or the machine suspended.
            "sleep" => {
                self.core()?;
                self.now = self.now + w.duration("how long")?;
            }
            // wake
            // Makes a turn after a sleep.
            "wake" => self.look()?,
            // show
            // Shows the worker's own view.
            "show" => self.show()?,
            // lease
            // Shows until when the keeper lets tasks live if the worker is gone.
            "lease" => {
                let now = self.now;
                let until = self.own()?.tasks_may_live_until();
                self.say(match until {
                    None => "nobody counts on the death of tasks".to_owned(),
                    Some(at) if at <= now => "tasks must die now".to_owned(),
                    Some(at) => format!("tasks may live for {}", show_duration(at.since(now))),
                });
            }
            // timer
            // Shows when the next timer is due.
            "timer" => {
                let now = self.now;
                let due = self.core()?.poll_timeout();
                self.say(match due {
                    None => "no timer is set".to_owned(),
                    Some(at) => {
                        format!("the next timer is due in {}", show_duration(at.since(now)))
                    }
                });
            }
            other => return Err(format!("unknown command `{other}`")),
        }
        words.finish()
    }

    fn declare_scheduler(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let name = w.word("a name")?.to_owned();
        if !w.take("start") {
            return Err("`start N` is missing".to_owned());
        }
        let id = SchedulerId::new(w.number("a start time")?, 1);
        if self.schedulers.values().any(|peer| peer.id == id) {
            return Err("another scheduler has this start time".to_owned());
        }
        self.schedulers.insert(
            name,
            Peer {
                id,
                version: 1,
                state: Health::New,
            },
        );
        Ok(())
    }

    fn start(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        if self.worker.is_some() {
            return Err("the worker runs".to_owned());
        }
        let mut options = Self::options()?;
        while let Some(flag) = w.next() {
            match flag {
                "period" => options.description.heartbeat_period = w.duration("a period")?,
                "worker-command" => {
                    options.worker_command = vec![w.word("a command")?.to_owned()];
                }
                "shutdown-wait" => options.shutdown_kill_wait = w.duration("a wait")?,
                "drain-timeout" => options.drain_timeout = Some(w.duration("a time")?),
                other => return Err(format!("`{other}` is no flag of a worker")),
            }
        }
        self.worker = Some(Worker::new(options, self.now));
        self.look()
    }

    fn from(&self, w: &mut Words<'_>) -> Result<SchedulerId, String> {
        if !w.take("from") {
            return Err("`from SCHEDULER` is missing".to_owned());
        }
        Ok(self.scheduler(w.word("a scheduler")?)?.id)
    }

    fn addressee(w: &mut Words<'_>) -> Result<WorkerId, String> {
        if !w.take("for") {
            return Ok(Self::own_id());
        }
        match w.word("a worker")? {
            "w9" => Ok(WorkerId::new(OTHER.0, OTHER.1)),
            other => Err(format!("no other worker than w9 has a name: `{other}`")),
        }
    }

    /// Returns a heartbeat answer with the default timeouts.
    pub fn response(
        &mut self,
        scheduler: &str,
        state: Health,
    ) -> Result<HeartbeatResponse, String> {
        let peer = self.scheduler(scheduler)?;
        let t = Timeouts::default();
        Ok(HeartbeatResponse {
            scheduler: peer.id,
            max_healthcheck_gap: t.max_healthcheck_gap(),
            heartbeat_grace_period: t.heartbeat_grace_period,
            lose_unhealthy_worker_after: t.lose_unhealthy_worker_after,
            worker_check_interval: t.worker_check_interval,
            worker_state: state,
            not_healthy_for: None,
            protocol_version: PROTOCOL_VERSION,
            worker_set: WorkerSetId {
                scheduler: peer.id,
                version: peer.version,
                ..WorkerSetId::default()
            },
            work: None,
            request_delay: None,
            uses_artifacts: false,
            why_must_die: None,
        })
    }

    fn answer(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let call = w.word("a call")?;
        if !self.calls.contains_key(call) {
            return Err(format!("no open call is called `{call}`"));
        }
        let outcome = match w.word("an outcome")? {
            "ok" => CallOutcome::Done(CallReply::Acknowledged),
            "refused" => CallOutcome::Refused(RefusalCode::Unspecified, w.rest().to_owned()),
            "not-sent" => CallOutcome::NotSent(w.rest().to_owned()),
            "unknown" => CallOutcome::Unknown(w.rest().to_owned()),
            scheduler => {
                let response = self.answered(scheduler, w)?;
                CallOutcome::Done(CallReply::Heartbeat(Box::new(response)))
            }
        };
        self.complete(call, outcome)
    }

    fn answered(
        &mut self,
        scheduler: &str,
        w: &mut Words<'_>,
    ) -> Result<HeartbeatResponse, String> {
        let state = match w.word("a state")? {
            "NEW" => Health::New,
            "HEALTHY" => Health::Healthy,
            "UNHEALTHY" => Health::Unhealthy,
            "MUST_DIE" => Health::MustDie,
            other => return Err(format!("`{other}` is no state")),
        };
        let mut response = self.response(scheduler, state)?;
        self.note_state(scheduler, state);
        while let Some(word) = w.next() {
            match word {
                "version" => {
                    let version = w.number("a version")?;
                    response.worker_set.version = version;
                    if let Some(peer) = self.schedulers.get_mut(scheduler) {
                        peer.version = version;
                    }
                }
                "lose" => response.lose_unhealthy_worker_after = w.duration("a time")?,
                "counting" => response.not_healthy_for = Some(w.duration("a time")?),
                "protocol" => response.protocol_version = w.number("a version")?,
                "set-of" => {
                    let other = self.scheduler(w.word("a scheduler")?)?;
                    response.worker_set.scheduler = other.id;
                }
                other => return Err(format!("`{other}` is nothing that an answer says")),
            }
        }
        Ok(response)
    }

    fn hear_fetch(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let scheduler = match w.take("from") && w.take("nobody") {
            true => None,
            false => Some(self.scheduler(w.word("a scheduler")?)?.id),
        };
        let worker = Self::addressee(w)?;
        self.fetch("fetch", scheduler, worker)
    }

    pub fn fetch(
        &mut self,
        asked: &str,
        scheduler: Option<SchedulerId>,
        worker: WorkerId,
    ) -> Result<(), String> {
        let request = self.ask(asked);
        self.event(Event::GetRunningTasks {
            request,
            from: Principal::Own,
            worker,
            scheduler,
        })
    }

    fn hear_run(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let (name, node) = (w.word("a name")?.to_owned(), w.word("a node")?);
        let scheduler = self.from(w)?;
        let mut task = match self.runs.get(&name) {
            Some(known) if known.node.as_str() == node => known.clone(),
            Some(_) => return Err(format!("`{name}` is on another node")),
            None => self.new_run(&name, "j", node)?,
        };
        let mut sequence = 0;
        if w.take("sequence") {
            sequence = w.number("a sequence number")?;
        }
        let worker = Self::addressee(w)?;
        if w.take("kill-wait") {
            task.suicide_kill_wait = w.duration("a wait")?;
        }
        let command = match w.take("no-command") {
            true => Vec::new(),
            false => vec!["/bin/true".to_owned()],
        };
        let options = Self::limits(w)?;
        let request = self.ask(&format!("runTask {name}"));
        self.run_task(
            request,
            RunTask {
                task,
                config: "{}".to_owned(),
                command,
                scheduler,
                worker,
                sequence: SequenceNumber(sequence),
                options,
            },
        )
    }

    fn limits(w: &mut Words<'_>) -> Result<TaskSubprocessOptions, String> {
        let mut options = TaskSubprocessOptions::default();
        if w.take("timeout") {
            options.timeout = Some(w.duration("a time")?);
        }
        if w.take("deadline") {
            options.deadline = Some(w.duration("a time")?);
        }
        if w.take("limit-kill") {
            let method = match w.word("a method")? {
                "TERM" => KillMethod::Term,
                "KILL" => KillMethod::Kill,
                "TERM-KILL" => KillMethod::TermWaitKill,
                other => return Err(format!("`{other}` is no method")),
            };
            let wait = w.duration("a wait")?;
            options.limit_kill = Some(KillRequest { method, wait });
        }
        Ok(options)
    }

    fn run_task(
        &mut self,
        request: brasserie_common::RequestId,
        run: RunTask,
    ) -> Result<(), String> {
        self.event(Event::RunTask {
            request,
            from: Principal::Own,
            run: Box::new(run),
        })
    }

    fn hear_healthcheck(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let name = w.word("a name")?.to_owned();
        let scheduler = self.from(w)?;
        let node = match w.take("new-worker") {
            true => HEALTHCHECK_NEW_WORKER_NODE,
            false => "",
        };
        let task = match self.runs.get(&name) {
            Some(known) => known.clone(),
            None => self.new_run(&name, HEALTHCHECK_JOB, node)?,
        };
        let request = self.ask(&name);
        self.run_task(
            request,
            RunTask {
                task,
                config: String::new(),
                command: vec!["/bin/sh".to_owned()],
                scheduler,
                worker: Self::own_id(),
                sequence: SequenceNumber::default(),
                options: TaskSubprocessOptions::default(),
            },
        )
    }

    fn hear_end(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let task: RunningTask = self.run(w.word("a run")?)?.clone();
        let status = match w.word("a status")? {
            "done" => ReportedStatus::done(),
            "failed" => ReportedStatus::failed(),
            "incomplete" => ReportedStatus::incomplete(),
            "incomplete_backoff" => ReportedStatus::incomplete_backoff("it was killed"),
            "error_backoff" => ReportedStatus::error_backoff("it went wrong"),
            other => return Err(format!("`{other}` is no status")),
        };
        let ended_by = match w.take("by") {
            true => {
                let word = w.word("who")?;
                Some(EndedBy::parse(word).ok_or_else(|| format!("nobody is called `{word}`"))?)
            }
            false => None,
        };
        let story = Story {
            ended_by,
            ..Story::exited(0)
        };
        self.event(Event::TaskEnded {
            task: task.key(),
            invocation: task.invocation,
            status,
            story: Box::new(story),
        })
    }

    fn hear_notify(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let scheduler = self.from(w)?;
        if !w.take("sequence") {
            return Err("`sequence N` is missing".to_owned());
        }
        let sequence = SequenceNumber(w.number("a sequence number")?);
        let mut tasks = Vec::new();
        while let Some(run) = w.next() {
            tasks.push(self.run(run)?.clone());
        }
        let request = self.ask(&format!("notify {}", sequence.0));
        self.event(Event::NotifyIfTasksNotRunning {
            request,
            from: Principal::Own,
            tasks,
            scheduler,
            worker: Self::own_id(),
            sequence,
        })
    }

    fn hear_suicide(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let scheduler = self.from(w)?;
        let worker = Self::addressee(w)?;
        let request = self.ask("suicide");
        self.event(Event::RequestSuicide {
            request,
            from: Principal::Own,
            scheduler,
            worker,
            why: None,
        })
    }

    fn hear_drain(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let shard = w.word("a worker")?.to_owned();
        let instance = Self::addressee(w)?;
        let deadline = match w.take("deadline") {
            true => Some(w.duration("a time")?),
            false => None,
        };
        let request = self.ask(&format!("drain of {shard}"));
        self.event(Event::RequestDrain {
            request,
            from: Principal::Own,
            drain: DrainRequest {
                shard,
                instance,
                terms: DrainTerms {
                    deadline,
                    reason: "".into(),
                },
            },
        })
    }

    fn hear_kill(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let name = w.word("a run")?;
        let task = self.run(name)?.clone();
        let scheduler = self.from(w)?;
        let request = self.ask(&format!("kill {name}"));
        self.event(Event::KillTask {
            request,
            from: Principal::Own,
            task: task.key(),
            invocation: task.invocation,
            scheduler,
            worker: Self::own_id(),
            kill: Kill {
                request: KillRequest {
                    method: KillMethod::TermWaitKill,
                    wait: Duration::from_secs(3),
                },
                by: EndedBy::Operator,
            },
        })
    }
}

//! Shows effects as lines for people: everything that matters of each, with names in place of ids.

use std::time::Duration;

use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::resources::ResourceAmount;
use brasserie_common::status::StoredStatus;
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{BackoffDuration, Hold, Kill, RecordSeq, RequestId, StatusBits};
use brasserie_scheduler_core::{
    Call, ClusterStatus, Effect, EndedTask, ExitReason, ForgottenTask, GivenTimes, ItemName,
    KilledTask, ListedTask, MissingInstance, Record, Rejection, Reply,
};

use crate::transcript::show_duration;
use crate::work;
use crate::world::{Asked, Held, OpenCall, World};

impl World {
    /// Shows an effect, or counts it where the scenario counts such effects.
    pub fn effect(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Persist { seq, record } => {
                let line = format!("persist #{}: {}", seq.0, self.record(&record));
                self.say(line);
                self.unsynced.push((seq, record));
            }
            Effect::Reply {
                request,
                after,
                reply,
            } => self.reply(request, after, reply)?,
            Effect::Call {
                id,
                shard: _,
                peer: _,
                call,
            } => {
                let worker = call.worker();
                self.call(OpenCall { id, worker }, call);
            }
            Effect::Exit { reason } => {
                let ExitReason::SteppedDown { newer } = reason;
                let newer = self.names.scheduler(newer);
                self.say(format!("exit: stepped down for {newer}"));
            }
        }
        Ok(())
    }

    fn record(&self, record: &Record) -> String {
        match record {
            Record::SchedulerStarted {
                cluster: _,
                scheduler,
                wait,
                generation: _,
            } => {
                let who = self.names.scheduler(*scheduler);
                if wait.is_zero() {
                    format!("{who} uses this directory")
                } else {
                    let wait = show_duration(*wait);
                    format!("{who} uses this directory; nothing starts for {wait} after a restart")
                }
            }
            Record::WorkerAssociated { worker, instance } => format!(
                "{} associated on shard {}, lock {}:{}, certainly dead after {}",
                self.names.worker(*worker),
                instance.shard,
                instance.machine_lock.hostname,
                instance.machine_lock.port,
                show_duration(instance.timeouts.min_safe_wait())
            ),
            Record::WorkerLeft {
                worker,
                cause,
                wall: _,
                tasks,
                hold_back,
            } => {
                let mut text = format!("{} left: {cause:?}", self.names.worker(*worker));
                for task in tasks {
                    text += &format!("; {}", self.ended(task));
                }
                if !hold_back.is_zero() {
                    text += &format!("; nothing may start for {}", show_duration(*hold_back));
                }
                text
            }
            Record::HoldBack { wait } => format!(
                "after a restart nothing may start for {}",
                show_duration(*wait)
            ),
            Record::FenceRaised { generation } => {
                format!("fences have generation {}", generation.0)
            }
            Record::HoldBackOver => "the hold-back is over".to_owned(),
            Record::TaskEnded(task) => self.ended(task),
            Record::JobSaved { job, saved } => {
                format!("job {job} is saved, version {}", saved.version)
            }
            Record::JobDeleted { job, version } => {
                format!("job {job} is deleted, version {version}")
            }
            Record::JobHeld { job, hold } => match hold {
                Hold::Paused => format!("job {job} is paused"),
                Hold::Cancelled => format!("job {job} is cancelled"),
            },
            Record::JobResumed { job } => format!("job {job} is resumed"),
            Record::TasksForgiven { tasks } => {
                let tasks: Vec<String> = tasks.iter().map(|task| self.ended(task)).collect();
                format!("forgiven: {}", tasks.join("; "))
            }
            Record::HistoryDeleted { number: _, tasks } => self.history(tasks),
            Record::HistoryTrimmed(_) | Record::WorkerOrdered { .. } => format!("{record:?}"),
            Record::ConfigKept { config } => format!("the config file {} is kept", config.path),
            Record::OutputsExpired { job } => format!("outputs expired {job}"),
            Record::OutputsForgotten { job, nodes } => format!("outputs forgotten {job} {nodes:?}"),
            Record::TimesGiven { changed, forgotten } => times(changed, forgotten),
        }
    }

    fn history(&self, tasks: &[ForgottenTask]) -> String {
        let texts = tasks.iter().map(|task| {
            let run = self.names.run(task.up_to);
            format!("{} on {} up to {run}", task.job, task.node)
        });
        let texts: Vec<String> = texts.collect();
        format!("history is deleted: {}", texts.join("; "))
    }

    fn ended(&self, task: &EndedTask) -> String {
        format!(
            "{} of {} on {} ended {}",
            self.names.run(task.invocation),
            task.job,
            task.node,
            status_text(&task.status)
        )
    }

    fn reply(
        &mut self,
        request: RequestId,
        after: Option<RecordSeq>,
        reply: Reply,
    ) -> Result<(), String> {
        let asked = self.asked.remove(&request).or_else(|| {
            // The next reply replaces a reply that waits.
            let at = self.held.iter().position(|held| held.request == request)?;
            Some(self.held.remove(at).asked)
        });
        let asked = asked.ok_or_else(|| format!("a reply to nobody: {reply:?}"))?;
        let mut news = None;
        let result = match &reply {
            Reply::Heartbeat(Ok(response)) => {
                let set = response.worker_set;
                let key = format!("{}/{}", self.names.scheduler(set.scheduler), set.version);
                self.sets.insert(key, set);
                if let Asked::Heartbeat { worker } = &asked {
                    news = Some((worker.clone(), set));
                }
                self.heartbeat_result(response)?
            }
            Reply::Heartbeat(Err(rejection)) => self.refused(rejection),
            Reply::UpdateStatus(Ok(())) => "ok".to_owned(),
            Reply::KillTask(Ok(killed)) => killed_text(killed),
            Reply::UpdateStatus(Err(rejection)) | Reply::KillTask(Err(rejection)) => {
                self.refused(rejection)
            }
            Reply::Work(Ok(reply)) => work::reply_text(reply),
            Reply::Work(Err(rejection)) => self.refused(rejection),
            Reply::JobChanged(Ok(changed)) => format!("{changed:?}"),
            Reply::JobChanged(Err(refusal)) => format!("refused: {refusal}"),
            Reply::WorkerForgotten(Ok(dead)) => {
                let described = |dead: &MissingInstance| {
                    let name = self.names.worker(dead.id);
                    match (dead.left_for, dead.waits_for) {
                        (None, _) => name,
                        (Some(_), None) => format!("{name}, which nothing waits for any more"),
                        (Some(ago), Some(left)) => format!(
                            "{name}, which left {}s ago and is waited for for {}s",
                            ago.as_secs(),
                            left.as_secs()
                        ),
                    }
                };
                let names: Vec<String> = dead.iter().map(described).collect();
                format!("may be, or is, declared dead: {}", names.join(" "))
            }
            Reply::WorkerForgotten(Err(refusal)) => {
                format!("refused: {}", self.names.in_text(&refusal.to_string()))
            }
            reply @ (Reply::Slots(_)
            | Reply::SlotsReleased(_)
            | Reply::WorkerOrdered(_)
            | Reply::Artifacts(_)
            | Reply::Answer(_)) => return Err(format!("nobody asked for {reply:?}")),
        };
        let what = match &asked {
            Asked::Heartbeat { worker } => format!("heartbeat {worker}"),
            Asked::Other { text } => text.clone(),
        };
        let text = format!("reply to {what}: {result}");
        if !self.is_routine_reply(&asked, &reply) {
            self.say(format!("{text}{}", after_text(after)));
        }
        match after {
            Some(after) => self.held.push(Held {
                request,
                asked,
                after,
                text,
                news,
            }),
            None => self.deliver(news),
        }
        Ok(())
    }

    /// Checks that the timeouts in an answer are those of the flags. They are not shown, because the flags determine them.
    fn heartbeat_result(&mut self, response: &HeartbeatResponse) -> Result<String, String> {
        let t = self.timeouts;
        let sent = (
            response.max_healthcheck_gap,
            response.heartbeat_grace_period,
            response.lose_unhealthy_worker_after,
            response.worker_check_interval,
        );
        let expected = (
            t.max_healthcheck_gap(),
            t.heartbeat_grace_period,
            t.lose_unhealthy_worker_after,
            t.worker_check_interval,
        );
        if sent != expected {
            return Err(format!(
                "the answer has other timeouts than the flags: {response:?}"
            ));
        }
        let set = &response.worker_set;
        if response.scheduler != set.scheduler {
            return Err(format!("the answer has another one's set: {response:?}"));
        }
        let counts_for = response.not_healthy_for.filter(|d| !d.is_zero());
        let counts_for = counts_for.map(|d| format!(" for {}", show_duration(d)));
        Ok(format!(
            "{}{}, set {}{}",
            response.worker_state.as_str(),
            counts_for.unwrap_or_default(),
            self.names.set(set),
            response
                .work
                .as_ref()
                .map(|work| format!("; {}", work::reply_text(work)))
                .unwrap_or_default()
        ))
    }

    fn refused(&self, rejection: &Rejection) -> String {
        let debug = format!("{rejection:?}");
        let kind: String = debug.chars().take_while(|c| c.is_alphanumeric()).collect();
        format!(
            "refused, {kind}: {}",
            self.names.in_text(&rejection.to_string())
        )
    }

    fn call(&mut self, open: OpenCall, call: Call) {
        let to = self.names.worker(open.worker);
        if self.is_counted_unanswered(&to, &call) {
            return;
        }
        if let Some(kind) = self.routine_kind(&to, &call) {
            // Routine calls have names of their own, so that the other names of a scenario do not depend on their number.
            let name = self.names.next(kind);
            if let Call::RunTask(run) | Call::Healthcheck(run) = call {
                self.tasks.insert(name.clone(), run.task);
            }
            self.calls.insert(name.clone(), open);
            self.routine.todo.push(name);
            return;
        }
        let (name, text) = self.call_text(call);
        self.say(format!("call {to}, {name}: {text}"));
        self.calls.insert(name, open);
    }

    /// Returns the name of the call, and its content.
    fn call_text(&mut self, call: Call) -> (String, String) {
        match call {
            Call::RunTask(run) => {
                let name = self.names.next("run");
                self.names.name_run(run.task.invocation, name.clone());
                let text = format!(
                    "runTask {} on {}, sequence {}, {}{}{}",
                    run.task.job,
                    run.task.node,
                    run.sequence.0,
                    backoff_text(run.task.next_backoff),
                    work::terms_text(&run.task.work),
                    slots_text(run.task.worker_slots.as_deref()),
                );
                self.tasks.insert(name.clone(), run.task);
                (name, text)
            }
            Call::Healthcheck(run) => {
                let name = self.names.next("check");
                let text = match run.task.node.as_str() {
                    HEALTHCHECK_NEW_WORKER_NODE => "healthcheck of a new worker",
                    _ => "healthcheck",
                };
                self.tasks.insert(name.clone(), run.task);
                (name, text.to_owned())
            }
            Call::NotifyIfTasksNotRunning {
                tasks, sequence, ..
            } => {
                let runs = tasks.iter().map(|t| self.names.run(t.invocation));
                let runs: Vec<String> = runs.collect();
                let text = format!(
                    "notifyIfTasksNotRunning {}, sequence {}",
                    runs.join(" "),
                    sequence.0
                );
                (self.names.next("notify"), text)
            }
            Call::GetRunningTasks { .. } => {
                (self.names.next("fetch"), "getRunningTasks".to_owned())
            }
            Call::RequestSuicide { .. } => {
                (self.names.next("suicide"), "requestSuicide".to_owned())
            }
            Call::Drain { .. } => (self.names.next("drain"), "drain".to_owned()),
            Call::KillTask { task, kill, .. } => {
                let run = self.names.run(task.invocation);
                let Kill { request, by } = kill;
                let wait = show_duration(request.wait);
                let text = format!("killTask {run}, {:?}, wait {wait}, as {by}", request.method);
                (self.names.next("kill"), text)
            }
        }
    }

    /// Shows from the status whether tasks may start.
    pub fn show_wait(&mut self, status: &ClusterStatus) {
        let text = match (&status.wait_ended, &status.initial_wait) {
            (None, None | Some(_)) => "the initial wait stands".to_owned(),
            (Some(reason), None) => format!("the initial wait is over: {reason}"),
            (Some(reason), Some(_)) => {
                format!("the initial wait is over: {reason}; but all starts are held back")
            }
        };
        self.say(text);
    }

    /// Shows one listed task as a line.
    pub fn show_listed(&mut self, listed: &ListedTask) {
        let mut line = format!(
            "{} on {}: {}",
            listed.task.job, listed.task.node, listed.state
        );
        if let Some((shard, invocation)) = &listed.run {
            line += &format!(", {} on worker {shard}", self.names.run(*invocation));
        }
        if let Some(since) = listed.since {
            line += &format!(", since {}s ago", since.until(self.wall()).as_secs());
        }
        if let Some(tries) = &listed.tries {
            line += &format!(", {} tries failed", tries.count);
        }
        if let Some(reason) = &listed.reason {
            line += &format!(": {}", self.names.in_text(reason));
        }
        self.say(line);
    }

    /// Shows the status as an operator sees it.
    pub fn show_status(&mut self, status: &ClusterStatus) {
        if let Some(reason) = &status.wait_ended {
            self.say(format!("the initial wait is over: {reason}"));
        }
        if let Some(message) = &status.initial_wait {
            let message = self.names.in_text(message);
            self.say(message);
        }
        for worker in &status.workers {
            let mut line = format!(
                "{} on shard {}: {}, {} running, {} unsure",
                self.names.worker(worker.id),
                worker.shard,
                worker.health.as_str(),
                worker.running - worker.unsure,
                worker.unsure
            );
            if worker.silent_for.is_some() {
                line += ", silent";
            }
            if worker.begun_anew > 0 {
                line += &format!(", begun anew {}x", worker.begun_anew);
            }
            self.say(line);
        }
        for job in &status.jobs {
            let c = job.counts;
            let counts = [
                (c.unstarted, "unstarted"),
                (c.running, "running"),
                (c.done, "done"),
                (c.incomplete, "incomplete"),
                (c.error, "error"),
                (c.in_backoff, "in backoff"),
                (c.failed, "failed"),
                (c.never, "never"),
            ];
            let counts = counts.iter().filter(|(n, _)| *n > 0);
            let counts: Vec<String> = counts.map(|(n, what)| format!("{n} {what}")).collect();
            self.say(format!("job {}: {}", job.name, counts.join(", ")));
        }
        for error in &status.errors {
            let error = self.names.in_text(error);
            self.say(format!("problem: {error}"));
        }
    }
}

fn after_text(after: Option<RecordSeq>) -> String {
    after.map_or(String::new(), |seq| format!(" (after #{})", seq.0))
}

fn backoff_text(backoff: BackoffDuration) -> String {
    if backoff.no_more_backoffs {
        "no more retries".to_owned()
    } else {
        format!("next backoff {}s", backoff.seconds)
    }
}

/// Returns the bits, waits and text of a stored status.
fn status_text(status: &StoredStatus) -> String {
    let mut text = status.label().to_owned();
    for (bit, name) in [
        (StatusBits::USES_BACKOFF, "uses backoff"),
        (StatusBits::DOES_NOT_ADVANCE_BACKOFF, "keeps its step"),
        (StatusBits::OVERWRITEABLE, "overwriteable"),
    ] {
        if status.bits.has(bit) {
            text += &format!(", {name}");
        }
    }
    if status.backoff_seconds > 0 {
        text += &format!(", waits {}s", status.backoff_seconds);
    }
    if status.safety_seconds > 0 {
        text += &format!(" ({}s of safety)", status.safety_seconds);
    }
    if status.bits.has(StatusBits::HAS_SAVED_BACKOFF) {
        let saved = status
            .data
            .as_ref()
            .and_then(|d| d.get("__bistro_saved_backoff"));
        text += &format!(
            ", saved backoff {}s",
            saved.map(ToString::to_string).unwrap_or_default()
        );
    }
    match status.exception() {
        Some(exception) => format!("{text}: {exception}"),
        None => text,
    }
}

/// Returns the time until the next timer, for `timer`.
pub fn timer_text(wait: Option<Duration>) -> String {
    match wait {
        None => "no timer is set".to_owned(),
        Some(Duration::ZERO) => "a timer is due".to_owned(),
        Some(wait) => format!("the next timer is due in {}", show_duration(wait)),
    }
}

fn times(changed: &[(ItemName, GivenTimes)], forgotten: &[ItemName]) -> String {
    let mut text = "times are given".to_owned();
    for (item, given) in changed {
        let last = given.stretches.last();
        let up_to = last.map_or(0, |stretch| stretch.up_to.as_secs());
        text += &format!("; by {} up to {up_to}", item.0);
        if given.absent_since.is_some() {
            text += ", which no configuration has";
        }
    }
    for item in forgotten {
        text += &format!("; {} is forgotten", item.0);
    }
    text
}

fn killed_text(killed: &KilledTask) -> String {
    let why = killed.unwanted.as_ref();
    why.map_or_else(
        || "ok".to_owned(),
        |why| format!("ok; it does not run again, as {why}"),
    )
}

/// Returns the worker's slots that a call to start a task states.
fn slots_text(slots: Option<&[ResourceAmount]>) -> String {
    let named = slots.map(|slots| {
        let all = slots.iter();
        let all = all.map(|slot| format!("{} {}", slot.amount, slot.name));
        format!(", under {}", all.collect::<Vec<_>>().join(" and "))
    });
    named.unwrap_or_default()
}

//! Effects as lines for people: the relevant values of each, with names in place of ids.

use brasserie_common::worker::Intake;
use brasserie_common::{Kill, KillMethod, RefusalCode, ReportedStatus, RunningTask, StatusBits};
use brasserie_worker_core::{Call, Effect, Goes, Goodbye, Reply};

use crate::transcript::show_duration;
use crate::world::World;

impl World {
    /// Shows one effect, or counts it if it belongs to the routine.
    pub fn effect(&mut self, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Reply { request, reply } => {
                let asked = self
                    .asked
                    .remove(&request)
                    .ok_or_else(|| format!("a reply to nobody: {reply:?}"))?;
                let text = match reply {
                    Ok(Reply::Empty | Reply::Accepted { queued_at: None }) => "ok".to_owned(),
                    Ok(Reply::Accepted {
                        queued_at: Some(place),
                    }) => format!("ok, stands by at place {place}"),
                    Ok(Reply::RunningTasks(tasks)) => self.listing(&tasks),
                    Ok(Reply::WorkFetch(_)) => "its work fetch".to_owned(),
                    Ok(Reply::Draining(running)) => format!("it drains, with {running} running"),
                    Ok(Reply::WorkWishes(_)) => "when it asks for work".to_owned(),
                    Err(refusal) => {
                        let text = self.in_text(&refusal.message);
                        format!("refused, {}: {text}", self.code_text(refusal.code))
                    }
                };
                if !self.is_routine_reply(&asked, &text) {
                    self.say(format!("reply to {asked}: {text}"));
                }
            }
            Effect::Call { id, call, .. } => {
                if self.is_routine_call(&call) {
                    self.await_routine(id, &call);
                } else {
                    let (name, text) = self.call_text(&call);
                    self.say(format!("call {name}: {text}"));
                    self.calls.insert(name, id);
                }
            }
            Effect::Spawn { run, .. } => {
                let name = self.name_of_run(run.task.invocation);
                if !self.is_routine_run(&name) {
                    let (job, node) = (&run.task.job, &run.task.node);
                    let line = if run.task.is_healthcheck() {
                        format!("spawn {name}")
                    } else {
                        format!("spawn {name}: {job} on {node}, {}", run.command.join(" "))
                    };
                    self.say(line);
                }
            }
            Effect::Suspend { task, invocation } => {
                let run = self.name_of_run(invocation);
                self.say(format!("suspend {run} on {}", task.node));
            }
            Effect::Resume { task, invocation } => {
                let run = self.name_of_run(invocation);
                self.say(format!("resume {run} on {}", task.node));
            }
            Effect::Kill {
                task,
                invocation,
                kill,
            } => {
                let run = self.name_of_run(invocation);
                let line = format!("kill {run} on {}: {}", task.node, kill_text(kill));
                self.say(line);
            }
            Effect::NewInstance { .. } => self.say("asks for a new instance"),
            Effect::Exit { reason } => self.say(format!("exit: {reason:?}")),
        }
        Ok(())
    }

    fn code_text(&self, code: RefusalCode) -> String {
        match code {
            RefusalCode::BoundTo(scheduler) => {
                format!("BoundTo {}", self.name_of_scheduler(scheduler))
            }
            RefusalCode::Unhealthy
            | RefusalCode::WrongId
            | RefusalCode::OldSequence
            | RefusalCode::Duplicate
            | RefusalCode::Busy
            | RefusalCode::Draining
            | RefusalCode::Unspecified => format!("{code:?}"),
        }
    }

    fn listing(&self, tasks: &[RunningTask]) -> String {
        let listed: Vec<String> = tasks
            .iter()
            .map(|task| {
                let run = self.name_of_run(task.invocation);
                match &task.ended {
                    None => format!("{run} running"),
                    Some(status) => format!("{run} ended {}", status_text(status)),
                }
            })
            .collect();
        if listed.is_empty() {
            "nothing runs".to_owned()
        } else {
            listed.join(", ")
        }
    }

    fn call_text(&mut self, call: &Call) -> (String, String) {
        match call {
            Call::Heartbeat {
                worker,
                worker_set,
                goodbye,
            } => {
                let mut text = format!("echoes {}", self.name_of_set(worker_set));
                if worker.intake == Intake::Draining {
                    text += ", draining";
                }
                if *goodbye == Goodbye::TasksAreDead {
                    text += ", goodbye: its tasks are dead";
                }
                (self.next_heartbeat(), text)
            }
            Call::RequestWork { .. } => (self.next_heartbeat(), "asks for work".to_owned()),
            Call::ReadMembers => (self.next_heartbeat(), "reads its list".to_owned()),
            Call::UpdateStatus {
                task,
                status,
                scheduler,
                worker: _,
                goes,
            } => {
                let together = match goes {
                    Goes::Alone => "",
                    Goes::Together => ", together",
                };
                let text = format!(
                    "to {}, {} {}{together}",
                    self.name_of_scheduler(*scheduler),
                    self.name_of_run(task.invocation),
                    status_text(status)
                );
                (self.next_report(), text)
            }
        }
    }

    /// Shows the worker's own view.
    pub fn show(&mut self) -> Result<(), String> {
        let worker = self.own()?;
        let (health, stage) = (worker.health().as_str(), worker.life_stage());
        let (scheduler, bound) = (worker.scheduler(), worker.bound_to());
        let trouble = worker.heartbeat_trouble().map(ToString::to_string);
        let (live, pending) = (worker.live_processes(), worker.unacknowledged_reports());
        let tasks = worker.running_tasks();
        let nobody = || "nobody".to_owned();
        let scheduler = scheduler.map_or_else(nobody, |id| self.name_of_scheduler(id));
        let bound = bound.map_or_else(nobody, |id| self.name_of_scheduler(id));
        self.say(format!(
            "{health}, {stage:?}, answered by {scheduler}, bound to {bound}"
        ));
        let listing = self.listing(&tasks);
        self.say(format!(
            "{listing}; {live} processes, {pending} reports to acknowledge"
        ));
        if let Some(trouble) = trouble {
            let trouble = self.in_text(&trouble);
            self.say(format!("trouble: {trouble}"));
        }
        Ok(())
    }
}

fn kill_text(Kill { request, by }: Kill) -> String {
    let how = match request.method {
        KillMethod::TermWaitKill => format!("TERM, {}, KILL", show_duration(request.wait)),
        KillMethod::Kill => "KILL".to_owned(),
        KillMethod::Term => "TERM".to_owned(),
    };
    format!("{how}, as {by}")
}

pub fn status_text(status: &ReportedStatus) -> String {
    let names = [
        (StatusBits::DONE, "done"),
        (StatusBits::FAILED, "failed"),
        (StatusBits::INCOMPLETE, "incomplete"),
        (StatusBits::ERROR, "error"),
        (StatusBits::USES_BACKOFF, "uses backoff"),
        (StatusBits::DOES_NOT_ADVANCE_BACKOFF, "keeps its step"),
        (StatusBits::OVERWRITEABLE, "overwriteable"),
    ];
    let set = names.iter().filter(|(bit, _)| status.bits().has(*bit));
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    set.join(", ")
}

//! Law `explain_is_true`: Once a scheduler has placed what it can, explain has a reason for each task and calls none runnable; and it would
//! call a task that has just started runnable, if only that one did not run, or say that all work that was asked for is given.
//!
//! Source: thrift/PROTOCOL.md, Requests for work (`explainTask`). A reason that placement did not have misleads operators.

use brasserie_common::status::StoredStatus;
use brasserie_common::{StatusBits, Time, WallTime};
use brasserie_scheduler_core::{Answer, Query, Scheduler};
use brasserie_scheduler_engine::{Engine, Reason, Restart, Task};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, TaskId};
use crate::view::World;

const NAME: &str = "explain_is_true";
/// One in this many turns of a scheduler is checked, because asking about every task costs more than the turn.
const JUDGED: u32 = 8;

#[derive(Default)]
pub struct ExplainIsTrue {
    turns: u32,
}

impl Law for ExplainIsTrue {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "Once a scheduler has placed what it can, explain has a reason for each task and calls none runnable; and it would call a task that has just started runnable, if only that one did not run, or say that all work that was asked for is given."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::CallSent {
                place,
                ask: Ask::Run { run, .. },
                ..
            } => match world.scheduler(place) {
                Some(core) => judge_start(core.engine(), when, run.task),
                None => Ok(()),
            },
            Happening::SchedulerTurn { place } => {
                self.turns = self.turns.wrapping_add(1);
                match world.scheduler(place) {
                    Some(core) if self.turns.is_multiple_of(JUDGED) => judge_rest(core, when),
                    Some(_) | None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Tasks that leave in one turn were placed one after the other, so a later placement also fits beside this one.
fn judge_start(engine: &Engine, when: Time, task: TaskId) -> Result<(), Violation> {
    let job = engine.find_job(&format!("j{}", task.job));
    let node = engine.find_node(&format!("n{}", task.node));
    let (Some(job), Some(node)) = (job, node) else {
        return broken(format_args!("{task} starts, and nobody knows its name"));
    };
    let started = Task { job, node };
    if !engine.is_running(started) {
        return Ok(());
    }
    let mut without = engine.clone();
    let ended = StoredStatus {
        bits: StatusBits::INCOMPLETE,
        time: WallTime::default(),
        backoff_seconds: 0,
        safety_seconds: 0,
        data: None,
    };
    without.end(when, started, ended, None, Restart::AtOnce);
    match without.explain(when, started).as_slice() {
        [Reason::Runnable] => Ok(()),
        // A completion gives no credit back: this task may have taken the last credit, or the last time before deadlines.
        [
            Reason::NoWorkerNow {
                not_asked, late, ..
            },
        ] if not_asked.count > 0 || *late > 0 => Ok(()),
        others => {
            let others: Vec<String> = others.iter().map(Reason::to_string).collect();
            let others = others.join(", ");
            broken(format_args!(
                "{task} starts, although explain says: {others}"
            ))
        }
    }
}

fn judge_rest(core: &Scheduler, when: Time) -> Result<(), Violation> {
    // The scheduler stopped at its limit of placements and continues at once.
    if core.poll_timeout() == Some(Time::ZERO) {
        return Ok(());
    }
    let engine = core.engine();
    for task in without_reason(engine, when) {
        // The engine does not know why all tasks are held back.
        let name = (engine.job_name(task.job), engine.node_name(task.node));
        let query = Query::Explain {
            job: name.0.to_string(),
            node: name.1.to_string(),
        };
        let told = match core.answer(when, &query) {
            Answer::Explain(told) => told,
            other => vec![format!("{other:?}")],
        };
        if told.is_empty() || told.contains(&Reason::Runnable.to_string()) {
            return broken(format_args!(
                "{} on {} does not run, and explain says: {told:?}",
                name.0, name.1
            ));
        }
    }
    Ok(())
}

/// Returns the tasks for which the engine knows no obstacle.
fn without_reason(engine: &Engine, when: Time) -> impl Iterator<Item = Task> + '_ {
    let tasks = engine.jobs().flat_map(|job| engine.tasks(job));
    tasks.filter(move |task| {
        let reasons = engine.explain(when, *task);
        reasons.is_empty() || reasons.contains(&Reason::Runnable)
    })
}

fn broken(what: std::fmt::Arguments<'_>) -> Result<(), Violation> {
    Err(Violation::new(NAME, what))
}

#[cfg(test)]
mod tests {
    use brasserie_scheduler_engine::{Allowances, Eligibility, WorkerResources};

    use super::super::cores::{load, new_core};
    use super::*;

    const TASK: TaskId = TaskId { job: 0, node: 0 };

    fn core() -> Scheduler {
        let mut core = new_core();
        load(
            &mut core,
            r#"{"bistro_settings": {"nodes": {"levels": ["l"], "node_source": "manual",
                "node_source_prefs": {"n0": []}}}, "bistro_job->j0": {"command": ["x"]}}"#,
        );
        core
    }

    /// Returns an engine with one worker that has room for one task.
    fn with_worker(core: &Scheduler, eligibility: Eligibility) -> Engine {
        let mut engine = core.engine().clone();
        let shard = "w".try_into().unwrap();
        let worker = engine.upsert_worker(
            &shard,
            WorkerResources {
                hostname: "host".into(),
                port: 1,
                cpu_cores: 1.0,
                memory_mb: 0.0,
                cards: Vec::new(),
                has_worker_command: false,
                room: None,
            },
        );
        engine.set_eligibility(worker, eligibility);
        engine
    }

    #[test]
    fn what_starts_is_runnable_without_itself() {
        let mut engine = with_worker(&core(), Eligibility::Eligible);
        assert!(engine.place(Time::ZERO).is_some());
        assert_eq!(judge_start(&engine, Time::ZERO, TASK), Ok(()));
        let worker = engine.find_worker("w").unwrap();
        engine.set_eligibility(worker, Eligibility::Ineligible);
        let violation = judge_start(&engine, Time::ZERO, TASK).unwrap_err();
        assert!(
            violation.what.contains("although explain says"),
            "{violation}"
        );
        let stranger = TaskId { job: 7, node: 0 };
        assert!(judge_start(&engine, Time::ZERO, stranger).is_err());
    }

    #[test]
    fn what_a_worker_asked_for_is_spent_by_what_starts() {
        let mut engine = with_worker(&core(), Eligibility::Eligible);
        assert!(engine.place(Time::ZERO).is_some());
        let worker = engine.find_worker("w").unwrap();
        engine.set_allowances(worker, Some(Allowances::default()));
        assert_eq!(judge_start(&engine, Time::ZERO, TASK), Ok(()));
    }

    #[test]
    fn what_does_not_start_is_not_runnable() {
        let core = core();
        assert_eq!(judge_rest(&core, Time::ZERO), Ok(()));
        let mut engine = with_worker(&core, Eligibility::Eligible);
        assert_eq!(without_reason(&engine, Time::ZERO).count(), 1);
        assert!(engine.place(Time::ZERO).is_some());
        assert_eq!(without_reason(&engine, Time::ZERO).count(), 0);
    }
}

//! A test harness for one law: hand-made happenings that the law must accept, and one that it must catch.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{
    EndedBy, Health, InvocationId, RecordSeq, RefusalCode, SchedulerId, SequenceNumber, Shard,
    Standing, StatusBits, Time, Timeouts, WorkerId, WorkerSetHash,
};
use brasserie_common_config::{Config, ParseOptions, parse};
use brasserie_scheduler_core::{LeftCause, Retention};

use super::{Moment, Stated, Verdict};
use crate::event_log::{
    Ask, CallTag, DirectoryId, Fact, Happening, OutcomeKind, ProcessEnd, ProcessId, RejectionKind,
    Run, SchedulerPlace, SchedulerStop, SetMark, TaskId, WaitExit, WorkerPlace,
};
use crate::model::Model;
use crate::swarm::Fetching;
use crate::view::{Contract, Phase, World};

pub(crate) const D: DirectoryId = DirectoryId(0);
pub(crate) const LOST: StatusBits = StatusBits(32 | 64 | 2048 | 1024);
pub(crate) const NOT_RUNNING: StatusBits = StatusBits(32 | 1024);
pub(crate) const DONE: StatusBits = StatusBits::DONE;
pub(crate) const ERROR: StatusBits = StatusBits::ERROR;
/// The lost-task backoff of the default timeouts.
pub(crate) const SAFE: u32 = 66;

/// One law with its clock, its world and its model.
pub(crate) struct Trial<L> {
    pub(crate) law: L,
    pub(crate) model: Model,
    now: Time,
    pub(crate) contract: Contract,
    timeouts: Timeouts,
    pub(crate) only_workers_fail: bool,
    pub(crate) retention: Retention,
    config: Arc<Config>,
}

impl<L: Stated + Default> Trial<L> {
    pub(crate) fn of(law: L) -> Self {
        let parsed = parse(
            r#"{"bistro_settings": {"nodes": {"levels": []}}}"#,
            ParseOptions::default(),
        );
        Trial {
            law,
            model: Model::default(),
            now: Time::ZERO,
            contract: Contract::Whole,
            timeouts: Timeouts::default(),
            only_workers_fail: false,
            retention: Retention::UNLIMITED,
            config: Arc::new(parsed.expect("the smallest configuration").config),
        }
    }

    fn world(&self) -> World<'_> {
        World {
            contract: self.contract,
            phase: Phase::Faults,
            timeouts: &self.timeouts,
            shortest: &self.timeouts,
            only_workers_fail: self.only_workers_fail,
            keeper_delay: Duration::from_secs(1),
            drift_per_mille: 0,
            fetching: &Fetching::Nobody,
            heartbeat_period: Duration::from_secs(15),
            retention: self.retention,
            schedulers: &[],
            workers: &[],
            directories: &[],
            config: &self.config,
        }
    }

    /// Asks the law a question about this moment.
    pub(crate) fn ask<T>(&mut self, question: impl FnOnce(&mut L, &Moment<'_>) -> T) -> T {
        let mut law = std::mem::take(&mut self.law);
        let moment = Moment {
            when: self.now,
            world: &self.world(),
            model: &self.model,
        };
        let answer = question(&mut law, &moment);
        self.law = law;
        answer
    }

    fn judge(&mut self, happening: &Happening) -> Verdict {
        self.ask(|law, now| law.before(happening, now))?;
        let mut model = std::mem::take(&mut self.model);
        model.note(self.now, happening, &self.world());
        self.model = model;
        self.ask(|law, now| law.observe(happening, now))
    }

    pub(crate) fn at(&mut self, secs: u64) -> &mut Self {
        self.now = Time::from_nanos(secs * 1_000_000_000);
        self
    }

    pub(crate) fn after_millis(&mut self, millis: u64) -> &mut Self {
        self.now = self.now + Duration::from_millis(millis);
        self
    }

    #[track_caller]
    pub(crate) fn sees(&mut self, happening: Happening) -> &mut Self {
        let verdict = self.judge(&happening);
        assert_eq!(verdict, Ok(()), "{happening:?}");
        self
    }

    /// Shows the law the record of one completion, and the completion.
    #[track_caller]
    pub(crate) fn ends(&mut self, s: i64, seq: u64, run: Run, bits: StatusBits) -> &mut Self {
        let [record, end] = ended(s, seq, run, bits);
        self.sees(record).sees(end)
    }

    #[track_caller]
    pub(crate) fn breaks(&mut self, happening: Happening, text: &str) {
        let verdict = self.judge(&happening);
        let violation = verdict.expect_err("the law lets it pass");
        assert!(violation.contains(text), "{violation}");
    }
}

pub(crate) fn sid(n: i64) -> SchedulerId {
    SchedulerId::new(n, n)
}

pub(crate) fn wid(n: i64) -> WorkerId {
    WorkerId::new(n, n)
}

/// Returns run `invocation` of task `j0/n0`.
pub(crate) fn run(invocation: i64) -> Run {
    Run {
        task: TaskId { job: 0, node: 0 },
        invocation: InvocationId::new(invocation, 0),
    }
}

pub(crate) fn check(invocation: i64) -> Run {
    Run {
        task: TaskId::HEALTHCHECK,
        invocation: InvocationId::new(invocation, 0),
    }
}

fn scheduler_place(_: i64) -> SchedulerPlace {
    SchedulerPlace(0)
}

pub(crate) fn place(w: i64) -> WorkerPlace {
    WorkerPlace(u16::try_from(w).unwrap())
}

pub(crate) fn set(s: i64, version: i64, members: &[i64]) -> SetMark {
    let mut hash = WorkerSetHash::default();
    for member in members {
        hash.add(wid(*member));
    }
    SetMark {
        scheduler: sid(s),
        version,
        members: hash.num_workers,
        hash,
        standing: Standing::Unsettled,
    }
}

/// Returns a [`set`] that was given after the initial wait.
pub(crate) fn settled_set(s: i64, version: i64, members: &[i64]) -> SetMark {
    SetMark {
        standing: Standing::Settled,
        ..set(s, version, members)
    }
}

pub(crate) fn started(s: i64) -> Happening {
    Happening::SchedulerStarted {
        place: scheduler_place(s),
        directory: D,
        scheduler: sid(s),
    }
}

pub(crate) fn stopped(s: i64) -> Happening {
    Happening::SchedulerStopped {
        place: scheduler_place(s),
        scheduler: sid(s),
        how: SchedulerStop::Crashed,
    }
}

pub(crate) fn wait_ended(s: i64, why: WaitExit) -> Happening {
    Happening::WaitEnded {
        place: scheduler_place(s),
        scheduler: sid(s),
        why,
    }
}

pub(crate) fn waits_again(s: i64) -> Happening {
    Happening::WaitsAgain {
        place: scheduler_place(s),
        scheduler: sid(s),
    }
}

pub(crate) fn scheduler_turn() -> Happening {
    Happening::SchedulerTurn {
        place: SchedulerPlace(0),
    }
}

pub(crate) fn wrote(s: i64, seq: u64, fact: Fact) -> Happening {
    Happening::RecordWritten {
        directory: D,
        scheduler: sid(s),
        seq: RecordSeq(seq),
        fact,
    }
}

pub(crate) fn wrote_start(s: i64) -> Happening {
    wrote(
        s,
        1,
        Fact::SchedulerStarted {
            scheduler: sid(s),
            wait: Duration::ZERO,
        },
    )
}

pub(crate) fn associated(s: i64, seq: u64, w: i64) -> Happening {
    let fact = Fact::WorkerAssociated {
        worker: wid(w),
        shard: Shard::try_from("s").unwrap(),
    };
    wrote(s, seq, fact)
}

pub(crate) fn left(s: i64, seq: u64, w: i64, cause: LeftCause, tasks: u16) -> Happening {
    let fact = Fact::WorkerLeft {
        worker: wid(w),
        cause,
        tasks,
        hold_back: Duration::ZERO,
    };
    wrote(s, seq, fact)
}

pub(crate) fn end_written(
    s: i64,
    seq: u64,
    run: Run,
    bits: StatusBits,
    backoff: u32,
    safety: u32,
) -> Happening {
    Happening::EndWritten {
        directory: D,
        scheduler: sid(s),
        seq: RecordSeq(seq),
        run,
        bits,
        backoff_seconds: backoff,
        safety_seconds: safety,
    }
}

pub(crate) fn end_deleted(s: i64, seq: u64, run: Run) -> Happening {
    Happening::EndDeleted {
        directory: D,
        scheduler: sid(s),
        seq: RecordSeq(seq),
        run,
    }
}

/// Returns the record of one end, and the end.
pub(crate) fn ended(s: i64, seq: u64, run: Run, bits: StatusBits) -> [Happening; 2] {
    [
        wrote(s, seq, Fact::TaskEnded),
        end_written(s, seq, run, bits, 0, 0),
    ]
}

pub(crate) fn synced(s: i64, seq: u64) -> Happening {
    Happening::Synced {
        directory: D,
        scheduler: sid(s),
        up_to: RecordSeq(seq),
    }
}

pub(crate) fn tail_lost(s: i64, after: u64) -> Happening {
    Happening::TailLost {
        directory: D,
        scheduler: sid(s),
        after: RecordSeq(after),
    }
}

pub(crate) fn heard(s: i64, w: i64, set: SetMark) -> Happening {
    Happening::HeartbeatHeard {
        place: scheduler_place(s),
        scheduler: sid(s),
        worker: wid(w),
        shard: Shard::try_from("s").unwrap(),
        set,
        goodbye: false,
    }
}

pub(crate) fn rejected(s: i64, w: i64, why: RejectionKind) -> Happening {
    Happening::HeartbeatRejected {
        place: scheduler_place(s),
        scheduler: sid(s),
        worker: wid(w),
        why,
    }
}

pub(crate) fn answered(s: i64, w: i64, state: Health, set: SetMark) -> Happening {
    Happening::HeartbeatAnswered {
        place: scheduler_place(s),
        scheduler: sid(s),
        worker: wid(w),
        state,
        set,
    }
}

pub(crate) fn decided(s: i64, w: i64, state: Health, set: SetMark) -> Happening {
    Happening::HeartbeatDecided {
        place: scheduler_place(s),
        scheduler: sid(s),
        worker: wid(w),
        state,
        set,
    }
}

pub(crate) fn status_heard(s: i64, w: i64, run: Run, bits: StatusBits) -> Happening {
    Happening::StatusHeard {
        place: scheduler_place(s),
        scheduler: sid(s),
        worker: wid(w),
        run,
        bits,
    }
}

pub(crate) fn acknowledged(s: i64, w: i64, run: Run, bits: StatusBits) -> Happening {
    Happening::StatusAcknowledged {
        place: scheduler_place(s),
        scheduler: sid(s),
        worker: wid(w),
        run,
        bits,
        after: None,
    }
}

pub(crate) fn sent(s: i64, w: i64, tag: u32, ask: Ask) -> Happening {
    Happening::CallSent {
        place: scheduler_place(s),
        scheduler: sid(s),
        worker: wid(w),
        call: CallTag(tag),
        ask,
    }
}

pub(crate) fn over(s: i64, w: i64, tag: u32, ask: Ask, outcome: OutcomeKind) -> Happening {
    Happening::CallOver {
        place: scheduler_place(s),
        scheduler: sid(s),
        worker: wid(w),
        call: CallTag(tag),
        ask,
        outcome,
    }
}

pub(crate) fn ask_run(run: Run) -> Ask {
    Ask::Run {
        run,
        sequence: SequenceNumber(0),
    }
}

pub(crate) fn fetched(s: i64, w: i64, tag: u32) -> Happening {
    over(s, w, tag, Ask::Fetch, OutcomeKind::Done)
}

pub(crate) fn worker_started(w: i64) -> Happening {
    Happening::WorkerStarted {
        place: place(w % 100),
        worker: wid(w),
        shard: Shard::try_from("s").unwrap(),
        lock_port: 1,
    }
}

pub(crate) fn worker_turn(w: i64) -> Happening {
    Happening::WorkerTurn {
        place: place(w % 100),
    }
}

pub(crate) fn worker_health(w: i64, from: Health, to: Health) -> Happening {
    Happening::WorkerHealth {
        place: place(w % 100),
        worker: wid(w),
        from,
        to,
    }
}

pub(crate) fn bound(w: i64, to: i64) -> Happening {
    Happening::WorkerBound {
        place: place(w % 100),
        worker: wid(w),
        to: Some(sid(to)),
    }
}

pub(crate) fn heartbeat_sent(w: i64, set: SetMark, goodbye: bool) -> Happening {
    Happening::HeartbeatSent {
        place: place(w % 100),
        worker: wid(w),
        set,
        goodbye,
    }
}

pub(crate) fn answer_heard(s: i64, w: i64, state: Health) -> Happening {
    Happening::HeartbeatAnswerHeard {
        place: place(w % 100),
        worker: wid(w),
        scheduler: sid(s),
        state,
        set: set(s, 1, &[w]),
    }
}

pub(crate) fn status_sent(s: i64, w: i64, run: Run, bits: StatusBits) -> Happening {
    Happening::StatusSent {
        place: place(w % 100),
        worker: wid(w),
        scheduler: sid(s),
        run,
        bits,
    }
}

pub(crate) fn settled(s: i64, w: i64, run: Run, bits: StatusBits) -> Happening {
    Happening::StatusSettled {
        place: place(w % 100),
        worker: wid(w),
        scheduler: sid(s),
        run,
        bits,
    }
}

/// Worker `w`, healthy and bound to scheduler `s`, serves the request of `s`.
pub(crate) fn served(s: i64, w: i64, ask: Ask, refusal: Option<RefusalCode>) -> Happening {
    served_by((w, Health::Healthy, s), (s, w), ask, refusal)
}

pub(crate) fn served_by(
    (w, health, bound): (i64, Health, i64),
    (s, meant): (i64, i64),
    ask: Ask,
    refusal: Option<RefusalCode>,
) -> Happening {
    Happening::Served {
        place: place(w % 100),
        worker: wid(w),
        scheduler: sid(s),
        meant: wid(meant),
        call: CallTag(1),
        ask,
        health,
        bound: Some(sid(bound)),
        refusal,
    }
}

pub(crate) fn listed(w: i64, run: Run, ended: bool) -> Happening {
    Happening::Listed {
        worker: wid(w),
        run,
        ended,
    }
}

pub(crate) fn begins(w: i64, process: u32, run: Run) -> Happening {
    Happening::ProcessStarted {
        place: place(w % 100),
        worker: wid(w),
        process: ProcessId(process),
        run,
    }
}

pub(crate) fn dies(w: i64, process: u32, run: Run) -> Happening {
    Happening::ProcessEnded {
        place: place(w % 100),
        worker: wid(w),
        process: ProcessId(process),
        run,
        how: ProcessEnd::Finished,
        bits: DONE,
    }
}

pub(crate) fn kill_asked(w: i64, run: Run, by: EndedBy) -> Happening {
    Happening::KillAsked {
        place: place(w),
        worker: wid(w),
        run,
        by,
    }
}

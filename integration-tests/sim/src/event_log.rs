//! Everything that can be observed in a simulated cluster, as small plain values: what laws judge, what coverage counts, what a trace
//! prints.
//!
//! `when` stands beside each [`Happening`]: the true time of the world, which no machine's clock shows exactly.

use std::time::Duration;

use brasserie_common::{
    EndedBy, Fence, Health, InvocationId, Processor, RecordSeq, RefusalCode, SchedulerId, Shard,
    StatusBits, WorkDemand, WorkRequestSeq, WorkTerms, WorkVerdict, WorkerId,
};

pub use crate::words::*;

/// What a task needs of cards that its worker is to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCards {
    /// Thousandths in all.
    pub milli: u32,
    /// The model that it counts as.
    pub counts_as: Option<String>,
}

/// One thing that happened. `place` says where, `worker` and `scheduler` which instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    // --- scheduler processes and their directories
    SchedulerStarted {
        place: SchedulerPlace,
        directory: DirectoryId,
        scheduler: SchedulerId,
    },
    SchedulerStopped {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        how: SchedulerStop,
    },
    /// In the turn in which it is first visible.
    WaitEnded {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        why: WaitExit,
    },
    /// Its wait was over, and a worker showed that its record cannot be trusted.
    WaitsAgain {
        place: SchedulerPlace,
        scheduler: SchedulerId,
    },
    /// A record entered the log's un-synced tail.
    RecordWritten {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        fact: Fact,
    },
    /// An end of a run, part of record `seq`.
    EndWritten {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        run: Run,
        bits: StatusBits,
        backoff_seconds: u32,
        safety_seconds: u32,
    },
    /// The end of a run was forgiven, part of record `seq`.
    EndForgiven {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        run: Run,
        bits: StatusBits,
        backoff_seconds: u32,
        safety_seconds: u32,
    },
    /// How a task has ended is forgotten, part of record `seq`: ends of its runs up to this one are no news any more.
    EndDeleted {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        run: Run,
    },
    /// How a task has ended is forgotten for its age, part of record `seq`.
    EndExpired {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        task: TaskId,
    },
    /// Every record of this instance up to `up_to` survives a crash now; the core has not heard of it yet.
    Synced {
        directory: DirectoryId,
        scheduler: SchedulerId,
        up_to: RecordSeq,
    },
    /// A crash took the records of this instance after `after`.
    TailLost {
        directory: DirectoryId,
        scheduler: SchedulerId,
        after: RecordSeq,
    },
    /// The directory holds what it held at an earlier time: ends that were acknowledged since are forgotten, by the operator's
    /// deed. The scheduler that starts on it is told to wait out the safe wait.
    BackupRestored {
        directory: DirectoryId,
    },
    /// The directory is empty and new: every acknowledged end is forgotten, by the operator's deed.
    DirectoryLost {
        directory: DirectoryId,
    },

    // --- what a scheduler hears and answers
    HeartbeatHeard {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        shard: Shard,
        set: SetMark,
        goodbye: bool,
    },
    /// The core has decided on this answer; it leaves at once or when the disk allows, as [`Happening::HeartbeatAnswered`].
    HeartbeatDecided {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        state: Health,
        set: SetMark,
    },
    /// The answer leaves the process. It may have waited for the disk, and be older than what was decided since.
    HeartbeatAnswered {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        state: Health,
        set: SetMark,
    },
    /// Just before it: another instance holds the shard, with this health at this moment.
    ShardContested {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        newcomer: WorkerId,
        incumbent: WorkerId,
        incumbent_health: Health,
        same_lock: bool,
    },
    HeartbeatRejected {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        why: RejectionKind,
    },
    StatusHeard {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        run: Run,
        bits: StatusBits,
    },
    /// The acknowledgement leaves the process: this end must never be forgotten, nor run again.
    StatusAcknowledged {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        run: Run,
        bits: StatusBits,
        /// The record it waited for, if any was named.
        after: Option<RecordSeq>,
    },
    StatusRejected {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        run: Run,
        bits: StatusBits,
        why: RejectionKind,
    },
    /// The worker obeyed an older scheduler instance: a new association with it begins, without a record (R15).
    AssociationBegan {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
    },
    /// A call leaves the process.
    CallSent {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        call: CallTag,
        ask: Ask,
    },
    /// One task of the notify that was sent just before.
    NotifyNames {
        call: CallTag,
        worker: WorkerId,
        run: Run,
    },
    /// The scheduler hears what became of its call.
    CallOver {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        call: CallTag,
        ask: Ask,
        outcome: OutcomeKind,
    },
    /// The core was driven and its effects are performed; look at it through the view.
    SchedulerTurn {
        place: SchedulerPlace,
    },
    /// A new configuration reached a scheduler; the view has it.
    ConfigLoaded {
        place: SchedulerPlace,
        scheduler: SchedulerId,
    },
    /// So did the nodes of the configuration in force.
    NodesLoaded {
        place: SchedulerPlace,
        scheduler: SchedulerId,
    },
    /// An operator wants a task ended; if it runs, `killTask` leaves in this turn.
    OperatorWishes {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        task: TaskId,
    },
    /// The answer leaves the process: by the operator's word this worker is dead, and stays so.
    WorkerDeclaredDead {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
    },
    /// An operator wants history deleted.
    DeletionAsked {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        of: HistoryOf,
    },
    /// The answer leaves the process: what was deleted must never come back.
    DeletionAnswered {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        of: HistoryOf,
        counts: DeletedCounts,
    },
    /// What the `runTask` that leaves next says that its task was charged on its worker, by the names of the resources.
    Charged {
        worker: WorkerId,
        run: Run,
        charges: Vec<(String, i32)>,
        /// Thousandths of cards, by device.
        gpus: Vec<(String, u32)>,
    },
    /// The same `runTask` says that its worker is to choose such cards.
    WantsCards {
        run: Run,
        wanted: WantedCards,
    },
    /// A run begins on a worker, and finds this fence.
    Fenced {
        run: Run,
        fence: Fence,
    },
    /// A run begins on a worker that asks for work, and has these cards, whoever chose them: thousandths, by device.
    HasCards {
        worker: WorkerId,
        run: Run,
        gpus: Vec<(String, u32)>,
    },

    // --- requests for work
    /// A worker that has just started asks for work in all of its life, and knows that it has so many processors.
    FetchesWork {
        worker: WorkerId,
        cpus: f64,
    },
    /// A request leaves the worker.
    WorkAsked {
        worker: WorkerId,
        scheduler: SchedulerId,
        seq: WorkRequestSeq,
    },
    /// It reaches the scheduler, whether or not it counts there.
    WorkHeard {
        scheduler: SchedulerId,
        worker: WorkerId,
        /// To whom it is addressed.
        meant: SchedulerId,
        seq: WorkRequestSeq,
        demands: Vec<WorkDemand>,
        known: Option<Vec<InvocationId>>,
        /// Those of them with nothing left to do.
        over: Vec<InvocationId>,
        linger: Duration,
    },
    /// That was a request by itself, so the scheduler owes its sender an answer.
    WorkAnswerOwed {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        seq: WorkRequestSeq,
        call: CallTag,
    },
    /// The answer leaves the process, whatever it says.
    WorkAnswered {
        scheduler: SchedulerId,
        worker: WorkerId,
        call: CallTag,
        /// `None`: the request was rejected.
        seq: Option<WorkRequestSeq>,
    },
    /// What the `runTask` that leaves next says of its task as a piece of work, if its worker has asked for any.
    SentAsWork {
        scheduler: SchedulerId,
        worker: WorkerId,
        run: Run,
        terms: WorkTerms,
    },
    /// An answer to a request, or to a heartbeat, says what became of a request.
    WorkTold {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        seq: WorkRequestSeq,
        verdicts: Vec<(Processor, WorkVerdict)>,
    },
    WorkRejected {
        scheduler: SchedulerId,
        worker: WorkerId,
        why: RejectionKind,
    },
    /// An answer to a request has reached the worker.
    WorkAnswerHeard {
        worker: WorkerId,
        seq: WorkRequestSeq,
        verdicts: Vec<(Processor, WorkVerdict)>,
    },

    // --- worker processes
    /// Once for each place, before anything happens there: which machine it is on, so that it is known whose processes sleep.
    WorkerInstalled {
        place: WorkerPlace,
        machine: MachineId,
    },
    WorkerStarted {
        place: WorkerPlace,
        worker: WorkerId,
        shard: Shard,
        lock_port: i32,
    },
    /// What it says of its machine in every heartbeat of its life.
    WorkerDeclared {
        worker: WorkerId,
        size: MachineSize,
    },
    WorkerStopped {
        place: WorkerPlace,
        worker: WorkerId,
        how: WorkerStop,
    },
    /// Its operator wants it to end with the tasks that it has; from the end of this turn on.
    WorkerDrains {
        worker: WorkerId,
    },
    /// Its operator wants it to end, and its tasks too.
    WorkerShutsDown {
        worker: WorkerId,
    },
    /// The worker's own opinion changed.
    WorkerHealth {
        place: WorkerPlace,
        worker: WorkerId,
        from: Health,
        to: Health,
    },
    /// The scheduler instance that may start tasks here changed.
    WorkerBound {
        place: WorkerPlace,
        worker: WorkerId,
        to: Option<SchedulerId>,
    },
    HeartbeatSent {
        place: WorkerPlace,
        worker: WorkerId,
        set: SetMark,
        goodbye: bool,
    },
    /// An answer to a heartbeat reached the core, whether or not it counts.
    HeartbeatAnswerHeard {
        place: WorkerPlace,
        worker: WorkerId,
        scheduler: SchedulerId,
        state: Health,
        set: SetMark,
    },
    StatusSent {
        place: WorkerPlace,
        worker: WorkerId,
        scheduler: SchedulerId,
        run: Run,
        bits: StatusBits,
    },
    /// The acknowledgement reached the core.
    StatusSettled {
        place: WorkerPlace,
        worker: WorkerId,
        scheduler: SchedulerId,
        run: Run,
        bits: StatusBits,
    },
    /// A request reached the core and was answered in the same turn. `health` is as judged on its arrival, `bound` as it was
    /// before.
    Served {
        place: WorkerPlace,
        worker: WorkerId,
        /// The instance that asks, and the worker instance that it means.
        scheduler: SchedulerId,
        meant: WorkerId,
        call: CallTag,
        ask: Ask,
        health: Health,
        bound: Option<SchedulerId>,
        /// `None`: refused.
        refusal: Option<RefusalCode>,
    },
    /// One task in the answer to the fetch that was served just before.
    Listed {
        worker: WorkerId,
        run: Run,
        /// It has ended, and its end is not acknowledged.
        ended: bool,
    },
    /// The core was driven and its effects are performed; look at it through the view.
    WorkerTurn {
        place: WorkerPlace,
    },

    // --- processes: the execution log
    ProcessStarted {
        place: WorkerPlace,
        worker: WorkerId,
        process: ProcessId,
        run: Run,
    },
    /// It could not be started; the core hears of an end.
    SpawnFailed {
        place: WorkerPlace,
        worker: WorkerId,
        run: Run,
    },
    /// The worker starts a run that has limits of time, as it was told them when it accepted the run in this turn.
    Limited {
        place: WorkerPlace,
        worker: WorkerId,
        run: Run,
        timeout: Option<Duration>,
        deadline: Option<Duration>,
    },
    /// The worker's core hears that the process of such a run is there: its timeout counts from now on.
    StartHeard {
        worker: WorkerId,
        run: Run,
    },
    KillAsked {
        place: WorkerPlace,
        worker: WorkerId,
        run: Run,
        by: EndedBy,
    },
    /// From here on it executes nothing.
    ProcessEnded {
        place: WorkerPlace,
        worker: WorkerId,
        process: ProcessId,
        run: Run,
        how: ProcessEnd,
        bits: StatusBits,
    },

    // --- machines and faults
    /// Nothing on it executes, tasks included, until it wakes up.
    MachineSuspended {
        machine: MachineId,
    },
    MachineWoke {
        machine: MachineId,
    },
    /// The worker's process is stopped (SIGSTOP, or its machine sleeps): it judges nothing and answers nothing until it is resumed.
    /// Its tasks run on unless the machine sleeps; the keeper ends them when the lease is over.
    WorkerPaused {
        place: WorkerPlace,
    },
    WorkerResumed {
        place: WorkerPlace,
    },
    /// Only by SIGSTOP; of a machine that sleeps only the machine is told.
    SchedulerPaused {
        place: SchedulerPlace,
    },
    SchedulerResumed {
        place: SchedulerPlace,
    },
    Fault(FaultKind),
    /// From here on no fault is injected: everything must settle.
    FaultsOver,
}

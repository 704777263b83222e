//! Everything observable in a simulated cluster, as small plain values: laws check them, coverage counts them, traces print them.
//!
//! Each [`Happening`] comes with `when`: the true time of the world, which no machine's clock shows exactly.

use std::time::Duration;

use brasserie_common::{
    EndedBy, Fence, Health, InvocationId, Processor, RecordSeq, RefusalCode, SchedulerId, Shard,
    StatusBits, WorkDemand, WorkRequestSeq, WorkTerms, WorkVerdict, WorkerId,
};

use crate::artifact_events::ArtifactEvent;
pub use crate::event_types::*;

/// The GPUs that a task needs, for a worker that chooses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCards {
    /// Thousandths in total.
    pub milli: u32,
    /// The model that the task counts as.
    pub counts_as: Option<String>,
}

/// One observation. `place` is the location; `worker` and `scheduler` are instances.
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
    /// The turn in which the end of the wait is first visible.
    WaitEnded {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        why: WaitExit,
    },
    /// A worker showed, after the end of the wait, that the record cannot be trusted.
    WaitsAgain {
        place: SchedulerPlace,
        scheduler: SchedulerId,
    },
    /// A record entered the log's unsynced tail.
    RecordWritten {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        fact: Fact,
    },
    /// A completion in record `seq`.
    EndWritten {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        run: Run,
        bits: StatusBits,
        backoff_seconds: u32,
        safety_seconds: u32,
    },
    /// A completion was forgiven in record `seq`.
    EndForgiven {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        run: Run,
        bits: StatusBits,
        backoff_seconds: u32,
        safety_seconds: u32,
    },
    /// Record `seq` deletes the task's completion. Completions of runs up to this one no longer count.
    EndDeleted {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        run: Run,
    },
    /// Record `seq` expires the task's completion.
    EndExpired {
        directory: DirectoryId,
        scheduler: SchedulerId,
        seq: RecordSeq,
        task: TaskId,
    },
    /// Every record of this instance up to `up_to` now survives a crash. The core has not been notified yet.
    Synced {
        directory: DirectoryId,
        scheduler: SchedulerId,
        up_to: RecordSeq,
    },
    /// A crash lost the records of this instance after `after`.
    TailLost {
        directory: DirectoryId,
        scheduler: SchedulerId,
        after: RecordSeq,
    },
    /// The operator restored an old copy of the directory, which lacks the completions that were acknowledged after the copy. The flags of
    /// the next scheduler on the directory request the safe wait.
    BackupRestored {
        directory: DirectoryId,
    },
    /// The operator lost the directory; it is empty, and every acknowledged completion is forgotten.
    DirectoryLost {
        directory: DirectoryId,
    },

    // --- requests to a scheduler, and its answers
    HeartbeatHeard {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        shard: Shard,
        set: SetMark,
        goodbye: bool,
    },
    /// The core has decided on this answer. The answer leaves at once or when the record is durable, as [`Happening::HeartbeatAnswered`].
    HeartbeatDecided {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        state: Health,
        set: SetMark,
    },
    /// The answer leaves the process. It may have waited for the disk and be older than later decisions.
    HeartbeatAnswered {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        state: Health,
        set: SetMark,
    },
    /// Precedes the answer: another instance holds the shard, with this health at this moment.
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
    /// The acknowledgement leaves the process: the completion must never be forgotten, and the run never repeated.
    StatusAcknowledged {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        run: Run,
        bits: StatusBits,
        /// The record that the acknowledgement waited for, if any.
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
    /// The worker obeyed an older scheduler instance. A new association with it begins, without a record (R15).
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
    /// One task of the notification that was sent just before.
    NotifyNames {
        call: CallTag,
        worker: WorkerId,
        run: Run,
    },
    /// The scheduler learns the outcome of its call.
    CallOver {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        call: CallTag,
        ask: Ask,
        outcome: OutcomeKind,
    },
    /// The scheduler's turn is over: the core was driven and its effects are performed. The view shows the result.
    SchedulerTurn {
        place: SchedulerPlace,
    },
    /// A new configuration reached a scheduler; the view has it.
    ConfigLoaded {
        place: SchedulerPlace,
        scheduler: SchedulerId,
    },
    /// The nodes of the configuration in force reached a scheduler.
    NodesLoaded {
        place: SchedulerPlace,
        scheduler: SchedulerId,
    },
    /// An operator wants a task ended. If it runs, `killTask` leaves in this turn.
    OperatorWishes {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        task: TaskId,
    },
    /// The answer leaves the process: an operator declared this worker dead, for good.
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
    /// The answer leaves the process: deleted history must never return.
    DeletionAnswered {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        of: HistoryOf,
        counts: DeletedCounts,
    },
    /// The slots that the next `runTask` charges its task on the worker, by resource name.
    Charged {
        worker: WorkerId,
        run: Run,
        charges: Vec<(String, i32)>,
        /// Thousandths of each GPU.
        gpus: Vec<(String, u32)>,
    },
    /// The next `runTask` lets its worker choose these GPUs.
    WantsCards {
        run: Run,
        wanted: WantedCards,
    },
    /// The slots of the worker that the next `runTask` states, under which the task stands by.
    StatesSlots {
        worker: WorkerId,
        run: Run,
        slots: Vec<(String, i32)>,
    },
    /// A run begins on a worker and receives this fence.
    Fenced {
        run: Run,
        fence: Fence,
    },
    /// A run begins on a worker that requests work, with thousandths of these GPUs, whichever side chose them.
    HasCards {
        worker: WorkerId,
        run: Run,
        gpus: Vec<(String, u32)>,
    },

    // --- requests for work
    /// A worker that has just started requests work for its whole life and counts this many processors.
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
    /// The request reaches the scheduler, whether or not it counts there.
    WorkHeard {
        scheduler: SchedulerId,
        worker: WorkerId,
        /// The scheduler that the request addresses.
        meant: SchedulerId,
        seq: WorkRequestSeq,
        demands: Vec<WorkDemand>,
        known: Option<Vec<InvocationId>>,
        /// The known runs that have nothing left to do.
        over: Vec<InvocationId>,
        linger: Duration,
    },
    /// The request came by itself, not with a heartbeat, so the scheduler owes its sender an answer.
    WorkAnswerOwed {
        place: SchedulerPlace,
        scheduler: SchedulerId,
        worker: WorkerId,
        seq: WorkRequestSeq,
        call: CallTag,
    },
    /// The answer leaves the process, whatever its content.
    WorkAnswered {
        scheduler: SchedulerId,
        worker: WorkerId,
        call: CallTag,
        /// `None`: the request was rejected.
        seq: Option<WorkRequestSeq>,
    },
    /// The properties of the next `runTask` as a piece of work, if its worker has requested any.
    SentAsWork {
        scheduler: SchedulerId,
        worker: WorkerId,
        run: Run,
        terms: WorkTerms,
    },
    /// An answer to a request or to a heartbeat reports the verdict on a request.
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
    /// Reports the machine of each place once, before anything happens there, so that laws know the processes of sleeping machines.
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
    /// The machine size that the worker declares in every heartbeat of its life.
    WorkerDeclared {
        worker: WorkerId,
        size: MachineSize,
    },
    WorkerStopped {
        place: WorkerPlace,
        worker: WorkerId,
        how: WorkerStop,
    },
    /// The worker's operator drains it, from the end of this turn on.
    WorkerDrains {
        worker: WorkerId,
    },
    /// The worker's operator shuts it and its tasks down.
    WorkerShutsDown {
        worker: WorkerId,
    },
    /// The worker's own view of its health changed.
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
    /// A request reached the core and was answered in the same turn. `health` is the state on its arrival, `bound` the binding before it.
    Served {
        place: WorkerPlace,
        worker: WorkerId,
        /// The instance that asks, and the worker instance that it addresses.
        scheduler: SchedulerId,
        meant: WorkerId,
        call: CallTag,
        ask: Ask,
        health: Health,
        bound: Option<SchedulerId>,
        /// `None`: the request was accepted.
        refusal: Option<RefusalCode>,
    },
    /// One task in the answer to the fetch that was served just before.
    Listed {
        worker: WorkerId,
        run: Run,
        /// The task has ended, and its completion is not acknowledged.
        ended: bool,
    },
    /// The worker's turn is over: the core was driven and its effects are performed. The view shows the result.
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
    /// The process could not be started; the core receives a completion.
    SpawnFailed {
        place: WorkerPlace,
        worker: WorkerId,
        run: Run,
    },
    /// The worker starts a run with limits of time, as received when it accepted the run in this turn.
    Limited {
        place: WorkerPlace,
        worker: WorkerId,
        run: Run,
        timeout: Option<Duration>,
        deadline: Option<Duration>,
    },
    /// The worker's core learns that the process of such a run exists. Its timeout counts from now on.
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
    /// The process executes nothing from here on.
    ProcessEnded {
        place: WorkerPlace,
        worker: WorkerId,
        process: ProcessId,
        run: Run,
        how: ProcessEnd,
        bits: StatusBits,
    },

    /// An observation about artifacts.
    Artifacts(Box<ArtifactEvent>),

    // --- machines and faults
    /// Nothing on the machine executes, tasks included, until it wakes up.
    MachineSuspended {
        machine: MachineId,
    },
    MachineWoke {
        machine: MachineId,
    },
    /// The worker's process is stopped (by SIGSTOP, or its machine sleeps) and does nothing until it resumes. Its tasks continue unless the
    /// machine sleeps; the keeper ends them when the lease expires.
    WorkerPaused {
        place: WorkerPlace,
    },
    WorkerResumed {
        place: WorkerPlace,
    },
    /// The scheduler is stopped by SIGSTOP. A sleeping machine is reported as [`Happening::MachineSuspended`] only.
    SchedulerPaused {
        place: SchedulerPlace,
    },
    SchedulerResumed {
        place: SchedulerPlace,
    },
    Fault(FaultKind),
    /// No fault is injected from here on: everything must settle.
    FaultsOver,
}

/// A `runTask` that leaves a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSent {
    pub place: SchedulerPlace,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
    pub run: Run,
}

impl Happening {
    /// Returns the `runTask` that leaves a scheduler here, if one does.
    pub fn run_sent(&self) -> Option<RunSent> {
        match *self {
            Happening::CallSent {
                place,
                scheduler,
                worker,
                call: _,
                ask: Ask::Run { run, sequence: _ },
            } => Some(RunSent {
                place,
                scheduler,
                worker,
                run,
            }),
            _ => None,
        }
    }

    /// Returns the run that a worker accepts here, if one does.
    pub fn run_accepted(&self) -> Option<(WorkerId, Run)> {
        match *self {
            Happening::Served {
                worker,
                ask: Ask::Run { run, sequence: _ },
                refusal: None,
                ..
            } => Some((worker, run)),
            _ => None,
        }
    }
}

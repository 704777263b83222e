//! Injected bugs, each a plausible mistake of a programmer. The simulator and the exhaustive search must find every one of them.
//!
//! The code calls [`on`] at the place of a bug. Without the cargo feature `sabotage`, which no program enables, that is `false` at compile
//! time and nothing of the bug is compiled. With it, a test chooses one bug for its own thread.

/// One injected bug. The documentation of each variant states the wrong behavior.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sabotage {
    /// The worker accepts a `runTask` below its sequence number. It also forgets denied invocations, which would have the same effect.
    SkipSequenceCheck,
    /// The scheduler does not count a task as running while its `runTask` is under way.
    MarkRunningAfterSending,
    /// The scheduler takes statuses of tasks from a worker in NEW.
    AcceptStatusInNew,
    /// A `runTask` with an unknown outcome is sent again under the same invocation.
    RetrySentInvocation,
    /// The initial wait ends while one recorded instance is missing.
    EndWaitOneWorkerEarly,
    /// A lost task may start again at once.
    IgnoreSafetyWait,
    /// A lost task may start again after its configured backoff.
    RestartLostAtConfiguredBackoff,
    /// The worker keeps its sequence number when it meets a new scheduler.
    KeepCounterForNewScheduler,
    /// The scheduler asks about unsure tasks without raising its sequence number.
    AskWithoutRaising,
    /// The scheduler treats an unknown outcome of `runTask` as a failure.
    UnknownIsFailure,
    /// Replies do not wait for their record.
    AcknowledgeBeforeDurable,
    /// The store reports records as durable when they are written, not when they are synced.
    AcknowledgeBeforeSync,
    /// A repeated status is acknowledged without waiting for the record of the first.
    AcknowledgeRepeatAtOnce,
    /// An operator's declaration ends the wait for a worker that has just answered.
    ForgetTheLiving,
    /// An operator's declaration after a restart ends the wait for a worker that an earlier scheduler has just answered.
    ForgetSoonAfterARestart,
    /// An operator's declaration after a pause of the scheduler ends the wait for a worker whose heartbeats are still unread.
    ForgetAfterAPause,
    /// The operator's declaration that a worker is dead is not recorded.
    ForgetInMemory,
    /// Tasks start before an operator's declaration that a worker is dead is durable.
    StartBeforeForgetIsDurable,
    /// A worker that an operator declared dead is accepted again when it returns.
    TakeBackTheForgotten,
    /// A worker that has returned counts after the next restart as never answered since.
    BoundAfterTheAnswer,
    /// The scheduler writes the bound of its answers to workers at its start and never again.
    BoundNotMoved,
    /// Two instances have one machine lock and one start second, and the newcomer is refused as stale.
    Row5AsRow4,
    /// A worker may become HEALTHY before the other workers know of it.
    SkipFirstHealthPermission,
    /// An answer to `getRunningTasks` counts for whichever instance holds the shard at its arrival.
    ApplyLateRunningTasks,
    /// Clocks do not count the time for which a machine is suspended.
    IgnoreSuspend,
    /// A worker is answered, and may become HEALTHY, before its instance record is durable.
    InstanceRecordAfterSending,
    /// An answered `notifyIfTasksNotRunning` settles any present invocation of its tasks.
    NotifySettlesNewerInvocation,
    /// The version of the worker set goes back when a worker leaves.
    SetIdGoesBack,
    /// Two schedulers may open one directory.
    ShareDirectory,
    /// A worker instance is recorded when it gets its first task, not when it associates.
    RecordAtFirstTask,
    /// The safety wait of a lost worker's tasks is stored in another record than the worker's loss.
    LeaveRecordBeforeBackoff,
    /// The record stays trusted although a worker names a scheduler that the directory does not remember.
    TrustStaleRecord,
    /// `--new-cluster` always counts, whatever the directory and the workers say.
    NewClusterAlways,
    /// Consensus ends the wait although a trusted record misses a worker.
    ConsensusOverridesRecord,
    /// Set ids of a scheduler in its own initial wait count for consensus.
    ConsensusOfUnsettledSets,
    /// Consensus ends the wait before the kill margin is over.
    ConsensusBeforeKillMargin,
    /// A worker accepts tasks of any scheduler that it knows.
    NoBinding,
    /// An older scheduler instance may bind a worker back.
    BindBackwards,
    /// A lost instance that sends a heartbeat is associated again.
    TakeBackTheLost,
    /// A worker drops an ended task once any scheduler acknowledges it, and a listed task overrides its stored completion.
    DropOnAnyAcknowledgement,
    /// A worker forgets the invocations that it accepted once their end is acknowledged.
    ForgetAccepted,
    /// A worker forgets the invocations that it refused.
    ForgetRefused,
    /// The loss of a worker in NEW holds nothing back.
    NoHoldBack,
    /// The tasks of a bumped unhealthy worker wait no longer than those of a lost one.
    BumpWithUsualBackoff,
    /// A worker instance associates while processes of its predecessor live.
    SuccessorBeforeTheDead,
    /// "Lost" and "was not running" are replaced by the end of any run.
    AnyRunReplacesProvisional,
    /// A restarted scheduler forgets the safety waits of lost tasks.
    ForgetSafetyWaits,
    /// Orphans are asked to end at once, without their delay.
    KillOrphansAtOnce,
    /// Forgiving a lost task ends its safety wait, too.
    ForgiveSafetyToo,
    /// The name of a removed node is reused while tasks run there.
    GiveBackNamesInUse,
    /// A restarted scheduler forgets the last run whose completion was deleted.
    ForgetWhatWasDeleted,
    /// A task whose history is deleted may start before that is durable.
    StartBeforeDeletionIsDurable,
    /// A job counts as completely done once its tasks are done or have failed for good.
    FailureOpensGate,
    /// Tasks that a worker lists take no slots of it.
    AdoptWithoutCharges,
    /// Tasks that a worker lists take none of its GPUs.
    AdoptWithoutCards,
    /// Tasks get the memory that the configuration reserves.
    GiveAwayTheReserve,
    /// The scheduler tells every worker that it has only just begun to count towards its loss.
    HideHowLong,
    /// A repeated work request sets its credit again.
    RefillOnReplay,
    /// A worker that is not HEALTHY keeps its credit until it is HEALTHY again.
    CreditOfTheSick,
    /// A run that was sent and is missing in a work request is not subtracted from the request.
    ForgetWhatIsOnItsWay,
    /// A worker does not list its queued tasks.
    HideQueued,
    /// A worker reports a queued task as not running.
    DenyQueued,
    /// Queued tasks begin at once, without free processors.
    BeginWithoutProcessors,
    /// A worker chooses the GPUs of a task without regard to those in use.
    ChooseCardsBlindly,
    /// A worker receives a task of a type for which it requested nothing.
    SendForNothing,
    /// A deferred work request sets a credit.
    CreditOfWhatIsPutOff,
    /// The completion of a run gives back instances that its worker had already counted as idle.
    GiveBackTwice,
    /// A worker that requested work in vain asks again only once a task has arrived.
    KeepWaitingWhenIdle,
    /// A reply waits for its record as long as the store stands still.
    NeverAbandonReplies,
    /// Each repetition of a status waits for the record.
    LetRepeatsPileUp,
    /// The fences of a scheduler may be below those that workers report.
    FenceNotRaisedAboveReports,
    /// The scheduler gives out fences of a raised generation without recording it.
    GenerationNotSynced,
    /// The age of completions counts from the last absence of a job, although the job has returned.
    ExpireWhatCameBack,
    /// The age of completions of missing jobs and nodes counts from the beginning of the directory.
    CountAgeFromTheStart,
    /// A job remains a candidate for placement while as many of its tasks run as its `max_running` allows.
    IgnoreMaxRunning,
    /// A task that stands by begins although the running tasks leave no slots for it.
    BeginWithoutSlots,
    /// A worker kills a task that has begun because the scheduler takes it back.
    KillBegunForTakeBack,
    /// A task starts elsewhere as soon as its take-back is sent.
    StartWhileTakingBack,
    /// A task that was taken back is not ready again.
    LoseTakenBack,
    /// A task that was taken back counts as one that ran and has to wait.
    TakeBackAdvancesBackoff,
    /// A task stands by however long another worker could start it.
    NeverTakeBack,
    /// A worker gives a run copies of its inputs without comparing their bytes with their ids.
    StageWithoutCheck,
    /// The scheduler has an artifact deleted as soon as nothing names it, so also before the completion that names it arrives.
    DeleteWithoutGrace,
    /// An artifact that a busy peer refused counts as in transfer for ever.
    LoseRefusedTransfer,
    /// The scheduler has no artifact deleted.
    NeverUnwanted,
    /// A worker reports the completion of a run without the outputs.
    ForgetOutputs,
    /// A decommissioned worker exits although needed data is only there.
    LeaveWithTheOnlyCopy,
}

impl Sabotage {
    /// Every bug, in the order in which reports list them.
    pub const ALL: [Sabotage; 87] = [
        Sabotage::SkipSequenceCheck,
        Sabotage::MarkRunningAfterSending,
        Sabotage::AcceptStatusInNew,
        Sabotage::RetrySentInvocation,
        Sabotage::EndWaitOneWorkerEarly,
        Sabotage::IgnoreSafetyWait,
        Sabotage::RestartLostAtConfiguredBackoff,
        Sabotage::KeepCounterForNewScheduler,
        Sabotage::AskWithoutRaising,
        Sabotage::UnknownIsFailure,
        Sabotage::AcknowledgeBeforeDurable,
        Sabotage::AcknowledgeBeforeSync,
        Sabotage::AcknowledgeRepeatAtOnce,
        Sabotage::ForgetTheLiving,
        Sabotage::ForgetSoonAfterARestart,
        Sabotage::ForgetAfterAPause,
        Sabotage::ForgetInMemory,
        Sabotage::StartBeforeForgetIsDurable,
        Sabotage::TakeBackTheForgotten,
        Sabotage::BoundAfterTheAnswer,
        Sabotage::BoundNotMoved,
        Sabotage::Row5AsRow4,
        Sabotage::SkipFirstHealthPermission,
        Sabotage::ApplyLateRunningTasks,
        Sabotage::IgnoreSuspend,
        Sabotage::InstanceRecordAfterSending,
        Sabotage::NotifySettlesNewerInvocation,
        Sabotage::SetIdGoesBack,
        Sabotage::ShareDirectory,
        Sabotage::RecordAtFirstTask,
        Sabotage::LeaveRecordBeforeBackoff,
        Sabotage::TrustStaleRecord,
        Sabotage::NewClusterAlways,
        Sabotage::ConsensusOverridesRecord,
        Sabotage::ConsensusOfUnsettledSets,
        Sabotage::ConsensusBeforeKillMargin,
        Sabotage::NoBinding,
        Sabotage::BindBackwards,
        Sabotage::TakeBackTheLost,
        Sabotage::DropOnAnyAcknowledgement,
        Sabotage::ForgetAccepted,
        Sabotage::ForgetRefused,
        Sabotage::NoHoldBack,
        Sabotage::BumpWithUsualBackoff,
        Sabotage::SuccessorBeforeTheDead,
        Sabotage::AnyRunReplacesProvisional,
        Sabotage::ForgetSafetyWaits,
        Sabotage::KillOrphansAtOnce,
        Sabotage::ForgiveSafetyToo,
        Sabotage::GiveBackNamesInUse,
        Sabotage::ForgetWhatWasDeleted,
        Sabotage::StartBeforeDeletionIsDurable,
        Sabotage::FailureOpensGate,
        Sabotage::AdoptWithoutCharges,
        Sabotage::AdoptWithoutCards,
        Sabotage::GiveAwayTheReserve,
        Sabotage::HideHowLong,
        Sabotage::RefillOnReplay,
        Sabotage::CreditOfTheSick,
        Sabotage::ForgetWhatIsOnItsWay,
        Sabotage::HideQueued,
        Sabotage::DenyQueued,
        Sabotage::BeginWithoutProcessors,
        Sabotage::ChooseCardsBlindly,
        Sabotage::SendForNothing,
        Sabotage::CreditOfWhatIsPutOff,
        Sabotage::GiveBackTwice,
        Sabotage::KeepWaitingWhenIdle,
        Sabotage::NeverAbandonReplies,
        Sabotage::LetRepeatsPileUp,
        Sabotage::FenceNotRaisedAboveReports,
        Sabotage::GenerationNotSynced,
        Sabotage::ExpireWhatCameBack,
        Sabotage::CountAgeFromTheStart,
        Sabotage::IgnoreMaxRunning,
        Sabotage::BeginWithoutSlots,
        Sabotage::KillBegunForTakeBack,
        Sabotage::StartWhileTakingBack,
        Sabotage::LoseTakenBack,
        Sabotage::TakeBackAdvancesBackoff,
        Sabotage::NeverTakeBack,
        Sabotage::StageWithoutCheck,
        Sabotage::DeleteWithoutGrace,
        Sabotage::LoseRefusedTransfer,
        Sabotage::NeverUnwanted,
        Sabotage::ForgetOutputs,
        Sabotage::LeaveWithTheOnlyCopy,
    ];

    /// Returns the name on a command line and in reports.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}

/// Returns whether this thread runs with this bug.
#[cfg(not(feature = "sabotage"))]
pub const fn on(_bug: Sabotage) -> bool {
    false
}

/// Returns whether this thread runs with this bug.
#[cfg(feature = "sabotage")]
pub fn on(bug: Sabotage) -> bool {
    chosen::CHOSEN.get() == Some(bug)
}

/// Runs everything that this thread does from now on with this bug, or without any.
#[cfg(feature = "sabotage")]
pub fn choose(bug: Option<Sabotage>) {
    chosen::CHOSEN.set(bug);
}

#[cfg(feature = "sabotage")]
mod chosen {
    use std::cell::Cell;

    use super::Sabotage;

    thread_local! {
        pub(super) static CHOSEN: Cell<Option<Sabotage>> = const { Cell::new(None) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        let names: BTreeSet<String> = Sabotage::ALL.into_iter().map(Sabotage::name).collect();
        assert_eq!(names.len(), Sabotage::ALL.len());
        assert!(names.contains("row5-as-row4"), "{names:?}");
    }

    #[cfg(not(feature = "sabotage"))]
    #[test]
    fn a_program_has_none() {
        assert!(Sabotage::ALL.into_iter().all(|bug| !on(bug)));
    }
}

//! Known bugs, each of which a person could have written: the simulator and the exhaustive search must find every one of them again.
//!
//! A site asks [`on`]. Without the cargo feature `sabotage`, which no program enables, that is `false` at compile time and nothing
//! of a bug is left. With it, a test chooses one bug for its own thread.

/// One bug. The sentence says what is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sabotage {
    /// The worker takes a `runTask` below its sequence number, and does not remember what it denied, which would do instead.
    SkipSequenceCheck,
    /// The scheduler does not count a task as running while its `runTask` is on its way.
    MarkRunningAfterSending,
    /// The scheduler takes statuses of tasks from a worker in NEW.
    AcceptStatusInNew,
    /// A `runTask` with an unknown outcome is sent again under the same invocation.
    RetrySentInvocation,
    /// The initial wait ends while one recorded instance is missing.
    EndWaitOneWorkerEarly,
    /// A lost task may start again at once.
    IgnoreSafetyBackoff,
    /// A lost task may start again after its configured backoff.
    RestartLostAtConfiguredBackoff,
    /// The worker keeps its sequence number when it meets a new scheduler.
    KeepCounterForNewScheduler,
    /// The scheduler asks about unsure tasks without raising its sequence number.
    AskWithoutRaising,
    /// The scheduler takes an unknown outcome of `runTask` for a failure.
    UnknownIsFailure,
    /// Replies do not wait for their record.
    AcknowledgeBeforeDurable,
    /// The store says that records are durable when they are written, not when they are synced.
    AcknowledgeBeforeSync,
    /// A repeated status is acknowledged without waiting for the record of the first.
    AcknowledgeRepeatAtOnce,
    /// An operator's word ends the wait for a worker that has just answered.
    ForgetTheLiving,
    /// After a restart an operator's word ends the wait for a worker that an earlier scheduler has just answered.
    ForgetSoonAfterARestart,
    /// After a pause of the scheduler an operator's word ends the wait for a worker whose heartbeats lie unread.
    ForgetAfterAPause,
    /// The operator's word that a worker is dead is not recorded.
    ForgetInMemory,
    /// Tasks start before it is durable that an operator declared a worker dead.
    StartBeforeForgetIsDurable,
    /// A worker that an operator declared dead is taken back when it returns.
    TakeBackTheForgotten,
    /// A worker that has returned counts after the next restart as one that nobody has answered since.
    BoundAfterTheAnswer,
    /// Until when workers are answered is written at the start of a scheduler, and never again.
    BoundNotMoved,
    /// Of two instances with one machine lock and one start second the newcomer is refused as stale.
    Row5AsRow4,
    /// A worker may become HEALTHY before the others know of it.
    SkipFirstHealthPermission,
    /// An answer to `getRunningTasks` counts for whichever instance holds the shard when it comes.
    ApplyLateRunningTasks,
    /// Clocks do not count the time for which a machine is suspended.
    IgnoreSuspend,
    /// A worker is answered, and may become HEALTHY, before its instance record is durable.
    InstanceRecordAfterSending,
    /// An answered `notifyIfTasksNotRunning` settles whatever invocation of its tasks is under way.
    NotifySettlesNewerInvocation,
    /// The version of the worker set goes back when a worker leaves.
    SetIdGoesBack,
    /// Two schedulers may open one directory.
    ShareDirectory,
    /// A worker instance is recorded when it gets its first task, not when it associates.
    RecordAtFirstTask,
    /// The safety backoff of a lost worker's tasks is stored apart from the end of its record.
    LeaveRecordBeforeBackoff,
    /// A worker that names a scheduler that the directory does not remember leaves the record trusted.
    TrustStaleRecord,
    /// `--new-cluster` counts whatever the directory and the workers say.
    NewClusterAlways,
    /// Consensus ends the wait although a trusted record misses somebody.
    ConsensusOverridesRecord,
    /// Set ids of a scheduler in its own initial wait count for consensus.
    ConsensusOfUnsettledSets,
    /// Consensus ends the wait before the kill margin is over.
    ConsensusBeforeKillMargin,
    /// A worker takes tasks of any scheduler that it hears.
    NoBinding,
    /// An older scheduler instance may bind a worker back.
    BindBackwards,
    /// A lost instance that sends a heartbeat is associated anew.
    TakeBackTheLost,
    /// A worker drops an ended task on the word of any scheduler, and a listed task beats its stored end.
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
    /// A restarted scheduler forgets the safety backoffs of lost tasks.
    ForgetSafetyBackoffs,
    /// Orphans are asked to end at once, whatever delay they have.
    KillOrphansAtOnce,
    /// Forgiving a lost task ends its safety backoff, too.
    ForgiveSafetyToo,
    /// The name of a node that vanishes is given back while tasks run there.
    GiveBackNamesInUse,
    /// A restarted scheduler does not know up to which runs ends were deleted.
    ForgetWhatWasDeleted,
    /// A task whose history is deleted may start before that is durable.
    StartBeforeDeletionIsDurable,
    /// A job counts as done as a whole once those of its tasks that are not done have failed for good.
    FailureOpensGate,
    /// What a worker lists takes no slots of it.
    AdoptWithoutCharges,
    /// What a worker lists takes none of its cards.
    AdoptWithoutCards,
    /// Tasks get the memory that the configuration reserves.
    GiveAwayTheReserve,
    /// The scheduler tells every worker that it has only just begun to count towards its loss.
    HideHowLong,
    /// A request for work that comes again sets its credit again.
    RefillOnReplay,
    /// The credit of a worker that is not HEALTHY is kept until it is.
    CreditOfTheSick,
    /// What was sent and is not counted by a worker yet is not taken off what it asks for.
    ForgetWhatIsOnItsWay,
    /// A worker does not list the tasks that wait there.
    HideQueued,
    /// A worker says of a task that waits there that it is not running.
    DenyQueued,
    /// Tasks that may wait at a worker begin at once.
    BeginWithoutProcessors,
    /// A worker chooses the cards of a task without a look at those that are in use.
    ChooseCardsBlindly,
    /// A worker is sent a task for what it asked none of.
    SendForNothing,
    /// A request for work that is put off sets a credit all the same.
    CreditOfWhatIsPutOff,
    /// The end of a run gives back to a credit what its worker had counted as idle when it asked.
    GiveBackTwice,
    /// A worker that asked in vain asks again only once a task has come.
    KeepWaitingWhenIdle,
    /// A reply waits for its record as long as the store stands still.
    NeverAbandonReplies,
    /// Each repetition of a status waits for the record.
    LetRepeatsPileUp,
    /// The fences of a scheduler need not be above those that workers report.
    FenceNotRaisedAboveReports,
    /// Fences of a raised generation are given out, and it is not recorded.
    GenerationNotSynced,
    /// Completions of a job that has come back are as old as its last absence.
    ExpireWhatCameBack,
    /// Completions of missing jobs and nodes are as old as the directory.
    CountAgeFromTheStart,
    /// A job remains a candidate for placement while as many of its tasks run as its `max_running` allows.
    IgnoreMaxRunning,
}

impl Sabotage {
    /// Every one, in the order in which reports list them.
    pub const ALL: [Sabotage; 75] = [
        Sabotage::SkipSequenceCheck,
        Sabotage::MarkRunningAfterSending,
        Sabotage::AcceptStatusInNew,
        Sabotage::RetrySentInvocation,
        Sabotage::EndWaitOneWorkerEarly,
        Sabotage::IgnoreSafetyBackoff,
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
        Sabotage::ForgetSafetyBackoffs,
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
    ];

    /// The name on a command line and in reports.
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

/// Whether this thread runs with this bug.
#[cfg(not(feature = "sabotage"))]
pub const fn on(_bug: Sabotage) -> bool {
    false
}

/// Whether this thread runs with this bug.
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

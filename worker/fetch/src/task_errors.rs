//! Decides which ends of tasks count as failures of their scheduler, so that a machine on which all tasks fail asks for less and less.

use brasserie_common::{EndedBy, Ending, Fault, Story};

use super::profile::TaskErrors;

impl TaskErrors {
    /// Returns whether the end counts as a failure. An end that the worker's own shutdown caused does not.
    pub fn counts(self, story: &Story) -> bool {
        match (self, story.ended_by) {
            (TaskErrors::Off, _)
            | (
                _,
                Some(
                    EndedBy::Shutdown
                    | EndedBy::Suicide
                    | EndedBy::Operator
                    | EndedBy::Orphan
                    | EndedBy::TakeBack,
                ),
            ) => false,
            (TaskErrors::Infrastructure, _) => is_infrastructure_failure(story),
            (TaskErrors::Any, _) => story.fault != Fault::Nobody,
        }
    }
}

/// Returns whether the machine may be the cause of the failure, rather than what the task does there.
///
/// | end of the task | counts |
/// |---|---|
/// | success, or an end that somebody wanted | no |
/// | a failed start for any reason, such as inputs that will never arrive | yes |
/// | lack of memory, by the task's limit or on the machine | yes |
/// | a signal that Brasserie did not send | yes |
/// | its timeout or deadline | no |
/// | an unsuccessful exit | if the worker or the system is at fault |
pub fn is_infrastructure_failure(story: &Story) -> bool {
    match (story.fault, story.ended_by, &story.ending) {
        (Fault::Nobody, _, _)
        | (
            _,
            Some(
                EndedBy::Operator
                | EndedBy::Orphan
                | EndedBy::Timeout
                | EndedBy::Deadline
                | EndedBy::Shutdown
                | EndedBy::Suicide
                | EndedBy::TakeBack,
            ),
            _,
        ) => false,
        (_, Some(EndedBy::MemoryLimit | EndedBy::OutOfMemory), _)
        | (_, None, Ending::NotStarted(_) | Ending::Signalled(_)) => true,
        (fault, None, Ending::Exited(_) | Ending::Unknown) => match fault {
            Fault::Worker | Fault::System => true,
            Fault::Nobody | Fault::Task => false,
        },
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn story(ending: Ending, ended_by: Option<EndedBy>, fault: Fault) -> Story {
        Story {
            ending,
            ended_by,
            fault,
            ..Story::exited(0)
        }
    }

    fn not_started() -> Ending {
        Ending::NotStarted("no such file".to_owned())
    }

    #[test]
    fn each_end_in_each_mode() {
        use EndedBy as By;
        const KILLED: Ending = Ending::Signalled(9);
        const FAILED: Ending = Ending::Exited(1);
        // Each row ends with whether the end counts for `Infrastructure` and for `Any`.
        let rows = [
            (Ending::Exited(0), None, Fault::Nobody, [false, false]),
            (FAILED, None, Fault::Task, [false, true]),
            (FAILED, None, Fault::Worker, [true, true]),
            (FAILED, None, Fault::System, [true, true]),
            (Ending::Unknown, None, Fault::Worker, [true, true]),
            (Ending::Unknown, None, Fault::Task, [false, true]),
            (not_started(), None, Fault::Task, [true, true]),
            (not_started(), None, Fault::Worker, [true, true]),
            (not_started(), None, Fault::System, [true, true]),
            (
                not_started(),
                Some(By::Operator),
                Fault::Nobody,
                [false, false],
            ),
            (KILLED, None, Fault::Task, [true, true]),
            (Ending::Signalled(11), None, Fault::Task, [true, true]),
            (KILLED, None, Fault::Nobody, [false, false]),
            (KILLED, Some(By::MemoryLimit), Fault::Task, [true, true]),
            (FAILED, Some(By::MemoryLimit), Fault::Task, [true, true]),
            (KILLED, Some(By::OutOfMemory), Fault::System, [true, true]),
            (KILLED, Some(By::Timeout), Fault::Task, [false, true]),
            (KILLED, Some(By::Deadline), Fault::Task, [false, true]),
            (KILLED, Some(By::Operator), Fault::Nobody, [false, false]),
            (KILLED, Some(By::Orphan), Fault::Nobody, [false, false]),
            (KILLED, Some(By::Shutdown), Fault::Worker, [false, false]),
            (KILLED, Some(By::Suicide), Fault::Worker, [false, false]),
        ];
        for (ending, ended_by, fault, expected) in rows {
            let end = story(ending, ended_by, fault);
            let modes = [TaskErrors::Infrastructure, TaskErrors::Any];
            assert_eq!(modes.map(|mode| mode.counts(&end)), expected, "{end:?}");
            assert!(!TaskErrors::Off.counts(&end), "{end:?}");
        }
    }

    /// An end that somebody asked for never counts, and an end that counts as infrastructure also counts as any.
    #[test]
    fn an_end_that_was_asked_for_never_counts() {
        let by = EndedBy::ALL.map(Some).into_iter().chain([None]);
        for (ended_by, fault) in by.flat_map(|by| Fault::ALL.map(|fault| (by, fault))) {
            for ending in [
                not_started(),
                Ending::Exited(1),
                Ending::Signalled(9),
                Ending::Unknown,
            ] {
                let end = story(ending, ended_by, fault);
                let counts =
                    [TaskErrors::Infrastructure, TaskErrors::Any].map(|mode| mode.counts(&end));
                assert!(counts[0] <= counts[1], "{end:?}");
                let was_asked_for = matches!(
                    ended_by,
                    Some(
                        EndedBy::Operator
                            | EndedBy::Orphan
                            | EndedBy::Shutdown
                            | EndedBy::Suicide
                            | EndedBy::TakeBack
                    )
                );
                let nobody = fault == Fault::Nobody;
                assert!(
                    !(was_asked_for || nobody) || counts == [false, false],
                    "{end:?}"
                );
            }
        }
    }
}

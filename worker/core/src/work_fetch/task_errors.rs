//! Which ends of tasks count as failures of their scheduler: a machine on which all tasks fail should ask for fewer and fewer.

use brasserie_common::{EndedBy, Ending, Fault, Story};

use super::profile::TaskErrors;

impl TaskErrors {
    /// Whether such an end is a failure. What ends because the worker does says nothing of anybody.
    pub fn counts(self, story: &Story) -> bool {
        match (self, story.ended_by) {
            (TaskErrors::Off, _)
            | (
                _,
                Some(EndedBy::Shutdown | EndedBy::Suicide | EndedBy::Operator | EndedBy::Orphan),
            ) => false,
            (TaskErrors::Infrastructure, _) => is_infrastructure_failure(story),
            (TaskErrors::Any, _) => story.fault != Fault::Nobody,
        }
    }
}

/// Whether the machine may be to blame, rather than what the task does there.
///
/// | how it ended | is one |
/// |---|---|
/// | well, or as somebody or nobody wanted it | no |
/// | it could not be started, whatever the reason; inputs that it will never have are one | yes |
/// | its memory limit, or the machine, had no memory left for it | yes |
/// | a signal that nobody of us sent | yes |
/// | its timeout or its deadline was over | no |
/// | by itself, and not well | if the worker or the system is at fault |
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
                | EndedBy::Suicide,
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
        // Infrastructure, any.
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

    /// Whatever else there is: who asks for an end has no reason to complain of it, and what counts as infrastructure counts as any.
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
                        EndedBy::Operator | EndedBy::Orphan | EndedBy::Shutdown | EndedBy::Suicide
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

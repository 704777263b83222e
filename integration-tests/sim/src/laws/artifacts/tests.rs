//! Tests of the laws about artifacts.

use super::*;
use crate::laws::trial::Trial;

fn reader() -> Run {
    Run {
        task: TaskId { job: 2, node: 7 },
        invocation: InvocationId::new(1, 1),
    }
}

fn id(number: u8) -> ArtifactId {
    ArtifactId([number; 32])
}

fn worker() -> WorkerId {
    WorkerId::new(1, 1)
}

fn artifacts(event: ArtifactEvent) -> Happening {
    Happening::Artifacts(Box::new(event))
}

fn written(number: u8) -> Happening {
    artifacts(ArtifactEvent::OutputsWritten {
        directory: DIRECTORY,
        seq: Default::default(),
        run: Run {
            task: TaskId { job: 1, node: 7 },
            ..reader()
        },
        outputs: vec![("fresh".to_owned(), id(number))],
    })
}

fn needed(number: u8) -> Happening {
    artifacts(ArtifactEvent::Needed {
        place: FIRST,
        worker: worker(),
        run: reader(),
        inputs: vec![("j1/fresh".to_owned(), id(number))],
    })
}

fn staged(number: u8, state: Option<CopyState>) -> Happening {
    artifacts(ArtifactEvent::Staged {
        place: WorkerPlace(0),
        worker: worker(),
        run: reader(),
        copies: vec![("j1/fresh".to_owned(), id(number), state)],
    })
}

fn started() -> Happening {
    Happening::ProcessStarted {
        place: WorkerPlace(0),
        worker: worker(),
        process: crate::event_log::ProcessId(1),
        run: reader(),
    }
}

#[test]
fn a_run_starts_with_the_recorded_content() {
    let mut trial = Trial::of(InputsAreComplete::default());
    let sound = Some(CopyState::Sound);
    trial.sees(written(1)).sees(needed(1));
    trial.sees(staged(1, sound)).sees(started());
}

#[test]
fn a_run_does_not_start_with_anything_else() {
    let sound = Some(CopyState::Sound);
    for before in [
        vec![written(1), needed(1)],
        vec![written(1), needed(1), staged(1, None)],
        vec![written(1), needed(1), staged(1, Some(CopyState::Damaged))],
        vec![written(1), needed(1), staged(2, sound)],
        vec![written(1), needed(2), staged(2, sound)],
    ] {
        let mut trial = Trial::of(InputsAreComplete::default());
        for happening in before {
            trial.sees(happening);
        }
        trial.breaks(started(), "starts with");
    }
}

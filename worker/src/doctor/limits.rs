//! Checks how many tasks the limits of descriptors and processes allow.

use nix::sys::resource::{Resource, getrlimit};

use super::{CheckVerdict, Finding};
use crate::program::DESCRIPTORS;
use crate::room::{
    DESCRIPTORS_A_TASK, DESCRIPTORS_OF_OUR_OWN, PROCESSES_OF_OUR_OWN, TaskCountLimits,
};

/// The number of tasks below which the doctor warns: a worker with fewer tasks than a machine has slots is of little use.
const FEW: u64 = 64;

/// Returns the limits of a worker that is started here.
pub(super) fn seen() -> TaskCountLimits {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0));
    TaskCountLimits::look(usable(soft, hard))
}

/// Returns the limit of descriptors that a worker would have. It raises its soft limit, and keeps one that is already higher.
fn usable(soft: u64, hard: u64) -> u64 {
    hard.min(DESCRIPTORS).max(soft)
}

/// Checks the number of tasks by all limits together.
pub(super) fn tasks(seen: &TaskCountLimits) -> Finding {
    let room = seen.room();
    let text = format!("a worker runs {room}");
    match u64::from(room.most.get()) {
        FEW.. => Finding::new(TASKS, CheckVerdict::Fine, text),
        _ => Finding::new(TASKS, CheckVerdict::Limited, format!("{text}; raise it")),
    }
}

const TASKS: &str = "tasks at once";

pub(super) fn descriptors(seen: &TaskCountLimits) -> Finding {
    room_of_descriptors(seen.descriptors)
}

fn room_of_descriptors(usable: u64) -> Finding {
    let tasks = usable.saturating_sub(DESCRIPTORS_OF_OUR_OWN) / DESCRIPTORS_A_TASK;
    let text = format!("{usable} for a worker: room for {tasks} tasks at once");
    match tasks {
        FEW.. => Finding::new("open files", CheckVerdict::Fine, text),
        _ => {
            let text = format!("{text}; raise the hard limit (`LimitNOFILE=` of the unit)");
            Finding::new("open files", CheckVerdict::Lacking, text)
        }
    }
}

pub(super) fn processes(seen: &TaskCountLimits) -> Finding {
    room_of_processes([
        // The kernel does not enforce this limit for root.
        ("this user's processes", seen.user),
        ("kernel.pid_max", seen.pid_max),
        ("kernel.threads-max", seen.threads_max),
    ])
}

fn room_of_processes(limits: [(&str, Option<u64>); 3]) -> Finding {
    let known = limits
        .into_iter()
        .filter_map(|(name, limit)| Some((limit?, name)));
    let Some((least, name)) = known.min() else {
        return Finding::new("processes", CheckVerdict::Limited, "no limit can be read");
    };
    let room = least.saturating_sub(PROCESSES_OF_OUR_OWN);
    let text = format!("room for about {room} at once, by {name} ({least})");
    match room {
        FEW.. => Finding::new("processes", CheckVerdict::Fine, text),
        _ => Finding::new(
            "processes",
            CheckVerdict::Lacking,
            format!("{text}; raise it"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_make_room_for_tasks() {
        let usual = room_of_descriptors(usable(1024, 524_288));
        assert_eq!(usual.verdict, CheckVerdict::Fine);
        assert_eq!(
            usual.text,
            "32768 for a worker: room for 5418 tasks at once"
        );
        let small = room_of_descriptors(usable(256, 300));
        assert_eq!(small.verdict, CheckVerdict::Lacking);
        assert!(small.text.contains("room for 7 tasks"), "{small:?}");
        let high = room_of_descriptors(usable(100_000, 100_000));
        assert!(high.text.starts_with("100000 "), "{high:?}");
    }

    #[test]
    fn the_least_limit_of_processes_counts() {
        let found = room_of_processes([("a", None), ("b", Some(32_768)), ("c", Some(4_000_000))]);
        assert_eq!(found.text, "room for about 32640 at once, by b (32768)");
        assert_eq!(found.verdict, CheckVerdict::Fine);
        let few = room_of_processes([("a", Some(100)), ("b", None), ("c", None)]);
        assert_eq!(few.verdict, CheckVerdict::Lacking);
        let unknown = room_of_processes([("a", None), ("b", None), ("c", None)]);
        assert_eq!(unknown.verdict, CheckVerdict::Limited);
    }
}

//! Checks which limits control groups can enforce for tasks, and whether systemd runs and can delegate groups.

use std::path::Path;

use super::{CheckVerdict, Finding};
use crate::groups::Groups;
use crate::groups::plan::{Ability, Capabilities};

const TOPIC: &str = "control groups";

/// Returns the abilities of a worker that is started as this process was.
pub(super) fn control_groups() -> Finding {
    found(&Groups::seen_from_here())
}

fn found(all: &Capabilities) -> Finding {
    let (mut have, mut lack) = (Vec::new(), Vec::new());
    for (name, ability) in all.all() {
        match ability {
            Ability::Enforced(_) => have.push(format!("{name} {ability}")),
            Ability::Missing(why) => lack.push(format!("{name} ({why})")),
        }
    }
    let verdict = match lack.is_empty() {
        true => CheckVerdict::Fine,
        false => CheckVerdict::Limited,
    };
    let mut parts = Vec::new();
    if !have.is_empty() {
        parts.push(format!("tasks can have: {}", have.join(", ")));
    }
    if !lack.is_empty() {
        parts.push(format!(
            "they cannot have, and are refused if they ask for it: {}",
            lack.join(", ")
        ));
    }
    Finding::new(TOPIC, verdict, parts.join("; "))
}

/// Checks whether systemd runs. `place` exists while it does.
pub(super) fn systemd(place: &Path) -> Finding {
    match place.exists() {
        true => {
            let text = "runs; the unit brasserie-worker@.service starts a worker and gives it control groups";
            Finding::new("systemd", CheckVerdict::Fine, text)
        }
        false => {
            let text = "does not run: another service manager must restart workers";
            Finding::new("systemd", CheckVerdict::Limited, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::mounts::Version;

    fn capabilities(pids: Ability) -> Capabilities {
        let had = || Ability::Enforced(Version::One);
        Capabilities {
            memory: had(),
            cpu_weight: had(),
            cpu_quota: had(),
            pids,
            freeze: had(),
            kill: had(),
            emptiness: Ability::Enforced(Version::Two),
        }
    }

    #[test]
    fn what_is_missing_is_told_with_its_reason() {
        let all = found(&capabilities(Ability::Enforced(Version::Two)));
        assert_eq!(all.verdict, CheckVerdict::Fine, "{all:?}");
        let by_one = "tasks can have: memory limit by control groups of version 1, ";
        assert!(all.text.starts_with(by_one), "{all:?}");
        let none = "nobody mounted it".to_owned();
        let some = found(&capabilities(Ability::Missing(none)));
        assert_eq!(some.verdict, CheckVerdict::Limited, "{some:?}");
        let lack = "refused if they ask for it: limit of processes (nobody mounted it)";
        assert!(some.text.ends_with(lack), "{some:?}");
    }

    #[test]
    fn this_machine_says_something() {
        let found = control_groups();
        assert!(found.text.contains("memory limit"), "{found:?}");
    }

    #[test]
    fn systemd_runs_or_does_not() {
        assert_eq!(systemd(Path::new("/")).verdict, CheckVerdict::Fine);
        assert_eq!(
            systemd(Path::new("/nowhere")).verdict,
            CheckVerdict::Limited
        );
    }
}

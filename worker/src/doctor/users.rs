//! Checks whether a worker can start tasks with the rights of other users.

use super::{CheckVerdict, Finding};
use crate::process::Rights;

const TOPIC: &str = "other users";

/// Checks this for a worker that is started as this process was.
pub(super) fn other_users() -> Finding {
    found(&Rights::of_this_process())
}

fn found(rights: &Rights) -> Finding {
    match (rights.lacking(), rights.passes_on()) {
        ([], false) => {
            let text = "tasks can have the rights of those that --allow-user names";
            Finding::new(TOPIC, CheckVerdict::Fine, text)
        }
        ([], true) => {
            let text = "the rights for it are ambient capabilities, which every task would inherit; run the worker as root for it";
            Finding::new(TOPIC, CheckVerdict::Limited, text)
        }
        (lacking, _) => {
            let lacking = lacking.join(", ");
            let text = format!(
                "tasks can only have the worker's rights, as {lacking} is lacking: run it as root to use --allow-user"
            );
            Finding::new(TOPIC, CheckVerdict::Limited, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::{Gid, Uid};

    use super::*;

    fn of(effective: u64, ambient: u64) -> Finding {
        let status = format!("CapEff:\t{effective:016x}\nCapAmb:\t{ambient:016x}\n");
        let (user, group) = (Uid::from_raw(5), Gid::from_raw(5));
        found(&Rights::listed(user, group, &status))
    }

    #[test]
    fn what_is_lacking_is_told() {
        assert_eq!(of(u64::MAX, 0).verdict, CheckVerdict::Fine);
        let all_but_kill = of(!(1 << 5), 0);
        assert_eq!(all_but_kill.verdict, CheckVerdict::Limited);
        assert!(
            all_but_kill.text.contains("as CAP_KILL is lacking"),
            "{all_but_kill:?}"
        );
        let ambient = of(u64::MAX, 1 << 7);
        assert_eq!(ambient.verdict, CheckVerdict::Limited);
        assert!(
            ambient.text.contains("every task would inherit"),
            "{ambient:?}"
        );
    }
}

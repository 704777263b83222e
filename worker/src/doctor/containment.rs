//! Checks how a worker would make sure that no process of a task outlives it. Checks the kernel without starting a process.

use super::{CheckVerdict, Finding};
use crate::containment::{Choice, Contain, Powers, choose, stage::try_namespaces};

const TOPIC: &str = "containment";
const OUTSIDE: &str = "processes that docker, at or systemd-run start for a task escape both kinds";

/// Describes the containment that a worker would get if it were started as this process was.
pub(super) fn containment() -> Finding {
    let powers = Powers::of_this_process();
    found(choose(Contain::Auto, powers), try_namespaces)
}

fn found(
    choice: Result<Choice, &'static str>,
    try_it: impl FnOnce() -> Result<(), String>,
) -> Finding {
    let why = match choice {
        Ok(Choice::Namespace { why, .. }) => match try_it() {
            Ok(()) => {
                let text = format!(
                    "pid-namespace: {why}, and the kernel allows it; the kernel ends every process of a task when the worker dies; {OUTSIDE}"
                );
                return Finding::new(TOPIC, CheckVerdict::Fine, text);
            }
            Err(error) => {
                format!("this machine does not let the worker have a PID namespace: {error}")
            }
        },
        Ok(Choice::Groups { why }) | Err(why) => why.to_owned(),
    };
    let text = format!(
        "process-groups: {why}; a process that has left its session, its parent and its environment survives if worker and keeper are \
         killed at once; {OUTSIDE}"
    );
    Finding::new(TOPIC, CheckVerdict::Limited, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containment::NamespaceMethod;

    const NAMESPACE: Choice = Choice::Namespace {
        way: NamespaceMethod::Direct,
        why: "a test",
    };

    #[test]
    fn only_a_namespace_that_the_kernel_allows_is_fine() {
        let allowed = found(Ok(NAMESPACE), || Ok(()));
        assert_eq!(allowed.verdict, CheckVerdict::Fine);
        assert!(allowed.text.starts_with("pid-namespace: a test, and"));
        let refused = found(Ok(NAMESPACE), || Err("no memory".to_owned()));
        assert_eq!(refused.verdict, CheckVerdict::Limited);
        let groups = found(Ok(Choice::Groups { why: "another" }), || {
            panic!("nobody asks for a namespace")
        });
        assert_eq!(groups.verdict, CheckVerdict::Limited);
        for (finding, why) in [(&refused, "PID namespace: no memory"), (&groups, "another")] {
            assert!(finding.text.starts_with("process-groups: "), "{finding:?}");
            assert!(finding.text.contains(why), "{finding:?}");
            assert!(
                finding.text.contains("survives if worker and keeper"),
                "{finding:?}"
            );
        }
        for finding in [allowed, refused, groups] {
            assert!(
                finding.text.contains("docker, at or systemd-run"),
                "{finding:?}"
            );
        }
    }

    #[test]
    fn the_attempt_leaves_this_process_where_it_is() {
        let own = || {
            [
                "self/ns/mnt",
                "thread-self/ns/mnt",
                "thread-self/ns/pid_for_children",
            ]
            .map(|link| std::fs::read_link(format!("/proc/{link}")).ok())
        };
        let before = own();
        let _ = containment();
        assert_eq!(own(), before);
    }
}

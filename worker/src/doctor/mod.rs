//! Checks this machine for a worker: what it can enforce, what it has, and what is missing.

mod certificate;
mod containment;
mod data_dir;
mod groups;
mod limits;
mod users;

use std::fs;
use std::path::{Path, PathBuf};

use brasserie_common_runtime::Clock;

use crate::groups::survey::kernel_version;
use crate::usage;

/// The first kernel with all system calls of a worker. `close_range` is the newest; `pidfd_open` and its `waitid` are older.
const OLDEST_KERNEL: (u32, u32) = (5, 9);
/// The beginning of 2024, in milliseconds. An earlier clock was never set, and would give runs wrong labels.
const NOT_BEFORE_MS: i64 = 1_704_067_200_000;

/// The objects to check.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The data directory of a worker; `None`: not checked.
    pub data_dir: Option<PathBuf>,
    pub nvidia_smi: Option<PathBuf>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// It is present and in order.
    Fine,
    /// It is absent or incomplete; a worker works without it.
    Limited,
    /// It is missing, and a worker needs it to keep its promises.
    Lacking,
}

impl CheckVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            CheckVerdict::Fine => "fine",
            CheckVerdict::Limited => "limited",
            CheckVerdict::Lacking => "lacking",
        }
    }
}

/// The finding of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub topic: &'static str,
    pub verdict: CheckVerdict,
    /// The finding, and what to do about it.
    pub text: String,
}

impl Finding {
    fn new(topic: &'static str, verdict: CheckVerdict, text: impl Into<String>) -> Self {
        let text = text.into();
        Finding {
            topic,
            verdict,
            text,
        }
    }
}

/// Performs all checks. Leaves nothing behind, and disturbs no running worker.
pub async fn examine(what: &Examined) -> Vec<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let seen = limits::seen();
    let mut found = vec![
        kernel(release.trim()),
        limits::descriptors(&seen),
        limits::processes(&seen),
        limits::tasks(&seen),
        users::other_users(),
        containment::containment(),
        groups::control_groups(),
        groups::systemd(Path::new("/run/systemd/system")),
        clock(Clock.wall().as_millis()),
    ];
    found.push(match &what.data_dir {
        Some(path) => data_dir::examine(path),
        None => {
            let text = "not checked; give --data-dir DIR";
            Finding::new(data_dir::TOPIC, CheckVerdict::Limited, text)
        }
    });
    if let Some(path) = &what.data_dir {
        found.push(certificate::examine(path, Clock.wall()));
    }
    found.push(match &what.nvidia_smi {
        Some(program) => cards(usage::count_cards(program).await),
        None => {
            let text = "not checked; give --nvidia-smi PATH if this machine has GPUs";
            Finding::new(CARDS, CheckVerdict::Limited, text)
        }
    });
    found
}

const CARDS: &str = "GPUs";

fn cards(counted: Result<usize, String>) -> Finding {
    match counted {
        Ok(0) => Finding::new(CARDS, CheckVerdict::Limited, "nvidia-smi lists none"),
        Ok(1) => Finding::new(CARDS, CheckVerdict::Fine, "nvidia-smi lists 1"),
        Ok(count) => Finding::new(
            CARDS,
            CheckVerdict::Fine,
            format!("nvidia-smi lists {count}"),
        ),
        // A user who names the program wants to use the GPUs.
        Err(error) => Finding::new(CARDS, CheckVerdict::Lacking, error),
    }
}

fn kernel(release: &str) -> Finding {
    let (major, minor) = OLDEST_KERNEL;
    let text = match kernel_version(release) {
        (0, 0) => format!("cannot tell which; a worker needs Linux {major}.{minor} or later"),
        version if version >= OLDEST_KERNEL => {
            return Finding::new("kernel", CheckVerdict::Fine, format!("Linux {release}"));
        }
        _ => format!("Linux {release}; a worker needs {major}.{minor} or later"),
    };
    Finding::new("kernel", CheckVerdict::Lacking, text)
}

fn clock(wall_ms: i64) -> Finding {
    if wall_ms >= NOT_BEFORE_MS {
        return Finding::new("clock", CheckVerdict::Fine, "set");
    }
    let text =
        "not set: invocations and logs would have wrong times; set it, or let a time service";
    Finding::new("clock", CheckVerdict::Lacking, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_not_enough() {
        for (release, verdict) in [
            ("6.18.44", CheckVerdict::Fine),
            ("5.9.0-rc1+", CheckVerdict::Fine),
            ("5.10.0-21-amd64", CheckVerdict::Fine),
            ("5.8.18", CheckVerdict::Lacking),
            ("4.19.0", CheckVerdict::Lacking),
            ("", CheckVerdict::Lacking),
        ] {
            assert_eq!(kernel(release).verdict, verdict, "{release}");
        }
    }

    #[test]
    fn a_clock_that_was_never_set_is_found_out() {
        assert_eq!(clock(0).verdict, CheckVerdict::Lacking);
        assert_eq!(clock(NOT_BEFORE_MS).verdict, CheckVerdict::Fine);
    }

    #[test]
    fn cards_that_were_asked_for_must_be_told() {
        assert_eq!(cards(Ok(2)).verdict, CheckVerdict::Fine);
        assert_eq!(cards(Ok(0)).verdict, CheckVerdict::Limited);
        assert_eq!(cards(Err("no".to_owned())).verdict, CheckVerdict::Lacking);
    }

    #[tokio::test]
    async fn a_look_at_this_machine_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let what = Examined {
            data_dir: Some(folder.path().join("new")),
            nvidia_smi: Some("/nowhere/nvidia-smi".into()),
        };
        let found = examine(&what).await;
        let topics: Vec<&str> = found.iter().map(|finding| finding.topic).collect();
        assert_eq!(
            topics,
            [
                "kernel",
                "open files",
                "processes",
                "tasks at once",
                "other users",
                "containment",
                "control groups",
                "systemd",
                "clock",
                "data directory",
                "certificate",
                "GPUs"
            ]
        );
        assert!(found.iter().all(|finding| !finding.text.is_empty()));
        // The machine may have little free space.
        assert_ne!(found[9].verdict, CheckVerdict::Lacking, "{found:?}");
        assert!(found[9].text.contains("writable, locks work"), "{found:?}");
        assert_eq!(found[11].verdict, CheckVerdict::Lacking, "{found:?}");
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "nothing was made");
    }
}

//! Chooses the worker's variables that tasks get: few by default. Start scripts, a login or a service manager leave variables in the
//! worker's environment that must not change tasks, or that tasks must not know.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use brasserie_common_identity::{JOIN_TOKEN_VARIABLE, TOKEN_VARIABLE};

use crate::variables::{
    ARGUMENTS_VARIABLE, CONTAINMENT_VARIABLE, GROUP_VARIABLE, KEPT_FOR_VARIABLE, LEASE_VARIABLE,
    MARKER_VARIABLE, STAGE_VARIABLE, SWEPT_VARIABLE,
};

/// The variables that programs commonly need: paths, user, home, language and time zone.
const USUAL: [&str; 8] = [
    "PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR",
];
/// The prefix of `LC_ALL`, `LC_TIME` and similar variables.
const USUAL_PREFIX: &str = "LC_";

/// The variables that a task has with its own value or not at all.
const OWN: [&str; 9] = [
    KEPT_FOR_VARIABLE,
    "BRASSERIE_JOB",
    "BRASSERIE_NODE",
    "BRASSERIE_NODE_LABEL",
    "BRASSERIE_PATH_TO_NODE",
    "BRASSERIE_STATUS",
    "BRASSERIE_ARGUMENT",
    "BRASSERIE_INVOCATION",
    "BRASSERIE_FENCE",
];

/// The variables between the worker and its keeper or its service manager, and those with secrets of the cluster. A task with them could
/// act in the worker's name or in a person's, or would wait for descriptors that it did not get.
const NEVER: [&str; 16] = [
    JOIN_TOKEN_VARIABLE,
    TOKEN_VARIABLE,
    LEASE_VARIABLE,
    ARGUMENTS_VARIABLE,
    CONTAINMENT_VARIABLE,
    STAGE_VARIABLE,
    SWEPT_VARIABLE,
    GROUP_VARIABLE,
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "CREDENTIALS_DIRECTORY",
    "INVOCATION_ID",
];

/// The variables that name the GPUs that CUDA shows to a program, and their order.
pub(super) const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
pub(super) const DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";

/// Returns the entries without the variables that select GPUs, for a task that may use only its own GPUs.
pub(super) fn without_cards(entries: &[CString]) -> Vec<CString> {
    without(entries, |name| {
        [VISIBLE_DEVICES, DEVICE_ORDER]
            .map(str::as_bytes)
            .contains(&name)
    })
}

/// Returns the entries without the task's own variables. A program would find the first of two entries with the same name.
pub(super) fn without(entries: &[CString], is_own: impl Fn(&[u8]) -> bool) -> Vec<CString> {
    let others = entries.iter().filter(|entry| {
        let name = entry.to_bytes().split(|byte| *byte == b'=').next();
        !name.is_some_and(&is_own)
    });
    others.cloned().collect()
}

/// The worker's variables that tasks get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassedEnvironment {
    /// The usual ones, and these.
    Usual { also: Vec<String> },
    /// All, except those between the worker and its parents.
    Everything,
}

impl PassedEnvironment {
    pub const USUAL: PassedEnvironment = PassedEnvironment::Usual { also: Vec::new() };

    /// Parses names with commas between them; `*` means all.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        if names.iter().any(|name| name == "*") {
            return Ok(PassedEnvironment::Everything);
        }
        match names
            .iter()
            .find(|name| name.is_empty() || name.contains(['=', '*', '\0']))
        {
            None => Ok(PassedEnvironment::Usual { also: names }),
            Some(name) => Err(format!(
                "`{name}` is no variable's name: write names with commas between them, or `*` for all"
            )),
        }
    }

    fn passes(&self, name: &OsStr) -> bool {
        if OWN.iter().chain(&NEVER).any(|other| name == *other) {
            return false;
        }
        // The successor in the directory finds processes by this variable that this worker and its keeper may leave behind.
        if name == MARKER_VARIABLE {
            return true;
        }
        match self {
            PassedEnvironment::Everything => true,
            PassedEnvironment::Usual { also } => {
                USUAL.iter().any(|usual| name == *usual)
                    || name.as_bytes().starts_with(USUAL_PREFIX.as_bytes())
                    || also.iter().any(|other| name == other.as_str())
            }
        }
    }

    /// Returns the passed variables as entries of a program's environment.
    pub(super) fn entries(
        &self,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<CString> {
        let passed = variables.filter(|(name, _)| self.passes(name));
        passed
            .filter_map(|(name, value)| {
                let mut entry = name.into_vec();
                entry.push(b'=');
                entry.extend_from_slice(value.as_bytes());
                CString::new(entry).ok()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(environment: &PassedEnvironment, names: &[&str]) -> Vec<String> {
        let variables = names
            .iter()
            .map(|name| (OsString::from(*name), OsString::from("x")));
        let entries = environment.entries(variables).into_iter();
        let texts = entries.map(|entry| entry.into_string().expect("ASCII"));
        texts
            .map(|text| text.strip_suffix("=x").expect("a value").to_owned())
            .collect()
    }

    #[test]
    fn usual_names_and_the_keepers_mark_pass_and_others_only_by_name() {
        let usual = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME"];
        let environment = PassedEnvironment::USUAL;
        assert_eq!(passed(&environment, &usual), usual);
        assert_eq!(passed(&environment, &["SHELL", "TMPDIR"]).len(), 2);
        let others = ["AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "BRASSERIE_LOG"];
        assert_eq!(passed(&environment, &others), [""; 0]);
        assert_eq!(passed(&environment, &[MARKER_VARIABLE]), [MARKER_VARIABLE]);
        let named = PassedEnvironment::parse("A, LD_PRELOAD").expect("names");
        assert_eq!(passed(&named, &others), ["LD_PRELOAD"]);
        assert_eq!(passed(&named, &["A", "B", "PATH"]), ["A", "PATH"]);
        assert_eq!(
            passed(&PassedEnvironment::Everything, &others),
            others,
            "by its wish"
        );
    }

    #[test]
    fn what_is_between_the_worker_and_its_parents_never_passes() {
        let all: Vec<&str> = OWN.into_iter().chain(NEVER).collect();
        let by_name = PassedEnvironment::parse(&all.join(",")).expect("names");
        for environment in [by_name, PassedEnvironment::Everything] {
            assert_eq!(passed(&environment, &all), [""; 0]);
        }
    }

    #[test]
    fn a_task_with_cards_does_not_see_which_ones_the_worker_was_shown() {
        let all = [
            "CUDA_VISIBLE_DEVICES",
            "A",
            "CUDA_DEVICE_ORDER",
            "CUDA_CACHE_PATH",
        ];
        let variables = all.iter().map(|name| (OsString::from(*name), "x=y".into()));
        let entries = PassedEnvironment::Everything.entries(variables);
        assert_eq!(entries.len(), 4, "without cards it is as the operator says");
        assert_eq!(
            without_cards(&entries),
            [c"A=x=y".into(), c"CUDA_CACHE_PATH=x=y".into()] as [CString; 2]
        );
    }

    #[test]
    fn half_names_are_refused() {
        for bad in ["", "A,,B", "A=1", "LC_*", "A,"] {
            let error = PassedEnvironment::parse(bad).expect_err(bad);
            assert!(error.contains("commas"), "{error}");
        }
        let star = PassedEnvironment::parse("A,*");
        assert_eq!(star, Ok(PassedEnvironment::Everything));
    }
}

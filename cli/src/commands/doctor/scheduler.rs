//! Checks the data directory of a scheduler: who may use it, and how long the authority and the administrator's token are still valid.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use brasserie_common::WallTime;
use brasserie_common::text::shell_word;
use brasserie_common::time::readable_duration;
use brasserie_common_identity::Life;
use brasserie_common_runtime::files::{DataDir, Owner};
use brasserie_scheduler::examine_identity;
use brasserie_worker::doctor::{CheckVerdict, Finding};

/// The mode bits that let other users use a directory.
const OTHERS: u32 = 0o077;

/// Returns whether a scheduler has used the directory.
pub(super) fn is_its_directory(path: &Path) -> bool {
    DataDir::was_used_by(path, Owner::Scheduler)
}

/// Performs all checks. The scheduler may run meanwhile.
pub(super) fn examine(path: &Path, now: WallTime) -> Vec<Finding> {
    let found = examine_identity(path);
    vec![
        directory(path),
        life(
            "authority",
            &found.authority,
            now,
            (
                "none: the scheduler asks nobody for a proof",
                "replace it with `brasserie ca rotate`",
            ),
        ),
        life(
            "admin token",
            &found.admin_token,
            now,
            (
                "none that is kept: the scheduler's user needs none",
                "create another one with `brasserie token create --role admin`, and revoke it",
            ),
        ),
    ]
}

fn finding(topic: &'static str, verdict: CheckVerdict, text: String) -> Finding {
    Finding {
        topic,
        verdict,
        text,
    }
}

fn directory(path: &Path) -> Finding {
    let topic = "data directory";
    if let Err(refusal) = DataDir::check(path, Owner::Scheduler) {
        return finding(topic, CheckVerdict::Lacking, refusal.to_string());
    }
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.mode() & 0o7777);
    let shown = path.display();
    if mode & OTHERS == 0 {
        let text = format!("{shown}: this user alone may enter");
        return finding(topic, CheckVerdict::Fine, text);
    }
    let word = shell_word(&path.to_string_lossy());
    let text = format!("other users may enter {shown} (mode {mode:04o}): chmod 700 {word}");
    finding(topic, CheckVerdict::Limited, text)
}

/// Judges how long something is valid. The texts are for its absence, and for its end.
fn life(
    topic: &'static str,
    life: &Result<Option<Life>, impl Display>,
    now: WallTime,
    (none, remedy): (&str, &str),
) -> Finding {
    let life = match life {
        Ok(Some(life)) => life,
        Ok(None) => return finding(topic, CheckVerdict::Fine, none.to_owned()),
        Err(error) => return finding(topic, CheckVerdict::Lacking, error.to_string()),
    };
    let left = readable_duration(now.until(life.until));
    match life.last_third(now) {
        None => finding(topic, CheckVerdict::Fine, format!("expires in {left}")),
        Some(left) if left.is_zero() => finding(
            topic,
            CheckVerdict::Limited,
            format!("has expired: {remedy}"),
        ),
        Some(_) => {
            let text = format!("expires in {left}: {remedy}");
            finding(topic, CheckVerdict::Limited, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_third_of_a_life_and_its_end_are_told_with_a_remedy() {
        let issued = WallTime::from_secs(1_700_000_000);
        let until = issued + Duration::from_secs(9000);
        let judge = |seconds| {
            let whole = Ok::<_, String>(Some(Life { issued, until }));
            let now = issued + Duration::from_secs(seconds);
            life("authority", &whole, now, ("none", "replace it"))
        };
        for (seconds, verdict, text) in [
            (5999, CheckVerdict::Fine, "expires in"),
            (6001, CheckVerdict::Limited, "replace it"),
            (9000, CheckVerdict::Limited, "has expired: replace it"),
        ] {
            let found = judge(seconds);
            assert_eq!(found.verdict, verdict, "{seconds}: {}", found.text);
            assert!(found.text.contains(text), "{}", found.text);
        }
    }

    #[test]
    fn a_directory_that_others_may_enter_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        assert!(!is_its_directory(path));
        std::fs::write(path.join("state.sqlite3"), "").expect("a file");
        let check = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("a folder of this user");
            let found = examine(path, WallTime::from_secs(0));
            (found[0].verdict, found[0].text.clone())
        };
        assert_eq!(check(0o700).0, CheckVerdict::Fine);
        let (verdict, text) = check(0o755);
        assert_eq!(verdict, CheckVerdict::Limited);
        assert!(text.contains("chmod 700"), "{text}");
        assert_eq!(check(0o777).0, CheckVerdict::Lacking);
    }
}

//! Tests of the meaning and the errors of `limits`, `user` and `group`.

use brasserie_common::{AccountName, Bound, Limited, ProcessLimit};

use super::*;

fn in_job(body: &str) -> Vec<String> {
    let parsed = good(
        "",
        &format!("\"bistro_job->x\": {{\"task_subprocess\": {{{body}}}}}"),
    );
    lines(parsed.job_problems())
}

#[test]
fn limits_are_numbers_or_unlimited_or_both() {
    let parsed = job(
        r#""task_subprocess": {"limits": {"nofile": 1024, "core": "unlimited", "fsize": "4096",
        "stack": {"soft": 8388608, "hard": "unlimited"}, "cpu": {"soft": 5, "hard": 9223372036854775807}}}"#,
    );
    let limits = &parsed.task_subprocess.limits;
    let both = |bound| Some(ProcessLimit::both(bound));
    let pair = ProcessLimit::new;
    for (limited, expected) in [
        (Limited::Nofile, both(Bound::At(1024))),
        (Limited::Core, both(Bound::Unlimited)),
        (Limited::Fsize, both(Bound::At(4096))),
        (Limited::Stack, pair(Bound::At(8_388_608), Bound::Unlimited)),
        (
            Limited::Cpu,
            pair(Bound::At(5), Bound::At(i64::MAX.cast_unsigned())),
        ),
        (Limited::Nproc, None),
    ] {
        assert_eq!(limits.get(&limited).copied(), expected, "{limited:?}");
    }
}

#[test]
fn limits_of_a_job_lie_on_top_of_the_settings_by_name() {
    let parsed = good(
        r#""task_subprocess": {"limits": {"nofile": 100, "core": 0}, "user": "batch", "group": "g"}"#,
        r#""bistro_job->x": {"task_subprocess": {"limits": {"nofile": 200}}},
        "bistro_job->y": {"task_subprocess": {"user": 1000}},
        "bistro_job->z": {"task_subprocess": {"group": "h"}}"#,
    );
    let options = |name: &str| &parsed.config.job(name).unwrap().task_subprocess;
    let limits: Vec<_> = options("x").limits.iter().collect();
    let both = |amount| ProcessLimit::both(Bound::At(amount));
    assert_eq!(
        limits,
        [(&Limited::Core, &both(0)), (&Limited::Nofile, &both(200))]
    );
    let account = |name: &str| {
        let text = |name: &Option<AccountName>| name.as_ref().map(|n| n.as_str().to_owned());
        let options = options(name);
        (text(&options.user), text(&options.group))
    };
    let named = |user: &str, group: &str| (Some(user.to_owned()), Some(group.to_owned()));
    assert_eq!(account("x"), named("batch", "g"));
    // Another user does not inherit the group of the first.
    assert_eq!(account("y"), (Some("1000".to_owned()), None));
    assert_eq!(account("z"), named("batch", "h"));
}

#[test]
fn what_limits_may_not_say() {
    const AT: &str = "bistro_job->x.task_subprocess.limits";
    const HELP: &str =
        "a number, \"unlimited\", or both limits, as in {\"soft\": 1024, \"hard\": \"unlimited\"}";
    const RANGE: &str = "an integer from 0 to 9223372036854775807";
    for (limits, expected) in [
        (
            "[]".to_owned(),
            ": expected an object, found an empty array".to_owned(),
        ),
        (
            r#"{"nofiles": 5}"#.to_owned(),
            format!(
                ".nofiles: there is no such limit; did you mean `nofile`? (known: {})",
                Limited::NAMES
            ),
        ),
        (
            r#"{"maximum": 5}"#.to_owned(),
            format!(
                ".maximum: there is no such limit; known are {}",
                Limited::NAMES
            ),
        ),
        (
            r#"{"core": -1}"#.to_owned(),
            format!(".core: -1 is out of range; {RANGE}"),
        ),
        (
            r#"{"core": 1.5}"#.to_owned(),
            format!(".core: expected an integer, found 1.5; {RANGE}"),
        ),
        (
            r#"{"core": "many"}"#.to_owned(),
            format!(".core: expected a limit, found \"many\"; {HELP}"),
        ),
        (
            r#"{"core": null}"#.to_owned(),
            format!(".core: expected a limit, found null; {HELP}"),
        ),
        (
            r#"{"core": {"soft": 9, "hard": 8}}"#.to_owned(),
            ".core.soft: 9 is above the hard limit, 8; lower it, or raise `hard`".to_owned(),
        ),
        (
            r#"{"core": {"soft": "unlimited", "hard": 8}}"#.to_owned(),
            ".core.soft: unlimited is above the hard limit, 8; lower it, or raise `hard`"
                .to_owned(),
        ),
        (
            r#"{"core": {"soft": 9}}"#.to_owned(),
            format!(".core.hard: the key is missing; {HELP}"),
        ),
    ] {
        let found = in_job(&format!("\"limits\": {limits}"));
        assert_eq!(found.len(), 1, "{limits}: {found:?}");
        let (_, text) = found[0].split_once(": ").expect("a place");
        assert_eq!(text, format!("{AT}{expected}"), "{limits}");
    }
}

#[test]
fn accounts_have_names_and_a_group_has_a_user() {
    for (body, expected) in [
        (r#""user": """#, "user: the name is empty"),
        (
            r#""user": "a\u0000""#,
            "user: the name contains a NUL character",
        ),
        (
            r#""user": "a", "group": []"#,
            "group: expected a string, found an empty array",
        ),
        (
            r#""group": "g""#,
            "group: a group alone cannot be had; name a `user` beside it; without one a task runs as its worker does",
        ),
    ] {
        let found = in_job(body);
        assert_eq!(found.len(), 1, "{body}: {found:?}");
        let expected = format!(": bistro_job->x.task_subprocess.{expected}");
        assert!(found[0].contains(&expected), "{}", found[0]);
    }
}

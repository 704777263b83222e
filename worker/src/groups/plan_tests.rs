//! Tests the plans for all kinds of machines.

use super::super::mounts::parse_mounts;
use super::*;

const MODERN: (u32, u32) = (6, 1);

fn own(path: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(path))
}

/// Returns the facts of a machine under systemd with delegation.
fn unified() -> Facts {
    Facts {
        kernel: MODERN,
        mounts: parse_mounts("1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"),
        unified: Some(Unified {
            own: own("/sys/fs/cgroup/unit"),
            controllers: Ok([Controller::Memory, Controller::Cpu, Controller::Pids].into()),
        }),
        legacy: BTreeMap::new(),
    }
}

fn legacy() -> Facts {
    let text = "\
1 2 0:3 / /c/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
1 2 0:4 / /c/memory rw - cgroup cgroup rw,memory
1 2 0:5 / /c/pids rw - cgroup cgroup rw,pids
1 2 0:6 / /c/freezer rw - cgroup cgroup rw,freezer
1 2 0:7 / /c/devices rw - cgroup cgroup rw,devices
";
    Facts {
        kernel: (3, 10),
        mounts: parse_mounts(text),
        unified: None,
        legacy: BTreeMap::from([
            (Controller::Memory, own("/c/memory/w")),
            (Controller::Cpu, own("/c/cpu,cpuacct")),
            (Controller::Pids, own("/c/pids")),
            (Controller::Freezer, own("/c/freezer")),
        ]),
    }
}

/// Returns the facts of a machine with version 1 for limits and an empty version 2 beside it.
fn hybrid() -> Facts {
    Facts {
        kernel: MODERN,
        unified: Some(Unified {
            own: own("/c/unified"),
            controllers: Ok(BTreeSet::new()),
        }),
        ..legacy()
    }
}

fn closed() -> Facts {
    let refused = || Err("/sys/fs/cgroup is read-only".to_owned());
    Facts {
        unified: Some(Unified {
            own: refused(),
            controllers: refused().map(|_: PathBuf| BTreeSet::new()),
        }),
        ..unified()
    }
}

fn options() -> CGroupOptions {
    CGroupOptions {
        memory_limit_in_bytes: 1 << 20,
        cpu_shares: 4,
        cpu_quota_milli: 1500,
        pids_max: 9,
        ..CGroupOptions::default()
    }
}

fn parents(spots: &[Spot]) -> Vec<&str> {
    spots.iter().filter_map(|s| s.parent.to_str()).collect()
}

fn versions(facts: &Facts) -> Vec<Option<Version>> {
    let all = capabilities(facts);
    let version = |ability: &Ability| match ability {
        Ability::Enforced(version) => Some(*version),
        Ability::Missing(_) => None,
    };
    all.all().map(|(_, ability)| version(ability)).to_vec()
}

#[test]
fn each_kind_of_machine_says_what_it_can() {
    use Version::{One, Two};
    assert_eq!(versions(&unified()), [Some(Two); 7]);
    assert_eq!(versions(&legacy()), [Some(One); 7]);
    let (one, two) = (Some(One), Some(Two));
    assert_eq!(versions(&hybrid()), [one, one, one, one, two, two, two]);
    assert_eq!(versions(&closed()), [None; 7]);
    assert_eq!(versions(&Facts::default()), [None; 7]);
}

#[test]
fn what_is_missing_says_why() {
    let text = |facts: &Facts| capabilities(facts).memory.to_string();
    assert_eq!(text(&closed()), "missing: /sys/fs/cgroup is read-only");
    assert_eq!(
        text(&Facts::default()),
        "missing: no control groups are mounted that have `memory`"
    );
    let mut some = unified();
    some.unified.as_mut().expect("there").controllers = Ok([Controller::Cpu].into());
    assert_eq!(
        text(&some),
        "missing: `memory` is not among the controllers that /sys/fs/cgroup/unit was given"
    );
    assert_eq!(text(&unified()), "by control groups of version 2");
    let old = Facts {
        kernel: (4, 19),
        ..unified()
    };
    let kill = capabilities(&old).kill.to_string();
    assert!(kill.contains("older than 5.2"), "{kill}");
    let emptiness = capabilities(&old).emptiness;
    assert_eq!(emptiness, Ability::Enforced(Version::Two));
}

#[test]
fn one_hierarchy_has_one_group_for_all_limits() {
    let spots = spots(&unified(), &options(), &[]).expect("had");
    assert_eq!(parents(&spots), ["/sys/fs/cgroup/unit/brasserie"]);
    assert_eq!(
        spots[0].settings,
        [
            Setting::Memory(1 << 20),
            Setting::Shares(4),
            Setting::Quota(1500),
            Setting::Pids(9)
        ]
    );
}

#[test]
fn a_hybrid_machine_limits_by_one_and_kills_by_the_other() {
    let spots = spots(&hybrid(), &options(), &[]).expect("had");
    assert_eq!(
        parents(&spots),
        [
            "/c/memory/w/brasserie",
            "/c/cpu,cpuacct/brasserie",
            "/c/pids/brasserie",
            "/c/unified/brasserie"
        ]
    );
    assert_eq!(spots[1].settings.len(), 2);
    assert_eq!(spots[3].version, Version::Two);
    assert_eq!(spots[3].settings, []);
}

#[test]
fn without_version_two_the_freezer_or_the_pids_kill() {
    let memory_only = CGroupOptions {
        memory_limit_in_bytes: 1,
        ..CGroupOptions::default()
    };
    let found = spots(&legacy(), &memory_only, &[]).expect("had");
    assert_eq!(
        parents(&found),
        ["/c/memory/w/brasserie", "/c/freezer/brasserie"]
    );
    let mut bare = legacy();
    bare.legacy.remove(&Controller::Freezer);
    let found = spots(&bare, &memory_only, &[]).expect("had");
    assert_eq!(
        parents(&found),
        ["/c/memory/w/brasserie", "/c/pids/brasserie"]
    );
    bare.legacy.remove(&Controller::Pids);
    let error = spots(&bare, &memory_only, &[]).expect_err("refused");
    assert!(
        error.to_string().contains("kill_without_freezer"),
        "{error}"
    );
    let racy = CGroupOptions {
        kill_without_freezer: true,
        ..memory_only
    };
    let found = spots(&bare, &racy, &[]).expect("had");
    assert_eq!(parents(&found), ["/c/memory/w/brasserie"]);
}

#[test]
fn a_limit_that_cannot_be_had_is_refused_by_name() {
    let error = spots(&closed(), &options(), &[]).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "it asks for a memory limit of 1048576 bytes, which cannot be had here: /sys/fs/cgroup is read-only"
    );
    let mut some = hybrid();
    some.legacy.remove(&Controller::Pids);
    let error = spots(&some, &options(), &[]).expect_err("refused");
    assert!(error.to_string().contains("9 processes"), "{error}");
}

#[test]
fn named_places_are_used_and_what_they_lack_comes_from_the_worker() {
    let named = |subsystem: &str, path: &str| Named {
        subsystem: subsystem.to_owned(),
        path: path.into(),
    };
    let places = [
        named("cpu", "/c/cpu,cpuacct/slice"),
        named("cpuacct", "/c/cpu,cpuacct/slice"),
        named("freezer", "/c/freezer/slice"),
    ];
    let found = spots(&legacy(), &options(), &places).expect("had");
    assert_eq!(
        parents(&found),
        [
            "/c/cpu,cpuacct/slice",
            "/c/freezer/slice",
            "/c/memory/w/brasserie",
            "/c/pids/brasserie"
        ]
    );
    assert_eq!(found[0].owner, GroupOwner::Administrator);
    assert_eq!(
        found[0].settings,
        [Setting::Shares(4), Setting::Quota(1500)]
    );
    assert_eq!(found[2].owner, GroupOwner::Worker);
    // Only folders of the named controller are accepted.
    for (subsystem, path) in [
        ("memory", "/c/cpu,cpuacct/slice"),
        ("memory", "/etc/memory"),
    ] {
        let error = spots(&legacy(), &options(), &[named(subsystem, path)]);
        assert!(
            matches!(error, Err(PlanError::NotAGroup { .. })),
            "{error:?}"
        );
    }
}

#[test]
fn only_tasks_with_limits_have_a_group() {
    assert!(!asks_for_a_group(&CGroupOptions::default()));
    assert!(asks_for_a_group(&options()));
    let named = CGroupOptions {
        subsystems: vec!["cpu".to_owned()],
        ..CGroupOptions::default()
    };
    assert!(asks_for_a_group(&named));
    let nowhere = CGroupOptions {
        root: "/sys/fs/cgroup".to_owned(),
        slice: "x".to_owned(),
        kill_without_freezer: true,
        ..CGroupOptions::default()
    };
    assert!(!asks_for_a_group(&nowhere));
}

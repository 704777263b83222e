//! Tests that the last good config file survives: a file is kept once it is in force, and comes into force again when the present file
//! cannot be used.

use std::sync::Arc;
use std::time::Duration;

use brasserie_scheduler_core::{
    Answer, ConfigInForce, ConfigOrigin, Durable, Event, FileText, KeptConfig, Query, ReadBy,
    Record,
};

use crate::support::{Script, config, one_job, options, worker};
use crate::{FILE_WITH_API, JOB, create, delete, reasons, restarted};

const PATH: &str = "/etc/c.json";

fn loaded(path: &str, text: &str) -> Event {
    Event::ConfigLoaded {
        config: config(text),
        warnings: Vec::new(),
        origin: ConfigOrigin::File(FileText {
            path: path.into(),
            text: text.into(),
        }),
    }
}

fn text(owner: &str) -> String {
    format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs": {{"n0": []}}}}]}},
            "resources": {{}}}}, "bistro_job->j": {{"owner": "{owner}", "command": ["/bin/true"], "enabled": false}}}}"#
    )
}

fn kept(s: &Script) -> usize {
    let is_kept = |record: &&Record| matches!(record, Record::ConfigKept { .. });
    s.records.iter().filter(is_kept).count()
}

fn in_force(s: &mut Script) -> ConfigInForce {
    s.status().config.expect("a configuration is in force")
}

/// Restarts with a file that cannot be used.
fn restart_without_file(s: Script) -> Script {
    let mut s = s.restart(restarted());
    if s.durable.config.is_some() {
        s.event(Event::ConfigLoaded {
            // The shell reads the configuration from the kept text.
            config: config(&s.durable.config.clone().expect("it was kept").text),
            warnings: Vec::new(),
            origin: ConfigOrigin::Kept,
        });
    }
    s.event(Event::ConfigFailed {
        message: "c.json:1:1: no".to_owned(),
    });
    s
}

#[test]
fn a_file_in_force_is_kept_once() {
    let mut s = Script::new(options(), Durable::default());
    assert_eq!(s.status().config, None);
    s.event(loaded(PATH, &text("ann")));
    assert_eq!(kept(&s), 1);
    let first = in_force(&mut s);
    assert_eq!(first.path.as_deref(), Some(PATH));
    assert_eq!(first.read_by, ReadBy::ThisScheduler);
    s.advance(Duration::from_secs(60));
    // The same file is loaded again after a bad one.
    s.event(Event::ConfigFailed {
        message: "c.json:1:1: no".to_owned(),
    });
    s.event(loaded(PATH, &text("ann")));
    assert_eq!((kept(&s), in_force(&mut s)), (1, first.clone()));
    s.event(loaded(PATH, &text("eve")));
    let second = in_force(&mut s);
    assert_eq!(kept(&s), 2);
    assert!(second.since > first.since);
    // The same text in another folder has other relative paths.
    s.event(loaded("/srv/c.json", &text("eve")));
    assert_eq!(kept(&s), 3);
    // A configuration that comes from no file is not kept.
    s.load(one_job(1, ""));
    assert_eq!((kept(&s), in_force(&mut s).path), (3, None));
}

#[test]
fn the_last_good_file_decides_after_a_restart_until_the_file_is_good() {
    let mut s = Script::new(options(), Durable::default());
    s.event(loaded(PATH, &text("ann")));
    let since = in_force(&mut s).since;
    s.advance(Duration::from_secs(60));
    let mut s = restart_without_file(s);
    let stands_in = in_force(&mut s);
    assert_eq!(
        (stands_in.read_by, stands_in.since),
        (ReadBy::AnEarlierScheduler, since)
    );
    assert_eq!(stands_in.path.as_deref(), Some(PATH));
    assert_eq!(s.status().jobs[0].name.as_str(), "j");
    let errors = s.status().errors.join("\n");
    for part in ["c.json:1:1: no", "last good config", "earlier scheduler"] {
        assert!(errors.contains(part), "{errors}");
        assert!(reasons(&s, "j", "nobody").contains(part) || reasons(&s, "j", "n0").contains(part));
    }
    assert_eq!(kept(&s), 0, "nothing new to write");
    s.event(loaded(PATH, &text("ann")));
    assert_eq!(s.status().errors, Vec::<String>::new());
    let again = in_force(&mut s);
    assert_eq!((again.read_by, again.since), (ReadBy::ThisScheduler, since));
    // A second restart changes nothing.
    let mut s = restart_without_file(restart_without_file(s));
    assert_eq!(in_force(&mut s).read_by, ReadBy::AnEarlierScheduler);
}

#[test]
fn a_file_that_is_not_in_force_is_not_kept() {
    let mut s = Script::new(options(), Durable::default());
    s.event(loaded(PATH, &text("ann")));
    create(&mut s, "api", JOB);
    s.event(loaded(PATH, FILE_WITH_API));
    assert_eq!(kept(&s), 1);
    let KeptConfig { text: known, .. } = s.durable.config.clone().expect("it was kept");
    assert_eq!(*known, *text("ann"));
    delete(
        &mut s,
        "api",
        brasserie_scheduler_core::ExpectedVersion::Any,
    )
    .expect("deleted");
    assert_eq!(kept(&s), 2);
    assert_eq!(*s.durable.config.expect("it was kept").text, *FILE_WITH_API);
}

/// A crash before the record is durable leaves the former file in force.
#[test]
fn a_crash_leaves_the_one_before_it() {
    let mut s = Script::new(options(), Durable::default());
    s.event(loaded(PATH, &text("ann")));
    s.join(&worker("w", 1, 10));
    s.sync_at_once = false;
    s.event(loaded(PATH, &text("eve")));
    let s = restart_without_file(s);
    let Answer::Config(Some(config)) = s.scheduler.answer(s.now, &Query::Config) else {
        panic!("a configuration")
    };
    let config: Arc<_> = config;
    assert_eq!(config.job("j").expect("the job").owner, "ann");
}

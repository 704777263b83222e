//! Files as inputs: where a job finds them, what a task without one waits for, and how long workers keep their copies.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{Artifact, ArtifactHolder, JobName, Principal, WorkerSetId};
use brasserie_common_config::Config;
use brasserie_scheduler_core::files::{ConfiguredFile, KnownFiles, UploadAccess};
use brasserie_scheduler_core::{
    Answer, Event, ExpectedVersion, FileList, FileOrigin, JobChange, ListedFile, Query,
};

use super::{Run, Store, artifact, explain, pass, start, starts};
use crate::support::{Script, config, options};

/// One node and a job that reads `dims.csv`.
fn one_reader() -> Arc<Config> {
    config(
        r#"{"bistro_settings": {"nodes": {"levels": ["l"],
            "node_sources": [{"source": "manual", "prefs": {"n0": [], "n1": []}}]}, "resources": {}},
            "bistro_job->read": {"owner": "o", "command": ["/bin/true"], "inputs": [{"file": "./dims.csv", "as": "d"}]}}"#,
    )
}

/// Tells the core about a file in the config file's folder and an uploaded one.
fn know(script: &mut Script, configured: ConfiguredFile, uploaded: Option<Artifact>) {
    let present = match configured {
        ConfiguredFile::Present(artifact) => Some(artifact),
        ConfiguredFile::Reading | ConfiguredFile::Absent | ConfiguredFile::Unusable(_) => None,
    };
    let files = KnownFiles {
        folder: "/conf".into(),
        configured: [("dims.csv".into(), configured)].into(),
        uploaded: uploaded
            .into_iter()
            .map(|it| ("dims.csv".into(), it))
            .collect(),
        earlier: Default::default(),
        stored: present
            .into_iter()
            .chain(uploaded)
            .map(|it| it.id)
            .collect(),
        uploads: UploadAccess::Open,
    };
    script.event(Event::FilesKnown {
        files: Arc::new(files),
    });
    pass(script, Duration::from_secs(2), None);
}

/// Tells the core about the file `dims.csv` of the configuration, for tests of other parts.
pub(super) fn know_present(script: &mut Script, file: Artifact) {
    know(script, ConfiguredFile::Present(file), None);
}

/// Returns the first content byte, the place and the holders of a run's only input.
fn input(run: &Run) -> (u8, String, Vec<ArtifactHolder>) {
    let artifacts = run.artifacts.as_ref().expect("it has inputs");
    let input = &artifacts.inputs[0];
    let holders = input
        .holders
        .iter()
        .map(|&at| artifacts.holders[at].clone());
    (
        input.artifact.id.0[0],
        input.place.to_string(),
        holders.collect(),
    )
}

fn list(script: &Script) -> Vec<ListedFile> {
    let query = Query::Files(FileList {
        name: None,
        after: None,
        limit: 10,
    });
    match script.scheduler.answer(script.now, &query) {
        Answer::Files(page) => page.files,
        other => panic!("a page of files, not {other:?}"),
    }
}

#[test]
fn a_task_waits_for_its_file_and_gets_it_from_the_scheduler_and_from_workers() {
    let mut script = Script::with_config(one_reader());
    let mut one = Store::join(&mut script, "a", 1);
    let why = |script: &Script| explain(script, "read", "n0").join("\n");
    assert!(starts(&script).is_empty());
    assert!(
        why(&script).contains("is reading the file `dims.csv`"),
        "{}",
        why(&script)
    );
    know(&mut script, ConfiguredFile::Absent, None);
    assert!(starts(&script).is_empty());
    assert!(why(&script).contains("there is no file `dims.csv` in the config file's folder /conf"));
    let errors = script.status().errors.join("\n");
    assert!(
        errors.contains("brasserie artifact put FILE --name dims.csv"),
        "{errors}"
    );
    // The tasks wait for the file, and not after a run. One line is for all of them, as long as one waits.
    assert_eq!(errors.matches("lack").count(), 1, "{errors}");
    let counts = script.status().jobs[0].counts;
    assert_eq!((counts.unstarted, counts.in_backoff), (2, 0));
    know(&mut script, ConfiguredFile::Present(artifact(7)), None);
    let run = start(&mut script, "read", "n0");
    assert_eq!(
        input(&run),
        (7, "d".to_owned(), vec![ArtifactHolder::scheduler()])
    );
    let errors = script.status().errors.join("\n");
    assert!(!errors.contains("lack"), "{errors}");
    one.artifacts.insert(artifact(7).id);
    one.new.push(artifact(7).id);
    one.settle(&mut script);
    let mut two = Store::join(&mut script, "b", 2);
    let answer = two.report(&mut script);
    assert!(answer.unwanted.is_empty());
    let listed = &list(&script)[0];
    assert_eq!((listed.copies, listed.holders[0].shard.as_str()), (1, "a"));
    assert_eq!(listed.jobs, [JobName::try_from("read").expect("a name")]);
}

#[test]
fn a_file_that_is_replaced_stays_for_the_runs_that_have_started_with_it() {
    let mut script = Script::with_config(one_reader());
    let mut store = Store::join(&mut script, "a", 1);
    know(&mut script, ConfiguredFile::Present(artifact(7)), None);
    let old = start(&mut script, "read", "n0");
    let also_old = start(&mut script, "read", "n1");
    store.done(&mut script, &also_old, &[]);
    for content in [7, 8] {
        store.artifacts.insert(artifact(content).id);
        store.new.push(artifact(content).id);
    }
    know(&mut script, ConfiguredFile::Present(artifact(8)), None);
    store.settle(&mut script);
    pass(&mut script, Duration::from_secs(120), None);
    store.settle(&mut script);
    assert_eq!(store.artifacts.len(), 2, "a run reads the old file");
    let ids = vec![artifact(7).id, artifact(8).id];
    let read = script
        .scheduler
        .answer(script.now, &Query::FileReaders(ids));
    assert_eq!(read, Answer::FileReaders([artifact(7).id].into()));
    store.done(&mut script, &old, &[]);
    for _ in 0..3 {
        pass(&mut script, Duration::from_secs(61), None);
        store.settle(&mut script);
    }
    assert_eq!(
        store.artifacts,
        [artifact(8).id].into(),
        "the new file is kept without a run"
    );
}

#[test]
fn a_run_that_a_restarted_scheduler_adopts_keeps_all_its_inputs() {
    let two_inputs = || {
        config(
            r#"{"bistro_settings": {"nodes": {"levels": ["l"],
                "node_sources": [{"source": "manual", "prefs": {"n0": []}}]}, "resources": {}},
                "bistro_job->extract": {"owner": "o", "command": ["/bin/true"], "outputs": ["table"]},
                "bistro_job->read": {"owner": "o", "command": ["/bin/true"],
                    "inputs": [{"file": "dims.csv"}, {"from": "extract"}]}}"#,
        )
    };
    let mut script = Script::with_config(two_inputs());
    let mut store = Store::join(&mut script, "a", 1);
    let extract = start(&mut script, "extract", "n0");
    store.done(&mut script, &extract, &[1]);
    know(&mut script, ConfiguredFile::Present(artifact(7)), None);
    let read = start(&mut script, "read", "n0");
    let mut script = script.restart(options());
    script.load(two_inputs());
    know(&mut script, ConfiguredFile::Reading, None);
    script
        .heartbeat(&store.worker, WorkerSetId::default())
        .expect("the same instance");
    script.answer_fetch(vec![read.task.clone()]);
    script.answer_healthcheck(&store.worker);
    store.has_copied(artifact(7).id);
    store.settle(&mut script);
    let readers = |script: &Script| {
        let ids = vec![artifact(1).id, artifact(7).id];
        script
            .scheduler
            .answer(script.now, &Query::FileReaders(ids))
    };
    let table = [artifact(1).id].into();
    assert_eq!(readers(&script), Answer::FileReaders(table));
    know(&mut script, ConfiguredFile::Present(artifact(7)), None);
    let both = [artifact(1).id, artifact(7).id].into();
    assert_eq!(readers(&script), Answer::FileReaders(both));
    store.done(&mut script, &read, &[]);
    assert_eq!(readers(&script), Answer::FileReaders([].into()));
}

#[test]
fn an_uploaded_file_is_for_submitted_jobs_and_for_those_without_a_file_in_the_folder() {
    let mut script = Script::with_config(one_reader());
    // The slots of one worker are too few for the tasks of both jobs.
    let _stores = [("a", 1), ("b", 2)].map(|(shard, lock)| Store::join(&mut script, shard, lock));
    know(
        &mut script,
        ConfiguredFile::Unusable("it is a pipe".to_owned()),
        None,
    );
    let request = script.request();
    script.event(Event::ChangeJob {
        request,
        from: Principal::Own,
        job: JobName::try_from("given").expect("a name"),
        change: JobChange::Save {
            text: r#"{"command": ["/bin/true"], "inputs": [{"file": "dims.csv"}]}"#.into(),
            expected: ExpectedVersion::Any,
        },
    });
    script.sync();
    pass(&mut script, Duration::from_secs(2), None);
    let why = explain(&script, "given", "n0").join("\n");
    assert!(why.contains("a submitted job has no folder"), "{why}");
    let problems: Vec<String> = list(&script)
        .into_iter()
        .filter_map(|it| it.content.err())
        .collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems[0].ends_with("cannot be an input: it is a pipe"),
        "{problems:?}"
    );
    know(
        &mut script,
        ConfiguredFile::Unusable("it is a pipe".to_owned()),
        Some(artifact(9)),
    );
    let given = start(&mut script, "given", "n0");
    assert_eq!(input(&given).0, 9);
    assert!(
        starts(&script)
            .iter()
            .all(|start| !start.starts_with("read"))
    );
    know(&mut script, ConfiguredFile::Absent, Some(artifact(9)));
    assert_eq!(input(&start(&mut script, "read", "n1")).0, 9);
    let listed = list(&script);
    assert_eq!((listed.len(), listed[0].origin), (1, FileOrigin::Uploaded));
    assert_eq!(listed[0].jobs_total, 2);
}

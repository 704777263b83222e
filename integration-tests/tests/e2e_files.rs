//! Tests files as inputs with real programs: those in the config file's folder, and those that people upload.

use std::fs;

use integration_tests::e2e::{Finished, Process, SchedulerSpec, Stage, wait_for};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

fn sha256(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each of eight tasks checks that its input has this SHA-256, and says so in a file of the stage.
fn checker(stage: &Stage, file: &str, sha256: &str) -> Value {
    let proof = stage.path("proof");
    fs::create_dir_all(&proof).expect("a folder");
    // A file is at its own name, without its folders.
    let name = file.rsplit('/').next().unwrap_or_default();
    let script = format!(
        "echo '{sha256}  '$BRASSERIE_INPUTS/{name} | sha256sum -c; touch {}/$BRASSERIE_JOB-$BRASSERIE_NODE",
        proof.display()
    );
    json!({
        "command": ["/bin/sh", "-ec", script],
        "arguments": "none", "status_from": "exit_code",
        "inputs": [{"file": file}],
    })
}

fn config(jobs: &[(&str, Value)]) -> Value {
    let mut config = json!({
        "bistro_settings": {
            "nodes": {"levels": ["part"], "node_sources": [{"source": "range_label", "prefs": {
                "parent_level": "instance", "format": "n{i}", "start": 1, "end": 8,
            }}]},
            "resources": {"worker": {"slots": {"default": 1, "limit": 1}}},
        },
    });
    for (name, job) in jobs {
        config[format!("bistro_job->{name}")] = job.clone();
    }
    config
}

struct Cluster {
    stage: Stage,
    spec: SchedulerSpec,
    scheduler: Process,
}

impl Cluster {
    fn start(stage: Stage, config: &Value) -> Self {
        let config = stage.write("config.json", &config.to_string());
        let spec = stage.calm_spec(&config);
        let scheduler = stage.start_scheduler(&spec);
        let cluster = Cluster {
            stage,
            spec,
            scheduler,
        };
        cluster.wait_up();
        cluster
    }

    fn wait_up(&self) {
        wait_for("the scheduler to answer", || {
            (self.ask(&["status"]).code == Some(0)).then_some(())
        });
    }

    fn worker(&self, shard: &str) -> Process {
        self.stage
            .start_worker(&self.stage.worker_spec(shard, &self.spec))
    }

    fn restart(&mut self) {
        self.scheduler.kill_with_keeper();
        self.scheduler = self.stage.start_scheduler(&self.spec);
        self.wait_up();
    }

    fn ask(&self, arguments: &[&str]) -> Finished {
        let address = format!("127.0.0.1:{}", self.spec.port);
        let mut all = arguments.to_vec();
        all.extend(["--scheduler", &address]);
        self.stage.brasserie(&all)
    }

    fn files(&self) -> Vec<Value> {
        let listed = self.ask(&["artifact", "list", "--json"]).output;
        let listed: Value = serde_json::from_str(&listed).unwrap_or_default();
        listed["files"].as_array().cloned().unwrap_or_default()
    }

    fn wait_done(&self, job: &str) {
        let waited = self.ask(&["job", "wait", job, "--timeout", "120s"]);
        assert_eq!(
            waited.code,
            Some(0),
            "{waited:?} {:?}",
            self.ask(&["explain", job])
        );
    }

    fn proofs(&self, job: &str) -> usize {
        let proof = fs::read_dir(self.stage.path("proof")).expect("a folder");
        let names = proof.map(|entry| entry.expect("an entry").file_name());
        let prefix = format!("{job}-");
        names
            .filter(|name| name.to_string_lossy().starts_with(&prefix))
            .count()
    }

    /// Waits until a file of the list has this SHA-256, or is missing.
    fn wait_listed(&self, name: &str, sha256: Option<&str>) -> Value {
        wait_for(&format!("{name} to have {sha256:?}"), || {
            let mut files = self.files().into_iter();
            files.find(|file| file["name"] == *name && file["sha256"].as_str() == sha256)
        })
    }
}

#[test]
fn a_file_beside_the_config_reaches_the_tasks_of_all_workers_and_a_new_one_replaces_it() {
    let stage = Stage::new();
    let (first, second) = (vec![7; 5 << 20], b"another content".to_vec());
    let early = checker(&stage, "dims.csv", &sha256(&first));
    let late = checker(&stage, "dims.csv", &sha256(&second));
    let mut cluster = Cluster::start(stage, &config(&[("early", early.clone())]));
    let workers = [cluster.worker("one"), cluster.worker("two")];
    let why = wait_for("a task to say what it waits for", || {
        let why = cluster.ask(&["explain", "early", "n1"]).output;
        why.contains("there is no file `dims.csv`").then_some(why)
    });
    assert!(
        why.contains("brasserie artifact put FILE --name dims.csv"),
        "{why}"
    );
    cluster.wait_listed("dims.csv", None);
    fs::write(cluster.stage.path("dims.csv"), &first).expect("written");
    cluster.wait_done("early");
    assert_eq!(cluster.proofs("early"), 8);
    let listed = cluster.wait_listed("dims.csv", Some(&sha256(&first)));
    assert_eq!(
        (&listed["origin"], &listed["bytes"]),
        (&json!("config"), &json!(5 << 20))
    );
    assert_eq!(listed["jobs"], json!(["early"]), "{listed}");
    cluster.restart();
    cluster.wait_listed("dims.csv", Some(&sha256(&first)));
    fs::write(cluster.stage.path("dims.csv"), &second).expect("written");
    cluster.wait_listed("dims.csv", Some(&sha256(&second)));
    let both = config(&[("early", early), ("late", late)]);
    cluster.stage.write("config.json", &both.to_string());
    wait_for("the new job to be read", || {
        (cluster.ask(&["explain", "late"]).code == Some(0)).then_some(())
    });
    cluster.wait_done("late");
    assert_eq!(cluster.proofs("late"), 8);
    drop(workers);
}

#[test]
fn an_uploaded_file_is_for_submitted_jobs_and_survives_a_restart() {
    let stage = Stage::new();
    let content = b"uploaded".repeat(1 << 19);
    let id = sha256(&content);
    let job = checker(&stage, "lookup/up.bin", &id);
    let job = stage.write("given.json", &job.to_string());
    let local = stage.path("local");
    fs::write(&local, &content).expect("written");
    let (local, job) = (local.display().to_string(), job.display().to_string());
    let mut cluster = Cluster::start(stage, &config(&[]));
    let put = cluster.ask(&["artifact", "put", &local, "--name", "lookup/up.bin"]);
    assert_eq!(put.code, Some(0), "{put:?}");
    assert!(put.output.contains(&format!("SHA-256 {id}")), "{put:?}");
    cluster.restart();
    let listed = cluster.wait_listed("lookup/up.bin", Some(&id));
    assert_eq!(listed["origin"], "uploaded");
    let submitted = cluster.ask(&["job", "submit", &job]);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    let workers = [cluster.worker("one"), cluster.worker("two")];
    cluster.wait_done("given");
    assert_eq!(cluster.proofs("given"), 8);
    let refused = cluster.ask(&["artifact", "rm", "--file", "lookup/up.bin"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.output.contains("is an input of `given`"),
        "{refused:?}"
    );
    let located = cluster.ask(&["artifact", "locate", "--file", "lookup/up.bin"]);
    assert!(located.output.contains("the scheduler"), "{located:?}");
    let got = cluster.stage.path("got");
    let to = got.display().to_string();
    let got_it = cluster.ask(&["artifact", "get", "--file", "lookup/up.bin", "--to", &to]);
    assert_eq!(got_it.code, Some(0), "{got_it:?}");
    assert_eq!(fs::read(&got).expect("it is there"), content);
    let removed = cluster.ask(&["artifact", "rm", "--file", "lookup/up.bin", "--force"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    let gone = cluster.ask(&[
        "artifact",
        "get",
        "--file",
        "lookup/up.bin",
        "--to",
        &to,
        "--force",
    ]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.output.contains("no file was uploaded"), "{gone:?}");
    drop(workers);
}

#[test]
fn mistakes_with_files_are_explained() {
    let stage = Stage::new();
    let folder = stage.path("folder");
    fs::create_dir(&folder).expect("a folder");
    let (folder, absent) = (
        folder.display().to_string(),
        stage.path("absent").display().to_string(),
    );
    let file = stage.write("file", "content").display().to_string();
    let cluster = Cluster::start(stage, &config(&[]));
    for (arguments, code, said) in [
        (&["put", &folder][..], 1, "it is a folder"),
        (&["put", &absent], 1, "No such file"),
        (
            &["put", &file, "--name", "../up"],
            1,
            "is no name of a file",
        ),
        (&["put"], 2, "required"),
        (
            &["rm", "--file", "none"],
            1,
            "no file was uploaded under the name `none`",
        ),
        (&["get", "--file", "none"], 1, "there is no file `none`"),
        (&["get", "job"], 2, "several outputs need a folder"),
    ] {
        let mut all = vec!["artifact"];
        all.extend(arguments);
        let finished = cluster.ask(&all);
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(finished.output.contains(said), "{said}: {finished:?}");
    }
}

//! Tests that tasks get GPUs of their own, also across a restart of the scheduler. A script in place of `nvidia-smi` lists the GPUs in its
//! format. Tasks learn their GPUs from environment variables, so no real GPU is needed.

use std::collections::BTreeMap;
use std::fs;

use integration_tests::e2e::{Client, PATIENCE, SchedulerSpec, Stage, WorkerSpec, wait_within};
use serde_json::{Value, json};

const NODES: usize = 6;
const UUIDS: [&str; 3] = [
    "GPU-5d6f0f1c-9c6e-4c1b-9a4e-0f3b3f7e0001",
    "GPU-5d6f0f1c-9c6e-4c1b-9a4e-0f3b3f7e0002",
    "GPU-5d6f0f1c-9c6e-4c1b-9a4e-0f3b3f7e0003",
];
/// Each job with the slots of a task (half a GPU each), the number of its GPUs, and the thousandths of each.
const JOBS: [(&str, i32, usize, u32); 3] = [
    ("half", 1, 1, 500),
    ("whole", 2, 1, 1000),
    ("pair", 4, 2, 1000),
];

/// A task that logs the GPUs that it sees when it starts and when it ends. It ends once the file `go` exists.
const TASK: &str = r#"#!/bin/sh
log=$1/log go=$1/go
say() { echo "$1 $BRASSERIE_JOB $BRASSERIE_NODE ${CUDA_VISIBLE_DEVICES-unset} ${CUDA_DEVICE_ORDER-unset}" >> "$log"; }
say begin
while [ ! -e "$go" ]; do sleep 0.05; done
sleep 0.05
say end
"#;

fn nvidia_smi(stage: &Stage) -> String {
    nvidia_smi_of(stage, UUIDS.len())
}

/// Returns the path of a fake `nvidia-smi` that lists the first `cards` GPUs.
fn nvidia_smi_of(stage: &Stage, cards: usize) -> String {
    let row = |(i, uuid): (usize, &&str)| {
        format!(
            "{i}, {uuid}, 00000000:{:02X}:00.0, 81559, NVIDIA H100 80GB HBM3",
            0x3b + i
        )
    };
    let rows: Vec<String> = UUIDS[..cards].iter().enumerate().map(row).collect();
    let question =
        "--format=csv,noheader,nounits --query-gpu=index,uuid,gpu_bus_id,memory.total,name";
    // The fake program lists no processes, and creates a file when it is asked for them.
    let of_processes =
        "--format=csv,noheader,nounits --query-compute-apps=pid,gpu_bus_id,used_gpu_memory";
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = '{of_processes}' ] && exec touch \"$0.asked\"\n[ \"$*\" = '{question}' ] || exit 2\ncat <<'END'\n{}\nEND\n",
        rows.join("\n")
    );
    let path = stage.write_script("nvidia-smi", &script);
    format!("--nvidia-smi={}", path.display())
}

fn config(stage: &Stage) -> Value {
    let command = stage.write_script("work/task.sh", TASK);
    let command = json!([command, stage.path("work")]);
    let mut config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "range_label", "prefs":
                { "parent_level": "instance", "format": "n{i}", "start": 1, "end": NODES } }] },
            "resources": { "worker": { "gpu": { "default": 0, "limit": 0 } } },
            "physical_resources": { "gpu_card": { "logical_resource": "gpu", "multiply_logical_by": 0.5 } }
        },
        // This job needs no GPU, and its tasks see what the operator passes.
        "bistro_job->none": { "command": command.clone(), "arguments": "none" }
    });
    for (job, slots, _, _) in JOBS {
        let job = format!("bistro_job->{job}");
        config[job] = json!({ "command": command.clone(), "arguments": "none", "resources": { "gpu": slots } });
    }
    config
}

/// One line of the log.
struct Line {
    begins: bool,
    job: String,
    devices: Vec<String>,
    order: String,
}

fn log(stage: &Stage) -> Vec<Line> {
    let text = fs::read_to_string(stage.path("work/log")).unwrap_or_default();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, job, _, devices, order] = words[..] else {
            panic!("{line}");
        };
        Line {
            begins: what == "begin",
            job: job.to_owned(),
            devices: devices.split(',').map(str::to_owned).collect(),
            order: order.to_owned(),
        }
    };
    text.lines().map(line).collect()
}

/// Checks that no GPU is overcommitted between the two lines of each task. Returns the most that was in use at once, in thousandths.
fn check(lines: &[Line]) -> u32 {
    let mut taken: BTreeMap<&str, u32> = BTreeMap::new();
    let mut most = 0;
    for line in lines {
        let Some((job, _, cards, milli)) = JOBS.iter().find(|job| job.0 == line.job) else {
            assert_eq!(
                (&line.devices[..], &*line.order),
                (&["77".to_owned()][..], "OTHER")
            );
            continue;
        };
        assert_eq!(line.devices.len(), *cards, "{job}");
        assert_eq!(line.order, "PCI_BUS_ID", "{job}");
        for device in &line.devices {
            assert!(UUIDS.contains(&device.as_str()), "{job}: {device}");
            let of_card = taken.entry(device).or_default();
            *of_card = match line.begins {
                true => *of_card + milli,
                false => *of_card - milli,
            };
            assert!(
                *of_card <= 1000,
                "{job} has {device}, of which {of_card} is taken"
            );
        }
        most = most.max(taken.values().sum());
    }
    most
}

fn start_worker(stage: &Stage, spec: &SchedulerSpec) -> integration_tests::e2e::Process {
    let mut worker: WorkerSpec = stage.worker_spec("one", spec);
    worker.flags.push(nvidia_smi(stage));
    worker.flags.push("--pass-environment=*".to_owned());
    let mut command = stage.worker_command(&worker);
    command.env("CUDA_VISIBLE_DEVICES", "77");
    command.env("CUDA_DEVICE_ORDER", "OTHER");
    stage.start("worker-one", command)
}

#[test]
fn no_card_is_taken_twice_also_if_the_scheduler_is_killed_meanwhile() {
    let stage = Stage::new();
    let config = stage.write("config.json", &format!("{:#}", config(&stage)));
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _worker = start_worker(&stage, &spec);
    let with_cards = |lines: &[Line]| lines.iter().filter(|l| l.job != "none").count();
    // Round robin starts one task of each kind, which leaves half a GPU free.
    let taken = |least: u32| {
        let lines = log(&stage);
        let sum: u32 = lines
            .iter()
            .flat_map(|line| JOBS.iter().filter(|job| job.0 == line.job))
            .map(|(_, _, cards, milli)| milli * *cards as u32)
            .sum();
        (sum >= least).then_some(lines)
    };
    let full = wait_within(PATIENCE, "the cards to be taken", || taken(2500));
    check(&full);
    wait_within(PATIENCE, "the worker to ask which tasks use cards", || {
        stage.path("nvidia-smi.asked").exists().then_some(())
    });
    scheduler.kill_program();
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_healthy(1);
    // The new scheduler has placed all tasks that fit, and shows why it places no more.
    let address = format!("127.0.0.1:{}", spec.port);
    wait_within(PATIENCE, "a reason", || {
        // Running tasks have no such reason.
        let has_reason = |number: usize| {
            let node = format!("n{number}");
            let asked = ["explain", "pair", &node, "--scheduler", &address];
            stage.brasserie(&asked).output.contains("without room")
        };
        (1..=NODES).any(has_reason).then_some(())
    });
    let before = wait_within(PATIENCE, "the other half to be taken", || taken(3000));
    check(&before);
    assert!(before.iter().all(|line| line.begins), "nobody was ended");
    assert!(with_cards(&before) >= with_cards(&full));
    stage.write("work/go", "");
    client.wait_all_done();
    let lines = log(&stage);
    assert_eq!(check(&lines), 3000, "and all of them are used");
    assert_eq!(with_cards(&lines), 2 * NODES * JOBS.len(), "each runs once");
    assert_eq!(lines.len(), 2 * NODES * (JOBS.len() + 1));
}

#[test]
fn a_run_by_hand_gives_cards_as_well() {
    let stage = Stage::new();
    let mut config = config(&stage);
    let jobs = config.as_object_mut().expect("it is one");
    jobs.remove("bistro_job->none");
    let config = stage.write("config.json", &format!("{config:#}"));
    stage.write("work/go", "");
    let finished = stage.brasserie(&[
        "run",
        config.to_str().expect("a plain name"),
        &nvidia_smi(&stage),
    ]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    let lines = log(&stage);
    check(&lines);
    assert_eq!(lines.len(), 2 * NODES * JOBS.len());
}

/// The worker fetches work and has one GPU. It holds all tasks at once, and gives them the GPU one after the other.
#[test]
fn tasks_wait_at_their_worker_for_the_card_that_it_gives_them() {
    let stage = Stage::new();
    let command = stage.write_script("work/task.sh", TASK);
    let mut config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "range_label", "prefs":
                { "parent_level": "instance", "format": "n{i}", "start": 1, "end": NODES } }] },
            "resources": { "worker": { "gpu": { "default": 1, "limit": 0 } } },
            "physical_resources": { "gpu_card": { "logical_resource": "gpu" } }
        },
        // The worker has no work buffer before the first completion.
        "bistro_job->first": { "command": ["true"], "bufferable": true }
    });
    let path = stage.write("config.json", &format!("{config:#}"));
    let spec = stage.calm_spec(&path).with("--config-update=100ms");
    let mut scheduler = stage.start_scheduler(&spec);
    let script = nvidia_smi_of(&stage, 1);
    let mut worker = stage.worker_spec("one", &spec);
    worker
        .flags
        .extend([script, "--work-fetch=cluster".to_owned()]);
    let _worker = stage.start_worker(&worker);
    let client = Client::new(spec.port);
    client.wait_all_done();
    // All tasks together are less than the worker's buffer.
    config["bistro_job->alone"] = json!({ "command": [command, stage.path("work")], "arguments": "none",
        "bufferable": true, "est_duration": 1 });
    stage.write("config.json", &format!("{config:#}"));
    // The scheduler counts all of them as running. So does the next one, because the worker reports them.
    let all_run = || {
        client.wait_until("all tasks to be at the worker", |status| {
            let jobs = status.jobs.iter().flatten();
            let running: i64 = jobs.filter_map(|job| job.running).sum();
            usize::try_from(running) == Ok(NODES)
        })
    };
    all_run();
    wait_within(PATIENCE, "one to have the card", || log(&stage).pop());
    scheduler.kill_program();
    let _scheduler = stage.start_scheduler(&spec);
    all_run();
    assert_eq!(log(&stage).len(), 1, "one has the card");
    stage.write("work/go", "");
    client.wait_all_done();
    let lines = log(&stage);
    assert_eq!(lines.len(), 2 * NODES);
    for pair in lines.chunks(2) {
        assert!(pair[0].begins && !pair[1].begins, "one after the other");
        for line in pair {
            assert_eq!(line.devices, [UUIDS[0]]);
            assert_eq!(line.order, "PCI_BUS_ID");
        }
    }
}

//! Tests of the file in real memory: when the next scheduler may use its bounds, and when it must not.

use std::os::unix::fs::PermissionsExt as _;

use brasserie_common::{MachinePortLock, Shard, Timeouts, WallTime};
use brasserie_scheduler_core::{DeletionNumber, InstanceRecord, Options, Record};
use tempfile::TempDir;

use super::*;

const W1: WorkerId = WorkerId(brasserie_common::ids::InstanceId {
    start_time: 1,
    rand: 1,
});
const W2: WorkerId = WorkerId(brasserie_common::ids::InstanceId {
    start_time: 2,
    rand: 2,
});

struct Place {
    memory: TempDir,
    data: TempDir,
    durable: Durable,
}

fn lock_of(worker: WorkerId) -> MachinePortLock {
    MachinePortLock {
        hostname: "host".into(),
        port: i32::try_from(worker.0.rand).unwrap(),
    }
}

fn at(secs: u64) -> Time {
    Time::from_nanos(secs * 1_000_000_000)
}

impl Place {
    fn new() -> Self {
        let place = Place {
            memory: TempDir::new_in("/dev/shm").unwrap(),
            data: TempDir::new().unwrap(),
            durable: Durable::default(),
        };
        fs::write(place.store(), "the store").unwrap();
        place
    }

    fn store(&self) -> PathBuf {
        self.data.path().join("state.sqlite3")
    }

    fn id(&self) -> FileId {
        FileId::at(&self.store()).unwrap()
    }

    fn open(&self) -> (AnsweredFile, BTreeMap<WorkerId, Time>) {
        AnsweredFile::try_open(self.memory.path(), self.id(), &self.durable).unwrap()
    }

    fn known(&self) -> BTreeMap<WorkerId, Time> {
        self.open().1
    }

    /// Starts a scheduler at `now`, and makes its record durable.
    fn start(&mut self, now: Time) -> (AnsweredFile, Scheduler) {
        let (file, known) = self.open();
        let durable = self.durable.clone().last_answered(known);
        let mut scheduler = Scheduler::new(options(), durable, now, WallTime::from_secs(1000));
        while let Some(effect) = scheduler.poll_effect() {
            if let brasserie_scheduler_core::Effect::Persist { record, .. } = effect {
                self.durable.apply(&record);
            }
        }
        (file, scheduler)
    }

    fn associate(&mut self, worker: WorkerId) {
        self.durable.apply(&Record::WorkerAssociated {
            worker,
            instance: InstanceRecord {
                shard: Shard::try_from("w").unwrap(),
                machine_lock: lock_of(worker),
                heartbeat_period: Duration::from_secs(15),
                timeouts: Timeouts::default(),
                since: DeletionNumber::default(),
            },
        });
    }

    fn path(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.memory.path()).unwrap();
        entries.next().unwrap().unwrap().path()
    }
}

fn options() -> Options {
    Options {
        timeouts: Timeouts::default(),
        allow_bump_unhealthy_worker: false,
        startup_wait: None,
        new_cluster: false,
        call_deadline: Duration::from_secs(5),
        work: brasserie_scheduler_core::credits::RequestPolicy::default(),
        retention: brasserie_scheduler_core::Retention::default(),
        slots: brasserie_scheduler_core::SlotStrategy::RoundRobin,
        seed: 1,
    }
}

/// Returns a directory with two instances. The last scheduler answered one until 205 s at most; only the scheduler before it answered the
/// other.
fn answered_by_two_schedulers() -> Place {
    let mut place = Place::new();
    let (mut file, scheduler) = place.start(at(100));
    file.cover(at(100), &scheduler).unwrap();
    place.associate(W1);
    place.associate(W2);
    file.cover(at(140), &scheduler).unwrap();
    let (mut file, mut scheduler) = place.start(at(150));
    file.cover(at(150), &scheduler).unwrap();
    let heartbeat = brasserie_scheduler_core::Event::Heartbeat {
        request: brasserie_common::RequestId(1),
        from: brasserie_common::Principal::Own,
        worker: Box::new(brasserie_common::WorkerDescription {
            id: W1,
            machine_lock: lock_of(W1),
            shard: Shard::try_from("w").unwrap(),
            protocol_version: brasserie_common::worker::PROTOCOL_VERSION,
            ..Default::default()
        }),
        worker_set: Default::default(),
        goodbye: false,
    };
    scheduler.handle(at(160), heartbeat);
    file.cover(at(160), &scheduler).unwrap();
    file.cover(at(200), &scheduler).unwrap();
    place
}

#[test]
fn each_instance_counts_from_the_scheduler_that_answered_it_last() {
    let place = answered_by_two_schedulers();
    let known = BTreeMap::from([(W1, at(205)), (W2, at(145))]);
    assert_eq!(place.known(), known);
    // A scheduler that starts and dies repeatedly does not change the bounds of instances that it has not answered.
    let mut place = place;
    for start in [300, 400, 500] {
        let (mut file, scheduler) = place.start(at(start));
        file.cover(at(start), &scheduler).unwrap();
        assert_eq!(place.known(), known, "after the start at {start} s");
    }
}

#[test]
fn the_bound_is_written_before_it_is_passed_and_seldom() {
    let mut place = Place::new();
    let (mut file, scheduler) = place.start(at(100));
    place.associate(W1);
    file.cover(at(100), &scheduler).unwrap();
    assert_eq!(place.known()[&W1], at(105));
    let before = fs::read(place.path()).unwrap();
    file.cover(at(104), &scheduler).unwrap();
    assert_eq!(fs::read(place.path()).unwrap(), before, "it still covers");
    file.cover(at(105), &scheduler).unwrap();
    assert_eq!(place.known()[&W1], at(110));
}

#[test]
fn a_scheduler_that_never_recorded_itself_leaves_what_was_known() {
    let place = answered_by_two_schedulers();
    let known = place.known();
    let (mut file, before) = place.open();
    let durable = place.durable.clone().last_answered(before);
    let scheduler = Scheduler::new(options(), durable, at(300), WallTime::from_secs(1000));
    file.cover(at(300), &scheduler).unwrap();
    assert_eq!(place.known(), known);
}

#[test]
fn another_store_boot_or_last_scheduler_makes_it_worthless() {
    let edited = |key: &str, value: serde_json::Value| {
        let place = answered_by_two_schedulers();
        let text = fs::read_to_string(place.path()).unwrap();
        let (_, json) = text.split_once('\n').unwrap();
        let mut content: serde_json::Value = serde_json::from_str(json).unwrap();
        *content.pointer_mut(key).unwrap() = value;
        let json = content.to_string();
        fs::write(place.path(), format!("{}\n{json}", checksum(&json))).unwrap();
        let content = AnsweredContent::read(&mut File::open(place.path()).unwrap());
        let previous = place.durable.last_scheduler();
        let doubt = content
            .unwrap()
            .unwrap()
            .doubt(&Epoch::now().unwrap(), place.id(), previous);
        (doubt.unwrap_or("nothing"), place.known())
    };
    let another_boot = "the machine was started again, or this is another time namespace";
    for (key, value, doubt) in [
        ("/epoch/boot", "another".into(), another_boot),
        ("/epoch/clock_namespace", "time:[1]".into(), another_boot),
        ("/store/inode", 1.into(), "it belongs to another store"),
        (
            "/scheduler",
            serde_json::json!([1, 2]),
            "the store names another last scheduler",
        ),
    ] {
        assert_eq!(edited(key, value), (doubt, BTreeMap::new()), "{key}");
    }

    // A backup restored by renaming has another inode.
    let place = answered_by_two_schedulers();
    fs::copy(place.store(), place.data.path().join("copy")).unwrap();
    fs::rename(place.data.path().join("copy"), place.store()).unwrap();
    assert_eq!(place.known(), BTreeMap::new());

    // A backup copied into place has another last scheduler.
    let mut place = answered_by_two_schedulers();
    place.durable.schedulers.clear();
    place.durable.schedulers.insert(SchedulerId::new(1, 1));
    assert_eq!(place.known(), BTreeMap::new());
    place.durable.schedulers.clear();
    assert_eq!(place.known(), BTreeMap::new());
}

#[test]
fn what_is_torn_missing_or_somebody_elses_makes_it_worthless() {
    let place = answered_by_two_schedulers();
    let text = fs::read(place.path()).unwrap();
    for end in [0, 1, text.len() / 2, text.len() - 1] {
        fs::write(place.path(), &text[..end]).unwrap();
        assert_eq!(place.known(), BTreeMap::new(), "{end} bytes");
    }
    fs::write(place.path(), [0xFF; 10]).unwrap();
    assert_eq!(place.known(), BTreeMap::new());
    fs::remove_file(place.path()).unwrap();
    assert_eq!(place.known(), BTreeMap::new());

    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let open = || AnsweredFile::try_open(place.memory.path(), place.id(), &place.durable);
    assert!(
        open().is_err(),
        "others may read it, so others may have made it"
    );
    let path = place.path();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(place.store(), &path).unwrap();
    assert!(open().is_err(), "a link");
}

#[test]
fn only_memory_will_do() {
    let place = Place::new();
    let on_disk = Path::new(env!("CARGO_MANIFEST_DIR"));
    let opened = AnsweredFile::try_open(on_disk, place.id(), &place.durable);
    assert!(opened.is_err(), "it could wait for a disk");
}

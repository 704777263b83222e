//! Tests random operations of a store against a plain model of what it should have.

use std::collections::BTreeMap;
use std::fs;

use brasserie_common::{ArtifactId, ArtifactNamespace};
use brasserie_common_artifacts::{DiskContent, Incoming};
use proptest::prelude::*;

use crate::bench::{Bench, id_of, set_mode};

/// The capacity of each disk. Artifacts have up to 255 bytes.
const CAPACITIES: [u64; 2] = [600, 900];

/// An operation on artifact `u8`, whose content is that number of bytes with that value.
#[derive(Clone, Copy, Debug)]
enum Operation {
    TakeIn(u8),
    Receive(u8),
    /// Begins to receive, and stays open.
    Begin(u8),
    /// Finishes the oldest open transfer, with its content or with damaged bytes.
    Finish {
        damaged: bool,
    },
    Abandon,
    Delete(u8),
    /// Changes the file of an artifact, and checks the artifact.
    Damage(u8),
    Reopen,
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let number = || any::<u8>().prop_map(|number| number % 12 * 23);
    prop_oneof![
        3 => number().prop_map(Operation::TakeIn),
        3 => number().prop_map(Operation::Receive),
        2 => number().prop_map(Operation::Begin),
        2 => any::<bool>().prop_map(|damaged| Operation::Finish { damaged }),
        1 => Just(Operation::Abandon),
        2 => number().prop_map(Operation::Delete),
        1 => number().prop_map(Operation::Damage),
        1 => Just(Operation::Reopen),
    ]
}

fn content(number: u8) -> Vec<u8> {
    vec![number; usize::from(number)]
}

struct World {
    bench: Option<Bench>,
    open: Vec<(u8, Incoming)>,
    /// The artifacts with their sizes.
    held: BTreeMap<ArtifactId, u64>,
}

impl World {
    fn bench(&self) -> &Bench {
        self.bench.as_ref().expect("it is open")
    }

    fn perform(&mut self, operation: Operation) {
        let namespace = self.bench().namespace.clone();
        match operation {
            Operation::TakeIn(number) => {
                self.bench().write("x", content(number));
                let taken = self.bench().take("x");
                if let Ok(artifact) = &taken {
                    self.held.insert(artifact.id, artifact.size);
                }
            }
            Operation::Receive(number) => {
                let received = self.bench().receive(&content(number));
                if received.is_ok() {
                    self.held.insert(id_of(&content(number)), number.into());
                }
            }
            Operation::Begin(number) => {
                let id = id_of(&content(number));
                if let Ok(incoming) = self.bench().store.receive(&namespace, id, number.into()) {
                    self.open.push((number, incoming));
                }
            }
            Operation::Finish { damaged } => self.finish(damaged),
            Operation::Abandon => {
                self.open.pop();
            }
            Operation::Delete(number) => {
                let id = id_of(&content(number));
                assert!(self.bench().store.delete(&namespace, [id]).is_empty());
                self.held.remove(&id);
            }
            Operation::Damage(number) => self.damage(&namespace, number),
            Operation::Reopen => {
                self.open.clear();
                let bench = self.bench.take().expect("it is open");
                self.bench = Some(bench.reopen_after(|| {}).0);
            }
        }
    }

    fn finish(&mut self, damaged: bool) {
        if self.open.is_empty() {
            return;
        }
        let (number, mut incoming) = self.open.remove(0);
        let mut bytes = content(number);
        if let (true, Some(first)) = (damaged, bytes.first_mut()) {
            *first ^= 1;
        }
        let is_whole = bytes == content(number);
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        incoming.append(first).expect("it is reserved");
        incoming.append(rest).expect("it is reserved");
        assert_eq!(incoming.finish().is_ok(), is_whole);
        if is_whole {
            self.held.insert(id_of(&bytes), number.into());
        }
    }

    fn damage(&mut self, namespace: &ArtifactNamespace, number: u8) {
        let id = id_of(&content(number));
        let hex = id.to_string();
        for disk in &self.bench().options.disks {
            let file = disk.path.join("content/one").join(&hex[..2]).join(&hex);
            if file.exists() {
                set_mode(&file, 0o600);
                fs::write(file, vec![1; usize::from(number) + 1]).expect("ours");
            }
        }
        let is_held = self.held.remove(&id).is_some();
        self.bench()
            .store
            .check(namespace, id)
            .expect_err("it is damaged or was never held");
        assert_eq!(
            self.bench().store.drain_lost(&self.bench().namespace).len(),
            usize::from(is_held)
        );
    }

    fn check(&self) {
        let bench = self.bench();
        let holdings = bench.store.holdings(&bench.namespace);
        let found: BTreeMap<ArtifactId, u64> =
            holdings.iter().map(|held| (held.id, held.size)).collect();
        assert_eq!(found, self.held);
        let mut contents = BTreeMap::new();
        for held in &holdings {
            let content: &mut DiskContent = contents.entry(held.generation).or_default();
            content.digest.include(held.id.0);
            content.artifacts += 1;
        }
        for (generation, content) in bench.store.contents(&bench.namespace) {
            assert_eq!(
                contents.get(&generation).copied().unwrap_or_default(),
                content
            );
        }
        let usage = bench.store.usage();
        let used: u64 = usage.iter().map(|disk| disk.used).sum();
        assert_eq!(used, self.held.values().sum::<u64>());
        let open: u64 = self.open.iter().map(|(number, _)| u64::from(*number)).sum();
        let usable: u64 = usage.iter().map(|disk| disk.usable).sum();
        assert_eq!(usable, CAPACITIES.iter().sum::<u64>() - used - open);
        for (disk, capacity) in usage.iter().zip(CAPACITIES) {
            assert!(disk.used + disk.usable <= capacity, "{disk:?}");
        }
    }
}

integration_tests_properties::properties! {
    30;

    #[test]
    fn a_store_has_what_a_plain_model_has(operations in proptest::collection::vec(any_operation(), 1..40)) {
        let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
        let mut options = Bench::on(&[folders[0].path(), folders[1].path()]).options.clone();
        for (disk, capacity) in options.disks.iter_mut().zip(CAPACITIES) {
            disk.capacity = Some(capacity);
        }
        let mut world = World {
            bench: Some(Bench::with(options)),
            open: Vec::new(),
            held: BTreeMap::new(),
        };
        for operation in operations {
            world.perform(operation);
            world.check();
        }
        world.open.clear();
        world.check();
        world.bench().assert_consistent();
    }
}

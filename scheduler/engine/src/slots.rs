//! Slots: the limits of each level, the slots in use, and the charges of a task that starts.

use std::sync::Arc;

use brasserie_common::NodeId;
use brasserie_common::collections::IdMap;
use brasserie_common_config::{Config, JobConfig, LevelId, ResourceId, ResourceLimit};

use crate::forest::{Forest, Row};
use crate::names::Names;

/// A resource name, valid as long as the engine lives; [`ResourceId`]s change with the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceName(u32);

/// The slots of one resource that a task holds on one node, or on its worker (the node is then the shard's name). Recorded at the start; a
/// changed configuration does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub node: NodeId,
    pub resource: ResourceName,
    pub amount: i32,
    pub group: ChargeGroup,
}

/// Groups charges by node, because workers receive them node by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeGroup {
    /// The first charge on its node.
    Opens,
    /// A charge on the same node as the one before.
    Continues,
}

/// The resources of the configuration in force, and the slots in use, whatever the configuration says. A resource belongs to one level
/// only, so node and resource are enough of a key.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    names: Names<Arc<str>>,
    plan: SlotPlan,
    used: IdMap<(NodeId, ResourceName), i64>,
}

impl Slots {
    pub(crate) fn new(seed: u64) -> Self {
        Slots {
            names: Names::new(seed),
            plan: SlotPlan::default(),
            used: IdMap::default(),
        }
    }

    /// Replaces the resources by those of a configuration. Returns the former limits.
    pub(crate) fn configure(&mut self, config: &Config) -> FormerLimits {
        let plan = SlotPlan::new(config, &mut self.names);
        FormerLimits(std::mem::replace(&mut self.plan, plan).limits)
    }

    /// Returns whether nodes of a level have more slots than with the former limits. Both must be of the same resources.
    pub(crate) fn are_raised(&self, level: LevelId, former: &FormerLimits) -> bool {
        let mut ids = self.at(level).iter();
        ids.any(|id| self.limit(*id) > former.0[id.index()])
    }

    /// Returns a name's id, which is assigned at its first use.
    pub(crate) fn intern(&mut self, name: &str) -> ResourceName {
        ResourceName(self.names.intern(&Arc::from(name)))
    }

    pub(crate) fn text(&self, name: ResourceName) -> &str {
        self.names.get(name.0)
    }

    /// Returns all names in the order of their ids.
    pub(crate) fn names(&self) -> &[Arc<str>] {
        self.names.all()
    }

    /// Returns the number of configured resources.
    pub(crate) fn len(&self) -> usize {
        self.plan.names.len()
    }

    /// Returns the resources of a level.
    pub(crate) fn at(&self, level: LevelId) -> &[ResourceId] {
        let ids = self.plan.by_level.get(level.index());
        ids.map_or(&[], Vec::as_slice)
    }

    /// Returns the resources of workers.
    pub(crate) fn of_workers(&self) -> &[ResourceId] {
        self.at(self.plan.worker_level)
    }

    pub(crate) fn name(&self, id: ResourceId) -> ResourceName {
        self.plan.names[id.index()]
    }

    pub(crate) fn find(&self, name: ResourceName) -> Option<ResourceId> {
        self.plan.known.get(&name).copied()
    }

    /// Returns the slots that every node of the resource's level has; workers have their own limits.
    pub(crate) fn limit(&self, id: ResourceId) -> i32 {
        self.plan.limits[id.index()]
    }

    /// Returns the slots in use on a node, or on a worker by its shard's name.
    pub(crate) fn used(&self, node: NodeId, id: ResourceId) -> i64 {
        self.used.get(&(node, self.name(id))).copied().unwrap_or(0)
    }

    pub(crate) fn charge(&mut self, charge: Charge) {
        self.add(charge, i64::from(charge.amount));
    }

    /// Invariant: each charge is freed once, so the rest is the sum of the charges of running tasks.
    pub(crate) fn free(&mut self, charge: Charge) {
        self.add(charge, -i64::from(charge.amount));
    }

    fn add(&mut self, charge: Charge, amount: i64) {
        if amount == 0 {
            return;
        }
        let key = (charge.node, charge.resource);
        let used = self.used.entry(key).or_insert(0);
        *used += amount;
        if *used == 0 {
            self.used.remove(&key);
        }
    }

    /// Returns all slots in use, in a fixed order.
    pub(crate) fn all_used(&self) -> Vec<((NodeId, ResourceName), i64)> {
        let mut all: Vec<_> = self.used.iter().map(|(k, v)| (*k, *v)).collect();
        all.sort_unstable();
        all
    }

    /// Returns a resource, on the path from a job's tasks to the root, of which no node has enough.
    pub(crate) fn above_limit(&self, job: &JobConfig) -> Option<ResourceId> {
        let levels = (0..=job.level_for_tasks.0).map(LevelId);
        let mut ids = levels.flat_map(|level| self.at(level)).copied();
        ids.find(|id| {
            let need = need_of(&job.resources, *id);
            need > 0 && need > self.limit(*id)
        })
    }

    /// Returns whether a node has slots for a need.
    pub(crate) fn has_slots(&self, node: NodeId, id: ResourceId, need: i32) -> bool {
        need <= 0 || is_met(need, self.limit(id), self.used(node, id))
    }

    /// Returns whether the root has slots for needs, which are by index in the list of root resources.
    pub(crate) fn root_has_slots(&self, forest: &Forest, needs: &[i32]) -> bool {
        let root = forest.node(Row::ROOT.0);
        let mut all = self.at(LevelId::INSTANCE).iter().zip(needs);
        all.all(|(id, need)| self.has_slots(root, *id, *need))
    }

    /// Returns the node nearest to the root, on the path to it, that lacks slots: most tasks can wait together there.
    pub(crate) fn first_short(&self, forest: &Forest, needs: &[i32], row: u32) -> Option<u32> {
        let above = forest
            .parent(row)
            .and_then(|parent| self.first_short(forest, needs, parent));
        above.or_else(|| self.is_short(forest, needs, row).then_some(row))
    }

    /// Returns whether a node lacks slots for a task.
    pub(crate) fn is_short(&self, forest: &Forest, needs: &[i32], row: u32) -> bool {
        let Some(level) = forest.level(row) else {
            return false;
        };
        let node = forest.node(row);
        let mut ids = self.at(level).iter();
        ids.any(|id| !self.has_slots(node, *id, need_of(needs, *id)))
    }

    /// Adds the slots that a task takes on its path, root first.
    pub(crate) fn add_path(
        &self,
        forest: &Forest,
        needs: &[i32],
        row: u32,
        charges: &mut Vec<Charge>,
    ) {
        if let Some(parent) = forest.parent(row) {
            self.add_path(forest, needs, parent, charges);
        }
        if let Some(level) = forest.level(row) {
            self.add_charges(forest.node(row), self.at(level), needs, charges);
        }
    }

    /// Adds the slots that a task takes on its worker.
    pub(crate) fn add_worker(&self, node: NodeId, needs: &[i32], charges: &mut Vec<Charge>) {
        self.add_charges(node, self.of_workers(), needs, charges);
    }

    fn add_charges(
        &self,
        node: NodeId,
        ids: &[ResourceId],
        needs: &[i32],
        charges: &mut Vec<Charge>,
    ) {
        for (i, &id) in ids.iter().enumerate() {
            charges.push(Charge {
                node,
                resource: self.name(id),
                amount: need_of(needs, id),
                group: if i == 0 {
                    ChargeGroup::Opens
                } else {
                    ChargeGroup::Continues
                },
            });
        }
    }
}

/// The limits of the resources before a change of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct FormerLimits(Vec<i32>);

/// The resources of a configuration by level.
#[derive(Clone, Debug, Default)]
struct SlotPlan {
    names: Vec<ResourceName>,
    by_level: Vec<Vec<ResourceId>>,
    known: IdMap<ResourceName, ResourceId>,
    /// The slots that every node of the resource's level has; workers have their own limits.
    limits: Vec<i32>,
    worker_level: LevelId,
}

impl SlotPlan {
    fn new(config: &Config, names: &mut Names<Arc<str>>) -> Self {
        let mut plan = SlotPlan {
            by_level: vec![Vec::new(); config.levels.len()],
            worker_level: config.worker_level(),
            ..SlotPlan::default()
        };
        for (i, resource) in config.resources.iter().enumerate() {
            let Ok(id) = u16::try_from(i).map(ResourceId) else {
                break;
            };
            let name = ResourceName(names.intern(&Arc::from(resource.name.as_str())));
            plan.names.push(name);
            plan.known.insert(name, id);
            plan.limits.push(match resource.limit {
                ResourceLimit::Fixed(limit) => limit,
                ResourceLimit::ReportedCores => i32::MAX,
            });
            if let Some(level) = plan.by_level.get_mut(resource.level.index()) {
                level.push(id);
            }
        }
        plan
    }
}

/// Returns a task's need of a resource.
pub(crate) fn need_of(needs: &[i32], id: ResourceId) -> i32 {
    needs.get(id.index()).copied().unwrap_or(0)
}

/// Returns whether a need is met; placement and explanations share this predicate. A need of 0 is met even where more is in use than the
/// limit.
pub(crate) fn is_met(need: i32, limit: i32, used: i64) -> bool {
    need <= 0 || i64::from(need) + used <= i64::from(limit)
}

//! Slots: the limits of each level, the slots in use, and the charges of a task that starts.

use std::sync::Arc;

use brasserie_common::NodeId;
use brasserie_common::collections::IdMap;
use brasserie_common_config::{Config, LevelId, ResourceId, ResourceLimit};

use crate::names::Names;

/// A resource name, valid as long as the engine lives; [`ResourceId`]s change with the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceName(pub(crate) u32);

/// The slots of one resource that a task holds on one node, or on its worker (the node is then the shard's name). Recorded at the start; a
/// changed configuration does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) node: NodeId,
    pub(crate) resource: ResourceName,
    pub(crate) amount: i32,
    pub(crate) group: ChargeGroup,
}

/// Groups charges by node, because workers receive them node by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeGroup {
    /// The first charge on its node.
    Opens,
    /// A charge on the same node as the one before.
    Continues,
}

/// Slots in use, whatever the configuration says. A resource belongs to one level only, so node and resource are enough of a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    used: IdMap<(NodeId, ResourceName), i64>,
}

impl Ledger {
    pub(crate) fn used(&self, node: NodeId, resource: ResourceName) -> i64 {
        self.used.get(&(node, resource)).copied().unwrap_or(0)
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
    pub(crate) fn all(&self) -> Vec<((NodeId, ResourceName), i64)> {
        let mut all: Vec<_> = self.used.iter().map(|(k, v)| (*k, *v)).collect();
        all.sort_unstable();
        all
    }
}

/// The resources of a configuration by level.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotPlan {
    names: Vec<ResourceName>,
    by_level: Vec<Vec<ResourceId>>,
    known: IdMap<ResourceName, ResourceId>,
    limits: Vec<i32>,
}

impl SlotPlan {
    pub(crate) fn new(config: &Config, names: &mut Names<Arc<str>>) -> Self {
        let mut plan = SlotPlan {
            by_level: vec![Vec::new(); config.levels.len()],
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

    pub(crate) fn at(&self, level: LevelId) -> &[ResourceId] {
        self.by_level.get(level.index()).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn name(&self, id: ResourceId) -> ResourceName {
        self.names[id.index()]
    }

    pub(crate) fn find(&self, name: ResourceName) -> Option<ResourceId> {
        self.known.get(&name).copied()
    }

    /// Returns the slots that every node of the resource's level has; workers have their own limits.
    pub(crate) fn limit(&self, id: ResourceId) -> i32 {
        self.limits[id.index()]
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

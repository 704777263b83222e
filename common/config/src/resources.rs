//! Parses the slots of nodes and workers: declared resources, overrides of single workers, and measured resources of machines.

use std::collections::BTreeMap;

use crate::coerce::{AMOUNT, set};
use crate::keys::{Key, Shape, within};
use crate::levels::key_level;
use crate::model::{
    Config, Enforcement, PhysicalKind, PhysicalResource, Resource, ResourceId, ResourceLimit,
};
use crate::read::{At, Notes, suggest};
use crate::tree::quote;

const RESOURCE_KEYS: &[Key] = &[
    Key::required(
        "default",
        within(AMOUNT),
        "The slots that a task takes if its job does not say otherwise.",
    ),
    Key::required("limit", within(AMOUNT), "The slots of each node."),
    Key::new(
        "weight",
        within(AMOUNT),
        "The weight of a free slot for the worker selector `busiest`.",
    ),
];
const PHYSICAL_KEYS: &[Key] = &[
    Key::required(
        "logical_resource",
        Shape::Name,
        "The resource of the level `worker` whose limit follows the hardware.",
    ),
    Key::new(
        "multiply_logical_by",
        Shape::Number,
        "The physical amount of one slot: MiB, cores or GPUs.",
    ),
    Key::new(
        "enforcement",
        Shape::Words(enforcements),
        "Whether a control group limits each task to the slots that it took. `hard` is a limit, `soft` a share of the machine. A worker that cannot enforce it refuses the task.",
    ),
    Key::new(
        "physical_reserve_amount",
        Shape::Number,
        "The physical amount that no task gets.",
    ),
];

/// Amounts of resources by name.
pub(crate) const AMOUNTS: Shape = Shape::Map("RESOURCE", &within(AMOUNT));
pub(crate) const RESOURCES: Shape = Shape::Map(
    "LEVEL",
    &Shape::Map("RESOURCE", &Shape::Fields(RESOURCE_KEYS)),
);
pub(crate) const OVERRIDES: Shape = Shape::Map("WORKER", &AMOUNTS);
pub(crate) const PHYSICAL: Shape = Shape::Each(
    kinds,
    &Shape::Fields(PHYSICAL_KEYS),
    "The resource that follows this kind of hardware.",
);

fn kinds() -> Vec<&'static str> {
    PhysicalKind::ALL.iter().map(|k| k.as_str()).collect()
}

fn enforcements() -> Vec<&'static str> {
    [Enforcement::None, Enforcement::Soft, Enforcement::Hard]
        .map(Enforcement::as_str)
        .to_vec()
}

/// The resources of all levels. Every running task lists its resources, so a bound keeps its messages small.
pub const MAX_RESOURCES: usize = 1024;

/// A physical amount of a slot nearer to 0 than this cannot be a divisor.
const LEAST_MULTIPLIER: f64 = 1e-12;

/// The prefix, before a GPU model, of the resource that has a slot for each GPU of this model.
pub const CARD_PREFIX: &str = "GPU: ";

/// The worker resource if the file declares none: a slot for each core.
const IMPLIED: &str = "slots";

pub(crate) fn resources(at: Option<&At>, config: &mut Config, notes: &mut Notes) {
    if let Some(at) = at
        && at.expect_object(notes)
    {
        for level in at.entries() {
            level_resources(&level, config, notes);
        }
    }
    let worker = config.worker_level();
    if config.resources.iter().any(|r| r.level == worker) {
        return;
    }
    let mut name = IMPLIED.to_owned();
    // Another level uses the name. Names are unique over all levels, and an implied name must not conflict with a user's.
    while config.resource(&name).is_some() {
        name.insert_str(0, "worker_");
    }
    config.resources.push(Resource {
        name,
        level: worker,
        default: 1,
        limit: ResourceLimit::ReportedCores,
        weight: 0,
    });
}

fn level_resources(at: &At, config: &mut Config, notes: &mut Notes) {
    let level = key_level(at, config, notes);
    if !at.expect_object(notes) {
        return;
    }
    for entry in at.entries() {
        if entry.key_name(notes).is_none() {
            continue;
        }
        if let Some(other) = config.resource(entry.key()) {
            let other = &config.levels[config.resources[other.index()].level.index()];
            notes.error(
                entry
                    .key_problem(format!("the level `{other}` has a resource of this name"))
                    .help("resource names are unique over all levels"),
            );
            continue;
        }
        let (default, limit, weight) = amounts(&entry, notes);
        if config.resources.len() == MAX_RESOURCES {
            notes.error(entry.key_problem(format!("more than {MAX_RESOURCES} resources")));
            return;
        }
        config.resources.push(Resource {
            name: entry.key().to_owned(),
            // A resource of an unknown level counts as known, so that jobs that name it get no error.
            level: level.unwrap_or_default(),
            default,
            limit: ResourceLimit::Fixed(limit),
            weight,
        });
    }
}

fn amounts(at: &At, notes: &mut Notes) -> (i32, i32, i32) {
    let (mut default, mut limit, mut weight) = (0, 0, 0);
    if at.expect_object(notes) {
        at.check_keys(RESOURCE_KEYS, notes);
        let help = "the number of slots that a task takes";
        if let Some(at) = at.required("default", help, notes) {
            set(&mut default, at.integer32(AMOUNT, notes));
        }
        if let Some(at) = at.required("limit", "the number of slots of a node", notes) {
            set(&mut limit, at.integer32(AMOUNT, notes));
        }
        if let Some(at) = at.get("weight") {
            set(&mut weight, at.integer32(AMOUNT, notes));
        }
    }
    (default, limit, weight)
}

impl Config {
    /// Returns whether `need` exceeds the limit that each node or worker has for the resource, including workers that may still join.
    pub fn is_above_limit(&self, id: ResourceId, need: i32) -> bool {
        let limit = match self.resources[id.index()].limit {
            ResourceLimit::Fixed(limit) => limit,
            ResourceLimit::ReportedCores => i32::MAX,
        };
        let mut overrides = self.worker_resources_override.values();
        let is_replaced = overrides.any(|amounts| amounts.get(&id).is_some_and(|a| *a >= need));
        let mut physical = self.physical_resources.iter();
        let is_measured =
            physical.any(|p| p.logical_resource == id) || self.card_model(id).is_some();
        need > 0 && need > limit && !is_replaced && !is_measured
    }
}

/// Returns the known resource that the key of a value names.
pub(crate) fn key_resource(at: &At, config: &Config, notes: &mut Notes) -> Option<ResourceId> {
    let found = config.resource(at.key());
    if found.is_none() && notes.error_is_kept() {
        let name = quote(at.key());
        let known = config.resources.iter().map(|r| r.name.as_str());
        notes.error(
            at.key_problem(format!("there is no resource {name}"))
                .value(name)
                .help(suggest(at.key(), known)),
        );
    }
    found
}

pub(crate) fn overrides(at: &At, config: &mut Config, notes: &mut Notes) {
    if !at.expect_object(notes) {
        return;
    }
    for worker in at.entries() {
        if worker.key_name(notes).is_none() || !worker.expect_object(notes) {
            continue;
        }
        let mut amounts = BTreeMap::new();
        for entry in worker.entries() {
            let resource = key_resource(&entry, config, notes);
            let amount = entry.integer32(AMOUNT, notes);
            let Some(resource) = resource else {
                continue;
            };
            let level = config.resources[resource.index()].level;
            if level != config.worker_level() {
                let level = &config.levels[level.index()];
                notes.error(
                    entry
                        .key_problem(format!("the resource is one of level `{level}`"))
                        .help("only resources of level `worker` can be overridden"),
                );
            } else if let Some(amount) = amount {
                amounts.insert(resource, amount);
            }
        }
        config
            .worker_resources_override
            .insert(worker.key().to_owned(), amounts);
    }
}

pub(crate) fn physical(at: &At, config: &mut Config, notes: &mut Notes) {
    if !at.expect_object(notes) {
        return;
    }
    for entry in at.entries() {
        let kind = PhysicalKind::ALL
            .into_iter()
            .find(|k| k.as_str() == entry.key());
        let Some(kind) = kind else {
            notes.error(
                entry
                    .key_problem("unknown kind of physical resource")
                    .value(quote(entry.key()))
                    .help(suggest(entry.key(), kinds())),
            );
            continue;
        };
        if !entry.expect_object(notes) {
            continue;
        }
        if let Some(resource) = physical_entry(&entry, kind, config, notes) {
            if kind == PhysicalKind::GpuCard {
                warn_of_other_levels(&entry, config, notes);
            }
            config.physical_resources.push(resource);
        }
    }
}

/// Warns if a resource named like a GPU model is at another level than `worker`, where it does not count GPUs.
fn warn_of_other_levels(entry: &At, config: &Config, notes: &mut Notes) {
    let worker = config.worker_level();
    let models = config.resources.iter().filter(|r| r.level != worker);
    for resource in models.filter(|r| r.name.starts_with(CARD_PREFIX)) {
        let level = &config.levels[resource.level.index()];
        let text = format!(
            "the resource `{}` is one of level `{level}`, so no GPU counts for it",
            resource.name
        );
        let problem = entry.key_problem(text).help("declare it at level `worker`");
        notes.warning(problem);
    }
}

fn physical_entry(
    at: &At,
    kind: PhysicalKind,
    config: &Config,
    notes: &mut Notes,
) -> Option<PhysicalResource> {
    at.check_keys(PHYSICAL_KEYS, notes);
    let (mut multiply_logical_by, mut physical_reserve_amount) = (1.0, 0.0);
    let mut enforcement = Enforcement::None;
    if let Some(at) = at.get("multiply_logical_by") {
        set(&mut multiply_logical_by, at.double(notes));
        if f64::abs(multiply_logical_by) < LEAST_MULTIPLIER {
            notes.error(
                at.problem(format!("{} is too near to 0", at.node))
                    .help("the physical amount of one slot"),
            );
        }
    }
    if let Some(at) = at.get("physical_reserve_amount") {
        set(&mut physical_reserve_amount, at.double(notes));
    }
    if let Some(at) = at.get("enforcement") {
        let words = kind.enforcements().iter().map(|&e| (e.as_str(), e));
        set(
            &mut enforcement,
            at.choice(&words.collect::<Vec<_>>(), notes),
        );
    }
    let help = "the name of a resource of level `worker`";
    let at = at.required("logical_resource", help, notes)?;
    Some(PhysicalResource {
        kind,
        logical_resource: logical_resource(&at, config, notes)?,
        multiply_logical_by,
        enforcement,
        physical_reserve_amount,
    })
}

fn logical_resource(at: &At, config: &Config, notes: &mut Notes) -> Option<ResourceId> {
    let name = at.string(notes)?;
    let worker = config.worker_level();
    let of_worker = config.resources.iter().filter(|r| r.level == worker);
    let known = of_worker.map(|r| r.name.as_str());
    let Some(resource) = config.resource(&name) else {
        let text = format!("there is no resource {}", at.node);
        notes.error(at.problem(text).help(suggest(&name, known)));
        return None;
    };
    let level = config.resources[resource.index()].level;
    if level != worker {
        let level = &config.levels[level.index()];
        let text = format!("the resource is one of level `{level}`, not `worker`");
        notes.error(at.problem(text).help(suggest(&name, known)));
        return None;
    }
    let taken = config
        .physical_resources
        .iter()
        .find(|p| p.logical_resource == resource);
    if let Some(taken) = taken {
        notes.error(
            at.problem(format!("`{}` has taken this resource", taken.kind.as_str()))
                .help("each resource can follow one physical amount"),
        );
        return None;
    }
    Some(resource)
}

//! The GPUs that jobs need. The need follows from the slots that they take, so it has no key of its own.

use std::collections::BTreeMap;

use brasserie_common::cards::{CardAmount, CardAmountError, CardNeed};

use crate::model::{
    Config, JobConfig, PhysicalKind, PhysicalResource, Resource, ResourceId, ResourceLimit,
};
use crate::read::{At, Notes};
use crate::resources::CARD_PREFIX;

/// A number of slots that is no amount of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardProblem {
    pub resource: ResourceId,
    pub error: CardAmountError,
}

impl Config {
    /// Returns the resource whose slots are processors of workers, and the number of processors in a slot.
    pub fn cpu_slots(&self) -> Option<(ResourceId, f64)> {
        let mut entries = self.physical_resources.iter();
        if let Some(entry) = entries.find(|entry| entry.kind == PhysicalKind::CpuCore) {
            return Some((entry.logical_resource, entry.multiply_logical_by));
        }
        let of_cores = |resource: &Resource| resource.limit == ResourceLimit::ReportedCores;
        let at = self.resources.iter().position(of_cores)?;
        Some((ResourceId(u16::try_from(at).ok()?), 1.0))
    }

    /// Returns the number of processors that a task of the job keeps busy; 1 if nothing else is configured.
    pub fn cpus_of(&self, job: &JobConfig) -> f64 {
        let Some((id, a_slot)) = self.cpu_slots() else {
            return 1.0;
        };
        let slots = job.resources.get(id.index()).copied().unwrap_or(0);
        f64::from(slots.max(0)) * a_slot
    }

    /// Returns the resource whose slots are GPUs of workers, or parts of them.
    pub fn card_slots(&self) -> Option<&PhysicalResource> {
        let mut entries = self.physical_resources.iter();
        entries.find(|entry| entry.kind == PhysicalKind::GpuCard)
    }

    /// Returns the resources that count GPUs of one model, each with its model; none if GPUs are not configured.
    pub fn card_models(&self) -> impl Iterator<Item = (ResourceId, &str)> {
        let all = (0..self.resources.len()).filter_map(|i| u16::try_from(i).ok());
        all.filter_map(|i| Some((ResourceId(i), self.card_model(ResourceId(i))?)))
    }

    /// Returns the model whose GPUs a resource counts.
    pub fn card_model(&self, id: ResourceId) -> Option<&str> {
        let resource = &self.resources[id.index()];
        let counts = self.card_slots().is_some() && resource.level == self.worker_level();
        resource.name.strip_prefix(CARD_PREFIX).filter(|_| counts)
    }

    /// Returns the GPUs that a task of the job needs of its worker.
    pub fn card_need(&self, job: &JobConfig) -> Result<CardNeed, CardProblem> {
        let Some(entry) = self.card_slots() else {
            return Ok(CardNeed::default());
        };
        let taken = |id: ResourceId| job.resources.get(id.index()).copied().unwrap_or(0);
        let resource = entry.logical_resource;
        let all = CardAmount::of_slots(taken(resource), entry.multiply_logical_by)
            .map_err(|error| CardProblem { resource, error })?;
        let mut of_models = BTreeMap::new();
        for (id, model) in self.card_models() {
            if let Ok(cards) = u32::try_from(taken(id))
                && cards > 0
                && id != resource
            {
                of_models.insert(model.to_owned(), cards);
            }
        }
        Ok(CardNeed::new(all, of_models))
    }

    /// Returns the part of the settings that decides the GPUs of a job.
    pub(crate) fn card_scale(&self) -> Option<(ResourceId, f64)> {
        let entry = self.card_slots()?;
        Some((entry.logical_resource, entry.multiply_logical_by))
    }
}

/// Reports slots that are no amount of GPUs. Tasks with these would wait forever, or share GPUs that they expect to own.
pub(crate) fn check_need(at: &At, job: &JobConfig, config: &Config, notes: &mut Notes) {
    let Err(CardProblem { resource, error }) = config.card_need(job) else {
        return;
    };
    let name = &config.resources[resource.index()].name;
    let (slots, multiplier) = (
        job.resources[resource.index()],
        config
            .card_scale()
            .map_or(1.0, |(_, multiplier)| multiplier),
    );
    let help = "a task takes whole GPUs, or a part of one in whole thousandths; see `multiply_logical_by` of `gpu_card`";
    let text = format!("{slots} of `{name}` at {multiplier} GPUs a slot are {error}");
    let said = at.get("resources");
    let problem = match said.as_ref().and_then(|said| said.get(name)) {
        Some(at) => at.problem(text),
        None => at.key_problem(format!("by default, {text}")),
    };
    notes.error(problem.help(help));
}

//! What a fetcher knows and waits for, for people.

use brasserie_common::Time;

use super::super::fetch::Survey;
use super::super::types::{AssociationIndex, ProcessorType};
use super::words::{grounds, sources};
use super::{Fetcher, Phase, Scene};

/// All of it, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// Below so many seconds of work it is fetched, up to so many.
    pub low_water: f64,
    pub high_water: f64,
    pub of_type: Vec<TypeOverview>,
    pub of_association: Vec<AssociationOverview>,
}

/// Of a type of processors.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeOverview {
    pub name: String,
    pub instances: f64,
    /// Instance-seconds that are missing until the high water mark.
    pub shortfall: f64,
    pub idle_now: f64,
    /// So many seconds all instances stay busy.
    pub saturated: f64,
    /// So many all are taken by tasks whose deadlines are in danger.
    pub busy: f64,
}

/// Of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationOverview {
    /// 0 or less; the highest is asked first.
    pub priority: f64,
    /// What it got lately, as a part of what all got.
    pub got: f64,
    /// What it is to have, as a part of all shares.
    pub share: f64,
    /// Why it is asked for nothing.
    pub reason: Option<String>,
    /// What is waited for, a line each.
    pub waits: Vec<String>,
    /// What became of the request that is under way.
    pub request: Option<String>,
    pub of_type: Vec<PairOverview>,
}

/// Of a scheduler and a type.
#[derive(Clone, Debug, PartialEq)]
pub struct PairOverview {
    pub name: String,
    /// Tasks that can run, and the seconds that they take.
    pub runnable: u32,
    pub queued: f64,
    pub deadlines_missed: u32,
    /// The part of the instances that it may have of what is fetched now.
    pub fetchable_share: f64,
    /// Why it is not asked for this.
    pub reason: Option<String>,
}

impl Fetcher {
    pub fn overview(&self, scene: &Scene<'_>) -> Overview {
        let now = scene.now;
        let outlook = self.outlook(now, scene.tasks);
        let sources = sources(&self.processors, self.contacts.iter(), scene.standings);
        let outstanding = self.asked_by_type();
        let situation = self.situation(now, scene.tasks);
        let survey = Survey::new(grounds(&situation, &sources, &outlook, &outstanding));
        let of_type = |of: ProcessorType| {
            let expected = &outlook.of_type[of];
            TypeOverview {
                name: self.processors[of].name.clone(),
                instances: self.processors.instances(of),
                shortfall: expected.shortfall,
                idle_now: expected.idle_now,
                saturated: expected.saturated,
                busy: expected.busy,
            }
        };
        let association = |place: usize| {
            let index = AssociationIndex(place);
            let of_type = |of: ProcessorType| {
                let expected = &outlook.of(index).of_type[of];
                PairOverview {
                    name: self.processors[of].name.clone(),
                    runnable: expected.runnable,
                    queued: expected.queued,
                    deadlines_missed: expected.deadlines_missed,
                    fetchable_share: survey.fetchable_share(index, of),
                    reason: survey.pair_reason(index, of).map(|why| why.to_string()),
                }
            };
            let shares: f64 = self.associations.iter().map(|one| one.share).sum();
            let got: f64 = self.accounting.averages().iter().sum();
            let rec = self.accounting.averages()[place];
            AssociationOverview {
                priority: survey.priority(index),
                got: part(rec, got),
                share: part(self.associations[place].share, shares),
                reason: survey.reason(index).map(|why| why.to_string()),
                waits: self.contacts[place].explain(now, &self.processors),
                request: self.request_under_way(place, now),
                of_type: self.processors.types().map(of_type).collect(),
            }
        };
        Overview {
            low_water: self.profile.low_water(),
            high_water: self.profile.high_water(),
            of_type: self.processors.types().map(of_type).collect(),
            of_association: (0..self.associations.len()).map(association).collect(),
        }
    }

    fn request_under_way(&self, place: usize, now: Time) -> Option<String> {
        let outstanding = self.outstanding[place].as_ref()?;
        let wants = outstanding.demands.iter().filter(|d| d.wants_something());
        let wants: Vec<String> = wants
            .map(|demand| {
                let (secs, instances) = (demand.instance_secs, demand.instances);
                format!(
                    "{secs:.0} s and {instances:.1} instances of {}",
                    demand.processor
                )
            })
            .collect();
        let state = match outstanding.phase {
            Phase::InFlight => "is not answered",
            Phase::Retry { .. } => "goes to another member",
            Phase::Pending { .. } => "has no verdict yet",
        };
        let since = now.since(outstanding.since).as_secs_f64();
        let seq = outstanding.seq.0;
        let wants = match wants.is_empty() {
            true => "nothing".to_owned(),
            false => wants.join(", "),
        };
        Some(format!(
            "request {seq} for {wants}, {since:.1} s ago, {state}"
        ))
    }
}

/// 0 of nothing.
fn part(of_it: f64, all: f64) -> f64 {
    if all > 0.0 { of_it / all } else { 0.0 }
}

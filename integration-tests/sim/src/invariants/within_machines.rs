//! Law `within_machines`: The memory and the cards that the live tasks of a worker were charged at their starts never add up to more than
//! it has declared, less what the configuration reserves; each begins with cards of its machine for just what it was charged, of the models
//! that it was charged, and whole ones if it is more than a part of one; no card is given away twice; and no worker has more live tasks
//! than it has declared that it can run.
//!
//! Source: thrift/PROTOCOL.md, Cards and How many tasks a worker admits. The law adds up live processes, whatever a scheduler believes: if
//! two tasks rely on the same memory, one of them is killed.

use std::collections::BTreeMap;

use brasserie_common::cards::WHOLE_CARD;
use brasserie_common::{Time, WorkerId};
use brasserie_common_config::{CARD_PREFIX, Config, PhysicalKind};

use super::{Law, Violation};
use crate::event_log::{Happening, Run};
use crate::model::executions::Executions;
use crate::model::machines::Machines;
use crate::view::World;

const NAME: &str = "within_machines";
/// Tolerance for sums of floats (slots times the amount of each slot).
const ROUNDING: f64 = 1e-6;

#[derive(Default)]
pub struct WithinMachines {
    executions: Executions,
    machines: Machines,
    /// Slots by resource name, as the worker received them.
    charges: BTreeMap<Run, Vec<(String, i32)>>,
    /// Thousandths of each GPU, as the worker received or chose them.
    gpus: BTreeMap<Run, Vec<(String, u32)>>,
}

impl Law for WithinMachines {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "The memory and the cards that the live tasks of a worker were charged at their starts never add up to more than it has declared, less what the configuration reserves; each begins with cards of its machine for just what it was charged, of the models that it was charged, and whole ones if it is more than a part of one; no card is given away twice; and no worker has more live tasks than it has declared that it can run."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        self.machines.note(happening);
        match happening {
            Happening::Charged {
                run, charges, gpus, ..
            } => {
                self.charges.insert(*run, charges.clone());
                self.gpus.insert(*run, gpus.clone());
            }
            Happening::HasCards { run, gpus, .. } => {
                self.gpus.insert(*run, gpus.clone());
            }
            Happening::ProcessStarted { worker, run, .. } if !run.task.is_healthcheck() => {
                self.judge_room(*worker)?;
                self.judge(*worker, world.config)?;
                self.judge_cards(*worker, *run, world.config)?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl WithinMachines {
    fn judge_room(&self, worker: WorkerId) -> Result<(), Violation> {
        let most = self.machines.get(worker).and_then(|size| size.most_tasks);
        let all = self.executions.of_worker(worker);
        let live = all.filter(|(_, e)| !e.run.task.is_healthcheck()).count();
        match most {
            Some(most) if live > most as usize => Err(Violation::new(
                NAME,
                format_args!("worker {worker} can run {most} tasks, and {live} live there"),
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn judge(&self, worker: WorkerId, config: &Config) -> Result<(), Violation> {
        let Some(size) = self.machines.get(worker) else {
            return Ok(());
        };
        for entry in &config.physical_resources {
            let has = match entry.kind {
                PhysicalKind::RamMb => f64::from(size.memory_mb),
                PhysicalKind::GpuCard => f64::from(size.all_cards()),
                // No workload has CPU slots of this kind.
                PhysicalKind::CpuCore => continue,
            };
            let name = &config.resources[entry.logical_resource.index()].name;
            let taken = self.taken(worker, name) as f64 * entry.multiply_logical_by;
            let left = has - entry.physical_reserve_amount;
            // If the worker does not report an amount, the configured one applies.
            if has > 0.0 && taken > left.max(0.0) + ROUNDING {
                return broken(worker, name, taken, left);
            }
        }
        for resource in &config.resources {
            let model = resource.name.strip_prefix(CARD_PREFIX);
            let cards = model.map(|model| size.cards.get(model).copied().unwrap_or(0));
            let taken = self.taken(worker, &resource.name);
            if let Some(cards) = cards
                && taken > i64::from(cards)
            {
                return broken(worker, &resource.name, taken as f64, f64::from(cards));
            }
        }
        Ok(())
    }

    /// Checks the GPUs of a run that has just begun against all other live runs of its worker.
    fn judge_cards(&self, worker: WorkerId, run: Run, config: &Config) -> Result<(), Violation> {
        // A worker that lists no GPUs gives none away.
        let size = self.machines.get(worker);
        let Some(size) = size.filter(|size| !size.devices.is_empty()) else {
            return Ok(());
        };
        let given = self.gpus.get(&run).map_or(&[][..], Vec::as_slice);
        let sum: u32 = given.iter().map(|(_, milli)| milli).sum();
        let wanted = self.thousandths(run, config);
        if sum != wanted {
            return broken_cards(worker, format_args!("{run:?} got {sum} of {wanted}"));
        }
        self.judge_shape(worker, run, &size.devices)?;
        let mut taken: BTreeMap<&str, u32> = BTreeMap::new();
        let live = self.executions.of_worker(worker);
        for (device, milli) in live.filter_map(|(_, e)| self.gpus.get(&e.run)).flatten() {
            let of_card = taken.entry(device).or_default();
            *of_card += milli;
            if *of_card > WHOLE_CARD || !size.devices.contains_key(device) {
                let of_card = *of_card;
                return broken_cards(worker, format_args!("{of_card} of card `{device}`"));
            }
        }
        Ok(())
    }

    /// Checks the shape of a charge: less than one GPU is a part of one; more is whole GPUs. Each model occurs as often as it was charged.
    fn judge_shape(
        &self,
        worker: WorkerId,
        run: Run,
        models: &BTreeMap<String, String>,
    ) -> Result<(), Violation> {
        let given = self.gpus.get(&run).map_or(&[][..], Vec::as_slice);
        if given.len() > 1 && given.iter().any(|(_, milli)| *milli != WHOLE_CARD) {
            return broken_cards(worker, format_args!("{run:?} got pieces, {given:?}, in"));
        }
        let charges = self.charges.get(&run).map_or(&[][..], Vec::as_slice);
        for (name, amount) in charges {
            let Some(model) = name.strip_prefix(CARD_PREFIX) else {
                continue;
            };
            let of_model = |device| models.get(device).is_some_and(|of| of == model);
            let cards = given.iter().filter(|(device, _)| of_model(device)).count();
            if (cards as i64) < i64::from(*amount) {
                let text = format_args!("{run:?} got {cards} of {amount} {model}s in");
                return broken_cards(worker, text);
            }
        }
        Ok(())
    }

    /// Returns the thousandths of GPUs that a run was charged for. Slots of a model are included in those of all GPUs.
    fn thousandths(&self, run: Run, config: &Config) -> u32 {
        let charges = self.charges.get(&run).map_or(&[][..], Vec::as_slice);
        let mut entries = config.physical_resources.iter();
        let Some(entry) = entries.find(|entry| entry.kind == PhysicalKind::GpuCard) else {
            return 0;
        };
        let slots = &config.resources[entry.logical_resource.index()].name;
        let (mut all, mut named) = (0, 0);
        for (name, amount) in charges {
            let amount = f64::from(*amount);
            if name == slots {
                all = (amount * entry.multiply_logical_by * f64::from(WHOLE_CARD)).round() as u32;
            } else if name.starts_with(CARD_PREFIX) {
                named += amount as u32 * WHOLE_CARD;
            }
        }
        all.max(named)
    }

    fn taken(&self, worker: WorkerId, resource: &str) -> i64 {
        let live = self.executions.of_worker(worker);
        let charges = live.filter_map(|(_, e)| self.charges.get(&e.run));
        let of_it = charges.flatten().filter(|(name, _)| name == resource);
        of_it.map(|(_, amount)| i64::from(*amount)).sum()
    }
}

fn broken(worker: WorkerId, name: &str, taken: f64, has: f64) -> Result<(), Violation> {
    Err(Violation::new(
        NAME,
        format_args!(
            "worker {worker} has {has} of `{name}`, and what lives there was charged {taken}"
        ),
    ))
}

fn broken_cards(worker: WorkerId, what: std::fmt::Arguments<'_>) -> Result<(), Violation> {
    let text = format_args!("on worker {worker}: {what} thousandths");
    Err(Violation::new(NAME, text))
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::MachineSize;
    use brasserie_common_config::{ParseOptions, parse};

    fn config() -> Config {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]},
            "resources": {"worker": {"mem": {"default": 0, "limit": 1}, "GPU: K40": {"default": 0, "limit": 0}}},
            "physical_resources": {"ram_mb": {"logical_resource": "mem", "multiply_logical_by": 512, "physical_reserve_amount": 300}}}}"#;
        parse(text, ParseOptions::default()).unwrap().config
    }

    fn verdict(memory_mb: u32, charges: &[(&str, i32)]) -> Option<String> {
        let mut trial = Trial::of(WithinMachines::default());
        let cards = [("K40".to_owned(), 1)].into();
        trial.sees(Happening::WorkerDeclared {
            worker: wid(1),
            size: MachineSize {
                memory_mb,
                cards,
                ..MachineSize::default()
            },
        });
        for (n, (name, amount)) in (1..).zip(charges) {
            trial.sees(Happening::Charged {
                worker: wid(1),
                run: run(n),
                charges: vec![((*name).to_owned(), *amount)],
                gpus: Vec::new(),
            });
            trial.sees(begins(1, u32::try_from(n).unwrap(), run(n)));
        }
        let verdict = trial.law.judge(wid(1), &config());
        verdict.err().map(|violation| violation.what)
    }

    #[test]
    fn live_tasks_fit_into_the_machine() {
        assert_eq!(verdict(1324, &[("mem", 1), ("mem", 1)]), None);
        let text = verdict(1323, &[("mem", 1), ("mem", 1)]).unwrap();
        assert!(text.contains("was charged 1024"), "{text}");
        assert_eq!(verdict(0, &[("mem", 9)]), None);
        assert_eq!(verdict(0, &[("GPU: K40", 1)]), None);
        let text = verdict(0, &[("GPU: K40", 1), ("GPU: K40", 1)]).unwrap();
        assert!(text.contains("1 of `GPU: K40`"), "{text}");
    }

    #[test]
    fn no_more_tasks_live_than_the_worker_can_run() {
        let mut trial = Trial::of(WithinMachines::default());
        trial.sees(Happening::WorkerDeclared {
            worker: wid(1),
            size: MachineSize {
                most_tasks: Some(2),
                ..MachineSize::default()
            },
        });
        trial.sees(begins(1, 1, run(1))).sees(begins(1, 2, run(2)));
        assert_eq!(trial.law.judge_room(wid(1)), Ok(()));
        // Another worker has its own memory.
        assert_eq!(trial.law.judge_room(wid(2)), Ok(()));
        trial.law.executions.note(&begins(1, 3, run(3)));
        let violation = trial.law.judge_room(wid(1)).unwrap_err();
        assert!(violation.what.contains("can run 2 tasks, and 3 live there"));
        trial.law.executions.note(&dies(1, 3, run(3)));
        assert_eq!(trial.law.judge_room(wid(1)), Ok(()));
    }

    #[test]
    fn what_has_ended_counts_no_more() {
        let mut trial = Trial::of(WithinMachines::default());
        trial.sees(Happening::Charged {
            worker: wid(1),
            run: run(1),
            charges: vec![("mem".to_owned(), 2)],
            gpus: Vec::new(),
        });
        trial.sees(begins(1, 1, run(1)));
        assert_eq!(trial.law.taken(wid(1), "mem"), 2);
        trial.sees(dies(1, 1, run(1)));
        assert_eq!(trial.law.taken(wid(1), "mem"), 0);
    }

    /// Checks tasks of so many half cards each that live together, with the GPUs that they received.
    fn verdict_on_cards(tasks: &[(i32, &[(&str, u32)])]) -> Option<String> {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]},
            "resources": {"worker": {"gpu": {"default": 0, "limit": 0}}},
            "physical_resources": {"gpu_card": {"logical_resource": "gpu", "multiply_logical_by": 0.5}}}}"#;
        let config = parse(text, ParseOptions::default()).unwrap().config;
        let mut law = WithinMachines::default();
        law.machines.note(&Happening::WorkerDeclared {
            worker: wid(1),
            size: MachineSize {
                devices: ["a", "b"]
                    .map(|card| (card.to_owned(), "K40".to_owned()))
                    .into(),
                ..MachineSize::default()
            },
        });
        let mut verdict = Ok(());
        for (n, (slots, given)) in (1..).zip(tasks) {
            let gpus = given
                .iter()
                .map(|(device, milli)| ((*device).to_owned(), *milli));
            law.gpus.insert(run(n), gpus.collect());
            let charges = vec![("gpu".to_owned(), *slots)];
            law.charges.insert(run(n), charges);
            law.executions
                .note(&begins(1, u32::try_from(n).unwrap(), run(n)));
            verdict = verdict.and(law.judge_cards(wid(1), run(n), &config));
        }
        verdict.err().map(|violation| violation.what)
    }

    #[test]
    fn no_card_is_given_twice_and_none_is_kept_back() {
        let (half_a, half_b, a): (&[_], &[_], &[_]) =
            (&[("a", 500)], &[("b", 500)], &[("a", 1000)]);
        assert_eq!(
            verdict_on_cards(&[(1, half_a), (1, half_a), (1, half_b)]),
            None
        );
        let twice = verdict_on_cards(&[(2, a), (1, half_a)]).unwrap();
        assert!(twice.ends_with("1500 of card `a` thousandths"), "{twice}");
        let less = verdict_on_cards(&[(2, half_a)]).unwrap();
        assert!(less.ends_with("got 500 of 1000 thousandths"), "{less}");
        let strange = verdict_on_cards(&[(1, &[("c", 500)])]).unwrap();
        assert!(strange.contains("card `c`"), "{strange}");
    }

    #[test]
    fn cards_are_whole_and_of_their_model() {
        let pieces = verdict_on_cards(&[(2, &[("a", 500), ("b", 500)])]).unwrap();
        assert!(pieces.contains("got pieces"), "{pieces}");
        assert_eq!(verdict_on_cards(&[(4, &[("a", 1000), ("b", 1000)])]), None);
        let models = [("a", "K40"), ("b", "H100")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let models = models.into();
        let mut law = WithinMachines::default();
        law.charges
            .insert(run(1), vec![("GPU: H100".to_owned(), 1)]);
        law.gpus.insert(run(1), vec![("b".to_owned(), 1000)]);
        assert_eq!(law.judge_shape(wid(1), run(1), &models), Ok(()));
        law.gpus.insert(run(1), vec![("a".to_owned(), 1000)]);
        let other = law.judge_shape(wid(1), run(1), &models).unwrap_err();
        assert!(other.what.contains("got 0 of 1 H100s"), "{other}");
    }
}

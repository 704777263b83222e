//! Checks the promises of scenarios, unless a scenario excuses itself: no task is reported late, and the worker is not idle while a
//! scheduler has work for it.
//!
//! The promises hold for workers that request work and obey deadlines. If schedulers push tasks, the slots of a scheduler without tasks
//! stay idle whatever the worker does. A worker that ignores deadlines misses some.

use crate::outcome::Outcome;
use crate::scenario::{Deadlines, Dispatch, Policy, Scenario, ScenarioPromise};

/// Limit of the idle fraction beyond the unavoidable one.
const MOST_IDLE: f64 = 0.01;

/// Returns whether the promises apply under this policy.
pub fn are_for(policy: &Policy) -> bool {
    policy.dispatch == Dispatch::Pull && policy.deadlines == Deadlines::EarliestFirst
}

/// Returns one line for each broken promise.
pub fn broken(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    if !are_for(&scenario.policy) {
        return Vec::new();
    }
    let idle = outcome.figures.idle - outcome.allowed_idle;
    let late: u64 = outcome.schedulers.iter().map(|it| it.missed).sum();
    let all = [
        (
            ScenarioPromise::Wasted,
            outcome.figures.wasted,
            0.0,
            "is wasted",
        ),
        (
            ScenarioPromise::Idle,
            idle,
            MOST_IDLE,
            "is idle beyond what must be",
        ),
    ];
    let broken = all.into_iter().filter_map(|(of, is, promised, what)| {
        let excuse = scenario.excuses.iter().find(|excuse| excuse.of == of);
        let most = excuse.map_or(promised, |excuse| excuse.most);
        let is_late = of == ScenarioPromise::Wasted && excuse.is_none() && late > 0;
        (is > most || is_late).then(|| {
            let name = &scenario.name;
            format!("{name}: {is:.5} {what}, {most:.5} may be, {late} tasks were late")
        })
    });
    broken.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::outcome::{SchedulerOutcome, Totals};
    use crate::scenario::{Excuse, Overrides, START};
    use std::path::Path;

    fn outcome(wasted: f64, idle: f64, missed: u64) -> Outcome {
        Outcome {
            scenario: "x".to_owned(),
            about: String::new(),
            seed: 1,
            duration: START,
            figures: Figures {
                wasted,
                idle,
                ..Figures::default()
            },
            allowed_idle: 0.25,
            totals: Totals::default(),
            schedulers: vec![SchedulerOutcome {
                missed,
                ..SchedulerOutcome::default()
            }],
            contacts: Vec::new(),
            series: Vec::new(),
        }
    }

    #[test]
    fn promises_are_broken_beyond_their_bounds_unless_excused() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/steady.toml");
        let mut scenario = Scenario::read(&path, &Overrides::default()).unwrap();
        let count = |scenario: &Scenario, wasted, idle, missed| {
            broken(scenario, &outcome(wasted, idle, missed)).len()
        };
        assert_eq!(count(&scenario, 0.0, 0.2599, 0), 0);
        assert_eq!(count(&scenario, 0.0, 0.2601, 0), 1);
        assert_eq!(count(&scenario, 1e-9, 0.2, 0), 1);
        assert_eq!(count(&scenario, 0.0, 0.2, 1), 1);
        assert_eq!(count(&scenario, 0.1, 0.9, 7), 2);
        scenario.excuses = vec![Excuse {
            of: ScenarioPromise::Wasted,
            most: 0.1,
            why: "nobody knows when it is away".to_owned(),
        }];
        assert_eq!(count(&scenario, 0.1, 0.2, 7), 0);
        assert_eq!(count(&scenario, 0.11, 0.2, 7), 1);
        scenario.policy.deadlines = Deadlines::Ignored;
        assert_eq!(count(&scenario, 1.0, 1.0, 7), 0);
    }
}

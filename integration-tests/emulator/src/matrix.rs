//! Plays scenarios in all variants, side by side.

use std::fmt;

use brasserie_worker_fetch::Preemption;
use serde::{Serialize, Serializer};

use crate::outcome::Outcome;
use crate::output::text;
use crate::scenario::{Deadlines, Dispatch, Scenario};

/// The settings that override those of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Variant {
    pub dispatch: Dispatch,
    /// Seconds that requests linger; a worker that gets tasks without requests makes none.
    pub linger: f64,
    pub deadlines: Deadlines,
    #[serde(serialize_with = "named")]
    pub preemption: Preemption,
}

/// Seconds that requests linger in the variants with lingering.
const LINGER: f64 = 120.0;

impl Variant {
    /// The variant with which the others are compared.
    pub const USUAL: Variant = Variant {
        dispatch: Dispatch::Pull,
        linger: 0.0,
        deadlines: Deadlines::EarliestFirst,
        preemption: Preemption::Off,
    };

    pub fn all() -> Vec<Variant> {
        let mut all = Vec::new();
        for deadlines in [Deadlines::EarliestFirst, Deadlines::Ignored] {
            for (dispatch, linger) in [
                (Dispatch::Pull, 0.0),
                (Dispatch::Pull, LINGER),
                (Dispatch::Push, 0.0),
            ] {
                all.push(Variant {
                    dispatch,
                    linger,
                    deadlines,
                    ..Variant::USUAL
                });
            }
        }
        all.push(Variant {
            preemption: Preemption::Suspend,
            ..Variant::USUAL
        });
        all
    }

    pub fn of(self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        scenario.policy.dispatch = self.dispatch;
        scenario.policy.linger = self.linger;
        scenario.policy.deadlines = self.deadlines;
        scenario.policy.preemption = self.preemption;
        scenario
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dispatch {
            Dispatch::Pull => write!(f, "pull, linger {} s", self.linger)?,
            Dispatch::Push => f.write_str("push")?,
        }
        match self.deadlines {
            Deadlines::EarliestFirst => {}
            Deadlines::Ignored => f.write_str(", no EDF")?,
        }
        match self.preemption {
            Preemption::Off => Ok(()),
            Preemption::Suspend => f.write_str(", suspend"),
        }
    }
}

fn named<S: Serializer>(preemption: &Preemption, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match preemption {
        Preemption::Off => "off",
        Preemption::Suspend => "suspend",
    })
}

/// One run of the matrix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    pub variant: Variant,
    pub outcome: Outcome,
}

/// Returns a table of all runs, one line each.
pub fn table(cells: &[Cell]) -> String {
    let name = |cell: &Cell| format!("{}: {}", cell.outcome.scenario, cell.variant);
    let width = cells.iter().map(|it| name(it).chars().count()).max();
    let width = width.unwrap_or(0);
    let mut lines = text::summary_head(width);
    let mut last = "";
    for cell in cells {
        if !last.is_empty() && last != cell.outcome.scenario {
            lines.push('\n');
        }
        last = &cell.outcome.scenario;
        lines += &text::summary_row(&name(cell), &cell.outcome, width);
    }
    lines
}

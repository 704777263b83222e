//! Releases the names of nodes that nothing refers to any more, with their ids: in slices, while tasks run.
//!
//! A reclaim scans the holders of node ids one after the other. Meanwhile another holder can get a node only through this engine: by its
//! name, as the task of an event, or from the forest in force. The first two mark the id immediately, and the forest does not change until
//! everything is marked. So the reclaim misses no node that moves from a holder not scanned yet to one already scanned.

use std::collections::BTreeMap;
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, NodeId, Time};

use crate::forest::Forest;
use crate::names::NodeNames;
use crate::slots::Charge;
use crate::tasks::Tasks;
use crate::tasks::runs::RunPath;
use crate::work::WorkBudget;

/// Nanoseconds for a row of the forest.
const ROW_COST: u64 = 5;
/// Nanoseconds for a page of statuses, present or not.
const PAGE_COST: u64 = 100;
/// Nanoseconds for a job, without its pages and waits.
const JOB_COST: u64 = 20;
const WAIT_COST: u64 = 50;
const RUN_COST: u64 = 200;

/// ```text
///   Forest --> Statuses --> Waits --> Running --> Others --all told--> Sweep --> done
/// ```
/// Another forest abandons the reclaim, which begins anew later. Node tables that arrive meanwhile wait.
#[derive(Clone, Copy, Debug)]
enum ReclaimStage {
    /// Nodes of rows before this one are marked.
    Forest(u32),
    /// Nodes with statuses are marked: those of jobs before this one, and those of this job's pages before `page`.
    Statuses { job: usize, page: usize },
    /// Nodes with waits are marked, up to this wait of this job.
    Waits {
        job: usize,
        after: Option<(Time, NodeId)>,
    },
    /// Nodes of runs before this index are marked.
    Running(usize),
    /// The caller reports the nodes that it holds outside the engine.
    Others,
    /// Every id in use is marked, and the others are released.
    Sweep,
}

/// The state of the reclaim of unused node names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reclaim {
    stage: Option<ReclaimStage>,
    /// Number of reclaims so far.
    cycle: u64,
    /// Number of names after the last reclaim.
    kept: usize,
    /// Nodes with charges of runs that the engine does not know, and the number of these charges.
    charged: BTreeMap<NodeId, u32>,
}

impl Reclaim {
    /// Returns whether the next step needs nothing from the caller.
    pub(crate) fn is_under_way(&self) -> bool {
        match self.stage {
            Some(
                ReclaimStage::Forest(_)
                | ReclaimStage::Statuses { .. }
                | ReclaimStage::Waits { .. }
                | ReclaimStage::Running(_)
                | ReclaimStage::Sweep,
            ) => true,
            Some(ReclaimStage::Others) | None => false,
        }
    }

    /// Expects fewer names after a change to a much smaller table.
    pub(crate) fn expect_rows(&mut self, former: usize, rows: usize) {
        if rows < former / 2 {
            self.kept = self.kept.min(rows);
        }
    }

    /// Notes that up to `names` names fewer are needed than at the last check.
    pub(crate) fn expect_fewer(&mut self, names: usize) {
        self.kept = self.kept.saturating_sub(names);
    }

    /// Writes into a hash when the next reclaim begins, or what the current one waits for.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Reclaim {
            stage,
            // The number only distinguishes one reclaim from the next.
            cycle: _,
            kept,
            // The ledger has these charges.
            charged: _,
        } = self;
        s.put((format!("{stage:?}"), kept));
    }

    /// Notes charges of a run that the engine does not know.
    pub(crate) fn hold_charges(&mut self, charges: &[Charge]) {
        for charge in charges {
            *self.charged.entry(charge.node).or_default() += 1;
        }
    }

    /// Undoes [`Reclaim::hold_charges`].
    pub(crate) fn release_charges(&mut self, charges: &[Charge]) {
        for charge in charges {
            let count = self.charged.get_mut(&charge.node);
            let count = count.expect("Invariant: who gives slots back has taken them");
            *count -= 1;
            if *count == 0 {
                self.charged.remove(&charge.node);
            }
        }
    }

    /// Returns whether no reclaim is under way, and there are an eighth more names than after the last one. So scans cost only a few steps
    /// for each name, and unused names take little memory beside those in use.
    pub(crate) fn is_due(&self, names: &NodeNames) -> bool {
        self.stage.is_none() && names.count() > self.kept + self.kept / 8
    }

    pub(crate) fn begin(&mut self, names: &mut NodeNames) {
        names.begin_marking();
        self.stage = Some(ReclaimStage::Forest(0));
        self.cycle += 1;
    }

    /// Abandons the reclaim: the forest changes, or the caller takes longer to report its nodes than a new node table may wait.
    pub(crate) fn abandon(&mut self, names: &mut NodeNames) {
        names.forget_marks();
        self.stage = None;
    }

    /// Returns the number of the reclaim that waits for the nodes held outside the engine, if one does.
    pub(crate) fn waits_for_caller(&self) -> Option<u64> {
        match self.stage {
            Some(ReclaimStage::Others) => Some(self.cycle),
            Some(
                ReclaimStage::Forest(_)
                | ReclaimStage::Statuses { .. }
                | ReclaimStage::Waits { .. }
                | ReclaimStage::Running(_)
                | ReclaimStage::Sweep,
            )
            | None => None,
        }
    }

    /// Ends the wait for the caller. `others` are few nodes, each of which may come and go at any time.
    pub(crate) fn end_wait(&mut self, names: &mut NodeNames, others: impl Iterator<Item = NodeId>) {
        let charged = self.charged.keys().copied();
        for node in others.chain(charged) {
            names.mark(node.0);
        }
        names.begin_sweeping();
        self.stage = Some(ReclaimStage::Sweep);
    }

    /// Runs one slice of the reclaim.
    ///
    /// Invariant: a reclaim is abandoned when its forest goes.
    pub(crate) fn run(
        &mut self,
        names: &mut NodeNames,
        (forest, tasks): (&Forest, &Tasks),
        work: &mut WorkBudget,
    ) {
        while work.is_left()
            && let Some(stage) = self.stage
        {
            self.stage = match stage {
                ReclaimStage::Forest(row) => Some(mark_forest(names, forest, row, work)),
                ReclaimStage::Statuses { job, page } => {
                    Some(mark_statuses(names, tasks, (job, page), work))
                }
                ReclaimStage::Waits { job, after } => {
                    Some(mark_waits(names, tasks, (job, after), work))
                }
                ReclaimStage::Running(place) => Some(mark_run(names, tasks, place, work)),
                ReclaimStage::Others => return,
                ReclaimStage::Sweep => match names.sweep(work) {
                    true => {
                        self.kept = names.count();
                        None
                    }
                    false => Some(stage),
                },
            };
        }
    }
}

fn mark_forest(
    names: &mut NodeNames,
    forest: &Forest,
    first: u32,
    work: &mut WorkBudget,
) -> ReclaimStage {
    for row in first..forest.len() as u32 {
        if !work.is_left() {
            return ReclaimStage::Forest(row);
        }
        work.spend(ROW_COST);
        names.mark(forest.node(row).0);
    }
    ReclaimStage::Statuses { job: 0, page: 0 }
}

fn mark_statuses(
    names: &mut NodeNames,
    tasks: &Tasks,
    (job, page): (usize, usize),
    work: &mut WorkBudget,
) -> ReclaimStage {
    let Some(of) = tasks.jobs().get(job) else {
        return ReclaimStage::Waits {
            job: 0,
            after: None,
        };
    };
    match of.statuses.page(page) {
        Some(nodes) => {
            work.spend(PAGE_COST);
            nodes.for_each(|node| names.mark(node.0));
            let page = page + 1;
            ReclaimStage::Statuses { job, page }
        }
        None => {
            work.spend(JOB_COST);
            let (job, page) = (job + 1, 0);
            ReclaimStage::Statuses { job, page }
        }
    }
}

fn mark_waits(
    names: &mut NodeNames,
    tasks: &Tasks,
    (job, after): (usize, Option<(Time, NodeId)>),
    work: &mut WorkBudget,
) -> ReclaimStage {
    if job >= tasks.len() {
        return ReclaimStage::Running(0);
    }
    let id = JobId(job as u32);
    work.spend(JOB_COST);
    for wait in tasks.waits().after(id, after) {
        work.spend(WAIT_COST);
        names.mark(wait.1.0);
        if !work.is_left() {
            let after = Some(wait);
            return ReclaimStage::Waits { job, after };
        }
    }
    let (job, after) = (job + 1, None);
    ReclaimStage::Waits { job, after }
}

fn mark_run(
    names: &mut NodeNames,
    tasks: &Tasks,
    place: usize,
    work: &mut WorkBudget,
) -> ReclaimStage {
    work.spend(RUN_COST);
    match tasks.runs().at(place) {
        None => return ReclaimStage::Others,
        Some(None) => {}
        Some(Some(_)) if sabotage::on(Sabotage::GiveBackNamesInUse) => {}
        Some(Some((task, run))) => {
            let path = match &run.path {
                RunPath::Nodes(nodes) => &nodes[..],
                RunPath::Unknown | RunPath::Row(_) => &[],
            };
            let charged = run.charges.iter().map(|charge| charge.node);
            for node in path.iter().copied().chain(charged).chain([task.node]) {
                names.mark(node.0);
            }
        }
    }
    ReclaimStage::Running(place + 1)
}

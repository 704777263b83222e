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

use super::Engine;
use crate::slots::Charge;
use crate::tasks::runs::RunPath;
use crate::work::Work;

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
enum Stage {
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
pub(super) struct Reclaim {
    stage: Option<Stage>,
    /// Number of reclaims so far.
    cycle: u64,
    /// Number of names after the last reclaim.
    kept: usize,
    /// Nodes with charges of runs that the engine does not know, and the number of these charges.
    charged: BTreeMap<NodeId, u32>,
}

impl Reclaim {
    /// Returns whether the next step needs nothing from the caller.
    pub(super) fn is_under_way(&self) -> bool {
        match self.stage {
            Some(
                Stage::Forest(_)
                | Stage::Statuses { .. }
                | Stage::Waits { .. }
                | Stage::Running(_)
                | Stage::Sweep,
            ) => true,
            Some(Stage::Others) | None => false,
        }
    }

    /// Expects fewer names after a change to a much smaller table.
    pub(super) fn table_changes(&mut self, former: usize, rows: usize) {
        if rows < former / 2 {
            self.kept = self.kept.min(rows);
        }
    }

    /// Notes that up to `names` names fewer are needed than at the last check.
    pub(super) fn fewer_are_kept(&mut self, names: usize) {
        self.kept = self.kept.saturating_sub(names);
    }

    /// Writes into a hash when the next reclaim begins, or what the current one waits for.
    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
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
    pub(super) fn hold(&mut self, charges: &[Charge]) {
        for charge in charges {
            *self.charged.entry(charge.node).or_default() += 1;
        }
    }

    /// Undoes [`Reclaim::hold`].
    pub(super) fn let_go(&mut self, charges: &[Charge]) {
        for charge in charges {
            let count = self.charged.get_mut(&charge.node);
            let count = count.expect("Invariant: who gives slots back has taken them");
            *count -= 1;
            if *count == 0 {
                self.charged.remove(&charge.node);
            }
        }
    }
}

impl Engine {
    /// Returns whether there are an eighth more names than after the last reclaim. So scans cost only a few steps for each name, and unused
    /// names take little memory beside those in use.
    pub(super) fn is_reclaim_due(&self) -> bool {
        let is_idle = self.refresh.is_none() && self.reclaim.stage.is_none();
        let kept = self.reclaim.kept;
        is_idle && self.forest.is_some() && self.node_names.count() > kept + kept / 8
    }

    pub(super) fn begin_reclaim(&mut self) {
        self.node_names.begin_marking();
        self.reclaim.stage = Some(Stage::Forest(0));
        self.reclaim.cycle += 1;
    }

    /// Abandons the reclaim: the forest changes, or the caller takes longer to report its nodes than a new node table may wait.
    pub(super) fn give_reclaim_up(&mut self) {
        self.node_names.forget_marks();
        self.reclaim.stage = None;
    }

    /// Returns the number of the reclaim that waits for the nodes held outside this engine, if one does. The caller passes them to
    /// [`Engine::hold_nodes`], then calls [`Engine::all_nodes_are_held`]. The number distinguishes one reclaim from the next.
    pub fn wants_held_nodes(&self) -> Option<u64> {
        match self.reclaim.stage {
            Some(Stage::Others) => Some(self.reclaim.cycle),
            Some(
                Stage::Forest(_)
                | Stage::Statuses { .. }
                | Stage::Waits { .. }
                | Stage::Running(_)
                | Stage::Sweep,
            )
            | None => None,
        }
    }

    /// Keeps the names of these nodes. The caller passes every node that it holds when the reclaim asks, and every node that it finds by
    /// name and keeps while the reclaim waits.
    pub fn hold_nodes(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        if !self.node_names.are_looked_through() {
            return;
        }
        for node in nodes {
            self.node_names.mark(node.0);
        }
    }

    /// Ends the report. Every node held outside was reported, or has a task of which this engine was notified while the reclaim waited.
    pub fn all_nodes_are_held(&mut self) {
        if self.wants_held_nodes().is_none() {
            return;
        }
        // These are few, and each may come and go at any time.
        let workers = self.pool.nodes();
        let held = self.tasks.held().map(|task| task.node);
        let charged = self.reclaim.charged.keys().copied();
        for node in workers.chain(held).chain(charged) {
            self.node_names.mark(node.0);
        }
        self.node_names.begin_sweeping();
        self.reclaim.stage = Some(Stage::Sweep);
    }

    /// Runs one slice of the reclaim.
    pub(super) fn go_on_reclaiming(&mut self, work: &mut Work) {
        while work.is_left()
            && let Some(stage) = self.reclaim.stage
        {
            self.reclaim.stage = match stage {
                Stage::Forest(row) => Some(self.mark_forest(row, work)),
                Stage::Statuses { job, page } => Some(self.mark_statuses(job, page, work)),
                Stage::Waits { job, after } => Some(self.mark_waits(job, after, work)),
                Stage::Running(place) => Some(self.mark_run(place, work)),
                Stage::Others => return,
                Stage::Sweep => match self.node_names.sweep(work) {
                    true => {
                        self.reclaim.kept = self.node_names.count();
                        None
                    }
                    false => Some(stage),
                },
            };
        }
    }

    fn mark_forest(&mut self, first: u32, work: &mut Work) -> Stage {
        let forest = self.forest.as_ref();
        // Invariant: a reclaim is abandoned when its forest goes.
        let forest = forest.expect("the forest by which it has begun");
        for row in first..forest.len() as u32 {
            if !work.is_left() {
                return Stage::Forest(row);
            }
            work.spend(ROW_COST);
            self.node_names.mark(forest.node(row).0);
        }
        Stage::Statuses { job: 0, page: 0 }
    }

    fn mark_statuses(&mut self, job: usize, page: usize, work: &mut Work) -> Stage {
        let Some(of) = self.tasks.jobs().get(job) else {
            return Stage::Waits {
                job: 0,
                after: None,
            };
        };
        match of.statuses.page(page) {
            Some(nodes) => {
                work.spend(PAGE_COST);
                nodes.for_each(|node| self.node_names.mark(node.0));
                let page = page + 1;
                Stage::Statuses { job, page }
            }
            None => {
                work.spend(JOB_COST);
                let (job, page) = (job + 1, 0);
                Stage::Statuses { job, page }
            }
        }
    }

    fn mark_waits(&mut self, job: usize, after: Option<(Time, NodeId)>, work: &mut Work) -> Stage {
        if job >= self.tasks.len() {
            return Stage::Running(0);
        }
        let id = JobId(job as u32);
        work.spend(JOB_COST);
        for wait in self.tasks.waits_after(id, after) {
            work.spend(WAIT_COST);
            self.node_names.mark(wait.1.0);
            if !work.is_left() {
                let after = Some(wait);
                return Stage::Waits { job, after };
            }
        }
        let (job, after) = (job + 1, None);
        Stage::Waits { job, after }
    }

    fn mark_run(&mut self, place: usize, work: &mut Work) -> Stage {
        work.spend(RUN_COST);
        match self.tasks.runs().at(place) {
            None => return Stage::Others,
            Some(None) => {}
            Some(Some(_)) if sabotage::on(Sabotage::GiveBackNamesInUse) => {}
            Some(Some((task, run))) => {
                let path = match &run.path {
                    RunPath::Nodes(nodes) => &nodes[..],
                    RunPath::Unknown | RunPath::Row(_) => &[],
                };
                let charged = run.charges.iter().map(|charge| charge.node);
                for node in path.iter().copied().chain(charged).chain([task.node]) {
                    self.node_names.mark(node.0);
                }
            }
        }
        Stage::Running(place + 1)
    }
}

//! Names of nodes that nobody has any more are given back, with their ids: in slices, while tasks run.
//!
//! Whoever has a node is looked through, one after the other. Meanwhile a node changes hands only through this engine: by its name, as
//! a task of an event, or as one of the forest in force. In the first two cases it is marked there and then, and the forest stays until
//! everything is marked. So no node is missed that goes from one who is not looked through yet to one who has been.

use std::collections::BTreeMap;
use std::hash::Hasher;

use brasserie_common::fingerprint::Shape;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, NodeId, Time};

use crate::engine::Engine;
use crate::placement::RunPath;
use crate::placement::resources::Charge;
use crate::work::Work;

/// A row of the forest is looked at.
const ROW_COST: u64 = 5;
/// A page of statuses, or the place of one.
const PAGE_COST: u64 = 100;
/// A job, if it has nothing.
const JOB_COST: u64 = 20;
const WAIT_COST: u64 = 50;
const RUN_COST: u64 = 200;

/// ```text
///   Forest --> Statuses --> Waits --> Running --> Others --all told--> Sweep --> done
/// ```
/// Another forest: it is given up, and begins anew some time. Nodes that come meanwhile wait.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nodes of rows before this one are marked.
    Forest(u32),
    /// Those with statuses of jobs before this one, and of this one those of the pages before.
    Statuses { job: usize, page: usize },
    /// Those with waits, up to this one of this job.
    Waits {
        job: usize,
        after: Option<(Time, NodeId)>,
    },
    /// Those of runs before this place.
    Running(usize),
    /// Whoever drives this engine tells which nodes it has beside.
    Others,
    /// Everything is marked that anybody has.
    Sweep,
}

/// Which names are needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reclaim {
    stage: Option<Stage>,
    /// How often it has begun.
    cycle: u64,
    /// Names that were left the last time.
    kept: usize,
    /// Nodes with charges of runs that the engine does not know, and how many such charges.
    charged: BTreeMap<NodeId, u32>,
}

impl Reclaim {
    /// There is something to do that nobody else has to do first.
    pub(crate) fn is_under_way(&self) -> bool {
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

    /// After a much smaller table fewer names are needed than the last time.
    pub(crate) fn table_changes(&mut self, former: usize, rows: usize) {
        if rows < former / 2 {
            self.kept = self.kept.min(rows);
        }
    }

    /// Notes that up to `names` names fewer are needed than at the last check.
    pub(crate) fn fewer_are_kept(&mut self, names: usize) {
        self.kept = self.kept.saturating_sub(names);
    }

    /// When it begins, and what it waits for.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Reclaim {
            stage,
            // It tells one time from the next, and no more.
            cycle: _,
            kept,
            // Part of the ledger.
            charged: _,
        } = self;
        s.put((format!("{stage:?}"), kept));
    }

    /// Somebody takes slots of these without being a run that is known.
    pub(crate) fn hold(&mut self, charges: &[Charge]) {
        for charge in charges {
            *self.charged.entry(charge.node).or_default() += 1;
        }
    }

    /// The reverse of [`Reclaim::hold`].
    pub(crate) fn let_go(&mut self, charges: &[Charge]) {
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
    /// Whether there are enough names more than were needed the last time. An eighth: so looking through everything costs a few looks
    /// a name, and names that nobody has take little room beside those that somebody has.
    pub(crate) fn is_reclaim_due(&self) -> bool {
        let is_idle = self.refresh.is_none() && self.reclaim.stage.is_none();
        let kept = self.reclaim.kept;
        is_idle && self.forest.is_some() && self.node_names.count() > kept + kept / 8
    }

    pub(crate) fn begin_reclaim(&mut self) {
        self.node_names.begin_marking();
        self.reclaim.stage = Some(Stage::Forest(0));
        self.reclaim.cycle += 1;
    }

    /// The forest will be another, or whoever should tell what it has takes longer than a new node table may wait.
    pub(crate) fn give_reclaim_up(&mut self) {
        self.node_names.forget_marks();
        self.reclaim.stage = None;
    }

    /// Wants to know which nodes are needed beside those that this engine knows to be: [`Engine::hold_nodes`] takes them, and
    /// [`Engine::all_nodes_are_held`] the word that there are no more. The number tells one time from the next.
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

    /// The names of these nodes are needed: of all that are kept when this is asked, and of each that is found by its name, and kept,
    /// while it is asked.
    pub fn hold_nodes(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        if !self.node_names.are_looked_through() {
            return;
        }
        for node in nodes {
            self.node_names.mark(node.0);
        }
    }

    /// Every node is told, or has a task that this engine was told of while it wanted to know.
    pub fn all_nodes_are_held(&mut self) {
        if self.wants_held_nodes().is_none() {
            return;
        }
        // Few, each of which may come and go at any time.
        let workers = self.pool.nodes();
        let held = self.held.iter().map(|task| task.node);
        let charged = self.reclaim.charged.keys().copied();
        for node in workers.chain(held).chain(charged) {
            self.node_names.mark(node.0);
        }
        self.node_names.begin_sweeping();
        self.reclaim.stage = Some(Stage::Sweep);
    }

    /// One slice.
    pub(crate) fn go_on_reclaiming(&mut self, work: &mut Work) {
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
        // Invariant: without its forest it is given up.
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
        let Some(of) = self.jobs.get(job) else {
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
        if job >= self.jobs.len() {
            return Stage::Running(0);
        }
        let id = JobId(job as u32);
        work.spend(JOB_COST);
        for wait in self.waits.after(id, after) {
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
        match self.running.at(place) {
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

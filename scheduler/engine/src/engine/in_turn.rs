//! Wakes waiting jobs one at a time, in the order of the policy, at places where many jobs wait. So a freed slot does not cost a check by
//! each of ten thousand jobs.

use brasserie_common::JobId;

use super::Engine;
use crate::forest::index::Forest;
use crate::placement::wait_lists::WaitKey;
use crate::statuses::gate::Gate;

/// The most jobs at a place that are woken at once, which is cheaper for a few. One in tests, so that they cover both ways.
const FEW_JOBS: usize = if cfg!(test) { 1 } else { 16 };

/// The most open places at a time. Each one costs a check for every start, which adds up where no worker has room. Beyond this number, all
/// jobs that wait at one of them are woken.
const MAX_OPEN: usize = if cfg!(test) { 2 } else { 64 };

/// The next job to wake at an open place.
enum Next {
    /// A job, and the rank of its first task there.
    Job(JobId, usize),
    /// The place has room for some jobs, but no worker has room for these.
    NoWorker,
    Nobody,
}

impl Engine {
    /// Wakes jobs that wait at a node, because slots of it may have become free.
    pub(super) fn offer_place(&mut self, forest: &Forest, row: u32) {
        let key = WaitKey::Node(row);
        if self.policy.in_turn().is_none() || self.lists.jobs_at(key) <= FEW_JOBS {
            return self.wake_all(forest, key);
        }
        if let Some(row) = self.lists.open(row, MAX_OPEN) {
            self.wake_all(forest, WaitKey::Node(row));
        }
    }

    /// Makes ready, for each open place, the job that the policy would take first there.
    pub(super) fn call_in_turn(&mut self, forest: &Forest) {
        if !self.lists.has_open() {
            return;
        }
        let start = self.policy.in_turn();
        if start.is_some() && !self.pool.has_room_for_any() {
            return;
        }
        for row in self.lists.open_rows() {
            let key = WaitKey::Node(row);
            let Some(start) = start else {
                self.lists.close(row);
                self.wake_all(forest, key);
                continue;
            };
            let mut not_yet = Vec::new();
            match self.next_at(forest, row, start, &mut not_yet) {
                Next::Job(id, rank) => self.call(forest, key, id, rank),
                Next::NoWorker => {}
                Next::Nobody => self.lists.close(row),
            }
            for (id, rank) in not_yet {
                self.call(forest, key, id, rank);
            }
        }
    }

    /// Makes one of a job's tasks ready that wait at a place.
    fn call(&mut self, forest: &Forest, key: WaitKey, id: JobId, rank: usize) {
        if let Some(below) = self.below(forest, id, key) {
            let position = below.position(rank) as usize;
            self.columns[id.index()].ready.insert(position);
            self.sync_active(id);
        }
    }

    /// Returns the next task to make ready at a place that has resources.
    ///
    /// Adds to `not_yet` the tasks of jobs that wait for other jobs or run `max_running` tasks. The caller makes these ready too, because
    /// nothing wakes them when their job becomes a candidate.
    fn next_at(
        &self,
        forest: &Forest,
        row: u32,
        start: JobId,
        not_yet: &mut Vec<(JobId, usize)>,
    ) -> Next {
        let (Some(level), node) = (forest.level(row), forest.node(row)) else {
            return Next::Nobody;
        };
        let mut ids = self.slots.at(level).iter();
        let is_enough = |id| self.slots.has_slots(node, id, self.needs.least(id));
        if !ids.all(|id| is_enough(*id)) {
            return Next::Nobody;
        }
        let mut last = None;
        let mut answer = Next::Nobody;
        for (id, rank) in self.lists.in_turn(WaitKey::Node(row), start) {
            let class = self.needs.class(id);
            let has_room = match last {
                Some((of, has_room)) if of == class => has_room,
                Some(_) | None => {
                    let needs = self.tasks.needs(id);
                    !self.slots.is_short(forest, needs, row)
                }
            };
            last = Some((class, has_room));
            let is_candidate =
                self.columns[id.index()].gate == Gate::Open && self.tasks.job(id).may_start() > 0;
            if has_room && !is_candidate {
                not_yet.push((id, rank));
            } else if has_room {
                if self.pool.has_room_for(self.tasks.job(id).demand) {
                    return Next::Job(id, rank);
                }
                answer = Next::NoWorker;
            }
        }
        answer
    }
}

//! Estimates the memory of a copy of the engine, for callers that bound it.

use brasserie_common::JobName;

use crate::engine::Engine;
use crate::placement::Run;
use crate::placement::resources::Charge;
use crate::statuses::columns::Columns;
use crate::statuses::job::Job;
use crate::types::Task;

/// Assumed charges of one run: few resources at a few levels.
const CHARGES: usize = 8;
/// Bytes that a run takes in other tables: the slots in use, and its entry among the runs of its worker.
const RUN_ELSEWHERE: usize = 128;

impl Engine {
    /// Returns about how many bytes a copy takes for names, statuses, waits and running tasks. This includes nodes and jobs that are gone,
    /// so the number of nodes and tasks in force does not bound it. Excludes everything derived from the configuration and the nodes in
    /// force. Visits each job.
    pub fn remembered_bytes(&self) -> usize {
        let of_job = |job: &Job| size_of::<Job>() + job.statuses.bytes();
        let tally = |columns: &Columns| columns.tally.get().map_or(0, |tally| tally.bytes());
        // Each name is stored in two tables.
        let job_name = 2 * size_of::<JobName>() + size_of::<u32>();
        let run = size_of::<(Task, Run)>() + CHARGES * size_of::<Charge>() + RUN_ELSEWHERE;
        self.node_names.bytes()
            + self.job_names.len() * job_name
            + self.jobs.iter().map(of_job).sum::<usize>()
            + self.columns.iter().map(tally).sum::<usize>()
            + self.waits.bytes()
            + self.held.capacity() * (size_of::<Task>() + 1)
            + self.running.capacity() * run
    }
}

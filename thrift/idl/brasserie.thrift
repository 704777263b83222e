// What our own command line asks a scheduler beyond the original service. Nothing else may rely on it.

include "common.thrift"
include "scheduler.thrift"

namespace cpp brasserie
namespace py brasserie.brasserie

// Counts are of tasks; each task counts under exactly one of 4 to 11, and total is their sum.
struct JobStatus {
  1: string name,
  2: bool enabled,
  3: i64 total,
  4: i64 unstarted,
  5: i64 running,
  6: i64 done,
  7: i64 incomplete,
  8: i64 error,
  9: i64 inBackoff,
  10: i64 failed,
  // Can never run as things are.
  11: i64 infeasible,
  12: list<string> errors,
  // When the first of those in backoff may run again: milliseconds since the epoch, by the scheduler's clock.
  13: optional i64 nextBackoffEndMs,
  // Every task is done, has failed or can never run, and that is on disk.
  14: bool settled,
  // From the first start to the last end, or until now while something runs.
  15: optional i64 elapsedMs,
  // An operator holds it.
  16: bool paused,
  // Of a job that was given by API; unset: it is in the config file.
  17: optional i64 version,
}

struct SlotUse {
  1: string resource,
  2: i64 inUse,
  // Unset: without limit.
  3: optional i64 limit,
}

struct WorkerStatus {
  1: string shard,
  2: string hostname,
  // HOST:PORT
  3: string address,
  // "new", "healthy", "unhealthy" or "must_die".
  4: string state,
  5: common.BistroInstanceID instance,
  6: i32 runningTasks,
  7: list<SlotUse> slots,
  // Of those in runningTasks, how many may have ended without our knowing.
  8: i32 unsureTasks,
  9: optional i64 sinceHeartbeatMs,
  // What it waits for before it gets tasks, as the end of a sentence that begins with "waits".
  10: optional string waitsFor,
  // What somebody should know about it: fields of ours that it does not send, a doubtful setting.
  11: list<string> notes,
  // How often it was associated anew because it obeyed another scheduler.
  12: i32 begunAnew,
}

struct ClusterStatus {
  1: common.BistroInstanceID scheduler,
  2: string clusterID,
  // Set while no task may start yet: why, until when, and what can be done about it.
  3: optional string initialWait,
  4: list<JobStatus> jobs,
  5: list<WorkerStatus> workers,
  // What is wrong with the cluster as a whole: the config, the node sources, the store.
  6: list<string> errors,
  // Milliseconds since the epoch, by the scheduler's clock.
  7: i64 wallTimeMs,
  // Why tasks may start, once they may.
  8: optional string waitEnded,
  // Before that the counts of tasks mean nothing.
  9: bool nodesLoaded,
}

struct RunningTaskStatus {
  1: string job,
  2: string node,
  3: string workerShard,
  4: common.BistroInstanceID invocationID,
  // "running" or "unsure".
  5: string state,
  6: i64 runningForMs,
}

// A task that has ended other than done, or that cannot run.
struct UnfinishedTask {
  1: string job,
  2: string node,
  // JSON: how it has ended, if it has.
  3: optional string status,
  // Why it does not run, if it has not ended.
  4: list<string> reasons,
}

// A job that is on disk and in force.
struct SubmittedJob {
  1: i64 version,
  // What is worth a look, each as LINE:COLUMN: KEY: TEXT.
  2: list<string> warnings,
}

// Nothing has changed.
exception JobRefusedException {
  1: string message,
  // What is wrong with the text of a job, each as LINE:COLUMN: KEY: TEXT.
  2: list<string> problems,
} (message = "message")

service Brasserie extends scheduler.BistroScheduler {
  ClusterStatus getClusterStatus(),

  // An empty name: of all jobs.
  list<RunningTaskStatus> getRunningTaskList(1: string job) throws (
    1: scheduler.BistroSchedulerUnknownJobException ex,
  ),

  // An empty name: of all jobs. At most so many.
  list<UnfinishedTask> getUnfinishedTasks(1: string job, 2: i32 limit) throws (
    1: scheduler.BistroSchedulerUnknownJobException ex,
  ),

  // Each reason why the task is not running; none if it runs or is done.
  list<string> explainTask(1: string job, 2: string node) throws (
    1: scheduler.BistroSchedulerUnknownJobException ex,
  ),

  // What follows is answered once it is on disk.

  // text: the JSON object that a config file has as the job's value. It takes the place of the version that is expected; 0: there
  // is no such job yet; -1: as the text's version_id says, without which there is none; -2: whatever there is.
  SubmittedJob submitJob(1: string job, 2: string text, 3: i64 expectedVersion) throws (
    1: JobRefusedException ex,
  ),

  // Of those that were given by API. expectedVersion as above, but only above 0 does it matter.
  void removeJob(1: string job, 2: i64 expectedVersion) throws (
    1: JobRefusedException ex,
  ),

  // No task of it starts until it is resumed, also after a restart; what runs goes on.
  void pauseJob(1: string job) throws (
    1: JobRefusedException ex,
  ),

  void resumeJob(1: string job) throws (
    1: JobRefusedException ex,
  ),

  // As forgiveJob. How many tasks have other statuses now.
  i64 forgiveTasks(1: string job) throws (
    1: JobRefusedException ex,
  ),
}

// What our own command line asks a scheduler, and a worker, beyond the original services. Nothing else may rely on it.

include "common.thrift"
include "scheduler.thrift"
include "worker.thrift"

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
  // An operator has cancelled it: it is paused, and its running tasks are ended.
  18: optional bool cancelled,
  // How long a task is expected to run, in seconds, and where that comes from: "given", "learned" or "default".
  19: optional double estimateSec,
  20: optional string estimateIs,
  // The submitter who owns the job. Unset: only operators and administrators change it, or an older scheduler answers.
  21: optional string owner,
}

// Tasks of many jobs, as in JobStatus.
struct TaskCounts {
  1: i64 total,
  2: i64 unstarted,
  3: i64 running,
  4: i64 done,
  5: i64 incomplete,
  6: i64 error,
  7: i64 inBackoff,
  8: i64 failed,
  9: i64 infeasible,
  // How many of unstarted, incomplete and error cannot start because their job has errors or is cancelled, paused or disabled.
  10: i64 held,
}

// All jobs, whether or not they are listed.
struct JobTotals {
  1: i64 jobs,
  // By state, as JobState in common/src/cluster_view.rs names them. States without jobs are left out.
  2: map<string, i64> jobsByState,
  3: TaskCounts tasks,
  // Enabled jobs that are not settled.
  4: i64 unsettledJobs,
}

// A resource of a worker.
struct SlotUse {
  1: string resource,
  2: i64 inUse,
  // Unset: without limit.
  3: optional i64 limit,
}

// What is left, for one type of processors, of what a worker asked for.
struct WorkAskedOfType {
  // As in WorkDemand.
  1: string processor,
  2: double instances,
  3: double instanceSecs,
  4: double idleInstances,
  // Tasks that were sent for it.
  5: i32 sent,
  // Tasks for such processors that are ready, whether or not there is room for them; and those of them that would be late there.
  6: i64 ready,
  7: i64 late,
}

// The newest request for work of a worker.
struct WorkAsked {
  1: i64 seq,
  // How long ago it came.
  2: i64 agoMs,
  // It is good for so much longer; unset: it is over.
  3: optional i64 leftMs,
  4: list<WorkAskedOfType> ofTypes,
  // All of it as what follows the worker's name.
  5: string text,
}

// A disk of a worker's store of artifacts, as the worker last reported it.
struct DiskStatus {
  // "ssd" or "hdd".
  1: string medium,
  // "healthy", "read error", "io hang" or "high usage".
  2: string state,
  3: i64 totalBytes,
  // How many bytes of further artifacts fit.
  4: i64 usableBytes,
  5: i64 artifacts,
  // Why it is not healthy, if the worker says so.
  6: optional string problem,
  // As in ArtifactDisk.
  7: optional i64 flushMicros,
  8: optional i64 fetchMicros,
}

// The transfers that have brought artifacts to a worker, or to several.
struct TransferCounts {
  1: i64 done,
  2: i64 bytes,
  // Answers of "busy" to their calls, and transfers that ended with a failed call.
  3: i64 busy,
  4: i64 failed,
}

// The starts of tasks with inputs since the scheduler has started: those at a worker with at least half of the bytes of the inputs, and the others.
struct LocalityCounts {
  1: i64 hits,
  2: i64 misses,
}

struct WorkerStatus {
  1: string shard,
  2: string hostname,
  // HOST:PORT
  3: string address,
  // "joining", "healthy", "draining" (healthy, and accepts no more tasks), "unhealthy", "revoked" (it is refused until it is lost) or
  // "lost". A healthy worker with an order has the state of the order.
  4: string state,
  5: common.BistroInstanceID instance,
  6: i32 runningTasks,
  // The slots of each worker resource, in the order of the config. Empty: there is no configuration yet, all workers together have too
  // many slots for one answer, or an older scheduler answers.
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
  // Unset: it asks for no work.
  13: optional WorkAsked asked,
  // As in BistroWorker.
  14: optional string containment,
  // It is lost after this time unless it becomes healthy; unset: nothing counts towards its loss.
  15: optional i64 lostInMs,
  // Entries of notes that an operator must act upon.
  16: optional list<string> problems,
  // Time since the last heartbeat of a healthy worker that has missed heartbeats, or that the last call since has not reached; else unset.
  17: optional i64 silentForMs,
  // The number of tasks of runningTasks that stand by: they begin as soon as slots are free at the worker.
  18: optional i32 standbyTasks,
  // To how many take-backs it has agreed.
  19: optional i64 takenBack,
  // Unset: it has reported no store of artifacts.
  20: optional list<DiskStatus> disks,
  // Since the worker's start. Unset: it has reported no such numbers.
  21: optional TransferCounts transfers,
  // Artifacts that are needed and of which no other worker that stays has a copy. Unset: not known, or none is needed.
  22: optional i64 artifactsOnlyHere,
  23: optional i64 bytesOnlyHere,
}

// What became of the requests for work that workers have sent since the scheduler has started.
struct WorkRequestCounts {
  1: i64 heard,
  2: i64 lookedAt,
  // These were not: they came again, while their workers could get nothing, too soon, or when too many came at once.
  3: i64 repeated,
  4: i64 notReady,
  5: i64 tooSoon,
  6: i64 tooMany,
  // Runs that their workers had taken and the requests did not list.
  7: i64 missingRuns,
}

// The configuration in force.
struct ConfigStatus {
  // Unset: from no file.
  1: optional string path,
  // It was kept by an earlier scheduler, as the file cannot be used since this one has started.
  2: bool isKept,
  // When it came in force first with this text: milliseconds since the epoch, by the scheduler's clock.
  3: i64 sinceMs,
}

// What the scheduler keeps on disk.
struct StoreStatus {
  // Of the database file and its log.
  1: i64 bytes,
  // Of these, free for what comes next. The scheduler returns them to the file system once they are a quarter of the file.
  2: i64 freeBytes,
  // How many tasks have a completion, whether or not they still exist.
  3: i64 completions,
  // Of these, of nodes or jobs that do not exist, as far as the scheduler has looked, which it does every hour.
  4: i64 missingCompletions,
  // On the file system that holds the store.
  5: i64 diskFreeBytes,
  // By how much the store has grown in the last growthSec seconds, which are a day at most. Unset in the first hour.
  6: optional i64 growthBytes,
  7: optional i64 growthSec,
}

// An operator's order about the worker of a shard, and how far it is.
struct WorkerOrder {
  1: string shard,
  // "excluded" (it gets neither tasks nor replicas), "decommissioning" (its data is copied elsewhere, too) or "decommissioned". "none", only
  // as the answer to "recommission".
  2: string state,
  3: string reason,
  // The caller who gave it: the user, if the caller has named one, and the address without its port.
  4: string by,
  // Milliseconds since the epoch, by the scheduler's clock.
  5: i64 sinceMs,
  // When the worker is ended, whatever is left to do; unset: never.
  6: optional i64 deadlineMs,
  // The worker does not exit once it is decommissioned.
  7: bool thenIdle,
  // The rest is about this moment. connected: a worker has the shard.
  8: bool connected,
  // Tasks that run there or may run there.
  9: i32 runningTasks,
  // Artifacts that are needed and of which no other worker that stays has a copy.
  10: i64 artifactsOnlyHere,
  11: i64 bytesOnlyHere,
  // 9 to 11 are not known yet: the scheduler or the worker has just started.
  12: bool unknown,
  // The worker is decommissioned and has not exited yet.
  13: bool exits,
  // Why nobody copies some of what is only there, as a clause. Unset: nothing is left, or it is being copied.
  14: optional string copiesWaitFor,
  // How much was only there when the deadline ended the worker; 0 if that is not known. Unset: nothing was.
  15: optional i64 artifactsLost,
  16: optional i64 bytesLost,
}

// What an operator wants of a worker.
struct WorkerOrderRequest {
  // "exclude", "decommission" or "recommission". A later order takes the place of an earlier one.
  1: string order,
  // At most 1000 bytes. Ignored with "recommission", as what follows is with "exclude", too.
  2: string reason,
  // From now on.
  3: optional i64 deadlineMs,
  4: bool thenIdle,
  // The name of the caller's user, as the caller says. Ignored if it has more than 100 bytes.
  5: optional string user,
}

// No order has changed.
exception OrderRefusedException {
  1: string message,
} (message = "message")

// The next time of an add_time node source.
struct ScheduleStatus {
  // Number of the source in node_sources, from 1.
  1: i32 source,
  // The level of its nodes.
  2: string level,
  // Milliseconds since the epoch. Unset: no time comes any more.
  3: optional i64 nextTimeMs,
  // The same with weekday, offset and zone, as in "Tue 2026-11-24 03:00 +01:00 (Europe/Berlin)".
  4: optional string nextTime,
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
  // Unset: there is none yet.
  10: optional ConfigStatus config,
  // Unset: nobody has asked for work.
  11: optional WorkRequestCounts workRequests,
  // Unset: it is not known yet, or an older scheduler answers.
  12: optional StoreStatus store,
  // Why no task starts at all; empty: tasks may start. Unset, from an older scheduler: unknown.
  13: optional list<string> nothingStarts,
  // Unset, from an older scheduler: jobs lists all.
  14: optional JobTotals jobTotals,
  // jobs does not list all: it has those that need attention first. getJobStatusPage has every job.
  15: optional bool moreJobs,
  // How many workers there are; workers lists at most 10,000, those that are not healthy first. Unset: it lists all.
  16: optional i64 workersTotal,
  // The add_time node sources of the nodes in force, 100 at most. Unset: an older scheduler answers.
  17: optional list<ScheduleStatus> schedules,
  // Why the last refresh of the nodes failed, which errors has, too. Unset: it has not failed, or an older scheduler answers.
  18: optional string nodesError,
  // The operators' orders about workers, connected or not, 10,000 at most. Unset: an older scheduler answers.
  19: optional list<WorkerOrder> orders,
  // The sums over all workers that are not lost. Unset: none has reported such numbers.
  20: optional TransferCounts transfers,
  // Unset: no task with inputs has started.
  21: optional LocalityCounts locality,
  // The calls that were refused because of who made them, since the scheduler's start, by reason: "proof" (none was shown), "token" (not
  // a valid one), "role", "shard" (another than the certificate's), "instance" (another than the bound one), "owner" or "join".
  22: optional map<string, i64> refusedCalls,
}

// How some of the jobs are, in the order of the bytes of their names.
struct JobStatusPage {
  1: list<JobStatus> jobs,
  // How many jobs there are in all.
  2: i64 total,
  // There are more after the last of these: ask for those after its name.
  3: bool hasMore,
}

// Where a list of tasks goes on. It means something to the scheduler instance that gave it, and to no other.
struct TaskCursor {
  1: common.BistroInstanceID scheduler,
  2: i64 job,
  // Set: the running tasks of the job from this node on; unset: its other tasks, after `node`, which stood at `position`.
  3: optional i64 runningFrom,
  4: optional i64 node,
  5: i64 position,
}

struct ListedTask {
  1: string job,
  2: string node,
  // "running", "unsure" (it is not known whether it runs), "standby" (it is at its worker, and begins as soon as slots are free
  // there), "waiting", "backoff", "failed", "never" (it can never run as things are), "done" or "disabled" (its node is disabled, or the job avoids it).
  3: string state,
  // Of one that runs.
  4: optional string workerShard,
  5: optional common.BistroInstanceID invocationID,
  // Since when it runs, or else when its last run ended: milliseconds since the epoch, by the scheduler's clock. Unset: it has never run.
  6: optional i64 sinceMs,
  // How its last run ended, in words, if not well; else why it does not run. Unset: there is nothing to say.
  7: optional string reason,
  // The number of tries in a row that failed, without the one that runs. Unset: none failed, or the task itself said that it has failed.
  8: optional i64 failedTries,
  // The number of failed tries in a row that makes the task failed. Unset: no number does.
  9: optional i64 mostTries,
}

// Some tasks. A page may have fewer tasks than asked for, or none, and yet not be the last one.
struct TaskPage {
  1: list<ListedTask> tasks,
  // Unset: there are no more.
  2: optional TaskCursor nextPage,
  // Milliseconds since the epoch, by the scheduler's clock.
  3: i64 wallTimeMs,
}

// A worker has accepted that it ends a run, which may go on until it has. The end comes as that of any other run.
struct TaskKill {
  1: string workerShard,
  2: common.BistroInstanceID invocationID,
  // As the job's `kill_subprocess` says.
  3: common.KillRequest killRequest,
  // The job is paused or cancelled, so that the task does not run again before it is resumed.
  4: bool held,
  // Why the task does not run again, as a sentence: its job is gone, disabled or has errors, or no enabled node has its name.
  5: optional string unwanted,
  // Seconds from the completion until the task may run again, if it counts as incomplete.
  6: optional i32 waitSec,
}

// A job that is on disk and in force.
struct SubmittedJob {
  1: i64 version,
  // What is worth a look, each as LINE:COLUMN: KEY: TEXT.
  2: list<string> warnings,
}

struct DeletedHistory {
  // How many tasks have no history now.
  1: i64 tasks,
  // How many were left alone, as they run, or nobody knows whether they do.
  2: i64 running,
  // How many were left alone, as they were lost and may still be alive.
  3: i64 maybeAlive,
}

// A worker with a copy of an output.
struct OutputHolder {
  1: string shard,
  2: string hostname,
  // Where the worker serves its copies.
  3: common.ServiceAddress address,
  // "joining" or "unhealthy": tasks do not start with this copy. Unset: the worker is healthy.
  4: optional string state,
}

// An output of the last successful run of a task.
struct ListedOutput {
  1: string job,
  2: string node,
  // Below the working directory of the task; that of a folder ends in "/".
  3: string path,
  4: common.Artifact artifact,
  // How many copies are known, each on another disk.
  5: i64 copies,
  // Some of the workers with a copy: 8 at most, or 100 in a page of one task.
  6: list<OutputHolder> holders,
  // "available" (a copy is known), "unknown" (none is, and not all workers have reported), "lost" (there is none, and the task may run
  // again for it) or "given_up" (there is none, and the task does not run again for it).
  7: string state,
  // On how many workers it should be.
  8: optional i64 replicas,
}

// All outputs of one job.
struct OutputSet {
  1: string job,
  // "until_consumed", "forever" or "for", with keepSec.
  2: string keep,
  3: optional double keepSec,
  // The jobs that have them as inputs.
  4: list<string> consumers,
  // Unset: they do not expire as things are, and keptBecause says why.
  5: optional i64 expiresInMs,
  6: optional string keptBecause,
  // How many tasks have outputs.
  7: i64 tasks,
  // Outputs with the same content count once: how many there are, their bytes, their copies, and how many have no known copy.
  8: i64 artifacts,
  9: i64 bytes,
  10: i64 copies,
  11: i64 withoutCopy,
  // Why they expire whatever keep says: with expiresInMs, or once no task needs them.
  12: optional string endsBecause,
}

// The last output of a page.
struct OutputCursor {
  1: string job,
  2: string node,
  3: string path,
}

// Some outputs, in the order of the bytes of their jobs, nodes and paths.
struct OutputPage {
  1: list<ListedOutput> outputs,
  // Of each job with an output in this page.
  2: list<OutputSet> sets,
  // Unset: there are no more.
  3: optional OutputCursor nextPage,
  // The space of the artifacts, for fetchArtifacts.
  4: string cluster,
  // Set if the first page has no output.
  5: optional string whyEmpty,
}

struct ForgottenOutputs {
  // How many tasks have no outputs now.
  1: i64 tasks,
  2: i64 outputs,
}

// A file that jobs may name as an input by `file`.
struct ListedFile {
  // As in `file`, without "./" before it.
  1: string name,
  // "config": below the folder of the config file; "uploaded": by putFile. A name may have both.
  2: string origin,
  // Unset: tasks cannot have it, and problem says why.
  3: optional common.Artifact artifact,
  4: optional string problem,
  // Some of the jobs that have it as an input, and how many there are.
  5: list<string> jobs,
  6: i64 jobsTotal,
  // How many copies of workers are known, each on another disk, and some of these workers. The scheduler has a copy besides.
  7: i64 copies,
  8: list<OutputHolder> holders,
}

// Some files, in the order of the bytes of their names.
struct FilePage {
  1: list<ListedFile> files,
  // There are more after the name of the last of these.
  2: bool hasMore,
  // The space of the artifacts, for fetchArtifacts.
  3: string cluster,
}

// How far an upload is.
struct FileUpload {
  // Names the upload in its further calls.
  1: i64 upload,
  // The byte from which on the scheduler wants more.
  2: i64 offset,
  // The file is on disk, and tasks that start from now on get it.
  3: bool done,
}

// Nothing has changed.
exception FileRefusedException {
  1: string message,
  // The scheduler takes as many uploads as it may: try again in a moment.
  2: optional bool busy,
} (message = "message")

// Some of the jobs, in the order of the bytes of their names.
struct JobPage {
  1: list<scheduler.BistroJobConfig> jobs,
  // How many there are in all at this moment.
  2: i64 total,
  // There are more after the last of these: ask for those after its name.
  3: bool hasMore,
}

// Nothing has changed.
exception JobRefusedException {
  1: string message,
  // What is wrong with the text of a job, each as LINE:COLUMN: KEY: TEXT.
  2: list<string> problems,
} (message = "message")

// A worker instance that an operator may declare dead.
struct MissingInstance {
  1: common.BistroInstanceID instance,
  2: string hostname,
  // Tasks that the scheduler knows to run there; those of an instance that has not returned since a restart are unknown.
  3: i32 runningTasks,
  // Since the scheduler last received a heartbeat or a healthcheck's result of it; unset: it never has.
  4: optional i64 silentForMs,
  // Since it was lost, ended, or was declared dead; unset: it has not left.
  5: optional i64 leftForMs,
  // For how long something still waits because it may run tasks, although it has left; unset: nothing does.
  6: optional i64 waitsForMs,
}

// Nothing has changed.
exception ForgetRefusedException {
  1: string message,
} (message = "message")

// A key that a configuration would change. The values are JSON, cut where they are long; unset: not said, and without a default.
struct PlannedKey {
  1: string key,
  2: optional string before,
  3: optional string after,
}

struct PlannedJob {
  1: string name,
  // The first of so many.
  2: list<PlannedKey> keys,
  3: optional i64 keysTotal,
}

// The first of so many.
struct PlannedNames {
  1: i64 total,
  2: list<string> first,
}

// Nodes of one level.
struct PlannedNodes {
  1: string level,
  2: PlannedNames added,
  3: PlannedNames removed,
  // Enabled, disabled, or with other tags.
  4: PlannedNames changed,
}

// A job of which tasks would start at once, or more than now could never run.
struct PlannedStarts {
  1: string job,
  // The nodes of the tasks that would start.
  2: PlannedNames nodes,
  // Tasks that would wait for room, for other jobs or for a backoff.
  3: i64 waiting,
  4: i64 infeasible,
  // Bytes of inputs that the workers of these starts lack. Unset: the job has no inputs, or nobody knows.
  5: optional i64 bytesToMove,
}

// A running task that nobody would want.
struct PlannedOrphan {
  1: string job,
  2: string node,
  3: string workerShard,
  4: common.BistroInstanceID invocationID,
  // Why nobody would want it.
  5: string reason,
  // When it would be asked to end; unset: it would run on for ever.
  6: optional i64 killAfterMs,
  7: optional common.KillRequest killRequest,
  // So it is without the change.
  8: bool already,
}

struct PlannedOrphans {
  1: i64 total,
  2: list<PlannedOrphan> first,
}

// What a config file would do. Nothing of 5 and what follows would happen with 4 set, or where it has errors in its settings.
// Of long lists it has the first entries; how many there are is told beside each. Unset, from an older scheduler: unknown.
struct Plan {
  // What is wrong with the text, each as LINE:COLUMN: KEY: TEXT.
  1: list<string> errors,
  // What is worth a look in it.
  2: list<string> warnings,
  // There are no errors in its settings; those of a job disable that job.
  3: bool usable,
  // Why it would not be in force.
  4: optional string refused,
  // Nothing would be another.
  5: bool changesNothing,
  // The file whose place it would take.
  6: string file,
  7: list<PlannedKey> settings,
  8: PlannedNames jobsAdded,
  9: PlannedNames jobsRemoved,
  10: i64 jobsChanged,
  11: list<PlannedJob> firstJobsChanged,
  12: i64 nodesBefore,
  13: i64 nodesAfter,
  14: list<PlannedNodes> nodes,
  // Why its nodes cannot be read, so that those in force would stay.
  15: optional string nodesError,
  // Why nodes were not compared, and starts not counted.
  16: optional string notCounted,
  // Why nothing starts at present, whatever the file says.
  17: list<string> held,
  // How many tasks would start at once.
  18: i64 starts,
  // Or more.
  19: bool startsMore,
  20: list<PlannedStarts> jobs,
  21: PlannedOrphans killed,
  22: PlannedOrphans left,
  // Running tasks that will be asked to end, and would not be, as JOB on NODE.
  23: PlannedNames spared,
  // What would be wrong with the cluster that is not now.
  24: list<string> problems,
  // What else there is to know.
  25: list<string> notes,
  // Of 1, 2, 7 and 20.
  26: optional i64 errorsTotal,
  27: optional i64 warningsTotal,
  28: optional i64 settingsTotal,
  29: optional i64 jobsTotal,
}

// The last run of a task whose end is stored.
struct LastRun {
  1: common.BistroInstanceID invocationID,
  2: string workerShard,
  // How long it had waited although it was ready, as far as that is known.
  3: optional i64 queuedMs,
  4: common.TaskStory story,
}

// No plan was made, and nothing is known of the text.
exception PlanRefusedException {
  1: string message,
} (message = "message")

struct Caller {
  // scheduler, worker, admin, operator, submitter or viewer.
  1: string role,
  2: optional string owner,
  // The name of the authority's cluster.
  3: optional string cluster,
  // The token's life: milliseconds since the epoch.
  4: optional i64 createdMs,
  5: optional i64 expiresMs,
}

struct TokenTerms {
  // worker: for joining. admin, operator, submitter or viewer: for people.
  1: string role,
  // Seconds until it expires.
  2: i64 seconds,
  // How often a worker may join with it.
  3: optional i32 uses,
  // The only shard that may join with it.
  4: optional string shard,
  // The owner of the jobs that a submitter may change.
  5: optional string owner,
  // The accounts that jobs of a submitter may name, USER or USER:GROUP.
  6: optional list<string> runAs,
  // A text of the administrator about the token, such as its purpose.
  7: optional string note,
}

struct TokenStatus {
  // 16 hex digits.
  1: string number,
  2: TokenTerms terms,
  // Milliseconds since the epoch.
  3: i64 createdMs,
  4: i64 expiresMs,
  // How often a worker may still join with it.
  5: optional i32 usesLeft,
  // The creator: `token NUMBER`, `user NAME` over the local socket, or `scheduler`. Absent if an earlier release has created it.
  6: optional string createdBy,
  // The authority that the token names. current: that of the cluster. former: the one that a rotation replaces. replaced: neither, so the token
  // is refused. Unset: an earlier release has created it.
  7: optional string authority,
}

struct CreatedToken {
  1: string token,
  2: TokenStatus status,
}

// The reason, and what to do.
exception NotAdmittedException {
  1: string message,
}

struct RevokedShard {
  // The label of the shard in certificates.
  1: string shard,
  // Its certificates that were issued before this second since the epoch are revoked.
  2: i64 issuedBefore,
}

struct IssuedCertificate {
  // X.509, DER: the new one, then those up to the authority's.
  1: list<binary> chain,
  // As in CertificateNews.shards, for a person: the workers that the caller must not trust. Unset: the certificate is a worker's.
  2: optional list<RevokedShard> revoked,
}

// What a worker needs to know about the certificates of its peers. It replaces what the worker has learned before.
struct CertificateNews {
  // Until their certificates have expired.
  1: list<RevokedShard> shards,
  // Revoked tokens of people who may still have a certificate: 16 hex digits each.
  2: list<string> tokens,
  // The SHA-256 of each authority whose certificates are accepted. A worker that accepts others renews its certificate.
  3: list<binary> authorities,
  // The process of the scheduler.
  4: optional i64 source,
  // It grows with each change in this process. A worker ignores news with a lower number than those that it has from the same process.
  5: optional i64 number,
}

struct AuthorityStatus {
  1: string cluster,
  // Hex digits of the SHA-256 of its certificate, as tokens have it.
  2: string hash,
  // Milliseconds since the epoch.
  3: i64 expiresMs,
  // While a rotation is under way: the hash of the authority that it replaces.
  4: optional string former,
  // Shards whose valid certificates are of the former authority; at most 1000.
  5: list<string> behind,
  // All of them.
  6: i64 behindCount,
}

// Where the reading of the audit log goes on.
struct AuditCursor {
  // The number of the first line of the file.
  1: i64 file,
  // The bytes of it that are read.
  2: i64 offset,
}

struct AuditQuery {
  // Unset: from the oldest line on that is kept.
  1: optional AuditCursor after,
  // Milliseconds since the epoch: only lines from then on, and before then.
  2: optional i64 sinceMs,
  3: optional i64 untilMs,
  // Only lines of callers with this role, owner, token, shard, user or address.
  4: optional string who,
  // Only lines of this call, or about what has this name or is of this kind.
  5: optional string what,
  // Only what was refused or has failed.
  6: optional bool refusedOnly,
}

// A page may have no lines, and yet not be the last one.
struct AuditPage {
  // One JSON object each, the oldest first.
  1: list<string> lines,
  2: AuditCursor readTo,
  3: bool hasMore,
}

service Brasserie extends scheduler.BistroScheduler {
  // At most 1000 jobs and 8 MiB of them.
  ClusterStatus getClusterStatus(),

  // All jobs as in the status, page by page: after and limit as in getJobPage.
  JobStatusPage getJobStatusPage(1: string after, 2: i32 limit),

  // As getJobs, page by page. after: the last name of the page before; empty: from the first job on. limit: no more than so many, and
  // no more than the scheduler gives at once; 0 or less: as many as that.
  JobPage getJobPage(1: string after, 2: i32 limit),

  // One job as getClusterStatus has it.
  JobStatus getJobStatus(1: string job) throws (
    1: scheduler.BistroSchedulerUnknownJobException ex,
  ),

  // Tasks, page by page: job by job, of each first the running ones, then the others in the order in which they are tried. job: empty: all,
  // also such as are configured no more and still run. states: as in ListedTask; none: all but "disabled". after: `nextPage` of the page before;
  // unset: from the first task on. limit: no more than so many, and no more than the scheduler gives at once; 0 or less: as many as that.
  // A task whose state changes meanwhile may come twice or not at all.
  TaskPage getTaskPage(1: string job, 2: list<string> states, 3: TaskCursor after, 4: i32 limit) throws (
    1: scheduler.BistroSchedulerUnknownJobException ex,
  ),

  // Each reason why the task does not start; of one that runs, where it does and whether it is in doubt. An empty node: the counts of the job's
  // tasks, the reasons that hold for all of them, and the next times of its schedules.
  list<string> explainTask(1: string job, 2: string node) throws (
    1: scheduler.BistroSchedulerUnknownJobException ex,
  ),

  // Outputs, page by page. job: empty: of all jobs. node: empty: of all tasks of the job; it needs a job. after: `nextPage` of the page
  // before; unset: from the first output on. limit: as in getTaskPage.
  OutputPage getOutputPage(1: string job, 2: string node, 3: OutputCursor after, 4: i32 limit) throws (
    1: scheduler.BistroSchedulerUnknownJobException ex,
  ),

  // The files that jobs may name as inputs, page by page. name: only this one; empty: all. after: the last name of the page before; empty: from
  // the first file on. limit: as in getTaskPage. A page has one file more than that if the last name has two.
  FilePage getFilePage(1: string name, 2: string after, 3: i32 limit),

  // What happened in the task's runs, as far as it is kept, which is the last one at most; also of a job that exists no more. None: no end
  // is stored, or its worker told nothing beside the status.
  list<LastRun> getTaskHistory(1: string job, 2: string node),

  // Has the task's worker end its run, by the job's `kill_subprocess`; answered once the worker has accepted, or refused. A run that reports
  // no status of its own counts as incomplete: the task waits for the present step of its backoff and runs again.
  TaskKill killTask(1: string job, 2: string node) throws (
    1: JobRefusedException ex,
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

  // Ends a pause, and a cancellation as far as it is left to do.
  void resumeJob(1: string job) throws (
    1: JobRefusedException ex,
  ),

  // As pauseJob; besides, its running tasks are ended as by killTask, also those that workers list after a restart. How many run now.
  i64 cancelJob(1: string job) throws (
    1: JobRefusedException ex,
  ),

  // As forgiveJob. How many tasks have other statuses now. failedOnly: only tasks that have failed for good; backoffs of others go on.
  i64 forgiveTasks(1: string job, 2: bool failedOnly = false) throws (
    1: JobRefusedException ex,
  ),

  // Declares instances of a worker dead, all or none: nothing waits for them any more, their tasks start at once, and one that returns is
  // told to die. instances: those that the operator was shown; none: nothing changes, and the answer lists those that may be declared dead.
  list<MissingInstance> forgetWorker(1: string shard, 2: list<common.BistroInstanceID> instances) throws (
    1: ForgetRefusedException ex,
  ),

  // An operator's order about the worker of a shard that the scheduler knows, connected or not. It holds until another one is given, also
  // for later instances of the worker and of the scheduler.
  WorkerOrder orderWorker(1: string shard, 2: WorkerOrderRequest order) throws (
    1: OrderRefusedException ex,
  ),

  // What the text of a config file would do in place of the file in force, which stays. format: "json", "toml" or "yaml". folder: on
  // the scheduler's machine, where its relative paths begin; empty: where those of the file in force do. Its node sources are read
  // if they are others than those in force, which runs their scripts.
  Plan planConfig(1: binary text, 2: string format, 3: string folder) throws (
    1: PlanRefusedException ex,
  ),

  // How the job's tasks have ended is forgotten, on these nodes; none: on all. Also of a job that exists no more.
  DeletedHistory deleteHistory(1: string job, 2: list<string> nodes) throws (
    1: JobRefusedException ex,
  ),

  // Stores a file under a name, in pieces of 8 MiB at most, in their order. upload: 0 begins an upload; the scheduler may have the content
  // already, and is done at once. An older file of that name remains until the new one is complete and has the SHA-256 that the artifact says.
  // An upload without a call for 60 seconds is forgotten. A piece that comes twice has no effect, and the answer says what is wanted next.
  FileUpload putFile(1: string name, 2: common.Artifact artifact, 3: i64 upload, 4: i64 offset, 5: binary bytes) throws (
    1: FileRefusedException ex,
  ),

  // An uploaded file is removed. Refused while a job has it as an input; force: not even then.
  void removeFile(1: string name, 2: bool force) throws (
    1: FileRefusedException ex,
  ),

  // The outputs of the job's tasks are forgotten, on these nodes; none: on all. Their workers delete them. Refused while a task needs them
  // as inputs; force: not even then. Tasks that are done stay done.
  ForgottenOutputs forgetOutputs(1: string job, 2: list<string> nodes, 3: bool force) throws (
    1: JobRefusedException ex,
  ),

  // Answered at once. The outputs of a job with keep = "while_held" stay for 300 seconds more; release: no longer than others hold them and
  // a task needs them. hold: the caller's hold, a random number; callers without one share a hold.
  // false: the hold has ended, so the outputs go; later ones can be held.
  bool holdOutputs(1: string job, 2: bool release, 3: i64 hold) throws (
    1: JobRefusedException ex,
  ),

  // Certifies a worker's key for a shard. secret: 64 hex digits of a token for joining; request: PKCS #10, DER, whose names are ignored.
  // A shard whose certificate is valid is refused.
  IssuedCertificate join(1: string secret, 2: string shard, 3: binary request) throws (
    1: NotAdmittedException ex,
  ),

  // Certifies another key for the shard of the caller's certificate, which may have expired at most 30 days ago.
  IssuedCertificate renewCertificate(1: binary request) throws (
    1: NotAdmittedException ex,
  ),

  // Certifies a key of the caller, a person, for ten minutes: for calls to workers, which know no tokens.
  IssuedCertificate certify(1: binary request) throws (
    1: NotAdmittedException ex,
  ),

  // Makes the caller the holder of a token for people, for this connection. secret: its 64 hex digits.
  Caller authenticate(1: string secret) throws (
    1: NotAdmittedException ex,
  ),

  // The answer has the token in full, which is shown this once.
  CreatedToken createToken(1: TokenTerms terms) throws (
    1: NotAdmittedException ex,
  ),

  list<TokenStatus> listTokens() throws (
    1: NotAdmittedException ex,
  ),

  // Ends a token, and the connections that go back to it. number: 16 hex digits, as listed.
  void revokeToken(1: string number) throws (
    1: NotAdmittedException ex,
  ),

  // Refuses the shard's certificates from now on, and closes its connections. A new token lets it join again. shard: its name, or its hash as
  // it is shown where the name is not known. Returns whether a certificate of the shard was known. An older scheduler returns nothing, and
  // refuses a shard that is not known.
  bool revokeWorker(1: string shard) throws (
    1: NotAdmittedException ex,
  ),

  AuthorityStatus getAuthority() throws (
    1: NotAdmittedException ex,
  ),

  // finish unset: replaces the authority, and accepts the certificates of both. finish: accepts those of the new one alone; refused while
  // workers have valid ones of the former, except with force.
  AuthorityStatus rotateAuthority(1: bool finish, 2: bool force) throws (
    1: NotAdmittedException ex,
  ),

  // The audit log: at most 1000 lines and 1 MiB.
  AuditPage getAuditPage(1: AuditQuery query),
}

struct WorkFetchStatus {
  // Milliseconds since the epoch, by the worker's clock.
  1: i64 takenMs,
  // 2 was a struct.
  // A JSON document: that of `work_fetch` in `brasserie worker work-fetch --json`. null: this worker fetches no work, it takes what it is
  // sent. Unset: the worker is of an older release.
  3: optional string overview,
}

// What a worker does about a scheduler that an operator wants it to ask for work at once.
struct WorkWish {
  // Where the scheduler is: whoever of them serves.
  1: list<common.ServiceAddress> members,
  // What the worker waited for with it and does not any more, a line each.
  2: list<string> ended,
  // "now": it is asked as soon as the worker can; "later": once what `why` says is over; "never": nothing comes of the wish.
  3: string state,
  // With "later": so long it takes, if that is known.
  4: optional double leftSec,
  // Not with "now".
  5: optional string why,
}

struct DrainTerms {
  // From now on: when tasks that still run are killed, in place of --drain-timeout. Unset: no change.
  1: optional i64 deadlineMs,
  // For the log of the worker.
  2: optional string reason,
}

service BrasserieWorker extends worker.BistroWorker {
  // How the worker fetches work, at this moment.
  WorkFetchStatus getWorkFetch(),
  // Ask this scheduler for work now, whatever the worker waits for of its own accord; unset: all of the worker's schedulers.
  list<WorkWish> fetchWork(
    1: common.ServiceAddress scheduler,
  ) throws (1: worker.BistroWorkerException ex),
  // Start no more tasks, and exit when the running tasks have completed, as by SIGTERM with --on-sigterm drain. Returns the number of running
  // tasks. shard, instance: the worker that the caller means; another one refuses, because addresses are reused. terms: those of the
  // latest call that has some are in force.
  i32 drain(
    1: string shard,
    2: common.BistroInstanceID instance,
    3: DrainTerms terms,
  ) throws (1: worker.BistroWorkerException ex),
  // From the scheduler, to a worker that has joined: after each of its starts, and after each change.
  void learnCertificates(1: CertificateNews news),
}

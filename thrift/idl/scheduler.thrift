// The scheduler's service: for people and programs that watch jobs, and for workers that report.

include "fb303.thrift"
include "common.thrift"
include "worker.thrift"
include "bits.thrift"

namespace cpp facebook.bistro
namespace py facebook.bistro.scheduler

typedef map<string, i32> (cpp.template = "std::unordered_map") stringToIntMap
typedef set<string> (cpp.template = "std::unordered_set") stringSet

struct BistroJobConfigFilters {
  1: stringSet whitelist,
  2: string whitelistRegex,
  3: stringSet blacklist,
  4: string blacklistRegex,
  5: double fractionOfNodes = 1.0,
  6: stringSet tagWhitelist,
}

// By level.
typedef map<string, BistroJobConfigFilters> stringToFiltersMap

struct BistroJobConfig {
  1: string name,
  // A job in a config file is on unless it says otherwise; here it is off.
  2: bool enabled = 0,
  3: string owner,
  4: stringToIntMap resources,
  // JSON.
  5: string config,
  6: double priority = 1.0,
  7: stringToFiltersMap filters,
  // JSON: what is wrong with the job.
  8: string error,
  9: list<i32> backoffValues,
  10: bool backoffRepeat,
  // Mean something only if positive.
  11: i64 createTime = 0,
  12: i64 modifyTime = 0,
  13: string levelForTasks,
  14: string levelForHostPlacement,
  15: list<string> dependsOn,
  16: string hostPlacement,
  // Unset: orphans live on.
  17: optional double killOrphanTasksAfterSec,
  // -1: create.
  18: i64 versionID = -1,
  19: common.TaskSubprocessOptions taskSubprocessOptions,
  20: common.KillRequest killRequest,
  21: optional list<string> command,
  // The backoff ends in "fail", which backoffValues cannot say when it is empty.
  22: optional bool backoffFail,
  23: optional list<string> runOnlyAfterAllNodesAreDoneFor,
  // From the start of a task's process.
  24: optional double timeoutSec,
  // As in TaskSubprocessOptions.
  25: optional string statusFrom,
  26: optional string arguments,
  // From the moment at which the scheduler decides to start a task.
  27: optional double deadlineSec,
  // As in common.RunningTask.
  28: optional double estDurationSec,
  29: optional bool bufferable,
  30: optional string report,
  // How many of its tasks may run at once; above 0. Absent: as many as there is room for.
  31: optional i32 maxRunning,
}

struct BistroCountWithSamples {
  1: i32 count,
  2: list<string> samples,
}

struct BistroJobHistogram {
  1: string job,
  // By level. The inner keys are sets of bits, thus mostly no value that the enum names.
  2: map<string, map<bits.BistroTaskStatusBits, BistroCountWithSamples>> statuses,
  // Nodes are loading, so that statuses is empty, whatever has ended. Absent: they are loaded.
  16: optional bool nodesLoading,
}

exception BistroSchedulerUnknownJobException {
  1: string message,
} (message = "message")

// What updateStatus takes.
struct StatusUpdate {
  1: common.RunningTask runningTask,
  2: string status,
  3: common.BistroInstanceID scheduler,
  4: common.BistroInstanceID worker,
}

// What updateStatus says.
struct StatusResult {
  // Unset: the status is recorded. As with any exception of updateStatus the worker tries again.
  1: optional string refusal,
}

// One disk of a worker's store of artifacts.
struct ArtifactDisk {
  // The data of the disk, 16 bytes: new whenever the disk starts without data.
  1: binary generation,
  // The sum modulo 2^256 of the ids of its artifacts, 32 bytes, big end first, and their number.
  2: binary digest,
  3: i64 artifacts,
  // "ssd" or "hdd".
  4: string medium,
  5: i64 totalBytes,
  6: i64 usedBytes,
  // How many bytes of further artifacts fit.
  7: i64 usableBytes,
  // "healthy", "read error", "io hang" or "high usage".
  8: string state,
  // Why it is not healthy, for people.
  9: optional string problem,
  // Average times of a write or sync of a copy, and of a read for a peer, in microseconds. Unset: there were too few in the last ten minutes.
  10: optional i64 flushMicros,
  11: optional i64 fetchMicros,
}

// An artifact on a disk.
struct ArtifactCopy {
  1: binary generation,
  2: binary id,
  // Unset for a copy that is gone.
  3: optional i64 size,
}

// A part of the list of a disk's artifacts, in the order of their ids.
struct ArtifactListing {
  1: binary generation,
  // As in ListingWanted.
  2: i64 listing,
  3: optional binary after,
  // Without generation.
  4: list<ArtifactCopy> copies,
  5: bool isLast,
}

// A peer with inputs for which a run waits.
struct InputPeer {
  1: common.ServiceAddress address,
  2: string hostname,
  // How often it has answered "busy" since the inputs are wanted.
  3: i32 busyAnswers,
}

// The progress of a run that waits for inputs.
struct WaitingRun {
  1: string job,
  2: string node,
  3: common.BistroInstanceID invocation,
  // The different artifacts among its inputs, and how many of them the worker's store has.
  4: i32 artifacts,
  5: i32 present,
  // Bytes of inputs that have not arrived, also of those that have arrived in part.
  6: i64 missingBytes,
  // Those with the most busy answers, at most 4.
  7: list<InputPeer> peers,
}

// Numbers since the worker's start, of all its schedulers.
struct ArtifactCounters {
  // Transfers that brought bytes from other workers, and transfers to them.
  1: i64 transfersTaken,
  2: i64 transfersServed,
  3: i64 bytesTaken,
  4: i64 bytesServed,
  // Calls of other workers that were answered with "busy", and such answers to own calls.
  5: i64 busyGiven,
  6: i64 busyReceived,
  // Inputs of runs that the store had when the run came.
  7: i64 inputsPresent,
  // Transfers from other workers that ended with a failed call. Unset: 0.
  8: optional i64 transfersFailed,
}

// What a worker tells about its store, every 10 seconds, and at once when it has changed.
struct ArtifactsReport {
  1: string shard,
  2: common.BistroInstanceID worker,
  // As the scheduler said it; unset: the worker does not know yet, and reports no artifacts.
  3: optional string cluster,
  4: optional string rack,
  5: list<ArtifactDisk> disks,
  // Since the last report that was answered.
  6: list<ArtifactCopy> stored,
  7: list<ArtifactCopy> gone,
  8: list<ArtifactListing> listings,
  // Which workers hold these artifacts?
  9: list<binary> wanted,
  // The runs that wait for inputs, oldest first, at most 256, as of a second ago at most. Unset: none.
  10: optional list<WaitingRun> waiting,
  11: optional ArtifactCounters counters,
}

// Asks for a part of the list of a disk's artifacts: those behind an id, or the first.
struct ListingWanted {
  1: binary generation,
  // Comes back with the list.
  2: i64 listing,
  3: optional binary after,
}

struct ArtifactHolders {
  1: binary id,
  // By their places in ArtifactsAnswer.holders.
  2: list<i32> holders,
}

// An artifact of which the worker should fetch a copy, without a run that needs it.
struct ArtifactReplica {
  1: common.Artifact artifact,
  // By their places in ArtifactsAnswer.holders.
  2: list<i32> holders,
}

struct ArtifactsAnswer {
  // Whose artifacts this scheduler's are.
  1: string cluster,
  2: list<ListingWanted> listings,
  // Nobody needs these copies any more: delete them.
  3: list<ArtifactCopy> unwanted,
  // For each of the artifacts that the worker wants.
  4: list<ArtifactHolders> wanted,
  5: list<common.ArtifactHolder> holders,
  // All that are wanted now: each answer repeats them until the worker has reported the copy. Unset: none.
  6: optional list<ArtifactReplica> replicate,
  // Those of the wanted artifacts of which no worker has a copy: the runs that wait for one are taken back. Unset: none.
  7: optional list<binary> lost,
}

// A request for places of artifacts that a program is about to write itself.
struct ArtifactSlotsRequest {
  // The number of artifacts: 1 to 10000.
  1: i32 artifacts,
  // The place of a second copy of each artifact: "none", "other worker", or "other rack" (of another worker if there is no other rack).
  // Empty: "none".
  2: string replicas,
  // The shards of workers that the program does not want, such as those that have just failed. Others than workers do not matter.
  3: list<string> exceptShards,
  // Use at most so many workers. 0: no limit.
  4: i32 mostWorkers,
}

// A worker that the answer names, with its disks that have slots.
struct ArtifactSlotsWorker {
  1: string shard,
  2: common.ArtifactHolder place,
  // As in ArtifactDisk. None: a spare worker.
  3: list<binary> generations,
}

// The place of one copy.
struct ArtifactPlace {
  // By its place in ArtifactSlots.workers.
  1: i32 worker,
  // By its place in the worker's generations.
  2: i32 disk,
}

// The places of one artifact.
struct ArtifactSlot {
  1: ArtifactPlace primary,
  // Unset: the request wants none.
  2: optional ArtifactPlace replica,
}

// Reserved places.
struct ArtifactSlots {
  // What releaseArtifactSlots takes.
  1: common.BistroInstanceID scheduler,
  2: i64 reservation,
  // The reservation ends by itself after this time.
  3: double reservedSec,
  // Bytes that are reserved for each copy: the average size of the outputs that tasks have left lately.
  4: i64 bytesEach,
  // Those with slots first, then the spare ones, for the replacement of workers that fail.
  5: list<ArtifactSlotsWorker> workers,
  // One for each artifact.
  6: list<ArtifactSlot> slots,
}

// There are no slots for all of the artifacts, and none is reserved.
exception NoArtifactSlotsException {
  1: string message,
} (message = "message")

service BistroScheduler extends fb303.FacebookService {
  // All of them, if they fit into one answer.
  list<BistroJobConfig> getJobs(),

  BistroJobConfig getJob(1: string job_name),

  void saveJob(1: BistroJobConfig job),

  void deleteJob(1: string job_name) throws (
    1: BistroSchedulerUnknownJobException ex,
  ),

  // Without the root and the workers.
  list<string> getLevels(),

  // No jobs: all of them. At most so many samples a bucket.
  list<BistroJobHistogram> getJobHistograms(
    1: list<string> jobs,
    2: i32 samples,
  ),

  // logtype: "stdout", "stderr" or "statuses".
  common.LogLines getJobLogsByTime(
    1: string logtype,
    2: string job_id,
    3: string node_id,
    4: i32 time,
    5: bool is_ascending,
    6: string regex_filter = "",
    // Only what this run wrote.
    16: common.BistroInstanceID invocation,
  ),

  // line_id -1: from the very start, or from the very end.
  common.LogLines getJobLogsByID(
    1: string logtype,
    2: string job_id,
    3: string node_id,
    4: i64 line_id,
    5: bool is_ascending,
    6: string regex_filter,
    // Only what this run wrote.
    16: common.BistroInstanceID invocation,
  ),

  void forgiveJob(1: string job_name),

  // Reserves space on workers for artifacts that the caller writes: for all of them, or for none.
  ArtifactSlots requestArtifactSlots(1: ArtifactSlotsRequest request) throws (
    1: NoArtifactSlotsException ex,
  ),

  // Ends a reservation: the artifacts are written, or will not be. Whether there was one that had not ended.
  bool releaseArtifactSlots(
    1: common.BistroInstanceID scheduler,
    2: i64 reservation,
  ),

  // What follows is for workers.

  // Any exception makes the worker try again.
  void updateStatus(
    1: common.RunningTask running_task,
    2: string status,
    3: common.BistroInstanceID scheduler,
    4: common.BistroInstanceID worker,
  ),

  // The same as each of them by itself, in whatever order: one result for each, in their order. A scheduler that does not know the call
  // knows updateStatus.
  list<StatusResult> updateStatusBatch(1: list<StatusUpdate> updates),

  common.SchedulerHeartbeatResponse processHeartbeat(
    1: common.BistroWorker w,
    2: common.WorkerSetID workerSetID,
  ),

  // Only from workers with a store of artifacts. A scheduler that does not know the call gives tasks neither inputs nor outputs.
  ArtifactsAnswer reportArtifacts(1: ArtifactsReport report),

  // Bytes of the files that jobs name as inputs, of which the scheduler has copies: as workers serve artifacts to each other. A scheduler that
  // does not know the call names no file as an input.
  worker.ArtifactPieces fetchArtifacts(
    1: string cluster,
    2: list<worker.ArtifactRange> ranges,
    3: i32 mostBytes,
    4: i64 transfer,
    5: string hostname,
  ) throws (
    1: worker.BistroWorkerException ex,
  ),

  // As a worker does.
  void checkArtifact(1: string cluster, 2: binary id),

  // Starts nothing itself: what is granted comes by runTask. A scheduler that does not know the call has no use for it.
  common.WorkReply requestWork(1: common.WorkRequest request),
}

// The worker's service, called by schedulers.

include "fb303.thrift"
include "common.thrift"

namespace cpp facebook.bistro
namespace py facebook.bistro.worker

enum BistroWorkerExceptionCode {
  UNHEALTHY = 1, // the worker may not start tasks now
  WRONG_ID = 2, // meant for another life of the worker, the scheduler or the task
  OLD_SEQUENCE = 3,
  DUPLICATE = 4,
  BUSY = 5,
  DRAINING = 6,
}

// What was asked has not happened and will not.
exception BistroWorkerException {
  1: string message,
  2: optional BistroWorkerExceptionCode code,
  3: optional common.BistroInstanceID bound, // with WRONG_ID: the scheduler instance that the worker obeys instead
} (message = "message")

// What runTask answers on the wire: its declared result, and a field that callers without it skip.
struct RunTaskAnswer {
  1: optional BistroWorkerException ex,
  // Only for a task with workerSlots: 0 if it has begun; else it stands by, behind those of its scheduler with smaller numbers.
  2: optional i64 queuedAt,
}

// The bytes of an artifact from this one on.
struct ArtifactRange {
  1: binary id,
  2: i64 offset,
}

// Bytes of an artifact, from the offset that was asked for.
struct ArtifactPiece {
  // Unset: the worker has no such artifact.
  1: optional binary bytes,
  // How many bytes the whole artifact has.
  2: optional i64 size,
}

struct ArtifactPieces {
  // The worker serves as many transfers as it may: ask another one. Nothing else is set then.
  1: optional bool busy,
  // One for each of the first ranges that were asked for, in their order. The last one may end before its artifact does.
  2: list<ArtifactPiece> pieces,
  // Names the transfer in its further calls.
  3: i64 transfer,
}

service BistroWorker extends fb303.FacebookService {
  // An older scheduler does not say who it is.
  list<common.RunningTask> getRunningTasks(
    1: common.BistroInstanceID worker,
    2: common.BistroInstanceID scheduler,
  ),

  // Without an exception, an updateStatus follows, sooner or later. An empty command means the worker's own.
  void runTask(
    1: common.RunningTask rt,
    2: string config,
    3: list<string> command,
    4: common.BistroInstanceID scheduler,
    5: common.BistroInstanceID worker,
    6: i64 notify_if_tasks_not_running_sequence_num,
    7: common.TaskSubprocessOptions opts,
  ) throws (
    1: BistroWorkerException ex,
  ),

  // The worker reports each of these tasks that it does not run.
  void notifyIfTasksNotRunning(
    1: list<common.RunningTask> rts,
    // 2 is taken.
    3: common.BistroInstanceID scheduler,
    4: common.BistroInstanceID worker,
    5: i64 notify_if_tasks_not_running_sequence_num,
  ),

  void requestSuicide(
    1: common.BistroInstanceID scheduler,
    2: common.BistroInstanceID worker,
    // For people.
    16: string reason,
  ) throws (
    1: BistroWorkerException ex,
  ),

  // Does not wait for the task to end.
  void killTask(
    1: common.RunningTask rt,
    // 2 was used once.
    3: common.BistroInstanceID scheduler,
    4: common.BistroInstanceID worker,
    5: common.KillRequest req,
  ) throws (
    1: BistroWorkerException ex,
  ),

  // Bytes of artifacts for another worker, as many as fit into mostBytes. transfer: 0 begins a transfer. A worker serves few transfers at a
  // time, and answers "busy" at once to others. A transfer ends when the last byte of its last range has been sent, when no range is asked
  // for, or after 10 seconds without a call.
  ArtifactPieces fetchArtifacts(
    1: string cluster,
    2: list<ArtifactRange> ranges,
    3: i32 mostBytes,
    4: i64 transfer,
    // The canonical name of the caller's host.
    5: string hostname,
  ) throws (
    1: BistroWorkerException ex,
  ),

  // The worker reads this artifact again, because it arrived damaged somewhere, and drops it if it is. Does not wait for that.
  void checkArtifact(1: string cluster, 2: binary id),

  // No jobs, no nodes: all of them.
  common.LogLines getJobLogsByID(
    1: string logtype,
    2: list<string> job_ids,
    3: list<string> node_ids,
    4: i64 line_id,
    5: bool is_ascending,
    6: i32 limit,
    7: string regex_filter,
    // Only what this run wrote. Older schedulers do not send it.
    16: common.BistroInstanceID invocation,
  ) throws (
    1: BistroWorkerException ex,
  ),
}

// What schedulers and workers tell each other about: machines, workers, tasks, worker sets, logs.
//
// Fields above the ids of the original interface are optional, and a peer that does not know them ignores them.
// The protocol version stays as it was; a capability is recognised by the presence of its field.

namespace cpp facebook.bistro
namespace php bistro
namespace py facebook.bistro.common

// The line id of a log line that no task wrote, and "there is no further page".
const i64 kNotALineID = -1

// Both sides insist on equality.
const i16 kProtocolVersion = 2

enum PhysicalResource {
  RAM_MBYTES = 1,
  CPU_CORES = 2,
  // 3 was never used.
  GPU_CARDS = 4,
}

enum PhysicalResourceEnforcement {
  NONE = 1,
  SOFT = 2, // limits only while others want the resource too
  HARD = 3,
}

enum KillMethod {
  TERM_WAIT_KILL = 1,
  KILL = 2,
  TERM = 3,
}

struct GPUInfo {
  1: string name,
  2: string pciBusID,
  // Of a machine: what there is. Of a task: what it uses.
  3: double memoryMB,
  // Of a machine: 1.0. Of a task: the fraction in use.
  4: double compute,
  // What CUDA_VISIBLE_DEVICES calls it on its machine: its UUID, or else its index.
  16: optional string cudaDevice,
}

// What a task holds of one card of its worker's machine.
struct GpuShare {
  // A GPUInfo.pciBusID of the worker.
  1: required string device,
  // Thousandths of the card: 1 to 1000.
  2: required i32 milli,
}

// What a task needs of the cards of its worker's machine.
struct GpusWanted {
  // Whole cards of these models: 1 to 10000 of each, and at most 32 models.
  1: map<string, i32> ofModels,
  // Beside those, of whatever model, in thousandths: a part of a card (1 to 999, and then no model), or whole cards.
  2: i32 anyMilli,
  // The model that it counts as until it has its cards: one of which the worker wanted work.
  3: optional string countsAs,
}

struct UsablePhysicalResources {
  1: i64 msSinceEpoch = 0,
  2: double cpuCores = 0,
  3: double memoryMB = 0,
  4: list<GPUInfo> gpus,
}

struct TaskPhysicalResources {
  1: i64 msSinceEpoch,
  // Over the whole life of the task.
  2: optional i64 cpuTimeMs,
  3: optional double memoryMB,
  4: list<GPUInfo> gpus,
  // From and to disks.
  16: optional i64 readBytes,
  17: optional i64 writtenBytes,
  // The most so far.
  18: optional double peakMemoryMB,
}

struct BackoffDuration {
  1: required bool noMoreBackoffs,
  2: required i32 seconds,
  // How many errors in a row have waited so long, with this one; absent: 1.
  16: optional i32 times,
}

struct Resource {
  1: required string name,
  2: required i32 amount,
}

struct NodeResources {
  1: required string node,
  2: required list<Resource> resources,
}

// One life of a scheduler or a worker, or one run of a task.
struct BistroInstanceID {
  1: i64 startTime,
  2: i64 rand,
}

struct LogLine {
  1: string jobID,
  2: string nodeID,
  // Seconds since the epoch.
  3: i32 time,
  // What is not UTF-8 is replaced here.
  4: string line,
  5: i64 lineID,
  // Milliseconds since the epoch.
  6: optional i64 timeMs,
  // The run that wrote it.
  7: optional BistroInstanceID invocationID,
  // Whose log it is in; the scheduler says so.
  8: optional string workerShard,
  // The line as it was written, if it is not UTF-8.
  9: optional binary bytes,
  // The line goes on in the next one of this run and stream: it was too long for one piece.
  10: optional bool continued,
}

struct LogLines {
  1: list<LogLine> lines,
  // Where to go on reading; kNotALineID after the last page.
  2: i64 nextLineID,
}

// What happened in a run that is over, beside its status.
struct TaskStory {
  // At most one of the next three; none: it is not known.
  1: optional i32 exitCode,
  2: optional i32 signal,
  // There was no process, and this is why.
  3: optional string notStarted,
  // "operator", "orphan", "timeout", "deadline", "memory_limit", "shutdown" or "suicide": who of us ended it, and why.
  4: optional string endedBy,
  // "nobody", "task", "worker" or "system".
  5: optional string fault,
  // From the acceptance until there was a process.
  6: i64 startingMs = 0,
  // From there until its last process was gone. Unset: it is not known, because the run was lost with its worker.
  7: optional i64 ranMs,
  8: i64 cpuMs = 0,
  9: optional i64 peakMemoryBytes,
  // Of stderr, oldest first.
  10: list<string> lastLines,
  // From and to disks.
  11: i64 readBytes = 0,
  12: i64 writtenBytes = 0,
  // From the acceptance until it was its turn, at a worker that lets tasks wait; startingMs counts from there.
  13: i64 waitedMs = 0,
}

// What became of a worker's wish for work, for one type of processors.
enum WorkVerdict {
  GRANTED = 1, // tasks were sent for it
  NO_WORK = 2, // no task of the type is ready
  LIMITED = 3, // some are, but there is no room for them
  DEADLINE = 4, // some are, but none of them would make its deadline
  NO_APPS = 5, // no job uses the type
  DEFERRED = 6, // it was not looked at; ask again after the delay
  STALE = 7, // there was a newer request
  PENDING = 8, // not known yet; an answer to a heartbeat will tell, or one to the same request
}

// How much work a worker wants for one type of its processors.
struct WorkDemand {
  // "CPU", or a GPUInfo.name of the worker.
  1: string processor,
  // How many it has; less than 1, or unset, counts as 1.
  2: double instances,
  // What is missing to keep all of them busy until the end of its buffer.
  3: double reqInstanceSecs,
  // For how many it wants work, whether or not they are idle.
  4: double reqInstances,
  // How many are idle at this moment.
  5: double idleInstances,
  // For how long all of them are taken by tasks with near deadlines.
  6: double estimatedDelaySec,
  // For how many tasks of it wait there. If set, instances that are idle come back: while the request is good, each run that ends makes
  // those idle again that it took, but those for which tasks wait.
  7: optional double waitingInstances,
}

// A run that the worker has: until the scheduler has acknowledged its end.
struct KnownTask {
  1: BistroInstanceID invocationID,
  // Seconds of run time that it still takes.
  2: optional double remainingSec,
  // Seconds until it must have run to its end; unset: whenever.
  3: optional double deadlineSec,
}

struct WorkRequest {
  1: BistroInstanceID worker,
  2: BistroInstanceID scheduler,
  // Rises with each request of an instance.
  3: i64 seq,
  // One for each type that it has.
  4: list<WorkDemand> demands,
  // All runs of this scheduler's tasks; unset: it does not say.
  5: optional list<KnownTask> known,
  // How long the request stays good, and until it has its verdicts in any case.
  6: double lingerSec,
  // The worker chooses the cards of a task as it begins (RunningTask.gpusWanted); unset means no.
  7: optional bool choosesCards,
  // Its tasks should have run to their ends so long before their deadlines; unset: whenever before them.
  8: optional double lowWaterSec,
}

struct ProcessorVerdict {
  1: string processor,
  2: WorkVerdict verdict,
  // With GRANTED: how many tasks so far.
  3: i32 granted,
}

struct WorkReply {
  // Of the request.
  1: i64 seq,
  // Of the types for which it wanted something.
  2: list<ProcessorVerdict> verdicts,
  // The next request comes no earlier.
  3: double requestDelaySec,
  // Of the worker's types, those that no job uses, whether or not it wanted something for them.
  4: list<string> noApps,
  // The next request comes no later; 0: whenever.
  5: double nextContactSec,
}

// Immutable bytes that one task makes and others need: a file, or a folder as an archive.
struct Artifact {
  // The SHA-256 of the bytes.
  1: binary id,
  // How many bytes.
  2: i64 size,
  // What a task gets of them: "file", "executable" or "folder".
  3: string form,
}

// An output of a task: where it was below the working directory. A path that ends with a slash is a folder's.
struct TaskOutput {
  1: string path,
  2: Artifact artifact,
  // The data of the worker's disk that has it, 16 bytes: as in ArtifactDisk.
  3: binary generation,
}

struct RunningTask {
  1: string job,
  2: string node,
  // Held on each node between the task's own and the root, and on the worker.
  3: list<NodeResources> nodeResources,
  4: string workerShard,
  5: BistroInstanceID invocationID,
  // Applies if this run ends in a way that backs off.
  6: BackoffDuration nextBackoffDuration,
  // Unset until the worker has measured.
  7: optional TaskPhysicalResources physicalResources,
  8: i32 workerSuicideTaskKillWaitMs,
  // runTask, and back with getRunningTasks: seconds of run time that it takes, as far as the scheduler can tell.
  9: optional double estDurationSec,
  // runTask only: what is left when the call is made, counted by the worker from the receipt; then it ends the task.
  10: optional i64 deadlineSec,
  // runTask, and back with getRunningTasks: processors that it keeps busy, by WorkDemand.processor; only "CPU" yet.
  11: optional map<string, double> usage,
  // runTask, and back with getRunningTasks: the request for which it is sent.
  12: optional i64 workRequestSeq,
  // 13 is set aside.
  // updateStatus, and answers of getRunningTasks with an end: the outputs that the run has left; unset: none.
  14: optional list<TaskOutput> outputs,
  // runTask, and back with getRunningTasks: it may wait at the worker; unset means no.
  15: optional bool bufferable,
  // Answers of getRunningTasks only: the task has ended with this status, which the scheduler has not acknowledged yet.
  16: optional string ended,
  // Answers of getRunningTasks with an end, and updateStatus.
  17: optional TaskStory story,
  // runTask, and back with getRunningTasks: the cards that are the task's. Unset: none are its own, and it sees all of them.
  18: optional list<GpuShare> gpus,
  // runTask, and back with getRunningTasks: "lazy" lets a worker that asks for work tell the end together with others, "immediate" does
  // not; unset means as the worker likes.
  19: optional string report,
  // runTask, and back with getRunningTasks until the task has its cards, which are in `gpus` then: what it needs of them. Only for a
  // worker that chooses them itself.
  20: optional GpusWanted gpusWanted,
  // runTask, and back with getRunningTasks: the fencing token of this run, above 0 and larger than those of all earlier runs of its task.
  // The task finds it in $BRASSERIE_FENCE; unset means it finds none.
  21: optional i64 fence,
  // runTask, and back with getRunningTasks until the task begins: the worker's slots. The task begins as soon as the tasks that run there
  // leave room for it under these, and waits until then; unset: it begins at once. Only for a worker with takesStandby.
  22: optional list<Resource> workerSlots,
}

// Who a worker's machine is. Nobody connects to it.
struct MachinePortLock {
  1: string hostname,
  2: i32 port,
}

struct ServiceAddress {
  1: string ip_or_host,
  2: i32 port,
}

// A worker that has a copy, at the address at which it serves others.
struct ArtifactHolder {
  // Unset: the scheduler itself, at the address at which the worker reaches it.
  1: ServiceAddress address,
  // The canonical name of its host, by which its distance is known. Empty: not known.
  2: string hostname,
  // Unset: not known.
  3: optional string rack,
}

// An input of a task: where it is below $BRASSERIE_INPUTS.
struct TaskInput {
  1: string path,
  2: Artifact artifact,
  // By their places in TaskArtifacts.holders.
  3: list<i32> holders,
}

// What a run needs and leaves. The worker fetches the inputs that it lacks before the process starts.
struct TaskArtifacts {
  // Whose artifacts they are: the same for all instances of a scheduler with the same data directory. 1 to 64 letters, digits, "-" and "_".
  1: string cluster,
  2: list<TaskInput> inputs,
  3: list<ArtifactHolder> holders,
  // The paths of the outputs. A run that ends well without one of them has failed.
  4: list<string> outputs,
}

struct SetHash {
  1: i64 addAll = 0,
  2: i64 xorAll = 0,
}

struct WorkerSetHash {
  1: SetHash startTime,
  2: SetHash rand,
  3: i32 numWorkers = 0,
  // 32 bytes, big end first: the sum modulo 2^256 of the members' SHA-256, each taken of the start time and then the rand
  // as 64-bit integers, big end first.
  4: optional binary digest,
}

struct WorkerSetID {
  1: BistroInstanceID schedulerID,
  // Wraps around.
  2: i64 version,
  3: WorkerSetHash hash,
  // True if the scheduler had left its own initial wait when it gave this id; only such an id can end another one's wait.
  16: optional bool settled,
}

struct BistroWorker {
  1: string shard,
  2: MachinePortLock machineLock,
  3: ServiceAddress addr,
  4: BistroInstanceID id,
  5: i32 heartbeatPeriodSec,
  // The default must stay 0, so that a peer that does not send a version is told apart.
  6: i16 protocolVersion = 0,
  7: UsablePhysicalResources usableResources,
  // As in requestWork; what is no sound request counts as none.
  8: optional WorkRequest workRequest,
  // 9 to 15 are set aside for disks and drains.
  // Whether jobs without a command can run here; unset means yes.
  16: optional bool hasWorkerCommand,
  // The goodbye of an instance: all of its processes are dead, and it starts none any more.
  17: optional bool tasksAreDead,
  // How many tasks it can run at once, 1 or more, healthchecks aside, and which limit says so, for people; unset: it does not say.
  18: optional i32 maxTasks,
  19: optional string limitedBy,
  // It ends as soon as its tasks have, and starts none any more; unset means no.
  20: optional bool draining,
  // It asks for the work that it wants, and wants no other; unset: not before its first request.
  21: optional bool asksForWork,
  // How it makes sure that no process of a task outlives it, and why, for people; unset: it does not say.
  22: optional string containment,
  // The absolute path of its logs on its host, for people; unset: it does not say.
  23: optional string logFolder,
  // Tasks may wait there for slots, see RunningTask.workerSlots; unset means no.
  24: optional bool takesStandby,
}

// Never sent; here because it always was.
struct PhysicalResourceConfig {
  1: PhysicalResource physical,
  2: string logical,
  3: i64 logicalResourceID,
  4: double multiplyLogicalBy = 1,
  5: PhysicalResourceEnforcement enforcement = PhysicalResourceEnforcement.NONE,
  6: double physicalReserveAmount = 0,
}

struct CGroupOptions {
  1: string root,
  2: string slice,
  // Empty: no cgroups.
  3: list<string> subsystems,
  4: bool unitTestCreateFiles = 0,
  // 0: leave cpu.shares alone.
  5: i16 cpuShares = 0,
  // 0: leave memory.limit_in_bytes alone.
  6: i64 memoryLimitInBytes = 0,
  7: bool killWithoutFreezer = 0,
  // Processes and threads at once; absent or 0: no limit.
  16: optional i64 pidsMax,
  // Thousandths of a core, not to be exceeded; absent or 0: no limit.
  17: optional i64 cpuQuotaMilli,
}

struct KillRequest {
  1: KillMethod method = KillMethod.TERM,
  // Between TERM and KILL.
  2: i32 killWaitMs,
  // As in TaskStory.endedBy: why. Unset: an operator wants it.
  3: optional string reason,
}

// What setrlimit(2) sets.
struct ResourceLimit {
  // "nofile", "core" and so on: the kernel's names in lower case.
  1: string name,
  // As the kernel counts: bytes, seconds, or how many; -1: unlimited. Not above the hard one.
  2: i64 soft,
  3: i64 hard,
}

struct TaskSubprocessOptions {
  1: i32 pollMs = 10,
  // Zero or less: no limit.
  2: i32 maxLogLinesPerPollInterval = 50,
  // 0: none.
  3: i32 parentDeathSignal = 9,
  4: bool processGroupLeader = 0,
  5: bool useCanaryPipe = 1,
  6: i32 refreshResourcesSec = 2,
  7: CGroupOptions cgroupOptions,
  // From the start of the process; then the worker ends it.
  8: optional double timeoutSec,
  // On each process of the task; absent: as the worker has them. Each name once.
  9: optional list<ResourceLimit> limits,
  // "auto", "pipe" or "exit_code": what decides the task's status.
  10: optional string statusFrom,
  // "append" or "none": whether the worker adds its own arguments to the command.
  11: optional string arguments,
  // Whose rights the task has, by name or number; absent: the worker's.
  12: optional string user,
  // In which group, by name or number; absent: the user's own.
  13: optional string group,
  // Zero or less: no limit.
  16: optional i32 maxLogBytesPerPollInterval,
  // "wait" or "drop": what becomes of output beyond these limits.
  17: optional string logOverflow,
  // "log" or "file": where the task's output goes.
  18: optional string output,
  // 14 and 15 are set aside.
  // How the worker ends a task whose timeout or deadline is over.
  19: optional KillRequest killRequest,
  // Variables of the task's environment, by name, which replace those that pass from the worker's.
  20: optional map<string, string> environment,
  // Where the task begins: an absolute path on the worker's machine; absent: in a folder of its job.
  21: optional string workingDirectory,
  // runTask only: what the run needs and leaves; unset: nothing.
  22: optional TaskArtifacts artifacts,
}

struct SchedulerHeartbeatResponse {
  1: BistroInstanceID id,
  // The next four are in seconds.
  2: i32 maxHealthcheckGap,
  3: i32 heartbeatGracePeriod,
  4: i32 loseUnhealthyWorkerAfter,
  5: i32 workerCheckInterval,
  // 0 new, 1 healthy, 2 unhealthy, 3 must die.
  6: i32 workerState,
  // The default must stay 0, as in BistroWorker.
  7: i16 protocolVersion = 0,
  // The worker hands it back, unchanged, with its next heartbeats.
  8: WorkerSetID workerSetID,
  // Of the worker's newest request.
  9: optional WorkReply workVerdict,
  // The worker's next request comes no earlier, whether or not there was one.
  10: optional double requestDelaySec,
  // 11 to 15 are set aside.
  // How long the worker has been other than healthy in the scheduler's eyes; rounded up.
  16: optional i64 notHealthyForMs,
  // For people: why workerState is 3 (must die).
  17: optional string whyMustDie,
  // Set: jobs leave or need artifacts, so a worker with a store of them reports it with reportArtifacts.
  18: optional bool usesArtifacts,
}

// The bits that make up a task's status, as histograms report them.

namespace cpp facebook.bistro
namespace py facebook.bistro.bits

enum BistroTaskStatusBits {
  // Where the task stands. UNSTARTED never comes from a worker.
  UNSTARTED = 1,
  RUNNING = 2,
  DONE = 4,
  INCOMPLETE = 8,
  FAILED = 16, // for good
  ERROR = 32, // may be tried again

  USES_BACKOFF = 64,

  // Why it may not run; computed for display only.
  AVOIDED = 128, // the job's filters leave the node out
  DISABLED = 256, // the node itself is off

  DOES_NOT_ADVANCE_BACKOFF = 512,
  OVERWRITEABLE = 1024,
  HAS_SAVED_BACKOFF = 2048, // never leaves the scheduler

  CURRENT_STATUS_MASK = 3711,
  CAN_RUN_MASK = 384,
}

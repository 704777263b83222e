//! The environment variables with which a keeper, its stages and its program tell each other about themselves.

/// The variable that carries the program's command line over the exec that turns the started process into the keeper: `PID:` and the
/// percent-encoded arguments with spaces between them.
pub(crate) const ARGUMENTS_VARIABLE: &str = "BRASSERIE_KEEPER_ARGUMENTS";
/// The variable that reveals to a program that it has a keeper, and that marks all its descendants: `PID:RANDOM` of the keeper.
pub(crate) const MARKER_VARIABLE: &str = "BRASSERIE_KEPT";
/// The variable that distinguishes the tasks of a program's schedulers, if it has several: the program's mark, `:`, and the scheduler's
/// index in its list.
pub(crate) const KEPT_FOR_VARIABLE: &str = "BRASSERIE_KEPT_FOR";
/// The variable with the descriptors of the lease's shared page and of its pipe, which the program inherits; see [`crate::keeper::lease`].
pub(crate) const LEASE_VARIABLE: &str = "BRASSERIE_KEEPER_LEASE";
/// The variable that names the last worker of the data directory to a worker in a namespace, after its keeper has ended the leftover
/// processes of that worker.
pub(crate) const SWEPT_VARIABLE: &str = "BRASSERIE_SWEPT";
/// The variable with a worker's containment. The keeper or the stage sets it, and no task inherits it.
pub(crate) const CONTAINMENT_VARIABLE: &str = "BRASSERIE_CONTAINMENT";
/// The variable with the instructions of a stage.
pub(crate) const STAGE_VARIABLE: &str = "BRASSERIE_STAGE";
/// The variable that names the control group of version 2 that the keeper has left, so that a worker in a namespace can move to its child
/// `worker`.
pub(crate) const GROUP_VARIABLE: &str = "BRASSERIE_KEEPER_GROUP";

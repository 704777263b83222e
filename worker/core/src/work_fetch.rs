//! The client side of dispatch: which scheduler is asked for work, when and for how much, and which of the tasks that came runs first.
//!
//! All of it is pure: functions of plain values, without clocks and without random numbers but those that are passed in. Instants are
//! [`Time`](brasserie_common::Time)s; spans and amounts of work are seconds, amounts of processors are instances, both as `f64`, since
//! policies weigh them and never count with them: what is counted exactly, slots and cards, is counted elsewhere.

mod amounts;
mod busy;
mod estimates;
mod outlook;
mod priority;
mod profile;
mod rec;
mod rr_sim;
mod types;

pub use estimates::{Estimates, Progress, SavedEstimate, remaining};
pub use outlook::{AssociationOutlook, Outlook, PairOutlook, TypeOutlook};
pub use priority::Priorities;
pub use profile::{Profile, ReportPolicy, RrOrder, TaskErrors};
pub use rec::{Accounting, RPC_POLICY_HALF_LIFE, SavedRec, update_average};
pub use rr_sim::Situation;
pub use types::{
    Association, AssociationIndex, Associations, PerType, ProcessorKind, ProcessorType, Processors,
    Stage, Task, TaskNumber, Usage,
};

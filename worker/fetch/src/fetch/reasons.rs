//! Determines why a scheduler is not asked for work, or not for work of some type. The first reason in the order of the lists is reported.
//!
//! BOINC has more reasons, which do not exist here: tasks that run beside all others, tasks that a user has suspended or that defer
//! themselves, types that a user, a setting or an account manager withholds from a project, GPUs that some tasks must not use, and software
//! for unknown platforms.

use std::fmt;

use super::super::amounts::amount;
use super::super::types::{AssociationIndex, PerType, ProcessorType, Processors, TaskStage};
use super::{FetchInput, Source, has_no_share};

/// The reason why nothing is asked of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationReason {
    /// The operator has suspended the scheduler, or the scheduler sends no work; see [`Source::suspended`].
    Suspended,
    /// The scheduler's member list must be read again.
    ListPending,
    /// The operator wants no more work from the scheduler, or the worker is about to exit.
    NoMoreWork,
    /// The inputs of one of its tasks are delayed without a known end, and more tasks would wait for theirs.
    InputsStalled,
    /// The scheduler does not acknowledge the completions of its tasks.
    TooManyUnacknowledged,
    /// The worker has more than `Profile::max_runnable` runnable tasks of the scheduler.
    TooManyRunnable,
    /// The scheduler may not be contacted before its `min_rpc_time`.
    MinRpcTime,
}

impl fmt::Display for AssociationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AssociationReason::Suspended => "suspended",
            AssociationReason::ListPending => "member list fetch pending",
            AssociationReason::NoMoreWork => "no more work wanted",
            AssociationReason::InputsStalled => "some input is stalled",
            AssociationReason::TooManyUnacknowledged => "too many ended tasks unacknowledged",
            AssociationReason::TooManyRunnable => "too many runnable tasks",
            AssociationReason::MinRpcTime => "scheduler RPC backoff",
        })
    }
}

/// The reason why a scheduler is not asked for work of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairReason {
    /// The scheduler said that none of its jobs uses the type.
    NoApps,
    /// The scheduler has no share, so it gets only idle instances, and all instances stay busy for longer than a request takes, or than the
    /// smallest work buffer.
    ZeroShare,
    /// A limit of concurrent tasks keeps tasks of the scheduler waiting beyond the high water mark.
    MaxConcurrent,
    /// The backoff of the type has not ended.
    BackedOff,
    /// Tasks have ended, and the next are sent without a request.
    Follows,
}

impl fmt::Display for PairReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PairReason::NoApps => "no job uses this type",
            PairReason::ZeroShare => "zero share",
            PairReason::MaxConcurrent => "max concurrent tasks reached",
            PairReason::BackedOff => "backed off",
            PairReason::Follows => "a task follows by itself",
        })
    }
}

/// The reasons of one association.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reasons {
    pub of_association: Option<AssociationReason>,
    pub of_type: PerType<Option<PairReason>>,
}

impl Reasons {
    pub fn of_all(fetch_input: &FetchInput<'_>) -> Vec<Self> {
        let held = AssociationTasks::of_all(fetch_input);
        let all = held.iter().enumerate();
        all.map(|(index, held)| {
            let index = AssociationIndex(index);
            let mut of_type = fetch_input.processors.table(&None);
            for for_type in fetch_input.processors.types() {
                of_type[for_type] = pair_reason(fetch_input, index, for_type);
            }
            Reasons {
                of_association: association_reason(fetch_input, index, held),
                of_type,
            }
        })
        .collect()
    }
}

/// The tasks of one association, as far as reasons depend on them.
#[derive(Clone, Default)]
struct AssociationTasks {
    runnable: usize,
    has_stalled: bool,
}

impl AssociationTasks {
    fn of_all(fetch_input: &FetchInput<'_>) -> Vec<Self> {
        let mut all = vec![AssociationTasks::default(); fetch_input.associations.len()];
        for task in fetch_input.tasks {
            let Some(held) = all.get_mut(task.association.0) else {
                continue;
            };
            match task.stage {
                TaskStage::WaitingForInputs { stalled: true } => held.has_stalled = true,
                TaskStage::Queued
                | TaskStage::WaitingForInputs { stalled: false }
                | TaskStage::Executing { .. }
                | TaskStage::Preempted { .. } => held.runnable += 1,
            }
        }
        all
    }
}

fn association_reason(
    fetch_input: &FetchInput<'_>,
    index: AssociationIndex,
    held: &AssociationTasks,
) -> Option<AssociationReason> {
    let Some(source) = fetch_input.sources.get(index.0) else {
        return Some(AssociationReason::Suspended);
    };
    let Source {
        suspended,
        list_pending,
        no_more_work,
        unacknowledged,
        min_rpc_time,
        correction: _,
        is_tried: _,
        of_type: _,
    } = source;
    let too_many = most_unacknowledged(fetch_input.processors);
    let first_match = [
        (*suspended, AssociationReason::Suspended),
        (*list_pending, AssociationReason::ListPending),
        (*no_more_work, AssociationReason::NoMoreWork),
        (held.has_stalled, AssociationReason::InputsStalled),
        (
            *unacknowledged > too_many,
            AssociationReason::TooManyUnacknowledged,
        ),
        (
            held.runnable > fetch_input.profile.max_runnable,
            AssociationReason::TooManyRunnable,
        ),
        (
            *min_rpc_time > fetch_input.now,
            AssociationReason::MinRpcTime,
        ),
    ];
    first(first_match)
}

/// Returns the limit of unacknowledged completions above which a scheduler is not asked: twice the instances of the type with the most.
pub fn most_unacknowledged(processors: &Processors) -> usize {
    let types = processors.types();
    let instances = types.map(|of_type| processors[of_type].instances);
    let most = instances.max().unwrap_or(0);
    usize::try_from(most).map_or(usize::MAX, |most| most.saturating_mul(2))
}

fn pair_reason(
    fetch_input: &FetchInput<'_>,
    index: AssociationIndex,
    for_type: ProcessorType,
) -> Option<PairReason> {
    let association = fetch_input.associations.get(index.0)?;
    let source = fetch_input.sources.get(index.0)?;
    let source = source.of_type[for_type];
    let saturated = amount(fetch_input.outlook.of_type[for_type].saturated);
    let idle = amount(fetch_input.outlook.of_type[for_type].idle_now);
    let is_covered = source
        .credit
        .is_none_or(|credit| credit.covers(fetch_input.now, idle));
    let outlook = fetch_input.outlook.of_association.get(index.0);
    let limited_at = outlook.and_then(|outlook| outlook.limited_at);
    let profile = fetch_input.profile;
    let soon = profile.work_buffer_min.min(profile.fetch_time);
    let first_match = [
        (source.no_apps, PairReason::NoApps),
        (
            has_no_share(association) && saturated > soon,
            PairReason::ZeroShare,
        ),
        (
            limited_at.is_some_and(|at| at > profile.high_water()),
            PairReason::MaxConcurrent,
        ),
        (
            source.backed_off_until > fetch_input.now && is_covered,
            PairReason::BackedOff,
        ),
        (
            source
                .credit
                .is_some_and(|credit| credit.brings(fetch_input.now, idle)),
            PairReason::Follows,
        ),
    ];
    first(first_match)
}

fn first<R, const N: usize>(matches: [(bool, R); N]) -> Option<R> {
    let mut holding = matches.into_iter().filter(|(holds, _)| *holds);
    holding.next().map(|(_, reason)| reason)
}

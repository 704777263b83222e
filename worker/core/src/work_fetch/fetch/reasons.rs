//! Why a scheduler is not asked for work, or not for work of some type. The first reason that holds is the one that is told; the last
//! means that no other does.
//!
//! What the volunteers' system has more: tasks that run beside all others, and ones that a user has suspended or that defer
//! themselves (there are none such here); types that a user, a setting or a manager of accounts keeps from a project, cards that some of
//! its tasks must not use, and software for platforms that it does not know (nothing here keeps a type from one scheduler alone).

use std::fmt;

use super::super::amounts::amount;
use super::super::types::{AssociationIndex, PerType, ProcessorType, Processors, Stage};
use super::{Grounds, Source, has_no_share};

/// Why nothing is asked of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationReason {
    Suspended,
    ListPending,
    NoMoreWork,
    /// Nobody knows when some task will have its inputs: more of its tasks would wait for theirs.
    InputsStalled,
    /// It does not take the results of what it gave.
    TooManyUnacknowledged,
    TooManyRunnable,
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

/// Why a scheduler is not asked for work of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairReason {
    NoApps,
    /// It has only what the others leave, and they leave nothing now.
    ZeroShare,
    /// As many of its tasks as may run at once are here for longer than the buffer lasts.
    MaxConcurrent,
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

/// Of one association.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reasons {
    pub of_association: Option<AssociationReason>,
    pub of_type: PerType<Option<PairReason>>,
}

impl Reasons {
    pub fn of_all(grounds: &Grounds<'_>) -> Vec<Self> {
        let held = Held::of_all(grounds);
        let all = held.iter().enumerate();
        all.map(|(index, held)| {
            let index = AssociationIndex(index);
            let mut of_type = grounds.processors.table(&None);
            for for_type in grounds.processors.types() {
                of_type[for_type] = pair_reason(grounds, index, for_type);
            }
            Reasons {
                of_association: association_reason(grounds, index, held),
                of_type,
            }
        })
        .collect()
    }
}

/// What matters here of the tasks of one association.
#[derive(Clone, Default)]
struct Held {
    runnable: usize,
    has_stalled: bool,
}

impl Held {
    fn of_all(grounds: &Grounds<'_>) -> Vec<Self> {
        let mut all = vec![Held::default(); grounds.associations.len()];
        for task in grounds.tasks {
            let Some(held) = all.get_mut(task.association.0) else {
                continue;
            };
            match task.stage {
                Stage::WaitingForInputs { stalled: true } => held.has_stalled = true,
                Stage::Queued
                | Stage::WaitingForInputs { stalled: false }
                | Stage::Executing { .. }
                | Stage::Preempted { .. } => held.runnable += 1,
            }
        }
        all
    }
}

fn association_reason(
    grounds: &Grounds<'_>,
    index: AssociationIndex,
    held: &Held,
) -> Option<AssociationReason> {
    let Some(source) = grounds.sources.get(index.0) else {
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
    let too_many = most_unacknowledged(grounds.processors);
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
            held.runnable > grounds.profile.max_runnable,
            AssociationReason::TooManyRunnable,
        ),
        (*min_rpc_time > grounds.now, AssociationReason::MinRpcTime),
    ];
    first(first_match)
}

/// Who has not acknowledged more ends than this is not asked: twice the instances of the type that has most.
pub fn most_unacknowledged(processors: &Processors) -> usize {
    let types = processors.types();
    let instances = types.map(|of_type| processors[of_type].instances);
    let most = instances.max().unwrap_or(0);
    usize::try_from(most).map_or(usize::MAX, |most| most.saturating_mul(2))
}

fn pair_reason(
    grounds: &Grounds<'_>,
    index: AssociationIndex,
    for_type: ProcessorType,
) -> Option<PairReason> {
    let association = grounds.associations.get(index.0)?;
    let source = grounds.sources.get(index.0)?;
    let source = source.of_type[for_type];
    let saturated = amount(grounds.outlook.of_type[for_type].saturated);
    let idle = amount(grounds.outlook.of_type[for_type].idle_now);
    let is_covered = source
        .credit
        .is_none_or(|credit| credit.covers(grounds.now, idle));
    let outlook = grounds.outlook.of_association.get(index.0);
    let limited_at = outlook.and_then(|outlook| outlook.limited_at);
    let profile = grounds.profile;
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
            source.backed_off_until > grounds.now && is_covered,
            PairReason::BackedOff,
        ),
        (
            source
                .credit
                .is_some_and(|credit| credit.brings(grounds.now, idle)),
            PairReason::Follows,
        ),
    ];
    first(first_match)
}

fn first<R, const N: usize>(matches: [(bool, R); N]) -> Option<R> {
    let mut holding = matches.into_iter().filter(|(holds, _)| *holds);
    holding.next().map(|(_, reason)| reason)
}

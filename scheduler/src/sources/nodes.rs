//! Builds the nodes of a configuration source by source, and runs the scripts of script sources.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common_config::{
    Config, NodeNaming, NodeSource, ScheduleMemory, ScriptSource, Since, TooManyTimes, Zone,
};
use brasserie_scheduler_engine::{
    NodeError, NodeTable, NodeTableBuilder, Row, SourceTime, TimesGiven,
};
use tokio_util::task::AbortOnDropHandle;

use super::script::{Script, ScriptError};

/// Maximum scripts that run at once: enough to overlap scripts that wait for a server, but few enough for the scheduler's machine when
/// there are thousands of them.
const MAX_SCRIPTS_AT_ONCE: usize = 4;

/// How far back schedule times are caught up that were missed because no scheduler ran, the machine was suspended or a source failed.
/// Within a day an operator notices, and older times are worth less than the burst of their tasks costs. The memory of a schedule item also
/// outlives its removal from the configuration by this time.
const CATCH_UP: Duration = Duration::from_secs(86_400);

/// The name of the instance node, at the top of the forest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceNode(pub Arc<str>);

/// Why a refresh gave no nodes.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    #[error("node source {position}: {error}")]
    Node { position: usize, error: NodeError },
    #[error("node source {position}: {error}")]
    Times {
        position: usize,
        error: TooManyTimes,
    },
    #[error("node source {position}: {error}")]
    Script { position: usize, error: ScriptError },
    #[error("node source {position}: building the nodes failed: {error}")]
    Died {
        position: usize,
        error: tokio::task::JoinError,
    },
}

/// The moment for which nodes are built, for sources that follow the clock.
#[derive(Clone, Debug)]
pub struct BuildMoment {
    pub now: WallTime,
    /// The zone of schedules that name none.
    pub zone: Zone,
    /// The memory of the previous refresh. Initially, the memory that the last scheduler recorded.
    pub memory: Arc<ScheduleMemory>,
}

/// The nodes of one moment.
#[derive(Debug)]
pub struct BuiltNodes {
    pub table: NodeTable,
    /// The time at which the nodes change. `None`: the clock changes nothing.
    pub until: Option<WallTime>,
    /// Names the first source without nodes that has parents for them and follows no clock. `None`: there is no such source.
    pub doubt: Option<String>,
}

/// Builds the nodes of all sources in order. The first failure fails the whole refresh. Dropping the future ends its scripts.
pub async fn build_nodes(
    config: Arc<Config>,
    folder: PathBuf,
    instance: InstanceNode,
    moment: BuildMoment,
) -> Result<BuiltNodes, NodesError> {
    let mut builder = NodeTableBuilder::new(&instance.0, &config);
    let mut until: Option<WallTime> = None;
    let mut times = TimesGiven::default();
    let mut doubt = None;
    for (index, source) in config.node_sources.iter().enumerate() {
        // Positions in messages start at one.
        let position = index + 1;
        builder.begin_source();
        builder = match source {
            NodeSource::Empty => builder,
            NodeSource::Manual(_) | NodeSource::RangeLabel(_) => {
                build(position, builder, Arc::clone(&config), index).await?
            }
            NodeSource::Script(script) => run_scripts(position, builder, script, &folder).await?,
            NodeSource::AddTime(_) => {
                let config = Arc::clone(&config);
                let timed = Timed {
                    builder,
                    until,
                    times,
                };
                let timed = add_time(position, timed, config, index, moment.clone()).await?;
                (until, times) = (timed.until, timed.times);
                timed.builder
            }
        };
        if builder.source_is_empty() {
            doubt = doubt.or_else(|| why_empty(position, source, &builder));
        }
    }
    let before = &moment.memory;
    times.memory.remember_absent(before, moment.now, CATCH_UP);
    Ok(BuiltNodes {
        table: builder.finish().with_times(times),
        until,
        doubt,
    })
}

/// Returns a sentence that names this source, which gave no nodes; `None` if the source could not give any.
fn why_empty(position: usize, source: &NodeSource, builder: &NodeTableBuilder) -> Option<String> {
    let has_parents = |level| !builder.rows_at(level).is_empty();
    match source {
        NodeSource::Empty | NodeSource::AddTime(_) | NodeSource::Manual(_) => None,
        NodeSource::RangeLabel(range) if !has_parents(range.parent_level) => None,
        NodeSource::Script(script) if !has_parents(script.parent_level) => None,
        NodeSource::RangeLabel(_) => Some(format!("node source {position} gave no nodes")),
        NodeSource::Script(script) => Some(format!(
            "node source {position} gave no nodes: its script {} printed no names",
            script.script.display()
        )),
    }
}

/// Builds on a blocking thread, because a source may have millions of nodes.
async fn build(
    position: usize,
    mut builder: NodeTableBuilder,
    config: Arc<Config>,
    index: usize,
) -> Result<NodeTableBuilder, NodesError> {
    let built = tokio::task::spawn_blocking(move || {
        match &config.node_sources[index] {
            NodeSource::Manual(nodes) => builder.add_manual(nodes)?,
            NodeSource::RangeLabel(range) => builder.add_range_label(range)?,
            NodeSource::Empty | NodeSource::Script(_) | NodeSource::AddTime(_) => {}
        }
        Ok(builder)
    });
    finish(position, built.await)
}

/// The results so far of the sources that follow the clock.
struct Timed {
    builder: NodeTableBuilder,
    until: Option<WallTime>,
    times: TimesGiven,
}

/// Builds on a blocking thread, because calendar searches are slow.
async fn add_time(
    position: usize,
    mut timed: Timed,
    config: Arc<Config>,
    index: usize,
    moment: BuildMoment,
) -> Result<Timed, NodesError> {
    let built = tokio::task::spawn_blocking(move || {
        let NodeSource::AddTime(source) = &config.node_sources[index] else {
            return Ok(timed);
        };
        let since = Since {
            memory: &moment.memory,
            window: CATCH_UP,
        };
        let due = source
            .due_since(&since, moment.now, &moment.zone, &mut timed.times.memory)
            .map_err(|error| NodesError::Times { position, error })?;
        let given_up = due.given_up.iter();
        let given_up = given_up.map(|times| format!("node source {position}: {times}"));
        timed.times.given_up.extend(given_up);
        timed.times.next.push(SourceTime {
            source: position,
            level: source.level(),
            next: due.next,
        });
        timed
            .builder
            .add_time(source, &due.times)
            .map_err(|error| NodesError::Node { position, error })?;
        timed.until = timed.until.into_iter().chain(due.until).min();
        Ok(timed)
    });
    match built.await {
        Ok(built) => built,
        Err(error) => Err(NodesError::Died { position, error }),
    }
}

fn finish(
    position: usize,
    built: Result<Result<NodeTableBuilder, NodeError>, tokio::task::JoinError>,
) -> Result<NodeTableBuilder, NodesError> {
    match built {
        Ok(Ok(builder)) => Ok(builder),
        Ok(Err(error)) => Err(NodesError::Node { position, error }),
        Err(error) => Err(NodesError::Died { position, error }),
    }
}

async fn run_scripts(
    position: usize,
    mut builder: NodeTableBuilder,
    source: &ScriptSource,
    folder: &Path,
) -> Result<NodeTableBuilder, NodesError> {
    let script = Script {
        program: folder.join(&source.script),
        folder: folder.to_owned(),
        timeout: source.timeout,
    };
    let mut parents = builder.rows_at(source.parent_level).into_iter();
    let mut running = VecDeque::with_capacity(MAX_SCRIPTS_AT_ONCE);
    loop {
        while running.len() < MAX_SCRIPTS_AT_ONCE
            && let Some(parent) = parents.next()
        {
            let run = script.clone().children_of(builder.name(parent).to_owned());
            running.push_back((parent, AbortOnDropHandle::new(tokio::spawn(run))));
        }
        // Results are taken in the order of the parents, so that the same scripts give the same order of nodes.
        let Some((parent, run)) = running.pop_front() else {
            return Ok(builder);
        };
        let text = match run.await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return Err(NodesError::Script { position, error }),
            Err(error) => return Err(NodesError::Died { position, error }),
        };
        let naming = source.naming;
        let built =
            tokio::task::spawn_blocking(move || add_lines(builder, (naming, parent), &text));
        builder = finish(position, built.await)?;
    }
}

fn add_lines(
    mut builder: NodeTableBuilder,
    (naming, parent): (NodeNaming, Row),
    text: &str,
) -> Result<NodeTableBuilder, NodeError> {
    for line in text.lines().filter(|line| !line.is_empty()) {
        builder.add_named(naming, parent, line, true)?;
    }
    Ok(builder)
}

//! Builds the nodes of a configuration, source by source, running scripts where they say so.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common_config::{Config, NodeSource, ScriptSource};
use brasserie_scheduler_engine::{NodeError, NodeTable, NodeTableBuilder, Row};
use tokio_util::task::AbortOnDropHandle;

use super::script::{Script, ScriptError};

/// Scripts that run at once: enough to hide the waiting of scripts that ask a server, few enough not to load the machine of
/// a scheduler that starts thousands of them.
const MAX_SCRIPTS_AT_ONCE: usize = 4;

/// The name of the node at the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceNode(pub Arc<str>);

/// Why a refresh gave no nodes.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    #[error("node source {position}: {error}")]
    Node { position: usize, error: NodeError },
    #[error("node source {position}: {error}")]
    Script { position: usize, error: ScriptError },
    #[error("node source {position}: building the nodes failed: {error}")]
    Died {
        position: usize,
        error: tokio::task::JoinError,
    },
}

/// Runs all sources in order; the first failure fails the whole. Dropped before its end, it ends its scripts.
pub async fn build_nodes(
    config: Arc<Config>,
    folder: PathBuf,
    instance: InstanceNode,
) -> Result<NodeTable, NodesError> {
    let mut builder = NodeTableBuilder::new(&instance.0, &config);
    for (index, source) in config.node_sources.iter().enumerate() {
        // People count from one.
        let position = index + 1;
        builder = match source {
            NodeSource::Empty => builder,
            NodeSource::Manual(_) | NodeSource::RangeLabel(_) => {
                build(position, builder, Arc::clone(&config), index).await?
            }
            NodeSource::Script(script) => run_scripts(position, builder, script, &folder).await?,
        };
    }
    Ok(builder.finish())
}

/// Off the runtime's threads: a source may have millions of nodes.
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
            NodeSource::Empty | NodeSource::Script(_) => {}
        }
        Ok(builder)
    });
    finish(position, built.await)
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
        // In the order of the parents, so that the same scripts give the same order of nodes.
        let Some((parent, run)) = running.pop_front() else {
            return Ok(builder);
        };
        let text = match run.await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => return Err(NodesError::Script { position, error }),
            Err(error) => return Err(NodesError::Died { position, error }),
        };
        let built = tokio::task::spawn_blocking(move || add_lines(builder, parent, &text));
        builder = finish(position, built.await)?;
    }
}

fn add_lines(
    mut builder: NodeTableBuilder,
    parent: Row,
    text: &str,
) -> Result<NodeTableBuilder, NodeError> {
    for line in text.lines().filter(|line| !line.is_empty()) {
        builder.add_child(parent, line, true)?;
    }
    Ok(builder)
}

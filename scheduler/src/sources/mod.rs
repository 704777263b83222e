//! What runs comes from here: the configuration file and the nodes that its sources give, read again and again.

mod config_file;
mod nodes;
mod script;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common_config::Config;
use brasserie_scheduler_core::Event;
use tokio::time::{MissedTickBehavior, Sleep, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::inbox::Inbox;
pub use config_file::{ConfigFile, LoadedConfig};
pub use nodes::{InstanceNode, build_nodes};

/// How often sources are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Whether the config file has changed; believed after two looks, so that a change is in force within a second.
    pub config_update: Duration,
    /// The node sources, when all is well.
    pub nodes_update: Duration,
    /// The node sources, after a failure.
    pub nodes_retry: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Periods {
            config_update: Duration::from_millis(250),
            nodes_update: Duration::from_secs(300),
            nodes_retry: Duration::from_secs(30),
        }
    }
}

/// Where the configuration comes from.
#[derive(Clone, Debug)]
pub enum ConfigSource {
    /// A file that is watched.
    File(PathBuf),
    /// A configuration that does not change; scripts run in `folder`.
    Given {
        config: Arc<Config>,
        folder: PathBuf,
    },
}

/// Keeps a scheduler's configuration and nodes fresh until it is told to stop.
pub(crate) struct Sources {
    pub(crate) inbox: Inbox,
    pub(crate) periods: Periods,
    pub(crate) instance: InstanceNode,
    /// In force at the start, if there is one.
    pub(crate) config: Option<Arc<Config>>,
    /// `None`: the configuration never changes.
    pub(crate) file: Option<ConfigFile>,
    pub(crate) folder: PathBuf,
}

/// ```text
///            due                       done
///   Waiting -----> Running -----------------------> Waiting
///      |              |
///      +--------------+---- other sources ---> Running, from the beginning
///   Idle: no configuration yet
/// ```
enum Refresh {
    Idle,
    Waiting(Pin<Box<Sleep>>),
    Running(Pin<Box<dyn Future<Output = Event> + Send>>),
}

/// What happened while the task slept.
enum Woken {
    Stop,
    LookAtConfig,
    NodesDue,
    NodesDone(Event),
}

impl Sources {
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut refresh = self.refresh();
        let mut looks = interval(self.periods.config_update);
        // After a slow look the next one still comes a period later.
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let woken = tokio::select! {
                () = stop.cancelled() => Woken::Stop,
                _ = looks.tick(), if self.file.is_some() => Woken::LookAtConfig,
                woken = next(&mut refresh) => woken,
            };
            match woken {
                Woken::Stop => return,
                Woken::LookAtConfig => {
                    if let Some(changed) = self.look_at_config().await {
                        let before = self.config.replace(changed);
                        if !self.has_sources_of(before.as_deref()) {
                            // The old run, with its scripts, ends here: its nodes could belong to other levels.
                            refresh = self.refresh();
                        }
                    }
                }
                Woken::NodesDue => refresh = self.refresh(),
                Woken::NodesDone(event) => {
                    let wait = match &event {
                        Event::NodesFailed { message } => {
                            tracing::error!(
                                error = message,
                                "the nodes could not be read; the last good ones stay"
                            );
                            self.periods.nodes_retry
                        }
                        _ => self.periods.nodes_update,
                    };
                    self.inbox.tell(event).await;
                    refresh = Refresh::Waiting(Box::pin(sleep(wait)));
                }
            }
        }
    }

    /// Whether nodes of that configuration are nodes of this one, so that nothing need be read again.
    fn has_sources_of(&self, before: Option<&Config>) -> bool {
        self.config
            .as_deref()
            .zip(before)
            .is_some_and(|(now, before)| {
                now.levels == before.levels && now.node_sources == before.node_sources
            })
    }

    fn refresh(&self) -> Refresh {
        match &self.config {
            None => Refresh::Idle,
            Some(config) => {
                let config = Arc::clone(config);
                let nodes = build_nodes(
                    Arc::clone(&config),
                    self.folder.clone(),
                    self.instance.clone(),
                );
                Refresh::Running(Box::pin(async move {
                    match nodes.await {
                        Ok(nodes) => Event::NodesLoaded {
                            nodes: Arc::new(nodes),
                            config,
                        },
                        Err(error) => Event::NodesFailed {
                            message: error.to_string(),
                        },
                    }
                }))
            }
        }
    }

    /// The new configuration, if there is one; failures are told and change nothing.
    async fn look_at_config(&mut self) -> Option<Arc<Config>> {
        let outcome = self.file.as_mut()?.check().await?;
        match outcome {
            Ok(loaded) => {
                tracing::info!(
                    jobs = loaded.config.jobs.len(),
                    "read the configuration again"
                );
                for warning in &loaded.warnings {
                    tracing::warn!("{warning}");
                }
                let config = Arc::clone(&loaded.config);
                self.inbox.tell(loaded.into_event()).await;
                Some(config)
            }
            Err(message) => {
                tracing::error!(
                    error = message,
                    "the configuration is not usable; the last good one stays in force"
                );
                self.inbox.tell(Event::ConfigFailed { message }).await;
                None
            }
        }
    }
}

/// Waits for the refresh; for ever when it is idle.
async fn next(refresh: &mut Refresh) -> Woken {
    match refresh {
        Refresh::Idle => std::future::pending().await,
        Refresh::Waiting(sleep) => {
            sleep.await;
            Woken::NodesDue
        }
        Refresh::Running(run) => Woken::NodesDone(run.await),
    }
}

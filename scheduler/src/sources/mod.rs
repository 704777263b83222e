//! Reads the configuration file and its node sources repeatedly, and reports them to the core. A file is reported as soon as it is read.
//! Its node sources are read once the core has put the file in force.

mod config_file;
mod in_force;
mod nodes;
mod proposals;
mod script;
#[cfg(test)]
mod tests;
mod zone;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{Time, WallTime};
use brasserie_common_config::{Config, NodeSource, ScheduleMemory};
use brasserie_common_runtime::Clock;
use brasserie_scheduler_core::Event;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::inbox::Inbox;
use config_file::News;
pub use config_file::{ConfigFile, LoadedConfig};
pub(crate) use in_force::{InForce, TellInForce};
pub use nodes::{BuildMoment, BuiltNodes, InstanceNode, build_nodes};
pub(crate) use proposals::{Draft, NotBegun, Proposals, SharedMemory, first_new_script};
pub use zone::{SystemZone, system_zone};

/// Minimum time between two refreshes of the nodes that follow a schedule or the wall clock. Schedule times are at least a second apart, so
/// this only bounds how often the clock is checked. It is shorter than a second, because the first check falls anywhere between two times,
/// and the next refresh must not be late.
const LEAST_STAY: Duration = Duration::from_millis(250);

/// Longest single sleep before a time of a schedule, because people set the wall clock and machines suspend.
const LOOK_AT_THE_CLOCK: Duration = Duration::from_secs(1);

/// How often the config file and the node sources are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Interval of checks of the config file. A change counts after two checks, so that it is in force within a second.
    pub config_update: Duration,
    /// Interval of refreshes of the nodes after a success.
    pub nodes_update: Duration,
    /// Interval of refreshes of the nodes after a failure.
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

/// The origin of the configuration.
#[derive(Clone, Debug)]
pub enum ConfigSource {
    /// A watched file.
    File(PathBuf),
    /// A configuration that does not change; scripts run in `folder`.
    Given {
        config: Arc<Config>,
        folder: PathBuf,
    },
}

/// Keeps a scheduler's configuration and nodes current until it is stopped.
pub(crate) struct Sources {
    pub(crate) inbox: Inbox,
    pub(crate) periods: Periods,
    pub(crate) instance: InstanceNode,
    /// The configuration that the core has put in force, whose node sources are read. A refused configuration must not replace its nodes
    /// and times.
    pub(crate) in_force: watch::Receiver<Option<InForce>>,
    /// `None`: the configuration never changes.
    pub(crate) file: Option<ConfigFile>,
    /// The folder of the file, or the working directory of scripts of a configuration that comes from no file.
    pub(crate) folder: PathBuf,
    /// The times that schedules have given, initially those of the previous scheduler. Plans begin from them too.
    pub(crate) memory: SharedMemory,
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
    Waiting(Pin<Box<dyn Future<Output = ()> + Send>>),
    Running(Pin<Box<dyn Future<Output = Refreshed> + Send>>),
}

/// The result of a refresh.
struct Refreshed {
    event: Event,
    /// The wall time at which the nodes change.
    until: Option<WallTime>,
    /// Names a source that gave no nodes.
    doubt: Option<String>,
}

/// Why the task woke up.
enum Woken {
    Stop,
    /// A check of the config file has ended, or is slow.
    Looked(News),
    /// Another configuration is in force.
    InForce,
    NodesDue,
    NodesDone(Box<Refreshed>),
}

impl Sources {
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut known = RefreshMemory {
            memory: self.memory.get(),
            has_nodes: false,
            zone_doubt: None,
            nodes_doubt: None,
        };
        let mut used = self.in_force.borrow_and_update().clone();
        let mut refresh = self.refresh(used.as_ref(), &mut known);
        let mut looks = interval(self.periods.config_update);
        // The next check comes a period later, even after a slow one.
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let woken = tokio::select! {
                () = stop.cancelled() => Woken::Stop,
                looked = look(self.file.as_mut(), &mut looks) => Woken::Looked(looked),
                () = changed(&mut self.in_force) => Woken::InForce,
                woken = next(&mut refresh) => woken,
            };
            match woken {
                Woken::Stop => return,
                Woken::Looked(news) => self.tell_config(news).await,
                Woken::InForce => {
                    let before =
                        std::mem::replace(&mut used, self.in_force.borrow_and_update().clone());
                    let both = before.as_ref().zip(used.as_ref());
                    if !both.is_some_and(|(before, now)| now.has_sources_of(before)) {
                        // This drops the old refresh and ends its scripts, because its nodes could belong to other levels.
                        refresh = self.refresh(used.as_ref(), &mut known);
                    }
                }
                Woken::NodesDue => refresh = self.refresh(used.as_ref(), &mut known),
                Woken::NodesDone(refreshed) => {
                    let Refreshed {
                        event,
                        until,
                        doubt,
                    } = *refreshed;
                    let wait = match &event {
                        Event::NodesFailed { message } => {
                            // A program that passed its own configuration exits and reports the error if there are no nodes yet.
                            if known.has_nodes || self.file.is_some() {
                                known.log_failure(message);
                            }
                            self.periods.nodes_retry
                        }
                        _ => self.periods.nodes_update,
                    };
                    known.go_on(&event, doubt);
                    self.inbox.tell(event).await;
                    self.memory.set(&known.memory);
                    let now = Clock.now();
                    refresh = Refresh::Waiting(Box::pin(wait_until(
                        now + LEAST_STAY.min(wait),
                        now + wait,
                        until,
                    )));
                }
            }
        }
    }

    fn refresh(&self, in_force: Option<&InForce>, known: &mut RefreshMemory) -> Refresh {
        let Some(in_force) = in_force else {
            return Refresh::Idle;
        };
        let config = Arc::clone(in_force.config());
        let nodes = build_nodes(
            Arc::clone(&config),
            self.folder_of(in_force).to_owned(),
            self.instance.clone(),
            moment(&config, known),
        );
        Refresh::Running(Box::pin(async move {
            match nodes.await {
                Ok(BuiltNodes {
                    table,
                    until,
                    doubt,
                }) => Refreshed {
                    event: Event::NodesLoaded {
                        nodes: Arc::new(table),
                        config,
                    },
                    until,
                    doubt,
                },
                Err(error) => Refreshed {
                    event: Event::NodesFailed {
                        message: error.to_string(),
                    },
                    until: None,
                    doubt: None,
                },
            }
        }))
    }

    /// Returns the folder against which relative paths of the configuration resolve.
    fn folder_of<'a>(&'a self, in_force: &'a InForce) -> &'a Path {
        in_force.folder(self.file.as_ref().map(ConfigFile::path), &self.folder)
    }

    /// Reports a new configuration or a failure to the core. The core decides whether the configuration takes effect.
    async fn tell_config(&self, news: News) {
        match news {
            Some(Ok(loaded)) => {
                tracing::info!(
                    jobs = loaded.config.jobs.len(),
                    "read the configuration again"
                );
                for warning in &loaded.warnings {
                    tracing::warn!("{warning}");
                }
                self.inbox.tell(loaded.into_event()).await;
            }
            Some(Err(message)) => {
                tracing::error!(
                    error = message,
                    "the configuration is not usable; the last good one stays in force"
                );
                self.inbox.tell(Event::ConfigFailed { message }).await;
            }
            None => {}
        }
    }
}

/// State that one refresh passes to the next.
#[derive(Debug)]
struct RefreshMemory {
    memory: Arc<ScheduleMemory>,
    /// Whether a refresh has given nodes.
    has_nodes: bool,
    /// The last warnings about the machine's zone and about sources without nodes, so that a refresh does not repeat them.
    zone_doubt: Option<String>,
    nodes_doubt: Option<String>,
}

impl RefreshMemory {
    /// Logs a failed refresh, and which nodes decide meanwhile.
    fn log_failure(&self, error: &str) {
        match self.has_nodes {
            true => tracing::error!(
                error,
                "cannot read the nodes; the last good nodes stay in force"
            ),
            false => tracing::error!(
                error,
                "cannot read the nodes; no nodes are loaded yet, so no task starts"
            ),
        }
    }

    /// Stores the result of a refresh for the next one. A failed refresh changes nothing.
    fn go_on(&mut self, refreshed: &Event, doubt: Option<String>) {
        if let Event::NodesLoaded { nodes, .. } = refreshed {
            let times = nodes.times();
            self.memory = Arc::new(times.memory.clone());
            self.has_nodes = true;
            if let Some(doubt) = doubt.as_ref().filter(|_| self.nodes_doubt != doubt) {
                tracing::warn!("{doubt}");
            }
            self.nodes_doubt = doubt;
        }
    }
}

/// Returns the time, zone and memory for a refresh. The zone is read each time, because people change it while programs run.
fn moment(config: &Config, known: &mut RefreshMemory) -> BuildMoment {
    let found = system_zone();
    let uses_zone = |source: &NodeSource| match source {
        NodeSource::AddTime(source) => source.uses_default_zone(),
        NodeSource::Empty
        | NodeSource::Manual(_)
        | NodeSource::RangeLabel(_)
        | NodeSource::Script(_) => false,
    };
    if config.node_sources.iter().any(uses_zone) && known.zone_doubt != found.doubt {
        if let Some(doubt) = &found.doubt {
            tracing::warn!(
                "the machine's time zone is not known, so a schedule without `time_zone` is in UTC: {doubt}"
            );
        }
        known.zone_doubt = found.doubt;
    }
    BuildMoment {
        now: Clock.wall(),
        zone: found.zone,
        memory: Arc::clone(&known.memory),
    }
}

/// Waits until `deadline`. Returns earlier, but not before `earliest`, if the wall clock reaches `until`.
async fn wait_until(earliest: Time, deadline: Time, until: Option<WallTime>) {
    Clock.sleep_until(earliest).await;
    loop {
        let (now, wall) = (Clock.now(), Clock.wall());
        if now >= deadline || until.is_some_and(|until| wall >= until) {
            return;
        }
        let left = until.map_or(LOOK_AT_THE_CLOCK, |until| wall.until(until));
        sleep(left.min(deadline.since(now)).min(LOOK_AT_THE_CLOCK)).await;
    }
}

/// Waits for the next check of the file, a period after the last one. Waits forever without a file. Cancel safe.
async fn look(file: Option<&mut ConfigFile>, looks: &mut Interval) -> News {
    let Some(file) = file else {
        return std::future::pending().await;
    };
    if !file.is_being_read() {
        looks.tick().await;
    }
    file.check().await
}

/// Waits until another configuration is in force. Waits forever once the core has ended.
async fn changed(in_force: &mut watch::Receiver<Option<InForce>>) {
    if in_force.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Waits for the refresh. Waits forever when it is idle.
async fn next(refresh: &mut Refresh) -> Woken {
    match refresh {
        Refresh::Idle => std::future::pending().await,
        Refresh::Waiting(wait) => {
            wait.await;
            Woken::NodesDue
        }
        Refresh::Running(run) => Woken::NodesDone(Box::new(run.await)),
    }
}

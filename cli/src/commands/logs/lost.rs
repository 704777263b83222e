//! Explains that the log lines of a task are on the host of a worker that has left.

use anyhow::Result;

use crate::connection::LogRequest;
use crate::data_dir::LogSource;

/// Returns a notice that names the worker of the task's last run, if the scheduler no longer knows this worker. The scheduler itself
/// reports known workers that it cannot reach.
pub(super) async fn notice(source: &LogSource, asked: &LogRequest) -> Result<Option<String>> {
    let LogSource::Scheduler(connection) = source else {
        return Ok(None);
    };
    if asked.job.is_empty() || asked.node.is_empty() {
        return Ok(None);
    }
    let last_run = connection.last_run(&asked.job, &asked.node).await?;
    let Some(shard) = last_run.and_then(|run| run.worker_shard) else {
        return Ok(None);
    };
    let status = connection.bounded_status().await?;
    let mut workers = status.workers.iter().flatten();
    let is_known = workers.any(|worker| worker.shard.as_ref() == Some(&shard));
    Ok((!is_known).then(|| sentence(asked, &shard)))
}

fn sentence(asked: &LogRequest, shard: &str) -> String {
    format!(
        "the last run of job `{}` on node `{}` was on worker `{shard}`, which has left: its lines lie on that worker's host, \
         where `brasserie logs --data-dir DIR` with its data directory shows them",
        asked.job, asked.node
    )
}

//! Says where the lines of a task lie whose worker has left: on that worker's host.

use anyhow::Result;

use crate::connection::LogRequest;
use crate::data_dir::LogSource;

/// Says on which worker the last run of the task was, if the scheduler does not know that worker any more. Of workers that it knows and
/// cannot ask the scheduler says so itself.
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
        "the last run of job `{}` on node `{}` was on worker `{shard}`, which has left: its lines lie on that worker's host, in the \
         folder `logs` of its data directory",
        asked.job, asked.node
    )
}

//! Merges the task logs of all workers: requests a page from each in parallel, sorts by line id, and cuts where every page is complete.

use brasserie_common::logs::{LineId, LogLine, LogPage, LogQuery};
use brasserie_common::{Principal, ServiceAddress, Shard, WallTime};
use brasserie_common_runtime::Clock;
use brasserie_scheduler_core::{Answer, LogPeers, LostLogs, Query};
use brasserie_thrift::convert;
use brasserie_thrift::generated::worker::{
    BistroWorkerGetJobLogsByIDArgs, BistroWorkerGetJobLogsByIDResult,
};
use brasserie_thrift::rpc::CallResult;
use tokio::task::JoinSet;

use super::pool::WorkerPool;
use crate::inbox::Inbox;
use crate::turns::Turns;

/// Maximum lines of one page over all workers.
const PAGE_LINES: usize = 5000;
/// Minimum of lines requested from each worker, however many workers there are.
const MIN_LINES_PER_WORKER: usize = 100;
/// Maximum text of one page. With 200 bytes of overhead a line, including the worker's name, the page stays below a frame of 16 MiB.
const MAX_PAGE_BYTES: usize = 12 * 1024 * 1024;
const LINE_OVERHEAD_BYTES: usize = 200;
/// Maximum pages built at once. Each may hold an answer of every worker, and logs must not crowd out the protocol.
const MAX_PAGES_AT_ONCE: usize = 4;
/// Limit for the named unhealthy workers, and for the named lost ones.
const MAX_NAMED: usize = 10;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogsError {
    #[error("no worker is connected, so no logs are available")]
    NoWorkers,
    #[error("no worker can be asked for logs: {0}")]
    NoneUsable(String),
    #[error("internal error: the scheduler's answer does not match the request")]
    AnotherAnswer,
    #[error("the scheduler is ending")]
    Stopped,
}

/// Reads logs from workers.
#[derive(Clone)]
pub(super) struct Logs {
    inbox: Inbox,
    pool: WorkerPool,
    turns: Turns,
}

/// The answer of one worker.
struct WorkerPage {
    shard: Shard,
    page: Result<LogPage, String>,
}

impl Logs {
    pub(super) fn new(inbox: Inbox, pool: WorkerPool) -> Self {
        Logs {
            inbox,
            pool,
            turns: Turns::new(MAX_PAGES_AT_ONCE),
        }
    }

    /// Returns the turns of pages, which wait for workers.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Returns a function that merges one page, which takes a while. Its lines are contiguous over all workers that answered, and notices name
    /// the others.
    pub(super) async fn page(
        &self,
        from: Principal,
        query: LogQuery,
    ) -> Result<impl FnOnce() -> LogPage + Send + use<>, LogsError> {
        let answer = self
            .inbox
            .query(from, Query::LogPeers)
            .await
            .map_err(|_| LogsError::Stopped)?;
        let Answer::LogPeers(peers) = answer else {
            return Err(LogsError::AnotherAnswer);
        };
        let unusable = unusable(&peers);
        if peers.ask.is_empty() {
            return Err(match unusable.is_empty() {
                true => LogsError::NoWorkers,
                false => LogsError::NoneUsable(unusable.join("; ")),
            });
        }
        let query = LogQuery {
            limit: (PAGE_LINES / peers.ask.len()).max(MIN_LINES_PER_WORKER),
            ..query
        };
        let ascending = query.ascending;
        let pages = self.ask(peers.ask, &query).await;
        Ok(move || merge(pages, unusable, ascending, Clock.wall()))
    }

    async fn ask(&self, peers: Vec<(Shard, ServiceAddress)>, query: &LogQuery) -> Vec<WorkerPage> {
        let args = BistroWorkerGetJobLogsByIDArgs::from(query.clone());
        let mut calls = JoinSet::new();
        for (shard, address) in peers {
            let (pool, peer) = self.pool.to(&shard, &address);
            let call = pool.call(&peer, "getJobLogsByID", &args);
            calls.spawn(async move {
                WorkerPage {
                    shard,
                    page: read(call.await),
                }
            });
        }
        calls.join_all().await
    }
}

fn read(result: CallResult<BistroWorkerGetJobLogsByIDResult>) -> Result<LogPage, String> {
    match result {
        CallResult::NotSent(why) => Err(why.to_string()),
        CallResult::Unknown(why) => Err(why.to_string()),
        CallResult::Done(BistroWorkerGetJobLogsByIDResult {
            ex: Some(exception),
            ..
        }) => Err(convert::refusal(exception).1),
        CallResult::Done(BistroWorkerGetJobLogsByIDResult {
            result_value,
            ex: None,
        }) => {
            let lines = result_value.ok_or_else(|| "the answer is empty".to_owned())?;
            convert::parse("getJobLogsByID.success", lines).map_err(|error| error.to_string())
        }
    }
}

/// Returns notices that name known workers which cannot answer, and where their lines are.
fn unusable(peers: &LogPeers) -> Vec<String> {
    let unhealthy = peers.unhealthy.iter().map(|(shard, host)| {
        format!(
            "worker `{shard}` on host `{host}` is unhealthy and is not asked: its lines are missing here until it recovers"
        )
    });
    let mut all = bounded(unhealthy);
    let lost_ones = peers.lost.iter();
    // An operator expects decommissioned workers to be away.
    let (decommissioned, others): (Vec<&LostLogs>, Vec<&LostLogs>) =
        lost_ones.partition(|lost| lost.is_decommissioned);
    all.extend(lost(
        &others,
        ["has left or is lost", "have left or are lost"],
    ));
    all.extend(lost(
        &decommissioned,
        [
            "is decommissioned and has left",
            "are decommissioned and have left",
        ],
    ));
    all
}

/// Returns one notice for all of these workers, because a cluster may have had many of them. `state` says why one of them is away, and why
/// several are.
fn lost(all: &[&LostLogs], state: [&str; 2]) -> Option<String> {
    let [of_one, of_several] = state;
    if let [
        LostLogs {
            shard,
            hostname,
            folder,
            is_decommissioned: _,
        },
    ] = all
    {
        let place = match folder {
            Some(folder) => folder.to_string(),
            None => "the folder `logs` of the worker's data directory".to_owned(),
        };
        return Some(format!(
            "worker `{shard}` on host `{hostname}` {of_one}: its lines are missing here, and lie on that host in {place}; they are shown once the worker \
             is started there again"
        ));
    }
    let named = all.iter().take(MAX_NAMED);
    let named: Vec<String> = named
        .map(|lost| format!("`{}` on host `{}`", lost.shard, lost.hostname))
        .collect();
    let more = match all.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} others"),
    };
    (!named.is_empty()).then(|| {
        format!(
            "{} workers {of_several} ({}{more}): their lines are missing here, and lie on these hosts in the folder `logs` of each worker's data directory; \
             they are shown once the worker is started there again",
            all.len(),
            named.join(", ")
        )
    })
}

/// Returns the first sentences, and one that counts the rest.
fn bounded(sentences: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = sentences.len().saturating_sub(MAX_NAMED);
    let mut all: Vec<String> = sentences.take(MAX_NAMED).collect();
    if more > 0 {
        all.push(format!("the same is true of {more} more workers"));
    }
    all
}

/// Merges the workers' pages. Every page is complete up to its own next line, so the merged page is complete up to the nearest of those.
/// The line at that boundary belongs to the next page, whichever worker has it.
fn merge(pages: Vec<WorkerPage>, unusable: Vec<String>, ascending: bool, now: WallTime) -> LogPage {
    let mut notices = unusable;
    let mut next: Option<LineId> = None;
    let mut lines = Vec::new();
    for WorkerPage { shard, page } in pages {
        match page {
            Err(why) => notices.push(format!("worker {shard}: {why}")),
            Ok(page) => {
                next = match (next, page.next) {
                    (Some(a), Some(b)) => Some(if ascending { a.min(b) } else { a.max(b) }),
                    (a, b) => a.or(b),
                };
                // A line without an id is a notice, for example about an unreadable segment.
                let told = page.lines.iter().filter(|line| line.id.is_none());
                notices.extend(told.map(|line| format!("worker {shard}: {}", line.line)));
                let of_shard = |line| LogLine {
                    shard: Some(shard.clone()),
                    ..line
                };
                lines.extend(page.lines.into_iter().map(of_shard));
            }
        }
    }
    // Sorted, because the order of arrival differs from page to page.
    notices.sort_unstable();
    let is_before = |id: LineId, end: LineId| if ascending { id < end } else { id > end };
    let mut lines: Vec<(LineId, LogLine)> = lines
        .into_iter()
        .filter_map(|line| line.id.map(|id| (id, line)))
        .collect();
    if let Some(end) = next {
        lines.retain(|(id, _)| is_before(*id, end));
    }
    // Lines of equal id are sorted by shard, so that the order of arrival does not show.
    lines.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.shard.cmp(&other.shard)));
    if !ascending {
        lines.reverse();
    }
    if let Some((cut, id)) = cut(&lines) {
        lines.truncate(cut);
        next = Some(id);
    }
    let notices = notices.into_iter().map(|text| notice(text, now));
    let lines = lines.into_iter().map(|(_, line)| line);
    // Notices have no id. They come first in ascending pages and last in descending ones, as the id -1 would sort.
    let lines = if ascending {
        notices.chain(lines).collect()
    } else {
        lines.chain(notices).collect()
    };
    LogPage { lines, next }
}

/// Returns where to cut a page that is too large for a frame. Never cuts between lines of one id, which would then be skipped or shown
/// twice.
fn cut(lines: &[(LineId, LogLine)]) -> Option<(usize, LineId)> {
    let mut bytes = 0;
    let mut start_of_id = 0;
    for (index, (id, line)) in lines.iter().enumerate() {
        if lines[start_of_id].0 != *id {
            start_of_id = index;
        }
        bytes += LINE_OVERHEAD_BYTES + line.text_bytes();
        if bytes > MAX_PAGE_BYTES && start_of_id > 0 {
            return Some((start_of_id, lines[start_of_id].0));
        }
    }
    None
}

fn notice(text: String, now: WallTime) -> LogLine {
    LogLine {
        time_secs: now.as_secs(),
        line: text,
        time: Some(now),
        ..LogLine::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use brasserie_common::{JobName, NodeName};

    use super::*;

    fn line(id: i64, text: &str) -> LogLine {
        LogLine {
            job: JobName::try_from("j").unwrap(),
            node: NodeName::try_from("n").unwrap(),
            time_secs: id >> 32,
            line: text.to_owned(),
            id: Some(LineId(id)),
            ..LogLine::default()
        }
    }

    fn page(shard: &str, ids: &[i64], next: Option<i64>) -> WorkerPage {
        let lines = ids.iter().map(|&id| line(id, "x")).collect();
        WorkerPage {
            shard: Shard::try_from(shard).unwrap(),
            page: Ok(LogPage {
                lines,
                next: next.map(LineId),
            }),
        }
    }

    fn ids(page: &LogPage) -> Vec<Option<i64>> {
        page.lines.iter().map(|l| l.id.map(|id| id.0)).collect()
    }

    #[test]
    fn notices_of_workers_are_shown() {
        let mut of_a = page("a", &[1], None);
        if let Ok(page) = &mut of_a.page {
            page.lines.push(LogLine {
                line: "lines are missing".to_owned(),
                ..LogLine::default()
            });
        }
        let merged = merge(vec![of_a], Vec::new(), true, WallTime::from_secs(5));
        assert_eq!(ids(&merged), [None, Some(1)]);
        assert_eq!(merged.lines[0].line, "worker a: lines are missing");
    }

    #[test]
    fn ascending_pages_end_before_the_first_gap() {
        let pages = vec![
            page("a", &[1, 4, 9], None),
            page("b", &[2, 3], Some(5)),
            page("c", &[5, 6], Some(8)),
        ];
        let merged = merge(pages, Vec::new(), true, WallTime::from_secs(7));
        assert_eq!(ids(&merged), [1, 2, 3, 4].map(Some));
        assert_eq!(merged.next, Some(LineId(5)));
    }

    #[test]
    fn lines_of_one_id_lie_in_the_order_of_their_workers() {
        let shards = |page: &LogPage| -> Vec<String> {
            let shard = |line: &LogLine| line.shard.as_ref().map(ToString::to_string);
            page.lines.iter().filter_map(shard).collect()
        };
        for (ascending, want) in [(true, ["a", "b"]), (false, ["b", "a"])] {
            for order in [["a", "b"], ["b", "a"]] {
                let pages = order.map(|shard| page(shard, &[4], None)).into();
                let merged = merge(pages, Vec::new(), ascending, WallTime::default());
                assert_eq!(shards(&merged), want, "{ascending}");
            }
        }
    }

    #[test]
    fn descending_pages_show_the_boundary_once() {
        let pages = vec![page("a", &[9, 5, 1], None), page("b", &[8, 7], Some(5))];
        let merged = merge(pages, Vec::new(), false, WallTime::from_secs(7));
        assert_eq!(ids(&merged), [9, 8, 7].map(Some));
        assert_eq!(merged.next, Some(LineId(5)));
    }

    #[test]
    fn workers_that_cannot_be_asked_are_named() {
        let failed = WorkerPage {
            shard: Shard::try_from("b").unwrap(),
            page: Err("timed out".to_owned()),
        };
        let pages = vec![failed, page("a", &[3], None)];
        let merged = merge(
            pages,
            vec!["c is lost".to_owned()],
            false,
            WallTime::from_secs(7),
        );
        assert_eq!(ids(&merged), [Some(3), None, None]);
        let texts: Vec<&str> = merged.lines[1..].iter().map(|l| l.line.as_str()).collect();
        assert_eq!(texts, ["c is lost", "worker b: timed out"]);
        assert_eq!(merged.lines[1].time_secs, 7);
        let named = |shard: &str| (Shard::try_from(shard).unwrap(), Arc::from("h"));
        let peers = LogPeers {
            ask: Vec::new(),
            unhealthy: vec![named("u")],
            lost: (0..12)
                .map(|i| LostLogs {
                    shard: Shard::try_from(format!("l{i}").as_str()).unwrap(),
                    hostname: "h".into(),
                    folder: (i == 0).then(|| "/data/logs".into()),
                    is_decommissioned: false,
                })
                .collect(),
        };
        let notices = unusable(&peers);
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(
            notices[0].starts_with("worker `u` on host `h` is unhealthy"),
            "{notices:?}"
        );
        let text = &notices[1];
        let first = "12 workers have left or are lost (`l0` on host `h`, `l1` on host `h`, ";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains(" and 2 others): their lines"), "{text}");
        let one = unusable(&LogPeers {
            lost: peers.lost[..1].to_vec(),
            ..LogPeers::default()
        });
        assert_eq!(
            one,
            [
                "worker `l0` on host `h` has left or is lost: its lines are missing here, and lie on that host in /data/logs; they are shown once the worker is started there again"
            ]
        );
        assert_eq!(unusable(&LogPeers::default()), [""; 0]);
    }

    #[test]
    fn decommissioned_workers_are_not_among_those_that_are_lost() {
        let lost = |shard: &str, is_decommissioned| LostLogs {
            shard: Shard::try_from(shard).unwrap(),
            hostname: "h".into(),
            folder: None,
            is_decommissioned,
        };
        let mut peers = LogPeers {
            lost: vec![lost("a", true), lost("b", false)],
            ..LogPeers::default()
        };
        let notices = unusable(&peers);
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(
            notices[0].starts_with("worker `b` on host `h` has left or is lost:"),
            "{notices:?}"
        );
        assert!(
            notices[1].starts_with("worker `a` on host `h` is decommissioned and has left:"),
            "{notices:?}"
        );
        peers.lost[1].is_decommissioned = true;
        let both =
            "2 workers are decommissioned and have left (`a` on host `h`, `b` on host `h`): ";
        assert!(unusable(&peers)[0].starts_with(both));
    }

    #[test]
    fn a_page_too_large_for_a_frame_is_cut_between_ids() {
        let big = "x".repeat(MAX_PAGE_BYTES / 4);
        let lines: Vec<LogLine> = [1, 2, 3, 3, 4].iter().map(|&id| line(id, &big)).collect();
        let pages = vec![WorkerPage {
            shard: Shard::default(),
            page: Ok(LogPage { lines, next: None }),
        }];
        let merged = merge(pages, Vec::new(), true, WallTime::default());
        assert_eq!(ids(&merged), [Some(1), Some(2)]);
        assert_eq!(merged.next, Some(LineId(3)));
    }
}

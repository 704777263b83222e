//! Logs the core's news. A rate limit keeps workers that repeatedly join and leave from filling the log.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::Time;
use brasserie_scheduler_core::{News, NewsKind, Scheduler, Severity};

use crate::audit::Audit;

/// Lines of one kind that may come at once, as when a pool of workers joins.
const BURST: u32 = 200;
/// Interval at which one more line of the kind is permitted after a burst.
const REFILL: Duration = Duration::from_secs(1);

/// The rate limits of all kinds of news.
#[derive(Default)]
pub(crate) struct NewsLog {
    limits: BTreeMap<NewsKind, NewsLimit>,
    /// Gets the news about the configuration.
    audit: Option<Audit>,
}

/// The rate limit of one kind of news.
#[derive(Debug)]
struct NewsLimit {
    left: u32,
    refilled: Time,
    /// News omitted since the last logged line.
    omitted: u64,
}

impl NewsLimit {
    fn new(now: Time) -> Self {
        NewsLimit {
            left: BURST,
            refilled: now,
            omitted: 0,
        }
    }

    fn refill(&mut self, now: Time) {
        let refills = now.since(self.refilled).as_secs() / REFILL.as_secs();
        if refills > 0 {
            let refills = u32::try_from(refills).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(refills).min(BURST);
            self.refilled = now;
        }
    }

    /// Returns the line that counts the omitted news, if another line is permitted. News is omitted only while no line is permitted. So at
    /// most one such line comes in a [`REFILL`], and it displaces no news.
    fn notice(&mut self, kind: NewsKind) -> Option<(Severity, String)> {
        if self.omitted == 0 || self.left == 0 {
            return None;
        }
        let omitted = std::mem::take(&mut self.omitted);
        let text = format!("{kind} that were not logged, as there were too many: {omitted}");
        // The omitted lines have this severity.
        let severity = match kind {
            NewsKind::Failures | NewsKind::Requests => Severity::Info,
            NewsKind::Workers | NewsKind::Problems | NewsKind::RunsTwice => Severity::Warning,
        };
        Some((severity, text))
    }
}

impl NewsLog {
    pub(crate) fn new(audit: Audit) -> Self {
        NewsLog {
            limits: BTreeMap::new(),
            audit: Some(audit),
        }
    }

    /// Logs the news since the last call.
    pub(crate) fn log(&mut self, now: Time, scheduler: &mut Scheduler) {
        let (mut news, dropped) = scheduler.take_news();
        for news in &mut news {
            if let (News::ConfigInForce { what, texts }, Some(audit)) = (news, &self.audit)
                && let Some(texts) = texts.take()
            {
                audit.config_in_force(what, texts);
            }
        }
        for (severity, line) in self.lines(now, news, dropped) {
            match severity {
                Severity::Info => tracing::info!("{line}"),
                Severity::Warning => tracing::warn!("{line}"),
                Severity::Error => tracing::error!("{line}"),
            }
        }
    }

    /// Returns the lines for news. The counts of news omitted earlier come first, where their kinds are permitted a line again.
    fn lines(
        &mut self,
        now: Time,
        news: Vec<News>,
        dropped: BTreeMap<NewsKind, u64>,
    ) -> Vec<(Severity, String)> {
        let mut lines = Vec::new();
        for (kind, bound) in &mut self.limits {
            bound.refill(now);
            lines.extend(bound.notice(*kind));
        }
        for (kind, count) in dropped {
            self.bound(now, kind).omitted += count;
        }
        for news in news {
            if let Some(kind) = news.kind() {
                let bound = self.bound(now, kind);
                let Some(left) = bound.left.checked_sub(1) else {
                    bound.omitted += 1;
                    continue;
                };
                bound.left = left;
            }
            lines.push((news.severity(), news.to_string()));
        }
        lines
    }

    fn bound(&mut self, now: Time, kind: NewsKind) -> &mut NewsLimit {
        self.limits
            .entry(kind)
            .or_insert_with(|| NewsLimit::new(now))
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::{JobName, NodeName, Principal, Shard, TaskKey, WorkerId};
    use brasserie_scheduler_core::KnownWorker;

    use super::*;

    fn worker() -> KnownWorker {
        KnownWorker {
            shard: Shard::try_from("w").expect("a name"),
            hostname: "h".into(),
            id: WorkerId::new(1, 2),
        }
    }

    #[test]
    fn flapping_workers_fill_no_log_and_hide_nothing_else() {
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let mut log = NewsLog::default();
        let mut lines = |secs, news| {
            let lines = log.lines(at(secs), news, BTreeMap::new()).into_iter();
            lines.map(|(_, line)| line).collect::<Vec<_>>()
        };
        let flaps = |count| vec![News::Healthy(worker()); count];
        assert_eq!(lines(0, flaps(1000)).len(), BURST as usize);
        let by = Principal::Own;
        let others = vec![
            News::DeclaredDead {
                worker: worker(),
                by: by.clone(),
            },
            News::Asked {
                by,
                what: "deleted job `dump`".to_owned(),
            },
            News::Problem("the disk is full".to_owned()),
            News::RunsTwice {
                task: TaskKey {
                    job: JobName::try_from("dump").expect("a name"),
                    node: NodeName::try_from("n").expect("a name"),
                },
                workers: [worker().shard, worker().shard],
            },
        ];
        let told: Vec<String> = others.iter().map(ToString::to_string).collect();
        assert_eq!(lines(0, others), told);
        assert_eq!(lines(0, flaps(1)), [""; 0]);
        // The count comes without another flap, as soon as a line is permitted.
        let notice = "changes of workers that were not logged, as there were too many: 801";
        assert_eq!(lines(1, Vec::new()), [notice]);
        // One line of each second reports an event, however many there are.
        for second in 1..10 {
            let lines = lines(second, flaps(3));
            let (notices, told) = lines.split_at(lines.len() - 1);
            assert!(told[0].contains("is healthy"), "{lines:?}");
            let count = if second == 1 { 0 } else { 1 };
            assert_eq!(notices.len(), count, "{lines:?}");
            assert!(
                notices.iter().all(|line| line.ends_with("too many: 2")),
                "{lines:?}"
            );
        }
    }
}

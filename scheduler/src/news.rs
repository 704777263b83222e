//! Logs the core's news. A rate limit keeps workers that repeatedly join and leave from filling the log.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{Ration, Time};
use brasserie_scheduler_core::{News, NewsKind, Scheduler, Severity};

use crate::audit::Audit;

/// Lines of one kind that may come at once, as when a pool of workers joins.
const BURST: u32 = 200;
/// Interval at which one more line of the kind is permitted after a burst.
const REFILL: Duration = Duration::from_secs(1);

/// The rate limits of all kinds of news.
#[derive(Default)]
pub(crate) struct NewsLog {
    limits: BTreeMap<NewsKind, Ration>,
    /// Gets the news about the configuration.
    audit: Option<Audit>,
}

/// Returns the line that counts the omitted news of a kind. News is omitted only while no line is permitted. So at most one such line comes in
/// a [`REFILL`], and it displaces no news.
fn notice(kind: NewsKind, omitted: u64) -> (Severity, String) {
    let text = format!("{kind} that were not logged, as there were too many: {omitted}");
    // The omitted lines have this severity.
    let severity = match kind {
        NewsKind::Failures | NewsKind::Requests => Severity::Info,
        NewsKind::Workers | NewsKind::Problems | NewsKind::RunsTwice => Severity::Warning,
    };
    (severity, text)
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
        for (kind, ration) in &mut self.limits {
            let omitted = ration.overdue(now, Duration::ZERO);
            lines.extend(omitted.map(|omitted| notice(*kind, omitted)));
        }
        for news in news {
            // Invariant: a permitted line follows no omitted news, which were counted above.
            let is_permitted = |kind| self.ration(kind).count(now).is_some();
            if news.kind().is_none_or(is_permitted) {
                lines.push((news.severity(), news.to_string()));
            }
        }
        for (kind, count) in dropped {
            self.ration(kind).omit(now, count);
        }
        lines
    }

    fn ration(&mut self, kind: NewsKind) -> &mut Ration {
        let limit = self.limits.entry(kind);
        limit.or_insert(Ration::new(BURST, REFILL))
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

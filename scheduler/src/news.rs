//! Logs the core's news, boundedly: workers that flap must not fill the log.

use std::time::Duration;

use brasserie_common::Time;
use brasserie_scheduler_core::{News, Scheduler, Severity};

/// Lines that may come at once: a pool of workers that joins.
const BURST: u32 = 200;
/// After a burst, one line in this time.
const REFILL: Duration = Duration::from_secs(1);

/// Counts the lines that may still be logged.
#[derive(Debug)]
pub(crate) struct NewsLog {
    left: u32,
    refilled: Time,
    omitted: u64,
}

impl NewsLog {
    pub(crate) fn new(now: Time) -> Self {
        NewsLog {
            left: BURST,
            refilled: now,
            omitted: 0,
        }
    }

    /// Logs what has happened since the last call.
    pub(crate) fn log(&mut self, now: Time, scheduler: &mut Scheduler) {
        let (news, dropped) = scheduler.take_news();
        self.omitted += dropped;
        for news in news {
            for (severity, line) in self.lines(now, &news) {
                match severity {
                    Severity::Info => tracing::info!("{line}"),
                    Severity::Warning => tracing::warn!("{line}"),
                    Severity::Error => tracing::error!("{line}"),
                }
            }
        }
    }

    /// Returns the lines for one piece of news, before it the number of those that were omitted since the last line.
    fn lines(&mut self, now: Time, news: &News) -> Vec<(Severity, String)> {
        let refills = now.since(self.refilled).as_secs() / REFILL.as_secs();
        if refills > 0 {
            let refills = u32::try_from(refills).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(refills).min(BURST);
            self.refilled = now;
        }
        if news.may_flood() {
            let Some(left) = self.left.checked_sub(1) else {
                self.omitted += 1;
                return Vec::new();
            };
            self.left = left;
        }
        let omitted = std::mem::take(&mut self.omitted);
        let mut lines = Vec::new();
        if omitted > 0 {
            let text = format!(
                "{omitted} earlier changes of workers were not logged: there were too many"
            );
            lines.push((Severity::Warning, text));
        }
        lines.push((news.severity(), news.to_string()));
        lines
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::{Principal, Shard, WorkerId};
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
    fn flapping_workers_fill_no_log_and_hide_no_declaration() {
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let mut log = NewsLog::new(at(0));
        let flap = News::Healthy(worker());
        let logged = (0..1000).flat_map(|_| log.lines(at(0), &flap)).count();
        assert_eq!(logged, BURST as usize);
        let by = Principal::Own;
        let declared = News::DeclaredDead {
            worker: worker(),
            by,
        };
        let lines = log.lines(at(0), &declared);
        assert!(lines[0].1.starts_with("800 earlier changes"), "{lines:?}");
        assert!(lines[1].1.contains("declared worker `w`"), "{lines:?}");
        assert_eq!(log.lines(at(0), &flap), []);
        let lines = log.lines(at(1), &flap);
        assert!(lines[0].1.starts_with("1 earlier"), "{lines:?}");
        assert!(lines[1].1.contains("is healthy"), "{lines:?}");
        assert_eq!(log.lines(at(1), &flap), []);
    }
}

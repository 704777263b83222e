//! The unrequested reports to people: news for the operator's log, and recent problems for `status`.

mod problems;

use std::collections::BTreeMap;

use brasserie_common::{JobName, Shard, TaskKey, Time};
use problems::RecentProblems;

use crate::news::{News, NewsKind};

pub use problems::{LACKS_INPUT, StartTrouble};

/// The most news of one kind that are kept until the shell takes them. A turn that makes more of them drops the rest.
const MAX_KEPT: usize = 256;
/// The news that the shell has not taken yet, oldest first, and the recent problems. No decision depends on them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    news: Vec<News>,
    dropped: BTreeMap<NewsKind, u64>,
    problems: RecentProblems,
}

impl Notices {
    /// Returns notices with the same problems and without news.
    pub(crate) fn without_news(&self) -> Notices {
        Notices {
            problems: self.problems.clone(),
            ..Notices::default()
        }
    }

    pub(crate) fn news(&mut self, news: News) {
        let kind = news.kind();
        let is_alike = |kept: &&News| kept.kind() == kind;
        if self.news.iter().filter(is_alike).count() < MAX_KEPT {
            self.news.push(news);
        } else if let Some(kind) = kind {
            *self.dropped.entry(kind).or_default() += 1;
        }
    }

    /// Returns the kept news and how many of each kind were dropped.
    pub(crate) fn take_news(&mut self) -> (Vec<News>, BTreeMap<NewsKind, u64>) {
        (
            std::mem::take(&mut self.news),
            std::mem::take(&mut self.dropped),
        )
    }

    /// Shows a problem in `status` for a few minutes, and logs it unless `status` already shows it.
    pub(crate) fn problem(&mut self, now: Time, text: &str) {
        let news = self.problems.note(now, text);
        self.log_problem(news);
    }

    /// Notes that a task lacks an input, like [`Notices::problem`]. Tasks of a job that lack one for the same cause share a line.
    pub(crate) fn lacking_input(&mut self, now: Time, task: TaskKey, (cause, why): (String, &str)) {
        let news = self.problems.note_lacking(now, task, (cause, why));
        self.log_problem(news);
    }

    /// Notes that a task did not start on a worker, like [`Notices::problem`].
    pub(crate) fn start_problem(
        &mut self,
        now: Time,
        of: (&Shard, TaskKey),
        trouble: StartTrouble,
        why: &str,
    ) {
        let news = self.problems.note_start(now, of, trouble, why);
        self.log_problem(news);
    }

    fn log_problem(&mut self, text: Option<String>) {
        if let Some(text) = text {
            self.news(News::Problem(text));
        }
    }

    /// Removes the refusals of the job by the worker, which has accepted a task of the job.
    pub(crate) fn start_accepted(&mut self, shard: &Shard, job: &JobName) {
        self.problems.start_accepted(shard, job);
    }

    /// Removes the job's failures on the worker, where a process of the job has run.
    pub(crate) fn process_ran(&mut self, shard: &Shard, job: &JobName) {
        self.problems.process_ran(shard, job);
    }

    /// Removes all failures on the shard, which another worker instance has taken.
    pub(crate) fn another_instance(&mut self, shard: &Shard) {
        self.problems.another_instance(shard);
    }

    /// Removes the failures of all jobs but these.
    pub(crate) fn keep_jobs(&mut self, is_kept: impl Fn(&JobName) -> bool) {
        self.problems.keep_jobs(is_kept);
    }

    /// Returns the problems that `status` shows. `lacks` says whether a task still lacks an input.
    pub(crate) fn problems(&self, now: Time, lacks: impl Fn(&TaskKey) -> bool) -> Vec<String> {
        self.problems.shown(now, lacks)
    }
}

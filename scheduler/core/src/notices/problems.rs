//! A bounded list of recent problems for `status`. Lasting states, such as an unwritable store, are in
//! `scheduler/view/problems.rs`.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use brasserie_common::time::format_duration;
use brasserie_common::{JobName, Shard, TaskKey, Time};

/// The most problems that are kept.
const MAX_PROBLEMS: usize = 20;
/// The most refusals that are kept and not shown yet. If more workers refuse tasks, the oldest refusals are forgotten and may be shown
/// later than usual.
const MAX_HIDDEN: usize = 200;
/// The most characters of one problem: a few names of the longest kind, and a sentence.
const MAX_PROBLEM_CHARS: usize = 4096;
/// The most tasks of one problem that are counted.
const MAX_TASKS: usize = 1000;
/// The latest tasks that lack an input for the same cause that are known. A further one notes the problem again with its next try. `status` asks
/// for each of them whether it still lacks one, which looks up all its inputs.
const MAX_LACKING: usize = 2;
/// How long a problem is shown after it was last noted, so that an operator who checks `status` now and then sees it.
const PROBLEM_LIFE: Duration = Duration::from_secs(300);
/// The age below which problems are shown in seconds.
const IN_SECONDS: Duration = Duration::from_secs(120);
/// The time for which refusals because of a race must repeat before they are shown.
///
/// A worker refuses a task that arrives before the notice that the worker is healthy, or before its slot is free. The next try, 150 ms
/// later, usually succeeds.
const RACE_LIFE: Duration = Duration::from_secs(10);

/// The words before the reason in the problem of tasks that lack an input.
pub const LACKS_INPUT: &str = " an input: ";

/// The recent problems, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentProblems(VecDeque<RecentProblem>);

#[derive(Clone, Debug)]
struct RecentProblem {
    /// The time at which the problem was first noted, unless it has ended since.
    since: Time,
    at: Time,
    what: Subject,
}

#[derive(Clone, Debug)]
enum Subject {
    Text(String),
    Start(FailedStart),
    Lacking(LackingTask),
}

/// The tasks of one job that lack an input for the same cause.
#[derive(Clone, Debug)]
struct LackingTask {
    /// Never empty, the latest task last, at most [`MAX_LACKING`].
    tasks: Vec<TaskKey>,
    cause: String,
    why: String,
}

/// A failure of tasks to start on one worker, or to leave outputs there, for one kind of reason: those of several jobs on a full disk are one.
#[derive(Clone, Debug)]
struct FailedStart {
    shard: Shard,
    /// The tasks that did not start, at most [`MAX_TASKS`].
    tasks: BTreeSet<TaskKey>,
    /// The latest such task, and its reason.
    last: TaskKey,
    trouble: StartTrouble,
    why: String,
}

/// The kind of a failure to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTrouble {
    /// The worker refused the task as unhealthy or busy. The next try may succeed.
    Race,
    /// The worker refused the task for another reason, or was unreachable.
    Refused,
    /// The worker accepted the task and could not create its process.
    Failed,
    /// The task has run, and the worker could not keep its outputs.
    Outputs,
}

impl FailedStart {
    /// Returns whether both are the same problem, possibly of different tasks. Refusals because of a race are those of one job, which the
    /// worker ends when it accepts a task of the job.
    fn is_same(&self, other: &FailedStart) -> bool {
        let is_same_job = self.last.job == other.last.job;
        (&self.shard, self.trouble) == (&other.shard, other.trouble)
            && (is_same_job || self.trouble != StartTrouble::Race)
            && is_alike(&self.why, &other.why)
    }

    /// Forgets tasks. Returns whether any are left.
    fn keep_tasks(&mut self, is_kept: impl Fn(&TaskKey) -> bool) -> bool {
        self.tasks.retain(&is_kept);
        match (is_kept(&self.last), self.tasks.last()) {
            (true, _) => true,
            (false, None) => false,
            (false, Some(other)) => {
                self.last = other.clone();
                true
            }
        }
    }

    /// Names the tasks.
    fn of_tasks(&self) -> String {
        let TaskKey { job, node } = &self.last;
        match self.tasks.len() {
            0 | 1 => format!("{job} on {node}"),
            MAX_TASKS => format!("{MAX_TASKS} or more tasks, the last one {job} on {node}"),
            count => format!("{count} tasks, the last one {job} on {node}"),
        }
    }
}

/// Returns whether two reasons differ at most in words with digits, such as the ids of artifacts, and in units of bytes.
fn is_alike(one: &str, other: &str) -> bool {
    let is_unit = |word: &str| matches!(word, "B" | "KiB" | "MiB" | "GiB" | "TiB");
    let is_plain = |word: &&str| {
        let bare = word.trim_end_matches(['.', ',', ':', ';']);
        !is_unit(bare) && !word.contains(|c: char| c.is_ascii_digit())
    };
    let words = |text| str::split_whitespace(text).filter(is_plain);
    words(one).eq(words(other))
}

impl Subject {
    /// Returns whether both are the same problem, possibly of different tasks.
    fn is_same(&self, other: &Subject) -> bool {
        match (self, other) {
            (Subject::Text(one), Subject::Text(other)) => one == other,
            (Subject::Start(one), Subject::Start(other)) => one.is_same(other),
            (Subject::Lacking(one), Subject::Lacking(other)) => {
                (one.job(), &one.cause) == (other.job(), &other.cause)
            }
            (Subject::Text(_) | Subject::Start(_) | Subject::Lacking(_), _) => false,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = match self {
            Subject::Text(text) => return f.write_str(text),
            Subject::Lacking(lacking) => return lacking.fmt(f),
            Subject::Start(start) => start,
        };
        let verb = match start.trouble {
            StartTrouble::Race | StartTrouble::Refused => "did not start",
            StartTrouble::Failed => "could not start",
            StartTrouble::Outputs => "could not keep the outputs of",
        };
        let (shard, tasks, why) = (&start.shard, start.of_tasks(), &start.why);
        write!(f, "worker `{shard}` {verb} {tasks}: {why}")
    }
}

impl LackingTask {
    fn job(&self) -> Option<&JobName> {
        self.tasks.last().map(|task| &task.job)
    }

    /// Adds the earlier tasks that lack an input for the same cause.
    fn add_before(&mut self, before: Vec<TaskKey>) {
        let mut tasks = before;
        tasks.retain(|task| !self.tasks.contains(task));
        tasks.append(&mut self.tasks);
        let surplus = tasks.len().saturating_sub(MAX_LACKING);
        self.tasks = tasks.split_off(surplus);
    }

    /// Returns the problem of the tasks that still lack an input; `None` if there are none.
    fn lasting(&self, lacks: impl Fn(&TaskKey) -> bool) -> Option<LackingTask> {
        let still = self.tasks.iter().filter(|task| lacks(task));
        let tasks: Vec<TaskKey> = still.cloned().collect();
        (!tasks.is_empty()).then(|| LackingTask {
            tasks,
            cause: self.cause.clone(),
            why: self.why.clone(),
        })
    }
}

impl fmt::Display for LackingTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(TaskKey { job, node }) = self.tasks.last() else {
            return Ok(());
        };
        let lack = match self.tasks.len() {
            1 => "lacks",
            _ => "and others lack",
        };
        write!(f, "{job} on {node} {lack}{LACKS_INPUT}{}", self.why)
    }
}

impl RecentProblem {
    fn is_shown(&self, now: Time) -> bool {
        let lasts = match &self.what {
            Subject::Start(start) if start.trouble == StartTrouble::Race => {
                self.at.since(self.since) >= RACE_LIFE
            }
            Subject::Start(_) | Subject::Text(_) | Subject::Lacking(_) => true,
        };
        lasts && self.is_fresh(now)
    }

    /// Formats the problem with its age.
    fn text(&self, now: Time) -> String {
        let (first, last) = (now.since(self.since), now.since(self.at));
        // The same unit for both.
        let ago = |time: Duration| match last < IN_SECONDS && first < IN_SECONDS {
            true => format!("{}s", time.as_secs()),
            false => format_duration(Duration::from_secs(time.as_secs())),
        };
        let (what, first, last) = (&self.what, ago(first), ago(last));
        match first == last {
            true => format!("{last} ago: {what}"),
            false => format!("the first time {first} ago, the last time {last} ago: {what}"),
        }
    }

    fn is_fresh(&self, now: Time) -> bool {
        now.since(self.at) < PROBLEM_LIFE
    }
}

impl RecentProblems {
    /// Notes a problem. Returns its text for the log if `status` did not already show it.
    pub(super) fn note(&mut self, now: Time, text: &str) -> Option<String> {
        self.add(now, Subject::Text(bounded(text)))
    }

    /// Notes that a task lacks an input. Returns the same as [`RecentProblems::note`].
    pub(super) fn note_lacking(
        &mut self,
        now: Time,
        task: TaskKey,
        (cause, why): (String, &str),
    ) -> Option<String> {
        self.add(
            now,
            Subject::Lacking(LackingTask {
                tasks: vec![task],
                cause,
                why: bounded(why),
            }),
        )
    }

    /// Notes that a task did not start on a worker. Returns the same as [`RecentProblems::note`].
    pub(super) fn note_start(
        &mut self,
        now: Time,
        (shard, task): (&Shard, TaskKey),
        trouble: StartTrouble,
        why: &str,
    ) -> Option<String> {
        let start = FailedStart {
            shard: shard.clone(),
            tasks: BTreeSet::from([task.clone()]),
            last: task,
            trouble,
            why: bounded(why),
        };
        self.add(now, Subject::Start(start))
    }

    fn add(&mut self, now: Time, mut what: Subject) -> Option<String> {
        let found = self.0.iter().position(|known| known.what.is_same(&what));
        let known = found.and_then(|at| self.0.remove(at));
        let known = known.filter(|known| known.is_fresh(now));
        let was_shown = known.as_ref().is_some_and(|known| known.is_shown(now));
        let since = known.as_ref().map_or(now, |known| known.since);
        match (known.map(|known| known.what), &mut what) {
            (Some(Subject::Start(before)), Subject::Start(start)) => {
                let new = std::mem::replace(&mut start.tasks, before.tasks);
                start.tasks.extend(new);
                if start.tasks.len() > MAX_TASKS {
                    start.tasks.pop_first();
                }
            }
            (Some(Subject::Lacking(before)), Subject::Lacking(new)) => {
                new.add_before(before.tasks);
            }
            (Some(_) | None, _) => {}
        }
        let problem = RecentProblem {
            since,
            at: now,
            what,
        };
        let is_shown = problem.is_shown(now);
        let is_news = !was_shown && is_shown;
        let news = is_news.then(|| problem.what.to_string());
        self.make_room(now, is_shown);
        self.0.push_back(problem);
        news
    }

    /// Forgets the oldest problem of the same visibility if one more would exceed the limit. Shown and hidden problems have separate
    /// limits.
    fn make_room(&mut self, now: Time, is_shown: bool) {
        self.0.retain(|known| known.is_fresh(now));
        let most = match is_shown {
            true => MAX_PROBLEMS,
            false => MAX_HIDDEN,
        };
        let is_alike = |known: &RecentProblem| known.is_shown(now) == is_shown;
        if self.0.iter().filter(|known| is_alike(known)).count() >= most
            && let Some(oldest) = self.0.iter().position(is_alike)
        {
            self.0.remove(oldest);
        }
    }

    /// Removes the refusals of the job by the worker, which has accepted a task of the job.
    pub(super) fn start_accepted(&mut self, shard: &Shard, job: &JobName) {
        self.keep_starts(|of| {
            let is_refusal = match of.trouble {
                StartTrouble::Race | StartTrouble::Refused => true,
                StartTrouble::Failed | StartTrouble::Outputs => false,
            };
            let is_other = !is_refusal || of.shard != *shard;
            of.keep_tasks(|task| is_other || task.job != *job)
        });
    }

    /// Removes the job's failures on the worker, where a process of the job has run.
    pub(super) fn process_ran(&mut self, shard: &Shard, job: &JobName) {
        self.keep_starts(|of| {
            let is_other = of.shard != *shard;
            of.keep_tasks(|task| is_other || task.job != *job)
        });
    }

    /// Removes all failures on the shard, which another worker instance has taken.
    pub(super) fn another_instance(&mut self, shard: &Shard) {
        self.keep_starts(|of| of.shard != *shard);
    }

    /// Removes the failures of all jobs but these.
    pub(super) fn keep_jobs(&mut self, is_kept: impl Fn(&JobName) -> bool) {
        self.keep_starts(|of| of.keep_tasks(|task| is_kept(&task.job)));
    }

    fn keep_starts(&mut self, is_kept: impl Fn(&mut FailedStart) -> bool) {
        self.0.retain_mut(|known| match &mut known.what {
            Subject::Start(of) => is_kept(of),
            Subject::Text(_) => true,
            Subject::Lacking(_) => true,
        });
    }

    /// Returns the problems that last. `lacks` says whether a task still lacks an input.
    pub(super) fn shown(&self, now: Time, lacks: impl Fn(&TaskKey) -> bool) -> Vec<String> {
        let text = |known: &RecentProblem| match &known.what {
            Subject::Lacking(lacking) => {
                let lasting = lacking.lasting(&lacks)?;
                let (since, at) = (known.since, known.at);
                let what = Subject::Lacking(lasting);
                Some(RecentProblem { since, at, what }.text(now))
            }
            Subject::Text(_) | Subject::Start(_) => Some(known.text(now)),
        };
        let shown = self.0.iter().filter(|known| known.is_shown(now));
        shown.filter_map(text).collect()
    }
}

/// Cuts the text to [`MAX_PROBLEM_CHARS`], because peers choose names and refusals.
fn bounded(text: &str) -> String {
    text.chars().take(MAX_PROBLEM_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use brasserie_common::NodeName;

    use super::*;

    fn task(job: &str, node: u64) -> TaskKey {
        TaskKey {
            job: JobName::try_from(job).unwrap(),
            node: NodeName::try_from(format!("n{node}").as_str()).unwrap(),
        }
    }

    #[test]
    fn the_tasks_that_a_full_disk_keeps_from_starting_are_one_problem() {
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let (one, two) = (
            Shard::try_from("w1").unwrap(),
            Shard::try_from("w2").unwrap(),
        );
        let mut problems = RecentProblems::default();
        let failed = StartTrouble::Failed;
        let mut logged = 0;
        for number in 0..40 {
            let of = task(["a", "b"][usize::try_from(number % 2).unwrap()], number);
            let unit = ["B", "KiB"][usize::try_from(number % 2).unwrap()];
            let why = format!("cannot keep its input {number:x}e1f: no space for {number} {unit}.");
            let told = problems.note_start(at(number), (&one, of), failed, &why);
            logged += usize::from(told.is_some());
        }
        let other = "it asks for the user root";
        problems.note_start(at(40), (&one, task("a", 1)), failed, other);
        problems.note_start(at(40), (&two, task("a", 1)), failed, other);
        assert_eq!(logged, 1);
        let shown = problems.shown(at(40), |_| true);
        assert_eq!(
            shown,
            [
                "the first time 40s ago, the last time 1s ago: worker `w1` could not start 40 tasks, the last one b on n39: \
                 cannot keep its input 27e1f: no space for 39 KiB.",
                "0s ago: worker `w1` could not start a on n1: it asks for the user root",
                "0s ago: worker `w2` could not start a on n1: it asks for the user root",
            ]
        );
        // A task of one job has run there. Those of the other one still do not.
        problems.process_ran(&one, &task("b", 0).job);
        let shown = problems.shown(at(40), |_| true);
        assert!(
            shown[0].contains("could not start 20 tasks, the last one a on n"),
            "{shown:?}"
        );
        problems.keep_jobs(|job| job.as_str() != "a");
        assert_eq!(problems.shown(at(40), |_| true), [""; 0]);
    }

    #[test]
    fn refusals_that_are_not_shown_take_no_room_of_problems() {
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let mut problems = RecentProblems::default();
        let disk = "the disk is full";
        assert!(problems.note(at(0), disk).is_some());
        let task = task("j", 0);
        for number in 0..2 * MAX_HIDDEN {
            let shard = Shard::try_from(format!("w{number}").as_str()).unwrap();
            let start = (&shard, task.clone());
            let told = problems.note_start(at(1), start, StartTrouble::Race, "it is busy");
            assert_eq!(told, None);
        }
        assert_eq!(problems.0.len(), 1 + MAX_HIDDEN);
        let shown = |problems: &RecentProblems, now| problems.shown(at(now), |_| true);
        assert_eq!(shown(&problems, 2), ["2s ago: the disk is full"]);
        assert_eq!(problems.note(at(2), disk), None, "it is not new");
        let twice = "the first time 3s ago, the last time 1s ago: the disk is full";
        assert_eq!(shown(&problems, 3).last().map(String::as_str), Some(twice));
        assert!(shown(&problems, 62)[0].starts_with("the first time 62s ago, the last time 60s"));
    }

    #[test]
    fn tasks_that_lack_the_same_input_share_a_line_until_none_does() {
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let mut problems = RecentProblems::default();
        let task = |node: &str| TaskKey {
            job: JobName::try_from("j").unwrap(),
            node: NodeName::try_from(node).unwrap(),
        };
        let mut note =
            |node, why| problems.note_lacking(at(1), task(node), ("dims".to_owned(), why));
        let first = note("n0", "no file dims");
        assert_eq!(
            first.as_deref(),
            Some("j on n0 lacks an input: no file dims")
        );
        assert_eq!(note("n0", "no file dims"), None);
        assert_eq!(note("n1", "no file dims"), None);
        let several = "1s ago: j on n1 and others lack an input: no file dims";
        assert_eq!(problems.shown(at(2), |_| true), [several]);
        for node in ["n0", "n1"] {
            let one = format!("1s ago: j on {node} lacks an input: no file dims");
            let shown = problems.shown(at(2), |lacking| *lacking == task(node));
            assert_eq!(shown, [one]);
        }
        assert_eq!(problems.shown(at(2), |_| false), [""; 0]);
    }

    #[test]
    fn two_tasks_at_most_are_asked_whether_they_still_lack_an_input() {
        let at = |secs| Time::ZERO + Duration::from_secs(secs);
        let mut problems = RecentProblems::default();
        for node in 0..5 {
            problems.note_lacking(at(1), task("j", node), ("dims".to_owned(), "no file dims"));
        }
        let asked = std::cell::RefCell::new(Vec::new());
        let shown = problems.shown(at(2), |task| {
            asked.borrow_mut().push(task.node.to_string());
            false
        });
        assert_eq!(shown, [""; 0]);
        assert_eq!(asked.into_inner(), ["n3", "n4"]);
    }
}

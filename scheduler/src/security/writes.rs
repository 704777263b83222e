//! The writes to the folder `identity`: one thread writes there at a time, and the others do not wait for the disk without a limit.
//!
//! ```text
//! change --handed over--> waits --a turn--> made in a copy with all that wait --the copy is written--> in force --> answer
//! ```
//!
//! A caller hands its change over and waits for a turn. In its turn it makes all changes that wait, in one copy of the registry, writes the copy,
//! puts it in force and answers the others. So a write of many MiB serves all callers that came during the write before it. A change that is
//! refused leaves the copy as it was. If the write fails, all changes of the copy have failed.
//!
//! A write that the disk does not answer keeps its thread in the kernel. So threads that only read the registry, or revoke, take no turn here. A
//! caller that waits for too long takes its change back. If the change is in a copy that is being written, it has effect if the disk answers
//! after all. For the caller this is an answer that was lost on its way: a worker repeats its request, and an administrator sees the token in
//! `token list`. The connections of a former key are closed also then, because the thread that writes does so.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use brasserie_common::access::{ShardLabel, TokenNumber};
use brasserie_common_runtime::Clock;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::folder::write_registry;
use super::registry::Registry;
use super::{NotAdmitted, Security};

/// The time without an answer of the disk that `status` names, as of the audit log.
const STALLED_AFTER: Duration = Duration::from_secs(5);
/// The longest wait of a change for those before it: far longer than as many writes take as calls may wait.
const LONGEST_TURN: Duration = Duration::from_secs(10);
/// The longest wait for the answer of the disk to a revocation, which is in effect already.
const LONGEST_ANSWER: Duration = Duration::from_secs(5);

/// A change that waits for a turn. Makes it in a copy of the registry, unless it is refused, and returns what ends it.
type Change = Box<dyn FnOnce(&Security, &mut Registry) -> Option<End> + Send>;
/// The end of a change: receives the outcome of the write once the copy is in force.
type End = Box<dyn FnOnce(&Security, Result<(), NotAdmitted>) + Send>;

/// The caller's end of a change: receives its value, or why it was not made.
type Outcome<T> = mpsc::Receiver<Result<T, NotAdmitted>>;
/// The records of the registry that a change may add, alter or remove.
type Touched = (Option<ShardLabel>, Option<TokenNumber>);

/// The turns of writes, and their outcome.
#[derive(Default)]
pub(super) struct Writes {
    /// Locked by a thread from its copy of the registry until that is on disk.
    writing: Mutex<()>,
    state: Mutex<WriteState>,
    /// Notified after each write.
    written: Condvar,
}

#[derive(Default)]
struct WriteState {
    /// The changes that wait for a turn, by their numbers.
    waiting: BTreeMap<u64, Change>,
    /// The number of the last change that was handed over.
    last_change: u64,
    /// The time since which a thread has its turn.
    busy_since: Option<Instant>,
    /// The reason for which the last write has failed; `None` after one that has not.
    failure: Option<String>,
    /// The number of writes that have failed.
    failures: u64,
    /// A thread writes revocations.
    has_thread: bool,
}

/// The turn of a write.
pub(super) struct WriteTurn<'a> {
    writes: &'a Writes,
    writing: Option<MutexGuard<'a, ()>>,
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        self.writes.state.lock().busy_since = None;
        // The next turn is that of the thread that waits longest: callers whose changes are on disk are not kept by the next write.
        if let Some(writing) = self.writing.take() {
            MutexGuard::unlock_fair(writing);
        }
    }
}

impl Writes {
    /// Hands a change over to the next turn. Returns its number.
    fn hand_over(&self, change: Change) -> u64 {
        let mut state = self.state.lock();
        state.last_change += 1;
        let number = state.last_change;
        state.waiting.insert(number, change);
        number
    }

    /// Takes a change back, unless it was begun.
    fn take_back(&self, number: u64) {
        self.state.lock().waiting.remove(&number);
    }

    /// Takes all changes that wait, in the order in which they came.
    fn take_waiting(&self) -> BTreeMap<u64, Change> {
        std::mem::take(&mut self.state.lock().waiting)
    }

    /// Waits until no other thread writes. Errors after [`LONGEST_TURN`].
    pub(super) fn turn(&self) -> Result<WriteTurn<'_>, NotAdmitted> {
        self.turn_within(LONGEST_TURN)
    }

    fn turn_within(&self, longest: Duration) -> Result<WriteTurn<'_>, NotAdmitted> {
        let writing = self.writing.try_lock_for(longest);
        let writing = writing.ok_or_else(|| {
            let queue = "too many changes of tokens and certificates wait for the disk of the scheduler: try again later";
            NotAdmitted::Failed(self.stall().unwrap_or_else(|| queue.to_owned()))
        })?;
        self.state.lock().busy_since = Some(Instant::now());
        Ok(WriteTurn {
            writes: self,
            writing: Some(writing),
        })
    }

    /// Notes the end of a write, and why it has failed.
    fn note(&self, failed: Option<&NotAdmitted>) {
        let mut state = self.state.lock();
        state.failure = failed.map(ToString::to_string);
        state.failures += u64::from(failed.is_some());
        self.written.notify_all();
    }

    /// Returns why the disk does not take what is written; `None` if it does.
    pub(super) fn problem(&self) -> Option<String> {
        let failure = self.state.lock().failure.clone();
        self.stall().or(failure)
    }

    /// Returns for how long the disk has not answered; `None` if that is no problem.
    pub(super) fn stall(&self) -> Option<String> {
        let busy_since = self.state.lock().busy_since;
        let busy = busy_since.map(|since| since.elapsed());
        busy.filter(|time| *time >= STALLED_AFTER).map(no_answer)
    }

    /// Calls `start` unless a thread writes revocations already. Returns the number of writes that have failed until now.
    pub(super) fn ensure_thread(
        &self,
        start: impl FnOnce() -> std::io::Result<()>,
    ) -> std::io::Result<u64> {
        let mut state = self.state.lock();
        if !state.has_thread {
            start()?;
            state.has_thread = true;
        }
        Ok(state.failures)
    }

    /// Returns whether the thread that writes revocations ends, because there is nothing to do for it.
    pub(super) fn ends_thread(&self, is_idle: impl FnOnce() -> bool) -> bool {
        let mut state = self.state.lock();
        let is_idle = is_idle();
        state.has_thread = !is_idle;
        is_idle
    }

    /// Waits until `is_done` after a write. Errors if a write fails after the first `failures`, and after [`LONGEST_ANSWER`].
    pub(super) fn wait(&self, failures: u64, is_done: impl Fn() -> bool) -> Result<(), String> {
        let until = Instant::now() + LONGEST_ANSWER;
        let mut state = self.state.lock();
        loop {
            if is_done() {
                return Ok(());
            }
            if state.failures > failures
                && let Some(why) = &state.failure
            {
                return Err(why.clone());
            }
            let waited = self.written.wait_until(&mut state, until);
            if waited.timed_out() && !is_done() {
                return Err(no_answer(LONGEST_ANSWER));
            }
        }
    }
}

impl Security {
    /// Makes a change of these records of the registry that is on disk before it has effect. Waits for the disk. `in_force` is called once the
    /// change has effect, perhaps in another thread.
    pub(super) fn change<T: Send + 'static>(
        &self,
        touched: Touched,
        make: impl FnOnce(&Security, &mut Registry) -> Result<T, NotAdmitted> + Send + 'static,
        in_force: impl FnOnce(&Security) + Send + 'static,
    ) -> Result<T, NotAdmitted> {
        let (change, told) = waiting_change(touched, make, in_force);
        self.make_in_turn(change, &told, LONGEST_TURN)
    }

    /// Waits until a change is made by another thread, or for a turn in which to make it with all others that wait.
    fn make_in_turn<T>(
        &self,
        change: Change,
        told: &Outcome<T>,
        longest: Duration,
    ) -> Result<T, NotAdmitted> {
        let number = self.writes.hand_over(change);
        let turn = self.writes.turn_within(longest);
        let mut outcome = told.try_recv();
        if outcome.is_err() {
            match &turn {
                Ok(turn) => self.make_waiting(turn),
                Err(_) => self.writes.take_back(number),
            }
            outcome = told.try_recv();
        }
        outcome.unwrap_or_else(|_| match turn {
            Ok(_) => Err(NotAdmitted::Failed("the change was cut off".to_owned())),
            Err(late) => Err(late),
        })
    }

    /// Makes all changes that wait, and writes them at once.
    fn make_waiting(&self, turn: &WriteTurn<'_>) {
        let mut registry = self.registry.lock();
        registry.forget_ended(Clock.wall());
        let mut changed = registry.clone();
        drop(registry);
        let waiting = self.writes.take_waiting().into_values();
        let ends = waiting.filter_map(|change| change(self, &mut changed));
        let ends: Vec<End> = ends.collect();
        if ends.is_empty() {
            return;
        }
        let written = self.write(&changed, turn);
        if written.is_ok() {
            let authority = self.authority().hash();
            if self.registry.lock().replace(changed, &authority) {
                // A change may have added a certificate that is revoked too.
                self.notify_workers();
            }
        }
        for end in ends {
            end(self, written.clone());
        }
    }

    /// Writes a copy of the registry, with all revocations that were in effect when it was made.
    pub(super) fn write(&self, copy: &Registry, _: &WriteTurn<'_>) -> Result<(), NotAdmitted> {
        let written = write_registry(&self.folder, copy);
        if written.is_ok() {
            self.registry.lock().note_written(copy.revocations());
        }
        self.writes.note(written.as_ref().err());
        written
    }
}

/// Returns a change as it waits for a turn, and what receives its outcome, which nobody needs to wait for.
fn waiting_change<T: Send + 'static>(
    touched: Touched,
    make: impl FnOnce(&Security, &mut Registry) -> Result<T, NotAdmitted> + Send + 'static,
    in_force: impl FnOnce(&Security) + Send + 'static,
) -> (Change, Outcome<T>) {
    let (tell, told) = mpsc::sync_channel(1);
    let change = move |security: &Security, registry: &mut Registry| -> Option<End> {
        let made = registry.attempt(&touched, |registry| make(security, registry));
        let made = match made {
            Ok(made) => made,
            Err(refused) => {
                let _ = tell.send(Err(refused));
                return None;
            }
        };
        Some(Box::new(move |security, written| {
            if written.is_ok() {
                in_force(security);
            }
            let _ = tell.send(written.map(|()| made));
        }))
    };
    (Box::new(change), told)
}

fn no_answer(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("the disk of the scheduler's folder `identity` has not answered for {seconds} s")
}

#[cfg(test)]
mod tests {
    use brasserie_common::Shard;
    use brasserie_common_identity::{KeyRequest, Life};

    use super::*;
    use crate::security::Terms;
    use crate::security::folder::TOKENS;
    use crate::security::tests::Bench;

    #[test]
    fn a_change_does_not_wait_for_ever_for_one_that_the_disk_does_not_answer() {
        let writes = Writes::default();
        let turn = writes.turn().expect("nobody else");
        assert_eq!(writes.stall(), None);
        let second = writes.turn_within(Duration::from_millis(1)).map(|_| ());
        assert!(second.expect_err("it is not its turn").is_temporary());
        writes.state.lock().busy_since = Instant::now().checked_sub(STALLED_AFTER);
        let stall = writes.stall().expect("it hangs");
        assert!(stall.contains("has not answered for 5 s"), "{stall}");
        drop(turn);
        assert_eq!(writes.problem(), None);
        writes.turn().expect("nobody else");
    }

    /// Returns once as many changes wait for a turn.
    fn wait_for(security: &Security, changes: usize) {
        while security.writes.state.lock().waiting.len() < changes {
            std::thread::yield_now();
        }
    }

    #[test]
    fn changes_that_wait_are_made_in_their_order_and_a_refused_one_leaves_nothing() {
        let bench = Bench::new();
        let security = bench.security();
        let created = security.create_token(Terms::joining(LONGEST_TURN, 1));
        let secret = created.expect("good terms").0.secret.reveal();
        let key = KeyRequest::create().expect("a key");
        let join = |name: &str, request: &[u8]| {
            let shard = Shard::try_from(name).expect("a name");
            security.join(&secret, &shard, request).map(|_| ())
        };
        let turn = security.writes.turn().expect("nobody else");
        let [bad, first, second] = std::thread::scope(|scope| {
            let requests = [
                ("bad", &[1][..]),
                ("first", key.request()),
                ("second", key.request()),
            ];
            let mut waiting = 0;
            let joins = requests.map(|(name, request)| {
                let joining = scope.spawn(move || join(name, request));
                waiting += 1;
                wait_for(&security, waiting);
                joining
            });
            drop(turn);
            joins.map(|joining| joining.join().expect("it ends"))
        });
        assert!(matches!(bad, Err(NotAdmitted::BadTerms(_))), "{bad:?}");
        assert_eq!((first, second), (Ok(()), Err(NotAdmitted::Used)));
        let kept = std::fs::read_to_string(security.folder.join(TOKENS)).expect("a file");
        let names = ["bad", "first", "second"].map(|name| kept.contains(&format!("\"{name}\"")));
        assert_eq!(names, [false, true, false]);
    }

    #[test]
    fn one_write_is_that_of_all_changes_that_wait_and_fails_for_all() {
        const CALLERS: usize = 8;
        let bench = Bench::new();
        let security = bench.security();
        let labels = fill(&security, CALLERS);
        let key = KeyRequest::create().expect("a key");
        let before = security.registry.lock().clone();
        let in_its_way = security.folder.join(".tokens.json.tmp");
        std::fs::create_dir(&in_its_way).expect("a folder");
        let turn = security.writes.turn().expect("nobody else");
        std::thread::scope(|scope| {
            let (security, key) = (&security, &key);
            let renew = |label| scope.spawn(move || security.renew(label, 0, key.request()));
            let renewals: Vec<_> = labels.iter().map(renew).collect();
            wait_for(security, CALLERS);
            drop(turn);
            for renewal in renewals {
                let failed = renewal.join().expect("it ends").expect_err("a full disk");
                assert!(failed.is_temporary(), "{failed}");
            }
        });
        assert_eq!(security.writes.state.lock().failures, 1);
        assert_eq!(*security.registry.lock(), before);
        std::fs::remove_dir(&in_its_way).expect("it is there");
        let renewed = security.renew(&labels[0], 0, key.request());
        renewed.expect("the disk takes it");
    }

    #[test]
    fn a_change_that_has_waited_for_too_long_is_not_made_later_unless_it_was_begun() {
        let bench = Bench::new();
        let security = bench.security();
        let (in_force, effects) = mpsc::channel();
        let change = |name: &'static str| {
            let in_force = in_force.clone();
            let noted = move |_: &Security| in_force.send(name).expect("the test waits");
            waiting_change((None, None), |_, _| Ok(()), noted)
        };
        let turn = security.writes.turn().expect("nobody else");
        let (late, told) = change("late");
        let given_up = security.make_in_turn(late, &told, Duration::from_millis(1));
        assert!(given_up.expect_err("it is not its turn").is_temporary());
        // The caller of a change that another thread has begun is gone.
        let (begun, told) = change("begun");
        drop(told);
        security.writes.hand_over(begun);
        drop(turn);
        let created = security.create_token(Terms::joining(LONGEST_TURN, 1));
        created.expect("good terms");
        assert_eq!(effects.try_iter().collect::<Vec<_>>(), ["begun"]);
    }

    /// Fills the registry with shards that have a certificate. Returns their labels.
    fn fill(security: &Security, shards: usize) -> Vec<ShardLabel> {
        let mut registry = security.registry.lock();
        let (now, authority) = (Clock.wall(), security.authority().hash());
        let life = Life {
            issued: now,
            until: now + security.worker_life.0,
        };
        let named = (0..shards).map(|number| {
            let shard = Shard::try_from(format!("worker-{number:05}"));
            let label = ShardLabel::of(&shard.expect("a name"));
            registry.note_certificate(&label, life);
            registry.note_shown_key(&label, [7; 32]);
            registry.note_authority(&label, &authority);
            label
        });
        named.collect()
    }

    /// Prints the renewals a second, and their times. BENCHMARKS.md has the figures of more shards.
    #[test]
    fn renewals_of_many_callers_are_on_disk_once_they_are_answered() {
        const CALLERS: usize = 32;
        const SHARDS: usize = 10 * CALLERS;
        let bench = Bench::new();
        let security = bench.security();
        let labels = fill(&security, SHARDS);
        let (times, begun) = (Mutex::new(Vec::new()), Instant::now());
        std::thread::scope(|scope| {
            let (security, times) = (&security, &times);
            for labels in labels.chunks(SHARDS / CALLERS) {
                scope.spawn(move || {
                    let key = KeyRequest::create().expect("a key");
                    for label in labels {
                        let asked = Instant::now();
                        let renewed = security.renew(label, 0, key.request());
                        renewed.expect("a certificate");
                        times.lock().push(asked.elapsed());
                    }
                });
            }
        });
        let took = begun.elapsed();
        let mut times = times.into_inner();
        times.sort_unstable();
        let rate = times.len() as f64 / took.as_secs_f64();
        let [median, p99] = [50, 99].map(|percent| times[(times.len() - 1) * percent / 100]);
        eprintln!("{rate:.1} renewals a second, median {median:.2?}, p99 {p99:.2?}");
        let kept = bench.security().registry.lock().to_json(usize::MAX);
        assert_eq!(kept, security.registry.lock().to_json(usize::MAX));
    }
}

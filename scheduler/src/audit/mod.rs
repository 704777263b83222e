//! The audit log: changes with their callers and outcomes, and refused callers. One JSON object a line, in `audit/audit.log` in the data directory.
//!
//! The thread that makes a change hands its line over before the answer leaves, and never waits for the disk: a thread of its own writes the lines,
//! and syncs them at least once a second. So a crash of the machine loses the lines of the last second at most. If the disk is full or does
//! not answer, lines wait in memory, whose number and bytes are bounded. Those that find no place there are counted, and `status` says so.

mod lines;
mod pages;
mod refusals;
mod shares;
mod writer;

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use brasserie_common::access::{ShardLabel, TokenNumber};
use brasserie_common::{NotPermitted, Principal, Time};
use brasserie_common_runtime::{Clock, DataDir, DataDirError};
use brasserie_scheduler_core::{ConfigTexts, Event, Rejection, ShellReport};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::inbox::{EventLane, Inbox};
pub(crate) use lines::{Line, Outcome};
pub(crate) use pages::{Page, PageQuery, Place};
pub(crate) use refusals::RefusalReason;
use refusals::{Bounded, Refusals, Renewals};
use shares::Shares;
pub(crate) use shares::TooManyChanges;
pub(crate) use writer::MOST_KEPT;
use writer::{Message, Sizes, Writer};

/// The page of a login of a browser, which is no call.
const LOGIN: &str = "/login";
/// The folder in the data directory.
const FOLDER: &str = "audit";
/// The most lines that wait for the disk: some minutes of a busy cluster, and some MiB.
const MOST_WAITING: usize = 4096;
/// The most bytes of lines that wait, with the definitions that they describe. Half of it holds the definition of the largest frame, 16 MiB.
const MOST_WAITING_BYTES: usize = 32 << 20;
/// The time without an answer of the disk that `status` names.
const STALLED_AFTER: Duration = Duration::from_secs(5);
/// The time between two looks at what `status` shows of the log.
const REPORT_PERIOD: Duration = Duration::from_secs(1);
/// The longest wait for the disk at the end.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The time between two tries to tell the thread, whose queue is full, that the end has come.
const CLOSE_RETRY: Duration = Duration::from_millis(10);

/// The audit log of one scheduler. Clones are the same.
#[derive(Clone)]
pub(crate) struct Audit(Arc<Parts>);

struct Parts {
    folder: PathBuf,
    queue: SyncSender<Message>,
    state: Arc<State>,
    refusals: Refusals,
    renewals: Renewals,
}

/// The state of the disk, as the writing thread reports it.
#[derive(Default)]
struct State {
    /// Lines that found no place since the last line that counts them.
    lost: AtomicU64,
    /// The lines in memory that no file has.
    backlog: Mutex<Backlog>,
    /// Why the last write failed; `None` after one that did not.
    failure: Mutex<Option<String>>,
    /// The time since which the thread waits for the disk.
    busy_since: Mutex<Option<Instant>>,
    /// Held while files are renamed, so that a reader finds all of them.
    renames: Mutex<()>,
    /// The parts of the log that callers have filled.
    shares: Shares,
}

/// The number and the bytes of lines in memory.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    lines: u64,
    bytes: usize,
}

impl Backlog {
    fn remove(&mut self, bytes: usize) {
        self.lines -= 1;
        self.bytes -= bytes;
    }
}

impl State {
    /// Takes bytes of a line into account. Returns whether there is room for them.
    fn reserve(&self, bytes: usize) -> bool {
        let mut backlog = self.backlog.lock();
        let has_room = backlog.bytes + bytes <= MOST_WAITING_BYTES;
        if has_room {
            backlog.lines += 1;
            backlog.bytes += bytes;
        }
        has_room
    }

    /// Returns what is wrong, for people.
    fn problem(&self, now: Instant) -> Option<String> {
        let failure = self.failure.lock().clone();
        let busy = (*self.busy_since.lock()).map(|since| now.saturating_duration_since(since));
        let stalled = busy.filter(|time| *time >= STALLED_AFTER).map(|_| {
            format!(
                "the audit log waits for its disk, which has not answered for more than {} s",
                STALLED_AFTER.as_secs()
            )
        });
        let lost = match self.lost.load(Ordering::Relaxed) {
            0 => String::new(),
            lost => format!(". {lost} lines are lost, as too many wait"),
        };
        let what = stalled.or(failure).or_else(|| {
            (!lost.is_empty()).then(|| "the audit log cannot keep up with the calls".to_owned())
        })?;
        Some(format!("{what}{lost}"))
    }
}

impl Audit {
    /// Opens the log in the data directory, and starts the thread that writes it. About `keep` bytes of lines are kept.
    pub(crate) fn open(directory: &DataDir, keep: u64) -> Result<Self, DataDirError> {
        let folder = directory.folder(FOLDER)?;
        Ok(Self::open_with(folder, Sizes::keeping(keep), MOST_WAITING))
    }

    fn open_with(folder: PathBuf, sizes: Sizes, most_waiting: usize) -> Self {
        let (queue, lines) = mpsc::sync_channel(most_waiting);
        let state = Arc::new(State {
            shares: Shares::of(sizes.kept()),
            ..State::default()
        });
        let writer = Writer::new(folder.clone(), sizes, Arc::clone(&state));
        let named = std::thread::Builder::new().name("audit".to_owned());
        if let Err(error) = named.spawn(move || writer.run(&lines)) {
            // All lines are counted as lost then.
            *state.failure.lock() = Some(format!("the audit log has no thread: {error}"));
        }
        Audit(Arc::new(Parts {
            folder,
            queue,
            state,
            refusals: Refusals::default(),
            renewals: Renewals::default(),
        }))
    }

    /// Errors if the call is a change, and the log has got so many lines about its caller that further ones would push out those of others.
    /// Callers without a proof cannot be told apart, so they have no bound.
    pub(crate) fn may_change(&self, from: &Principal, what: &str) -> Result<(), TooManyChanges> {
        let identity = from.identity();
        let is_bounded = identity.is_some_and(|identity| shares::is_bounded(identity, what));
        if !is_bounded {
            return Ok(());
        }
        let line = Line::new(from, what);
        let checked = self.0.state.shares.check(Instant::now(), line.caller());
        if let Err(why) = &checked {
            let line = line.end(Outcome::Refused, Some(&why.to_string()));
            self.write_bounded(Bounded::Change, line);
        }
        checked
    }

    /// Begins the line of a call, which is written at its end.
    pub(crate) fn call(&self, from: &Principal, what: &str) -> OpenLine {
        OpenLine {
            audit: self.clone(),
            line: Some(Line::new(from, what)),
        }
    }

    /// Writes a line about this scheduler itself.
    pub(crate) fn own(&self, what: &str, after: Option<Value>) {
        self.write(Line::new(&Principal::Own, what).changed(None, after));
    }

    /// Writes that this scheduler has created a token by itself.
    pub(crate) fn own_token(&self, number: TokenNumber, note: Option<&str>) {
        let line = Line::new(&Principal::Own, "createToken");
        let line = line.on("token", &number.to_string());
        self.write(line.changed(None, Some(json!({ "note": note }))));
    }

    /// Writes that another config file is in force.
    pub(crate) fn config_in_force(&self, what: &str, texts: ConfigTexts) {
        let line = Line::new(&Principal::Own, "configInForce").on("config", what);
        self.write(line.texts(texts.before, Some(texts.after)));
    }

    /// Counts a call that was refused because of who made it, and writes it unless too many were lately. Returns whether it is written, so that
    /// the log of the program has no more lines about it.
    pub(crate) fn refused(
        &self,
        reason: RefusalReason,
        from: &Principal,
        what: &str,
        why: &str,
    ) -> bool {
        let line = Line::new(from, what).end(Outcome::Refused, Some(why));
        self.write_bounded(Bounded::Caller(reason), line)
    }

    /// Does the same for a call with a token that is not valid.
    pub(crate) fn false_token(
        &self,
        from: &Principal,
        what: &str,
        (shown, why): (Option<TokenNumber>, &str),
    ) -> bool {
        let line = Line::new(from, what).shown_token(shown);
        let line = line.end(Outcome::Refused, Some(why));
        self.write_bounded(Bounded::Caller(RefusalReason::Token), line)
    }

    /// Writes a login of a browser unless its token had too many lately. Returns whether it is written.
    pub(crate) fn login(&self, by: &Principal) -> bool {
        self.write_bounded(Bounded::Login, Line::new(by, LOGIN))
    }

    /// Counts a call, and writes its line unless its caller has had too many of this kind lately. Returns whether it is written.
    fn write_bounded(&self, kind: Bounded, line: Line) -> bool {
        let count = self.0.refusals.count(Clock.now(), kind, line.caller());
        match count {
            Some(suppressed) => self.write(line.suppressed(suppressed)),
            None => return false,
        }
        true
    }

    /// Writes counts of calls that have no line of their own.
    fn write_overdue(&self, now: Time) {
        for ((kind, caller), suppressed) in self.0.refusals.overdue(now) {
            let (what, outcome) = match kind {
                Bounded::Caller(_) | Bounded::Change => ("refusedCalls", Outcome::Refused),
                Bounded::Certificate => ("certify", Outcome::Ok),
                Bounded::Login => (LOGIN, Outcome::Ok),
                Bounded::Repeated => ("revokeWorker", Outcome::Ok),
            };
            let by = (!caller.is_empty()).then(|| json!({ "caller": caller }));
            let line = Line::new(&Principal::Own, what).on("reason", kind.name());
            let line = line.suppressed(suppressed).changed(None, by);
            self.write(line.end(outcome, None));
        }
    }

    /// Counts and writes a call that the caller's role or shard does not permit.
    pub(crate) fn not_permitted(&self, refusal: &NotPermitted) {
        let reason = match (&refusal.caller, &refusal.shard) {
            (Principal::Stranger(..), _) => RefusalReason::Proof,
            (_, Some(_)) => RefusalReason::Shard,
            (_, None) => RefusalReason::Role,
        };
        let why = refusal.to_string();
        self.refused(reason, &refusal.caller, &refusal.call, &why);
    }

    /// Counts and writes the rejection of a call that speaks for another instance of a shard than the bound one, by a worker that has proven
    /// its shard. Other rejections are nobody's fault.
    pub(crate) fn rejected(&self, from: &Principal, what: &str, rejection: &Rejection) {
        let is_proven = from.identity().is_some();
        let reason = match rejection {
            Rejection::ShardTaken { .. }
            | Rejection::OtherMachine { .. }
            | Rejection::IdentityChanged { .. }
            | Rejection::WrongWorker { .. } => RefusalReason::Instance,
            Rejection::NotPermitted(_) => RefusalReason::Shard,
            _ => return,
        };
        if is_proven {
            self.refused(reason, from, what, &rejection.to_string());
        }
    }

    fn write(&self, mut line: Line) {
        let state = &self.0.state;
        // The thread describes definitions. If many of them wait already, this one does, so that large definitions take no place of others.
        if state.backlog.lock().bytes + line.bytes() > MOST_WAITING_BYTES / 2 {
            line.describe();
        }
        let bytes = line.bytes();
        let mut has_place = state.reserve(bytes);
        if has_place {
            let sent = self.0.queue.try_send(Message::Line(Box::new(line)));
            has_place = sent.is_ok();
            if !has_place {
                state.backlog.lock().remove(bytes);
            }
        }
        if !has_place {
            state.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns a page of the log. Waits for the disk.
    pub(crate) fn page(&self, query: &PageQuery) -> io::Result<Page> {
        pages::read(&self.0.folder, &self.0.state.renames, query)
    }

    /// Starts the task that tells the core what `status` shows of the log, whenever that changes. It also writes counts of refusals that have
    /// no line of their own.
    pub(crate) fn watch(&self, inbox: Inbox, stop: CancellationToken) -> JoinHandle<()> {
        tokio::spawn(self.clone().report(inbox, stop))
    }

    async fn report(self, inbox: Inbox, stop: CancellationToken) {
        let mut due = interval(REPORT_PERIOD);
        let mut told = ShellReport::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = due.tick() => {}
            }
            self.write_overdue(Clock.now());
            let report = ShellReport {
                problems: self.0.state.problem(Instant::now()).into_iter().collect(),
                refused_calls: self.0.refusals.counts(),
            };
            if report != told {
                told = report.clone();
                let event = Event::ShellReported(Box::new(report));
                inbox.tell_soon(EventLane::Ordinary, event);
            }
        }
    }

    /// Writes all lines to disk, and ends the thread. Waits a few seconds at most, and logs how many lines are lost then.
    pub(crate) fn close(&self) {
        let lost = self.close_within(LAST_WAIT);
        if lost > 0 {
            tracing::error!(
                lines = lost,
                folder = %self.0.folder.display(),
                "lines of the audit log are lost: its disk did not take them before the end of the scheduler"
            );
        }
    }

    /// Does so within this time. Returns the number of lines that are in no file.
    fn close_within(&self, wait: Duration) -> u64 {
        let end = Instant::now() + wait;
        let (done, is_done) = mpsc::channel();
        let mut message = Message::Close(done);
        while let Err(TrySendError::Full(unsent)) = self.0.queue.try_send(message) {
            if Instant::now() >= end {
                break;
            }
            message = unsent;
            std::thread::sleep(CLOSE_RETRY);
        }
        // A disk that does not answer is not waited for.
        let _ = is_done.recv_timeout(end.saturating_duration_since(Instant::now()));
        self.0.state.backlog.lock().lines + self.0.state.lost.load(Ordering::Relaxed)
    }
}

/// The line of a call that is under way. A call that ends without a result has failed.
pub(crate) struct OpenLine {
    audit: Audit,
    line: Option<Line>,
}

impl OpenLine {
    /// Says what the call is about: its kind, and its name.
    pub(crate) fn on(mut self, object: &'static str, name: &str) -> Self {
        self.line = self.line.take().map(|line| line.on(object, name));
        self
    }

    /// Names the token that the caller has shown, whether it is valid or not.
    pub(crate) fn shown_token(mut self, token: Option<TokenNumber>) -> Self {
        self.line = self.line.take().map(|line| line.shown_token(token));
        self
    }

    /// Names the node of a task.
    pub(crate) fn node(mut self, node: &str) -> Self {
        self.line = self.line.take().map(|line| line.node(node));
        self
    }

    /// Names the change and its object for the log of the program.
    pub(crate) fn subject(&self, what: &str) -> String {
        match self.line.as_ref().and_then(Line::name) {
            Some(name) => format!("{what} (`{name}`)"),
            None => what.to_owned(),
        }
    }

    /// Says what was there before the change, and what is after it.
    pub(crate) fn changed(&mut self, before: Option<Value>, after: Option<Value>) {
        self.line = self.line.take().map(|line| line.changed(before, after));
    }

    /// Gives the texts of a definition before and after the change. Only their digests and the names of keys are written.
    pub(crate) fn texts(&mut self, before: Option<Arc<str>>, after: Option<Arc<str>>) {
        self.line = self.line.take().map(|line| line.texts(before, after));
    }

    /// Counts the refusal of a caller, and writes it unless too many were lately.
    pub(crate) fn refused_caller(self, reason: RefusalReason, why: &dyn Display) {
        self.refused(reason, why);
    }

    /// Does the same, and returns whether it is written, so that the log of the program has no more lines about it.
    pub(crate) fn refused(mut self, reason: RefusalReason, why: &dyn Display) -> bool {
        self.line.take().is_some_and(|line| {
            let line = line.end(Outcome::Refused, Some(&why.to_string()));
            self.audit.write_bounded(Bounded::Caller(reason), line)
        })
    }

    /// Ends the line of a shard's renewed certificate, and writes it unless the shard had one lately. Returns whether it is written.
    pub(crate) fn renewed(mut self, shard: &ShardLabel) -> bool {
        let count = self.audit.0.renewals.count(Clock.now(), shard);
        let line = self.line.take().zip(count);
        let Some((line, suppressed)) = line else {
            return false;
        };
        let line = line.suppressed(suppressed);
        self.audit.write(line.end(Outcome::Ok, None));
        true
    }

    /// Ends the line. A refusal is written unless its caller has had too many lately.
    pub(crate) fn end(mut self, outcome: Outcome, why: Option<&dyn Display>) {
        let why = why.map(ToString::to_string);
        match (outcome, self.line.take()) {
            (Outcome::Refused, Some(line)) => {
                let line = line.end(outcome, why.as_deref());
                self.audit.write_bounded(Bounded::Change, line);
            }
            (Outcome::Ok | Outcome::Failed, line) => {
                self.line = line;
                self.finish(outcome, why.as_deref());
            }
            (Outcome::Refused, None) => {}
        }
    }

    /// Ends the line of a certificate for a person. Each is written unless its caller has had too many lately, as these calls change nothing.
    pub(crate) fn end_certificate<T>(mut self, result: &Result<T, impl Display>) {
        match (result, self.line.take()) {
            (Ok(_), Some(line)) => {
                let line = line.end(Outcome::Ok, None);
                self.audit.write_bounded(Bounded::Certificate, line);
            }
            (Err(why), line) => {
                self.line = line;
                self.end(Outcome::Refused, Some(why));
            }
            (Ok(_), None) => {}
        }
    }

    /// Ends the line of a revocation that was in effect before, and writes it unless its caller has had too many lately. Returns whether it is
    /// written.
    pub(crate) fn end_repeated(mut self, outcome: Outcome, why: Option<&dyn Display>) -> bool {
        self.line.take().is_some_and(|line| {
            let line = line.end(outcome, why.map(ToString::to_string).as_deref());
            self.audit.write_bounded(Bounded::Repeated, line)
        })
    }

    /// Ends the line of a call that either has an effect or is refused.
    pub(crate) fn end_as<T>(self, result: &Result<T, impl Display>) {
        match result {
            Ok(_) => self.end(Outcome::Ok, None),
            Err(why) => self.end(Outcome::Refused, Some(why)),
        }
    }

    /// Writes nothing, because nothing was changed.
    pub(crate) fn discard(mut self) {
        self.line = None;
    }

    fn finish(&mut self, outcome: Outcome, why: Option<&str>) {
        if let Some(line) = self.line.take() {
            self.audit.write(line.end(outcome, why));
        }
    }
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        self.finish(
            Outcome::Failed,
            Some("the call has ended without an answer"),
        );
    }
}

#[cfg(test)]
mod tests;

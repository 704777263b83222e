//! The problems of a scheduler's protection, which `status` shows: flags that open its ports, and certificates that expire soon.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::{Role, ShardLabel};
use brasserie_common::cluster_view::REVOKED;
use brasserie_common::text::{counted, printable};
use brasserie_common::time::readable_duration;
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::Life;
use brasserie_common_runtime::Clock;
use brasserie_thrift::generated::brasserie as wire;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::registry::{TokenAuthority, TokenRecord};
use super::rotation::named;
use super::{PlainPeers, Security};

/// The time before the end of an unfinished rotation from which `status` names that end: a third of the longest.
const FINISH_WITHIN: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The shortest whole life of a token whose end `status` names. Shorter ones are made for one occasion.
const LONG_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The most tokens that `status` describes.
const MOST_NAMED_TOKENS: usize = 5;

/// The protection of a scheduler's ports.
#[derive(Clone)]
pub(crate) struct Protection {
    security: Option<Arc<Security>>,
    plain_peers: PlainPeers,
}

impl Protection {
    pub(crate) fn new(security: Option<Arc<Security>>, plain_peers: PlainPeers) -> Self {
        Protection {
            security,
            plain_peers,
        }
    }

    pub(crate) fn security(&self) -> Option<&Arc<Security>> {
        self.security.as_ref()
    }

    /// Starts a task that writes revocations that the disk has not taken, as soon as it does.
    pub(crate) fn write_revocations(&self, stop: CancellationToken) -> Option<JoinHandle<()>> {
        let security = Arc::clone(self.security.as_ref()?);
        Some(tokio::spawn(security.write_revocations(stop)))
    }

    /// Logs a flag that opens the ports.
    pub(crate) fn log_open_flag(self) -> Self {
        if let Some(text) = self.open_flag() {
            tracing::warn!("{text}");
        }
        self
    }

    /// Adds the problems of the protection to those of the cluster and its workers.
    pub(crate) fn add_problems(&self, status: &mut wire::ClusterStatus) {
        let errors = status.errors.get_or_insert_default();
        errors.extend(self.open_flag());
        let Some(security) = &self.security else {
            return;
        };
        errors.extend(security.unwritten_problem());
        errors.extend(security.stall_problem());
        errors.extend(security.authority_problem());
        errors.extend(security.rotation_problem(Clock.wall()));
        errors.extend(security.shut_out_problem(Clock.wall()));
        errors.extend(security.ending_tokens_problem(Clock.wall()));
        let wait = status.initial_wait.as_deref();
        errors.extend(wait.and_then(|_| security.lost.get().map(|&text| text.to_owned())));
        errors.extend(wait.and_then(|wait| security.revoked_wait_problem(wait)));
        let registry = security.registry.lock();
        let overdue = registry.overdue_certificates(Clock.wall(), security.worker_life);
        for worker in status.workers.iter_mut().flatten() {
            let shard = worker.shard.as_deref().unwrap_or_default();
            let is_lost = worker.state.as_deref() == Some("lost");
            if is_lost {
                continue;
            }
            let is_revoked = registry.is_revoked(shard);
            if is_revoked {
                worker.state = Some(REVOKED.to_owned());
            }
            let revoked = is_revoked.then(|| {
                "is refused, because its certificate is revoked: its tasks run elsewhere once it is lost"
                    .to_owned()
            });
            let label = Shard::try_from(shard).map(|shard| ShardLabel::of(&shard));
            let overdue = label.ok().and_then(|label| overdue.get(label.as_str()));
            let overdue = overdue.map(|left| overdue_renewal(*left));
            for problem in revoked.into_iter().chain(overdue) {
                worker.problems.get_or_insert_default().push(problem);
            }
        }
    }

    fn open_flag(&self) -> Option<String> {
        let text = match (self.plain_peers, &self.security) {
            (PlainPeers::All, _) => {
                "--insecure-network: everybody who reaches the ports of this scheduler can run programs on its workers. Start it without the \
                 flag, and let workers join: see `brasserie token --help`"
            }
            (PlainPeers::Loopback, Some(_)) => {
                "--plain-loopback: every user of the scheduler's machine can run programs on the workers. Start the scheduler without the flag \
                 unless workers of Bistro need it"
            }
            (PlainPeers::Loopback, None) | (PlainPeers::Strangers, _) => return None,
        };
        Some(text.to_owned())
    }
}

fn overdue_renewal(left: Duration) -> String {
    let end = match left.is_zero() {
        true => "which has expired".to_owned(),
        false => format!("which expires in {}", readable_duration(left)),
    };
    format!("has not renewed its certificate, {end}: its log says why")
}

impl Security {
    fn authority_problem(&self) -> Option<String> {
        let life = Life::of(self.authority().certificate()).ok()?;
        let left = life.last_third(Clock.wall())?;
        Some(format!(
            "the authority of the cluster expires in {}: replace it with `brasserie ca rotate`",
            readable_duration(left)
        ))
    }

    /// Returns what to do about a rotation that is under way, or that nobody finishes.
    fn rotation_problem(&self, now: WallTime) -> Option<String> {
        let left = now.until(self.authority().former_until()?);
        if left > FINISH_WITHIN {
            let hash = self.authority().hash();
            let behind = self.registry.lock().not_renewed(now, hash).count();
            let have = if behind == 1 { "has" } else { "have" };
            return Some(format!(
                "the authority is being replaced, which is no fault: {} {have} not renewed their certificates yet. Finish it once all have: \
                 `brasserie ca rotate --finish`",
                counted(behind as u64, "worker")
            ));
        }
        let end = match left.is_zero() {
            true => "has ended by itself: certificates of the former one are not accepted any more"
                .to_owned(),
            false => format!("ends by itself in {}", readable_duration(left)),
        };
        Some(format!(
            "the replacement of the authority is not finished, and {end}. Finish it: brasserie ca rotate --finish"
        ))
    }

    /// Returns which workers the end of a rotation has shut out, and what to do.
    fn shut_out_problem(&self, now: WallTime) -> Option<String> {
        let trusted = self.trusted();
        let shut_out = self.registry.lock().shut_out(now, &trusted);
        let count = shut_out.len() as u64;
        let were = if count == 1 { "was" } else { "were" };
        (count > 0).then(|| {
            format!(
                "{} {were} shut out by the replacement of the authority: {}. Let each join again: end it, and start it in its data directory with \
                 --join-token and a token of `brasserie token create --role worker`. For one that is gone for good: `brasserie worker revoke NAME`",
                counted(count, "worker"),
                named(&shut_out)
            )
        })
    }

    /// Returns which of the workers that an initial wait names cannot report, because they are revoked.
    fn revoked_wait_problem(&self, wait: &str) -> Option<String> {
        let registry = self.registry.lock();
        // The core names a missing worker so; it knows no revocations.
        let is_missing = |shard: &&Shard| wait.contains(&format!("`{}`: ", shard.as_str()));
        let revoked = registry.revoked_shards().filter(is_missing);
        let revoked: Vec<String> = revoked.map(|shard| shard.as_str().to_owned()).collect();
        let are = if revoked.len() == 1 { "is" } else { "are" };
        (!revoked.is_empty()).then(|| {
            format!(
                "{} of those that the scheduler waits for {are} revoked, and cannot report: {}. Let each join again: end it, and start it in its data \
                 directory with --join-token and a token of `brasserie token create --role worker`. Or wait",
                counted(revoked.len() as u64, "worker"),
                named(&revoked)
            )
        })
    }

    /// Returns which tokens of people have less than a third of a long life left, the first end first. Those of a replaced authority are of no
    /// use any more.
    fn ending_tokens_problem(&self, now: WallTime) -> Option<String> {
        let trusted = self.trusted();
        let registry = self.registry.lock();
        let ending = registry.valid_tokens(now).filter(|(_, token)| {
            let (issued, until) = (token.created(), token.expires());
            let is_accepted = token.authority(&trusted) != Some(TokenAuthority::Replaced);
            let is_of_people = token.role().is_some_and(|role| role != Role::Worker);
            let is_long = issued.until(until) > LONG_LIFE;
            is_of_people
                && is_accepted
                && is_long
                && Life { issued, until }.last_third(now).is_some()
        });
        let mut ending: Vec<_> = ending.collect();
        ending.sort_by_key(|(_, token)| token.expires());
        let described = ending.iter().take(MOST_NAMED_TOKENS);
        let described: Vec<String> = described
            .map(|(number, token)| describe_token(number, token, now))
            .collect();
        let count = ending.len() as u64;
        let others = match count.saturating_sub(MOST_NAMED_TOKENS as u64) {
            0 => String::new(),
            others => format!(", and {others} more"),
        };
        let expire = if count == 1 { "expires" } else { "expire" };
        (count > 0).then(|| {
            format!(
                "{} {expire} soon: {}{others}. Create others for those in use (`brasserie token create`), and revoke those that nobody needs (`brasserie \
                 token revoke`)",
                counted(count, "token"),
                described.join(", ")
            )
        })
    }
}

fn describe_token(number: &str, token: &TokenRecord, now: WallTime) -> String {
    let role = token.role().map(Role::name).unwrap_or_default();
    let owner = token.owner.as_deref().map(printable);
    let owner = owner.map_or(String::new(), |owner| format!(" `{owner}`"));
    let note = token.note.as_deref().map(printable);
    let note = note.map_or(String::new(), |note| format!(", {note}"));
    let left = readable_duration(now.until(token.expires()));
    format!("{number} ({role}{owner}{note}) in {left}")
}

#[cfg(test)]
mod tests {
    use brasserie_common_identity::Secret;

    use super::*;
    use crate::security::registry::Registry;
    use crate::security::tests::Bench;
    use crate::security::{RotationStep, Terms};

    fn status() -> wire::ClusterStatus {
        let worker = |shard: &str, state: &str| wire::WorkerStatus {
            shard: Some(shard.to_owned()),
            state: Some(state.to_owned()),
            ..wire::WorkerStatus::default()
        };
        wire::ClusterStatus {
            workers: Some(vec![
                worker("a.example.com", "healthy"),
                worker("b", "lost"),
            ]),
            ..wire::ClusterStatus::default()
        }
    }

    fn errors(security: Option<&Arc<Security>>, plain: PlainPeers) -> Vec<String> {
        let mut status = status();
        Protection::new(security.cloned(), plain).add_problems(&mut status);
        status.errors.unwrap_or_default()
    }

    #[test]
    fn a_rotation_that_nobody_finishes_is_a_problem() {
        let bench = Bench::new();
        let security = bench.security();
        let after = |days: u64| Clock.wall() + Duration::from_secs(days * 24 * 60 * 60);
        assert_eq!(security.rotation_problem(after(100)), None);
        security
            .rotate(RotationStep::Begin, || false)
            .expect("a folder");
        let begun = security.rotation_problem(after(1)).expect("a note");
        assert!(begun.contains("0 workers have not renewed"), "{begun}");
        let soon = security.rotation_problem(after(61)).expect("a problem");
        assert!(soon.contains("ends by itself in"), "{soon}");
        let over = security.rotation_problem(after(91)).expect("a problem");
        assert!(over.contains("has ended by itself"), "{over}");
        security
            .rotate(RotationStep::Finish, || false)
            .expect("nobody is behind");
        assert_eq!(security.rotation_problem(after(91)), None);
    }

    #[test]
    fn tokens_of_people_that_end_soon_are_a_problem_and_short_ones_are_not() {
        let bench = Bench::new();
        let security = bench.security();
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        let at = |passed: u64| Clock.wall() + days(passed);
        let create = |terms: Terms, note: &str| {
            let terms = Terms {
                note: Some(note.to_owned()),
                ..terms
            };
            security.create_token(terms).expect("good terms");
        };
        create(Terms::person(Role::Viewer, days(6)), "short");
        create(Terms::joining(days(30), 1), "joins");
        create(Terms::person(Role::Viewer, days(30)), "ci");
        assert_eq!(security.ending_tokens_problem(at(5)), None);
        let one = security.ending_tokens_problem(at(21)).expect("a problem");
        assert!(
            one.starts_with("1 token expires soon: ") && one.contains("(viewer, ci) in "),
            "{one}"
        );
        // It has ended, and nothing else is near its end.
        assert_eq!(security.ending_tokens_problem(at(31)), None);
        let admin = security.ending_tokens_problem(at(300)).expect("a problem");
        assert!(
            admin.contains("(admin, in identity/admin.token) in "),
            "{admin}"
        );
        for _ in 0..2 * MOST_NAMED_TOKENS {
            create(Terms::person(Role::Operator, days(360)), "many");
        }
        let many = security.ending_tokens_problem(at(300)).expect("a problem");
        assert!(
            many.starts_with("11 tokens expire soon: ") && many.contains(", and 6 more. "),
            "{many}"
        );
        assert_eq!(many.matches("many").count(), MOST_NAMED_TOKENS);
    }

    #[test]
    fn flags_and_late_certificates_are_problems() {
        let bench = Bench::new();
        let security = bench.security();
        assert!(errors(None, PlainPeers::Loopback).is_empty());
        assert!(errors(Some(&security), PlainPeers::Strangers).is_empty());
        assert!(errors(None, PlainPeers::All)[0].contains("--insecure-network"));
        assert!(errors(Some(&security), PlainPeers::Loopback)[0].contains("--plain-loopback"));

        let now = Clock.wall();
        let mut tokens = Registry::default();
        let secret = Secret::random().expect("entropy");
        let terms = Terms::joining(Duration::from_secs(60), 2);
        tokens.add(now, &secret, terms).expect("good terms");
        for name in ["a.example.com", "b"] {
            let shard = Shard::try_from(name).expect("a name");
            let life = Duration::from_secs(3600);
            let admitted = tokens.admit(now, &secret, (&shard, &[1]), life);
            admitted.expect("a token for two");
        }
        *security.registry.lock() = tokens;
        let protection = Protection::new(Some(Arc::clone(&security)), PlainPeers::Strangers);
        let workers = || {
            let mut status = status();
            protection.add_problems(&mut status);
            status.workers.unwrap_or_default()
        };
        let before = workers();
        let problems = before[0].problems.clone().unwrap_or_default();
        assert!(problems[0].contains("has not renewed its certificate"));
        assert_eq!(before[1].problems, None, "a lost worker cannot renew");

        let shard = Shard::try_from("a.example.com").expect("a name");
        security.revoke_worker(&shard).expect("it has joined");
        let revoked = workers();
        let problems = revoked[0].problems.clone().unwrap_or_default();
        assert!(problems[0].contains("is revoked"), "{problems:?}");
        let states = [0, 1].map(|at: usize| revoked[at].state.as_deref());
        assert_eq!(states, [Some("revoked"), Some("lost")]);
        security.note_lost("the tokens are lost");
        let shown = |wait: Option<&str>| {
            let mut status = status();
            status.initial_wait = wait.map(str::to_owned);
            protection.add_problems(&mut status);
            status.errors.unwrap_or_default()
        };
        let has_lost = |errors: &[String]| errors.iter().any(|one| one == "the tokens are lost");
        assert!(has_lost(&shown(Some("a wait"))) && !has_lost(&shown(None)));
        let problem = |missing: &str| {
            security.revoked_wait_problem(&format!("({missing}). Start the missing workers"))
        };
        assert_eq!(problem("`b`: silent for 3 s at least"), None);
        let cause = problem("`a.example.com`: silent for 3 s at least; `b`: silent");
        let cause = cause.expect("a problem");
        assert!(
            cause.contains("1 worker of") && cause.contains(": a.example.com. "),
            "{cause}"
        );
    }
}

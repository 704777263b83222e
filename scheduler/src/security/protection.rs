//! The problems of a scheduler's protection, which `status` shows: flags that open its ports, and certificates that expire soon.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::ShardLabel;
use brasserie_common::cluster_view::REVOKED;
use brasserie_common::text::counted;
use brasserie_common::time::readable_duration;
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::Life;
use brasserie_common_runtime::Clock;
use brasserie_thrift::generated::brasserie as wire;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::rotation::named;
use super::{PlainPeers, Security};

/// The time before the end of an unfinished rotation from which `status` names it: a third of the longest.
const FINISH_WITHIN: Duration = Duration::from_secs(30 * 24 * 60 * 60);

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

    /// Returns what to do about a rotation that nobody finishes.
    fn rotation_problem(&self, now: WallTime) -> Option<String> {
        let left = now.until(self.authority().former_until()?);
        if left > FINISH_WITHIN {
            return None;
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
        security.rotate(RotationStep::Begin).expect("a folder");
        assert_eq!(security.rotation_problem(after(1)), None);
        let soon = security.rotation_problem(after(61)).expect("a problem");
        assert!(soon.contains("ends by itself in"), "{soon}");
        let over = security.rotation_problem(after(91)).expect("a problem");
        assert!(over.contains("has ended by itself"), "{over}");
        security
            .rotate(RotationStep::Finish)
            .expect("nobody is behind");
        assert_eq!(security.rotation_problem(after(91)), None);
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
    }
}

//! The worker's own certificate: its form for TLS, and its renewal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use brasserie_common::{ServiceAddress, Time, WallTime};
use brasserie_common_identity::{
    AuthorityHash, CertificateDer, Credential, IdentityError, KeyRequest, Life, client_config,
    proven, server_config,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::generated::brasserie::{
    BrasserieRenewCertificateArgs, BrasserieRenewCertificateResult,
};
use brasserie_thrift::rpc::{ClientPool, PeerAddr, THRIFT};
use tokio_util::sync::CancellationToken;

use super::joining::issued_chain;
use super::{CERTIFICATE_FILE, Member, Membership, MembershipError, RETRY};

/// The longest time between two checks whether the certificate needs renewal, because clocks may be set meanwhile. Also the shortest time
/// between two renewals, unless half of the certificate's life is shorter, so that a worker whose clock is wrong by days does not renew all
/// the time.
const MAX_CHECK_PAUSE: Duration = Duration::from_secs(60);
/// The shortest time between two checks.
const MIN_CHECK_PAUSE: Duration = Duration::from_secs(1);
/// The time within which the workers renew when the authority is replaced, each at a random moment.
const RENEWAL_SPREAD_MS: u64 = 5000;
/// The time after which a failure to renew is logged again, while its reason is the same.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// The worker's certificate in the form that TLS takes, for calls in both directions.
pub(super) struct OwnCertificate {
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
    /// The authorities that TLS trusts: the issuer, and the former one if a rotation was under way.
    authorities: BTreeSet<AuthorityHash>,
    /// The authority that has issued the certificate.
    issuer: CertificateDer<'static>,
    life: Life,
    /// The time of this process at which it got or read the certificate. Nobody sets this clock.
    since: Time,
    /// Whether this process got the certificate from the scheduler.
    is_new: bool,
}

impl OwnCertificate {
    pub(super) fn new(credential: &Credential, is_new: bool) -> Result<Self, IdentityError> {
        let authorities = credential.authorities();
        let issuer = authorities.first().cloned();
        Ok(OwnCertificate {
            issuer: issuer
                .ok_or_else(|| IdentityError::NotOurs("it has no authority".to_owned()))?,
            server: server_config(credential, &authorities, THRIFT)?,
            client: client_config(Some(credential), &authorities, THRIFT)?,
            authorities: authorities.iter().map(AuthorityHash::of).collect(),
            life: Life::of(credential.certificate())?,
            since: Clock.now(),
            is_new,
        })
    }

    /// Returns the worker's side of TLS for its port.
    pub(super) fn server(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.server)
    }

    /// Returns the worker's side of TLS for its calls.
    pub(super) fn client(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.client)
    }

    pub(super) fn authorities(&self) -> &BTreeSet<AuthorityHash> {
        &self.authorities
    }

    pub(super) fn issuer(&self) -> &CertificateDer<'static> {
        &self.issuer
    }

    /// Returns the time until the worker renews the certificate: until the middle of its life by either clock. The clock for dates may be
    /// wrong, so it does not count soon after a renewal.
    fn time_to_renewal(&self, now: Time, wall: WallTime) -> Duration {
        let half = self.life.issued.until(self.life.until) / 2;
        let passed = now.since(self.since);
        let pause = match self.is_new {
            true => MAX_CHECK_PAUSE.min(half).saturating_sub(passed),
            false => Duration::ZERO,
        };
        let by_date = wall.until(self.life.issued + half).max(pause);
        by_date.min(half.saturating_sub(passed))
    }
}

impl Membership {
    /// Renews the certificate in the middle of its life or when the authority is replaced, until `stop`. `scheduler` returns the current
    /// address.
    pub(crate) async fn renew_until_stopped(
        self,
        pool: ClientPool,
        scheduler: impl Fn() -> ServiceAddress,
        stop: CancellationToken,
    ) {
        let Some(member) = self.0.clone() else {
            return;
        };
        let (mut wait, mut logged) = (RETRY, LoggedFailure::default());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = member.renewal_wanted.notified() => {
                    let pause = Clock.seed() % RENEWAL_SPREAD_MS;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }
            wait = member.check_pause();
            if !member.needs_renewal() {
                continue;
            }
            let peer = self.scheduler(&scheduler());
            match member.renew(&pool, &peer).await {
                Ok(until) => {
                    tracing::info!(until = %until.as_secs(), "renewed the certificate");
                    logged = LoggedFailure::default();
                    wait = member.check_pause();
                }
                Err(why) => {
                    if logged.is_due(Clock.now(), &why) {
                        tracing::warn!("cannot renew the certificate, trying again: {why}");
                    }
                    wait = RETRY;
                }
            }
        }
    }
}

impl Member {
    /// Returns whether the worker's certificate was issued with this authority among those that it trusts.
    pub(super) fn trusts(&self, authority: AuthorityHash) -> bool {
        self.own.lock().authorities.contains(&authority)
    }

    /// Returns whether the certificate is in the second half of its life, or was issued with other authorities than the scheduler has now,
    /// or has expired by the scheduler's clock.
    pub(super) fn needs_renewal(&self) -> bool {
        let own = self.own.lock();
        let rules = self.rules.lock();
        own.time_to_renewal(Clock.now(), Clock.wall()).is_zero()
            || self.is_expired_at_scheduler.load(Ordering::SeqCst)
            || rules.as_ref().is_some_and(|rules| rules.differ_from(&own))
    }

    /// Returns the time until the next check whether the certificate needs renewal.
    fn check_pause(&self) -> Duration {
        let left = self.own.lock().time_to_renewal(Clock.now(), Clock.wall());
        left.clamp(MIN_CHECK_PAUSE, MAX_CHECK_PAUSE)
    }

    /// Gets a certificate for a new key, stores both, and puts them in force. Returns the time at which the certificate expires.
    async fn renew(&self, pool: &ClientPool, peer: &PeerAddr) -> Result<WallTime, String> {
        let text = |error: IdentityError| error.to_string();
        let key = KeyRequest::create().map_err(text)?;
        let arguments = BrasserieRenewCertificateArgs {
            request: key.request().to_vec(),
        };
        let called =
            pool.call::<_, BrasserieRenewCertificateResult>(peer, "renewCertificate", &arguments);
        let called = called.await.map(|result| (result.result_value, result.ex));
        let is_other = called.is_of_other_authority();
        let chain = issued_chain(called)
            .flatten()
            .map_err(|why| match is_other {
                true => format!("{why}. {}", self.other_authority_advice()),
                false => why,
            })?;
        let credential = key.with_chain(chain).map_err(text)?;
        let own = OwnCertificate::new(&credential, true).map_err(text)?;
        let certified = proven(credential.certificate()).map_err(text)?.certified;
        if certified.trust_domain != self.trust_domain
            || certified.shard.as_ref() != Some(&self.shard)
        {
            return Err(MembershipError::OtherCertificate.to_string());
        }
        let path = self.folder.join(CERTIFICATE_FILE);
        let written = tokio::task::spawn_blocking(move || credential.write(&path)).await;
        written.map_err(|error| error.to_string())?.map_err(text)?;
        let until = own.life.until;
        self.replace_certificate(own);
        Ok(until)
    }

    /// Puts another certificate in force. Closes the connections of callers with certificates if the authorities differ, so that TLS
    /// verifies these callers again.
    pub(super) fn replace_certificate(&self, own: OwnCertificate) {
        self.is_expired_at_scheduler.store(false, Ordering::SeqCst);
        let former = std::mem::replace(&mut *self.own.lock(), own);
        let is_other = former.authorities != self.own.lock().authorities;
        // The next call shows the scheduler that the certificate has arrived.
        self.reconnect_calls();
        if let (true, Some(server)) = (is_other, &*self.server.lock()) {
            server.disconnect_certified();
        }
    }
}

/// The last failure to renew that was logged.
#[derive(Debug, Default)]
struct LoggedFailure(Option<(Time, String)>);

impl LoggedFailure {
    /// Returns whether to log a failure now: at once if its reason is another one, else once in [`LOG_PAUSE`]. Remembers a failure to log.
    fn is_due(&mut self, now: Time, why: &str) -> bool {
        let is_logged = |(at, logged): &(Time, String)| logged == why && now.since(*at) < LOG_PAUSE;
        let is_due = !self.0.as_ref().is_some_and(is_logged);
        if is_due {
            self.0 = Some((now, why.to_owned()));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common_identity::Lifetime;

    use super::super::fixtures::{authority, own_certificate};
    use super::*;

    #[test]
    fn a_wrong_clock_makes_no_worker_renew_all_the_time_or_never() {
        let life = Lifetime::WORKER.0;
        let own = own_certificate(&authority(), true);
        let after =
            |passed: Duration, wall: WallTime| own.time_to_renewal(own.since + passed, wall);
        let right = own.life.issued;
        assert_eq!(after(Duration::ZERO, right), life / 2);
        assert_eq!(after(life / 2, right + life / 2), Duration::ZERO);
        let ahead = right + 10 * life;
        assert_eq!(after(Duration::ZERO, ahead), MAX_CHECK_PAUSE);
        assert_eq!(after(MAX_CHECK_PAUSE, ahead), Duration::ZERO);
        let behind = WallTime(0);
        assert_eq!(after(Duration::ZERO, behind), life / 2);
        assert_eq!(after(life / 2, behind), Duration::ZERO);
        // A certificate from the disk may be old.
        let stored = own_certificate(&authority(), false);
        assert_eq!(
            stored.time_to_renewal(stored.since, stored.life.issued + life),
            Duration::ZERO
        );
    }

    #[test]
    fn a_failing_renewal_is_logged_at_once_and_then_each_minute() {
        let mut logged = LoggedFailure::default();
        let mut is_due = |seconds: u64, why| {
            let now = Time::ZERO + Duration::from_secs(seconds);
            logged.is_due(now, why)
        };
        assert!(is_due(0, "revoked"));
        assert!(!(5..60).any(|second| is_due(second, "revoked")));
        assert!(is_due(60, "revoked"));
        assert!(is_due(61, "no answer") && is_due(62, "revoked"));
        assert!(!is_due(63, "revoked"));
    }
}

//! Serves the calls about identities: `join`, `renewCertificate`, `authenticate`, and those of administrators.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::{CallOrigin, Role, RunAs, SCHEDULER_CALLS, ShardLabel, TokenNumber};
use brasserie_common::text::printable;
use brasserie_common::{Principal, Shard};
use brasserie_common_identity::CertificateDer;
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::rpc::{IncomingCall, Responder};
use serde_json::{Value, json};
use thrift::protocol::TSerializable;

use super::pool::wire_revoked;
use crate::audit::{Audit, OpenLine, Outcome, RefusalReason};
use crate::security::{
    AuthorityState, IssuedChain, NotAdmitted, RenewalTurn, RotationStep, Security, Terms,
    TokenRecord, token_number,
};
use crate::turns::Turns;

/// The most calls of one kind from the network on threads at a time. All kinds together leave half of the runtime's blocking pool to others.
const MOST_AT_ONCE: usize = 32;
/// The same for renewals: all workers renew at once after a step of a rotation, and one write serves all that wait for it.
const MOST_RENEWALS: usize = 2 * MOST_AT_ONCE;
/// The most shards that `AuthorityStatus` names.
const MOST_NOT_RENEWED: usize = 1000;

/// Makes the result struct of a call from its value, or from the reason why there is none.
macro_rules! answer {
    ($result:ident) => {
        |outcome| match outcome {
            Ok(value) => wire::$result {
                result_value: Some(value),
                ex: None,
            },
            Err(why) => wire::$result {
                result_value: None,
                ex: Some(why),
            },
        }
    };
}

/// Serves the calls about identities. Without an authority, all are refused.
pub(super) struct Identities {
    security: Option<Arc<Security>>,
    queues: Queues,
    audit: Audit,
}

/// The turns of calls on threads that may wait. Each kind has its own, so that callers of one kind cannot keep the others from being served.
struct Queues {
    joining: Turns,
    renewing: Turns,
    /// Certificates for people, which wait for no disk.
    certifying: Turns,
    /// Changes by administrators, which wait as long as the disk does not answer.
    changing: Turns,
    /// Questions of people.
    reading: Turns,
    /// Revocations, which wait for some seconds at most.
    revoking: Turns,
}

impl Default for Queues {
    fn default() -> Self {
        let turns = || Turns::new(MOST_AT_ONCE);
        Queues {
            joining: turns(),
            renewing: Turns::new(MOST_RENEWALS),
            certifying: turns(),
            changing: turns(),
            reading: turns(),
            revoking: turns(),
        }
    }
}

impl Identities {
    pub(super) fn new(security: Option<Arc<Security>>, audit: Audit) -> Self {
        Identities {
            security,
            audit,
            queues: Queues::default(),
        }
    }

    /// Serves a call about identities, and refuses all that are not known.
    pub(super) fn serve(&self, call: IncomingCall<'_>, from: Principal) {
        if self.security.is_some()
            && let Err(refusal) = from.check_proven(SCHEDULER_CALLS, call.method())
        {
            self.audit.not_permitted(&refusal);
            return call.into_responder().refuse(&refusal);
        }
        match call.method() {
            "join" => call.serve(|args, to| self.join(from, args, to)),
            "renewCertificate" => call.serve(|args, to| self.renew(from, args, to)),
            "certify" => call.serve(|args, to| self.certify(from, args, to)),
            "authenticate" => {
                let peer = call.peer();
                call.serve(|args, to| self.authenticate(peer, &args, to));
            }
            "createToken" => call.serve(|args, to| self.create_token(from, args, to)),
            "listTokens" => {
                call.serve(|_: wire::BrasserieListTokensArgs, to| self.list_tokens(from, to));
            }
            "revokeToken" => call.serve(|args, to| self.revoke_token(from, args, to)),
            "revokeWorker" => call.serve(|args, to| self.revoke_worker(from, args, to)),
            "getAuthority" => {
                call.serve(|_: wire::BrasserieGetAuthorityArgs, to| self.get_authority(from, to));
            }
            "rotateAuthority" => call.serve(|args, to| self.rotate(from, args, to)),
            _ => call.unknown_method(),
        }
    }

    fn join(&self, from: Principal, args: wire::BrasserieJoinArgs, to: Responder) {
        if self.security.is_none() {
            // Programs find out in this way whether there is an authority, so it is no attempt to join.
            return answer_with(to, Err(NotAdmitted::Open), answer!(BrasserieJoinResult));
        }
        let token = token_number(&args.secret);
        let record =
            move |(audit, from): (&Audit, &Principal), shard: &str, chain: &IssuedChain| {
                let line = audit.call(from, "join").on("worker", shard);
                let line = line.shown_token(token);
                record_admission(line, from, "join the cluster", chain);
            };
        let (shard, turn) = match self.check_join(&args) {
            Ok(checked) => checked,
            Err(why) => {
                record((&self.audit, &from), &args.shard, &Err(why.clone()));
                return answer_with(to, Err(why), answer!(BrasserieJoinResult));
            }
        };
        self.serve_within(
            &self.queues.joining,
            (from, to),
            move |security, by| {
                let chain = match turn {
                    Some(turn) => turn.join_again(&args.secret, &shard, &args.request),
                    None => security.join(&args.secret, &shard, &args.request),
                };
                record(by, &args.shard, &chain);
                Ok(wire_chain(chain?))
            },
            answer!(BrasserieJoinResult),
        );
    }

    /// Returns the shard for which a worker may join, and the turn of a request that was admitted before: each of them writes the tokens, and
    /// uses up nothing. Errors at once if the worker may not join.
    fn check_join(
        &self,
        args: &wire::BrasserieJoinArgs,
    ) -> Result<(Shard, Option<RenewalTurn>), NotAdmitted> {
        let security = self.security.as_ref().ok_or(NotAdmitted::Open)?;
        let shard = parse_shard(args.shard.clone())?;
        let is_again = security.check_join(&args.secret, &shard, &args.request)?;
        let turn = is_again.then(|| security.begin_renewal(ShardLabel::of(&shard)));
        Ok((shard, turn.transpose()?))
    }

    fn renew(&self, from: Principal, args: wire::BrasserieRenewCertificateArgs, to: Responder) {
        let record = |(audit, from): (&Audit, &Principal), chain: &IssuedChain| {
            let line = audit.call(from, "renewCertificate");
            let what = "renew a certificate";
            match (certified_shard(from), chain) {
                (Some(shard), Ok(_)) => {
                    if line.renewed(shard) {
                        log_outcome(from, what, chain);
                    }
                }
                _ => record_admission(line, from, what, chain),
            }
        };
        let turn = match self.begin_renewal(&from) {
            Ok(turn) => turn,
            Err(why) => {
                record((&self.audit, &from), &Err(why.clone()));
                return answer_with(to, Err(why), answer!(BrasserieRenewCertificateResult));
            }
        };
        self.serve_within(
            &self.queues.renewing,
            (from, to),
            move |_, by| {
                let chain = turn.renew(&args.request);
                record(by, &chain);
                Ok(wire_chain(chain?))
            },
            answer!(BrasserieRenewCertificateResult),
        );
    }

    /// Returns the right of a worker to renew its certificate now. Errors at once if the worker has none.
    fn begin_renewal(&self, from: &Principal) -> Result<RenewalTurn, NotAdmitted> {
        let security = self.security.as_ref().ok_or(NotAdmitted::Open)?;
        let shard = certified_shard(from).cloned().ok_or_else(|| {
            NotAdmitted::BadTerms("only a worker has a certificate to renew".to_owned())
        })?;
        security.begin_renewal(shard)
    }

    fn certify(&self, from: Principal, args: wire::BrasserieCertifyArgs, to: Responder) {
        self.serve_within(
            &self.queues.certifying,
            (from, to),
            move |security, (audit, from)| {
                let chain = match from.identity() {
                    Some(person) => security.certify_person(person, &args.request),
                    None => Err(NotAdmitted::NoCertificate),
                };
                audit.call(from, "certify").end_certificate(&chain);
                let (revoked, _) = security.certificate_news();
                Ok(wire::IssuedCertificate {
                    revoked: Some(wire_revoked(revoked.shards)),
                    ..wire_chain(chain?)
                })
            },
            answer!(BrasserieCertifyResult),
        );
    }

    /// Answers at once, as the calls that follow on the connection depend on it.
    fn authenticate(
        &self,
        address: CallOrigin,
        args: &wire::BrasserieAuthenticateArgs,
        to: Responder,
    ) {
        let authenticate = || match &self.security {
            Some(security) => security.authenticate(&args.secret, address.clone()),
            None => Err(NotAdmitted::Open),
        };
        let mut known = authenticate();
        if let Ok(identity) = &known {
            let shown = Principal::Authenticated(Arc::new(identity.clone()));
            if let Err(other) = to.identify(shown) {
                return to.fail(other);
            }
            // A revocation in the meantime has closed the connections of known callers, and this caller was not known.
            known = authenticate();
        }
        let (result_value, ex) = match known {
            Ok(identity) => {
                let life = self.security.as_ref().zip(identity.token);
                let life = life.and_then(|(security, token)| security.token_life(token));
                let cluster = self
                    .security
                    .as_ref()
                    .map(|security| security.trust_domain().to_owned());
                let caller = wire::Caller {
                    role: Some(identity.role.name().to_owned()),
                    owner: identity.owner.as_deref().map(str::to_owned),
                    cluster,
                    created_ms: life.map(|life| life.issued.as_millis()),
                    expires_ms: life.map(|life| life.until.as_millis()),
                };
                (Some(caller), None)
            }
            Err(why) => {
                if let Some(security) = &self.security {
                    let token = (&*args.secret, &*why.to_string());
                    security.note_false_token(&address, to.method(), token);
                }
                // The calls that follow are refused for the same reason, also to a client that does not check this answer. A connection that
                // was somebody's ends instead.
                let _ = to.identify(Principal::stranger(address, why.to_string()));
                (None, Some(exception(&why)))
            }
        };
        to.reply(&wire::BrasserieAuthenticateResult { result_value, ex });
    }

    fn create_token(&self, from: Principal, args: wire::BrasserieCreateTokenArgs, to: Responder) {
        self.serve_within(
            &self.queues.changing,
            (from, to),
            move |security, (audit, from)| {
                let mut line = audit.call(from, "createToken");
                let created = parse_terms(args.terms).and_then(|terms| {
                    let created_by = Some(creator(from));
                    let terms = Terms {
                        created_by,
                        ..terms
                    };
                    let described = describe_terms(&terms);
                    let created = security.create_token(terms);
                    // Texts of terms that no token may have can be of any length.
                    if !matches!(created, Err(NotAdmitted::BadTerms(_))) {
                        line.changed(None, Some(described));
                    }
                    created
                });
                let number = created.as_ref().ok();
                let number = number.map(|(token, _)| token.secret.number().to_string());
                let line = line.on("token", number.as_deref().unwrap_or_default());
                record_change(line, from, "create a token", &created);
                let (token, kept) = created?;
                Ok(wire::CreatedToken {
                    token: Some(token.reveal()),
                    status: Some(token_status(security, number.unwrap_or_default(), kept)),
                })
            },
            answer!(BrasserieCreateTokenResult),
        );
    }

    fn list_tokens(&self, from: Principal, to: Responder) {
        self.serve_within(
            &self.queues.reading,
            (from, to),
            |security, _| {
                let tokens = security.valid_tokens().into_iter();
                let tokens = tokens.map(|(number, kept)| token_status(security, number, kept));
                Ok(tokens.collect())
            },
            answer!(BrasserieListTokensResult),
        );
    }

    fn revoke_token(&self, from: Principal, args: wire::BrasserieRevokeTokenArgs, to: Responder) {
        self.serve_apart(
            (from, to),
            move |security, (audit, from)| {
                let number = TokenNumber::from_text(&args.number);
                // A text that is no number may be a secret, so no line repeats it.
                let named = number.map(|number| number.to_string()).unwrap_or_default();
                let line = audit.call(from, "revokeToken").on("token", &named);
                let revoked = number.ok_or(NotAdmitted::NoNumber);
                let revoked = revoked.and_then(|number| security.revoke_token(number));
                record_change(line, from, "revoke a token", &revoked);
                revoked
            },
            |outcome| wire::BrasserieRevokeTokenResult { ex: outcome.err() },
        );
    }

    fn revoke_worker(&self, from: Principal, args: wire::BrasserieRevokeWorkerArgs, to: Responder) {
        self.serve_apart(
            (from, to),
            move |security, (audit, from)| {
                let mut line = audit.call(from, "revokeWorker").on("worker", &args.shard);
                let shard = parse_shard(args.shard);
                let is_repeated = shard
                    .as_ref()
                    .is_ok_and(|shard| security.has_revoked(shard));
                let revoked = shard.and_then(|shard| security.revoke_worker(&shard));
                if let Ok(is_known) = &revoked {
                    line.changed(None, Some(json!({ "known": is_known })));
                }
                let what = "revoke the certificates of a shard";
                match is_repeated {
                    true => record_repeated(line, from, what, &revoked),
                    false => record_change(line, from, what, &revoked),
                }
                revoked
            },
            answer!(BrasserieRevokeWorkerResult),
        );
    }

    fn get_authority(&self, from: Principal, to: Responder) {
        self.serve_within(
            &self.queues.reading,
            (from, to),
            |security, _| Ok(authority_status(security.authority_state()?)),
            answer!(BrasserieGetAuthorityResult),
        );
    }

    fn rotate(&self, from: Principal, args: wire::BrasserieRotateAuthorityArgs, to: Responder) {
        let caller = to.caller_check();
        self.serve_within(
            &self.queues.changing,
            (from, to),
            move |security, (audit, from)| {
                let (step, what) = match (args.finish, args.force) {
                    (false, _) => (RotationStep::Begin, "rotate the authority"),
                    (true, false) => (RotationStep::Finish, "finish the rotation"),
                    (true, true) => (RotationStep::FinishAnyway, "finish the rotation by force"),
                };
                let mut line = audit.call(from, "rotateAuthority");
                let before = security
                    .authority_state()
                    .ok()
                    .as_ref()
                    .map(describe_authority);
                let rotated = security.rotate(step, || caller.is_expelled());
                let after = rotated.as_ref().ok().map(describe_authority);
                line.changed(before, Some(json!({ "step": what, "authority": after })));
                record_change(line, from, what, &rotated);
                if let (Ok(_), true) = (&rotated, args.finish) {
                    // This caller gets its answer.
                    security.disconnect_replaced(from.identity().map(|identity| &identity.from));
                }
                Ok(authority_status(rotated?))
            },
            answer!(BrasserieRotateAuthorityResult),
        );
    }

    /// Serves a call in the turn of its caller, on a thread that may wait for the disk. `make` receives the audit log and the caller.
    fn serve_within<T, R>(
        &self,
        turns: &Turns,
        (from, to): (Principal, Responder),
        make: impl FnOnce(&Security, (&Audit, &Principal)) -> Result<T, NotAdmitted> + Send + 'static,
        answer: impl FnOnce(Result<T, wire::NotAdmittedException>) -> R + Send + 'static,
    ) where
        R: TSerializable,
    {
        let Some(security) = self.security.clone() else {
            return answer_with(to, Err(NotAdmitted::Open), answer);
        };
        let audit = self.audit.clone();
        turns.change(to, move |to| {
            answer_with(to, make(&security, (&audit, &from)), answer);
        });
    }

    /// Serves a revocation, which waits for no work of others.
    fn serve_apart<T, R>(
        &self,
        (from, to): (Principal, Responder),
        revoke: impl FnOnce(&Security, (&Audit, &Principal)) -> Result<T, NotAdmitted> + Send + 'static,
        answer: impl FnOnce(Result<T, wire::NotAdmittedException>) -> R + Send + 'static,
    ) where
        R: TSerializable,
    {
        let Some(security) = self.security.clone() else {
            return answer_with(to, Err(NotAdmitted::Open), answer);
        };
        let audit = self.audit.clone();
        self.queues.revoking.change_apart(to, move |to| {
            answer_with(to, revoke(&security, (&audit, &from)), answer);
        });
    }
}

/// Answers with the result struct. A reason that may pass is no declared exception, so that a worker tries again, and neither are wrong
/// terms of a token, which are wrong arguments.
fn answer_with<T, R: TSerializable>(
    to: Responder,
    outcome: Result<T, NotAdmitted>,
    answer: impl FnOnce(Result<T, wire::NotAdmittedException>) -> R,
) {
    match outcome {
        Err(why) if why.is_temporary() => to.fail(why),
        Err(why @ NotAdmitted::BadTerms(_)) if to.method() == "createToken" => {
            to.reject_arguments(why);
        }
        outcome => to.reply(&answer(outcome.map_err(|why| exception(&why)))),
    }
}

/// Audits and logs whether a worker was admitted. Strangers may ask, so both logs have some of the refusals.
fn record_admission<T>(
    line: OpenLine,
    from: &Principal,
    what: &str,
    outcome: &Result<T, NotAdmitted>,
) {
    let subject = line.subject(what);
    let is_written = match outcome {
        Ok(_) => {
            line.end(Outcome::Ok, None);
            true
        }
        Err(why) => line.refused(RefusalReason::Join, why),
    };
    if is_written {
        log_outcome(from, &subject, outcome);
    }
}

/// Audits and logs a change of an administrator.
fn record_change<T>(
    line: OpenLine,
    from: &Principal,
    what: &str,
    outcome: &Result<T, NotAdmitted>,
) {
    log_outcome(from, &line.subject(what), outcome);
    match outcome {
        Err(
            why
            @ (NotAdmitted::Failed(_) | NotAdmitted::NotWritten(_) | NotAdmitted::Unfinished(_)),
        ) => line.end(Outcome::Failed, Some(why)),
        outcome => line.end_as(outcome),
    }
}

/// Audits and logs a revocation that was in effect before. Both logs have some of them.
fn record_repeated<T>(
    line: OpenLine,
    from: &Principal,
    what: &str,
    outcome: &Result<T, NotAdmitted>,
) {
    let subject = line.subject(what);
    let is_written = match outcome {
        Ok(_) => line.end_repeated(Outcome::Ok, Some(&"it was revoked already")),
        Err(why) => line.end_repeated(Outcome::Failed, Some(why)),
    };
    if is_written {
        log_outcome(from, &subject, outcome);
    }
}

/// Describes the terms of a token, which are no secret.
fn describe_terms(terms: &Terms) -> Value {
    let accounts: Vec<String> = terms.run_as.iter().map(ToString::to_string).collect();
    json!({
        "role": terms.role.name(),
        "seconds": terms.lives_for.as_secs(),
        "uses": terms.uses,
        "shard": terms.shard.as_ref().map(|shard| shard.as_str()),
        "owner": terms.owner,
        "run_as": accounts,
        "note": terms.note,
    })
}

/// Names the creator of a token for people.
fn creator(from: &Principal) -> String {
    match from {
        Principal::Authenticated(identity) => match (&identity.token, &identity.from) {
            (Some(token), _) => format!("token {token}"),
            (None, CallOrigin::Local(user)) => match &user.name {
                Some(name) => format!("user {name}"),
                None => format!("user {}", user.uid),
            },
            (None, CallOrigin::Network(_)) => identity.role.to_string(),
        },
        Principal::Own => "scheduler".to_owned(),
        Principal::Unauthenticated(_) | Principal::Stranger(..) => "nobody".to_owned(),
    }
}

/// Describes an authority, with the number of shards that still have certificates of the former one.
fn describe_authority(state: &AuthorityState) -> Value {
    json!({ "hash": state.hash.to_string(), "behind": state.not_renewed.len() })
}

fn log_outcome<T>(from: &Principal, what: &str, outcome: &Result<T, NotAdmitted>) {
    match outcome {
        Ok(_) => tracing::info!(%from, "accepted the request to {what}"),
        Err(why @ (NotAdmitted::NotWritten(_) | NotAdmitted::Unfinished(_))) => {
            tracing::error!(%from, %why, "did not finish the request to {what}");
        }
        Err(why) => tracing::warn!(%from, %why, "refused the request to {what}"),
    }
}

fn exception(why: &impl Display) -> wire::NotAdmittedException {
    wire::NotAdmittedException {
        message: Some(why.to_string()),
    }
}

fn wire_chain(chain: Vec<CertificateDer<'static>>) -> wire::IssuedCertificate {
    wire::IssuedCertificate {
        chain: Some(chain.iter().map(|one| one.to_vec()).collect()),
        revoked: None,
    }
}

fn certified_shard(from: &Principal) -> Option<&ShardLabel> {
    from.identity()?.shard.as_ref()
}

fn parse_shard(text: String) -> Result<Shard, NotAdmitted> {
    Shard::try_from(text).map_err(|error| NotAdmitted::BadTerms(format!("the shard: {error}")))
}

fn parse_terms(asked: wire::TokenTerms) -> Result<Terms, NotAdmitted> {
    let role = asked.role.unwrap_or_default();
    let known = Role::from_name(&role);
    let role = known.ok_or_else(|| {
        let role = printable(&role);
        NotAdmitted::BadTerms(format!(
            "`{role}` is no role; there are worker, admin, operator, submitter and viewer"
        ))
    })?;
    let seconds = u64::try_from(asked.seconds.unwrap_or_default()).unwrap_or_default();
    let uses = asked
        .uses
        .unwrap_or_else(|| i32::from(role == Role::Worker));
    Ok(Terms {
        role,
        lives_for: Duration::from_secs(seconds),
        uses: u32::try_from(uses).unwrap_or_default(),
        shard: asked.shard.map(parse_shard).transpose()?,
        owner: asked.owner,
        run_as: parse_accounts(asked.run_as.unwrap_or_default())?,
        note: asked.note,
        created_by: None,
    })
}

fn parse_accounts(asked: Vec<String>) -> Result<Vec<RunAs>, NotAdmitted> {
    let account = |text: String| {
        RunAs::from_text(&text).ok_or_else(|| {
            let text = printable(&text);
            NotAdmitted::BadTerms(format!(
                "`{text}` is no account: write USER or USER:GROUP, each by name or number"
            ))
        })
    };
    asked.into_iter().map(account).collect()
}

fn token_status(security: &Security, number: String, kept: TokenRecord) -> wire::TokenStatus {
    let authority = security.authority_of(&kept);
    let (created, expires) = (kept.created(), kept.expires());
    let count = |uses: u32| i32::try_from(uses).unwrap_or(i32::MAX);
    let role = kept.role();
    let joins = role == Some(Role::Worker);
    wire::TokenStatus {
        number: Some(number),
        terms: Some(wire::TokenTerms {
            role: role.map(|role| role.name().to_owned()),
            seconds: i64::try_from(created.until(expires).as_secs()).ok(),
            uses: joins.then(|| count(kept.uses)),
            shard: kept.shard.map(String::from),
            owner: kept.owner,
            run_as: (!kept.run_as.is_empty()).then_some(kept.run_as),
            note: kept.note,
        }),
        created_ms: Some(created.as_millis()),
        expires_ms: Some(expires.as_millis()),
        uses_left: joins.then(|| count(kept.uses_left)),
        created_by: kept.created_by,
        authority: authority.map(|authority| authority.name().to_owned()),
    }
}

fn authority_status(state: AuthorityState) -> wire::AuthorityStatus {
    let count = i64::try_from(state.not_renewed.len()).unwrap_or(i64::MAX);
    let shards = state.not_renewed.into_iter().take(MOST_NOT_RENEWED);
    wire::AuthorityStatus {
        cluster: Some(state.trust_domain.to_string()),
        hash: Some(state.hash.to_string()),
        expires_ms: Some(state.expires.as_millis()),
        former: state.former.map(|former| former.to_string()),
        behind: Some(shards.collect()),
        behind_count: Some(count),
    }
}

//! The authority of a cluster: the key with which certificates are signed, and its replacement.
//!
//! A rotation replaces the authority by a successor. Until the rotation is finished, the successor also shows a certificate for its own key
//! that the former authority has issued, so that peers which trust only the former one accept the successor's certificates.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common_runtime::files;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use sha2::Digest as _;
use time::OffsetDateTime;

use crate::credential::{read_certificates, read_secret, write_certificates, write_secret};
use crate::life::{CLOCK_SKEW, Life};
use crate::names::{Certified, TrustDomain, hex};
use crate::{Credential, IdentityError, KeyRequest};

/// The name of the file with the authority's certificate.
pub const CERTIFICATE: &str = "authority.pem";
/// The name of the file with its key.
pub const KEY: &str = "authority.key";
/// The lifetime of an authority: ten years. A rotation replaces it earlier.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// The longest rotation, after which nobody trusts the former authority any more: 90 days, many times the life of a certificate.
const LONGEST_ROTATION: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Hex digits that tell the keys of a cluster's authorities apart.
const KEY_DIGITS: usize = 16;

/// How long certificates of one kind are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime(pub Duration);

impl Lifetime {
    /// A worker's: seven days. It renews after half of them.
    pub const WORKER: Lifetime = Lifetime(Duration::from_secs(7 * 24 * 60 * 60));
    /// A scheduler's: as long, as it renews by itself too.
    pub const SCHEDULER: Lifetime = Lifetime::WORKER;
    /// A person's, for calls to workers: ten minutes.
    pub const PERSON: Lifetime = Lifetime(Duration::from_secs(10 * 60));
}

/// The SHA-256 of an authority's certificate, by which a worker that joins recognizes its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuthorityHash(pub [u8; 32]);

impl AuthorityHash {
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        AuthorityHash(sha2::Sha256::digest(certificate).into())
    }
}

impl fmt::Display for AuthorityHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// The authority of a cluster.
pub struct Authority {
    trust_domain: TrustDomain,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    /// The predecessor, while a rotation is under way.
    former: Option<Former>,
}

/// An authority that a rotation replaces.
struct Former {
    certificate: CertificateDer<'static>,
    /// Its certificate for the successor's key.
    crossing: CertificateDer<'static>,
}

impl Former {
    /// Returns the time at which its word for the successor expires. One that cannot be read is not valid at any time.
    fn until(&self) -> WallTime {
        Life::of(&self.crossing).map_or(WallTime(0), |life| life.until)
    }
}

impl Authority {
    /// Creates the authority of a new cluster.
    pub fn create(now: WallTime) -> Result<Self, IdentityError> {
        Authority::create_for(TrustDomain::random()?, now)
    }

    /// Creates another authority of the same cluster, which this one vouches for.
    pub fn successor(&self, now: WallTime) -> Result<Self, IdentityError> {
        let made = Authority::create_for(self.trust_domain.clone(), now)?;
        let key = made.issuer.key();
        let mut crossing = params(&self.trust_domain, key, now, Lifetime(LONGEST_ROTATION))?;
        crossing.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let crossing = crossing.signed_by(key, &self.issuer)?.der().clone();
        let former = Some(Former {
            certificate: self.certificate.clone(),
            crossing,
        });
        Ok(Authority { former, ..made })
    }

    fn create_for(trust_domain: TrustDomain, now: WallTime) -> Result<Self, IdentityError> {
        let key = KeyPair::generate()?;
        let params = params(&trust_domain, &key, now, Lifetime(AUTHORITY_LIFETIME))?;
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Authority {
            trust_domain,
            certificate,
            issuer: Issuer::new(params, key),
            former: None,
        })
    }

    /// Reads the authority from its folder; `None` if that has no certificate of one. A key alone is what a crash in [`Authority::write`] leaves.
    pub fn read(folder: &Path) -> Result<Option<Self>, IdentityError> {
        let (path, key_path) = (folder.join(CERTIFICATE), folder.join(KEY));
        if !files::exists(&path)? {
            return Ok(None);
        }
        let damaged = |problem: String| IdentityError::Damaged {
            path: path.clone(),
            problem,
        };
        let certificates = read_certificates(&path)?;
        let former = match &certificates[..] {
            [_] => None,
            [_, crossing, former] => Some(Former {
                certificate: former.clone(),
                crossing: crossing.clone(),
            }),
            _ => {
                let found = certificates.len();
                return Err(damaged(format!("it has {found} certificates")));
            }
        };
        let certificate = certificates[0].clone();
        let key = key_of(&certificate, &read_secret(&key_path)?);
        let key = key.map_err(|problem| IdentityError::Damaged {
            path: key_path,
            problem,
        })?;
        let trust_domain = trust_domain_of(&certificate).map_err(damaged)?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Some(Authority {
            trust_domain,
            certificate,
            issuer,
            former,
        }))
    }

    /// Keeps the authority in a folder, which only this user may read.
    ///
    /// The key is on disk before the certificates, beside that of an authority that is there already. So after a crash there is a key for
    /// the certificate that is there.
    pub fn write(&self, folder: &Path) -> Result<(), IdentityError> {
        let path = folder.join(KEY);
        let own = self.issuer.key().serialize_pem();
        let known = match files::exists(&path)? {
            true => read_secret(&path)?,
            false => String::new(),
        };
        write_secret(&path, format!("{own}{known}").as_bytes())?;
        let chain = self.chain_with(self.former.as_ref());
        write_certificates(&folder.join(CERTIFICATE), &chain)?;
        write_secret(&path, own.as_bytes())
    }

    /// Removes all keys but this authority's from its folder: what [`Authority::write`] leaves if it is cut off. Returns whether there were
    /// such keys.
    pub fn remove_other_keys(&self, folder: &Path) -> Result<bool, IdentityError> {
        let path = folder.join(KEY);
        let keys = pem::parse_many(read_secret(&path)?);
        if keys.is_ok_and(|keys| keys.len() <= 1) {
            return Ok(false);
        }
        write_secret(&path, self.issuer.key().serialize_pem().as_bytes())?;
        Ok(true)
    }

    /// Ends the rotation: the authority in this folder does not vouch by its predecessor any more. Returns the authority that is left. If it
    /// errors, the folder has the authority as before.
    pub fn forget_former(&self, folder: &Path) -> Result<Self, IdentityError> {
        let path = folder.join(CERTIFICATE);
        let gone = |problem: String| IdentityError::Damaged {
            path: path.clone(),
            problem,
        };
        let kept = Authority::read(folder)?;
        let kept = kept.ok_or_else(|| gone("somebody has removed it".to_owned()))?;
        write_certificates(&path, std::slice::from_ref(&self.certificate))?;
        Ok(Authority {
            former: None,
            ..kept
        })
    }

    /// Returns the certificates that one issued now is shown with: the authority's own, and while a rotation is under way, the former
    /// authority's word for it and the former authority's own.
    fn chain(&self, now: WallTime) -> Vec<CertificateDer<'static>> {
        self.chain_with(self.vouching(now))
    }

    fn chain_with(&self, former: Option<&Former>) -> Vec<CertificateDer<'static>> {
        let former = former.into_iter();
        let former = former.flat_map(|former| [&former.crossing, &former.certificate]);
        std::iter::once(&self.certificate)
            .chain(former)
            .cloned()
            .collect()
    }

    /// Returns the authorities whose certificates are accepted now: this one first, then the one that a rotation replaces, for 90 days at most.
    pub fn trusted(&self, now: WallTime) -> Vec<CertificateDer<'static>> {
        let former = self.vouching(now).map(|former| &former.certificate);
        std::iter::once(&self.certificate)
            .chain(former)
            .cloned()
            .collect()
    }

    /// Returns the former authority while its word for this one is valid.
    fn vouching(&self, now: WallTime) -> Option<&Former> {
        let former = self.former.as_ref()?;
        (now < former.until()).then_some(former)
    }

    /// Returns the time from which nobody accepts the former authority any more; `None` if no rotation is under way.
    pub fn former_until(&self) -> Option<WallTime> {
        self.former.as_ref().map(Former::until)
    }

    /// Returns whether this authority has issued a verified certificate, and not the one that a rotation replaces.
    pub fn has_issued(&self, certificate: &CertificateDer<'_>) -> bool {
        let expires = Life::of(certificate).map_or(WallTime(0), |life| life.until);
        match &self.former {
            None => true,
            Some(_) => leads_to(
                std::slice::from_ref(certificate),
                &self.certificate,
                expires,
            ),
        }
    }

    /// Returns the hash of the authority that a rotation replaces; `None` if none is under way.
    pub fn former(&self) -> Option<AuthorityHash> {
        let former = self.former.as_ref();
        former.map(|former| AuthorityHash::of(&former.certificate))
    }

    /// Returns the time at which the authority expires.
    pub fn until(&self) -> Result<WallTime, IdentityError> {
        Ok(Life::of(&self.certificate)?.until)
    }

    pub fn trust_domain(&self) -> &TrustDomain {
        &self.trust_domain
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn hash(&self) -> AuthorityHash {
        AuthorityHash::of(&self.certificate)
    }

    /// Issues a certificate for the key of a request, which proves that its sender has the key. All else in the request is ignored.
    ///
    /// The answer is the whole chain: the new certificate, then the authority's, and then those of a rotation.
    pub fn certify(
        &self,
        request: &[u8],
        certified: &Certified,
        now: WallTime,
        lifetime: Lifetime,
    ) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
        let request = CertificateSigningRequestDer::from(request);
        let request = CertificateSigningRequestParams::from_der(&request);
        let public = request.map_err(IdentityError::BadRequest)?.public_key;
        let mut params = subject(certified.names(), certified.subject())?;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        (params.not_before, params.not_after) = validity(now, lifetime)?;
        let certificate = params.signed_by(&public, &self.issuer)?.der().clone();
        let mut chain = vec![certificate];
        chain.extend(self.chain(now));
        Ok(chain)
    }

    /// Creates a key, and a certificate for a server of web pages that is reached by these host names and addresses. It has none of the
    /// names that prove a role.
    pub fn web_credential(
        &self,
        names: Vec<String>,
        now: WallTime,
        lifetime: Lifetime,
    ) -> Result<Credential, IdentityError> {
        let key = KeyRequest::create()?;
        let mut params = subject(names, "Brasserie scheduler".to_owned())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (params.not_before, params.not_after) = validity(now, lifetime)?;
        let certificate = params.signed_by(key.public(), &self.issuer)?.der().clone();
        // Clients that know only the former authority find the way to it by its word, and not past a certificate of the same name.
        let above = self.vouching(now).map(|former| &former.crossing);
        key.with_chain(vec![
            certificate,
            above.unwrap_or(&self.certificate).clone(),
        ])
    }

    /// Creates a key, and a certificate for it.
    pub fn credential(
        &self,
        role: brasserie_common::access::Role,
        now: WallTime,
        lifetime: Lifetime,
    ) -> Result<Credential, IdentityError> {
        let key = KeyRequest::create()?;
        let certified = Certified {
            trust_domain: self.trust_domain.clone(),
            role,
            shard: None,
            token: None,
        };
        let chain = self.certify(key.request(), &certified, now, lifetime)?;
        key.with_chain(chain)
    }
}

/// Returns whether the first of the certificates that a peer has shown goes back to this authority at a time: the authority has issued it, or
/// one that the authority vouches for. A certificate of an authority that this one has replaced does not.
pub fn leads_to(
    shown: &[CertificateDer<'_>],
    authority: &CertificateDer<'_>,
    at: WallTime,
) -> bool {
    let mut roots = RootCertStore::empty();
    let Some((first, others)) = shown.split_first() else {
        return false;
    };
    if roots.add(authority.clone().into_owned()).is_err() {
        return false;
    }
    let provider = Arc::new(ring::default_provider());
    let strict = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let at = Duration::from_secs(u64::try_from(at.as_secs()).unwrap_or_default());
    let at = UnixTime::since_unix_epoch(at);
    strict.is_ok_and(|strict| strict.verify_client_cert(first, others, at).is_ok())
}

/// Returns the content of a certificate of an authority, whichever authority issues it.
fn params(
    trust_domain: &TrustDomain,
    key: &KeyPair,
    now: WallTime,
    lifetime: Lifetime,
) -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let name = format!("Brasserie cluster {trust_domain}");
    params.distinguished_name.push(DnType::CommonName, name);
    // Verifiers look for an issuer by its whole name, so authorities of one cluster must not have the same.
    let key = hex(&sha2::Sha256::digest(key.public_key_raw()));
    let unit = &key[..KEY_DIGITS];
    params
        .distinguished_name
        .push(DnType::OrganizationalUnitName, unit);
    // The authority vouches for a successor.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    (params.not_before, params.not_after) = validity(now, lifetime)?;
    Ok(params)
}

/// Returns the key of a certificate among the keys of a file.
fn key_of(certificate: &CertificateDer<'_>, keys: &str) -> Result<KeyPair, String> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|error| error.to_string())?;
    let public = &parsed.public_key().subject_public_key.data;
    for block in pem::parse_many(keys).map_err(|error| error.to_string())? {
        let key = KeyPair::try_from(block.contents()).map_err(|error| error.to_string())?;
        if key.public_key_raw() == &**public {
            return Ok(key);
        }
    }
    Err(format!("it has no key for {CERTIFICATE}"))
}

/// Returns a certificate's settings for these names.
fn subject(names: Vec<String>, common: String) -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn validity(
    now: WallTime,
    lifetime: Lifetime,
) -> Result<(OffsetDateTime, OffsetDateTime), IdentityError> {
    let out_of_range = |_| IdentityError::NotOurs("the clock of this machine is wrong".to_owned());
    let now = OffsetDateTime::from_unix_timestamp(now.as_secs()).map_err(out_of_range)?;
    Ok((now - CLOCK_SKEW, now + lifetime.0))
}

/// Reads the trust domain from the subject of an authority's certificate.
fn trust_domain_of(certificate: &CertificateDer<'_>) -> Result<TrustDomain, String> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|error| error.to_string())?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next().and_then(|name| name.as_str().ok());
    let domain = name.and_then(|name| name.strip_prefix("Brasserie cluster "));
    let domain = domain.and_then(TrustDomain::from_text);
    domain.ok_or_else(|| "its subject is no Brasserie cluster".to_owned())
}

#[cfg(test)]
mod tests {
    use brasserie_common::access::Role;

    use super::*;

    const NOW: WallTime = WallTime(1_700_000_000_000);

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    fn read(folder: &Path) -> Authority {
        let read = Authority::read(folder).expect("it is whole");
        read.expect("there is one")
    }

    #[test]
    fn a_rotation_is_kept_until_it_is_finished() {
        let folder = folder();
        let first = Authority::create(NOW).expect("an authority");
        first.write(folder.path()).expect("a folder");
        assert_eq!(read(folder.path()).former(), None);
        let second = first.successor(NOW).expect("a successor");
        second.write(folder.path()).expect("a folder");
        let kept = read(folder.path());
        assert_eq!(kept.hash(), second.hash());
        assert_eq!(kept.former(), Some(first.hash()));
        assert_eq!(kept.trust_domain(), first.trust_domain());
        assert_eq!(kept.trusted(NOW).len(), 2);
        let left = kept.forget_former(folder.path()).expect("a folder");
        assert_eq!((left.hash(), left.former()), (second.hash(), None));
        assert_eq!(read(folder.path()).trusted(NOW), left.trusted(NOW));
    }

    #[test]
    fn a_rotation_that_is_never_finished_ends_by_itself() {
        let first = Authority::create(NOW).expect("an authority");
        let second = first.successor(NOW).expect("a successor");
        let end = NOW + LONGEST_ROTATION;
        assert_eq!(second.former_until(), Some(end));
        let before = WallTime(end.0 - 1000);
        assert_eq!(second.trusted(before).len(), 2);
        assert_eq!(second.trusted(end), [second.certificate().clone()]);
        let shown = |now| {
            let issued = second.credential(Role::Scheduler, now, Lifetime::SCHEDULER);
            issued.expect("a certificate").authorities().len()
        };
        assert_eq!((shown(before), shown(end)), (2, 1));
    }

    #[test]
    fn the_authority_knows_which_certificates_are_its_own() {
        let first = Authority::create(NOW).expect("an authority");
        let second = first.successor(NOW).expect("a successor");
        let of = |authority: &Authority| {
            let issued = authority.credential(Role::Admin, NOW, Lifetime::PERSON);
            issued.expect("a certificate")
        };
        assert!(first.has_issued(of(&first).certificate()));
        assert!(second.has_issued(of(&second).certificate()));
        assert!(!second.has_issued(of(&first).certificate()));
        // A certificate of the former key that names the successor as its issuer.
        let (name, key) = (
            params(
                &second.trust_domain,
                second.issuer.key(),
                NOW,
                Lifetime::PERSON,
            ),
            first.issuer.key(),
        );
        let key = KeyPair::from_pem(&key.serialize_pem()).expect("a key");
        let posing = Authority {
            issuer: Issuer::new(name.expect("a name"), key),
            certificate: second.certificate.clone(),
            trust_domain: second.trust_domain.clone(),
            former: None,
        };
        assert!(!second.has_issued(of(&posing).certificate()));
    }

    #[test]
    fn a_certificate_leads_to_its_authority_and_to_those_that_it_has_replaced() {
        let first = Authority::create(NOW).expect("an authority");
        let second = first.successor(NOW).expect("a successor");
        let third = second.successor(NOW).expect("a successor");
        let chain = |authority: &Authority| {
            let issued = authority.credential(Role::Scheduler, NOW, Lifetime::SCHEDULER);
            issued.expect("a certificate").chain().to_vec()
        };
        let leads = |chain: &[CertificateDer<'_>], authority: &Authority| {
            leads_to(chain, authority.certificate(), NOW)
        };
        assert!(leads(&chain(&second), &second));
        assert!(leads(&chain(&second), &first));
        // A worker that was away since the first rotation has the second authority.
        assert!(leads(&chain(&third), &second));
        assert!(!leads(&chain(&first), &second));
        // The successor's certificates above one of the former authority help nobody.
        let mut posing = chain(&second);
        posing[0] = chain(&first)[0].clone();
        assert!(!leads(&posing, &second));
        assert!(!leads(&[], &second));
    }

    #[test]
    fn a_crash_at_any_point_of_a_rotation_leaves_one_of_the_authorities() {
        let folder = folder();
        let first = Authority::create(NOW).expect("an authority");
        first.write(folder.path()).expect("a folder");
        let second = first.successor(NOW).expect("a successor");
        let (path, old) = (folder.path().join(KEY), first.issuer.key().serialize_pem());
        let both = format!("{}{old}", second.issuer.key().serialize_pem());
        // The keys of both beside the certificate of the first, then beside those of the second.
        write_secret(&path, both.as_bytes()).expect("a folder");
        assert_eq!(read(folder.path()).hash(), first.hash());
        write_certificates(&folder.path().join(CERTIFICATE), &second.chain(NOW)).expect("a folder");
        assert_eq!(read(folder.path()).hash(), second.hash());
        // The next start removes the key of the first, once.
        let own = second.issuer.key().serialize_pem();
        for has_removed in [true, false] {
            let removed = read(folder.path()).remove_other_keys(folder.path());
            assert_eq!(removed.expect("a folder"), has_removed);
            assert_eq!(read_secret(&path).expect("a key"), own);
        }
        // The key of the first alone opens nothing.
        write_secret(&path, old.as_bytes()).expect("a folder");
        assert!(Authority::read(folder.path()).is_err());
    }
}

//! The authority of a cluster: the key with which certificates are signed.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use brasserie_common::WallTime;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use sha2::Digest as _;
use time::OffsetDateTime;

use crate::credential::{read_certificates, read_secret, write_certificates, write_secret};
use crate::names::{Certified, Cluster, hex};
use crate::{Credential, IdentityError, KeyRequest};

/// The name of the file with the authority's certificate.
const CERTIFICATE: &str = "authority.pem";
/// The name of the file with its key.
const KEY: &str = "authority.key";
/// How far certificates are backdated, for machines whose clocks are behind.
pub(crate) const CLOCK_SKEW: Duration = Duration::from_secs(24 * 60 * 60);
/// The lifetime of an authority: ten years. A rotation replaces it earlier.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    cluster: Cluster,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates the authority of a new cluster.
    pub fn create(now: WallTime) -> Result<Self, IdentityError> {
        Authority::create_for(Cluster::random()?, now)
    }

    /// Creates another authority of the same cluster.
    pub fn successor(&self, now: WallTime) -> Result<Self, IdentityError> {
        Authority::create_for(self.cluster.clone(), now)
    }

    fn create_for(cluster: Cluster, now: WallTime) -> Result<Self, IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = format!("Brasserie cluster {cluster}");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        (params.not_before, params.not_after) = validity(now, Lifetime(AUTHORITY_LIFETIME))?;
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Authority {
            cluster,
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// Reads the authority from its folder; `None` if there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, IdentityError> {
        let (path, key_path) = (folder.join(CERTIFICATE), folder.join(KEY));
        if !path.exists() && !key_path.exists() {
            return Ok(None);
        }
        let damaged = |problem: String| IdentityError::Damaged {
            path: path.clone(),
            problem,
        };
        let certificates = read_certificates(&path)?;
        let [certificate] = &certificates[..] else {
            return Err(damaged(format!(
                "it has {} certificates",
                certificates.len()
            )));
        };
        let key = read_secret(&key_path)?;
        let key = KeyPair::from_pem(&key).map_err(|error| IdentityError::Damaged {
            path: key_path,
            problem: error.to_string(),
        })?;
        let cluster = cluster_of(certificate).map_err(damaged)?;
        let issuer = Issuer::from_ca_cert_der(certificate, key)?;
        Ok(Some(Authority {
            cluster,
            certificate: certificate.clone(),
            issuer,
        }))
    }

    /// Keeps the authority in a folder, which only this user may read. The key is on disk before the certificate.
    pub fn write(&self, folder: &Path) -> Result<(), IdentityError> {
        let key = self.issuer.key().serialize_pem();
        write_secret(&folder.join(KEY), key.as_bytes())?;
        write_certificates(
            &folder.join(CERTIFICATE),
            std::slice::from_ref(&self.certificate),
        )
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn hash(&self) -> AuthorityHash {
        AuthorityHash::of(&self.certificate)
    }

    /// Issues a certificate for the key of a request, which proves that its sender has the key. All else in the request is ignored.
    ///
    /// The answer is the whole chain: the new certificate, then the authority's.
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
        let name = match &certified.shard {
            Some(shard) => format!("{} {shard}", certified.role),
            None => certified.role.to_string(),
        };
        let mut params = subject(certified.names(), name)?;
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        (params.not_before, params.not_after) = validity(now, lifetime)?;
        let certificate = params.signed_by(&public, &self.issuer)?.der().clone();
        Ok(vec![certificate, self.certificate.clone()])
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
        key.with_chain(vec![certificate, self.certificate.clone()])
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
            cluster: self.cluster.clone(),
            role,
            shard: None,
            token: None,
        };
        let chain = self.certify(key.request(), &certified, now, lifetime)?;
        key.with_chain(chain)
    }
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

/// Reads the cluster from the subject of an authority's certificate.
fn cluster_of(certificate: &CertificateDer<'_>) -> Result<Cluster, String> {
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|error| error.to_string())?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next().and_then(|name| name.as_str().ok());
    let cluster = name.and_then(|name| name.strip_prefix("Brasserie cluster "));
    let cluster = cluster.and_then(Cluster::from_text);
    cluster.ok_or_else(|| "its subject is no Brasserie cluster".to_owned())
}

//! The settings of TLS: version 1.3 with the cryptography of ring, proofs of both sides, and no other choice.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::WallTime;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};
use sha2::Digest as _;

use crate::life::Life;
use crate::names::Certified;
use crate::{AuthorityHash, Credential, IdentityError};

/// The most sessions that a server keeps for resumption: two for each of some thousand workers. A peer that resumes one is identified anew,
/// by the certificate of its first connection.
const MOST_SESSIONS: usize = 4096;

/// Returns the settings of a server that shows this credential, and asks its peers for one of the same authorities. A peer may show none.
///
/// An expired certificate of these authorities passes too, so that its holder learns what to do: [`proven`] tells the date, and the server
/// decides what such a peer may do.
pub fn server_config(
    own: &Credential,
    authorities: &[CertificateDer<'static>],
    protocol: &[u8],
) -> Result<Arc<ServerConfig>, IdentityError> {
    let provider = provider();
    let roots = Arc::new(roots(authorities)?);
    let strict = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let strict = strict.allow_unauthenticated().build();
    let strict = strict.map_err(|error| IdentityError::NotOurs(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(ExpiredToo(strict)))
        .with_single_cert(own.chain().to_vec(), own.key())?;
    config.alpn_protocols = vec![protocol.to_vec()];
    config.session_storage = ServerSessionMemoryCache::new(MOST_SESSIONS);
    Ok(Arc::new(config))
}

/// Returns the settings of a server of web pages, which asks browsers for no certificate.
pub fn web_server_config(own: &Credential) -> Result<Arc<ServerConfig>, IdentityError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(own.chain().to_vec(), own.key())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the settings of a client that calls servers of these authorities, and shows `own` to them.
pub fn client_config(
    own: Option<&Credential>,
    authorities: &[CertificateDer<'static>],
    protocol: &[u8],
) -> Result<Arc<ClientConfig>, IdentityError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots(authorities)?);
    let mut config = match own {
        Some(own) => builder.with_client_auth_cert(own.chain().to_vec(), own.key())?,
        None => builder.with_no_client_auth(),
    };
    settle(&mut config, protocol);
    Ok(Arc::new(config))
}

fn settle(config: &mut ClientConfig, protocol: &[u8]) {
    config.alpn_protocols = vec![protocol.to_vec()];
    // The name of the server travels before anything is encrypted, and no server here has more than one.
    config.enable_sni = false;
}

/// Returns the settings of a client that knows only the hash of the authority, from a token. It sends nothing before the server has shown
/// an authority with this hash, and a certificate of it.
pub fn joining_client_config(
    hash: AuthorityHash,
    protocol: &[u8],
) -> Result<Arc<ClientConfig>, IdentityError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ByHash {
            hash,
            provider: provider(),
        }))
        .with_no_client_auth();
    settle(&mut config, protocol);
    Ok(Arc::new(config))
}

/// The proof in a verified certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    pub certified: Certified,
    /// The time at which the certificate was issued.
    pub issued: WallTime,
    /// The time at which it expires.
    pub until: WallTime,
    /// The SHA-256 of its public key.
    pub key: [u8; 32],
}

/// Reads what a verified certificate proves.
pub fn proven(certificate: &CertificateDer<'_>) -> Result<Proven, IdentityError> {
    let foreign = |why: String| IdentityError::NotOurs(why);
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|error| foreign(error.to_string()))?;
    let names = parsed
        .subject_alternative_name()
        .map_err(|error| foreign(error.to_string()))?
        .ok_or_else(|| foreign("it has no names".to_owned()))?;
    let mut texts = Vec::new();
    for name in &names.value.general_names {
        match name {
            x509_parser::extensions::GeneralName::DNSName(name) => texts.push(*name),
            other => return Err(foreign(format!("it has the name {other}"))),
        }
    }
    let Life { issued, until } = Life::parsed(&parsed);
    let mut subject = parsed.subject().iter_common_name();
    let subject = subject.next().and_then(|name| name.as_str().ok());
    Ok(Proven {
        certified: Certified::from_names(texts)?.with_subject(subject.unwrap_or_default()),
        issued,
        until,
        key: sha2::Sha256::digest(&parsed.public_key().subject_public_key.data).into(),
    })
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, IdentityError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    Ok(roots)
}

/// Verifies certificates of clients, also expired ones.
#[derive(Debug)]
struct ExpiredToo(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for ExpiredToo {
    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // No hints: a client has one certificate at most, and the hints would tell strangers the name of the cluster.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now);
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext {
                    not_after: _,
                    time: _,
                },
            )) => {
                let (_, parsed) = x509_parser::parse_x509_certificate(end_entity)
                    .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
                let until = parsed.validity().not_after.timestamp();
                let until = u64::try_from(until).unwrap_or_default();
                let then = UnixTime::since_unix_epoch(Duration::from_secs(until));
                self.0.verify_client_cert(end_entity, intermediates, then)
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Verifies a server by the hash of an authority, which the server shows after its own certificate.
#[derive(Debug)]
struct ByHash {
    hash: AuthorityHash,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ByHash {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let mut shown = intermediates.iter();
        let shown = shown.find(|shown| AuthorityHash::of(shown) == self.hash);
        let shown = shown.ok_or_else(unknown)?;
        let mut roots = RootCertStore::empty();
        roots.add(shown.clone().into_owned())?;
        // The certificate says itself of which cluster it is, and that is the authority's word.
        let proven = proven(end_entity).map_err(|error| Error::General(error.to_string()))?;
        let trust_domain = proven.certified.trust_domain;
        let name = trust_domain.of_role(brasserie_common::access::Role::Scheduler);
        let name = ServerName::try_from(name).map_err(|error| Error::General(error.to_string()))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::clone(&self.provider),
        );
        let verifier = verifier
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, &name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, Lifetime};

    #[test]
    fn the_last_third_of_a_life_begins_after_two_thirds() {
        let now = WallTime::from_secs(1_700_000_000);
        let at = |seconds| now + Duration::from_secs(seconds);
        let authority = Authority::create(now).expect("an authority");
        let life = Lifetime(Duration::from_secs(900));
        let web = authority.web_credential(vec!["a.example".to_owned()], now, life);
        let web = web.expect("a certificate");
        let life = Life::of(web.certificate()).expect("a certificate");
        assert_eq!((life.issued, life.until), (now, at(900)));
        assert_eq!(life.last_third(at(600)), None);
        assert_eq!(life.last_third(at(601)), Some(Duration::from_secs(299)));
        assert_eq!(life.last_third(at(1000)), Some(Duration::ZERO));
        assert!(proven(web.certificate()).is_err(), "it proves no role");
    }
}

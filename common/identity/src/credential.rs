//! A certificate with its key, and their file.

use std::path::Path;

use brasserie_common_runtime::files::{self, OthersMay};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::IdentityError;

/// The size limit of a file: many times that of a chain of two.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A certificate, the chain up to its authority, and its key.
#[derive(Debug)]
pub struct Credential {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Credential {
    fn clone(&self) -> Self {
        Credential {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
        }
    }
}

impl Credential {
    /// Reads both from a file; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, IdentityError> {
        if !files::exists(path)? {
            return Ok(None);
        }
        let text = read_secret(path)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let key = key.map_err(|error| damaged(path, error))?;
        let chain = certificates(path, text.as_bytes())?;
        Ok(Some(Credential { chain, key }))
    }

    /// Keeps both in one file, for this user alone, so that they belong together after any crash.
    pub fn write(&self, path: &Path) -> Result<(), IdentityError> {
        let key = pem::Pem::new("PRIVATE KEY", self.key.secret_der());
        let chain = self.chain.iter();
        let chain = chain.map(|one| pem::Pem::new("CERTIFICATE", one.to_vec()));
        let blocks: Vec<_> = std::iter::once(key).chain(chain).collect();
        write_secret(path, pem::encode_many(&blocks).as_bytes())
    }

    /// Returns the certificate, and then those up to its authorities.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Returns the certificate itself.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.chain[0]
    }

    /// Returns the authorities of the chain, those with certificates of their own: the one that has issued this certificate first, then the
    /// one that it replaces while a rotation is under way.
    pub fn authorities(&self) -> Vec<CertificateDer<'static>> {
        let is_own = |certificate: &&CertificateDer<'static>| {
            let parsed = x509_parser::parse_x509_certificate(certificate);
            parsed.is_ok_and(|(_, parsed)| parsed.subject().as_raw() == parsed.issuer().as_raw())
        };
        self.chain[1..].iter().filter(is_own).cloned().collect()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

/// A new key, and the request for a certificate that proves its possession.
pub struct KeyRequest {
    key: KeyPair,
    request: Vec<u8>,
}

impl KeyRequest {
    pub fn create() -> Result<Self, IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        // The authority names the holder.
        params.distinguished_name = rcgen::DistinguishedName::new();
        let request = params.serialize_request(&key)?.der().to_vec();
        Ok(KeyRequest { key, request })
    }

    /// Reads a key and its request from a file, as [`KeyRequest::write`] has kept them; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, IdentityError> {
        if !files::exists(path)? {
            return Ok(None);
        }
        let text = read_secret(path)?;
        let blocks = pem::parse_many(text).map_err(|error| damaged(path, error))?;
        let [key, request] = &blocks[..] else {
            return Err(damaged(path, "it has no key with a request"));
        };
        Ok(Some(KeyRequest {
            key: KeyPair::try_from(key.contents()).map_err(|error| damaged(path, error))?,
            request: request.contents().to_vec(),
        }))
    }

    /// Keeps both in one file, for this user alone, so that the same request can be made again after a crash.
    pub fn write(&self, path: &Path) -> Result<(), IdentityError> {
        let blocks = [
            pem::Pem::new("PRIVATE KEY", self.key.serialize_der()),
            pem::Pem::new("CERTIFICATE REQUEST", self.request.clone()),
        ];
        write_secret(path, pem::encode_many(&blocks).as_bytes())
    }

    pub(crate) fn public(&self) -> &KeyPair {
        &self.key
    }

    /// Returns the request, as the DER of PKCS #10.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Completes the credential with the chain that the authority has issued. Errors if the certificate is for another key.
    pub fn with_chain(
        self,
        chain: Vec<CertificateDer<'static>>,
    ) -> Result<Credential, IdentityError> {
        let foreign = |why: &str| IdentityError::NotOurs(why.to_owned());
        let first = chain.first().ok_or_else(|| foreign("the chain is empty"))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(first)
            .map_err(|error| IdentityError::NotOurs(error.to_string()))?;
        if parsed.public_key().subject_public_key.data != self.key.public_key_raw() {
            return Err(foreign("it is for another key"));
        }
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        Ok(Credential {
            chain,
            key: key.into(),
        })
    }
}

pub(crate) fn read_certificates(
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    certificates(
        path,
        &files::read_own(path, MAX_FILE_BYTES, OthersMay::Read)?,
    )
}

/// Returns the certificates in the text of a file, at least one.
fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let certificates = certificates.map_err(|error| damaged(path, error))?;
    match certificates.is_empty() {
        true => Err(damaged(path, "it has no certificate")),
        false => Ok(certificates),
    }
}

fn damaged(path: &Path, problem: impl ToString) -> IdentityError {
    IdentityError::Damaged {
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}

pub(crate) fn write_certificates(
    path: &Path,
    certificates: &[CertificateDer<'_>],
) -> Result<(), IdentityError> {
    let blocks: Vec<_> = certificates
        .iter()
        .map(|one| pem::Pem::new("CERTIFICATE", one.to_vec()))
        .collect();
    write_secret(path, pem::encode_many(&blocks).as_bytes())
}

/// Reads a file that nobody else may read or have written.
pub(crate) fn read_secret(path: &Path) -> Result<String, IdentityError> {
    let bytes = files::read_own(path, MAX_FILE_BYTES, OthersMay::DoNothing)?;
    String::from_utf8(bytes).map_err(|error| damaged(path, error))
}

/// Replaces a file that only this user may read.
pub fn write_secret(path: &Path, bytes: &[u8]) -> Result<(), IdentityError> {
    files::atomic_write(path, bytes).map_err(|error| IdentityError::Write {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_after_a_crash() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("joining.pem");
        assert!(KeyRequest::read(&path).expect("no file").is_none());
        let made = KeyRequest::create().expect("a key");
        made.write(&path).expect("a file");
        let kept = KeyRequest::read(&path).expect("readable").expect("a file");
        assert_eq!(kept.request(), made.request());
        assert_eq!(kept.key.serialize_der(), made.key.serialize_der());
        write_secret(&path, b"no key").expect("a file");
        assert!(matches!(
            KeyRequest::read(&path),
            Err(IdentityError::Damaged { .. })
        ));
    }
}

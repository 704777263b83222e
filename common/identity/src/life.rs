//! The time in which a certificate or token is valid.

use std::time::Duration;

use brasserie_common::WallTime;
use rustls::pki_types::CertificateDer;

use crate::IdentityError;

/// How far certificates are backdated, for machines whose clocks are behind.
pub const CLOCK_SKEW: Duration = Duration::from_secs(24 * 60 * 60);

/// The life of a certificate or token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub issued: WallTime,
    pub until: WallTime,
}

impl Life {
    /// Reads the life of a certificate, verified or not.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|error| IdentityError::NotOurs(error.to_string()))?;
        Ok(Life::parsed(&parsed))
    }

    pub(crate) fn parsed(certificate: &x509_parser::certificate::X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        Life {
            issued: WallTime::from_secs(validity.not_before.timestamp()) + CLOCK_SKEW,
            until: WallTime::from_secs(validity.not_after.timestamp()),
        }
    }

    /// Returns the time that is left if that is less than a third of the whole life. Zero: it is over.
    pub fn last_third(self, now: WallTime) -> Option<Duration> {
        let left = now.until(self.until);
        (left < self.issued.until(self.until) / 3).then_some(left)
    }
}

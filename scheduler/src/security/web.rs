//! The HTTP port's side of TLS, and who its callers are.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use brasserie_common::access::{CallOrigin, Identity, TokenNumber};
use brasserie_common::{Principal, WallTime};
use brasserie_common_identity::{IdentityError, Lifetime, Token, TokenForm, web_server_config};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::Doorkeeper as _;

use super::{Guard, NotAdmitted};

/// The most addresses in the certificate besides the names: more than a machine has. A scheduler that listens on all addresses learns its own
/// from the connections.
const MOST_ADDRESSES: usize = 32;

/// The certificate for browsers, for the names and addresses by which they reach the port.
#[derive(Default)]
pub(super) struct WebSide {
    names: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
    config: Option<Arc<rustls::ServerConfig>>,
    /// The time from which a new certificate is wanted: half of the life of this one.
    renew_at: WallTime,
}

impl Guard {
    /// Adds names to the certificate for browsers: host names, or addresses.
    pub(crate) fn add_web_names(&self, names: impl IntoIterator<Item = String>) {
        let mut web = self.web.lock();
        let usable = names.into_iter().filter(|name| name.is_ascii());
        web.names.extend(usable.filter(|name| !name.is_empty()));
        web.config = None;
    }

    /// Returns the settings of TLS for a browser that has reached this address of the machine.
    pub(crate) fn web_tls(
        &self,
        reached: IpAddr,
    ) -> Result<Arc<rustls::ServerConfig>, IdentityError> {
        let (now, reached) = (Clock.wall(), reached.to_canonical());
        let mut web = self.web.lock();
        let is_named = web.addresses.contains(&reached);
        if let Some(config) = &web.config
            && is_named
            && now < web.renew_at
        {
            return Ok(Arc::clone(config));
        }
        if web.addresses.len() >= MOST_ADDRESSES {
            web.addresses.clear();
        }
        web.addresses.insert(reached);
        let addresses = web.addresses.iter().map(IpAddr::to_string);
        let names: BTreeSet<String> = web.names.iter().cloned().chain(addresses).collect();
        let names = names.into_iter().collect();
        let own = self
            .authority()
            .web_credential(names, now, Lifetime::SCHEDULER)?;
        let config = web_server_config(&own)?;
        web.config = Some(Arc::clone(&config));
        web.renew_at = now + Lifetime::SCHEDULER.0 / 2;
        Ok(config)
    }

    /// Makes the next browser get a new certificate, of the authority of now.
    pub(super) fn forget_web_certificate(&self) {
        self.web.lock().config = None;
    }

    /// Returns who a caller is that shows no token.
    pub(crate) fn without_token(&self, from: SocketAddr) -> Principal {
        self.plain(from)
    }

    /// Returns who shows this token, which is written as `brasserie token create` prints it.
    pub(crate) fn shown(&self, token: &str, from: SocketAddr) -> Result<Identity, NotAdmitted> {
        let token = Token::from_text(token);
        let token = token.map_err(|error| NotAdmitted::BadTerms(error.to_string()))?;
        match token.form {
            TokenForm::Person => self.authenticate(&token.secret.reveal(), from),
            TokenForm::Join => Err(NotAdmitted::NotForPeople),
        }
    }

    /// Returns who holds a token that was shown before. Errors once it is revoked or expired.
    pub(crate) fn holder_of(
        &self,
        token: TokenNumber,
        from: impl Into<CallOrigin>,
    ) -> Result<Identity, NotAdmitted> {
        let person = self.tokens.lock().holder(Clock.wall(), token)?;
        Ok(person.identity(from))
    }
}

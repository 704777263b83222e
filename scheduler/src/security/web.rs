//! The HTTP port's side of TLS, and who its callers are.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use brasserie_common::access::{CallOrigin, Identity, TokenNumber};
use brasserie_common::{Principal, WallTime};
use brasserie_common_identity::{IdentityError, Lifetime, Token, TokenForm, web_server_config};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::Authenticator as _;

use super::authentication::wants_renewal;
use super::{NotAdmitted, Security, Side};

/// The most addresses in the certificate besides the names: more than a machine has. A scheduler that listens on all addresses learns its own
/// from the connections.
const MOST_ADDRESSES: usize = 32;

/// The certificate for browsers, for the names and addresses by which they reach the port.
#[derive(Default)]
pub(super) struct WebSide {
    names: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
    /// The settings of TLS, and when their certificate was issued.
    config: Option<(Arc<rustls::ServerConfig>, WallTime)>,
}

impl WebSide {
    /// Makes the next browser get a new certificate, of the authority of then.
    pub(super) fn forget_certificate(&mut self) {
        self.config = None;
    }
}

impl Security {
    /// Adds names to the certificate for browsers: host names, or addresses.
    pub(crate) fn add_web_names(&self, names: impl IntoIterator<Item = String>) {
        let web = &mut self.side.lock().web;
        let usable = names.into_iter().filter(|name| name.is_ascii());
        web.names.extend(usable.filter(|name| !name.is_empty()));
        web.forget_certificate();
    }

    /// Returns the settings of TLS for a browser that has reached this address of the machine.
    pub(crate) fn web_tls(
        &self,
        reached: IpAddr,
    ) -> Result<Arc<rustls::ServerConfig>, IdentityError> {
        let (now, reached) = (Clock.wall(), reached.to_canonical());
        let Side { authority, web, .. } = &mut *self.side.lock();
        let is_named = web.addresses.contains(&reached);
        if let Some((config, issued)) = &web.config
            && is_named
            && !wants_renewal(*issued, now)
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
        let own = authority.web_credential(names, now, Lifetime::SCHEDULER)?;
        let config = web_server_config(&own)?;
        web.config = Some((Arc::clone(&config), now));
        Ok(config)
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
            TokenForm::Person => {
                let person = self.authenticate(&token.secret.reveal(), from)?;
                match self.trusted().contains(&token.authority) {
                    true => Ok(person),
                    false => Err(NotAdmitted::Replaced),
                }
            }
            TokenForm::Join => Err(NotAdmitted::NotForPeople),
        }
    }

    /// Returns who holds a token that was shown before. Errors once that is not valid any more.
    pub(crate) fn holder_of(
        &self,
        token: TokenNumber,
        from: impl Into<CallOrigin>,
    ) -> Result<Identity, NotAdmitted> {
        Ok(self.holder_of_token(token)?.identity(from))
    }
}

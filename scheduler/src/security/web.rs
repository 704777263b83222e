//! The scheduler's side of TLS for browsers.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use brasserie_common::WallTime;
use brasserie_common_identity::{IdentityError, Lifetime, web_server_config};
use brasserie_common_runtime::Clock;

use super::authentication::needs_renewal;
use super::{OwnCertificates, Security};

/// The most addresses in the certificate besides the names: more than a machine has. A scheduler that listens on all addresses learns its own
/// from the connections.
const MOST_ADDRESSES: usize = 32;

/// The certificate for browsers, for the names and addresses by which they reach the port.
#[derive(Default)]
pub(super) struct WebTls {
    names: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
    /// The settings of TLS, and when their certificate was issued.
    config: Option<(Arc<rustls::ServerConfig>, WallTime)>,
}

impl WebTls {
    /// Makes the next browser get a new certificate, of the authority of then.
    pub(super) fn forget_certificate(&mut self) {
        self.config = None;
    }
}

impl Security {
    /// Adds names to the certificate for browsers: host names, or addresses.
    pub(crate) fn add_web_names(&self, names: impl IntoIterator<Item = String>) {
        let web = &mut self.own.lock().web_tls;
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
        let OwnCertificates {
            authority,
            web_tls: web,
            ..
        } = &mut *self.own.lock();
        let is_named = web.addresses.contains(&reached);
        if let Some((config, issued)) = &web.config
            && is_named
            && !needs_renewal(*issued, now)
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
}

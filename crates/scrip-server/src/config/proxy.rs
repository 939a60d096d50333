//! Creates the client of proxied calls from its settings.

use std::{fs, net::SocketAddr};

use anyhow::Context;
use scrip_api::app::proxy_egress::{CallLimits, DestinationRoots, ProxyEgress};
use scrip_egress::{
    EgressLimits, EgressSettings, ForwardProxy, ForwardProxyCredentials, TrustedRoots,
};
use zeroize::Zeroizing;

use crate::config::table::ProxyCallSettings;

impl ProxyCallSettings {
    /// `own_addresses` are the listeners of this process, which are never a destination.
    /// Errors: a file cannot be read, or does not have its format.
    pub fn egress(&self, own_addresses: Vec<SocketAddr>) -> anyhow::Result<ProxyEgress> {
        let (mut settings, roots) = self.shared_settings(own_addresses)?;
        settings.allow_list = self.allow.0.clone();
        settings.allowed_ports = self.allowed_ports.0.clone();
        settings.limits = EgressLimits {
            requests_max: self.calls_max.get(),
            waiting_max: self.calls_max.get(),
            destination_requests_max: self.destination_calls_max.get(),
            idle_connections_max: self.idle_connections_max.get(),
            ..settings.limits
        };
        Ok(ProxyEgress::new(settings, roots, self.call_limits()))
    }

    /// The settings that proxied calls and deliveries to webhooks share: how this machine reaches
    /// other machines.
    pub(super) fn shared_settings(
        &self,
        own_addresses: Vec<SocketAddr>,
    ) -> anyhow::Result<(EgressSettings, DestinationRoots)> {
        let (roots, source) = match &self.ca_file {
            None => (TrustedRoots::none(), DestinationRoots::System),
            Some(path) => {
                let pem = fs::read_to_string(path).context("proxy.ca_file")?;
                let roots = TrustedRoots::from_pem(&pem).context("proxy.ca_file")?;
                (roots, DestinationRoots::Given)
            }
        };
        let mut settings = EgressSettings::new(roots);
        settings.loopback_http = self.loopback_http;
        settings.forward_proxy = self.forward_proxy()?;
        settings.own_addresses = own_addresses;
        Ok((settings, source))
    }

    fn call_limits(&self) -> CallLimits {
        let timeout_max = self.timeout_max_seconds.seconds();
        CallLimits {
            body_bytes_max: self.body_max.get(),
            timeout: self.timeout_seconds.seconds().min(timeout_max),
            timeout_max,
        }
    }

    fn forward_proxy(&self) -> anyhow::Result<Option<ForwardProxy>> {
        let Some(url) = &self.forward_proxy else { return Ok(None) };
        let credentials = match &self.forward_proxy_password_file {
            None => None,
            Some(path) => {
                let setting = "proxy.forward_proxy_password_file";
                let text = Zeroizing::new(fs::read_to_string(path).context(setting)?);
                let (user, password) = text.trim_end().split_once(':').context(setting)?;
                let password = Zeroizing::new(password.to_owned());
                Some(ForwardProxyCredentials { user: user.to_owned(), password })
            }
        };
        Ok(Some(ForwardProxy { host: url.0.host.clone(), port: url.port(), credentials }))
    }
}

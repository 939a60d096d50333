//! The hosts on which the fields are served.

use scrip_core::policy::application::web_origin::{WebOrigin, host_without_port, is_loopback_host};
use scrip_elements::release;

/// Where the hosted fields are served. Proxied answers share the origin of the API, so the fields
/// have an origin of their own, except for development.
#[derive(Debug, Clone, Default)]
pub struct FieldHosting {
    /// The origin of the fields. Its host serves nothing else but the API below `/api`.
    pub origin: Option<WebOrigin>,
    /// Whether loopback hosts serve the fields together with the API: for development only.
    pub is_on_loopback: bool,
}

/// The purpose of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostRole {
    Api,
    Fields,
    /// Both, for development.
    Shared,
}

impl FieldHosting {
    /// The role of the host of a request. The port does not decide: servers behind a load balancer
    /// do not know the port of the client.
    pub(crate) fn role(&self, host: &str) -> HostRole {
        let host = host_without_port(host);
        if self.origin.as_ref().is_some_and(|it| it.host().eq_ignore_ascii_case(host)) {
            return HostRole::Fields;
        }
        if self.is_on_loopback && is_loopback_host(host) {
            return HostRole::Shared;
        }
        HostRole::Api
    }

    /// The only origin in which the frames of a host run. A host with a second port would be a second
    /// origin, and frames of two origins do not find each other. For development there is none: the
    /// fields have the origin of the server, whatever its loopback name is.
    pub(crate) fn frame_origin(&self, host: &str) -> Option<&WebOrigin> {
        self.origin.as_ref().filter(|_| self.role(host) == HostRole::Fields)
    }

    /// Whether a script of the fields has this origin. For development, the fields have the origin of
    /// the server, which `host` names.
    pub(crate) fn is_own_origin(&self, origin: &WebOrigin, host: &str) -> bool {
        let is_own_host = || {
            let authority = origin.text().split_once("://").map_or("", |(_, it)| it);
            self.role(host) == HostRole::Shared && authority.eq_ignore_ascii_case(host)
        };
        self.origin.as_ref() == Some(origin) || is_own_host()
    }
}

/// The script tag of this release. Its address and content never change.
pub fn pinned_script_tag(origin: &str) -> String {
    let (hash, integrity) = (release().hash(), release().client_integrity());
    format!(
        "<script src=\"{origin}/elements/{hash}/client.js\" integrity=\"{integrity}\" \
         crossorigin=\"anonymous\"></script>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_of_a_host_depends_on_its_name_only() {
        let origin = WebOrigin::parse("https://fields.example").ok();
        let production = FieldHosting { origin: origin.clone(), is_on_loopback: false };
        let development = FieldHosting { origin: None, is_on_loopback: true };
        let both = FieldHosting { origin, is_on_loopback: true };
        let disabled = FieldHosting::default();
        use HostRole::{Api, Fields, Shared};
        let cases = [
            ("fields.example", [Fields, Api, Fields, Api]),
            ("Fields.Example:8443", [Fields, Api, Fields, Api]),
            ("vault.example", [Api, Api, Api, Api]),
            ("fields.example.vault.example", [Api, Api, Api, Api]),
            ("", [Api, Api, Api, Api]),
            ("localhost:4242", [Api, Shared, Shared, Api]),
            ("127.0.0.1:4242", [Api, Shared, Shared, Api]),
            ("[::1]:4242", [Api, Shared, Shared, Api]),
            ("127.0.0.1.example", [Api, Api, Api, Api]),
        ];
        for (host, expected) in cases {
            let roles = [&production, &development, &both, &disabled].map(|it| it.role(host));
            assert_eq!(roles, expected, "{host}");
        }
    }

    #[test]
    fn frames_of_the_field_host_have_the_configured_origin_whatever_the_port_is() {
        let origin = WebOrigin::parse("https://fields.example").ok();
        let hosting = FieldHosting { origin, is_on_loopback: true };
        let frame_origin = |host| hosting.frame_origin(host).map(WebOrigin::text);
        for host in ["fields.example", "Fields.Example:8443"] {
            assert_eq!(frame_origin(host), Some("https://fields.example"), "{host}");
        }
        assert_eq!(frame_origin("localhost:4242"), None);
    }
}

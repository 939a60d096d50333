//! Check of the hosted fields: whether they are served, and how browsers reach them.

use scrip_api::app::field_hosting::pinned_script_tag;
use scrip_server::config::Settings;

use crate::commands::doctor::finding::{Finding, passed, warning};

const CHECK: &str = "hosted fields";

pub(super) fn check_fields(settings: &Settings) -> Finding {
    let Some(origin) = &settings.elements.origin else {
        return passed(CHECK, "off; set elements.origin to serve them");
    };
    let script = format!("{}/elements/client.js", origin.0.text());
    let is_plain = settings.tls.certificate.is_none();
    if is_plain && settings.limits.trusted_proxies.is_empty() {
        let message = format!(
            "{script} needs https, but this server has no certificate and trusts no proxy: set \
             tls.certificate with the name of elements.origin, or limits.trusted_proxies"
        );
        return warning(CHECK, message);
    }
    let tag = pinned_script_tag(origin.0.text());
    passed(CHECK, format!("served at {script}; this release: {tag}"))
}

//! Check of the hosted fields: whether they are served, and how browsers reach them.

use scrip_api::app::field_hosting::pinned_script_tag;
use scrip_server::{
    config::Settings,
    control::status::{ServerStatus, query_status},
};

use crate::commands::doctor::finding::{Finding, passed, warning};

const CHECK: &str = "hosted fields";

/// Without an origin, only `scrip dev` serves the fields.
fn describe_without_origin(settings: &Settings) -> String {
    let status = query_status(&settings.storage.data_dir);
    match status.filter(|it| it.is_development) {
        Some(ServerStatus { url, .. }) => format!(
            "served on loopback hosts by the running scrip dev: {url}/elements/client.js; scrip \
             serve needs elements.origin to serve them"
        ),
        None => "off in scrip serve; set elements.origin to serve them. scrip dev serves them on \
                 loopback hosts"
            .to_owned(),
    }
}

pub(super) fn check_fields(settings: &Settings) -> Finding {
    let Some(origin) = &settings.elements.origin else {
        return passed(CHECK, describe_without_origin(settings));
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

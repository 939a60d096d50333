//! Checks masks of stored proxies that an earlier version accepted.

use scrip_core::policy::{Directory, proxy::ProxySettings};

use crate::commands::doctor::finding::{Finding, failed, warning};

/// Names the proxies with a mask that this version does not run. Their calls get 422.
pub(super) fn check_masks(directory: &Directory) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tenant in directory.tenants() {
        for proxy in tenant.proxies.values() {
            let name = format!("proxy {} of tenant {}", proxy.id, tenant.id);
            match ProxySettings::open(&tenant.keys, proxy) {
                Ok(settings) if settings.has_unusable_mask() => findings.push(warning(
                    "proxies",
                    format!(
                        "{name} has a mask with more than 256 steps or with a class of Unicode \
                         properties; its calls are rejected. Change the expression"
                    ),
                )),
                Ok(_) => (),
                Err(_) => findings.push(failed("proxies", format!("{name} cannot be opened"))),
            }
        }
    }
    findings
}

//! Checks of proxies: templates that an earlier version stored and that this version does not run.

use scrip_core::policy::{
    Directory,
    proxy::{ProxySettings, transform::TransformStage},
};

use crate::commands::doctor::finding::{Finding, warning};

/// Names each proxy with a template that breaks a rule. Calls of such a proxy are rejected.
pub(super) fn check_templates(directory: &Directory) -> Vec<Finding> {
    let mut findings = Vec::new();
    for proxy in directory.proxies() {
        let (tenant, record) = (proxy.tenant(), proxy.record());
        let Ok(settings) = ProxySettings::open(&tenant.keys, record) else { continue };
        let breaks_rule =
            settings.request_transforms.has_rejected_template(TransformStage::Request)
                || settings.response_transforms.has_rejected_template(TransformStage::Response);
        if breaks_rule {
            let message = format!(
                "proxy {} of tenant {}: a template of its transforms is invalid, or reads a CVC, \
                 encrypted data or the configuration into a place that this version does not allow; \
                 or an append_json or a mask of its request comes after an append_text. So its calls \
                 are rejected. The tenant can change it with PATCH /proxies/{}",
                record.id, tenant.id, record.id
            );
            findings.push(warning("proxies", message));
        }
    }
    findings
}

//! Checks of webhooks: those that the vault disabled, and an old backlog.

use std::time::Duration;

use scrip_core::{
    Vault,
    policy::{Directory, webhook::WebhookStatus},
    types::time::Clock,
};
use scrip_server::{clock::SystemClock, operator_error::explain};

use crate::commands::doctor::finding::{Finding, failed, warning};

/// A receiver that works again within this time gets its events without a warning.
const BACKLOG_AGE_MAX: Duration = Duration::from_secs(60 * 60);

pub(super) async fn check_webhooks(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tenant in directory.tenants() {
        for record in tenant.webhooks.values() {
            // A tenant that disables its webhook knows it; a change of the vault has no
            // application.
            let is_by_vault = record.modified.is_some_and(|it| it.by.is_none());
            if record.status == WebhookStatus::Disabled && is_by_vault {
                let message = format!(
                    "webhook {} of tenant {} was disabled: its receiver answered 410, or took no \
                     event for 5 days. The tenant can enable it with PUT /webhooks/{}",
                    record.id, tenant.id, record.id
                );
                findings.push(warning("webhooks", message));
            }
        }
    }
    match vault.store.count_pending_deliveries().await {
        Err(error) => findings.push(failed("webhooks", format!("{:#}", explain(error)))),
        Ok((count, Some(oldest))) if oldest < SystemClock.now().minus(BACKLOG_AGE_MAX) => {
            let message = format!(
                "pending deliveries to webhooks: {count}, the oldest event of {oldest}: a receiver fails or is slow, or a \
                 webhook is disabled. See GET /webhooks/{{id}}/deliveries, and check that a server \
                 has webhooks.deliver = true"
            );
            findings.push(warning("webhooks", message));
        }
        Ok(_) => (),
    }
    findings
}

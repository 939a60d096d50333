//! Checks of the sealing keys of tenants.

use scrip_core::{
    Timestamp, Vault,
    keys::key_rotation::{KeyRotation, RotationPhase, sealing_key_created_at},
    policy::{Directory, Tenant},
};
use scrip_operator::{error::explain, output::format_count};
use scrip_seal::has_fips_module;
use scrip_server::config::Settings;

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

/// Reports the cryptographic module of this program.
pub(super) fn check_module() -> Finding {
    let module = if has_fips_module() { "the FIPS module of AWS-LC" } else { "AWS-LC" };
    passed("cryptography", format!("algorithms come from {module}"))
}

/// Reports keys that are too old, and rotations that cannot end.
pub(super) async fn check_tenant_keys(
    settings: &Settings,
    vault: &Vault,
    directory: &Directory,
) -> Vec<Finding> {
    let rotations = match vault.store.list_key_rotations().await {
        Ok(rotations) => rotations,
        Err(error) => return vec![failed("tenant keys", format!("{:#}", explain(error)))],
    };
    let cutoff = settings.keys.tenant_max_age().map(|it| vault.clock.now().minus(it));
    let mut findings = Vec::new();
    for tenant in directory.tenants() {
        let created_at = sealing_key_created_at(tenant, &rotations);
        let is_running = RotationPhase::for_tenant(tenant) != RotationPhase::Idle;
        if cutoff.is_some_and(|it| created_at < it) && !is_running {
            findings.push(warning(
                "tenant keys",
                format!(
                    "the sealing key of tenant {0} is from {created_at}, older than \
                     keys.tenant_max_age_days; run: scrip keys rotate tenant {0}",
                    tenant.id
                ),
            ));
        }
        let rotation = rotations.iter().find(|it| it.tenant == tenant.id).filter(|_| is_running);
        findings.extend(rotation.and_then(|it| check_rotation(tenant, it)));
    }
    if findings.is_empty() {
        let count = directory.tenants().len();
        findings.push(passed("tenant keys", format_count(count, "tenant")));
    }
    findings
}

/// Reports an old vault key, and backups that a compromise exposed.
pub(super) async fn check_vault_key(
    settings: &Settings,
    vault: &Vault,
    directory: &Directory,
) -> Vec<Finding> {
    let unlocks = match vault.store.load_unlocks().await {
        Ok(unlocks) => unlocks,
        Err(error) => return vec![failed("vault key", format!("{:#}", explain(error)))],
    };
    let history = directory.audit_key().history();
    let mut findings = Vec::new();
    if let Some(unix_ms) = history.compromised_ms {
        let time = Timestamp { unix_ms };
        let message = format!("backups before {time} are exposed: destroy them");
        findings.push(warning("vault key", message));
    }
    if let Err(error) = directory.check_servable() {
        findings.push(failed("vault key", format!("{:#}", explain(error))));
    }
    let Some(created_at) = unlocks.key_created_at(history) else { return findings };
    let cutoff = settings.keys.vault_max_age().map(|it| vault.clock.now().minus(it));
    findings.push(match cutoff.filter(|it| created_at < *it) {
        Some(_) => warning(
            "vault key",
            format!(
                "the vault key is from {created_at}, older than keys.vault_max_age_days; run: scrip \
                 keys rotate vault"
            ),
        ),
        None => passed("vault key", format!("from {created_at}")),
    });
    findings
}

fn check_rotation(tenant: &Tenant, rotation: &KeyRotation) -> Option<Finding> {
    let id = tenant.id;
    if rotation.progress.unopened > 0 {
        let rows =
            format_count(usize::try_from(rotation.progress.unopened).unwrap_or(usize::MAX), "row");
        let message = format!(
            "tenant {id}: {rows} cannot be decrypted, so the old key is kept. They were altered \
             outside the vault; see: scrip keys rotation status {id}"
        );
        return Some(failed("tenant keys", message));
    }
    rotation.is_paused.then(|| {
        let advice = format!("to continue, run: scrip keys rotation resume {id}");
        warning("tenant keys", format!("the key rotation of tenant {id} is paused; {advice}"))
    })
}

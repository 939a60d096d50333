//! Checks of dual control.

use scrip_core::{
    Vault,
    approval::{
        StoredDualControl,
        ledger::{ApprovalLedger, ApprovalSigner, DualControlStatus},
    },
    policy::Directory,
    types::StoreError,
};
use scrip_operator::error::explain;
use scrip_server::config::Settings;

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

const CHECK: &str = "dual control";

pub(super) async fn check_dual_control(
    settings: &Settings,
    vault: &Vault,
    directory: &Directory,
) -> Vec<Finding> {
    match load_ledger(vault, directory).await {
        Err(error) => vec![failed(CHECK, format!("{:#}", explain(error)))],
        Ok(ledger) => check_ledger(settings.keys.dual_control, ledger.as_ref()),
    }
}

/// `None` if dual control was never on.
async fn load_ledger(
    vault: &Vault,
    directory: &Directory,
) -> Result<Option<ApprovalLedger>, StoreError> {
    let stored = vault.store.load_approvals().await?;
    if stored.dual_control == StoredDualControl::Missing {
        return Ok(None);
    }
    let identity = vault.store.load_unlocks().await?.identity;
    let missing = StoreError::Corrupt("the row of vault_state is missing");
    let id = identity.ok_or(missing)?.id;
    let signer = ApprovalSigner { key: directory.audit_key(), vault: id };
    Ok(Some(ApprovalLedger::verify(stored, signer)))
}

fn check_ledger(is_set: bool, ledger: Option<&ApprovalLedger>) -> Vec<Finding> {
    let status = ledger.map_or(DualControlStatus::Off, ApprovalLedger::status);
    let mut findings = vec![match (status, is_set) {
        (DualControlStatus::Altered, _) => failed(
            CHECK,
            "the row of dual_control was altered outside the vault; dual control is in force, and \
             open requests are lost",
        ),
        (DualControlStatus::On, true) => passed(CHECK, "on"),
        (DualControlStatus::On, false) => warning(
            CHECK,
            "on, although keys.dual_control is false; to switch it off, two operators run: scrip \
             keys dual-control off",
        ),
        (DualControlStatus::Off, true) => warning(
            CHECK,
            "keys.dual_control is true, but not stored in the vault yet; start the server once",
        ),
        (DualControlStatus::Off, false) => passed(CHECK, "off"),
    }];
    let ignored = ledger.map_or(0, ApprovalLedger::ignored);
    if ignored > 0 && status != DualControlStatus::Altered {
        let text = format!("{ignored} rows of approvals were altered outside the vault or used");
        findings.push(failed(CHECK, text));
    }
    findings
}

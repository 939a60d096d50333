//! Advance Audit Key, by the vault: changes the audit trail to the key that a compromise rotation
//! added, in phases, so that every node knows a key before another node signs with it.

use std::{sync::Arc, time::Duration};

use scrip_seal::{AuditKey, AuditKeyPhase, KeySource};

use crate::{
    Error, Timestamp, Vault,
    approval::{
        StoredDualControl,
        ledger::{ApprovalLedger, ApprovalSigner, DualControlStatus},
    },
    audit::{LogKind, ResignChain},
    change::ChangeOutcome,
    policy::Directory,
};

/// Takes the next step if it is due: `phase_time` after the step before it. Returns the new phase.
/// Each step can be repeated, so a process may end at any time.
pub async fn advance_audit_key(
    vault: &Vault,
    directory: &Directory,
    source: &dyn KeySource,
    phase_time: Duration,
) -> Result<Option<AuditKeyPhase>, Error> {
    let history = directory.audit_key().history();
    let now = vault.clock.now();
    let since = Timestamp { unix_ms: history.phase_since_ms };
    if history.phase == AuditKeyPhase::Closed || now < since.plus(phase_time) {
        return Ok(None);
    }
    let next = match history.phase {
        AuditKeyPhase::Added => AuditKeyPhase::Active,
        AuditKeyPhase::Active | AuditKeyPhase::Closed => {
            resign_chains(vault, directory).await?;
            resign_dual_control(vault, directory).await?;
            AuditKeyPhase::Closed
        }
    };
    let before = directory.wrapped_audit_key();
    let after = AuditKey::change_phase(source, before, next, now.unix_ms)?;
    let outcome = vault.store.replace_audit_key(before.clone(), after).await?;
    // Another node was faster.
    Ok((outcome == ChangeOutcome::Done).then_some(next))
}

/// Signs all heads and checkpoints with the new key. All nodes sign with it by now.
async fn resign_chains(vault: &Vault, directory: &Directory) -> Result<(), Error> {
    for log in [LogKind::Audit, LogKind::Read] {
        for head in vault.store.list_heads(log).await? {
            let key = Arc::clone(directory.audit_key());
            vault.store.resign_chain(ResignChain { log, tenant: head.tenant, key }).await?;
        }
    }
    Ok(())
}

/// Signs the state of dual control with the new key. An altered state stays altered.
async fn resign_dual_control(vault: &Vault, directory: &Directory) -> Result<(), Error> {
    let stored = vault.store.load_approvals().await?;
    let identity = vault.store.load_unlocks().await?.identity;
    let (Some(identity), StoredDualControl::Present(_)) = (identity, &stored.dual_control) else {
        return Ok(());
    };
    let signer = ApprovalSigner { key: directory.audit_key(), vault: identity.id };
    let ledger = ApprovalLedger::verify(stored, signer);
    if ledger.status() == DualControlStatus::Altered {
        return Ok(());
    }
    let change = ledger.sign_again(signer, vault.clock.now());
    match vault.store.change_approvals(change).await? {
        ChangeOutcome::Done => Ok(()),
        ChangeOutcome::Stale => {
            Err(Error::Conflict { reason: "a request of dual control changed at the same time" })
        }
    }
}

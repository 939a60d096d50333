//! Checks the audit trail without reading every record, which would take long: `scrip audit verify`
//! does that.

use std::path::Path;

use scrip_core::{
    Vault,
    audit::{LogKind, ReadRecording},
    policy::Directory,
    types::id::TenantId,
};
use scrip_operator::error::explain;
use scrip_server::{
    audit_sink::health::check_target, config::Settings, control::status::query_status,
    files::head_file,
};

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

const VERIFY: &str = "to verify every record run: scrip audit verify";

/// Checks the settings of the audit trail and the place of the head file.
pub(super) fn check_settings(settings: &Settings) -> Finding {
    let file = settings.head_file();
    let name = file.display();
    if let Some(folder) = find_missing_folder(&file) {
        let message = format!(
            "{} does not exist, so the chain heads are not saved: mount its disk, or correct \
             audit.head_file",
            folder.display()
        );
        return failed("audit", message);
    }
    if !file.exists() {
        return failed("audit", format!("{name} is missing; run: scrip audit verify"));
    }
    if settings.audit.reads == ReadRecording::Off {
        return warning("audit", "reads are not recorded: audit.reads is off");
    }
    let message = format!("reads are recorded; {VERIFY}");
    if settings.has_data_in(file.parent()) {
        let message = format!(
            "{message}. {name} is stored with the data: restoring an older data directory also \
             restores this file, and the rollback stays undetected. Set audit.head_file to another \
             location"
        );
        return warning("audit", message);
    }
    passed("audit", message)
}

/// The directory of a file, if it is missing.
fn find_missing_folder(file: &Path) -> Option<&Path> {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty())?;
    (!folder.exists()).then_some(folder)
}

/// Asks the running server whether records reach the sink. Without a server, checks the target.
pub(super) fn check_sink(settings: &Settings) -> Option<Finding> {
    const CHECK: &str = "audit sink";
    let target = settings.audit.sink.as_ref()?;
    let cause = match query_status(&settings.storage.data_dir) {
        Some(status) => status.audit_sink_cause,
        None => check_target(target).err().map(|it| format!("{it:#}")),
    };
    Some(match cause {
        None => passed(CHECK, "records can be written to audit.sink"),
        Some(cause) => failed(
            CHECK,
            format!(
                "records cannot be written to audit.sink: {cause}. Correct the cause; the server \
                 then writes the missing records without a restart"
            ),
        ),
    })
}

/// Compares the chain heads with the tenants and with the head file.
pub(super) async fn check_chain_heads(
    settings: &Settings,
    vault: &Vault,
    directory: &Directory,
) -> Vec<Finding> {
    let damaged = match list_damaged_heads(vault, directory).await {
        Ok(damaged) => damaged,
        Err(error) => return vec![failed("audit", format!("{error:#}"))],
    };
    let to_finding = |(log, tenant): &(LogKind, TenantId)| {
        let log = log.as_str();
        failed(
            "audit",
            format!("{log} log: the chain head of tenant {tenant} is missing or altered; {VERIFY}"),
        )
    };
    let mut findings: Vec<_> = damaged.iter().map(to_finding).collect();
    let file = settings.head_file();
    match head_file::list_discontinued_chains(&file, vault).await {
        Err(error) => findings.push(failed("audit", format!("{error:#}; {VERIFY}"))),
        Ok(mut chains) => {
            chains.retain(|it| !damaged.contains(&(it.log, it.tenant)));
            if !chains.is_empty() {
                findings.push(failed("audit", head_file::describe_rollback(&file)));
            }
        }
    }
    findings
}

/// Lists the chains with a missing or altered head. The vault and each tenant have a chain from
/// their creation on.
async fn list_damaged_heads(
    vault: &Vault,
    directory: &Directory,
) -> anyhow::Result<Vec<(LogKind, TenantId)>> {
    let mut damaged = Vec::new();
    for log in LogKind::ALL {
        let heads = vault.store.list_heads(log).await.map_err(explain)?;
        let mut chains: Vec<_> = match log {
            LogKind::Audit => directory.tenants().iter().map(|it| it.id).collect(),
            LogKind::Read => vec![TenantId::VAULT],
        };
        chains.retain(|it| !heads.iter().any(|head| head.tenant == *it));
        let altered = heads.iter().filter(|it| !it.has_valid_mac(directory.audit_key(), log));
        chains.extend(altered.map(|it| it.tenant));
        damaged.extend(chains.into_iter().map(|it| (log, it)));
    }
    Ok(damaged)
}

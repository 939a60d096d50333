//! `scrip doctor`: check the installation and print how to fix problems.

mod audit;
mod certificates;
mod control_sockets;
mod deletions;
pub(crate) mod development;
mod dual_control;
mod elements;
mod epoch_keys;
mod files;
mod finding;
mod keys;
mod masks;
mod postgres;
mod proxies;
mod storage;
mod unlock;
mod webhooks;

use anyhow::bail;
use scrip_core::{
    Vault,
    log_tasks::authentic_time::load_authentic_time,
    policy::{Directory, EMPTY_VAULT},
    types::time::{Clock, ClockWatermark},
};
use scrip_server::{
    clock::SystemClock,
    config::{Environment, Settings},
    files::bin_file,
    operator_error::explain,
};
use serde_json::json;

use crate::commands::{
    arguments::CommonArguments,
    async_runtime::runtime,
    doctor::finding::{CheckVerdict, Finding, failed, passed, warning},
    output::{CommandOutput, format_bytes, format_count},
    record_failure::explain_record_failure,
};

pub(crate) fn run(common: &CommonArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = common.confined_settings(environment)?;
    let mut findings = vec![passed("settings", "the settings are valid")];
    findings.extend(settings.warnings.iter().map(|it| warning("settings", it)));
    match settings.existing_data_dir() {
        Ok(_) => findings.extend(check_data_dir(&settings)),
        Err(error) => {
            findings.push(failed("data directory", format!("{error:#}")));
            findings.extend(files::check_secret_files(&settings));
        }
    }
    findings.extend(files::check_unused_password(&settings));
    findings.push(keys::check_module());
    findings.push(files::check_swap(&settings));
    findings.extend(certificates::check_transport(&settings));
    findings.extend(certificates::check_directory_servers(&settings));
    findings.push(elements::check_fields(&settings));
    findings.extend(development::check_dev_keys(&settings));
    findings.extend(control_sockets::check_sockets(&settings));
    findings.extend(runtime()?.block_on(check_store(&settings)));
    if let Some(it) = settings.storage.postgres()? {
        findings.extend(runtime()?.block_on(postgres::check_postgres(&settings, it)));
    }
    findings.push(storage::check_server(&settings));
    common.print_output(&report(&findings))?;
    let failed_count = findings.iter().filter(|it| it.verdict == CheckVerdict::Failed).count();
    if failed_count > 0 {
        bail!("{failed_count} of {} checks failed", findings.len());
    }
    Ok(())
}

/// Checks the files in the data directory, and those that the settings place elsewhere.
fn check_data_dir(settings: &Settings) -> Vec<Finding> {
    let mut findings = files::check_files(settings);
    findings.push(storage::check_disk(settings));
    findings.push(check_bin_data(settings));
    findings.push(audit::check_settings(settings));
    findings.extend(audit::check_sink(settings));
    findings
}

/// Checks the epoch keys and the store. The embedded engine stores the vault in the data directory.
/// A directory without a vault is one finding, so the store is not opened to report it again.
async fn check_store(settings: &Settings) -> Vec<Finding> {
    let mut findings = epoch_keys::check_epoch_keys(settings).await;
    if settings.storage.url.is_none() && settings.existing_data_dir().is_err() {
        return findings;
    }
    match settings.open_vault_for_command().await {
        Ok(vault) => findings.extend(check_vault(settings, &vault).await),
        Err(error) => {
            findings.push(unlock::check_root_key(settings));
            findings.push(failed("store", format!("{error:#}")));
        }
    }
    findings
}

fn check_bin_data(settings: &Settings) -> Finding {
    match bin_file::read(&settings.bin_file()) {
        Ok(None) => passed("BIN data", "nothing was imported; the built-in ranges are in force"),
        Ok(Some(it)) => passed("BIN data", format_count(it.row_count(), "row")),
        Err(error) => failed("BIN data", format!("{error:#}; import it again")),
    }
}

fn report(findings: &[Finding]) -> CommandOutput {
    let format_line = |it: &Finding| {
        let verdict = match it.verdict {
            CheckVerdict::Passed => "ok     ",
            CheckVerdict::Warning => "warning",
            CheckVerdict::Failed => "ERROR  ",
        };
        format!("{verdict}  {:<14}  {}\n", it.check, it.message)
    };
    let text: String = findings.iter().map(format_line).collect();
    let is_ok = !findings.iter().any(|it| it.verdict == CheckVerdict::Failed);
    CommandOutput::new(text, json!({ "ok": is_ok, "checks": findings }))
}

/// Reports the engine, and a WAL that is not copied to the database.
async fn check_engine(vault: &Vault) -> Vec<Finding> {
    const WAL_BYTES_MANY: u64 = 512 * 1024 * 1024;
    let status = match vault.store.status().await {
        Ok(status) => status,
        Err(error) => return vec![failed("store", format!("{:#}", explain(error)))],
    };
    let mut findings =
        vec![passed("store", format!("{}, schema {}", status.engine, status.schema))];
    let log = status.sizes_bytes.iter().find(|(name, _)| *name == "write_ahead_log");
    if let Some((_, log)) = log.filter(|(_, it)| *it > WAL_BYTES_MANY) {
        let message =
            format!("{} of the WAL are not yet copied to the database", format_bytes(*log));
        findings.push(warning("log", message));
    }
    findings
}

/// Checks that require an open vault.
async fn check_vault(settings: &Settings, vault: &Vault) -> Vec<Finding> {
    let mut findings = check_engine(vault).await;
    let records = match vault.store.load_directory().await {
        Ok(records) => records,
        Err(error) => {
            findings.push(failed("canary", format!("{:#}", explain(error))));
            return findings;
        }
    };
    if records.is_empty_vault() {
        findings.push(failed("canary", EMPTY_VAULT));
        return findings;
    }
    findings.extend(unlock::check_methods(settings, &records).await);
    let source = match settings.unlock(&records).await {
        Ok(source) => source,
        Err(problem) if !problem.is_wrong_key && records.system_keys.is_some() => {
            findings.push(passed("clock", format!("the time is {}", SystemClock.now())));
            findings.extend(unlock::list_unchecked(&records.unlocks));
            return findings;
        }
        Err(error) => {
            findings.push(failed("canary", format!("{error:#}")));
            return findings;
        }
    };
    let unlocks = records.unlocks.clone();
    match Directory::open(records, &*source, None) {
        Err(error) => findings.push(failed("canary", format!("{:#}", explain(error)))),
        Ok(directory) => {
            findings.push(passed("canary", "the vault key opens the vault"));
            vault.audit_trail.set_key(directory.audit_key());
            findings.extend(unlock::check_alterations(&unlocks, directory.audit_key()));
            findings.extend(proxies::check_templates(&directory));
            findings.extend(dual_control::check_dual_control(settings, vault, &directory).await);
            // A missing data directory is a finding of its own.
            if settings.check_data_dir().is_ok() {
                // Before the record of this run, which continues the chain of the vault.
                findings.extend(audit::check_chain_heads(settings, vault, &directory).await);
            }
            findings.extend(record_run(settings, vault).await);
            findings.push(check_clock(vault, &directory).await);
            findings.extend(deletions::check_deletions(vault, &directory).await);
            findings.extend(development::check_tenant_types(settings, &directory));
            findings.extend(masks::check_masks(&directory));
            findings.extend(webhooks::check_webhooks(vault, &directory).await);
            findings.extend(keys::check_vault_key(settings, vault, &directory).await);
            findings.extend(keys::check_tenant_keys(settings, vault, &directory).await);
            if directory.alterations().is_empty() {
                let count = directory.tenants().len();
                findings.push(passed(
                    "policy",
                    format!("{}, unaltered", format_count(count, "tenant")),
                ));
            }
            findings.extend(deletions::check_alterations(vault, &directory).await);
        }
    }
    findings
}

/// Records the run like any other command; a failure is a finding.
async fn record_run(settings: &Settings, vault: &Vault) -> Option<Finding> {
    if let Some(os_user) = &settings.os_user {
        vault.audit_trail.set_os_user(os_user);
    }
    let recorded = vault.record_command("doctor", "completed").await;
    let message =
        |it| format!("recording this command failed: {:#}", explain_record_failure(vault, it));
    recorded.err().map(|it| failed("audit", message(it)))
}

/// Compares the wall clock with the latest time that the vault has recorded. A server never starts
/// earlier than that time, and destroys nothing for a while if its wall clock is ahead.
async fn check_clock(vault: &Vault, directory: &Directory) -> Finding {
    const DRIFT_MS: i64 = 5_000;
    let now = SystemClock.now();
    let is_ahead = |it: &ClockWatermark| it.now.unix_ms > now.unix_ms.saturating_add(DRIFT_MS);
    match load_authentic_time(&*vault.store, directory.audit_key()).await {
        Err(error) => failed("clock", format!("{:#}", explain(error))),
        Ok(stored_time) if stored_time.is_altered => failed(
            "clock",
            "the row of clock_watermark was altered outside the vault; servers ignore it and \
             replace it",
        ),
        Ok(stored_time) => match stored_time.watermark.filter(is_ahead) {
            Some(ClockWatermark { now: latest, .. }) => {
                let message = format!(
                    "the time is {now}, but the vault has records of {latest}; set the clock"
                );
                failed("clock", message)
            }
            None => passed("clock", format!("the time is {now}")),
        },
    }
}

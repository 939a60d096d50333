//! `scrip doctor`: check the installation and print how to fix problems.

mod audit;
mod certificates;
pub(crate) mod development;
mod dual_control;
mod epoch_keys;
mod files;
mod finding;
mod keys;
mod postgres;
mod storage;
mod unlock;

use std::time::Duration;

use scrip_api::app::field_hosting::pinned_script_tag;
use scrip_core::{
    Vault,
    log_tasks::load_authentic_time,
    operations::tenants::purge_tenants::find_forged_deletions,
    policy::{
        Directory, EMPTY_VAULT,
        proxy::{ProxySettings, transform::TransformStage},
        webhook::WebhookStatus,
    },
    types::{
        id::TenantId,
        time::{Clock, ClockWatermark},
    },
};
use scrip_operator::{
    alterations::AlteredPolicies,
    error::explain,
    output::{CommandOutput, format_bytes, format_count},
    record_failure::explain_record_failure,
};
use scrip_server::{
    clock::SystemClock,
    config::{Environment, Settings},
    control::status::{ServerStatus, query_status},
    files::bin_file,
};
use serde_json::json;

use crate::commands::{
    arguments::CommonArguments,
    doctor::finding::{CheckVerdict, Finding, failed, passed, warning},
    runtime,
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
    findings.push(check_fields(&settings));
    findings.extend(development::check_dev_keys(&settings));
    findings.extend(files::check_sockets(&settings));
    findings.extend(runtime()?.block_on(check_store(&settings)));
    if let Some(it) = settings.storage.postgres()? {
        findings.extend(runtime()?.block_on(postgres::check_postgres(&settings, it)));
    }
    findings.push(storage::check_server(&settings));
    common.print_output(&report(&findings))
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
    let failed_count = findings.iter().filter(|it| it.verdict == CheckVerdict::Failed).count();
    let describe = || format!("{failed_count} of {} checks failed", findings.len());
    let failure = (failed_count > 0).then(describe);
    let json = json!({ "ok": failure.is_none(), "checks": findings });
    CommandOutput { failure, ..CommandOutput::new(text, json) }
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
            findings.extend(check_templates(&directory));
            findings.extend(dual_control::check_dual_control(settings, vault, &directory).await);
            // A missing data directory is a finding of its own.
            if settings.check_data_dir().is_ok() {
                // Before the record of this run, which continues the chain of the vault.
                findings.extend(audit::check_chain_heads(settings, vault, &directory).await);
            }
            findings.extend(record_run(settings, vault).await);
            findings.push(check_clock(vault, &directory).await);
            findings.extend(check_deletions(vault, &directory).await);
            findings.extend(development::check_tenant_types(settings, &directory));
            findings.extend(check_masks(&directory));
            findings.extend(check_webhooks(vault, &directory).await);
            findings.extend(keys::check_vault_key(settings, vault, &directory).await);
            findings.extend(keys::check_tenant_keys(settings, vault, &directory).await);
            if directory.alterations().is_empty() {
                let count = directory.tenants().len();
                findings.push(passed(
                    "policy",
                    format!("{}, unaltered", format_count(count, "tenant")),
                ));
            }
            findings.extend(check_alterations(vault, &directory).await);
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

/// Reports altered policy rows.
async fn check_alterations(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    match AlteredPolicies::load(vault, directory).await {
        Err(error) => vec![failed("policy", format!("{error:#}"))],
        Ok(altered) => {
            let rows = altered.rows().iter();
            rows.map(|it| failed("policy", format!("{}. {}", it.text, it.advice))).collect()
        }
    }
}

/// Reports deleted tenants, and forged rows of deletions.
async fn check_deletions(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    let forged = match find_forged_deletions(vault).await {
        Ok(forged) => forged,
        Err(error) => return vec![failed("deletions", format!("{:#}", explain(error)))],
    };
    let to_finding = |it: TenantId| {
        let message =
            "a row of deleted_tenants was added or altered outside the vault; nothing is purged";
        failed("deletions", format!("tenant {it}: {message}. Delete the row"))
    };
    let mut findings: Vec<_> = forged.into_iter().map(to_finding).collect();
    findings.extend(directory.pending_deletion().iter().filter_map(|it| {
        let deletes_at = it.deletes_at?;
        let message =
            format!("tenant {} is deleted; its keys will be destroyed at {deletes_at}", it.id);
        Some(warning(
            "deletions",
            format!("{message}; to undo the deletion run: scrip tenant restore {}", it.id),
        ))
    }));
    findings
}

/// Names each proxy with a template that breaks a rule. Calls of such a proxy are rejected.
fn check_templates(directory: &Directory) -> Vec<Finding> {
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

/// Names the proxies with a mask that this version does not run. Their calls get 422.
fn check_masks(directory: &Directory) -> Vec<Finding> {
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

/// A receiver that works again within this time gets its events without a warning.
const BACKLOG_AGE_MAX: Duration = Duration::from_secs(60 * 60);

async fn check_webhooks(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tenant in directory.tenants() {
        for record in tenant.webhooks.values() {
            // A tenant that disables its webhook knows it; a change of the vault has no
            // application.
            let is_by_vault = record.modified.is_some_and(|it| it.by.is_none());
            if record.status == WebhookStatus::Disabled && is_by_vault {
                let message = format!(
                    "webhook {} of tenant {} was disabled: its receiver answered 410, or took no \
                     event for 5 days. To enable it: scrip webhook enable {}",
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

const HOSTED_FIELDS: &str = "hosted fields";

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

fn check_fields(settings: &Settings) -> Finding {
    let Some(origin) = &settings.elements.origin else {
        return passed(HOSTED_FIELDS, describe_without_origin(settings));
    };
    let script = format!("{}/elements/client.js", origin.0.text());
    let is_plain = settings.tls.certificate.is_none();
    if is_plain && settings.limits.trusted_proxies.is_empty() {
        let message = format!(
            "{script} needs https, but this server has no certificate and trusts no proxy: set \
             tls.certificate with the name of elements.origin, or limits.trusted_proxies"
        );
        return warning(HOSTED_FIELDS, message);
    }
    let tag = pinned_script_tag(origin.0.text());
    passed(HOSTED_FIELDS, format!("served at {script}; this release: {tag}"))
}

//! `scrip doctor`: what could go wrong here, and what to do about it.

mod epoch_keys;
mod postgres;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::bail;
use nix::sys::statvfs::statvfs;
use scrip_core::{
    Vault,
    audit::{ReadRecording, authentic_time::load_authentic_time},
    id::TenantId,
    operations::tenants::purge_tenants::find_forged_deletions,
    policy::Directory,
    time::{Clock, ClockWatermark},
};
use scrip_server::{
    config::{Environment, EpochKeyLocation, LockMemory, Settings},
    control,
    directory_servers::{HttpDirectoryServers, results::ResultsClientCertVerifier},
    files::bin_file,
    listen::tls::Certificates,
    process::clock::SystemClock,
    storage::explain,
};
use serde::Serialize;
use serde_json::json;

use crate::commands::{
    CommonArguments,
    output::{CommandOutput, format_bytes},
    runtime,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckVerdict {
    Passed,
    Warning,
    Failed,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: CheckVerdict,
    /// What was found, and what to do about it.
    message: String,
}

fn passed(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, verdict: CheckVerdict::Passed, message: message.into() }
}

fn warning(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, verdict: CheckVerdict::Warning, message: message.into() }
}

fn failed(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, verdict: CheckVerdict::Failed, message: message.into() }
}

pub(crate) fn run(common: &CommonArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = common.confined_settings(environment)?;
    let mut findings = vec![passed("settings", "they can be read")];
    findings.extend(settings.warnings.iter().map(|it| warning("settings", it)));
    findings.extend(check_files(&settings));
    findings.push(check_disk(&settings.storage.data_dir));
    findings.push(check_swap(&settings));
    findings.push(check_bin_data(&settings));
    findings.push(check_audit_trail(&settings));
    findings.extend(check_transport(&settings));
    findings.extend(check_directory_servers(&settings));
    findings.extend(runtime()?.block_on(async {
        let mut findings = epoch_keys::check_epoch_keys(&settings).await;
        match settings.open_vault_for_command().await {
            Ok(vault) => findings.extend(check_vault(&settings, &vault).await),
            Err(error) => findings.push(failed("store", format!("{error:#}"))),
        }
        findings
    }));
    if let Some(it) = settings.storage.postgres()? {
        findings.extend(runtime()?.block_on(postgres::check_postgres(&settings, it)));
    }
    findings.push(match control::query_status(&settings.storage.data_dir) {
        None => passed("server", "none is running here"),
        Some(it) if it.sealed => failed("server", format!("process {} is sealed", it.pid)),
        Some(it) => passed("server", format!("process {} serves {}", it.pid, it.url)),
    });
    common.print_output(&report(&findings))?;
    let broken = findings.iter().filter(|it| it.verdict == CheckVerdict::Failed).count();
    if broken > 0 {
        bail!("{broken} of {} checks found something wrong", findings.len());
    }
    Ok(())
}

fn check_bin_data(settings: &Settings) -> Finding {
    match bin_file::read(&settings.bin_file()) {
        Ok(None) => passed("BIN data", "none was imported; the built-in ranges are in force"),
        Ok(Some(it)) => passed("BIN data", format!("{} rows", it.row_count())),
        Err(error) => failed("BIN data", format!("{error:#}; import it again")),
    }
}

/// Only whether it can be verified: to go through it takes its time.
fn check_audit_trail(settings: &Settings) -> Finding {
    let file = settings.head_file();
    let name = file.display();
    if !file.exists() {
        return failed("audit", format!("{name} is missing; run: scrip audit verify"));
    }
    if settings.audit.reads == ReadRecording::Off {
        return warning("audit", "reads are not recorded: audit.reads is off");
    }
    let says = "reads are recorded; whether the trail is whole: scrip audit verify";
    if settings.has_data_in(file.parent()) {
        let says = format!(
            "{says}. {name} lies beside the data: whoever brings back an older directory has both. \
             Set audit.head_file to a place of its own"
        );
        return warning("audit", says);
    }
    passed("audit", says)
}

fn report(findings: &[Finding]) -> CommandOutput {
    let line = |it: &Finding| {
        let mark = match it.verdict {
            CheckVerdict::Passed => "ok     ",
            CheckVerdict::Warning => "warning",
            CheckVerdict::Failed => "WRONG  ",
        };
        format!("{mark}  {:<12}  {}\n", it.check, it.message)
    };
    let text: String = findings.iter().map(line).collect();
    let well = !findings.iter().any(|it| it.verdict == CheckVerdict::Failed);
    CommandOutput::new(text, json!({ "ok": well, "checks": findings }))
}

/// Nobody but the owner should be able to read, let alone write.
fn check_files(settings: &Settings) -> Vec<Finding> {
    let folder = &settings.storage.data_dir;
    let mut paths = vec![folder.clone()];
    let names = ["scrip.db", "access.db"].into_iter();
    let names = names.flat_map(|it| ["", "-wal", "-shm"].map(|end| format!("{it}{end}")));
    paths.extend(names.map(|it| folder.join(it)));
    paths.push(settings.head_file());
    let mut findings = Vec::new();
    for path in paths {
        let Ok(found) = fs::metadata(&path) else { continue };
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let fix = if found.is_dir() { "700" } else { "600" };
            let path = path.display();
            findings.push(failed(
                "permissions",
                format!("{path} is open to others (mode {mode:o}); run: chmod {fix} {path}"),
            ));
        }
    }
    let root_key = settings.root_key_file();
    let secrets = settings.secret_files().into_iter().filter(|it| it.path != root_key);
    let rejected = secrets.filter_map(|it| it.check().err());
    findings.extend(rejected.map(|it| failed("permissions", format!("{it:#}"))));
    if findings.is_empty() {
        findings.push(passed("permissions", "files are for their owner only"));
    }
    let key = settings.root_key_file();
    match settings.key_source() {
        Err(error) => findings.push(failed("root key", format!("{error:#}"))),
        Ok(_) if settings.root_key.is_some() => findings.push(warning(
            "root key",
            "comes from SCRIP_ROOT_KEY, which stays in the environment of the process and of all that \
             it starts; put it into a file of its own, and set keys.root_key_file",
        )),
        Ok(_) if settings.has_data_in(key.parent()) => findings.push(warning(
            "root key",
            format!(
                "{} lies beside the data: whoever copies the directory has both. Set \
                 keys.root_key_file to a place of its own",
                key.display()
            ),
        )),
        Ok(_) => findings.push(passed("root key", format!("{} can be read", key.display()))),
    }
    findings
}

#[expect(clippy::useless_conversion, reason = "the width of these differs by system")]
fn check_disk(folder: &Path) -> Finding {
    const LITTLE: u64 = 10;
    const TOO_LITTLE: u64 = 2;
    let Ok(it) = statvfs(folder) else {
        return failed("disk", format!("{} cannot be looked at", folder.display()));
    };
    let free = u64::from(it.blocks_available()).saturating_mul(u64::from(it.fragment_size()));
    let all = u64::from(it.blocks()).saturating_mul(u64::from(it.fragment_size())).max(1);
    let percent = u128::from(free) * 100 / u128::from(all);
    let says = format!("{} free ({percent} %)", format_bytes(free));
    if percent < u128::from(TOO_LITTLE) {
        failed("disk", format!("{says}; writes will soon fail"))
    } else if percent < u128::from(LITTLE) {
        warning("disk", says)
    } else {
        passed("disk", says)
    }
}

fn check_swap(settings: &Settings) -> Finding {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().skip(1).all(|it| it.trim().is_empty()) {
        return passed("swap", "there is none, or none is known");
    }
    if let EpochKeyLocation::File(path) = &settings.cvc.epoch_keys {
        let says = format!(
            "there is some, and {} may be written to it; turn swap off, or encrypt it",
            path.display()
        );
        return warning("swap", says);
    }
    match settings.server.lock_memory {
        LockMemory::On => passed("swap", "there is some; server.lock_memory is on"),
        LockMemory::Auto | LockMemory::Off => warning(
            "swap",
            "there is some, and secrets in memory may be written to it; set server.lock_memory to \
             on, or turn swap off",
        ),
    }
}

fn check_transport(settings: &Settings) -> Vec<Finding> {
    let server = &settings.server;
    match (&settings.tls.certificate, &settings.tls.key) {
        (Some(certificate), Some(key)) => {
            vec![match Certificates::for_clients(certificate, key) {
                Ok(_) => passed("tls", "the certificate and its key belong together"),
                Err(error) => failed("tls", format!("{error:#}")),
            }]
        }
        (_, _) if server.listen.ip().is_loopback() => {
            vec![passed("tls", "none, and the listener is for this machine only")]
        }
        (_, _) => vec![warning(
            "tls",
            format!("none: keys and cards travel in clear to {}", server.listen),
        )],
    }
}

/// Whether the files of the schemes can be used. Nobody is asked.
fn check_directory_servers(settings: &Settings) -> Vec<Finding> {
    if settings.schemes.is_empty() {
        return Vec::new();
    }
    let says = |it: anyhow::Error| failed("3-D Secure", format!("{it:#}"));
    let ways = HttpDirectoryServers::new(&settings.threeds_plan("")).err().map(says);
    let results = settings.results_plan().map(ResultsClientCertVerifier::load_reloadable);
    let results = results.and_then(Result::err).map(says);
    let mut found: Vec<_> = ways.into_iter().chain(results).collect();
    if found.is_empty() {
        let count = settings.schemes.len();
        found.push(passed("3-D Secure", format!("{count} schemes, whose files can be used")));
    }
    found
}

/// What only an open vault tells.
async fn check_vault(settings: &Settings, vault: &Vault) -> Vec<Finding> {
    const LOG_BYTES_MANY: u64 = 512 * 1024 * 1024;
    let mut findings = Vec::new();
    match vault.store.status().await {
        Err(error) => findings.push(failed("store", format!("{:#}", explain(error)))),
        Ok(status) => {
            let says = format!("{}, schema {}", status.engine, status.schema);
            findings.push(passed("store", says));
            let log = status.sizes_bytes.iter().find(|(name, _)| *name == "write_ahead_log");
            if let Some((_, log)) = log.filter(|(_, it)| *it > LOG_BYTES_MANY) {
                let says = format!("{} wait to be moved into the database", format_bytes(*log));
                findings.push(warning("log", says));
            }
        }
    }
    let Ok(source) = settings.key_source() else {
        findings.push(passed("clock", format!("it says {}", SystemClock.now())));
        return findings;
    };
    match Directory::load(&*vault.store, &*source, None).await {
        Err(error) => findings.push(failed("canary", format!("{:#}", explain(error)))),
        Ok(directory) => {
            findings.push(passed("canary", "the root key opens the vault"));
            findings.extend(record_run(settings, vault, &directory).await);
            findings.push(check_clock(vault, &directory).await);
            findings.extend(check_deletions(vault, &directory).await);
            if directory.alterations().is_empty() {
                let count = directory.tenants().len();
                findings.push(passed("policy", format!("{count} tenants, as they were written")));
            }
            for it in directory.alterations() {
                let tenant = it.tenant.map(|it| format!("tenant {it}: ")).unwrap_or_default();
                let says = format!("{tenant}{}; put the rows back from a backup", it.description);
                findings.push(failed("policy", says));
            }
        }
    }
    findings
}

/// Opening the vault is recorded like any other command; that it cannot be is a finding.
async fn record_run(settings: &Settings, vault: &Vault, directory: &Directory) -> Option<Finding> {
    vault.audit_trail.set_key(directory.audit_key());
    if let Some(os_user) = &settings.os_user {
        vault.audit_trail.set_os_user(os_user);
    }
    let recorded = vault.record_command("doctor", "completed").await;
    let says = |it| format!("this command could not be recorded: {:#}", explain(it));
    recorded.err().map(|it| failed("audit", says(it)))
}

/// A server would not start before what the vault has seen, and would destroy nothing for a while
/// on the word of a clock that is ahead.
async fn check_clock(vault: &Vault, directory: &Directory) -> Finding {
    const DRIFT_MS: i64 = 5_000;
    let now = SystemClock.now();
    let ahead = |it: &ClockWatermark| it.now.unix_ms > now.unix_ms.saturating_add(DRIFT_MS);
    match load_authentic_time(&*vault.store, directory.audit_key()).await {
        Err(error) => failed("clock", format!("{:#}", explain(error))),
        Ok(found) if found.is_altered => failed(
            "clock",
            "the row of clock_state was altered outside of the vault; servers do not use it, and write \
             it anew",
        ),
        Ok(found) => match found.watermark.filter(ahead) {
            Some(ClockWatermark { now: latest, .. }) => {
                let says = format!("it says {now}, but the vault has records of {latest}; set it");
                failed("clock", says)
            }
            None => passed("clock", format!("it says {now}")),
        },
    }
}

/// Tenants that are deleted, and rows that only look like a deletion.
async fn check_deletions(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    let forged = match find_forged_deletions(vault).await {
        Ok(forged) => forged,
        Err(error) => return vec![failed("deletions", format!("{:#}", explain(error)))],
    };
    let say = |it: TenantId| {
        let says =
            "a row of deleted_tenants was added or altered outside of the vault; nothing is purged";
        failed("deletions", format!("tenant {it}: {says}. Remove the row"))
    };
    let mut findings: Vec<_> = forged.into_iter().map(say).collect();
    findings.extend(directory.pending_deletion().iter().filter_map(|it| {
        let at = it.deletes_at?;
        let says = format!("tenant {} is deleted, and its keys are destroyed at {at}", it.id);
        Some(warning(
            "deletions",
            format!("{says}; to take it back: scrip tenant restore {}", it.id),
        ))
    }));
    findings
}

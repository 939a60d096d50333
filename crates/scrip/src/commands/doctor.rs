//! `scrip doctor`: what could go wrong here, and what to do about it.

mod epochs;
mod postgres;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::bail;
use nix::sys::statvfs::statvfs;
use scrip_core::{
    Vault,
    audit::{Reads, authentic_time::authentic_time},
    id::TenantId,
    operations::tenants::purge_tenants::forged_deletions,
    policy::Directory,
    time::{Clock, KnownTime},
};
use scrip_server::{
    config::{Environment, EpochKeysAt, LockMemory, Settings},
    control,
    directory_servers::{Servers, results::Doorkeeper},
    files::bin_file,
    listen::tls::Certificates,
    process::clock::SystemClock,
    storage::explain,
};
use serde::Serialize;
use serde_json::json;

use crate::commands::{
    Where,
    output::{Said, bytes},
    runtime,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    /// What was found, and what to do about it.
    says: String,
}

fn good(check: &'static str, says: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Good, says: says.into() }
}

fn warning(check: &'static str, says: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Warning, says: says.into() }
}

fn bad(check: &'static str, says: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Bad, says: says.into() }
}

pub(crate) fn run(at: &Where, environment: &Environment) -> anyhow::Result<()> {
    let settings = at.confined(environment)?;
    let mut findings = vec![good("settings", "they can be read")];
    findings.extend(settings.warnings.iter().map(|it| warning("settings", it)));
    findings.extend(files(&settings));
    findings.push(disk(&settings.storage.data_dir));
    findings.push(swap(&settings));
    findings.push(bin_data(&settings));
    findings.push(trail(&settings));
    findings.extend(transport(&settings));
    findings.extend(directory_servers(&settings));
    findings.extend(runtime()?.block_on(async {
        let mut findings = epochs::epoch_keys(&settings).await;
        match settings.open_vault_beside().await {
            Ok(vault) => findings.extend(inside(&settings, &vault).await),
            Err(error) => findings.push(bad("store", format!("{error:#}"))),
        }
        findings
    }));
    if let Some(it) = settings.storage.postgres()? {
        findings.extend(runtime()?.block_on(postgres::look(&settings, it)));
    }
    findings.push(match control::ask(&settings.storage.data_dir) {
        None => good("server", "none is running here"),
        Some(it) if it.sealed => bad("server", format!("process {} is sealed", it.pid)),
        Some(it) => good("server", format!("process {} serves {}", it.pid, it.url)),
    });
    at.say(&report(&findings))?;
    let broken = findings.iter().filter(|it| it.verdict == Verdict::Bad).count();
    if broken > 0 {
        bail!("{broken} of {} checks found something wrong", findings.len());
    }
    Ok(())
}

fn bin_data(settings: &Settings) -> Finding {
    match bin_file::read(&settings.bin_file()) {
        Ok(None) => good("BIN data", "none was imported; the built-in ranges are in force"),
        Ok(Some(it)) => good("BIN data", format!("{} rows", it.rows())),
        Err(error) => bad("BIN data", format!("{error:#}; import it again")),
    }
}

/// Only whether it can be verified: to go through it takes its time.
fn trail(settings: &Settings) -> Finding {
    let file = settings.head_file();
    let name = file.display();
    if !file.exists() {
        return bad("audit", format!("{name} is missing; run: scrip audit verify"));
    }
    if settings.audit.reads == Reads::Off {
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
    good("audit", says)
}

fn report(findings: &[Finding]) -> Said {
    let line = |it: &Finding| {
        let mark = match it.verdict {
            Verdict::Good => "ok     ",
            Verdict::Warning => "warning",
            Verdict::Bad => "WRONG  ",
        };
        format!("{mark}  {:<12}  {}\n", it.check, it.says)
    };
    let text: String = findings.iter().map(line).collect();
    let well = !findings.iter().any(|it| it.verdict == Verdict::Bad);
    Said::new(text, json!({ "ok": well, "checks": findings }))
}

/// Nobody but the owner should be able to read, let alone write.
fn files(settings: &Settings) -> Vec<Finding> {
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
            findings.push(bad(
                "permissions",
                format!("{path} is open to others (mode {mode:o}); run: chmod {fix} {path}"),
            ));
        }
    }
    let root_key = settings.root_key_file();
    let secrets = settings.secret_files().into_iter().filter(|it| it.path != root_key);
    let refused = secrets.filter_map(|it| it.check().err());
    findings.extend(refused.map(|it| bad("permissions", format!("{it:#}"))));
    if findings.is_empty() {
        findings.push(good("permissions", "files are for their owner only"));
    }
    let key = settings.root_key_file();
    match settings.key_source() {
        Err(error) => findings.push(bad("root key", format!("{error:#}"))),
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
        Ok(_) => findings.push(good("root key", format!("{} can be read", key.display()))),
    }
    findings
}

#[expect(clippy::useless_conversion, reason = "the width of these differs by system")]
fn disk(folder: &Path) -> Finding {
    const LITTLE: u64 = 10;
    const TOO_LITTLE: u64 = 2;
    let Ok(it) = statvfs(folder) else {
        return bad("disk", format!("{} cannot be looked at", folder.display()));
    };
    let free = u64::from(it.blocks_available()).saturating_mul(u64::from(it.fragment_size()));
    let all = u64::from(it.blocks()).saturating_mul(u64::from(it.fragment_size())).max(1);
    let percent = u128::from(free) * 100 / u128::from(all);
    let says = format!("{} free ({percent} %)", bytes(free));
    if percent < u128::from(TOO_LITTLE) {
        bad("disk", format!("{says}; writes will soon fail"))
    } else if percent < u128::from(LITTLE) {
        warning("disk", says)
    } else {
        good("disk", says)
    }
}

fn swap(settings: &Settings) -> Finding {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().skip(1).all(|it| it.trim().is_empty()) {
        return good("swap", "there is none, or none is known");
    }
    if let EpochKeysAt::File(path) = &settings.cvc.epoch_keys {
        let says = format!(
            "there is some, and {} may be written to it; turn swap off, or encrypt it",
            path.display()
        );
        return warning("swap", says);
    }
    match settings.server.lock_memory {
        LockMemory::On => good("swap", "there is some; server.lock_memory is on"),
        LockMemory::Auto | LockMemory::Off => warning(
            "swap",
            "there is some, and secrets in memory may be written to it; set server.lock_memory to \
             on, or turn swap off",
        ),
    }
}

fn transport(settings: &Settings) -> Vec<Finding> {
    let server = &settings.server;
    match (&settings.tls.certificate, &settings.tls.key) {
        (Some(certificate), Some(key)) => {
            vec![match Certificates::of_clients(certificate, key) {
                Ok(_) => good("tls", "the certificate and its key belong together"),
                Err(error) => bad("tls", format!("{error:#}")),
            }]
        }
        (_, _) if server.listen.ip().is_loopback() => {
            vec![good("tls", "none, and the listener is for this machine only")]
        }
        (_, _) => vec![warning(
            "tls",
            format!("none: keys and cards travel in clear to {}", server.listen),
        )],
    }
}

/// Whether the files of the schemes can be used. Nobody is asked.
fn directory_servers(settings: &Settings) -> Vec<Finding> {
    if settings.schemes.is_empty() {
        return Vec::new();
    }
    let says = |it: anyhow::Error| bad("3-D Secure", format!("{it:#}"));
    let ways = Servers::new(&settings.threeds_plan("")).err().map(says);
    let results = settings.results_plan().map(Doorkeeper::watched);
    let results = results.and_then(Result::err).map(says);
    let mut found: Vec<_> = ways.into_iter().chain(results).collect();
    if found.is_empty() {
        let count = settings.schemes.len();
        found.push(good("3-D Secure", format!("{count} schemes, whose files can be used")));
    }
    found
}

/// What only an open vault tells.
async fn inside(settings: &Settings, vault: &Vault) -> Vec<Finding> {
    const LOG_BYTES_MANY: u64 = 512 * 1024 * 1024;
    let mut findings = Vec::new();
    match vault.store.status().await {
        Err(error) => findings.push(bad("store", format!("{:#}", explain(error)))),
        Ok(status) => {
            let says = format!("{}, schema {}", status.engine, status.schema);
            findings.push(good("store", says));
            let log = status.sizes_bytes.iter().find(|(name, _)| *name == "write_ahead_log");
            if let Some((_, log)) = log.filter(|(_, it)| *it > LOG_BYTES_MANY) {
                let says = format!("{} wait to be moved into the database", bytes(*log));
                findings.push(warning("log", says));
            }
        }
    }
    let Ok(source) = settings.key_source() else {
        findings.push(good("clock", format!("it says {}", SystemClock.now())));
        return findings;
    };
    match Directory::load(&*vault.store, &*source, None).await {
        Err(error) => findings.push(bad("canary", format!("{:#}", explain(error)))),
        Ok(directory) => {
            findings.push(good("canary", "the root key opens the vault"));
            findings.extend(record(settings, vault, &directory).await);
            findings.push(clock(vault, &directory).await);
            findings.extend(deletions(vault, &directory).await);
            if directory.alterations().is_empty() {
                let count = directory.tenants().len();
                findings.push(good("policy", format!("{count} tenants, as they were written")));
            }
            for it in directory.alterations() {
                let tenant = it.tenant.map(|it| format!("tenant {it}: ")).unwrap_or_default();
                let says = format!("{tenant}{}; put the rows back from a backup", it.what);
                findings.push(bad("policy", says));
            }
        }
    }
    findings
}

/// Opening the vault is recorded like any other command; that it cannot be is a finding.
async fn record(settings: &Settings, vault: &Vault, directory: &Directory) -> Option<Finding> {
    vault.audit.open(directory.audit_key());
    if let Some(os_user) = &settings.os_user {
        vault.audit.set_os_user(os_user);
    }
    let recorded = vault.record_command("doctor", "completed").await;
    let says = |it| format!("this command could not be recorded: {:#}", explain(it));
    recorded.err().map(|it| bad("audit", says(it)))
}

/// A server would not start before what the vault has seen, and would destroy nothing for a while
/// on the word of a clock that is ahead.
async fn clock(vault: &Vault, directory: &Directory) -> Finding {
    const DRIFT_MS: i64 = 5_000;
    let now = SystemClock.now();
    let ahead = |it: &KnownTime| it.now.unix_ms > now.unix_ms.saturating_add(DRIFT_MS);
    match authentic_time(&*vault.store, directory.audit_key()).await {
        Err(error) => bad("clock", format!("{:#}", explain(error))),
        Ok(found) if found.is_altered => bad(
            "clock",
            "the row of clock_state was altered outside of the vault; servers do not use it, and write \
             it anew",
        ),
        Ok(found) => match found.known.filter(ahead) {
            Some(KnownTime { now: latest, .. }) => {
                let says = format!("it says {now}, but the vault has records of {latest}; set it");
                bad("clock", says)
            }
            None => good("clock", format!("it says {now}")),
        },
    }
}

/// Tenants that are deleted, and rows that only look like a deletion.
async fn deletions(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    let forged = match forged_deletions(vault).await {
        Ok(forged) => forged,
        Err(error) => return vec![bad("deletions", format!("{:#}", explain(error)))],
    };
    let say = |it: TenantId| {
        let says =
            "a row of deleted_tenants was added or altered outside of the vault; nothing is purged";
        bad("deletions", format!("tenant {it}: {says}. Remove the row"))
    };
    let mut findings: Vec<_> = forged.into_iter().map(say).collect();
    findings.extend(directory.deleting().iter().filter_map(|it| {
        let at = it.deletes_at?;
        let says = format!("tenant {} is deleted, and its keys are destroyed at {at}", it.id);
        Some(warning(
            "deletions",
            format!("{says}; to take it back: scrip tenant restore {}", it.id),
        ))
    }));
    findings
}

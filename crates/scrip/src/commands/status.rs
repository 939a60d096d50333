//! `scrip status`: counts, sizes and the running server.

use scrip_operator::{
    action::{ActionSpec, Recording},
    error::explain,
    operator::Operator,
    output::{CommandOutput, format_bytes, format_count, name_value_list},
};
use scrip_server::{
    config::{Environment, Settings},
    control::status::{PoolStatus, SchemeStatus, query_status},
};
use serde_json::json;

use crate::commands::{
    arguments::CommonArguments,
    local_action::{KeyUse, LocalAction},
};

/// Prints the status. The command needs no root key, because the output is not secret.
pub(crate) fn run(common: &CommonArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = common.confined_settings(environment)?;
    let spec = ActionSpec::view("status").with_recording(Recording::Success);
    let action = LocalAction { key: KeyUse::Optional, ..LocalAction::on_vault(spec, &settings) };
    common.run_local(&action, async |it| show(&settings, it.operator().ok()).await)
}

/// Shows altered policy rows too, which only the vault key finds.
async fn show(settings: &Settings, operator: Option<&Operator>) -> anyhow::Result<CommandOutput> {
    let server = query_status(&settings.storage.data_dir);
    let vault = settings.open_vault_for_command().await?;
    let status = vault.store.status().await.map_err(explain)?;
    let mut rows = vec![
        ("data directory", settings.storage.data_dir.display().to_string()),
        ("engine", status.engine.to_owned()),
        ("schema", status.schema.to_string()),
    ];
    let is_on_postgres = settings.storage.url.is_some();
    if is_on_postgres {
        rows.push(("vault", settings.storage.location()));
    }
    rows.extend(status.sizes_bytes.iter().map(|(name, count)| (*name, format_bytes(*count))));
    rows.extend(status.counts.iter().map(|(name, count)| (*name, count.to_string())));
    let versions = status.key_versions.iter().map(|(it, tenants)| format!("{it} ({tenants})"));
    rows.push(("key versions (tenants)", versions.collect::<Vec<_>>().join(", ")));
    match &server {
        None => rows.push(("server", "not running".to_owned())),
        Some(it) => {
            let reason = it.not_ready.as_ref().filter(|_| !it.sealed);
            let state = match reason {
                Some(reason) => format!(", not ready: {reason}"),
                None if it.sealed => ", sealed".to_owned(),
                None => String::new(),
            };
            rows.push(("server", format!("{} (process {}{state})", it.url, it.pid)));
            rows.extend(it.sealed_cause.clone().map(|cause| ("sealed", cause)));
            rows.extend(it.audit_sink_cause.clone().map(|cause| ("audit sink fails", cause)));
            rows.push(("version", it.version.clone()));
            rows.push(("started", it.started_at.clone()));
            rows.push(("connections", it.connections.to_string()));
            rows.push(("queued writes", it.write_queue.to_string()));
            if let Some(PoolStatus { busy, idle }) = it.pool.filter(|_| is_on_postgres) {
                let maximum = settings.storage.connections.get();
                let connections = format!("{busy} busy, {idle} idle, at most {maximum}");
                rows.push(("database connections", connections));
            }
            rows.extend(it.threeds.iter().map(|it| ("3-D Secure", scheme_line(it))));
        }
    }
    let to_json_object = |rows: &[(&'static str, u64)]| {
        rows.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect()
    };
    let counts: serde_json::Map<_, _> = to_json_object(&status.counts);
    let sizes: serde_json::Map<_, _> = to_json_object(&status.sizes_bytes);
    let versions = status.key_versions.iter();
    let versions: Vec<_> =
        versions.map(|(it, tenants)| json!({ "version": it, "tenants": tenants })).collect();
    let json = json!({
        "data_dir": settings.storage.data_dir,
        "vault": settings.storage.location(),
        "engine": status.engine,
        "schema": status.schema,
        "sizes_bytes": sizes,
        "counts": counts,
        "key_versions": versions,
        "server": server,
        "alterations": [],
    });
    let output = CommandOutput::new(name_value_list(&rows), json);
    Ok(match operator {
        Some(it) => it.with_alterations(output),
        None => output,
    })
}

fn scheme_line(it: &SchemeStatus) -> String {
    let SchemeStatus { tenant_type, scheme, card_ranges, fetched_at } = it;
    match fetched_at {
        Some(fetched_at) => {
            let card_ranges = format_count(*card_ranges, "card range");
            format!("{scheme} ({tenant_type}): {card_ranges} since {fetched_at}")
        }
        None => format!("{scheme} ({tenant_type}): no card ranges yet"),
    }
}

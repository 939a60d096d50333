//! Checks the PostgreSQL server: durability of commits, role, connections and version.

use scrip_operator::error::explain;
use scrip_server::{config::Settings, storage::connect_postgres};
use scrip_store::postgres::{PostgresSettings, PostgresTransport, ServerHealth};

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

/// The oldest supported version; older ones lack statements that the store uses.
const VERSION_MIN: i32 = 14;

pub(super) async fn check_postgres(
    settings: &Settings,
    postgres: PostgresSettings,
) -> Vec<Finding> {
    let transport = match postgres.transport() {
        PostgresTransport::Tls => passed("transport", "TLS with a verified certificate"),
        PostgresTransport::Plain => {
            passed("transport", "unencrypted, as set in storage.url, or on this machine")
        }
    };
    let health = match connect_postgres(postgres).await {
        Ok(store) => store.health().await.map_err(explain),
        // The finding of the store has the cause.
        Err(_) => {
            let message = "cannot be reached or used; the cause is in the check \"store\"";
            return vec![transport, failed("PostgreSQL", message)];
        }
    };
    let mut findings = vec![transport];
    match health {
        Ok(it) => findings.extend(assess_health(&it, settings.storage.connections.get())),
        Err(error) => findings.push(failed("PostgreSQL", format!("{error:#}"))),
    }
    findings
}

fn assess_health(health: &ServerHealth, connections: usize) -> Vec<Finding> {
    let (major, minor) = (health.version / 10_000, health.version % 10_000);
    let mut findings = vec![if major < VERSION_MIN {
        let message = format!("version {major}.{minor}; the minimum is {VERSION_MIN}");
        failed("PostgreSQL", message)
    } else {
        passed("PostgreSQL", format!("version {major}.{minor}"))
    }];
    findings.push(check_durability(health));
    if health.is_superuser {
        findings.push(warning(
            "role",
            "the role is a superuser or has BYPASSRLS, so row-level security does not separate \
             tenants; use a role with only the required rights",
        ));
    } else {
        findings.push(passed(
            "role",
            "the role is not a superuser, and row-level security applies to it",
        ));
    }
    let maximum = health.connections_max.and_then(|it| usize::try_from(it).ok());
    if let Some(maximum) = maximum.filter(|it| connections >= *it) {
        let message = format!(
            "storage.connections is {connections}; all nodes and other clients together may have \
             {maximum}"
        );
        findings.push(warning("connections", message));
    }
    findings
}

fn check_durability(health: &ServerHealth) -> Finding {
    let is_set_to = |name: &str, value: &str| {
        health.durability.iter().any(|(it, text)| *it == name && text == value)
    };
    if is_set_to("fsync", "off") {
        return failed("durability", "fsync is off: a power failure loses acknowledged writes");
    }
    if is_set_to("synchronous_commit", "off") {
        return failed(
            "durability",
            "synchronous_commit is off: a crash of PostgreSQL loses recently acknowledged writes; \
             run: ALTER ROLE … SET synchronous_commit = on",
        );
    }
    if is_set_to("synchronous_commit", "local") {
        return warning(
            "durability",
            "synchronous_commit is local: after a failover, acknowledged writes may be missing",
        );
    }
    passed("durability", "a commit is on disk before it is acknowledged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::CheckVerdict;

    fn verdicts(health: &ServerHealth, connections: usize) -> Vec<(&'static str, CheckVerdict)> {
        assess_health(health, connections).into_iter().map(|it| (it.check, it.verdict)).collect()
    }

    #[test]
    fn settings_that_lose_acknowledged_writes_are_reported_as_errors() {
        use CheckVerdict::{Failed, Passed, Warning};
        let server = |fsync: &str, commit: &str| ServerHealth {
            version: 150_004,
            durability: vec![
                ("synchronous_commit", commit.to_owned()),
                ("fsync", fsync.to_owned()),
            ],
            is_superuser: false,
            connections_max: Some(100),
        };
        let check =
            |health: &ServerHealth, expected| assert_eq!(verdicts(health, 16)[1].1, expected);
        check(&server("on", "on"), Passed);
        check(&server("on", "remote_apply"), Passed);
        check(&server("on", "local"), Warning);
        check(&server("on", "off"), Failed);
        check(&server("off", "on"), Failed);
        let all_passed = [("PostgreSQL", Passed), ("durability", Passed), ("role", Passed)];
        assert_eq!(verdicts(&server("on", "on"), 16), all_passed);
        let superuser = ServerHealth { is_superuser: true, version: 130_009, ..server("on", "on") };
        let expected = [
            ("PostgreSQL", Failed),
            ("durability", Passed),
            ("role", Warning),
            ("connections", Warning),
        ];
        assert_eq!(verdicts(&superuser, 100), expected);
        // Missing values cause no findings.
        let without_values =
            ServerHealth { durability: Vec::new(), connections_max: None, ..server("", "") };
        assert_eq!(verdicts(&without_values, 16), all_passed);
    }
}

//! The server that a vault on PostgreSQL is on: whether what it acknowledges is there for good, and
//! who we are to it.

use scrip_server::{
    config::Settings,
    storage::{connect_postgres, explain},
};
use scrip_store::postgres::{PostgresSettings, PostgresTransport, ServerHealth};

use crate::commands::doctor::{Finding, failed, passed, warning};

/// What we speak; before it, there are statements that we use and it has not.
const VERSION_MIN: i32 = 14;

pub(super) async fn check_postgres(
    settings: &Settings,
    postgres: PostgresSettings,
) -> Vec<Finding> {
    let transport = match postgres.transport() {
        PostgresTransport::Tls => passed("transport", "TLS, and its certificate is verified"),
        PostgresTransport::Plain => {
            passed("transport", "in clear, as storage.url says, or on this machine")
        }
    };
    let health = match connect_postgres(postgres).await {
        Ok(store) => store.health().await.map_err(explain),
        // The store's own finding says why.
        Err(_) => return vec![transport],
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
        let says = format!("version {major}.{minor}; it must be {VERSION_MIN} or later");
        failed("PostgreSQL", says)
    } else {
        passed("PostgreSQL", format!("version {major}.{minor}"))
    }];
    findings.push(check_durability(health));
    if health.is_superuser {
        findings.push(warning(
            "role",
            "we are a superuser, or may pass by row-level security, so that the second wall between \
             tenants does not hold us; use a role with the rights that it needs and no more",
        ));
    } else {
        findings.push(passed("role", "we are no superuser, and row-level security holds us"));
    }
    let maximum = health.connections_max.and_then(|it| usize::try_from(it).ok());
    if let Some(maximum) = maximum.filter(|it| connections >= *it) {
        let says = format!(
            "storage.connections is {connections}, and all nodes and others together may have {maximum}"
        );
        findings.push(warning("connections", says));
    }
    findings
}

fn check_durability(health: &ServerHealth) -> Finding {
    let has = |name: &str, value: &str| {
        health.durability.iter().any(|(it, text)| *it == name && text == value)
    };
    if has("fsync", "off") {
        return failed("durability", "fsync is off: acknowledged writes are lost with the power");
    }
    if has("synchronous_commit", "off") {
        return failed(
            "durability",
            "synchronous_commit is off: acknowledged writes of the last moment are lost when \
             PostgreSQL ends; ALTER ROLE … SET synchronous_commit = on",
        );
    }
    if has("synchronous_commit", "local") {
        return warning(
            "durability",
            "synchronous_commit is local: a standby that takes over may lack acknowledged writes",
        );
    }
    passed("durability", "a commit is on disk before it is acknowledged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::CheckVerdict;

    fn verdicts(health: &ServerHealth, connections: usize) -> Vec<(&'static str, CheckVerdict)> {
        assess_health(health, connections).into_iter().map(|it| (it.check, it.verdict)).collect()
    }

    #[test]
    fn settings_that_lose_acknowledged_writes_are_reported_as_errors() {
        use CheckVerdict::{Failed, Passed, Warning};
        let of = |fsync: &str, commit: &str| ServerHealth {
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
        check(&of("on", "on"), Passed);
        check(&of("on", "remote_apply"), Passed);
        check(&of("on", "local"), Warning);
        check(&of("on", "off"), Failed);
        check(&of("off", "on"), Failed);
        let good = [("PostgreSQL", Passed), ("durability", Passed), ("role", Passed)];
        assert_eq!(verdicts(&of("on", "on"), 16), good);
        let mighty = ServerHealth { is_superuser: true, version: 130_009, ..of("on", "on") };
        let expected = [
            ("PostgreSQL", Failed),
            ("durability", Passed),
            ("role", Warning),
            ("connections", Warning),
        ];
        assert_eq!(verdicts(&mighty, 100), expected);
        // An engine that knows none of it has nothing to be blamed for.
        let silent = ServerHealth { durability: Vec::new(), connections_max: None, ..of("", "") };
        assert_eq!(verdicts(&silent, 16), good);
    }
}

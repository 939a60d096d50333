//! The server that a vault on PostgreSQL is on: whether what it acknowledges is there for good, and
//! who we are to it.

use scrip_server::{
    config::Settings,
    storage::{connect, explain},
};
use scrip_store::postgres::{Health, PostgresSettings, Transport};

use crate::commands::doctor::{Finding, bad, good, warning};

/// What we speak; before it, there are statements that we use and it has not.
const VERSION_LEAST: i32 = 14;

pub(super) async fn look(settings: &Settings, postgres: PostgresSettings) -> Vec<Finding> {
    let transport = match postgres.transport() {
        Transport::Tls => good("transport", "TLS, and its certificate is verified"),
        Transport::Plain => good("transport", "in clear, as storage.url says, or on this machine"),
    };
    let health = match connect(postgres).await {
        Ok(store) => store.health().await.map_err(explain),
        // The store's own finding says why.
        Err(_) => return vec![transport],
    };
    let mut findings = vec![transport];
    match health {
        Ok(it) => findings.extend(judge(&it, settings.storage.connections.get())),
        Err(error) => findings.push(bad("PostgreSQL", format!("{error:#}"))),
    }
    findings
}

fn judge(health: &Health, connections: usize) -> Vec<Finding> {
    let (major, minor) = (health.version / 10_000, health.version % 10_000);
    let mut findings = vec![if major < VERSION_LEAST {
        let says = format!("version {major}.{minor}; it must be {VERSION_LEAST} or later");
        bad("PostgreSQL", says)
    } else {
        good("PostgreSQL", format!("version {major}.{minor}"))
    }];
    findings.push(durability(health));
    if health.is_superuser {
        findings.push(warning(
            "role",
            "we are a superuser, or may pass by row-level security, so that the second wall between \
             tenants does not hold us; use a role with the rights that it needs and no more",
        ));
    } else {
        findings.push(good("role", "we are no superuser, and row-level security holds us"));
    }
    let most = health.connections_max.and_then(|it| usize::try_from(it).ok());
    if let Some(most) = most.filter(|it| connections >= *it) {
        let says = format!(
            "storage.connections is {connections}, and all nodes and others together may have {most}"
        );
        findings.push(warning("connections", says));
    }
    findings
}

fn durability(health: &Health) -> Finding {
    let has = |name: &str, value: &str| {
        health.durability.iter().any(|(it, text)| *it == name && text == value)
    };
    if has("fsync", "off") {
        return bad("durability", "fsync is off: acknowledged writes are lost with the power");
    }
    if has("synchronous_commit", "off") {
        return bad(
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
    good("durability", "a commit is on disk before it is acknowledged")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Verdict;

    fn verdicts(health: &Health, connections: usize) -> Vec<(&'static str, Verdict)> {
        judge(health, connections).into_iter().map(|it| (it.check, it.verdict)).collect()
    }

    #[test]
    fn what_would_lose_a_write_is_wrong() {
        use Verdict::{Bad, Good, Warning};
        let of = |fsync: &str, commit: &str| Health {
            version: 150_004,
            durability: vec![
                ("synchronous_commit", commit.to_owned()),
                ("fsync", fsync.to_owned()),
            ],
            is_superuser: false,
            connections_max: Some(100),
        };
        let check = |health: &Health, expected| assert_eq!(verdicts(health, 16)[1].1, expected);
        check(&of("on", "on"), Good);
        check(&of("on", "remote_apply"), Good);
        check(&of("on", "local"), Warning);
        check(&of("on", "off"), Bad);
        check(&of("off", "on"), Bad);
        let good = [("PostgreSQL", Good), ("durability", Good), ("role", Good)];
        assert_eq!(verdicts(&of("on", "on"), 16), good);
        let mighty = Health { is_superuser: true, version: 130_009, ..of("on", "on") };
        let expected = [
            ("PostgreSQL", Bad),
            ("durability", Good),
            ("role", Warning),
            ("connections", Warning),
        ];
        assert_eq!(verdicts(&mighty, 100), expected);
        // An engine that knows none of it has nothing to be blamed for.
        let silent = Health { durability: Vec::new(), connections_max: None, ..of("", "") };
        assert_eq!(verdicts(&silent, 16), good);
    }
}

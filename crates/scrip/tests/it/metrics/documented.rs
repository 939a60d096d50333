//! The table of metrics, the alerts and the dashboard name exactly the metrics that the server
//! exports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use scrip_server::metrics::key::MetricsKey;
use serde_json::Value;

use crate::{harness::server::TestServer, metrics::endpoint::scrape};

fn read_document(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Returns the name and the type of each metric family that a server exports.
fn scraped_families() -> BTreeSet<(String, String)> {
    let key = MetricsKey::parse("the-key-of-the-operator").unwrap();
    let server = TestServer::start_with(|app| app.node.metrics_key = Some(key));
    scrape(&server).families.into_iter().map(|(name, it)| (name, it.kind)).collect()
}

/// Returns the metric families that a text names.
fn families_in(text: &str, families: &BTreeSet<(String, String)>) -> BTreeSet<String> {
    let is_name_char = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words = text.split(|it: char| !is_name_char(it)).filter(|it| it.starts_with("scrip_"));
    let family = |word: &str| {
        let is_histogram =
            |name: &str| families.contains(&(name.to_owned(), "histogram".to_owned()));
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|it| word.strip_suffix(it));
        base.filter(|it| is_histogram(it)).unwrap_or(word).to_owned()
    };
    words.map(family).collect()
}

#[test]
fn monitoring_guide_lists_exactly_the_scraped_metrics() {
    let scraped_metrics = scraped_families();
    let text = read_document("monitoring.md");
    let rows = text.lines().filter_map(|it| it.strip_prefix("| `scrip_"));
    let documented: BTreeSet<_> = rows
        .map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let name = cells.next().unwrap().trim_end_matches('`');
            (format!("scrip_{name}"), cells.next().unwrap().to_owned())
        })
        .collect();
    assert_eq!(documented, scraped_metrics);
    let names: BTreeSet<_> = scraped_metrics.iter().map(|(name, _)| name.clone()).collect();
    for family in families_in(&text, &scraped_metrics) {
        assert!(names.contains(&family), "monitoring.md names the unknown metric {family}");
    }
}

#[test]
fn dashboard_uses_only_existing_metrics() {
    let scraped_metrics = scraped_families();
    let names: BTreeSet<_> = scraped_metrics.iter().map(|(name, _)| name.clone()).collect();
    let dashboard: Value = serde_json::from_str(&read_document("grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut queries = 0;
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let query_metrics = families_in(query, &scraped_metrics);
            assert!(!query_metrics.is_empty(), "{title}: {query}");
            for family in query_metrics {
                assert!(names.contains(&family), "{title} asks for {family}");
            }
            queries += 1;
        }
    }
    assert!(queries >= 20, "{queries}");
    let ids: BTreeSet<_> = panels.iter().map(|it| it["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
}

/// Returns the expression of each alert in the guide.
fn alert_expressions() -> BTreeMap<String, String> {
    let text = read_document("monitoring.md");
    let rules = text.split("- alert: ").skip(1);
    let to_alert = |rule: &str| {
        let name = rule.split_whitespace().next().unwrap().to_owned();
        let expression = rule.split_once("expr:").unwrap().1;
        let end = ["        for:", "        annotations:", "```"]
            .iter()
            .filter_map(|it| expression.find(it))
            .min()
            .unwrap_or(expression.len());
        (name, expression[..end].trim().to_owned())
    };
    rules.map(to_alert).collect()
}

#[test]
fn alerts_cover_each_node_and_each_reason_for_not_being_ready() {
    let alerts = alert_expressions();
    // The metrics of the other nodes still exist when one node is down.
    assert_eq!(alerts["ScripDown"], r#"up{job="scrip"} == 0 or absent(up{job="scrip"})"#);
    assert_eq!(alerts["ScripSealed"], "scrip_sealed == 1");
    assert_eq!(alerts["ScripNotReady"], "scrip_not_ready == 1");
    // A commit that waits for a standby of PostgreSQL is no problem of the disk.
    assert_eq!(alerts["ScripDiskFull"], r#"scrip_not_ready{reason="disk_full"} == 1"#);
    assert!(alerts["ScripCommitsFail"].contains(r#"scrip_not_ready{reason="commit_failed"} == 1"#));
    assert!(alerts["ScripDiskLow"].contains("scrip_disk_free_bytes < 0.1 * scrip_disk_size_bytes"));
    assert!(alerts["ScripStoreUnreachable"].contains(r#"reason="store_unreachable""#));
}

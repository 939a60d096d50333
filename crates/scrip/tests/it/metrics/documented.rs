//! The table of metrics, the alerts and the dashboard name exactly the metrics that the server
//! exports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use scrip_api::{app::readiness::NotReadyReason, metrics::label::Label};
use scrip_server::node::metrics_key::MetricsKey;
use serde_json::Value;

use crate::{harness::server::TestServer, metrics::endpoint::scrape};

fn read_document(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join(name));
    assert!(text.is_ok(), "{name} cannot be read");
    text.unwrap()
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
    let text = read_document("docs/operate/monitoring.md");
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
    let dashboard: Value =
        serde_json::from_str(&read_document("deploy/grafana-dashboard.json")).unwrap();
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

/// One alert of the file for Prometheus.
struct Alert {
    expression: String,
    /// The text after the name of an attribute, up to the end of its line.
    attributes: BTreeMap<&'static str, String>,
}

/// The attributes of an alert, apart from its expression.
const ALERT_ATTRIBUTES: [&str; 3] = ["labels: { severity: ", "summary: ", "runbook: "];

fn alerts() -> BTreeMap<String, Alert> {
    let text = read_document("deploy/alerts.yml");
    let rules = text.split("- alert: ").skip(1);
    let to_alert = |rule: &str| {
        let name = rule.split_whitespace().next().unwrap().to_owned();
        let expression = rule.split_once("expr:").unwrap().1;
        let end = ["        for:", "        labels:"].iter().filter_map(|it| expression.find(it));
        let expression = expression[..end.min().unwrap()].trim().to_owned();
        let attribute = |prefix: &'static str| {
            let line = rule.lines().find_map(|it| it.trim().strip_prefix(prefix));
            (prefix, line.unwrap_or_default().trim_end_matches('}').trim().to_owned())
        };
        let attributes = ALERT_ATTRIBUTES.map(attribute).into_iter().collect();
        (name, Alert { expression, attributes })
    };
    rules.map(to_alert).collect()
}

#[test]
fn alerts_cover_each_node_and_each_reason_for_not_being_ready() {
    let alerts = alerts();
    let expression = |name: &str| alerts[name].expression.as_str();
    // The metrics of the other nodes still exist when one node is down.
    assert_eq!(expression("ScripDown"), r#"up{job="scrip"} == 0 or absent(up{job="scrip"})"#);
    assert_eq!(expression("ScripSealed"), "scrip_sealed == 1");
    assert_eq!(expression("ScripNotReady"), "scrip_not_ready == 1");
    // A commit that waits for a standby of PostgreSQL is no problem of the disk.
    assert_eq!(expression("ScripDiskFull"), r#"scrip_not_ready{reason="disk_full"} == 1"#);
    assert_eq!(expression("ScripWaitsForShares"), r#"scrip_not_ready{reason="shares"} == 1"#);
    assert_eq!(expression("ScripUnlockMethodFails"), "scrip_unlock_ok == 0");
    let rule = expression("ScripCommitsFail");
    assert!(rule.contains(r#"scrip_not_ready{reason="commit_failed"} == 1"#));
    let disk_low = expression("ScripDiskLow");
    assert!(disk_low.contains("scrip_disk_free_bytes < 0.1 * scrip_disk_size_bytes"));
    assert!(expression("ScripStoreUnreachable").contains(r#"reason="store_unreachable""#));
}

#[test]
fn alerts_use_only_existing_metrics() {
    let scraped_metrics = scraped_families();
    let names: BTreeSet<_> = scraped_metrics.iter().map(|(name, _)| name.clone()).collect();
    for (alert, Alert { expression, .. }) in alerts() {
        for family in families_in(&expression, &scraped_metrics) {
            assert!(names.contains(&family), "{alert} asks for {family}");
        }
    }
}

/// Every reason why a server is not ready has a row in the guide.
#[test]
fn monitoring_guide_describes_every_reason_for_not_being_ready() {
    let text = read_document("docs/operate/monitoring.md");
    let section = text.split("### Readiness").nth(1).unwrap().split("### ").next().unwrap();
    let rows: Vec<_> = section.lines().filter(|it| it.starts_with("| `")).collect();
    for reason in NotReadyReason::ALL {
        let cell = format!("`{}`", reason.as_str());
        let is_described = rows.iter().any(|it| it.split('|').nth(1).unwrap().contains(&cell));
        assert!(is_described, "{cell}");
    }
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let is_kept = |it: &char| it.is_alphanumeric() || [' ', '-', '_'].contains(it);
    heading.to_lowercase().chars().filter(is_kept).collect::<String>().replace(' ', "-")
}

#[test]
fn each_alert_has_a_severity_a_summary_and_a_runbook_that_names_it() {
    let runbook_index = read_document("docs/operate/README.md");
    for (name, Alert { attributes, .. }) in alerts() {
        let [severity, summary, runbook] = ALERT_ATTRIBUTES.map(|it| attributes[it].as_str());
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        assert!(summary.len() > 20, "{name}: {summary}");
        let (page, section) = runbook.split_once('#').unwrap_or((runbook, ""));
        let text = read_document(page);
        let headings = text.lines().filter(|it| it.starts_with('#'));
        let mut anchors = headings.map(|it| anchor(it.trim_start_matches('#').trim()));
        let has_section = section.is_empty() || anchors.any(|it| it == section);
        assert!(has_section, "{name}: {page} has no section {section}");
        assert!(runbook_index.contains(&format!("`{name}`")), "{name} is not in the runbook");
    }
}

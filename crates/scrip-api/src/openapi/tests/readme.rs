//! Compares the first page of the repository with the OpenAPI document and the missing features.

use scrip_core::types::MissingFeature;

use crate::openapi::document;

const README: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
const MOVING: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/coming-from-the-hosted-service.md"
));

/// Each tag of the document, and the beginning of its row in the table of features.
const ROWS: [(&str, &str); 14] = [
    ("Tokens", "Tokenization"),
    ("Token intents", "Token intents"),
    ("Applications", "Access control"),
    ("API keys", "Access control"),
    ("Proxies", "Proxy"),
    ("Client encryption keys", "Client encryption"),
    ("Webhooks", "Webhooks"),
    ("Sessions", "Access control"),
    ("3-D Secure", "3-D Secure"),
    ("Tenant", "Access control"),
    ("Enrichments", "Card details"),
    ("Logs", "Audit trail"),
    ("Connections", "Connection formulas"),
    ("Service", "OpenAPI"),
];

/// The first cell of each row in the table of features.
fn feature_rows() -> Vec<&'static str> {
    let section = README.split("## Features").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|it| it.strip_prefix("| ")).skip(1);
    rows.map(|it| it.split('|').next().unwrap().trim()).collect()
}

/// The list of what the server does not do.
fn missing_items() -> Vec<String> {
    let list = README.split("**What it does not do yet**:").nth(1).unwrap();
    let list = list.split("No independent party").next().unwrap().trim().trim_end_matches('.');
    list.split(';').map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn readme_has_a_feature_for_each_tag_of_the_document() {
    let (rows, tags) = (feature_rows(), document()["tags"].as_array().unwrap());
    assert!(rows.len() > 20, "{rows:?}");
    for tag in tags.iter().map(|it| it["name"].as_str().unwrap()) {
        let row = ROWS.iter().find(|(name, _)| *name == tag);
        let (_, row) = row.unwrap_or_else(|| panic!("{tag} has no row in this table"));
        assert!(rows.iter().any(|it| it.starts_with(row)), "README.md has no feature {row}");
    }
    assert_eq!(ROWS.len(), tags.len(), "a tag was removed");
}

#[test]
fn readme_denies_exactly_the_missing_features() {
    let items = missing_items();
    for feature in MissingFeature::ALL {
        let named = items.iter().filter(|it| it.starts_with(feature.as_str()));
        assert_eq!(named.count(), 1, "{}: {items:?}", feature.as_str());
    }
    assert_eq!(items.len(), MissingFeature::ALL.into_iter().count(), "{items:?}");
}

/// The table for clients of the hosted service names each feature in its own words.
#[test]
fn page_for_clients_of_the_hosted_service_names_each_missing_feature() {
    let section = MOVING.split("## Missing features").nth(1).unwrap().to_lowercase();
    for feature in MissingFeature::ALL {
        let words = feature.as_str().to_lowercase().replace("requests for ", "");
        for word in words.split([',', ' ']).filter(|it| it.len() > 3) {
            let word = word.trim_end_matches('s');
            assert!(section.contains(word), "{}: {word}", feature.as_str());
        }
    }
}

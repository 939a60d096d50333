//! Compares the examples of the OpenAPI document with rendered responses.

use scrip_core::{
    Timestamp,
    card::TokenType,
    policy::{DeduplicationBehavior, Quotas, TenantSettings},
    store::{TenantUsage, TokenTypeUsage},
    types::TenantKind,
};
use serde_json::{Value, json};

use crate::{
    openapi::{document, tests::assert_examples},
    wire::policy::tenant::{QuotasBody, SETTINGS, TenantBody, body, settings_to_text},
};

#[test]
fn documented_tenant_examples_match_rendered_bodies() {
    assert_examples("Tenant", [example()]);
    assert_examples("Quotas", [json!(QuotasBody(&Quotas::default_for(TenantKind::Test)))]);
}

/// The document lists all accepted settings, each with its allowed values.
#[test]
fn documented_settings_and_values_match_the_code() {
    let candidate_values = ["true", "false"].into_iter();
    let candidate_values =
        candidate_values.chain(DeduplicationBehavior::ALL.map(DeduplicationBehavior::as_str));
    let candidate_values: Vec<_> = candidate_values.collect();
    let schemas = &document()["components"]["schemas"];
    for (schema, null) in [("Tenant", None), ("TenantUpdate", Some(Value::Null))] {
        let documented = schemas[schema]["properties"]["settings"]["properties"].as_object();
        let documented = documented.unwrap();
        assert_eq!(documented.len(), SETTINGS.len(), "{schema}");
        for (name, _, set) in SETTINGS {
            let accepts =
                |it: &&&'static str| set(&mut TenantSettings::default(), Some(it)).is_some();
            let accepted_values =
                candidate_values.iter().filter(accepts).map(|it| json!(it)).chain(null.clone());
            let accepted_values = accepted_values.collect::<Vec<_>>();
            assert_eq!(
                documented[*name]["enum"],
                json!(accepted_values),
                "{schema}.settings.{name}"
            );
        }
    }
}

fn example() -> Value {
    json!(TenantBody {
        id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
        name: "Acme",
        r#type: TenantKind::Test.as_str(),
        settings: settings_to_text(&TenantSettings::default()),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
        modified_by: Some("0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        modified_at: Some("2026-11-02T10:00:00+00:00".to_owned()),
    })
}

#[test]
fn documented_usage_example_matches_rendered_body() {
    let last_created_at = Timestamp { unix_ms: 1_793_525_400_000 };
    let card = TokenTypeUsage { token_type: TokenType::Card, count: 12, last_created_at };
    let usage = TenantUsage { types: vec![card], created: 3, active: 4 };
    assert_examples("TenantUsage", [json!(body(&usage))]);
}

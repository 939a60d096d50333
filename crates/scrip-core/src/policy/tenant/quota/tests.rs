//! The text form of quotas, and their limits.

use super::*;

#[test]
fn default_quotas_match_the_published_api() {
    let quotas = Quotas::default_for(TenantKind::Production);
    let expected = [
        ("log_retention", "365d"),
        ("tokenize_limit", "5"),
        ("detokenize_limit", "5"),
        ("proxy_token_limit", "20"),
        ("webhook_limit", "5"),
        ("cvc_retention", "1h"),
        ("token_intent_retention", "24h"),
        ("rate_limit", "default"),
        ("threeds_access", "false"),
        ("number_guesses_day", "20"),
        ("number_guesses_quarter", "40"),
        ("number_guesses_application", "1000"),
        ("search_misses", "20"),
        ("rejected_evaluations", "20"),
        ("deletion_grace", "24h"),
    ];
    let listed = quotas.list();
    assert_eq!(listed.len(), expected.len());
    for ((name, value), (expected_name, expected_value)) in listed.iter().zip(expected) {
        assert_eq!((*name, value.as_str()), (expected_name, expected_value));
    }
    let test_quotas = Quotas::default_for(TenantKind::Test);
    assert!(test_quotas.threeds_access);
    assert_eq!(
        (
            test_quotas.number_guesses_day,
            test_quotas.search_misses,
            test_quotas.rejected_evaluations()
        ),
        (QuotaLimit::Off, QuotaLimit::Off, QuotaLimit::Off)
    );
    assert_eq!(test_quotas.deletion_grace(), Duration::ZERO);
    assert_eq!(test_quotas.log_retention_seconds, DAY);
}

#[test]
fn listed_quotas_can_be_set_and_round_trip() {
    let mut quotas = Quotas::default_for(TenantKind::Test);
    let values = [
        ("log_retention", "30d"),
        ("tokenize_limit", "200"),
        ("detokenize_limit", "1"),
        ("proxy_token_limit", "40"),
        ("webhook_limit", "100"),
        ("cvc_retention", "15m"),
        ("token_intent_retention", "90s"),
        ("rate_limit", "250%"),
        ("threeds_access", "false"),
        ("number_guesses_day", "30"),
        ("number_guesses_quarter", "off"),
        ("number_guesses_application", "100000"),
        ("search_misses", "1"),
        ("rejected_evaluations", "off"),
        ("deletion_grace", "7d"),
    ];
    for (name, value) in values {
        quotas.set(name, value).unwrap();
    }
    let listed: Vec<_> = quotas.list();
    for ((name, value), (_, expected)) in listed.iter().zip(values) {
        assert_eq!(value, expected, "value of {name}");
    }
    assert_eq!(Quotas::from_text(&quotas.to_text()), Some(quotas));
    assert_eq!(Quotas::from_text("{}"), None);
}

/// The MAC of a tenant covers this text.
#[test]
fn quotas_from_before_proxied_calls_keep_their_text() {
    let text = r#"{"log_retention_seconds":86400,"tokenize_limit":5,"detokenize_limit":5,"cvc_retention_seconds":3600,"token_intent_retention_seconds":86400,"rate_limit":"default","threeds_access":false,"deletion_grace_seconds":86400,"number_guesses_day":{"count":20},"number_guesses_quarter":{"count":40},"number_guesses_application":{"count":1000},"search_misses":{"count":20}}"#;
    let mut quotas = Quotas::from_text(text).unwrap();
    // The default of new tenants is longer.
    let default = Quotas::default_for(TenantKind::Production);
    assert_eq!(quotas, Quotas { log_retention_seconds: DAY, ..default });
    quotas.proxy_token_limit = 21;
    assert!(quotas.to_text().contains(r#""detokenize_limit":5,"proxy_token_limit":21,"#));
    assert_eq!(Quotas::from_text(&quotas.to_text()), Some(quotas));
    // A second text of the same quotas would have another MAC.
    let with_default = quotas.to_text().replace(":21,", ":20,");
    assert_eq!(Quotas::from_text(&with_default), None);
    quotas.webhook_limit = 6;
    assert!(quotas.to_text().contains(r#""proxy_token_limit":21,"webhook_limit":6,"#));
    let with_default = quotas.to_text().replace(":6,", ":5,");
    assert_eq!(Quotas::from_text(&with_default), None);
}

/// Earlier versions allowed 1,000 tokens. The text stays, because the MAC covers it.
#[test]
fn stored_tokenize_limit_above_the_maximum_is_reduced_on_use() {
    let stored = Quotas { tokenize_limit: 1000, ..Quotas::default_for(TenantKind::Test) };
    let read = Quotas::from_text(&stored.to_text());
    assert_eq!(read, Some(stored));
    assert_eq!(read.map(|it| it.tokens_per_request()), Some(TOKENIZE_LIMIT_MAX));
}

#[test]
fn invalid_quota_values_are_rejected() {
    let mut quotas = Quotas::default_for(TenantKind::Test);
    let original = quotas;
    let invalid_values = [
        ("log_retention", "59m"),
        ("log_retention", "1y"),
        ("log_retention", ""),
        ("log_retention", "99999999999999999999d"),
        ("cvc_retention", "25h"),
        ("cvc_retention", "-1h"),
        ("tokenize_limit", "0"),
        ("tokenize_limit", "201"),
        ("tokenize_limit", "+5"),
        ("webhook_limit", "0"),
        ("webhook_limit", "101"),
        ("rate_limit", "0%"),
        ("rate_limit", "+5%"),
        ("rate_limit", "fast"),
        ("threeds_access", "yes"),
        ("number_guesses_day", "0"),
        ("number_guesses_quarter", "100001"),
        ("search_misses", "unlimited"),
        ("deletion_grace", "31d"),
        ("unknown_quota", "1"),
    ];
    for (name, value) in invalid_values {
        assert!(quotas.set(name, value).is_err(), "{name} accepts {value}");
    }
    assert_eq!(quotas, original);
}

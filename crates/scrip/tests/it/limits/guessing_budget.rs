//! The guessing budget: how many numbers of one group a caller without a reveal right may try.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    policy::{AccessPolicy, AccessRule, Quotas, TenantSettings, tenant::quota::QuotaLimit},
    types::{
        ApplicationKind::{self, Management, Private, Public},
        Permission::{self, LogRead, TokenCreate, TokenRead, TokenSearch, TokenUpdate},
        Permissions, TenantKind,
        Transform::{Mask, Reveal},
    },
};
use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::{
    harness::server::grant,
    limits::guessing_budget_harness::{GuessingBudgetHarness, card, lookalikes},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn number_21_of_a_group_and_repeats_get_no_fingerprint() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let public = harness.keys.public.clone();
    let numbers = lookalikes("411111", 21);
    let (last, first) = numbers.split_last().unwrap();
    harness.spend_budget(&public, first);
    assert_eq!(harness.create_and_get_fingerprint(&public, last), Value::Null, "the 21st");
    let repeated = harness.create_and_get_fingerprint(&public, &first[0]);
    assert_eq!(repeated, Value::Null, "a repeated number still has a fingerprint");
    let of_another_group = harness.create_and_get_fingerprint(&public, &lookalikes("422222", 1)[0]);
    assert!(of_another_group.is_string(), "another group");
    harness.server.clock.advance(DAY);
    let later = harness.create_and_get_fingerprint(&public, last);
    assert!(later.is_string(), "no fingerprint although the window has passed");
}

#[test]
fn forty_numbers_of_a_group_in_90_days_exhaust_the_budget() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 41);
    harness.spend_budget(&harness.masked, &numbers[..20]);
    harness.server.clock.advance(DAY);
    harness.spend_budget(&harness.masked, &numbers[20..40]);
    harness.server.clock.advance(DAY);
    assert_eq!(harness.create_and_get_fingerprint(&harness.masked, &numbers[40]), Value::Null);
    harness.server.clock.advance(DAY * 89);
    assert!(harness.create_and_get_fingerprint(&harness.masked, &numbers[40]).is_string());
}

#[test]
fn exhausted_public_budget_does_not_affect_the_backend() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 21);
    harness.spend_budget(&harness.keys.public, &numbers[..20]);
    assert_eq!(harness.create_and_get_fingerprint(&harness.keys.public, &numbers[20]), Value::Null);
    assert!(harness.create_and_get_fingerprint(&harness.masked, &numbers[20]).is_string());
    harness.spend_budget(&harness.keys.private, &numbers);
}

#[test]
fn callers_with_a_reveal_right_are_not_counted() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    harness.spend_budget(&harness.keys.private, &lookalikes("411111", 45));
    assert_eq!(harness.server.count_rows(&harness.keys.tenant, "guesses"), 0);
}

/// Creates a key with these permissions and this rule.
fn key_with_access(
    harness: &GuessingBudgetHarness,
    kind: ApplicationKind,
    permissions: &[Permission],
    rule: AccessRule,
) -> String {
    let access =
        AccessPolicy { permissions: Permissions::from_list(permissions), rules: vec![rule] };
    harness.server.key_with_access(&harness.keys.tenant, kind, access)
}

fn card_in_own_container(number: &str) -> Value {
    json!({"type": "card", "data": {"number": number}, "containers": ["/own/"]})
}

/// Creates one token more in `/own/` than the budget allows. Fingerprints are the same in all
/// containers of a tenant.
#[track_caller]
fn check_counted_in_own_container(harness: &GuessingBudgetHarness, key: &str) {
    let numbers = lookalikes("411111", 21);
    for (at, number) in numbers.iter().enumerate() {
        let created = harness.server.create_token_ok(key, &card_in_own_container(number));
        assert_eq!(created["fingerprint"].is_string(), at < 20, "number {at}");
    }
}

#[test]
fn guessing_budget_applies_to_a_caller_with_reveal_right_on_only_one_container() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let own = grant("/own/", Reveal, &[TokenCreate, TokenRead]);
    let rules = vec![own, grant("/pci/", Mask, &[TokenRead])];
    let key = harness.server.key_with_rules(&harness.keys.tenant, rules);
    check_counted_in_own_container(&harness, &key);
}

#[test]
fn reveal_right_on_one_container_lifts_no_budget_of_a_caller_that_creates_elsewhere() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let rule = grant("/own/", Reveal, &[TokenCreate, TokenRead]);
    let key = key_with_access(&harness, Private, &[TokenCreate], rule);
    check_counted_in_own_container(&harness, &key);
}

#[test]
fn public_key_with_a_reveal_right_is_counted() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let rule = grant("/own/", Reveal, &[TokenCreate, TokenUpdate]);
    let key = key_with_access(&harness, Public, &[], rule);
    check_counted_in_own_container(&harness, &key);
}

#[test]
fn replayed_request_of_a_public_key_with_a_reveal_right_is_counted() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let rule = grant("/own/", Reveal, &[TokenCreate, TokenUpdate]);
    let key = key_with_access(&harness, Public, &[], rule);
    let numbers = lookalikes("411111", 20);
    let create = |number: &str| {
        let body = card_in_own_container(number);
        harness.server.post_once(&key, "/tokens", "order-7", &body).status
    };
    assert_eq!(create(&numbers[0]), 201);
    for number in &numbers[1..] {
        assert_eq!(create(number), 422);
    }
    assert_eq!(create(&numbers[0]), 422, "exhausted: an equal request must not be replayed");
}

#[test]
fn caller_that_reads_only_its_own_containers_in_clear_is_counted() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let rules = ["/own/", "/pci/"].map(|it| grant(it, Reveal, &[TokenCreate, TokenRead]));
    let key = harness.server.key_with_rules(&harness.keys.tenant, rules.into());
    check_counted_in_own_container(&harness, &key);
}

#[test]
fn caller_with_a_reveal_rule_on_the_root_is_not_counted() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    // A rule on the root has precedence over plain permissions and applies to every container.
    let rule = grant("/", Reveal, &[TokenRead]);
    let of_root = key_with_access(&harness, Private, &[TokenCreate, TokenSearch], rule);
    harness.spend_budget(&of_root, &lookalikes("411111", 45));
    harness.flush_counts();
    assert_eq!(harness.server.count_rows(&harness.keys.tenant, "guesses"), 0);
}

#[test]
fn test_tenants_are_not_counted() {
    let harness = GuessingBudgetHarness::new(TenantKind::Test);
    harness.spend_budget(&harness.keys.public, &lookalikes("411111", 45));
    harness.flush_counts();
    assert_eq!(harness.server.count_rows(&harness.keys.tenant, "guesses"), 0);
}

#[test]
fn constant_fingerprint_expression_does_not_bypass_the_count() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 22);
    for number in &numbers[..20] {
        let body = with_members(card(number), &json!({"fingerprint_expression": "constant"}));
        harness.server.create_token_ok(&harness.keys.public, &body);
    }
    assert_eq!(harness.create_and_get_fingerprint(&harness.keys.public, &numbers[20]), Value::Null);
}

#[test]
fn number_in_metadata_counts_when_the_fingerprint_shows_it() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let guess = |number: &str| {
        let expression = "{{ metadata.guess }}";
        let attributes =
            json!({"fingerprint_expression": expression, "metadata": {"guess": number}});
        let body = with_members(card("4222222222222220"), &attributes);
        harness.server.create_token_ok(&harness.masked, &body)["fingerprint"].clone()
    };
    let numbers = lookalikes("411111", 21);
    for number in &numbers[..20] {
        assert!(guess(number).is_string());
    }
    assert_eq!(guess(&numbers[20]), Value::Null);
}

/// A create with the fingerprint of a guessed number in the metadata, independent of its own data.
struct MetadataGuess {
    token_type: &'static str,
    own_data: Value,
    stored_data: Value,
    /// The text that the default expression of the type returns for the stored data, and
    /// lookalikes.
    texts: Vec<String>,
}

fn metadata_guesses() -> [MetadataGuess; 4] {
    let texts = |text: fn(u32) -> String| (0..21).map(text).collect();
    let bank = |account: &str| json!({"routing_number": "021000021", "account_number": account});
    [
        MetadataGuess {
            token_type: "bank",
            own_data: bank("11115555"),
            stored_data: bank("1000207788"),
            texts: texts(|it| format!("{}7788|021000021", 100_000 + it)),
        },
        MetadataGuess {
            token_type: "us_bank_account_number",
            own_data: json!("1115555"),
            stored_data: json!("1000207799"),
            texts: texts(|it| format!("{}7799", 100_000 + it)),
        },
        MetadataGuess {
            token_type: "social_security_number",
            own_data: json!("000-00-0000"),
            stored_data: json!("123-20-6789"),
            texts: texts(|it| format!("123{it:02}6789")),
        },
        MetadataGuess {
            token_type: "employer_id_number",
            own_data: json!("00-0000000"),
            stored_data: json!("12-3204321"),
            texts: texts(|it| format!("123{it:02}4321")),
        },
    ]
}

#[test]
fn bank_and_identity_numbers_in_metadata_count_when_the_fingerprint_shows_them() {
    for kind in [Private, Public] {
        let harness = GuessingBudgetHarness::new(TenantKind::Production);
        let key = harness.server.key_with_permissions(&harness.keys.tenant, kind, &[TokenCreate]);
        for guess in metadata_guesses() {
            let token_type = guess.token_type;
            let stored = json!({"type": token_type, "data": guess.stored_data});
            let known = harness.server.create_token_ok(&harness.keys.private, &stored);
            let create = |text: &str| {
                let body = json!({
                    "type": token_type,
                    "data": guess.own_data,
                    "fingerprint_expression": "{{ metadata.g }}",
                    "metadata": {"g": text},
                    "deduplicate_token": true,
                });
                harness.server.create_token_ok(&key, &body)
            };
            for text in &guess.texts[..20] {
                assert!(create(text)["fingerprint"].is_string(), "{kind:?} {token_type} {text}");
            }
            let hit = create(&guess.texts[20]);
            assert_eq!(hit["fingerprint"], Value::Null, "{kind:?} {token_type}");
            assert_eq!(hit["_extras"]["deduplicated"], json!(false));
            assert_ne!(hit["id"], known["id"]);
            // The same number as data counts in the same budget.
            let as_data = harness.server.create_token_ok(&key, &stored);
            assert_eq!(as_data["fingerprint"], Value::Null, "{kind:?} {token_type} as data");
        }
    }
}

#[test]
fn patched_metadata_counts_when_the_fingerprint_shows_it() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let body = json!({
        "type": "social_security_number",
        "data": "000-00-0000",
        "fingerprint_expression": "{{ metadata.g }}",
        "metadata": {"g": "none"},
    });
    let id = harness.server.create_token_id(&harness.masked, &body);
    for it in 0..21 {
        let patch = json!({"metadata": {"g": format!("123-{it:02}-6789")}});
        let patched = harness.server.patch_token(&harness.masked, &id, &patch).expect_status(200);
        assert_eq!(patched["fingerprint"].is_string(), it < 20, "guess {it}");
    }
}

#[test]
fn exhausted_budget_disables_deduplication() {
    let settings = TenantSettings { deduplicate_tokens: true, ..TenantSettings::default() };
    let harness = GuessingBudgetHarness::with_settings(TenantKind::Production, settings);
    let numbers = lookalikes("411111", 21);
    let known = harness.server.create_token_ok(&harness.keys.private, &card(&numbers[20]));
    harness.spend_budget(&harness.masked, &numbers[..20]);
    let created = harness.server.create_token_ok(&harness.masked, &card(&numbers[20]));
    assert_ne!(created["id"], known["id"]);
    assert_eq!(created["_extras"]["deduplicated"], json!(false));
    let repeat = harness.server.create_token_ok(&harness.masked, &card(&numbers[0]));
    assert_eq!(repeat["_extras"]["deduplicated"], json!(false));
    assert_eq!(repeat["fingerprint"], Value::Null);
}

#[test]
fn intents_tokenize_and_patch_share_the_budget_and_succeed_when_exhausted() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let (server, key) = (&harness.server, &harness.masked);
    let numbers = lookalikes("411111", 24);
    let intent = |number: &str| server.create_entity(key, "/token-intents", &card(number));
    for number in &numbers[..10] {
        assert!(intent(number)["fingerprint"].is_string());
    }
    harness.spend_budget(key, &numbers[10..18]);
    let both = json!({"a": card(&numbers[18]), "b": card(&numbers[19])});
    let created = server.post(key, "/tokenize", &both).expect_status(200);
    assert!(created["a"]["fingerprint"].is_string() && created["b"]["fingerprint"].is_string());
    // The budget is exhausted now.
    assert_eq!(intent(&numbers[20])["fingerprint"], Value::Null);
    let created = server.post(key, "/tokenize", &json!({"c": card(&numbers[21])}));
    assert_eq!(created.expect_status(200)["c"]["fingerprint"], Value::Null);
    let id = server.create_token_id(key, &card("4222222222222220"));
    let patched = server.patch_token(key, &id, &json!({"data": {"number": numbers[22]}}));
    assert_eq!(patched.expect_status(200)["fingerprint"], Value::Null);
    let stored = server.get_token(&harness.keys.private, &id).expect_status(200);
    assert_eq!(stored["fingerprint"], Value::Null);
    assert_eq!(stored["data"]["number"], numbers[22]);
}

#[test]
fn patch_without_a_number_keeps_the_fingerprint_of_an_exhausted_group() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 20);
    let id = harness.server.create_token_id(&harness.masked, &card(&numbers[0]));
    harness.spend_budget(&harness.masked, &numbers[1..]);
    for patch in [json!({"metadata": {"order": "7"}}), json!({"data": {"expiration_year": 2033}})] {
        let patched = harness.server.patch_token(&harness.masked, &id, &patch).expect_status(200);
        assert!(patched["fingerprint"].is_string(), "{patch}: {patched}");
    }
}

#[test]
fn application_budget_counts_numbers_after_the_first_of_each_group() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let quota = |it| Quotas { number_guesses_application: QuotaLimit::Count(3), ..it };
    harness.server.set_quotas(&harness.keys.tenant, quota);
    for first in ["411111", "411112", "411113", "411114", "411115"] {
        harness.spend_budget(&harness.masked, &lookalikes(first, 1));
    }
    for first in ["411111", "411112", "411113"] {
        harness.spend_budget(&harness.masked, &lookalikes(first, 2)[1..]);
    }
    let (tenant, permissions) = (&harness.keys.tenant, [TokenCreate, TokenRead]);
    let other = harness.server.key_with_permissions(tenant, Private, &permissions);
    let number = &lookalikes("411116", 1)[0];
    assert_eq!(harness.create_and_get_fingerprint(&harness.masked, number), Value::Null);
    assert!(harness.create_and_get_fingerprint(&other, number).is_string());
}

#[test]
fn quota_off_lifts_the_limit() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    harness.server.set_quotas(&harness.keys.tenant, |it| Quotas {
        number_guesses_day: QuotaLimit::Off,
        number_guesses_quarter: QuotaLimit::Off,
        ..it
    });
    harness.spend_budget(&harness.masked, &lookalikes("411111", 45));
}

#[test]
fn bank_accounts_and_identity_numbers_have_separate_groups() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let bank = |account: &str| {
        let data = json!({"routing_number": "021000021", "account_number": account});
        harness.server.create_token_ok(&harness.masked, &json!({"type": "bank", "data": data}))
    };
    let ssn = |number: &str| {
        let body = json!({"type": "social_security_number", "data": number});
        harness.server.create_token_ok(&harness.masked, &body)
    };
    for it in 10..30 {
        assert!(bank(&format!("{it}7777"))["fingerprint"].is_string());
        assert!(ssn(&format!("123-{it}-6789"))["fingerprint"].is_string());
    }
    assert_eq!(bank("307777")["fingerprint"], Value::Null);
    assert!(bank("307778")["fingerprint"].is_string());
    assert_eq!(ssn("123306789")["fingerprint"], Value::Null, "separators change the group");
    assert!(ssn("123-30-6788")["fingerprint"].is_string());
}

/// Together with the routing number, such an account has more parts that can be card numbers than a
/// browser may send.
#[test]
fn account_number_that_begins_with_zeros_has_a_fingerprint_if_a_browser_sends_it() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let data = json!({"routing_number": "021000021", "account_number": "000096316789"});
    let body = json!({"type": "bank", "data": data});
    let created = harness.server.create_token_ok(&harness.keys.public, &body);
    assert!(created["fingerprint"].is_string(), "{created}");
}

#[test]
fn counts_are_shared_by_nodes_and_survive_a_restart() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 21);
    harness.spend_budget(&harness.masked, &numbers[..20]);
    harness.flush_counts();
    let other = harness.server.start_second_node(|app| app.vault.guess_ledger = Arc::default());
    let created = other.create_token_ok(&harness.masked, &card(&numbers[20]));
    assert_eq!(created["fingerprint"], Value::Null);
}

#[test]
fn exhausted_budget_is_recorded_once_and_counted_by_the_metric() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 23);
    harness.spend_budget(&harness.masked, &numbers[..20]);
    for number in &numbers[20..] {
        harness.create_and_get_fingerprint(&harness.masked, number);
    }
    let tenant = &harness.keys.tenant;
    let key = harness.server.key_with_permissions(tenant, Management, &[LogRead]);
    let logs = harness.server.get_path(&key, "/logs?size=100").expect_status(200);
    let records = logs["data"].as_array().unwrap().iter();
    assert_eq!(records.filter(|it| it["operation"] == "spend_budget").count(), 1, "{logs}");
    let exhausted = &harness.server.app.vault.guess_ledger.exhausted;
    let counted = exhausted.iter().find(|it| it.0 == "number_guesses_day");
    assert_eq!(counted, Some(("number_guesses_day", 1)));
    assert!(!logs.to_string().contains(&numbers[0]));
}

#[test]
fn replayed_request_counts_its_number_before_it_is_compared() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let public = harness.server.key_with_permissions(&harness.keys.tenant, Public, &[TokenCreate]);
    let numbers = lookalikes("411111", 22);
    let create = |number: &str| {
        harness.server.post_once(&public, "/tokens", "order-7", &card(number)).status
    };
    assert_eq!(create(&numbers[0]), 201);
    assert_eq!(create(&numbers[0]), 201, "an equal request must be replayed");
    for number in &numbers[1..20] {
        assert_eq!(create(number), 422);
    }
    // The budget is exhausted: equal and different requests must look the same.
    assert_eq!(create(&numbers[0]), 422);
    assert_eq!(create(&numbers[21]), 422);
}

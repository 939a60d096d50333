//! The cost of expressions: one budget per request, and all work is charged.

use scrip_core::types::{Permission::TokenRead, Transform::Mask};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER};

const BUDGET_EXCEEDED: &str = "the expressions of this request exceed the shared evaluation limit";

/// An expression that costs about 6 MiB of charged work over a text of 50,000 characters.
const EXPENSIVE_EXPRESSION: &str =
    "{% for i in (1..120) %}{% if data contains 'y' %}{% endif %}{% endfor %}masked";

fn large_text() -> String {
    "x".repeat(50_000)
}

#[track_caller]
fn expect_rejected(key: &str, path: &str, body: &Value, expected: &str) {
    let response = SERVER.post(key, path, body);
    assert_eq!(response.status, 400, "{}", response.text);
    assert!(response.text.contains(expected), "{}", response.text);
}

#[test]
fn keep_argument_longer_than_256_characters_is_rejected() {
    let data = json!({"text": "x".repeat(125_000), "keep": "y".repeat(125_000)});
    for filter in ["reveal: 0, 0, 'X', data.keep", "card_mask: 'true', 'true', 'X', data.keep"] {
        let mask = format!("{{{{ data.text | {filter} }}}}");
        let body = json!({"type": "token", "data": data, "mask": mask});
        expect_rejected(&ACME.private, "/tokens", &body, "keep takes at most 256 characters");
    }
}

#[test]
fn indexes_of_one_token_share_one_budget() {
    let body_with_indexes = |indexes: usize| {
        let search_indexes = vec![EXPENSIVE_EXPRESSION; indexes];
        json!({"type": "token", "data": large_text(), "search_indexes": search_indexes})
    };
    SERVER.create_token_ok(&ACME.private, &body_with_indexes(2));
    expect_rejected(&ACME.private, "/tokens", &body_with_indexes(3), BUDGET_EXCEEDED);
}

#[test]
fn tokens_of_one_tokenize_request_by_a_public_key_share_one_budget() {
    let token = json!({"type": "token", "data": large_text(), "mask": EXPENSIVE_EXPRESSION});
    let tokens: Vec<_> = vec![token; 5];
    expect_rejected(&ACME.public, "/tokenize", &json!({ "tokens": tokens }), BUDGET_EXCEEDED);
}

#[test]
fn stored_mask_over_the_budget_of_a_request_shows_no_data() {
    let keys = SERVER.create_default_tenant();
    let reader = SERVER.key_with_rule(&keys.tenant, "/", Mask, &[TokenRead]);
    let token = json!({"type": "token", "data": large_text(), "mask": EXPENSIVE_EXPRESSION});
    let ids: Vec<_> = (0..4).map(|_| SERVER.create_token_id(&keys.private, &token)).collect();
    for id in &ids {
        assert_eq!(SERVER.get_token(&reader, id).expect_status(200)["data"], "masked");
    }
    let body: Vec<_> = ids.iter().map(|it| format!("{{{{ {it} }}}}")).collect();
    let values = SERVER.post(&reader, "/detokenize", &json!(body)).expect_status(200);
    let values = values.as_array().unwrap();
    // The work of each mask counts by the next power of two, because the reader may not know its length.
    assert_eq!(values.iter().filter(|it| *it == "masked").count(), 1, "{values:?}");
    assert_eq!(values.iter().filter(|it| it.is_null()).count(), 3, "{values:?}");
    // A list does not fail: it ends its page early and still returns all tokens over several pages.
    let (mut cursor, mut listed_count) = (String::new(), 0);
    for _ in 0..ids.len() {
        let page =
            SERVER.get_path(&reader, &format!("/v2/tokens?size=100{cursor}")).expect_status(200);
        let data = page["data"].as_array().unwrap();
        assert!(data.iter().all(|it| it["data"] == "masked"));
        listed_count += data.len();
        let Some(next) = page["pagination"]["next"].as_str() else { break };
        cursor = format!("&start={next}");
    }
    assert_eq!(listed_count, ids.len());
}

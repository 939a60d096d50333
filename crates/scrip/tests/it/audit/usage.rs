//! Get Tenant Usage.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::server::{
    TenantApiKeys, TestServer, card_body, text_field, unique_card_number,
};

fn get_usage(server: &TestServer, keys: &TenantApiKeys) -> Value {
    server.get_path(&keys.management, "/tenants/self/reports/usage").expect_status(200)
}

#[test]
fn usage_reports_tokens_by_type_and_monthly_active_tokens() {
    let (server, keys) = TestServer::start_with_tenant();
    assert_eq!(
        get_usage(&server, &keys),
        json!({"total_tokens": 0, "token_report": {
            "monthly_active_tokens": 0, "total_tokens": 0, "metrics_by_type": {},
        }})
    );
    let id = server.create_token_id(&keys.private, &card_body(&unique_card_number()));
    server.create_token_ok(&keys.private, &card_body(&unique_card_number()));
    server.create_token_ok(&keys.private, &json!({"id": "one", "type": "token", "data": 1}));
    let request = json!({"type": "token", "data": 2});
    let intent = server.post(&keys.private, "/token-intents", &request).expect_status(201);
    assert_eq!(get_usage(&server, &keys)["total_tokens"], 3);
    let conversion = json!({"token_intent_id": intent["id"]});
    server.create_token_ok(&keys.private, &conversion);
    server.post(&keys.private, "/tokenize", &json!({"a": "b", "c": 3})).expect_status(200);

    let after = get_usage(&server, &keys);
    assert_eq!(after["total_tokens"], 6);
    let tokens = &after["token_report"];
    assert_eq!((&tokens["total_tokens"], &tokens["monthly_active_tokens"]), (&json!(6), &json!(6)));
    assert_eq!(tokens["metrics_by_type"]["card"]["count"], 2);
    assert_eq!(tokens["metrics_by_type"]["token"]["count"], 4);
    assert!(text_field(&tokens["metrics_by_type"]["card"], "last_created_at").ends_with("+00:00"));

    // In a later month only the tokens that are created, read or detokenized in that month count as
    // active, each once.
    server.clock.advance(Duration::from_secs(45 * 24 * 60 * 60));
    let get_active_tokens =
        || get_usage(&server, &keys)["token_report"]["monthly_active_tokens"].clone();
    assert_eq!(get_active_tokens(), 0);
    server.get_path(&keys.private, "/v2/tokens").expect_status(200);
    server.get_token(&keys.public, &id).expect_status(403);
    assert_eq!(get_active_tokens(), 0, "a list or a failed read must not count as use");
    server.get_token(&keys.private, &id).expect_status(200);
    server
        .post(&keys.private, "/detokenize", &json!({"a": format!("{{{{ {id} }}}}")}))
        .expect_status(200);
    assert_eq!(get_active_tokens(), 1);
    server.post(&keys.private, "/detokenize", &json!("{{ one }}")).expect_status(200);
    assert_eq!(get_active_tokens(), 2);
    server.create_token_ok(&keys.private, &json!({"type": "token", "data": 9}));
    assert_eq!(get_active_tokens(), 3);
    server.delete(&keys.private, "/tokens/one").expect_status(204);
    let after = get_usage(&server, &keys);
    assert_eq!((&after["total_tokens"], get_active_tokens()), (&json!(6), json!(3)));
    server.get_path(&keys.private, "/tenants/self/reports/usage").expect_status(403);
}

//! Get Tenant Usage.

use std::time::Duration;

use scrip_core::policy::Settings;
use serde_json::{Value, json};

use crate::harness::server::{Keys, Server, card, new_number, text};

fn report(server: &Server, keys: &Keys) -> Value {
    server.fetch(&keys.management, "/tenants/self/reports/usage").is(200)
}

#[test]
fn tokens_by_type_and_what_is_active_this_month() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    assert_eq!(
        report(&server, &keys),
        json!({"total_tokens": 0, "token_report": {
            "monthly_active_tokens": 0, "total_tokens": 0, "metrics_by_type": {},
        }})
    );
    let id = text(&server.created(&keys.private, &card(&new_number())), "id");
    server.created(&keys.private, &card(&new_number()));
    server.created(&keys.private, &json!({"id": "one", "type": "token", "data": 1}));
    let asked = json!({"type": "token", "data": 2});
    let intent = server.post(&keys.private, "/token-intents", &asked).is(201);
    assert_eq!(report(&server, &keys)["total_tokens"], 3);
    let made = json!({"token_intent_id": intent["id"]});
    server.created(&keys.private, &made);
    server.post(&keys.private, "/tokenize", &json!({"a": "b", "c": 3})).is(200);

    let after = report(&server, &keys);
    assert_eq!(after["total_tokens"], 6);
    let tokens = &after["token_report"];
    assert_eq!((&tokens["total_tokens"], &tokens["monthly_active_tokens"]), (&json!(6), &json!(6)));
    assert_eq!(tokens["metrics_by_type"]["card"]["count"], 2);
    assert_eq!(tokens["metrics_by_type"]["token"]["count"], 4);
    assert!(text(&tokens["metrics_by_type"]["card"], "last_created_at").ends_with("+00:00"));

    // In another month only what is used is active: read, detokenized or updated, each once.
    server.clock.advance(Duration::from_secs(45 * 24 * 60 * 60));
    let active = || report(&server, &keys)["token_report"]["monthly_active_tokens"].clone();
    assert_eq!(active(), 0);
    server.fetch(&keys.private, "/v2/tokens").is(200);
    server.get(&keys.public, &id).is(403);
    assert_eq!(active(), 0, "to be listed or asked for in vain is no use");
    server.get(&keys.private, &id).is(200);
    server.post(&keys.private, "/detokenize", &json!({"a": format!("{{{{ {id} }}}}")})).is(200);
    assert_eq!(active(), 1);
    server.post(&keys.private, "/detokenize", &json!("{{ one }}")).is(200);
    assert_eq!(active(), 2);
    server.created(&keys.private, &json!({"type": "token", "data": 9}));
    assert_eq!(active(), 3);
    server.remove(&keys.private, "/tokens/one").is(204);
    let after = report(&server, &keys);
    assert_eq!((&after["total_tokens"], active()), (&json!(6), json!(3)));
    server.fetch(&keys.private, "/tenants/self/reports/usage").is(403);
}

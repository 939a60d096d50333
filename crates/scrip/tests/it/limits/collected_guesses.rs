//! The guessing budget for tokens that a collecting proxy creates: guesses count for the sender.

use scrip_core::types::{
    ApplicationKind::Private,
    DisclosureRule, DisclosureRules,
    Permission::{ProxyInvoke, TokenCreate, TokenRead},
    TenantKind,
    Transform::{Mask, Reveal},
};
use scrip_testing::destination::behavior::DestinationBehavior;
use serde_json::{Value, json};

use crate::{
    harness::server::text_field,
    limits::guessing_budget_harness::{card, lookalikes},
    proxy::harness::{CreatedProxy, ProxyHarness},
};

const GUESSES: usize = 25;

struct Collection {
    harness: ProxyHarness,
    proxy: CreatedProxy,
    collector_key: String,
}

impl Collection {
    /// A collector with a reveal right on the root is exempt from the budget.
    fn new(disabled: &'static [DisclosureRule], rules: Value) -> Self {
        let token = json!({"type": "card", "data": {"number": "{{ req.card }}"},
            "containers": ["/own/"]});
        Self::with_token_template(disabled, rules, &token)
    }

    /// A proxy that creates the token of a template, and sends its fingerprint to the destination.
    fn with_token_template(
        disabled: &'static [DisclosureRule],
        rules: Value,
        token: &Value,
    ) -> Self {
        let harness = ProxyHarness::start_with_kind(TenantKind::Production, |setup, _| {
            setup.vault.disclosure = DisclosureRules::weakened_for_control_run(disabled);
        });
        let application = harness.create_application(&json!({"rules": rules}));
        let transforms = json!([
            {"type": "tokenize", "options": {"identifier": "card", "token": token}},
            {"type": "append_json", "options": {"location": "$.fingerprint",
                "value": "{{ transform_identifier: 'card' | json: '$.fingerprint' | default: 'none' }}"}},
            {"type": "append_json", "options": {"location": "$.id",
                "value": "{{ transform_identifier: 'card' | json: '$.id' }}"}},
        ]);
        let host = harness.destinations.host(&[DestinationBehavior::Echo]);
        let attributes = json!({"require_auth": false, "request_transforms": transforms,
                        "application": {"id": application.id}});
        let proxy = harness.create_proxy_to(&host, attributes);
        Self { harness, proxy, collector_key: application.key }
    }

    /// Sends guesses through the proxy, and counts the fingerprints that come back.
    fn count_fingerprints(&self, api_key: Option<&str>) -> usize {
        let numbers = lookalikes("411111", GUESSES);
        let has_fingerprint = |number: &&String| {
            let request = self.harness.post_keyless(&self.proxy);
            let request = api_key.into_iter().fold(request, |it, key| it.api_key(key));
            let response = request.json(&json!({"card": number})).send().expect_answer(200);
            !response.text().contains("none")
        };
        numbers.iter().filter(has_fingerprint).count()
    }
}

fn reveal_rules() -> Value {
    json!([{"description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read"]}])
}

#[test]
fn keyless_collection_counts_even_if_the_collector_reveals() {
    let control = Collection::new(&[DisclosureRule::SenderCountsInCollection], reveal_rules());
    assert_eq!(control.count_fingerprints(None), GUESSES, "the control counts too");
    let collection = Collection::new(&[], reveal_rules());
    assert_eq!(collection.count_fingerprints(None), 20);
}

#[test]
fn keyless_collection_does_not_spend_the_budget_of_the_collector() {
    let rules = json!([{"description": "own", "priority": 1, "container": "/", "transform": "mask",
        "permissions": ["token:create", "token:read"]}]);
    let collection = Collection::new(&[], rules);
    assert_eq!(collection.count_fingerprints(None), 20);
    let own = lookalikes("411111", GUESSES + 1);
    let server = &collection.harness.server;
    let created = server.create_token_ok(&collection.collector_key, &card(&own[GUESSES]));
    assert!(created["fingerprint"].is_string(), "{created}");
}

#[test]
fn collection_for_a_sender_with_a_key_counts_for_this_sender() {
    let collection = Collection::new(&[], reveal_rules());
    let (server, tenant) = (&collection.harness.server, &collection.harness.keys.tenant);
    let masked = server.key_with_rule(tenant, "/", Mask, &[TokenCreate, TokenRead, ProxyInvoke]);
    assert_eq!(collection.count_fingerprints(Some(&masked)), 20);
    let number = &lookalikes("411111", GUESSES)[0];
    let own = server.create_token_ok(&masked, &card(number));
    assert_eq!(own["fingerprint"], Value::Null, "the budget of the sender is exhausted");
    let other = server.key_with_permissions(tenant, Private, &[TokenCreate, TokenRead]);
    let created = server.create_token_ok(&other, &card(number));
    assert_eq!(created["fingerprint"], Value::Null, "backends share the group");
    let revealing =
        server.key_with_rule(tenant, "/", Reveal, &[TokenCreate, TokenRead, ProxyInvoke]);
    assert_eq!(collection.count_fingerprints(Some(&revealing)), GUESSES, "both are exempt");
}

/// The owner of the proxy may read the data, and the sender may not: it chooses digits next to it.
#[test]
fn digits_of_the_sender_next_to_a_hidden_number_do_not_change_what_counts() {
    let token = json!({"token_intent_id": "{{ req.intent }}", "metadata": {"m": "{{ req.m }}"},
        "fingerprint_expression": "{{ metadata.m }}-{{ data.number }}"});
    let rules = json!([{"description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read", "token-intent:create"]}]);
    let collection = Collection::with_token_template(&[], rules, &token);
    let (harness, server) = (&collection.harness, &collection.harness.server);
    let sender = harness.key_with_rule("/", Mask, &[TokenCreate, TokenRead, ProxyInvoke]);
    let number = &lookalikes("411111", 1)[0];
    // The text of many digits, which do not repeat, has more parts that can be card numbers than a
    // request may have.
    let many_digits = (1_000..1_100_u32).map(|it| (it * it).to_string()).collect();
    for digits in ["7".to_owned(), many_digits] {
        let intent = server.create_intent_id(&collection.collector_key, &card(number));
        let request = harness.post_keyless(&collection.proxy).api_key(&sender);
        let response = request.json(&json!({"intent": intent, "m": digits})).send();
        let answer: Value = serde_json::from_str(&response.expect_answer(200).text()).unwrap();
        let id = text_field(&answer, "id");
        let token = server.get_token(&collection.collector_key, &id).expect_status(200);
        assert!(token["fingerprint"].is_string(), "{} digits: {token}", digits.len());
    }
}

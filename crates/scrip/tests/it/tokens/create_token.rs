//! Create Token.

use scrip_core::types::{ApplicationKind::Private, Permission};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, card_body, text_field, unique_card_number};

#[track_caller]
fn expect_created(body: Value) -> Value {
    SERVER.create_token_ok(&ACME.private, &body)
}

#[track_caller]
fn expect_rejected(body: Value, attribute: &str) {
    SERVER.create_token(&ACME.private, &body).expect_problem(400, attribute);
}

#[test]
fn card_is_created_with_every_attribute() {
    let number = unique_card_number();
    let mut body = card_body(&number);
    let attributes = json!({
        "id": "every-attribute",
        "containers": ["/PCI/High/", "/customers/"],
        "metadata": {"customer": "7"},
        "mask": {"number": "{{ data.number | reveal_last: 4 }}"},
        "search_indexes": ["{{ data.number | last4 }}"],
        "fingerprint_expression": "{{ data.number }}-{{ metadata.customer }}",
        "deduplicate_token": false,
        "expires_at": "2090-08-27T04:23:57+02:00",
        "privacy": {"ignored": true},
        "unknown": 1,
    });
    body.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    let token = expect_created(body);
    assert_eq!(token["id"], "every-attribute");
    assert_eq!(token["tenant_id"], ACME.tenant.id.to_string());
    assert_eq!(token["type"], "card");
    let data =
        json!({"number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": "123"});
    assert_eq!(token["data"], data);
    assert_eq!(token["containers"], json!(["/pci/high/", "/customers/"]));
    assert_eq!(token["metadata"], json!({"customer": "7"}));
    assert_eq!(token["mask"], json!({"number": "{{ data.number | reveal_last: 4 }}"}));
    assert_eq!(token["search_indexes"], json!(["{{ data.number | last4 }}"]));
    assert_eq!(token["expires_at"], "2090-08-27T02:23:57+00:00");
    assert_eq!(token["_extras"], json!({"deduplicated": false}));
    let last4 = &number[12..];
    let details = json!({"bin": &number[..8], "last4": last4, "expiration_month": 7,
        "expiration_year": 2031, "brand": "visa", "funding": null, "authentication": null});
    assert_eq!(token["card"], details);
    assert!(token["fingerprint"].as_str().unwrap().len() > 40);
    assert!(token["created_at"].as_str().unwrap().ends_with("+00:00"));
    assert!(token.get("modified_at").is_none());

    // The stored token is equal to the response.
    let mut stored_token = SERVER.get_token(&ACME.private, "every-attribute").json();
    stored_token
        .as_object_mut()
        .unwrap()
        .insert("_extras".to_owned(), json!({"deduplicated": false}));
    assert_eq!(stored_token, token);
}

#[test]
fn all_nine_token_types_get_their_defaults() {
    let number = unique_card_number();
    #[rustfmt::skip]
    let cases = [
        ("token", json!({"any": [1, null]}), "/general/high/", Value::Null),
        ("card", json!({"number": number}), "/pci/high/", json!("{{ data.number }}")),
        ("card_number", json!(number), "/pci/high/", json!("{{ data }}")),
        ("network_token", json!({"number": number}), "/pci/high/", json!("{{ data.number }}")),
        ("bank", json!({"routing_number": "021000021", "account_number": "1234567"}), "/bank/high/",
         json!("{{ data.account_number }}|{{ data.routing_number }}")),
        ("us_bank_account_number", json!("1234567"), "/bank/high/", json!("{{ data }}")),
        ("us_bank_routing_number", json!("021000021"), "/bank/low/", json!("{{ data }}")),
        ("social_security_number", json!("123-45-6789"), "/pii/high/",
         json!("{{ data | remove: '-' }}")),
        ("employer_id_number", json!("12-3456789"), "/pii/high/", json!("{{ data | remove: '-' }}")),
    ];
    for (kind, data, container, fingerprint) in cases {
        let token = expect_created(json!({"type": kind, "data": data}));
        assert_eq!(token["containers"], json!([container]), "{kind}");
        assert_eq!(token["data"], data, "{kind}");
        if !fingerprint.is_null() {
            assert_eq!(token["fingerprint_expression"], fingerprint, "{kind}");
        }
    }
}

#[test]
fn public_key_gets_masked_data() {
    #[rustfmt::skip]
    let cases = [
        ("us_bank_account_number", json!("1234567"), json!("XXX4567")),
        ("us_bank_account_number", json!("1234"), json!("XXXX")),
        ("social_security_number", json!("123-45-6789"), json!("XXX-XX-6789")),
        ("bank", json!({"routing_number": "021000021", "account_number": "123456"}),
         json!({"routing_number": "021000021", "account_number": "XX3456"})),
    ];
    for (kind, data, expected_data) in cases {
        let token = SERVER.create_token_ok(&ACME.public, &json!({"type": kind, "data": data}));
        assert_eq!(token["data"], expected_data, "{kind}");
    }
    let token = SERVER.create_token_ok(&ACME.public, &json!({"type": "token", "data": "secret"}));
    assert!(token.get("data").is_none(), "a token without a mask must not return data");
}

#[test]
fn response_says_that_a_token_without_a_mask_has_no_data() {
    let permissions = [Permission::TokenCreate, Permission::TokenRead, Permission::TokenUpdate];
    let key = SERVER.key_with_permissions(&ACME.tenant, Private, &permissions);
    let reason = json!("the caller may see the data masked, and the token has no mask");
    let body = json!({"type": "token", "data": "secret"});
    let created = SERVER.create_token_ok(&key, &body);
    assert_eq!(created["_extras"], json!({"deduplicated": false, "data_omitted": reason}));
    let id = text_field(&created, "id");
    let expected = json!({"data_omitted": reason});
    assert_eq!(SERVER.get_token(&key, &id).json()["_extras"], expected);
    let listed = SERVER.get_path(&key, &format!("/tokens?id={id}")).json();
    assert_eq!(listed["data"][0]["_extras"], expected);
    let patch = json!({"metadata": {"a": "b"}});
    assert_eq!(SERVER.patch_token(&key, &id, &patch).json()["_extras"], expected);
    // With a mask, and with a right to read the data, there is nothing to explain.
    let body = json!({"type": "token", "data": "secret", "mask": "{{ data | last4 }}"});
    let masked = SERVER.create_token_ok(&key, &body);
    assert_eq!(masked["_extras"], json!({"deduplicated": false}));
    assert_eq!(SERVER.get_token(&ACME.private, &id).json().get("_extras"), None);
}

#[test]
fn response_names_well_known_attributes_that_were_dropped() {
    let number = unique_card_number();
    let body = json!({"type": "card", "data": {"number": number, "cardholder_name": "Jo Bloggs",
        "cvv": "123", "4000056655665556": 1, "Jo": 2, "zip": null}});
    for key in [&ACME.private, &ACME.public] {
        let response = SERVER.create_token(key, &body);
        let dropped = json!({"names": ["cardholder_name", "cvv"], "other_count": 2});
        let expected = json!({"deduplicated": false, "dropped_attributes": dropped});
        assert_eq!(response.expect_status(201)["_extras"], expected);
        assert!(!response.text.contains("4000056655665556") && !response.text.contains("Jo"));
    }
    let id = text_field(&SERVER.create_token_ok(&ACME.private, &body), "id");
    assert_eq!(SERVER.get_token(&ACME.private, &id).json().get("_extras"), None);
    let body = json!({"type": "token", "data": {"cardholder_name": "Jo"}});
    let token = SERVER.create_token_ok(&ACME.private, &body);
    assert_eq!(token["_extras"], json!({"deduplicated": false}));
}

#[test]
fn json_numbers_in_token_data_are_stored_exactly() {
    let text = r#"{"type":"token","data":{"long":12345678901234567890123,"price":10.50}}"#;
    let request =
        SERVER.request("POST", "/tokens").key(&ACME.private).body("application/json", text);
    let response = request.send();
    assert_eq!(response.status, 201);
    let stored = r#""data":{"long":12345678901234567890123,"price":10.50}"#;
    assert!(response.text.contains(stored), "{}", response.text);
    let id = response.json()["id"].as_str().unwrap().to_owned();
    assert!(SERVER.get_token(&ACME.private, &id).text.contains(stored));
}

#[test]
fn fingerprint_depends_on_value_tenant_and_type() {
    let number = unique_card_number();
    let create_and_get_fingerprint = |kind: &str| {
        expect_created(json!({"type": kind, "data": number.as_str()}))["fingerprint"].clone()
    };
    assert_eq!(
        create_and_get_fingerprint("card_number"),
        create_and_get_fingerprint("card_number")
    );
    assert_ne!(create_and_get_fingerprint("card_number"), create_and_get_fingerprint("token"));
    let other_tenant_keys = SERVER.create_default_tenant();
    let other_tenant_token = SERVER.create_token_ok(
        &other_tenant_keys.private,
        &json!({"type": "card_number", "data": number}),
    );
    assert_ne!(other_tenant_token["fingerprint"], create_and_get_fingerprint("card_number"));
}

#[test]
fn token_ids_can_be_chosen_computed_or_generated() {
    let id = "chosen-id";
    expect_created(json!({"id": id, "type": "token", "data": 1}));
    let conflict_response =
        SERVER.create_token(&ACME.private, &json!({"id": id, "type": "token", "data": 2}));
    conflict_response.expect_problem(409, "id exists");
    assert_eq!(SERVER.get_token(&ACME.private, id).json()["data"], 1);

    let computed = expect_created(
        json!({"id": "alias-{{ data | last4 }}", "type": "token", "data": "abcdefgh"}),
    );
    assert_eq!(computed["id"], "alias-efgh");
    let generated_id =
        expect_created(json!({"type": "token", "data": 1}))["id"].as_str().unwrap().to_owned();
    assert_eq!(uuid::Uuid::parse_str(&generated_id).unwrap().get_version_num(), 4);

    expect_rejected(json!({"id": "ab", "type": "token", "data": 1}), "id");
    expect_rejected(json!({"id": "a/b/c", "type": "token", "data": 1}), "id");
    expect_rejected(json!({"id": 123, "type": "token", "data": 1}), "id");
    let number = unique_card_number();
    expect_rejected(
        json!({"id": format!("x{number}"), "type": "card_number", "data": number}),
        "id",
    );
    expect_rejected(json!({"id": "{{ data }}", "type": "card_number", "data": number}), "id");
    expect_rejected(
        json!({"id": "{{ data | reveal_last: 15 }}", "type": "card_number", "data": number}),
        "id",
    );
    let computed =
        json!({"id": "card-{{ data | last4 }}-x", "type": "card_number", "data": number});
    assert_eq!(expect_created(computed)["id"], format!("card-{}-x", &number[12..]));
    expect_rejected(
        json!({"id": "{{ data }}", "type": "social_security_number", "data": "123-45-6789"}),
        "id",
    );
    expect_rejected(
        json!({"id": "ssn 123456789", "type": "social_security_number", "data": "123-45-6789"}),
        "id",
    );
    let hyphenated_number = format!("{}-{}", &number[..8], &number[8..]);
    expect_rejected(json!({"id": hyphenated_number, "type": "card_number", "data": number}), "id");
}

#[test]
fn invalid_create_token_names_the_attribute() {
    let number = unique_card_number();
    expect_rejected(json!({}), "type");
    expect_rejected(json!({"type": "token"}), "data");
    expect_rejected(json!({"type": "token", "data": null}), "data");
    expect_rejected(json!({"type": "card_token", "data": 1}), "type");
    expect_rejected(json!({"type": 7, "data": 1}), "type");
    expect_rejected(json!({"type": "card", "data": {"number": "4111111111111112"}}), "data.number");
    expect_rejected(
        json!({"type": "card", "data": {"number": number, "expiration_month": 13}}),
        "data.expiration_month",
    );
    expect_rejected(
        json!({"type": "card", "data": {"number": number, "expiration_year": 31}}),
        "data.expiration_year",
    );
    expect_rejected(json!({"type": "card", "data": {"number": number, "cvc": "12"}}), "data.cvc");
    expect_rejected(json!({"type": "card", "data": number}), "data");
    expect_rejected(
        json!({"type": "bank", "data": {"routing_number": "021000022", "account_number": "1"}}),
        "data.routing_number",
    );
    expect_rejected(
        json!({"type": "bank", "data": {"routing_number": "021000021", "account_number": "x"}}),
        "data.account_number",
    );
    expect_rejected(
        json!({"type": "token", "data": 1, "containers": ["/a/", "b"]}),
        "containers[1]",
    );
    expect_rejected(json!({"type": "token", "data": 1, "containers": []}), "containers");
    expect_rejected(json!({"type": "token", "data": 1, "containers": "/a/"}), "containers");
    expect_rejected(json!({"type": "token", "data": 1, "metadata": {"a": 1}}), "metadata");
    expect_rejected(
        json!({"type": "token", "data": 1, "deduplicate_token": "yes"}),
        "deduplicate_token",
    );
    expect_rejected(json!({"type": "token", "data": 1, "expires_at": "soon"}), "expires_at");
    expect_rejected(json!({"type": "token", "data": 1, "expires_at": "1/1/2020"}), "expires_at");
    expect_rejected(json!({"type": "token", "data": 1, "mask": "{{ data | shout }}"}), "mask");
    expect_rejected(
        json!({"type": "token", "data": 1, "fingerprint_expression": "{{ data"}),
        "fingerprint_expression",
    );
    expect_rejected(
        json!({"type": "token", "data": 1, "fingerprint_expression": "{{ data.none }}"}),
        "fingerprint_expression",
    );
    expect_rejected(
        json!({"type": "token", "data": {"a": 1}, "search_indexes": ["{{ data }}"]}),
        "search_indexes[0]",
    );
    expect_rejected(
        json!({"type": "token", "data": 1, "search_indexes": ["{{ data.none }}"]}),
        "search_indexes[0]",
    );
    expect_rejected(json!({"token_intent_id": "x"}), "token_intent_id");
    expect_rejected(json!({"token_intent_id": "x", "type": "token", "data": 1}), "token_intent_id");
    expect_rejected(json!([]), "object");
}

#[test]
fn expression_that_reads_only_the_cvc_of_a_card_is_rejected_with_the_reason() {
    let data = json!({"number": unique_card_number(), "cvc": "123"});
    let rule = "the CVC of a card is not in the data";
    let expect_rejected = |body: Value, rule: &str| {
        let problem = SERVER.create_token(&ACME.public, &body).expect_status(400);
        assert!(problem["errors"].to_string().contains(rule), "{problem}");
    };
    let index = json!({"type": "card", "data": data, "search_indexes": ["{{ data.cvc }}"]});
    expect_rejected(index, rule);
    let expression = "{{ data['cvc'] }}";
    let fingerprint = json!({"type": "card", "data": data, "fingerprint_expression": expression});
    expect_rejected(fingerprint, rule);
    let other = json!({"type": "card", "data": data, "search_indexes": ["{{ data.none }}"]});
    expect_rejected(other, "must give one value");
    // The attribute of another type has no special meaning.
    let other_type =
        json!({"type": "token", "data": {"cvc": ""}, "search_indexes": ["{{ data.cvc }}"]});
    expect_rejected(other_type, "must give one value");
}

#[test]
fn expensive_expressions_are_rejected() {
    let text = "x".repeat(400_000);
    let expensive_body = json!({"type": "token", "data": text, "mask": vec!["{{data}}"; 45_000]});
    SERVER.create_token(&ACME.public, &expensive_body).expect_problem(400, "mask");
    let chain = format!("{{{{ data {} }}}}", "|stringify".repeat(390));
    let chain = json!({"type": "token", "data": text, "search_indexes": vec![chain; 16]});
    SERVER.create_token(&ACME.public, &chain).expect_problem(400, "search_indexes[0]");
    // A single value never exceeds the budget.
    expect_created(json!({"type": "token", "data": text, "mask": "{{ data | stringify }}"}));
}

#[test]
fn mask_that_contains_the_card_number_is_rejected() {
    let number = unique_card_number();
    let spaced_number = format!("{} {}", &number[..8], &number[8..]);
    for mask in [json!({"number": number}), json!(["a", {"b": spaced_number}])] {
        expect_rejected(json!({"type": "card", "data": {"number": number}, "mask": mask}), "mask");
    }
}

#[test]
fn all_errors_of_a_request_are_reported_together() {
    let response =
        SERVER.create_token(&ACME.private, &json!({"type": 1, "metadata": 1, "containers": ["x"]}));
    let errors = response.json()["errors"].as_object().unwrap().clone();
    let fields: Vec<_> = errors.keys().map(String::as_str).collect();
    assert_eq!(fields, ["containers[0]", "data", "metadata", "type"]);
}

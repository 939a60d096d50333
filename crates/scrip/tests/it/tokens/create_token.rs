//! Create Token.

use scrip_core::types::{ApplicationKind::Private, Permission};
use scrip_testing::requests::{assert_members, with_members};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, card_body, text_field, unique_card_number};

#[track_caller]
fn expect_created(body: Value) -> Value {
    SERVER.create_token_ok(&ACME.private, &body)
}

#[track_caller]
fn expect_rejected(body: Value, attribute: &str) {
    let response = SERVER.create_token(&ACME.private, &body);
    assert_eq!(response.status, 400, "{body}: {}", response.text);
    response.expect_problem(400, attribute);
}

#[test]
fn card_is_created_with_every_attribute() {
    let number = unique_card_number();
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
    let token = expect_created(with_members(card_body(&number), &attributes));
    assert_members(
        &token,
        &json!({
            "id": "every-attribute",
            "tenant_id": ACME.tenant.id.to_string(),
            "type": "card",
            "data": card_body(&number)["data"],
            "containers": ["/pci/high/", "/customers/"],
            "metadata": {"customer": "7"},
            "mask": {"number": "{{ data.number | reveal_last: 4 }}"},
            "search_indexes": ["{{ data.number | last4 }}"],
            "expires_at": "2090-08-27T02:23:57+00:00",
            "_extras": {"deduplicated": false},
            "card": {"bin": &number[..8], "last4": &number[12..], "expiration_month": 7,
                "expiration_year": 2031, "brand": "visa", "funding": null, "authentication": null},
        }),
    );
    assert!(token["fingerprint"].as_str().unwrap().len() > 40);
    assert!(token["created_at"].as_str().unwrap().ends_with("+00:00"));
    assert!(token.get("modified_at").is_none());

    // The stored token is equal to the response.
    let mut stored_token = SERVER.get_token(&ACME.private, "every-attribute").json();
    stored_token["_extras"] = json!({"deduplicated": false});
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
    let id = SERVER.create_token_id(&ACME.private, &body);
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
    let fingerprint = create_and_get_fingerprint("card_number");
    assert_eq!(create_and_get_fingerprint("card_number"), fingerprint);
    assert_ne!(create_and_get_fingerprint("token"), fingerprint);
    let other_keys = SERVER.create_default_tenant();
    let body = json!({"type": "card_number", "data": number});
    let other_tenant_token = SERVER.create_token_ok(&other_keys.private, &body);
    assert_ne!(other_tenant_token["fingerprint"], fingerprint);
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
    let generated_id = text_field(&expect_created(json!({"type": "token", "data": 1})), "id");
    assert_eq!(uuid::Uuid::parse_str(&generated_id).unwrap().get_version_num(), 4);

    let number = unique_card_number();
    let computed =
        json!({"id": "card-{{ data | last4 }}-x", "type": "card_number", "data": number});
    assert_eq!(expect_created(computed)["id"], format!("card-{}-x", &number[12..]));
    let ssn = || json!({"type": "social_security_number", "data": "123-45-6789"});
    let token = || json!({"type": "token", "data": 1});
    let card_number = || json!({"type": "card_number", "data": number});
    for (body, id) in [
        (token(), json!("ab")),
        (token(), json!("a/b/c")),
        (token(), json!(123)),
        (card_number(), json!(format!("x{number}"))),
        (card_number(), json!("{{ data }}")),
        (card_number(), json!("{{ data | reveal_last: 15 }}")),
        (card_number(), json!(format!("{}-{}", &number[..8], &number[8..]))),
        (ssn(), json!("{{ data }}")),
        (ssn(), json!("ssn 123456789")),
    ] {
        expect_rejected(with_members(body, &json!({"id": id})), "id");
    }
}

#[test]
fn invalid_create_token_names_the_attribute() {
    let number = unique_card_number();
    let card = |name: &str, value: Value| {
        let data = json!({"number": number, (name): value});
        json!({"type": "card", "data": data})
    };
    let bank = |routing_number: &str, account_number: &str| {
        let data = json!({"routing_number": routing_number, "account_number": account_number});
        json!({"type": "bank", "data": data})
    };
    let token = |name: &str, value: Value| json!({"type": "token", "data": 1, (name): value});
    for (body, attribute) in [
        (json!({}), "type"),
        (json!({"type": "token"}), "data"),
        (token("data", Value::Null), "data"),
        (token("type", json!("card_token")), "type"),
        (token("type", json!(7)), "type"),
        (card("number", json!("4111111111111112")), "data.number"),
        (card("expiration_month", json!(13)), "data.expiration_month"),
        (card("expiration_year", json!(31)), "data.expiration_year"),
        (card("cvc", json!("12")), "data.cvc"),
        (json!({"type": "card", "data": number}), "data"),
        (bank("021000022", "1"), "data.routing_number"),
        (bank("021000021", "x"), "data.account_number"),
        (token("containers", json!(["/a/", "b"])), "containers[1]"),
        (token("containers", json!([])), "containers"),
        (token("containers", json!("/a/")), "containers"),
        (token("metadata", json!({"a": 1})), "metadata"),
        (token("deduplicate_token", json!("yes")), "deduplicate_token"),
        (token("expires_at", json!("soon")), "expires_at"),
        (token("expires_at", json!("1/1/2020")), "expires_at"),
        (token("mask", json!("{{ data | shout }}")), "mask"),
        (token("fingerprint_expression", json!("{{ data")), "fingerprint_expression"),
        (token("fingerprint_expression", json!("{{ data.none }}")), "fingerprint_expression"),
        (
            json!({"type": "token", "data": {"a": 1}, "search_indexes": ["{{ data }}"]}),
            "search_indexes[0]",
        ),
        (token("search_indexes", json!(["{{ data.none }}"])), "search_indexes[0]"),
        (json!({"token_intent_id": "x"}), "token_intent_id"),
        (token("token_intent_id", json!("x")), "token_intent_id"),
        (json!([]), "object"),
    ] {
        expect_rejected(body, attribute);
    }
}

#[test]
fn expression_that_reads_only_the_cvc_of_a_card_is_rejected_with_the_reason() {
    let data = json!({"number": unique_card_number(), "cvc": "123"});
    let rule = "the CVC of a card is not in the data";
    let expect_rejected = |body: Value, rule: &str| {
        let problem = SERVER.create_token(&ACME.public, &body).expect_status(400);
        assert!(problem["errors"].to_string().contains(rule), "{problem}");
    };
    let card = |name: &str, value: Value| json!({"type": "card", "data": data, (name): value});
    expect_rejected(card("search_indexes", json!(["{{ data.cvc }}"])), rule);
    expect_rejected(card("fingerprint_expression", json!("{{ data['cvc'] }}")), rule);
    expect_rejected(card("search_indexes", json!(["{{ data.none }}"])), "must give one value");
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

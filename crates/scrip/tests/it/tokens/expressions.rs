//! Expressions in ids, masks, fingerprints and search indexes.

use std::collections::BTreeSet;

use scrip_core::types::{
    Permission::{TokenCreate, TokenRead, TokenUpdate},
    Transform::Mask,
};
use scrip_testing::requests::{assert_members, with_members};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, card_body, text_field, unique_card_number};

fn create_and_read_masked(body: &Value) -> Value {
    let token = SERVER.create_token_ok(&ACME.private, body);
    let key = SERVER.key_with_rule(&ACME.tenant, "/", Mask, &[TokenRead]);
    SERVER.get_token(&key, &text_field(&token, "id")).json()["data"].clone()
}

#[test]
fn mask_leaves_are_evaluated_and_keep_types() {
    let mask = json!({
        "year": "{{ data.year }}",
        "lone": "{{ data.list }}",
        "text": "{{ data.year }}!",
        "tier": "{% if data.year > 2030 %}new{% else %}old{% endif %}",
        "comma": "{{ data.name, reveal_last: 2 }}",
        "loop": "{% for it in data.list %}[{{ it }}]{% endfor %}",
        "hash": "{{ data.name | hmac: 'sha-256', 'k' | to_base16 | slice: 0, 4 }}",
        "path": "{{ data | json: '$.list[1]' }}",
        "fixed": [1, "as it is", null],
    });
    let data = json!({"year": 2031, "list": [1, 2], "name": "Hopper"});
    let masked_data = create_and_read_masked(&json!({"type": "token", "data": data, "mask": mask}));
    let expected = json!({"year": 2031, "lone": [1, 2], "text": "2031!", "tier": "new",
        "comma": "XXXXer", "loop": "[1][2]", "path": 2, "fixed": [1, "as it is", null]});
    assert_members(&masked_data, &expected);
    assert_eq!(masked_data["hash"].as_str().unwrap().len(), 4);
}

#[test]
fn expression_error_names_the_attribute_and_position() {
    #[rustfmt::skip]
    let table = [
        (json!({"mask": "{{ data | nothing }}"}), "mask", "at character"),
        (json!({"mask": {"a": "{% if %}"}}), "mask", "at character"),
        (json!({"mask": "{{ data | alias_card }}"}), "mask", "alias"),
        (json!({"search_indexes": ["{{ data }}", "{{ data | }}"]}), "search_indexes[1]",
         "at character"),
        (json!({"search_indexes": ["{{ data | alias_preserve_length: 1 }}"]}), "search_indexes[0]",
         "alias"),
        (json!({"search_indexes": ["{{ nothing_here }}"]}), "search_indexes[0]", "at character"),
        (json!({"fingerprint_expression": "{{ data | to_number }}"}), "fingerprint_expression",
         "at character"),
        (json!({"fingerprint_expression": "{{ data | alias_card }}"}), "fingerprint_expression",
         "alias"),
        (json!({"id": "{{ data | times: 2 }}"}), "id", "at character"),
        (json!({"mask": "{".repeat(5000) + "{{ data }}"}), "mask", "too long"),
        (json!({"mask": "{% for a in (1..100000) %}{% for b in (1..100000) %}x{% endfor %}{% endfor %}"}),
         "mask", "at character"),
    ];
    for (attributes, attribute, expected) in table {
        let body = json!({"type": "token", "data": "a secret of seven words"});
        let body = with_members(body, &attributes);
        let response = SERVER.create_token(&ACME.private, &body);
        response.expect_problem(400, attribute);
        let output = response.json()["errors"][attribute].to_string();
        assert!(output.contains(expected), "{attribute}: {output}");
        assert!(!response.text.contains("seven"), "{}", response.text);
    }
}

#[test]
fn alias_card_creates_an_id_that_resembles_the_number() {
    let number = unique_card_number();
    let mut body = card_body(&number);
    body["id"] = json!("{{ data.number | alias_card: 'true', 'true' }}");
    let first_token = SERVER.create_token_ok(&ACME.private, &body);
    let second_token = SERVER.create_token_ok(&ACME.private, &body);
    for id in [text_field(&first_token, "id"), text_field(&second_token, "id")] {
        assert_eq!((id.len(), &id[..8], &id[12..]), (16, &number[..8], &number[12..]));
        assert_ne!(id, number);
        assert_eq!(SERVER.get_token(&ACME.private, &id).json()["data"]["number"], number);
    }
    assert_ne!(first_token["id"], second_token["id"]);
}

#[test]
fn exhausted_alias_falls_back_to_a_generated_id() {
    let keys = SERVER.create_default_tenant();
    // One random letter or digit: 62 values are possible.
    let body =
        json!({"type": "token", "data": "xyz", "id": "{{ data | alias_preserve_length: 2, 0 }}"});
    let ids: BTreeSet<String> =
        (0..90).map(|_| SERVER.create_token_id(&keys.private, &body)).collect();
    assert_eq!(ids.len(), 90, "two tokens have the same id");
    let (aliases, generated_ids): (Vec<_>, Vec<_>) = ids.iter().partition(|it| it.len() == 3);
    assert!(aliases.len() > 30 && aliases.iter().all(|it| it.starts_with("xy")), "{aliases:?}");
    assert!(generated_ids.len() >= 28, "{generated_ids:?}");
    assert!(generated_ids.iter().all(|it| it.len() == 36), "{generated_ids:?}");
    // A computed id that exists already causes a conflict.
    let body = json!({"type": "token", "data": "once", "id": "{{ data | append: '-only' }}"});
    SERVER.create_token_ok(&keys.private, &body);
    SERVER.create_token(&keys.private, &body).expect_problem(409, "id");
}

#[test]
fn fingerprint_expressions_can_use_data_and_metadata() {
    let keys = SERVER.create_default_tenant();
    let create_and_get_fingerprint = |metadata: &str, expression: &str| {
        let body = json!({"type": "token", "data": {"a": 1}, "metadata": {"owner": metadata},
            "fingerprint_expression": expression});
        text_field(&SERVER.create_token_ok(&keys.private, &body), "fingerprint")
    };
    let both = "{{ data.a }}/{{ metadata.owner | downcase }}";
    let branch = "{% if metadata.owner == 'a' %}{{ data.a }}{% else %}other{% endif %}";
    for (expression, [first, second], is_equal) in [
        (both, ["A", "a"], true),
        (both, ["A", "b"], false),
        (branch, ["b", "c"], true),
        (branch, ["a", "b"], false),
    ] {
        let [one, other] = [first, second].map(|it| create_and_get_fingerprint(it, expression));
        assert_eq!(one == other, is_equal, "{expression} of {first} and {second}");
    }
}

#[test]
fn metadata_is_rejected_where_an_expression_cannot_read_it() {
    let metadata = "{{ metadata.owner }}";
    let cases = [
        ("id", json!(metadata), "id"),
        ("mask", json!({ "owner": metadata }), "mask"),
        ("search_indexes", json!([metadata]), "search_indexes[0]"),
    ];
    for (attribute, value, field) in cases {
        let mut body = json!({"type": "token", "data": "a", "metadata": {"owner": "b"}});
        body[attribute] = value;
        let response = SERVER.create_token(&ACME.private, &body);
        response.expect_problem(400, field);
        assert!(response.text.contains("only a fingerprint expression can read it"), "{attribute}");
    }
}

/// An attacker with the update permission that reads only masks tries to learn a stored number.
#[test]
fn scripted_attack_on_masked_number_learns_nothing() {
    let permissions = [TokenCreate, TokenRead, TokenUpdate];
    let attacker = SERVER.key_with_rule(&ACME.tenant, "/", Mask, &permissions);
    // Create two cards with the same mask.
    let numbers = ["4000001200003456", "4000001277773456"].map(|number| {
        let luhn_sum = |number: &str| -> u32 {
            let weigh_digit = |(index, digit_char): (usize, char)| {
                let digit = digit_char.to_digit(10).unwrap();
                if index % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
            };
            number.chars().rev().enumerate().map(weigh_digit).sum()
        };
        let replace_digit = |digit: u32| format!("{}{digit}{}", &number[..8], &number[9..]);
        (0..10).map(replace_digit).find(|it| luhn_sum(it).is_multiple_of(10)).unwrap()
    });
    let ids =
        numbers.each_ref().map(|number| SERVER.create_token_id(&ACME.private, &card_body(number)));
    let response_before =
        ids.each_ref().map(|id| SERVER.get_token(&attacker, id).json()["data"].clone());
    assert_eq!(response_before[0], response_before[1]);
    for digit in 0..10 {
        let prefix = &numbers[0][..8];
        let request = format!(
            "{{% if data.number contains '{prefix}{digit}' %}}hit{{% else %}}miss{{% endif %}}"
        );
        for attribute in ["mask", "fingerprint_expression", "search_indexes"] {
            let is_list = attribute == "search_indexes";
            let patch =
                json!({ (attribute): if is_list { json!([request]) } else { json!(request) } });
            for id in &ids {
                SERVER.patch_token(&attacker, id, &patch).expect_problem(403, attribute);
            }
        }
    }
    let response_after =
        ids.each_ref().map(|id| SERVER.get_token(&attacker, id).json()["data"].clone());
    assert_eq!(response_before, response_after);
}

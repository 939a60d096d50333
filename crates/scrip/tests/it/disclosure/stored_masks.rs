//! A stored mask shows only what its author meant to show: a partial patch neither makes it show hidden
//! data nor makes requests of other callers fail.

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    types::{
        ApplicationKind::{Private, Public},
        Permission::{TokenCreate, TokenRead, TokenSearch, TokenUpdate},
        Transform::Redact,
    },
};
use serde_json::{Value, json};

use crate::harness::server::{SERVER, TenantApiKeys, card_body, text_field, unique_card_number};

fn create_masked_key(keys: &TenantApiKeys) -> String {
    let permissions = [TokenCreate, TokenRead, TokenUpdate, TokenSearch];
    SERVER.key_with_permissions(&keys.tenant, Private, &permissions)
}

fn masked_data(key: &str, id: &str) -> Value {
    SERVER.get_token(key, id).expect_status(200)["data"].clone()
}

#[test]
fn partial_patch_withholds_a_mask_over_hidden_attributes() {
    let keys = SERVER.create_default_tenant();
    let masked_key = create_masked_key(&keys);
    let rows = [
        (
            json!({"ssn": "123-45-6789", "note": "SSN 123-45-6789"}),
            "{{ data.note | replace: data.ssn, 'XXX' }}",
            json!({"ssn": "9-"}),
        ),
        (
            json!({"iban": "DE89370400440532013000", "shown": 4}),
            "{{ data.iban | reveal_last: data.shown }}",
            json!({"shown": 18}),
        ),
        (
            json!({"country": "DE", "zip": "80331"}),
            "{% if data.country == 'US' %}{{ data.zip | slice: 0, 3 }}{% endif %}",
            json!({"country": "US"}),
        ),
        (
            json!({"a": "7", "b": "x"}),
            "{% if data.a == data.b %}same{% endif %}",
            json!({"b": "7"}),
        ),
    ];
    for (data, leaf, patch) in rows {
        let mask = json!({"leaf": leaf, "other": "{{ data.absent }}fixed"});
        let body = json!({"type": "token", "data": data, "mask": mask});
        let id = SERVER.create_token_id(&keys.private, &body);
        let before = masked_data(&masked_key, &id);
        assert!(before["leaf"].is_string(), "{before}");
        let patched = SERVER.patch_token(&masked_key, &id, &json!({"data": patch}));
        let withheld = json!({"leaf": null, "other": "fixed"});
        assert_eq!(patched.expect_status(200)["data"], withheld, "{leaf}");
        assert_eq!(masked_data(&masked_key, &id), withheld, "{leaf}");
        // The mask stays withheld when other attributes change.
        let other = json!({"metadata": {"a": "b"}, "data": {"other": 1}});
        SERVER.patch_token(&masked_key, &id, &other).expect_status(200);
        assert_eq!(masked_data(&masked_key, &id), withheld, "{leaf}");
        // A caller that reads the data in clear decides what the mask shows.
        SERVER.patch_token(&keys.private, &id, &json!({"data": data})).expect_status(200);
        assert_eq!(masked_data(&masked_key, &id), before, "{leaf}");
    }
}

#[test]
fn deduplicating_create_withholds_a_mask_over_hidden_attributes() {
    let keys = SERVER.create_test_tenant(TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..TenantSettings::default()
    });
    let masked_key = create_masked_key(&keys);
    let body = |data: Value| json!({"type": "token", "data": data, "fingerprint_expression": "{{ data.customer }}"});
    let hidden = json!({"customer": "17", "ssn": "123-45-6789", "note": "SSN 123-45-6789"});
    let mut original = body(hidden);
    original["mask"] = json!({"note": "{{ data.note | replace: data.ssn, 'XXX' }}"});
    let id = SERVER.create_token_id(&keys.private, &original);
    let created =
        SERVER.create_token_ok(&masked_key, &body(json!({"customer": "17", "ssn": "9-"})));
    assert_eq!(created["id"], id);
    assert_eq!(masked_data(&masked_key, &id), json!({"note": null}));
}

#[test]
fn unchanged_mask_in_a_patch_does_not_make_the_caller_its_author() {
    let keys = SERVER.create_default_tenant();
    let (author, reader) = (create_masked_key(&keys), create_masked_key(&keys));
    let mask = json!({"note": "{{ data.note | upcase }}"});
    let body = json!({"type": "token", "data": {"note": "x"}, "mask": mask});
    for key in [&reader, &keys.public] {
        let id = SERVER.create_token_id(&author, &body);
        let patch = json!({"data": {"note": "y"}, "mask": mask});
        SERVER.patch_token(key, &id, &patch).expect_status(200);
        assert!(SERVER.get_token(&reader, &id).json()["mask"].is_null(), "the mask is reset");
    }
}

#[test]
fn stored_mask_that_fails_on_new_data_shows_no_data_and_fails_no_request() {
    let keys = SERVER.create_default_tenant();
    let masked_key = create_masked_key(&keys);
    let public = SERVER.key_with_permissions(&keys.tenant, Public, &[TokenCreate, TokenUpdate]);
    let mask = json!({"born": "{{ data.born | date: '%Y' }}"});
    let body = json!({"type": "token", "data": {"born": "1980-02-29", "n": 1}, "mask": mask,
        "metadata": {"k": "v"}});
    for (author, patch) in [
        (&public, json!({"data": {"born": "x"}, "mask": mask})),
        (&keys.private, json!({"data": {"born": "x"}})),
        (&keys.private, json!({"data": {"born": "x", "n": 2}})),
    ] {
        let id = SERVER.create_token_id(author, &body);
        SERVER.patch_token(&public, &id, &patch).expect_status(200);
        let token = SERVER.get_token(&masked_key, &id).expect_status(200);
        assert!(token["data"].is_null(), "{token}");
        let detokenized = json!([format!("{{{{ {id} }}}}")]);
        let values = SERVER.post(&masked_key, "/detokenize", &detokenized).expect_status(200);
        assert_eq!(values, json!([null]));
    }
    for path in ["/tokens", "/v2/tokens"] {
        SERVER.get_path(&masked_key, path).expect_status(200);
    }
    let query = json!({"query": "metadata.k:v"});
    for path in ["/tokens/search", "/v2/tokens/search"] {
        SERVER.post(&masked_key, path, &query).expect_status(200);
    }
    // A write of a caller that sees masks succeeds, with an answer.
    let quotient = json!({"q": "{{ data.a | divided_by: data.b }}"});
    let body = json!({"type": "token", "data": {"a": 10, "b": 5}, "mask": quotient});
    let id = SERVER.create_token_id(&keys.private, &body);
    SERVER.patch_token(&masked_key, &id, &json!({"data": {"b": 0}})).expect_status(200);
    SERVER.patch_token(&masked_key, &id, &json!({"data": {"a": 1, "b": 0}})).expect_status(200);
    assert!(masked_data(&masked_key, &id).is_null());
}

#[test]
fn move_without_read_permission_is_not_deduplicated() {
    let keys = SERVER.create_default_tenant();
    let mover = SERVER.key_with_rule(&keys.tenant, "/", Redact, &[TokenUpdate]);
    let number = unique_card_number();
    let create_in = |container: &str| {
        let mut body = card_body(&number);
        body["containers"] = json!([container]);
        SERVER.create_token_ok(&keys.private, &body)
    };
    let (moved, existing) = (create_in("/source/"), create_in("/target/"));
    let id = text_field(&moved, "id");
    let patch = json!({"containers": ["/target/"], "deduplicate_token": true});
    let answer = SERVER.patch_token(&mover, &id, &patch).expect_status(200);
    assert_eq!((&answer["id"], answer.get("fingerprint")), (&moved["id"], None));
    assert_ne!(answer["id"], existing["id"]);
    let stored = SERVER.get_token(&keys.private, &id).expect_status(200);
    assert_eq!(stored["containers"], json!(["/target/"]));
}

#[test]
fn answer_to_a_patch_does_not_tell_the_names_of_hidden_members() {
    let keys = SERVER.create_default_tenant();
    let updater = SERVER.key_with_permissions(&keys.tenant, Private, &[TokenUpdate]);
    let answers = [json!({"pin": "1234"}), json!({"pin": "1234", "puk": "99"})].map(|data| {
        let body = json!({"type": "token", "data": data, "metadata": {"c": "7"},
            "fingerprint_expression": "customer-{{ metadata.c }}"});
        let id = SERVER.create_token_id(&keys.private, &body);
        let patch = json!({"data": {"pin": "x"}});
        SERVER.patch_token(&updater, &id, &patch).expect_status(200).get("fingerprint").cloned()
    });
    assert_eq!(answers, [None, None]);
}

#[test]
fn patched_fingerprint_does_not_confirm_the_number_of_hidden_members() {
    let keys = SERVER.create_default_tenant();
    let masked_key = create_masked_key(&keys);
    let body = json!({"type": "token", "data": {"pin": "1234", "o": {"a": 1, "b": 2}},
        "fingerprint_expression": "{{ data.pin }}-{{ data.o.size }}"});
    let id = SERVER.create_token_id(&keys.private, &body);
    let patched = SERVER.patch_token(&masked_key, &id, &json!({"data": {"pin": "x"}}));
    assert_eq!(patched.expect_status(200).get("fingerprint"), None);
}

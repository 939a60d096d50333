//! Rejections name their cause: the API key, the type of the application, or a missing feature.

use scrip_core::types::{ApplicationKind, Permission};
use scrip_testing::policy::permissions_for_kind;
use serde_json::json;

use crate::harness::{
    entities::CreatedApplication,
    server::{ACME, SERVER, TestResponse, text_field},
};

/// A key that has the form of a key and was never created.
const UNKNOWN_KEY: &str = "key_test_us_pvt_0123456789ABCDEFGHJKMNPQRSTVWXYZ0123456";

fn detail(response: &TestResponse, status: u16) -> String {
    text_field(&response.expect_status(status), "detail")
}

#[test]
fn missing_malformed_and_unknown_keys_have_different_details() {
    let without_key = SERVER.request("GET", "/tokens/x").send();
    without_key.expect_problem(401, "the BT-API-KEY header is missing or empty");
    let empty = SERVER.request("GET", "/tokens/x").key("").send();
    assert_eq!(detail(&empty, 401), detail(&without_key, 401));
    for key in ["nobodys", "key_test_us_pvt_short", &format!("\"{UNKNOWN_KEY}\""), "key_é"] {
        let response = SERVER.get_path(key, "/tokens/x");
        response.expect_problem(401, "BT-API-KEY header does not have the form of an API key");
        assert!(!detail(&response, 401).contains(key), "the response repeats the key");
    }
    SERVER.get_path(UNKNOWN_KEY, "/tokens/x").expect_problem(401, "BT-API-KEY header is unknown");
}

#[test]
fn deleted_keys_and_expired_sessions_look_like_unknown_keys() {
    let permissions = json!({"permissions": ["token:read"]});
    let CreatedApplication { key, path, .. } =
        SERVER.create_application(&ACME.management, "private", &permissions);
    SERVER.get_path(&key, "/tokens/x").expect_problem(404, "Not found.");
    SERVER.delete(&ACME.management, &path).expect_status(204);
    let unknown = detail(&SERVER.get_path(UNKNOWN_KEY, "/tokens/x"), 401);
    assert_eq!(detail(&SERVER.get_path(&key, "/tokens/x"), 401), unknown);
    let unknown_session = UNKNOWN_KEY.replace("_pvt_", "_ses_");
    assert_eq!(detail(&SERVER.get_path(&unknown_session, "/tokens/x"), 401), unknown);
}

#[test]
fn denial_says_when_the_application_type_can_never_have_the_permission() {
    let never = "a public application can never have token:delete; use the key of a private";
    SERVER.delete(&ACME.public, "/tokens/x").expect_problem(403, never);
    let never =
        "a private application can never have application:read; use the key of a management";
    SERVER.get_path(&ACME.private, "/applications").expect_problem(403, never);
    let never = "a management application can never have token:create; use the key of a public or";
    let token = json!({"type": "token", "data": "x"});
    SERVER.create_token(&ACME.management, &token).expect_problem(403, never);

    let kind = ApplicationKind::Private;
    let mut permissions = permissions_for_kind(kind);
    permissions.retain(|it| *it != Permission::TokenDelete);
    let reader_key = SERVER.key_with_permissions(&ACME.tenant, kind, &permissions);
    let can_be_added = "no permission or access rule grants token:delete here; an administrator";
    SERVER.delete(&reader_key, "/tokens/x").expect_problem(403, can_be_added);

    let session = SERVER.post_empty(&ACME.public, "/sessions").expect_status(201);
    let session_key = text_field(&session, "session_key");
    let can_be_added = "no permission or access rule grants token:delete here";
    SERVER.delete(&session_key, "/tokens/x").expect_problem(403, can_be_added);
    let never =
        "an access session can never have log:read; use the key of a management application";
    SERVER.get_path(&session_key, "/logs").expect_problem(403, never);
}

#[test]
fn error_for_an_unknown_token_type_lists_the_types() {
    let listed = "is not a token type; use token, card, card_number, network_token, bank, \
                  us_bank_account_number, us_bank_routing_number, social_security_number or \
                  employer_id_number";
    let body = json!({"type": "robot", "data": "x"});
    for path in ["/tokens", "/token-intents"] {
        let problem = SERVER.post(&ACME.private, path, &body).expect_status(400);
        assert_eq!(problem["errors"]["type"], json!([listed]), "{path}");
    }
    for response in [
        SERVER.post(&ACME.private, "/tokenize", &body),
        SERVER.get_path(&ACME.private, "/v2/tokens?type=robot"),
    ] {
        response.expect_status(400);
        assert!(response.text.contains(listed), "{}", response.text);
    }
}

#[test]
fn paths_of_missing_features_name_the_feature_with_and_without_a_key() {
    let cases = [
        ("/reactors?key=4242424242424242", "reactors"),
        ("/reactors/x/react-async", "reactors"),
        ("/invitations", "members, invitations and roles"),
        ("/invitations/x/resend", "members, invitations and roles"),
        ("/documents/x/data", "documents"),
        ("/enrichments/bank-account-verify", "bank account verification"),
        ("/google-pay", "Google Pay"),
        ("/apple-pay/session", "Apple Pay"),
        ("/account-updater/real-time", "account updater"),
        ("/network-tokens", "requests for network tokens"),
        ("/tenants/self/members", "members"),
    ];
    for (path, feature) in cases {
        let expected = format!("Not found. This server does not have the feature: {feature}");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "PURGE"] {
            let without_key = SERVER.request(method, path).send();
            without_key.expect_problem(404, &expected);
            assert!(!without_key.json().to_string().contains("4242"), "{path}");
            for key in [ACME.management.as_str(), UNKNOWN_KEY] {
                let with_key = SERVER.request(method, path).key(key).send();
                assert_eq!(with_key.without_trace(), without_key.without_trace(), "{path}");
            }
        }
    }
    for path in ["/proxyx", "/tenants/self/nothing", "/keysmith", "/webhooks/x/y", "/events"] {
        let body = SERVER.request("GET", path).send().expect_status(404);
        assert_eq!(body["detail"], "Not found.", "{path}");
    }
}

#[test]
fn permission_that_the_type_of_an_application_cannot_have_is_named() {
    let rule = json!({
        "priority": 1, "container": "/", "transform": "mask",
        "permissions": ["token:create", "token:search"],
    });
    let body = json!({
        "name": "A", "type": "public", "rules": [rule],
        "permissions": ["token:create", "token:read", "log:read"],
    });
    let response = SERVER.post(&ACME.management, "/applications", &body);
    response.expect_invalid("permissions");
    let expected = json!({
        "permissions": ["has token:read and log:read, which a public application cannot have"],
        "rules[0].permissions": ["has token:search, which a public application cannot have"],
    });
    assert_eq!(response.json()["errors"], expected);
}

/// The interface lists these permissions for management applications, so they are accepted.
#[test]
fn unlisted_permission_is_accepted_if_the_vault_knows_it_and_else_names_the_missing_feature() {
    let create = |kind: &str, permission: &str| {
        let body = json!({"name": "A", "type": kind, "permissions": [permission]});
        SERVER.post(&ACME.management, "/applications", &body)
    };
    let created = create("management", "reactor:create").expect_status(201);
    assert_eq!(created["permissions"], json!(["reactor:create"]));
    let cases = [
        ("reactor:fly", "is a permission of a feature that this server does not have: reactors"),
        ("documents:read", "does not have: documents"),
        ("apple-pay:create", "does not have: Apple Pay"),
        ("token:fly", "is not a permission; GET /permissions lists them"),
        ("fly", "is not a permission; GET /permissions lists them"),
    ];
    for (permission, expected) in cases {
        let response = create("private", permission);
        response.expect_invalid("permissions[0]");
        assert!(response.text.contains(expected), "{permission}: {}", response.text);
    }
}

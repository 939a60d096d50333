//! The catalog of permissions.

use serde_json::Value;

use crate::harness::server::{ACME, SHARED, text};

/// As the wire has it: permissions, and the types of application that may hold them.
const CATALOG: &[(&[&str], &[&str])] = &[
    (
        &["token:create", "token:update", "token-intent:create", "3ds:session:create"],
        &["public", "private"],
    ),
    (
        &[
            "token:read",
            "token:search",
            "token:delete",
            "token:use",
            "token-intent:read",
            "token-intent:delete",
            "3ds:session:read",
            "3ds:session:authenticate",
            "orchestration:connection_formulas",
        ],
        &["private"],
    ),
    (
        &[
            "tenant:read",
            "tenant:update",
            "tenant:delete",
            "application:read",
            "application:create",
            "application:update",
            "application:delete",
            "log:read",
            "report:read",
            "keys:read",
            "keys:create",
            "keys:delete",
            "webhook:read",
            "webhook:create",
            "webhook:update",
            "webhook:delete",
            "proxy:read",
            "proxy:create",
            "proxy:update",
            "proxy:delete",
            "reactor:read",
            "reactor:create",
            "reactor:update",
            "reactor:delete",
        ],
        &["management"],
    ),
];

fn list(query: &str) -> Vec<Value> {
    let found = SHARED.fetch(&ACME.public, &format!("/permissions{query}")).is(200);
    found.as_array().unwrap().clone()
}

#[test]
fn every_permission_and_who_may_hold_it() {
    let found = list("");
    let expected: usize = CATALOG.iter().map(|(names, _)| names.len()).sum();
    assert_eq!(found.len(), expected);
    for (names, kinds) in CATALOG {
        for name in *names {
            let one = found.iter().find(|it| it["type"] == *name).expect(name);
            assert_eq!(one["application_types"], serde_json::json!(kinds), "{name}");
            assert!(!text(one, "description").is_empty());
        }
    }
}

#[test]
fn of_one_type_of_application() {
    for (kind, count) in [("public", 4), ("private", 13), ("management", 24)] {
        let found = list(&format!("/?application_type={kind}"));
        assert_eq!(found.len(), count, "{kind}");
        let holds = |it: &Value| it["application_types"].as_array().unwrap().contains(&kind.into());
        assert!(found.iter().all(holds));
    }
    let wrong = |query: &str| SHARED.fetch(&ACME.public, &format!("/permissions?{query}"));
    wrong("application_type=robot").invalid("application_type");
    wrong("application_type=").invalid("application_type");
    wrong("application_type=public&application_type=public").invalid("application_type");
}

#[test]
fn any_key_may_ask_and_nobody_without() {
    let session = SHARED.ask("POST", "/sessions").key(&ACME.public).send().is(201);
    for key in [&ACME.private, &ACME.management, &text(&session, "session_key")] {
        assert_eq!(SHARED.fetch(key, "/permissions").is(200).as_array().unwrap().len(), 37);
    }
    SHARED.ask("GET", "/permissions").send().refused(401, "BT-API-KEY");
}

//! The permission catalog.

use serde_json::Value;

use crate::harness::server::{ACME, SERVER, text_field};

/// The permissions of existing features and the application types that may have them, as the API
/// returns them.
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
            "proxy:invoke",
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
        ],
        &["management"],
    ),
];

fn list(query: &str) -> Vec<Value> {
    let found = SERVER.get_path(&ACME.public, &format!("/permissions{query}")).expect_status(200);
    found.as_array().unwrap().clone()
}

#[test]
fn permission_catalog_lists_permissions_of_existing_features_with_their_application_types() {
    let catalog = list("");
    let expected: usize = CATALOG.iter().map(|(names, _)| names.len()).sum();
    assert_eq!(catalog.len(), expected);
    for (names, kinds) in CATALOG {
        for name in *names {
            let entry = catalog.iter().find(|it| it["type"] == *name).expect(name);
            assert_eq!(entry["application_types"], serde_json::json!(kinds), "{name}");
            assert!(!text_field(entry, "description").is_empty());
        }
    }
}

#[test]
fn permission_catalog_is_filtered_by_application_type() {
    for (kind, count) in [("public", 4), ("private", 14), ("management", 20)] {
        let catalog = list(&format!("/?application_type={kind}"));
        assert_eq!(catalog.len(), count, "{kind}");
        let includes_kind =
            |it: &Value| it["application_types"].as_array().unwrap().contains(&kind.into());
        assert!(catalog.iter().all(includes_kind));
    }
    let send_list = |query: &str| SERVER.get_path(&ACME.public, &format!("/permissions?{query}"));
    send_list("application_type=robot").expect_invalid("application_type");
    send_list("application_type=").expect_invalid("application_type");
    send_list("application_type=public&application_type=public").expect_invalid("application_type");
}

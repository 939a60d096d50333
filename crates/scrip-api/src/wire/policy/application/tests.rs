//! Compares the examples of the OpenAPI document with rendered responses.

use scrip_core::types::ApplicationKind;
use serde_json::{Value, json};

use crate::{
    openapi::tests::assert_examples,
    wire::policy::application::{ApplicationBody, KeyBody, PermissionBody},
};

#[test]
fn documented_application_examples_match_rendered_bodies() {
    assert_examples("Application", [example(KeyVisibility::Hidden)]);
    assert_examples("CreatedApplication", [example(KeyVisibility::OnCreation)]);
    assert_examples("ApiKey", [json!(key_example(KeyVisibility::Hidden))]);
    assert_examples("CreatedApiKey", [json!(key_example(KeyVisibility::OnCreation))]);
    assert_examples("Permission", [permission_example()]);
}

/// The key appears only in the response that creates it.
#[derive(Clone, Copy)]
enum KeyVisibility {
    OnCreation,
    Hidden,
}

impl KeyVisibility {
    /// An application that was created without a key has no key text.
    fn key_text(self) -> Option<&'static str> {
        match self {
            Self::OnCreation => Some("key_test_us_pub_4QK7ZP2M9XW1B6TJ8HN3CR5VDY0AGSFE4QK7ZP2"),
            Self::Hidden => None,
        }
    }
}

fn example(visibility: KeyVisibility) -> Value {
    let is_modified = matches!(visibility, KeyVisibility::Hidden);
    json!(ApplicationBody {
        id: "d3c1f0a4-6b7e-4e52-9a1d-8f5b2c7e4a60".to_owned(),
        tenant_id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
        name: "Checkout page",
        key: visibility.key_text(),
        keys: vec![key_example(visibility)],
        r#type: ApplicationKind::Public.as_str(),
        permissions: vec!["token:create"],
        rules: Vec::new(),
        origins: Some(vec!["https://shop.example"]),
        created_by: Some("0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
        modified_by: is_modified.then(|| "0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        modified_at: is_modified.then(|| "2026-11-02T10:00:00+00:00".to_owned()),
    })
}

fn key_example(visibility: KeyVisibility) -> KeyBody<'static> {
    KeyBody {
        id: "7a2e9c41-5d3f-4b86-8e0a-1f6c4d9b2e75".to_owned(),
        key: visibility.key_text(),
        created_by: Some("0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
    }
}

fn permission_example() -> Value {
    use scrip_core::types::Permission::TokenCreate;
    json!(PermissionBody {
        r#type: TokenCreate.as_str(),
        description: TokenCreate.description(),
        application_types: TokenCreate.kinds().iter().map(|it| it.as_str()).collect(),
    })
}

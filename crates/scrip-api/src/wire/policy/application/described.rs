//! Applications, keys and permissions, described.

use scrip_core::{audit::Operation, permission::ApplicationKind};
use serde_json::{Value, json};

use crate::wire::{
    described::{Description, Parameter, Tag, operation, parameter},
    policy::{
        access::{
            Holder,
            described::{application_kind, attributes, not_empty, permission},
        },
        application::{ApplicationBody, KeyBody, PermissionBody},
    },
    query::described::{page_of, page_parameters},
    schema::{
        Schema, always, answer, boolean, either, instant, list, named, one_of, request, sometimes,
        text, uuid,
    },
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let held = answer([
        always("type", permission()),
        always("description", text()),
        always("application_types", list(application_kind())),
    ]);
    let update =
        request([always("name", name())].into_iter().chain(attributes(Holder::Application, None)));
    vec![
        ("Application", application(Shown::Later).examples([example(Shown::Later)])),
        ("CreatedApplication", application(Shown::Once).examples([example(Shown::Once)])),
        ("ApiKey", key(Shown::Later).examples([json!(key_example(Shown::Later))])),
        ("CreatedApiKey", key(Shown::Once).examples([json!(key_example(Shown::Once))])),
        ("NewApplication", new_application()),
        (
            "ApplicationUpdate",
            not_empty(update).examples([json!({"name": "Shop", "permissions": ["token:create"]})]),
        ),
        ("Permission", held.examples([permission_example()])),
    ]
}

/// A key is shown when it is made, and never again.
#[derive(Clone, Copy)]
enum Shown {
    Once,
    Later,
}

impl Shown {
    /// Only an application that was made without a key has none to show.
    fn key_text(self) -> Option<&'static str> {
        match self {
            Self::Once => Some("key_test_us_pub_4QK7ZP2M9XW1B6TJ8HN3CR5VDY0AGSFE4QK7ZP2"),
            Self::Later => None,
        }
    }
}

/// Space around a name is taken off; within it, nothing that cannot be seen.
pub(crate) fn name() -> Schema {
    const SPACE: &str =
        r"\u0009-\u000d\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000";
    const UNSEEN: &str =
        r"\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff";
    let pattern = format!(
        "^[{SPACE}]*[^{SPACE}{UNSEEN}]([^{UNSEEN}]{{0,198}}[^{SPACE}{UNSEEN}])?[{SPACE}]*$"
    );
    text().pattern(pattern).about("1 to 200 characters that can be seen.")
}

fn application(shown: Shown) -> Schema {
    let (own, key) = match shown {
        Shown::Once => (vec![sometimes("key", key_text())], "CreatedApiKey"),
        Shown::Later => {
            let modified = [sometimes("modified_by", uuid()), sometimes("modified_at", instant())];
            (Vec::from(modified), "ApiKey")
        }
    };
    let others = [
        always("id", uuid()),
        always("tenant_id", uuid()),
        always("name", text()),
        always("keys", list(named(key))),
        always("type", application_kind()),
        always("permissions", list(permission())),
        always("rules", list(named("AccessRule"))),
        sometimes("created_by", uuid().about("Absent when the operator made it.")),
        always("created_at", instant()),
    ];
    answer(own.into_iter().chain(others))
}

fn key(shown: Shown) -> Schema {
    let own = match shown {
        Shown::Once => Some(always("key", key_text())),
        Shown::Later => None,
    };
    let others =
        [always("id", uuid()), sometimes("created_by", uuid()), always("created_at", instant())];
    answer(own.into_iter().chain(others))
}

fn key_text() -> Schema {
    text().about("Shown now, and never again.")
}

/// One shape for each type, because each may hold permissions of its own.
fn new_application() -> Schema {
    let of = |kind: ApplicationKind| {
        let others = [
            always("name", name()),
            always("type", one_of([kind.as_str()])),
            sometimes("create_key", boolean().with("default", true)),
        ];
        let access = attributes(Holder::Application, Some(kind));
        not_empty(request(others.into_iter().chain(access)).with("title", kind.as_str()))
    };
    let example = json!({
        "name": "Checkout page", "type": "public", "permissions": ["token:create"],
    });
    either(ApplicationKind::ALL.map(of)).examples([example])
}

fn example(shown: Shown) -> Value {
    let later = matches!(shown, Shown::Later);
    json!(ApplicationBody {
        id: "d3c1f0a4-6b7e-4e52-9a1d-8f5b2c7e4a60".to_owned(),
        tenant_id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
        name: "Checkout page",
        key: shown.key_text(),
        keys: vec![key_example(shown)],
        r#type: ApplicationKind::Public.as_str(),
        permissions: vec!["token:create"],
        rules: Vec::new(),
        created_by: Some("0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
        modified_by: later.then(|| "0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        modified_at: later.then(|| "2026-11-02T10:00:00+00:00".to_owned()),
    })
}

fn key_example(shown: Shown) -> KeyBody<'static> {
    KeyBody {
        id: "7a2e9c41-5d3f-4b86-8e0a-1f6c4d9b2e75".to_owned(),
        key: shown.key_text(),
        created_by: Some("0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned()),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
    }
}

fn permission_example() -> Value {
    use scrip_core::permission::Permission::TokenCreate;
    json!(PermissionBody {
        r#type: TokenCreate.as_str(),
        description: TokenCreate.description(),
        application_types: TokenCreate.kinds().iter().map(|it| it.as_str()).collect(),
    })
}

fn id() -> Parameter {
    parameter("id", uuid(), "The application.")
}

fn key_id() -> Parameter {
    parameter("key_id", uuid(), "The key.")
}

pub(crate) fn create() -> Description {
    use Operation::{
        CreateApiKey, DeleteApplication, GetApplication, ListApiKeys, UpdateApplication,
    };
    operation(Tag::Applications, "Create an application")
        .about("The answer is the only one that shows its key.")
        .body(named("NewApplication"))
        .answer(
            201,
            "The application, and its key unless none was wanted.",
            named("CreatedApplication"),
        )
        .problem(404)
        .problem(422)
        .leads_to(
            &[GetApplication, UpdateApplication, CreateApiKey, ListApiKeys, DeleteApplication],
            &[("id", "$response.body#/id")],
        )
}

pub(crate) fn list_all() -> Description {
    let ids = list(text()).about("Those that are no application's are passed over.");
    operation(Tag::Applications, "List applications")
        .query([
            parameter("id", ids, "Only these; may be given more than once."),
            parameter("type", list(application_kind()), "Only of these types."),
        ])
        .query(page_parameters(u64::MAX))
        .answer(200, "A page of applications, the newest first.", page_of(named("Application")))
}

pub(crate) fn get() -> Description {
    operation(Tag::Applications, "Get an application").path(id()).answer(
        200,
        "The application.",
        named("Application"),
    )
}

pub(crate) fn get_by_key() -> Description {
    operation(Tag::Applications, "Get the application of the key")
        .about("Tells whose key was sent. For the key of a session, the application that began it.")
        .answer(200, "The application.", named("Application"))
}

pub(crate) fn update() -> Description {
    operation(Tag::Applications, "Update an application")
        .about("Name, permissions and rules are replaced. The type cannot change.")
        .path(id())
        .body(named("ApplicationUpdate"))
        .answer(200, "The application as it is now.", named("Application"))
        .problem(422)
}

pub(crate) fn delete() -> Description {
    operation(Tag::Applications, "Delete an application")
        .about("Its keys stop working at once.")
        .path(id())
        .done("It is gone.")
}

pub(crate) fn regenerate() -> Description {
    let mut description = operation(Tag::ApiKeys, "Regenerate the key of an application")
        .about("Gone. Create another key, and delete the old one when nobody uses it.")
        .path(id());
    // Nobody looks for the application.
    description.problems.retain(|it| *it != 404);
    description
}

pub(crate) fn create_key() -> Description {
    operation(Tag::ApiKeys, "Create a key")
        .about("Keys that are there go on working. A body is passed over.")
        .path(id())
        .answer(201, "The key.", named("CreatedApiKey"))
        .problem(422)
        .leads_to(
            &[Operation::GetApiKey, Operation::DeleteApiKey],
            &[("id", "$request.path.id"), ("key_id", "$response.body#/id")],
        )
}

pub(crate) fn list_keys() -> Description {
    let either = either([list(named("ApiKey")), page_of(named("ApiKey"))]);
    operation(Tag::ApiKeys, "List keys")
        .about("All of them as an array; or a page of them, when `page` or `size` is given.")
        .path(id())
        .query([parameter("id", list(text()), "Only these keys; may be given more than once.")])
        .query(page_parameters(u64::MAX))
        .answer(200, "What is known of the keys, the oldest first.", either)
}

pub(crate) fn get_key() -> Description {
    operation(Tag::ApiKeys, "Get a key").path(id()).path(key_id()).answer(
        200,
        "What is known of the key.",
        named("ApiKey"),
    )
}

pub(crate) fn delete_key() -> Description {
    operation(Tag::ApiKeys, "Delete a key")
        .about("It stops working at once.")
        .path(id())
        .path(key_id())
        .done("It is gone.")
}

pub(crate) fn permissions() -> Description {
    operation(Tag::Applications, "List permissions")
        .query([parameter("application_type", application_kind(), "Only what this type can hold.")])
        .answer(200, "Every permission there is.", list(named("Permission")))
}

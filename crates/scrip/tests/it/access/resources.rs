//! The resources of the policy, one row each, for the rules that they share.

mod rules;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use crate::harness::server::{TenantApiKeys, TestResponse, TestServer, text_field};

/// How a list is divided into pages.
#[derive(Clone, Copy, PartialEq)]
enum Listing {
    NewestFirst,
    OldestFirst,
    /// With a cursor instead of page numbers.
    Cursor,
    /// One array.
    Array,
    /// There is one such entity per tenant, so it is neither listed nor created.
    Single,
}

struct Resource {
    /// The name in operations, such as `create_proxy`.
    name: &'static str,
    plural: &'static str,
    /// The path of the list, in which `{application}` is an application of the tenant.
    collection: &'static str,
    listing: Listing,
    /// A body that creates an entity with this name; null if a request needs none.
    body: fn(&str) -> Value,
    /// The attributes that must be in the body.
    required: &'static [&'static str],
    /// The attributes for which null means the same as their absence.
    optional: &'static [&'static str],
    /// The attribute with the id.
    id: &'static str,
    /// The attributes that only the response to the creation has.
    shown_once: &'static [&'static str],
    /// The methods that change an entity.
    changes: &'static [&'static str],
}

#[rustfmt::skip]
const RESOURCES: &[Resource] = &[
    Resource {
        name: "application", plural: "applications", collection: "/applications",
        listing: Listing::NewestFirst, changes: &["PUT"],
        body: |name| json!({"name": name, "type": "private", "permissions": ["token:read"]}),
        required: &["name"], optional: &["rules", "create_key"], id: "id", shown_once: &["key"],
    },
    Resource {
        name: "api_key", plural: "api_keys", collection: "/applications/{application}/keys",
        listing: Listing::OldestFirst, changes: &[],
        body: |_| Value::Null,
        required: &[], optional: &[], id: "id", shown_once: &["key"],
    },
    Resource {
        name: "proxy", plural: "proxies", collection: "/proxies",
        listing: Listing::NewestFirst, changes: &["PUT", "PATCH"],
        body: |name| json!({"name": name, "destination_url": "https://psp.example/v1"}),
        required: &["name", "destination_url"],
        optional: &["request_transform", "request_transforms", "response_transform",
            "response_transforms", "request_reactor_id", "response_reactor_id", "application",
            "configuration", "require_auth", "disable_detokenization", "timeout", "ca_pem", "tls_min"],
        id: "id", shown_once: &[],
    },
    Resource {
        name: "webhook", plural: "webhooks", collection: "/webhooks",
        listing: Listing::Cursor, changes: &["PUT"],
        body: |name| json!({"name": name, "url": "https://shop.example", "events": ["token.read"]}),
        required: &["name", "url", "events"], optional: &["notify_email", "status"],
        id: "id", shown_once: &["secret"],
    },
    Resource {
        name: "client_key", plural: "client_keys", collection: "/keys",
        listing: Listing::Array, changes: &[],
        body: |_| json!({}),
        required: &[], optional: &["expires_at"], id: "key_id", shown_once: &["public_key_pem"],
    },
    Resource {
        name: "tenant", plural: "tenants", collection: "/tenants/self",
        listing: Listing::Single, changes: &["PUT"],
        body: |name| json!({"name": name}),
        required: &["name"], optional: &["settings"], id: "id", shown_once: &[],
    },
];

/// A tenant of its own, in which a rule is checked for one resource.
struct Harness<'a> {
    server: &'a TestServer,
    resource: &'static Resource,
    keys: TenantApiKeys,
    collection: String,
}

impl<'a> Harness<'a> {
    fn new(server: &'a TestServer, resource: &'static Resource) -> Self {
        let keys = server.create_default_tenant();
        let mut collection = resource.collection.to_owned();
        if collection.contains("{application}") {
            let permissions = json!({"permissions": ["token:read"]});
            let application = server.create_application(&keys.management, "private", &permissions);
            collection = collection.replace("{application}", &application.id);
        }
        Self { server, resource, keys, collection }
    }

    #[track_caller]
    fn send(&self, method: &str, path: &str, body: &Value) -> TestResponse {
        let request = self.server.request(method, path).key(&self.keys.management);
        if body.is_null() {
            return request.send();
        }
        match method {
            "PATCH" => request.merge_patch(body).send(),
            _ => request.json(body).send(),
        }
    }

    /// Creates an entity, or returns the only one.
    #[track_caller]
    fn create(&self, name: &str) -> Value {
        if self.resource.listing == Listing::Single {
            return self.get(&Value::Null);
        }
        self.send("POST", &self.collection, &(self.resource.body)(name)).expect_status(201)
    }

    fn id(&self, entity: &Value) -> String {
        text_field(entity, self.resource.id)
    }

    fn path(&self, entity: &Value) -> String {
        if self.resource.listing == Listing::Single {
            return self.collection.clone();
        }
        format!("{}/{}", self.collection, self.id(entity))
    }

    #[track_caller]
    fn get(&self, entity: &Value) -> Value {
        self.send("GET", &self.path(entity), &Value::Null).expect_status(200)
    }

    fn try_list(&self, query: &str) -> TestResponse {
        self.send("GET", &format!("{}{query}", self.collection), &Value::Null)
    }

    /// The entities of a list, or of one of its pages.
    #[track_caller]
    fn list(&self, query: &str) -> Vec<Value> {
        let list = self.try_list(query).expect_status(200);
        list.as_array().or(list["data"].as_array()).unwrap().clone()
    }

    #[track_caller]
    fn list_ids(&self, query: &str) -> Vec<String> {
        self.list(query).iter().map(|it| self.id(it)).collect()
    }

    /// The entity as every response after its creation shows it.
    fn without_shown_once(&self, created: &Value) -> Value {
        let mut shown = created.clone();
        for name in self.resource.shown_once {
            shown.as_object_mut().unwrap().remove(*name).expect(name);
            for key in shown.get_mut("keys").and_then(Value::as_array_mut).into_iter().flatten() {
                key.as_object_mut().unwrap().remove(*name);
            }
        }
        shown
    }

    /// The application of the management key.
    fn manager(&self) -> Value {
        let path = "/applications/key";
        self.server.get_path(&self.keys.management, path).expect_status(200)["id"].clone()
    }
}

/// Checks a rule for each resource, in a tenant of its own.
#[track_caller]
fn check_each(
    server: &TestServer,
    rule: &str,
    applies: fn(&Resource) -> bool,
    check: fn(&Harness<'_>),
) {
    let is_broken = |resource: &&'static Resource| {
        let check = || check(&Harness::new(server, resource));
        catch_unwind(AssertUnwindSafe(check)).is_err()
    };
    let broken = RESOURCES.iter().filter(|it| applies(it)).filter(is_broken);
    let broken: Vec<_> = broken.map(|it| it.name).collect();
    assert!(broken.is_empty(), "{broken:?} break the rule \"{rule}\"; the causes are above");
}

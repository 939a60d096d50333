//! Events of changes of the policy, by a client or by the operator.

use std::sync::Arc;

use scrip_core::{
    operations::{
        applications::create_api_key::import_api_key,
        tenants::{restore_tenant::restore_tenant, update_tenant::set_tenant_quotas},
    },
    policy::{ApiKeyText, PolicyPermit, Quotas, Tenant},
    types::EventType,
};
use serde_json::{Value, json};

use crate::{
    harness::server::{SERVER, TestResponse, text_field},
    webhooks::events::{
        Subscription, create_webhook, load_events, operator_actor, pick, subscribe,
    },
};

const CHANGE_ATTRIBUTES: [&str; 4] = ["created_at", "created_by", "modified_at", "modified_by"];

fn rule() -> Value {
    json!({
        "description": "orders", "priority": 1, "container": "/orders/", "transform": "mask",
        "permissions": ["token:read", "token:search"],
    })
}

fn application_body(name: &str) -> Value {
    json!({"name": name, "type": "private", "rules": [rule()]})
}

fn create_application(subscription: &Subscription<'_>) -> Value {
    let body = application_body("Shop");
    SERVER.post(&subscription.keys.management, "/applications", &body).expect_status(201)
}

fn application_path(application: &Value) -> String {
    format!("/applications/{}", text_field(application, "id"))
}

fn expected_application(response: &Value) -> Value {
    let names = [["id", "type", "name"].as_slice(), &CHANGE_ATTRIBUTES].concat();
    let mut application = pick(response, &names);
    (application["permissions"], application["rules"]) = (json!([]), json!([rule()]));
    json!({"application": application})
}

fn operator_permit(tenant: &Arc<Tenant>) -> PolicyPermit {
    let directory = SERVER.app.directory.load_full().unwrap();
    let deleted = directory.pending_deletion().iter().find(|it| it.id == tenant.id);
    let tenant = directory.tenant(tenant.id).or(deleted).unwrap();
    PolicyPermit::for_operator(Arc::clone(tenant))
}

/// Changes the policy. Returns the response and the data of its only event.
type Change = fn(&Subscription<'_>) -> (TestResponse, Value);

const CHANGES: &[(EventType, Change)] = &[
    (EventType::ApplicationCreated, |it| {
        let (key, body) = (&it.keys.management, application_body("Shop"));
        let create = || SERVER.post_once(key, "/applications", "key", &body);
        let response = create();
        create().expect_status(201);
        let expected = expected_application(&response.expect_status(201));
        (response, expected)
    }),
    (EventType::ApplicationUpdated, |it| {
        let path = application_path(&create_application(it));
        it.expect_none();
        let response = SERVER.put(&it.keys.management, &path, &application_body("Office"));
        let expected = expected_application(&response.expect_status(200));
        assert_eq!(expected["application"]["name"], "Office");
        (response, expected)
    }),
    (EventType::ApplicationDeleted, |it| {
        let application = create_application(it);
        let response = delete_twice(it, &application_path(&application));
        (response, json!({"application": {"id": application["id"]}}))
    }),
    (EventType::ApplicationKeyDeleted, |it| {
        let application = create_application(it);
        let id = text_field(&application["keys"][0], "id");
        let response = delete_twice(it, &format!("{}/keys/{id}", application_path(&application)));
        (response, expected_deleted_key(&application))
    }),
    // The key of a deleted application.
    (EventType::ApplicationKeyDeleted, |it| {
        let application = create_application(it);
        let response = delete_twice(it, &application_path(&application));
        (response, expected_deleted_key(&application))
    }),
    (EventType::ProxyCreated, |it| {
        let body = proxy_body("Charges");
        let response = SERVER.post(&it.keys.management, "/proxies", &body);
        let mut expected = expected_proxy(&response.expect_status(201));
        expected["proxy"].as_object_mut().unwrap().remove("timeout");
        (response, expected)
    }),
    (EventType::ProxyUpdated, |it| {
        let path = proxy_path(&create_proxy(it));
        it.expect_none();
        let response = SERVER.put(&it.keys.management, &path, &proxy_body("Refunds"));
        response.expect_status(200);
        (response, expected_refunds(it, &path))
    }),
    (EventType::ProxyUpdated, |it| {
        let path = proxy_path(&create_proxy(it));
        it.expect_none();
        let response = SERVER.patch(&it.keys.management, &path, &json!({"name": "Refunds"}));
        response.expect_status(204);
        (response, expected_refunds(it, &path))
    }),
    (EventType::ProxyDeleted, |it| {
        let proxy = create_proxy(it);
        let response = delete_twice(it, &proxy_path(&proxy));
        (response, json!({"proxy": {"id": proxy["id"]}}))
    }),
    (EventType::TenantUpdated, |it| {
        let body = json!({"name": "Acme", "settings": {"deduplicate_tokens": "true"}});
        let response = SERVER.put(&it.keys.management, "/tenants/self", &body);
        let names = ["id", "name", "created_at", "created_by", "modified_at", "modified_by"];
        let expected = pick(&response.expect_status(200), &names);
        (response, json!({"tenant": expected}))
    }),
];

#[test]
fn change_of_the_policy_has_one_event() {
    for (event_type, change) in CHANGES {
        let subscription = subscribe(*event_type);
        let (response, expected) = change(&subscription);
        let data = subscription.expect_one_of(&subscription.keys.management, &response);
        assert_eq!(data, expected, "{event_type:?}");
    }
}

#[test]
fn rejected_change_of_an_application_has_no_event() {
    let subscription = subscribe(EventType::ApplicationUpdated);
    let key = &subscription.keys.management;
    let path = application_path(&create_application(&subscription));
    let mut body = application_body("Office");
    body["permissions"] = json!(["tenant:update"]);
    assert_eq!(SERVER.put(key, &path, &body).status, 400);
    SERVER.put(&subscription.keys.private, &path, &body).expect_status(403);
    let unknown = format!("/applications/{}", subscription.keys.tenant.id);
    SERVER.put(key, &unknown, &application_body("Office")).expect_status(404);
    subscription.expect_none();
}

#[test]
fn created_key_has_one_event() {
    let subscription = subscribe(EventType::ApplicationKeyCreated);
    let key = &subscription.keys.management;
    let response = SERVER.post(key, "/applications", &application_body("Shop"));
    let application = response.expect_status(201);
    let expected = |api_key: &Value, created_by: &Value| {
        let mut expected = pick(api_key, &["id", "created_at"]);
        expected["application_id"] = application["id"].clone();
        (expected["version"], expected["created_by"]) = (json!(1), created_by.clone());
        json!({"application_key": expected})
    };
    let created_by = &application["created_by"];
    let data = subscription.expect_one_of(key, &response);
    assert_eq!(data, expected(&application["keys"][0], created_by));

    let path = format!("{}/keys", application_path(&application));
    let created = SERVER.post_empty(key, &path).expect_status(201);
    let events = subscription.events();
    assert_eq!(events.len(), 2);
    let is_second = |it: &&Value| it["data"]["application_key"]["id"] == created["id"];
    let second = events.iter().find(is_second).unwrap();
    let api_key = &second["data"]["application_key"];
    assert_eq!(json!({"application_key": api_key}), expected(&created, created_by));
    assert!(!second.to_string().contains(&text_field(&created, "key")));
}

#[test]
fn imported_key_has_one_event_of_the_operator() {
    let subscription = subscribe(EventType::ApplicationKeyCreated);
    let tenant = &subscription.keys.tenant;
    let permit = operator_permit(tenant);
    let application = *permit.tenant().applications.keys().next().unwrap();
    let created = SERVER.runtime.block_on(async {
        let (vault, pepper) = (&SERVER.app.vault, SERVER.app.pepper().unwrap());
        let api_key = ApiKeyText::parse("key_8Cw2yXlUr9KnAs4MqZd7Je").unwrap();
        import_api_key(vault, permit, &pepper, application, api_key).await.unwrap()
    });
    let data = subscription.expect_one_without_request(&operator_actor());
    let api_key = json!({
        "id": created.record.id.to_string(),
        "application_id": application.to_string(),
        "version": 1,
        "created_at": created.record.created.at.to_string(),
    });
    assert_eq!(data, json!({"application_key": api_key}));
}

fn proxy_body(name: &str) -> Value {
    json!({
        "name": name,
        "destination_url": "https://api.example.com/v1?key=hidden",
        "configuration": {"KEY": "hidden"},
        "timeout": 20,
    })
}

fn create_proxy(subscription: &Subscription<'_>) -> Value {
    let body = proxy_body("Charges");
    SERVER.post(&subscription.keys.management, "/proxies", &body).expect_status(201)
}

fn proxy_path(proxy: &Value) -> String {
    format!("/proxies/{}", text_field(proxy, "id"))
}

fn expected_proxy(response: &Value) -> Value {
    let mut proxy = pick(response, &[["id", "name"].as_slice(), &CHANGE_ATTRIBUTES].concat());
    proxy["destination_url"] = "https://api.example.com/v1".into();
    proxy["require_authentication"] = true.into();
    proxy["timeout"] = 20.into();
    json!({"proxy": proxy})
}

fn expected_refunds(subscription: &Subscription<'_>, path: &str) -> Value {
    let proxy = SERVER.get_path(&subscription.keys.management, path).expect_status(200);
    assert_eq!(proxy["name"], "Refunds");
    assert!(proxy["modified_at"].is_string());
    expected_proxy(&proxy)
}

fn expected_deleted_key(application: &Value) -> Value {
    let id = &application["keys"][0]["id"];
    json!({"application_key": {"id": id, "application_id": application["id"]}})
}

/// Deletes an entity. The second deletion finds none.
fn delete_twice(subscription: &Subscription<'_>, path: &str) -> TestResponse {
    let delete = || SERVER.delete(&subscription.keys.management, path);
    let response = delete();
    response.expect_status(204);
    delete().expect_status(404);
    response
}

#[test]
fn changed_quotas_have_one_event_of_the_operator() {
    let subscription = subscribe(EventType::TenantUpdated);
    let tenant = &subscription.keys.tenant;
    let record = SERVER.runtime.block_on(async {
        let edit = |quotas| Quotas { tokenize_limit: 7, ..quotas };
        let vault = &SERVER.app.vault;
        set_tenant_quotas(vault, operator_permit(tenant), Box::new(edit)).await.unwrap()
    });
    let data = subscription.expect_one_without_request(&operator_actor());
    let expected = json!({
        "id": tenant.id.to_string(),
        "name": "test",
        "created_at": record.created.at.to_string(),
        "modified_at": record.modified.unwrap().at.to_string(),
    });
    assert_eq!(data, json!({"tenant": expected}));
}

fn set_deletion_grace(tenant: &Arc<Tenant>) {
    let edit = |quotas| Quotas { deletion_grace_seconds: 3600, ..quotas };
    SERVER.runtime.block_on(async {
        let (app, permit) = (&SERVER.app, operator_permit(tenant));
        set_tenant_quotas(&app.vault, permit, Box::new(edit)).await.unwrap();
        app.reload().await.unwrap();
    });
}

#[test]
fn deleted_tenant_has_one_event_at_the_start_of_its_grace_period() {
    let subscription = subscribe(EventType::TenantDeleted);
    let (key, tenant) = (&subscription.keys.management, &subscription.keys.tenant);
    set_deletion_grace(tenant);
    let actor = super::describe_caller(&SERVER, key);
    let response = SERVER.delete(key, "/tenants/self");
    response.expect_status(204);
    let event = subscription.expect_one();
    assert_eq!(event["trace_id"], response.headers["bt-trace-id"]);
    let id = tenant.id.to_string();
    assert_eq!(event["data"], json!({"tenant": {"id": id}, "actor": actor}));
}

#[test]
fn restored_tenant_has_one_event() {
    let subscription = subscribe(EventType::TenantUpdated);
    let (key, tenant) = (&subscription.keys.management, &subscription.keys.tenant);
    set_deletion_grace(tenant);
    let before = subscription.events().len();
    SERVER.delete(key, "/tenants/self").expect_status(204);
    assert_eq!(subscription.events().len(), before, "a deletion is no update");
    SERVER.runtime.block_on(async {
        SERVER.app.reload().await.unwrap();
        restore_tenant(&SERVER.app.vault, operator_permit(tenant)).await.unwrap();
        SERVER.app.reload().await.unwrap();
    });
    assert_eq!(subscription.events().len(), before + 1);
}

/// The node that changes the policy has not loaded the webhook yet.
#[test]
fn webhook_that_another_node_created_gets_the_event_of_a_policy_change() {
    let keys = SERVER.create_default_tenant();
    let stale_permit = operator_permit(&keys.tenant);
    let events = json!({"events": [EventType::TenantUpdated.as_str()]});
    let webhook = create_webhook(&SERVER, &keys, &events);
    assert!(stale_permit.tenant().webhooks.is_empty());
    SERVER.runtime.block_on(async {
        let edit = |quotas| Quotas { tokenize_limit: 7, ..quotas };
        let vault = &SERVER.app.vault;
        set_tenant_quotas(vault, stale_permit, Box::new(edit)).await.unwrap();
    });
    let events = load_events(&SERVER, &keys.tenant, webhook);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["type"], "tenant.updated");
}

//! The rules that the resources of the policy share. Permissions, denials and other tenants are
//! checked for every route in `coverage`, repeated requests in `policy_replays`.

use std::time::Duration;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{audit::LogKind, policy::CallerRequirement, types::ApplicationKind};
use scrip_testing::requests::assert_members;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Listing, Resource, check_each};
use crate::{
    access::operation_calls::TenantHarness,
    audit::records::records,
    harness::server::{SERVER, TestServer, text_field},
};

fn is_created(resource: &Resource) -> bool {
    resource.listing != Listing::Single
}

fn is_changed(resource: &Resource) -> bool {
    !resource.changes.is_empty()
}

fn is_paged(resource: &Resource) -> bool {
    matches!(resource.listing, Listing::NewestFirst | Listing::OldestFirst)
}

#[test]
fn created_resource_is_read_and_listed_without_what_is_shown_once() {
    let rule = "a created entity is read and listed as created, without what is shown once";
    check_each(&SERVER, rule, is_created, |it| {
        let created = it.create("created");
        let shown = it.without_shown_once(&created);
        assert_eq!(it.get(&created), shown);
        assert!(it.list("").contains(&shown), "{created} is not listed");
        assert!(Uuid::try_parse(&it.id(&created)).is_ok(), "{created}");
        if it.resource.name == "client_key" {
            return;
        }
        assert_eq!(created["created_by"], it.manager());
        assert!(created["created_at"].is_string());
        assert!(created["modified_by"].is_null() && created["modified_at"].is_null());
        if is_changed(it.resource) {
            assert_eq!(created["name"], "created");
            assert_eq!(created["tenant_id"], it.keys.tenant.id.to_string());
        }
    });
}

/// Removes the attributes that differ between two entities with equal bodies.
fn without_identity(mut entity: Value) -> Value {
    let names = ["id", "key", "keys", "key_id", "secret", "public_key_pem", "expires_at"];
    for name in names.into_iter().chain(["created_at", "modified_at"]) {
        entity.as_object_mut().unwrap().remove(name);
    }
    entity
}

#[test]
fn null_and_unknown_attributes_of_a_resource_change_nothing() {
    let rule = "an optional attribute may be null, and unknown and read-only ones are ignored";
    check_each(
        &SERVER,
        rule,
        |it| !it.optional.is_empty(),
        |it| {
            let mut body = (it.resource.body)("same");
            for name in it.resource.optional {
                body[*name] = Value::Null;
            }
            for name in
                ["unknown", "id", "key", "tenant_id", "created_at", "created_by", "proxy_host"]
            {
                body[name] = json!("mine");
            }
            let plain = it.create("same");
            if is_created(it.resource) {
                let created = it.send("POST", &it.collection, &body).expect_status(201);
                assert!(Uuid::try_parse(&it.id(&created)).is_ok() && created["key"] != "mine");
                assert_eq!(without_identity(created), without_identity(plain.clone()));
            }
            if is_changed(it.resource) {
                let put = |body: &Value| it.send("PUT", &it.path(&plain), body).expect_status(200);
                let (by_plain, by_nulls) = (put(&(it.resource.body)("same")), put(&body));
                assert_members(&by_nulls, &json!({"id": by_plain["id"], "key": by_plain["key"]}));
                assert_eq!(without_identity(by_nulls), without_identity(by_plain));
            }
        },
    );
}

#[test]
fn update_of_a_resource_changes_its_name_and_keeps_its_identity() {
    let rule = "an update changes the given attribute, keeps the identity and records who changed";
    check_each(&SERVER, rule, is_changed, |it| {
        for method in it.resource.changes {
            let created = it.create("before");
            let mut expected = it.without_shown_once(&created);
            let body = match *method {
                "PATCH" => json!({"name": "after"}),
                _ => (it.resource.body)("after"),
            };
            let response = it.send(method, &it.path(&created), &body);
            let updated = it.get(&created);
            match *method {
                "PATCH" => assert_eq!((response.status, &*response.text), (204, "")),
                _ => assert_eq!(response.expect_status(200), updated, "{method}"),
            }
            assert!(updated["modified_at"].is_string(), "{method}: {updated}");
            expected["name"] = json!("after");
            expected["modified_by"] = it.manager();
            expected["modified_at"] = updated["modified_at"].clone();
            assert_eq!(updated, expected, "{method}");
        }
    });
}

#[test]
fn invalid_change_of_a_resource_names_the_attribute_and_changes_nothing() {
    let rule = "a missing or malformed attribute is named, and nothing changes";
    check_each(&SERVER, rule, is_changed, |it| {
        let created = it.create("unchanged");
        let state = || (it.get(&created), is_created(it.resource).then(|| it.list("").len()));
        let before = state();
        for name in it.resource.required {
            for invalid in [Value::Null, json!([7]), json!("")] {
                let mut body = (it.resource.body)("changed");
                body[*name] = invalid;
                for method in it.resource.changes {
                    it.send(method, &it.path(&created), &body).expect_invalid(name);
                }
                if is_created(it.resource) {
                    it.send("POST", &it.collection, &body).expect_invalid(name);
                }
            }
        }
        let changes = it.resource.changes.iter().map(|method| (*method, it.path(&created)));
        for (method, path) in changes {
            it.send(method, &path, &json!([])).expect_problem(400, "object");
            let request = it.server.request(method, &path).key(&it.keys.management);
            let response = request.body("text/plain", "{}").send();
            assert_eq!(response.status, 415, "{method}: {}", response.text);
        }
        assert_eq!(state(), before);
    });
}

#[test]
fn deleted_resource_is_not_found_and_others_remain() {
    let rule = "a deleted entity is not found, not even with the idempotency key of its deletion";
    check_each(&SERVER, rule, is_created, |it| {
        let (deleted, other) = (it.create("deleted"), it.create("other"));
        let path = it.path(&deleted);
        let delete = || {
            let request = it.server.request("DELETE", &path).key(&it.keys.management);
            request.idempotency_key("delete-once").send()
        };
        let response = delete();
        assert_eq!((response.status, &*response.text), (204, ""));
        delete().expect_problem(404, "Not found.");
        it.send("GET", &path, &Value::Null).expect_problem(404, "Not found.");
        for method in it.resource.changes {
            it.send(method, &path, &(it.resource.body)("x")).expect_problem(404, "Not found.");
        }
        let listed = it.list_ids("");
        assert!(!listed.contains(&it.id(&deleted)) && listed.contains(&it.id(&other)));
        assert_eq!(it.get(&other), it.without_shown_once(&other));
    });
}

/// Ids of other tenants, and of other entities of the same tenant, look like unknown ones.
#[test]
fn unknown_and_foreign_ids_are_not_found_on_every_policy_route() {
    let mut harness = TenantHarness::new(&SERVER);
    let management = harness.keys.management.clone();
    let own = [&harness.application, &harness.api_key].map(String::clone);
    let body = json!({"name": "other", "type": "private", "permissions": ["token:read"]});
    let other = SERVER.create_entity(&management, "/applications", &body);
    let foreign = TenantHarness::new(&SERVER);
    let state_before = foreign.tenant_state();
    let TenantHarness { application, api_key, proxy, webhook, client_key, .. } = &foreign;
    let key_of_other = text_field(&other["keys"][0], "id");
    let unknown = Uuid::new_v4().to_string();
    let mut rows = vec![
        [application, api_key, proxy, webhook, client_key].map(|it| it.as_str()),
        [application, &key_of_other, client_key, proxy, webhook],
    ];
    rows.extend([&*unknown, "abc", "%FF%FE", "a%20b", "00000000"].map(|id| [id; 5]));
    let is_of_policy = |it: &&Route| {
        it.path.contains("{id}")
            && matches!(it.requirement, CallerRequirement::Permission(permission)
                if permission.kinds() == [ApplicationKind::Management])
    };
    let mut first = None;
    for [application, api_key, proxy, webhook, client_key] in rows {
        (harness.proxy, harness.webhook) = (proxy.to_owned(), webhook.to_owned());
        harness.client_key = client_key.to_owned();
        for (application, api_key) in [(application, &*own[1]), (&own[0], api_key)] {
            (harness.application, harness.api_key) = (application.to_owned(), api_key.to_owned());
            for route in ROUTES.iter().filter(is_of_policy) {
                let is_known = application == own[0] && route.path.starts_with("/applications");
                if is_known && !route.path.contains("{key_id}") {
                    continue;
                }
                let response = harness.call_route(route, Some(&management));
                assert_eq!(response.status, 404, "{route:?} of {application}: {}", response.text);
                response.expect_problem(404, "Not found.");
                let body = response.without_trace();
                assert_eq!(first.get_or_insert_with(|| body.clone()), &body, "{route:?}");
            }
        }
    }
    assert_eq!(foreign.tenant_state(), state_before);
}

#[test]
fn resources_are_listed_by_time_in_pages_and_filtered_by_id() {
    let rule = "a list is ordered by creation, divided into numbered pages and filtered by ids";
    check_each(&TestServer::start(), rule, is_paged, |it| {
        let earlier = it.list("?size=100").len();
        let create = |number: usize| {
            it.server.clock.advance(Duration::from_secs(1));
            it.id(&it.create(&number.to_string()))
        };
        let mut created: Vec<_> = (0..5).map(create).collect();
        let all = it.list_ids("?size=100");
        assert_eq!(all.len(), earlier + created.len());
        match it.resource.listing == Listing::NewestFirst {
            true => created.reverse(),
            false => assert_eq!(all[earlier..], created),
        }
        let listed: Vec<_> = all.iter().filter(|it| created.contains(it)).collect();
        assert_eq!(listed, created.iter().collect::<Vec<_>>());
        for size in [1, 3, 100] {
            let (total, pages) = (all.len(), all.len().div_ceil(size));
            let mut paged = Vec::new();
            for number in 1..=pages + 1 {
                let query = format!("/?size={size}&page={number}");
                let pagination = json!({
                    "total_items": total, "page_number": number, "page_size": size,
                    "total_pages": pages,
                });
                let page = it.try_list(&query).expect_status(200);
                assert_eq!(page["pagination"], pagination, "{query}");
                let ids = it.list_ids(&query);
                assert!(ids.len() <= size, "{query}");
                paged.extend(ids);
            }
            assert_eq!(paged, all, "pages of {size}");
        }
        let [first, second] = [&created[1], &created[3]];
        assert_eq!(it.list_ids(&format!("?id={second}&id={first}&id=nobodys")), [&**first, second]);
        for nobody in ["nobodys", "", &Uuid::new_v4().to_string()] {
            assert!(it.list_ids(&format!("?id={nobody}")).is_empty(), "{nobody}");
        }
        let invalid =
            ["page=0", "page=-1", "page=x", "page=1&page=2", "size=0", "size=101", "size="];
        for query in invalid {
            let (name, _) = query.split_once('=').unwrap();
            it.try_list(&format!("?{query}")).expect_invalid(name);
        }
    });
}

#[test]
fn changes_and_reads_of_a_resource_are_recorded_with_its_id() {
    let rule = "every change is in the audit log and every read in the read log, with the id";
    check_each(
        &SERVER,
        rule,
        |_| true,
        |it| {
            let Resource { name, plural, .. } = it.resource;
            let created = it.create("recorded");
            let path = it.path(&created);
            let mut expected = vec![format!("create_{name} done")];
            for method in it.resource.changes {
                let status = it.send(method, &path, &(it.resource.body)("changed")).status;
                assert!([200, 204].contains(&status), "{method}: {status}");
                let operation = if *method == "PUT" { "update" } else { "patch" };
                expected.push(format!("{operation}_{name} done"));
            }
            it.get(&created);
            let mut expected_reads = vec![format!("get_{name} read")];
            if is_created(it.resource) {
                it.list("");
                it.send("DELETE", &path, &Value::Null).expect_status(204);
                it.send("GET", &path, &Value::Null).expect_status(404);
                expected.push(format!("delete_{name} done"));
                expected_reads.push(format!("get_{name} not_found"));
            } else {
                expected_reads.insert(0, format!("get_{name} read"));
            }
            let id = it.id(&created);
            let records_of_id = |log| -> Vec<String> {
                let records = records(it.server, log, &it.keys.tenant).into_iter();
                let records = records.filter(|it| it.entity == id);
                records.map(|it| format!("{} {}", it.operation, it.outcome)).collect()
            };
            assert_eq!(records_of_id(LogKind::Audit), expected);
            assert_eq!(records_of_id(LogKind::Read), expected_reads);
            let list = format!("list_{plural}");
            let reads = records(it.server, LogKind::Read, &it.keys.tenant);
            let is_listed = reads.iter().any(|it| it.operation == list && it.outcome == "read");
            assert_eq!(is_listed, is_created(it.resource), "{reads:?}");
        },
    );
}

//! The directory finds proxies by their keys and hosts.

use std::sync::Arc;

use scrip_core::{
    operations::proxies::set_proxy_host::{add_proxy_host, remove_proxy_host},
    policy::{PolicyPermit, Proxy, ProxyLookup, destination::HostName},
    types::id::ProxyId,
};
use serde_json::{Value, json};

use super::{CERTIFICATE, proxy_body};
use crate::harness::server::{TenantApiKeys, TestServer, text_field};

fn create(server: &TestServer, keys: &TenantApiKeys, changes: &Value) -> Value {
    server.post(&keys.management, "/proxies", &proxy_body(changes)).expect_status(201)
}

fn id(proxy: &Value) -> ProxyId {
    ProxyId::parse(&text_field(proxy, "id")).unwrap()
}

#[track_caller]
fn expect_found(lookup: &ProxyLookup) -> Arc<Proxy> {
    let found = match lookup {
        ProxyLookup::Found(proxy) => Some(Arc::clone(proxy)),
        ProxyLookup::PolicyAltered => None,
    };
    found.expect("the policy is not altered")
}

fn find_by_key(server: &TestServer, key: &str) -> Option<Arc<Proxy>> {
    let directory = server.app.directory.load_full().unwrap();
    Some(expect_found(directory.find_proxy_by_key(key)?))
}

fn find_by_host(server: &TestServer, host: &str) -> Option<ProxyId> {
    let directory = server.app.directory.load_full().unwrap();
    Some(expect_found(directory.find_proxy_by_host(host)?).record().id)
}

#[test]
fn proxy_is_found_by_its_key_with_its_current_settings() {
    let (server, keys) = TestServer::start_with_tenant();
    let mask =
        json!({"type": "mask", "matcher": "regex", "expression": "(\\d+)", "replacement": "*"});
    let changes = json!({"configuration": {"a": "1"}, "response_transforms": [mask], "timeout": 7});
    let proxy = create(&server, &keys, &changes);
    let path = format!("/proxies/{}", text_field(&proxy, "id"));
    let certificate_path = format!("{path}/client-certificate");
    server.put(&keys.management, &certificate_path, &CERTIFICATE).expect_status(200);
    let key = text_field(&proxy, "key");
    let found = find_by_key(&server, &key).unwrap();
    assert_eq!((found.record().id, found.tenant().id), (id(&proxy), keys.tenant.id));
    let program = Arc::clone(found.program(run).unwrap());
    assert_eq!(program.destination.as_str(), "https://psp.example/v1");
    assert_eq!((program.request_transforms.len(), program.response_transforms.len()), (0, 1));
    assert_eq!(program.timeout.map(|it| it.as_secs()), Some(7));
    assert_eq!(program.certificate_pem.as_deref(), CERTIFICATE["certificate_pem"].as_str());
    let secrets = found.open_secrets().unwrap();
    assert_eq!(secrets.configuration.as_ref().and_then(|it| it.get("a")), Some("1"));
    let private_key = secrets.private_key_pem.as_ref().map(|it| it.as_str());
    assert_eq!(private_key, CERTIFICATE["private_key_pem"].as_str());
    for unknown in ["", "x", &key[1..], &keys.management, &keys.private] {
        assert!(find_by_key(&server, unknown).is_none(), "{unknown}");
    }
    // An unchanged row stays compiled; a changed row is compiled again.
    create(&server, &keys, &json!({}));
    let reloaded = find_by_key(&server, &key).unwrap();
    assert!(Arc::ptr_eq(reloaded.program(run).unwrap(), &program));
    let patch = json!({"destination_url": "https://psp.example/v2"});
    assert_eq!(server.patch(&keys.management, &path, &patch).status, 204);
    let changed = find_by_key(&server, &key).unwrap();
    assert_eq!(changed.program(run).unwrap().destination.as_str(), "https://psp.example/v2");
    assert_eq!(server.delete(&keys.management, &path).status, 204);
    assert!(find_by_key(&server, &key).is_none());
}

#[test]
fn host_selects_one_proxy_of_all_tenants() {
    let (server, keys) = TestServer::start_with_tenant();
    let other_keys = server.create_default_tenant();
    let (first, second) = (create(&server, &keys, &json!({})), create(&server, &keys, &json!({})));
    let foreign = create(&server, &other_keys, &json!({}));
    let permit = |keys: &TenantApiKeys| {
        let directory = server.app.directory.load_full().unwrap();
        PolicyPermit::for_operator(Arc::clone(directory.tenant(keys.tenant.id).unwrap()))
    };
    let host = HostName::parse("Pay.Shop.example").unwrap();
    let add = |keys: &TenantApiKeys, proxy: &Value| {
        let change = add_proxy_host(&server.app.vault, permit(keys), id(proxy), host.clone());
        let is_added = server.runtime.block_on(change).is_ok();
        server.runtime.block_on(server.app.reload()).unwrap();
        is_added
    };
    assert!(add(&keys, &first));
    assert!(!add(&keys, &second) && !add(&other_keys, &foreign), "the host is taken");
    for name in ["pay.shop.example", "PAY.shop.example:8443"] {
        assert_eq!(find_by_host(&server, name), Some(id(&first)), "{name}");
    }
    for name in ["shop.example", "x.pay.shop.example", "", "127.0.0.1:80", "[::1]:80"] {
        assert_eq!(find_by_host(&server, name), None, "{name}");
    }
    let path = format!("/proxies/{}", text_field(&first, "id"));
    let shown = server.get_path(&keys.management, &path).expect_status(200);
    assert_eq!(shown["proxy_host"], "pay.shop.example");
    let body = proxy_body(&json!({"proxy_host": "other.example"}));
    let updated = server.put(&keys.management, &path, &body).expect_status(200);
    assert_eq!(updated["proxy_host"], "pay.shop.example", "a tenant cannot choose a host");
    let removal = remove_proxy_host(&server.app.vault, permit(&keys), id(&first), host.clone());
    server.runtime.block_on(removal).unwrap();
    server.runtime.block_on(server.app.reload()).unwrap();
    assert_eq!(find_by_host(&server, "pay.shop.example"), None);
    assert!(add(&other_keys, &foreign));
    assert_eq!(find_by_host(&server, "pay.shop.example"), Some(id(&foreign)));
}

#[test]
fn altered_proxy_row_closes_the_lookups_of_its_tenant() {
    let (server, keys) = TestServer::start_with_tenant();
    let other_keys = server.create_default_tenant();
    let (proxy, foreign) =
        (create(&server, &keys, &json!({})), create(&server, &other_keys, &json!({})));
    let tenant = server.engine.sql_id(keys.tenant.id.0);
    server.engine.execute(&format!("UPDATE proxies SET require_auth = 0 WHERE tenant = {tenant}"));
    server.engine.execute("UPDATE directory_state SET version = version + 1");
    server.runtime.block_on(server.app.reload()).unwrap();
    let directory = server.app.directory.load_full().unwrap();
    let lookup = directory.find_proxy_by_key(&text_field(&proxy, "key"));
    assert!(matches!(lookup, Some(ProxyLookup::PolicyAltered)), "{lookup:?}");
    assert!(find_by_key(&server, &text_field(&foreign, "key")).is_some());
    server.get_path(&keys.management, "/proxies").expect_problem(503, "");
    let alterations = format!("{:?}", directory.alterations());
    assert!(alterations.contains(&text_field(&proxy, "id")), "{alterations}");
}

fn run(compile: &mut dyn FnMut()) -> bool {
    compile();
    true
}

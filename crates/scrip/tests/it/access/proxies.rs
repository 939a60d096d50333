//! Proxies: their attributes, their changes, and the rights that a change needs.

mod attributes;
mod certificates;
mod lookups;
mod rights;
mod secrecy;

use std::sync::LazyLock;

use rcgen::{CertificateParams, DnType, KeyPair};
use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TestResponse, text_field};

/// A client certificate with its key, as in a request.
pub(crate) static CERTIFICATE: LazyLock<Value> = LazyLock::new(|| certificate_body("shop.example"));

fn certificate_body(name: &str) -> Value {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key).unwrap();
    json!({"certificate_pem": certificate.pem(), "private_key_pem": key.serialize_pem()})
}

fn certificate_pem() -> &'static str {
    CERTIFICATE["certificate_pem"].as_str().unwrap()
}

/// A minimal proxy with some attributes changed.
fn proxy_body(changes: &Value) -> Value {
    with_members(json!({"name": "Charges", "destination_url": "https://psp.example/v1"}), changes)
}

fn try_create(changes: &Value) -> TestResponse {
    SERVER.post(&ACME.management, "/proxies", &proxy_body(changes))
}

fn create_proxy(changes: &Value) -> Value {
    try_create(changes).expect_status(201)
}

fn proxy_path(proxy: &Value) -> String {
    format!("/proxies/{}", text_field(proxy, "id"))
}

fn get_proxy(proxy: &Value) -> Value {
    SERVER.get_path(&ACME.management, &proxy_path(proxy)).expect_status(200)
}

fn patch_proxy(key: &str, proxy: &Value, patch: &Value) -> TestResponse {
    SERVER.patch(key, &proxy_path(proxy), patch)
}

//! Compares the examples of the OpenAPI document with rendered responses.

use scrip_core::policy::proxy::transform::{MatcherType, TransformType};
use serde_json::{Value, json};

use super::*;
use crate::{openapi::tests::assert_examples, wire::proxies::proxy_response::CertificateBody};

#[test]
fn documented_proxy_examples_match_rendered_bodies() {
    assert_examples("Proxy", [complete_example(), short_example()]);
    let certificate = CertificateBody {
        subject: "CN=shop.example",
        issuer: "CN=Example CA",
        sha256: &"9f".repeat(32),
        not_after: "2027-11-01T00:00:00+00:00".to_owned(),
    };
    assert_examples("ProxyCertificate", [json!(certificate)]);
}

fn source(source: Value) -> TransformSource {
    serde_json::from_value(source).unwrap()
}

fn body<'a>(transforms: TransformBodies<'a>) -> ProxyBody<'a> {
    ProxyBody {
        id: "b1f6a2c8-3d94-4e07-a5b8-7c2e9d0f1a36".to_owned(),
        key: Some("4kTz8QpWm2XvRn7BcYd5Ls"),
        tenant_id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
        name: "Charges",
        destination_url: "https://api.psp.example/v1",
        state: STATE,
        transforms,
        application_id: None,
        configuration: None,
        require_auth: false,
        disable_detokenization: true,
        proxy_host: None,
        timeout: None,
        ca_pem: None,
        tls_min: "1.3",
        client_certificate: None,
        created_by: None,
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
        modified_by: None,
        modified_at: None,
    }
}

fn short_example() -> Value {
    let code = TransformSource {
        code: Some("module.exports = async (req) => req.args".to_owned()),
        ..TransformSource::default()
    };
    let mask = TransformSource {
        transform_type: Some(TransformType::Mask),
        matcher: Some(MatcherType::ChaseStratusPan),
        replacement: Some("*".to_owned()),
        ..TransformSource::default()
    };
    json!(body(TransformBodies {
        request_transform: Some(transform_body(&code)),
        request_transforms: None,
        response_transform: Some(transform_body(&mask)),
        response_transforms: None,
    }))
}

fn complete_example() -> Value {
    let token = json!({"type": "card", "data": "{{ req.card }}"});
    let tokenize = source(json!({
        "type": "tokenize", "options": {"identifier": "card", "token": token},
    }));
    let value = "{{ transform_identifier: 'card' | json: '$.id' }}";
    let append = source(json!({
        "type": "append_json", "options": {"location": "$.card_token", "value": value},
    }));
    let mask = source(json!({
        "type": "mask", "matcher": "regex", "expression": "\"number\":\"(\\d+)\"", "replacement": "*",
    }));
    let author = || Some("0b6c9d52-7e41-4a38-8f19-3d2a5e7c6b90".to_owned());
    json!(ProxyBody {
        application_id: Some("d3c1f0a4-6b7e-4e52-9a1d-8f5b2c7e4a60".to_owned()),
        configuration: Some(BTreeMap::from([("secret", "sk_test_4242")])),
        require_auth: true,
        disable_detokenization: false,
        proxy_host: Some("charges.shop.example"),
        timeout: Some(20),
        ca_pem: Some("-----BEGIN CERTIFICATE-----\nMIIB…\n-----END CERTIFICATE-----\n"),
        tls_min: "1.2",
        client_certificate: Some("9f".repeat(32)),
        created_by: author(),
        modified_by: author(),
        modified_at: Some("2026-11-02T10:00:00+00:00".to_owned()),
        ..body(TransformBodies {
            request_transform: None,
            request_transforms: Some([&tokenize, &append].map(transform_body).into()),
            response_transform: None,
            response_transforms: Some(vec![transform_body(&mask)]),
        })
    })
}

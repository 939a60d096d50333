//! The data of each event type, compared attribute by attribute.

use std::{collections::BTreeMap, time::Duration};

use scrip_seal::{Fingerprint, Sealed, TenantKeys, WrappedTenantKeys};
use scrip_threeds::{code::Status, session::WebhookEventType};
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::{
    Timestamp,
    card::TokenType,
    events::payload::{
        application::{
            describe_api_key, describe_application, describe_deleted_api_key,
            describe_deleted_application,
        },
        proxy::{
            DestinationAnswer, InvocationErrors, InvokedProxy, ProxyInvocation,
            describe_created_proxy, describe_deleted_proxy, describe_invocation,
            describe_updated_proxy,
        },
        token::{
            describe_converted_intent, describe_deleted_intent, describe_deleted_token,
            describe_expired_property, describe_intent, describe_token, describe_token_read,
        },
    },
    policy::{
        AccessCondition, AccessPolicy, AccessRule, AccessScope, AccessSessionId,
        AccessSessionRecord, ApiKeyRecord, Application, ApplicationRecord, DisplayName,
        PolicyRecords, Quotas, Tenant, TenantRecord, TenantSettings,
        access_session::AccessSessionGrant,
        application::origins::ApplicationOrigins,
        destination::{DestinationUrl, HostName},
        proxy::{ProxyRecord, ProxySettings, ProxyTimeout, TlsMinimum, TransformList},
    },
    token::{
        ExpressionProvenance, TokenBody, TokenIntentRecord, TokenModification, TokenRecord,
        WithheldOutputs,
    },
    types::{
        ApplicationKind, Container, Containers, Permission, Permissions, Plaintext, TenantKind,
        Transform,
        id::{
            ApiKeyId, ApplicationId, ProxyId, TenantId, ThreeDsSessionId, TokenId, TokenIntentId,
        },
    },
};

mod threeds_session;

const FIRST: &str = "1970-01-01T00:00:01+00:00";
const SECOND: &str = "1970-01-01T00:00:02+00:00";

fn uuid(byte: u8) -> Uuid {
    Uuid::from_bytes([byte; 16])
}

fn id(byte: u8) -> String {
    uuid(byte).to_string()
}

fn at(second: i64) -> Timestamp {
    Timestamp { unix_ms: second * 1000 }
}

fn stamp(second: i64) -> ChangeStamp {
    ChangeStamp { by: Some(ApplicationId(uuid(9))), at: at(second) }
}

fn name(text: &str) -> DisplayName {
    DisplayName::parse(text).unwrap()
}

#[track_caller]
fn check(data: EventData, expected: Value) {
    assert_eq!(Value::Object(data.into_attributes()), expected);
}

fn token_record() -> TokenRecord {
    TokenRecord {
        id: TokenId::parse("customer-7").unwrap(),
        token_type: TokenType::Card,
        fingerprint: Some(Fingerprint([1; 32])),
        expressions: ExpressionProvenance::default(),
        containers: Containers::parse(["/pci/high/"]).unwrap(),
        created_by: ApplicationId(uuid(9)),
        created_at: at(1),
        modified: None,
        expires_at: None,
        revision: 0,
        indexes: Vec::new(),
        body: Sealed::from_stored(Vec::new()),
    }
}

fn token_body() -> TokenBody {
    TokenBody {
        data: Plaintext::new(json!({"number": "4242424242424242"})),
        mask: Some(json!("{{ data.number | last4 }} mask")),
        metadata: Some(BTreeMap::from([("order".to_owned(), "7".to_owned())])),
        search_indexes: Some(vec!["{{ data.number }}".to_owned()]),
        fingerprint_expression: Some("{{ data.number }}".to_owned()),
        expressions_writer: Some(ApplicationId(uuid(8))),
        withheld: WithheldOutputs::default(),
        withheld_details: false,
        number_version: None,
        is_marked: false,
        typed_at_ms: None,
    }
}

#[test]
fn created_token_has_metadata_and_expressions_but_neither_data_nor_mask() {
    let data = describe_token(&token_record(), &token_body());
    let text = Value::Object(data.clone().into_attributes()).to_string();
    assert!(!text.contains("4242") && !text.contains("mask"), "{text}");
    let expected = json!({"token": {
        "id": "customer-7",
        "type": "card",
        "metadata": {"order": "7"},
        "containers": ["/pci/high/"],
        "fingerprint": Fingerprint([1; 32]).to_string(),
        "fingerprint_expression": "{{ data.number }}",
        "search_indexes": ["{{ data.number }}"],
        "created_by": id(9),
        "created_at": FIRST,
    }});
    check(data, expected);
}

#[test]
fn updated_token_has_its_modification_and_defaults_of_its_type() {
    let record = TokenRecord {
        modified: Some(TokenModification { by: ApplicationId(uuid(8)), at: at(2) }),
        expires_at: Some(at(2)),
        fingerprint: None,
        ..token_record()
    };
    let body = TokenBody { data: token_body().data, ..TokenBody::default() };
    let mut expected = json!({"token": {
        "id": "customer-7",
        "type": "card",
        "containers": ["/pci/high/"],
        "created_by": id(9),
        "created_at": FIRST,
        "modified_by": id(8),
        "modified_at": SECOND,
        "expires_at": SECOND,
    }});
    if !TokenType::Card.default_indexes().is_empty() {
        expected["token"]["search_indexes"] = json!(TokenType::Card.default_indexes());
    }
    check(describe_token(&record, &body), expected);
}

#[test]
fn other_token_events_have_only_references() {
    let token = TokenId::parse("customer-7").unwrap();
    check(describe_deleted_token(&token), json!({"token": {"id": "customer-7"}}));
    let expected = json!({"token": {"id": "customer-7", "property_name": "cvc"}});
    check(describe_expired_property(&token, "cvc"), expected);
    let expected = json!({"token": {"id": "customer-7", "type": "card"}});
    check(describe_token_read(&token, TokenType::Card), expected);
}

#[test]
fn token_intent_events_have_the_attributes_of_the_intent() {
    let record = TokenIntentRecord {
        id: TokenIntentId(uuid(1)),
        token_type: TokenType::Card,
        fingerprint: Some(Fingerprint([1; 32])),
        containers: Containers::parse(["/pci/high/"]).unwrap(),
        created_by: ApplicationId(uuid(9)),
        created_at: at(1),
        expires_at: at(2),
        body: Sealed::from_stored(Vec::new()),
    };
    let expected = json!({"token_intent": {
        "id": id(1),
        "type": "card",
        "fingerprint": Fingerprint([1; 32]).to_string(),
        "created_by": id(9),
        "created_at": FIRST,
        "expires_at": SECOND,
    }});
    check(describe_intent(&record), expected);
    check(describe_deleted_intent(record.id), json!({"token_intent": {"id": id(1)}}));
    let expected = json!({
        "token_intent": {"id": id(1), "type": "card"},
        "token": {"id": "customer-7", "type": "card"},
    });
    let token = TokenId::parse("customer-7").unwrap();
    check(describe_converted_intent(record.id, TokenType::Card, &token), expected);
}

fn access() -> AccessPolicy {
    let rule = |priority, scope| AccessRule {
        description: "cards".to_owned(),
        priority,
        scope,
        transform: Transform::Reveal,
        permissions: Permissions::from_list(&[Permission::TokenRead]),
    };
    let conditions = vec![AccessCondition::IdIs("customer-7".to_owned())];
    AccessPolicy {
        permissions: Permissions::from_list(&[Permission::TokenCreate, Permission::TokenRead]),
        rules: vec![
            rule(1, AccessScope::Container(Container::parse("/pci/").unwrap())),
            rule(i64::MAX, AccessScope::Conditions(conditions)),
        ],
    }
}

fn access_value() -> Value {
    json!({
        "permissions": ["token:create", "token:read"],
        "rules": [
            {
                "description": "cards",
                "priority": 1,
                "container": "/pci/",
                "transform": "reveal",
                "permissions": ["token:read"],
            },
            {
                "description": "cards",
                // JavaScript would change a larger number.
                "priority": 9_007_199_254_740_991_u64,
                "conditions": [{"attribute": "id", "operator": "equals", "value": "customer-7"}],
                "transform": "reveal",
                "permissions": ["token:read"],
            },
        ],
    })
}

/// Adds the attributes of `added` to the object.
fn merge(mut object: Value, added: Value) -> Value {
    object.as_object_mut().unwrap().extend(added.as_object().unwrap().clone());
    object
}

fn application_record() -> ApplicationRecord {
    ApplicationRecord {
        id: ApplicationId(uuid(1)),
        tenant: TenantId(uuid(2)),
        name: name("Shop"),
        kind: ApplicationKind::Private,
        access: access(),
        origins: ApplicationOrigins::default(),
        created: stamp(1),
        modified: Some(stamp(2)),
    }
}

#[test]
fn application_events_have_permissions_and_rules() {
    let record = application_record();
    let application = json!({
        "id": id(1),
        "type": "private",
        "name": "Shop",
        "created_by": id(9),
        "created_at": FIRST,
        "modified_by": id(9),
        "modified_at": SECOND,
    });
    let expected = json!({"application": merge(application, access_value())});
    check(describe_application(&record), expected);
    check(describe_deleted_application(record.id), json!({"application": {"id": id(1)}}));
}

#[test]
fn api_key_events_have_ids_but_not_the_digest() {
    let record = ApiKeyRecord {
        id: ApiKeyId(uuid(3)),
        tenant: TenantId(uuid(2)),
        application: ApplicationId(uuid(1)),
        digest: [7; 32],
        created: ChangeStamp { by: None, at: at(1) },
    };
    let expected = json!({"application_key": {
        "id": id(3),
        "application_id": id(1),
        "version": 1,
        "created_at": FIRST,
    }});
    check(describe_api_key(&record), expected);
    let expected = json!({"application_key": {"id": id(3), "application_id": id(1)}});
    check(describe_deleted_api_key(record.id, record.application), expected);
}

fn keys() -> (TenantKeys, WrappedTenantKeys, scrip_seal::AuditKey) {
    let root = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let root = scrip_seal::RootKey::from_text(root).unwrap();
    let wrapped = TenantKeys::create(&root, "acme").unwrap();
    let keys = TenantKeys::unwrap(&root, "acme", &wrapped).unwrap();
    (keys, wrapped, scrip_seal::AuditKey::create(&root).unwrap().0)
}

fn tenant_record(keys: WrappedTenantKeys) -> TenantRecord {
    TenantRecord {
        id: TenantId(uuid(2)),
        name: name("acme"),
        kind: TenantKind::Test,
        settings: TenantSettings::default(),
        quotas: Quotas::default_for(TenantKind::Test),
        keys,
        created: ChangeStamp { by: None, at: at(1) },
        modified: Some(stamp(2)),
        deletes_at: None,
    }
}

#[test]
fn access_session_events_have_neither_key_nor_nonce() {
    let (keys, wrapped, audit_key) = keys();
    let records = PolicyRecords::new(&keys, tenant_record(wrapped));
    let mut tenant = Tenant::new(keys.into(), audit_key.into(), records);
    let application = Application { record: application_record(), api_keys: Vec::new() };
    tenant.applications.insert(application.record.id, application);
    let mut record = AccessSessionRecord {
        id: AccessSessionId([0xab; 32]),
        tenant: tenant.id,
        application: ApplicationId(uuid(1)),
        nonce: [7; 32],
        created_at: at(1),
        expires_at: at(2),
        grant: None,
    };
    let session = json!({
        "id": "ab".repeat(32),
        "created_at": FIRST,
        "created_by": id(1),
        "expires_at": SECOND,
        "issued_to_application": {"id": id(1), "name": "Shop"},
    });
    check(application::describe_access_session(&record, &tenant), json!({"session": session}));
    record.grant = Some(AccessSessionGrant {
        authorizer: ApplicationId(uuid(4)),
        api_key: ApiKeyId(uuid(5)),
        at: at(2),
        access: access(),
    });
    let expected = json!({"session": merge(session, access_value())});
    check(application::describe_access_session(&record, &tenant), expected);
}

#[test]
fn tenant_events_have_its_name_but_no_keys() {
    let record = tenant_record(keys().1);
    let expected = json!({"tenant": {
        "id": id(2),
        "name": "acme",
        "created_at": FIRST,
        "modified_at": SECOND,
        "modified_by": id(9),
    }});
    check(tenant::describe_tenant(&record), expected);
    check(tenant::describe_deleted_tenant(record.id), json!({"tenant": {"id": id(2)}}));
}

fn proxy_record() -> ProxyRecord {
    ProxyRecord {
        id: ProxyId(uuid(6)),
        tenant: TenantId(uuid(2)),
        digest: [7; 32],
        name: name("charges"),
        application: Some(ApplicationId(uuid(1))),
        require_auth: true,
        disable_detokenization: false,
        host: Some(HostName::parse("pay.example.com").unwrap()),
        settings: Sealed::from_stored(Vec::new()),
        secrets: Sealed::from_stored(Vec::new()),
        created: stamp(1),
        modified: Some(stamp(2)),
    }
}

fn proxy_settings() -> ProxySettings {
    ProxySettings {
        destination: DestinationUrl::from_stored("https://api.example.com/v1?key=hidden").unwrap(),
        request_transforms: TransformList::default(),
        response_transforms: TransformList::default(),
        timeout: Some(ProxyTimeout::parse(30).unwrap()),
        authorities: None,
        tls_min: TlsMinimum::default(),
        certificate_pem: None,
        pattern_bytes: None,
    }
}

#[test]
fn proxy_events_have_its_destination_without_the_query() {
    let (record, settings) = (proxy_record(), proxy_settings());
    let proxy = json!({
        "id": id(6),
        "name": "charges",
        "destination_url": "https://api.example.com/v1",
        "require_authentication": true,
        "created_at": FIRST,
        "created_by": id(9),
    });
    let expected = json!({"proxy": merge(proxy.clone(), json!({"application_id": id(1)}))});
    check(describe_created_proxy(&record, &settings), expected);
    let added = json!({
        "proxy_host": "pay.example.com",
        "timeout": 30,
        "modified_at": SECOND,
        "modified_by": id(9),
    });
    let expected = json!({"proxy": merge(proxy, added)});
    check(describe_updated_proxy(&record, &settings), expected);
    check(describe_deleted_proxy(record.id), json!({"proxy": {"id": id(6)}}));
}

#[test]
fn invoked_proxy_has_names_of_headers_but_no_values_and_no_bodies() {
    let record = proxy_record();
    let invocation = ProxyInvocation {
        proxy: Some(InvokedProxy { id: record.id, name: record.name }),
        method: "POST",
        url: "https://api.example.com/v1/charges?key=hidden".to_owned(),
        header_names: ["Content-Type", "authorization"].map(str::to_owned).to_vec(),
        answer: Some(DestinationAnswer {
            status: 201,
            elapsed: Duration::from_millis(70),
            header_names: vec!["content-type".to_owned()],
        }),
        status: Some(201),
        elapsed: Duration::from_millis(80),
        errors: InvocationErrors::default(),
    };
    let expected = json!({
        "proxy": {
            "id": id(6),
            "name": "charges",
            "type": "pre_configured",
            "response": {"status": 201, "elapsed_ms": 80},
        },
        "destination": {
            "request": {
                "method": "POST",
                "url": "https://api.example.com/v1/charges",
                "headers": {"content-type": [], "authorization": []},
            },
            "response": {"status": 201, "elapsed_ms": 70, "headers": {"content-type": []}},
        },
    });
    check(describe_invocation(&invocation), expected);
}

#[test]
fn failed_invocation_of_an_ephemeral_proxy_has_its_errors() {
    let invocation = ProxyInvocation {
        proxy: None,
        method: "GET",
        url: "https://api.example.com/".to_owned(),
        header_names: Vec::new(),
        answer: None,
        status: Some(502),
        elapsed: Duration::ZERO,
        errors: InvocationErrors { call: Some("timeout"), response_transform: Some("no JSON") },
    };
    let expected = json!({
        "proxy": {
            "type": "ephemeral",
            "response": {"status": 502, "elapsed_ms": 0, "error": "timeout"},
        },
        "destination": {
            "request": {"method": "GET", "url": "https://api.example.com/", "headers": {}},
        },
        "response_transform": {"response": {"error": "no JSON"}},
    });
    check(describe_invocation(&invocation), expected);
}

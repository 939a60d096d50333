//! Every operation writes a record: changes, reads and denials. A read that cannot be recorded
//! returns no data.

use std::sync::LazyLock;

use scrip_api::routes::ROUTES;
use scrip_core::{
    audit::LogKind,
    policy::{CallerRequirement, Tenant},
    types::{ApplicationKind, EntityType, Operation, Permission, Transform},
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    access::operation_calls::TenantHarness,
    harness::server::{TestResponse, TestServer, card_body, text_field, unique_card_number},
};

static AUDITED_SERVER: LazyLock<TestServer> = LazyLock::new(TestServer::start);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditRow {
    pub(crate) operation: String,
    pub(crate) entity: String,
    pub(crate) outcome: String,
}

/// Returns the records of a tenant in this log.
pub(crate) fn records(server: &TestServer, log: LogKind, tenant: &Tenant) -> Vec<AuditRow> {
    let tenant = server.engine.sql_id(tenant.id.0);
    let sql = format!(
        "SELECT operation, entity, outcome FROM log_records WHERE tenant = {tenant} ORDER BY sequence"
    );
    let record = |row: Vec<String>| {
        let [operation, entity, outcome] = row.try_into().unwrap();
        AuditRow { operation, entity, outcome }
    };
    server.engine.select_from_log(log, &sql).into_iter().map(record).collect()
}

/// Calls the function. Returns the records that the call adds to the audit log and to the read log.
fn records_added_by<T>(
    server: &TestServer,
    tenant: &Tenant,
    action: impl FnOnce() -> T,
) -> (T, [Vec<AuditRow>; 2]) {
    let counts_before = LogKind::ALL.map(|it| records(server, it, tenant).len());
    let outcome = action();
    let mut records_after = LogKind::ALL.map(|it| records(server, it, tenant));
    for (records, counts_before) in records_after.iter_mut().zip(counts_before) {
        records.drain(..counts_before);
    }
    (outcome, records_after)
}

fn record_tuples(records: &[AuditRow]) -> Vec<(&str, &str, &str)> {
    records.iter().map(|it| (&*it.operation, &*it.entity, &*it.outcome)).collect()
}

fn is_read(operation: Operation) -> bool {
    use Operation as O;
    matches!(
        operation,
        O::GetToken
            | O::ListTokens
            | O::ListTokensV1
            | O::SearchTokens
            | O::SearchTokensV1
            | O::Detokenize
            | O::GetTokenIntent
            | O::GetThreeDsSession
            | O::GetTenant
            | O::GetTenantQuotas
            | O::GetTenantUsage
            | O::ListApplications
            | O::GetApplication
            | O::GetApplicationByKey
            | O::ListApiKeys
            | O::GetApiKey
            | O::ListLogs
            | O::ListProxies
            | O::GetProxy
            | O::ListClientKeys
            | O::GetClientKey
            | O::ListWebhooks
            | O::GetWebhook
            | O::ListWebhookDeliveries
    )
}

/// Returns a key that the route accepts.
fn allowed_key<'a>(harness: &'a TenantHarness<'_>, requirement: CallerRequirement) -> &'a str {
    harness.full_key(match requirement {
        CallerRequirement::AnyKey => ApplicationKind::Private,
        CallerRequirement::Kind(kind) => kind,
        CallerRequirement::Permission(it) => it.kinds()[0],
    })
}

#[test]
fn every_operation_writes_one_record_to_the_right_log() {
    for route in ROUTES.iter() {
        let harness = TenantHarness::new(&AUDITED_SERVER);
        let key = allowed_key(&harness, route.requirement);
        let send_call = || harness.call_route(route, Some(key)).status;
        let (status, [audit_records, read_records]) =
            records_added_by(&AUDITED_SERVER, &harness.keys.tenant, send_call);
        let names = |records: &[AuditRow]| -> Vec<String> {
            records.iter().map(|it| it.operation.clone()).collect()
        };
        let name = route.operation.as_str().to_owned();
        let has_no_entity = route.operation.entity_type().is_none();
        let (in_audit, in_access) = if has_no_entity {
            (vec![], vec![])
        } else if status == 410 || is_read(route.operation) {
            (vec![], vec![name])
        } else if route.operation == Operation::AuthenticateThreeDsSession {
            // Three records: the request, the use of the card, and the result.
            (vec![name.clone(), "use_token_intent".to_owned(), name], vec![])
        } else if route.operation == Operation::CreateThreeDsSession {
            (vec![name, "use_token_intent".to_owned()], vec![])
        } else {
            (vec![name], vec![])
        };
        let recorded = (names(&audit_records), names(&read_records));
        assert_eq!(recorded, (in_audit, in_access), "{route:?} has status {status}");
        let denials = ["forbidden", "not_found", "invalid", "conflict"];
        assert!(!read_records.iter().any(|it| denials.contains(&&*it.outcome)), "{read_records:?}");
    }
}

#[test]
fn every_denial_of_a_known_caller_writes_one_record() {
    let harness = TenantHarness::new(&AUDITED_SERVER);
    // This access session was never authorized.
    let session_without_rights = harness.create_access_session(&[]);
    for route in
        ROUTES.iter().filter(|it| matches!(it.requirement, CallerRequirement::Permission(_)))
    {
        let send_call = || harness.call_route(route, Some(&session_without_rights)).status;
        let (status, [audit_records, read_records]) =
            records_added_by(&AUDITED_SERVER, &harness.keys.tenant, send_call);
        assert_eq!((status, audit_records), (403, vec![]), "{route:?}");
        let outcomes: Vec<_> =
            read_records.iter().map(|it| (&*it.operation, &*it.outcome)).collect();
        let expected = [(route.operation.as_str(), "forbidden")];
        let expected = &expected[..usize::from(route.operation.entity_type().is_some())];
        assert_eq!(outcomes, expected, "{route:?}");
        // The record names the entity in the path, except a token: this caller may not look up
        // token ids.
        let entity_type = route.operation.entity_type();
        let names_entity = read_records.first().is_some_and(|it| !it.entity.is_empty());
        let ids = route.path.matches('{').count();
        let expected = match entity_type {
            Some(
                EntityType::Application
                | EntityType::TokenIntent
                | EntityType::ThreeDsSession
                | EntityType::Proxy
                | EntityType::Webhook
                | EntityType::ClientKey,
            ) => ids == 1,
            Some(EntityType::ApiKey) => ids == 2,
            Some(EntityType::Token | EntityType::Tenant | EntityType::AccessSession) | None => {
                false
            }
        };
        assert_eq!(names_entity, expected, "{route:?} wrote {read_records:?}");
    }
    // A request without a known caller writes no tenant record.
    let (_, logs) = records_added_by(&AUDITED_SERVER, &harness.keys.tenant, || {
        AUDITED_SERVER
            .get_token("key_test_us_pvt_unknown", &harness.token)
            .expect_problem(401, "BT-API-KEY");
    });
    assert_eq!(logs, [vec![], vec![]]);
}

#[test]
fn read_record_states_visibility_and_contains_no_value() {
    let keys = AUDITED_SERVER.create_default_tenant();
    let create_reader_key = |transform| {
        let permissions = [Permission::TokenRead, Permission::TokenSearch];
        AUDITED_SERVER.key_with_rule(&keys.tenant, "/", transform, &permissions)
    };
    let number = unique_card_number();
    let id = AUDITED_SERVER.create_token_id(&keys.private, &card_body(&number));
    let custom_id = format!("order-{}", Uuid::new_v4());
    let body = json!({"id": custom_id, "type": "token", "data": 1, "containers": ["/separate/"]});
    AUDITED_SERVER.create_token_ok(&keys.private, &body);
    let check_records = |expected: &[(&str, &str, &str)], send: &dyn Fn() -> TestResponse| {
        let (response, [audit_records, read_records]) =
            records_added_by(&AUDITED_SERVER, &keys.tenant, send);
        assert_eq!(audit_records, []);
        assert_eq!(record_tuples(&read_records), expected, "{}", response.text);
    };
    for (transform, word) in [
        (Transform::Reveal, "revealed"),
        (Transform::Mask, "masked"),
        (Transform::Redact, "redacted"),
    ] {
        let key = create_reader_key(transform);
        check_records(&[("get_token", &id, word)], &|| AUDITED_SERVER.get_token(&key, &id));
        let detokenize_body =
            json!({"a": format!("{{{{ {id} }}}}"), "b": format!("{{{{ {custom_id} }}}}")});
        let expected_detokenize = [("detokenize", &*id, word), ("detokenize", &*custom_id, word)];
        check_records(&expected_detokenize, &|| {
            AUDITED_SERVER.post(&key, "/detokenize", &detokenize_body)
        });
        check_records(&[("list_tokens", "", word)], &|| {
            AUDITED_SERVER.get_path(&key, "/v2/tokens")
        });
        let empty_list_path = "/v2/tokens?container=/none/";
        check_records(&[("list_tokens", "/none/", "empty")], &|| {
            AUDITED_SERVER.get_path(&key, empty_list_path)
        });
        let like_a_card = format!("/v2/tokens?container=/{number}/");
        check_records(&[("list_tokens", "", "empty")], &|| {
            AUDITED_SERVER.get_path(&key, &like_a_card)
        });
    }
    let reader = create_reader_key(Transform::Mask);
    let uuid = Uuid::new_v4().to_string();
    let get_token = |key: &str, id: &str| AUDITED_SERVER.get_token(key, id);
    check_records(&[("get_token", &uuid, "not_found")], &|| get_token(&reader, &uuid));
    check_records(&[("get_token", "", "not_found")], &|| get_token(&reader, "never-created"));
    check_records(&[("get_token", "", "not_found")], &|| get_token(&reader, &number));
    let uuid_with_number =
        format!("{}-{}-{}-0000-000000000000", &number[..8], &number[8..12], &number[12..]);
    check_records(&[("get_token", "", "not_found")], &|| get_token(&reader, &uuid_with_number));
    let key_for_other_container = AUDITED_SERVER.key_with_rule(
        &keys.tenant,
        "/other/",
        Transform::Mask,
        &[Permission::TokenRead],
    );
    check_records(&[("get_token", &custom_id, "forbidden")], &|| {
        get_token(&key_for_other_container, &custom_id)
    });
    let invalid_body = json!({"type": "card", "data": {"number": number, "cvc": "not one"}});
    check_records(&[("create_token", "", "invalid")], &|| {
        AUDITED_SERVER.create_token(&keys.private, &invalid_body)
    });
    let body_with_taken_id = json!({"id": custom_id, "type": "token", "data": 1});
    check_records(&[("create_token", "", "conflict")], &|| {
        AUDITED_SERVER.create_token(&keys.private, &body_with_taken_id)
    });
    for log in LogKind::ALL {
        assert!(!format!("{:?}", records(&AUDITED_SERVER, log, &keys.tenant)).contains(&number));
    }
}

#[test]
fn replay_is_recorded_for_each_visible_token() {
    let keys = AUDITED_SERVER.create_default_tenant();
    let request = |path: &str, key: &str, body| {
        AUDITED_SERVER.post_once(key, path, "again", &body).expect_status(201)
    };
    let body = card_body(&unique_card_number());
    let id = text_field(&request("/tokens", &keys.private, body.clone()), "id");
    let (_, [audit_records, read_records]) =
        records_added_by(&AUDITED_SERVER, &keys.tenant, || request("/tokens", &keys.private, body));
    assert_eq!(audit_records, []);
    assert_eq!(record_tuples(&read_records), [("create_token", &*id, "replayed")]);
    // Another route is another request: no token is read.
    let other_body = card_body(&unique_card_number());
    let send_to_other_route = || {
        let request =
            AUDITED_SERVER.request("POST", "/token-intents").key(&keys.private).json(&other_body);
        request.idempotency_key("again").send().expect_status(422)
    };
    let (_, [audit_records, read_records]) =
        records_added_by(&AUDITED_SERVER, &keys.tenant, send_to_other_route);
    assert_eq!(audit_records, []);
    assert_eq!(record_tuples(&read_records), [("create_token_intent", "", "unprocessable")]);
    let body = json!({"name": "a", "type": "public", "permissions": ["token:create"]});
    let create_intent = || AUDITED_SERVER.post_once(&keys.management, "/applications", "x", &body);
    create_intent().expect_status(201);
    let (_, [audit_records, read_records]) =
        records_added_by(&AUDITED_SERVER, &keys.tenant, || create_intent().expect_status(201));
    assert_eq!(audit_records, []);
    assert_eq!(record_tuples(&read_records), [("create_application", "", "replayed")]);
}

/// A list by ids is recorded as a read of each token.
#[test]
fn list_by_id_records_each_token() {
    let keys = AUDITED_SERVER.create_default_tenant();
    let [a, b] = [(); 2].map(|()| {
        text_field(
            &AUDITED_SERVER
                .create_token(&keys.private, &card_body(&unique_card_number()))
                .expect_status(201),
            "id",
        )
    });
    let list_path = format!("/tokens?id={a}&id={b}");
    let (_, [_, read_records]) = records_added_by(&AUDITED_SERVER, &keys.tenant, || {
        AUDITED_SERVER.get_path(&keys.private, &list_path).expect_status(200)
    });
    let mut recorded = record_tuples(&read_records);
    recorded.sort_unstable();
    let mut expected = [&a, &b].map(|it| ("list_tokens_v1", &**it, "revealed"));
    expected.sort_unstable();
    assert_eq!(recorded, expected);
    let search = json!({"query": format!("id:{a}")});
    let (_, [_, read_records]) = records_added_by(&AUDITED_SERVER, &keys.tenant, || {
        AUDITED_SERVER.post(&keys.private, "/tokens/search", &search).expect_status(200)
    });
    assert_eq!(record_tuples(&read_records), [("search_tokens_v1", &*a, "revealed")]);
    let (_, [_, read_records]) = records_added_by(&AUDITED_SERVER, &keys.tenant, || {
        AUDITED_SERVER.get_path(&keys.private, "/tokens?id=none").expect_status(200)
    });
    assert_eq!(record_tuples(&read_records), [("list_tokens_v1", "", "empty")]);
}

#[test]
fn read_fails_when_the_read_log_cannot_be_written() {
    let (server, keys) = TestServer::start_with_tenant();
    let number = unique_card_number();
    let body = card_body(&number);
    let replay_create = || server.post_once(&keys.private, "/tokens", "first", &body);
    let id = text_field(&replay_create().expect_status(201), "id");
    let intent = server.create_intent_id(&keys.private, &body);
    let detokenize_body = json!({"a": format!("{{{{ {id} }}}}")});
    let search = json!({"query": format!("data:{}", &number[12..])});
    let reads: [&dyn Fn() -> TestResponse; 12] = [
        &|| server.get_token(&keys.private, &id),
        &|| server.post(&keys.private, "/detokenize", &detokenize_body),
        &|| server.get_path(&keys.private, "/v2/tokens"),
        &|| server.get_path(&keys.private, "/tokens"),
        &|| server.post(&keys.private, "/v2/tokens/search", &search),
        &|| server.post(&keys.private, "/tokens/search", &search),
        &|| server.get_path(&keys.private, &format!("/token-intents/{intent}")),
        &replay_create,
        &|| server.get_path(&keys.management, "/tenants/self"),
        &|| server.get_path(&keys.management, "/tenants/self/quotas"),
        &|| server.get_path(&keys.management, "/applications"),
        &|| server.get_path(&keys.management, "/applications/key"),
    ];
    for send_read in reads {
        assert!(send_read().status < 300);
    }
    server.engine.reject_read_log_writes();
    for send_read in reads {
        let response = send_read();
        assert_eq!(response.status, 503, "{}", response.text);
        let secrets = [&*number, &*id, &number[12..], "data", "quota", "Application"];
        // Remove the trace id, because it contains random digits.
        let body = response.without_trace().to_string();
        assert!(!secrets.iter().any(|it| body.contains(it)), "{body}");
    }
    // A 404 discloses no data, and changes are recorded in the audit log.
    assert_eq!(server.get_token(&keys.private, "never-created").status, 404);
    assert_eq!(server.create_token(&keys.private, &card_body(&unique_card_number())).status, 201);
    server.engine.allow_read_log_writes();
    for send_read in reads {
        assert!(send_read().status < 300);
    }
}

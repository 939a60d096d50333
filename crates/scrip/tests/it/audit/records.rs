//! Every operation leaves a record: what was changed, what was seen, and what was refused. And when
//! it cannot, nobody sees anything.

use std::sync::LazyLock;

use scrip_api::routes::ROUTES;
use scrip_core::{
    audit::{EntityType, LogKind, Operation},
    policy::{ApplicationKind, CallerRequirement, Permission, Tenant, TenantSettings, Transform},
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    access::operation_calls::TenantHarness,
    harness::server::{TestResponse, TestServer, card_body, grant, text_field, unique_card_number},
};

static AUDITED_SERVER: LazyLock<TestServer> = LazyLock::new(TestServer::start);

#[derive(Debug, Clone, PartialEq, Eq)]
struct AuditRow {
    operation: String,
    entity: String,
    outcome: String,
}

/// What was recorded of a tenant so far, in this log.
fn records(server: &TestServer, log: LogKind, tenant: &Tenant) -> Vec<AuditRow> {
    let tenant = server.engine.sql_id(tenant.id.0);
    let sql =
        format!("SELECT operation, entity, outcome FROM audit WHERE tenant = {tenant} ORDER BY n");
    let record = |row: Vec<String>| {
        let [operation, entity, outcome] = row.try_into().unwrap();
        AuditRow { operation, entity, outcome }
    };
    server.engine.select_from_log(log, &sql).into_iter().map(record).collect()
}

/// What this adds to the audit log and to the access log.
fn records_added_by<T>(
    server: &TestServer,
    tenant: &Tenant,
    action: impl FnOnce() -> T,
) -> (T, [Vec<AuditRow>; 2]) {
    let before = LogKind::ALL.map(|it| records(server, it, tenant).len());
    let outcome = action();
    let mut after = LogKind::ALL.map(|it| records(server, it, tenant));
    for (records, before) in after.iter_mut().zip(before) {
        records.drain(..before);
    }
    (outcome, after)
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
    )
}

/// The key of somebody who is let in.
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
        let call = || harness.call_route(route, Some(key)).status;
        let (status, [audit, access]) =
            records_added_by(&AUDITED_SERVER, &harness.keys.tenant, call);
        let names = |records: &[AuditRow]| -> Vec<String> {
            records.iter().map(|it| it.operation.clone()).collect()
        };
        let name = route.operation.as_str().to_owned();
        let of_nothing = route.operation.entity_type().is_none();
        let (in_audit, in_access) = if of_nothing {
            (vec![], vec![])
        } else if status == 410 || is_read(route.operation) {
            (vec![], vec![name])
        } else if route.operation == Operation::AuthenticateThreeDsSession {
            // That it is about to ask, with which card, and what came of it.
            (vec![name.clone(), "use_token_intent".to_owned(), name], vec![])
        } else if route.operation == Operation::CreateThreeDsSession {
            (vec![name, "use_token_intent".to_owned()], vec![])
        } else {
            (vec![name], vec![])
        };
        assert_eq!((names(&audit), names(&access)), (in_audit, in_access), "{route:?} {status}");
        let refusals = ["forbidden", "not_found", "invalid", "conflict"];
        assert!(!access.iter().any(|it| refusals.contains(&&*it.outcome)), "{access:?}");
    }
}

#[test]
fn every_denial_of_a_known_caller_writes_one_record() {
    let harness = TenantHarness::new(&AUDITED_SERVER);
    // A session that nobody authorized.
    let nobody = harness.create_access_session(&[]);
    for route in
        ROUTES.iter().filter(|it| matches!(it.requirement, CallerRequirement::Permission(_)))
    {
        let call = || harness.call_route(route, Some(&nobody)).status;
        let (status, [audit, access]) =
            records_added_by(&AUDITED_SERVER, &harness.keys.tenant, call);
        assert_eq!((status, audit), (403, vec![]), "{route:?}");
        let words: Vec<_> = access.iter().map(|it| (&*it.operation, &*it.outcome)).collect();
        let expected = [(route.operation.as_str(), "forbidden")];
        let expected = &expected[..usize::from(route.operation.entity_type().is_some())];
        assert_eq!(words, expected, "{route:?}");
        // What stands in the path is the token's id, which this caller may not ask about.
        let about = route.operation.entity_type();
        let named = access.first().is_some_and(|it| !it.entity.is_empty());
        let ids = route.path.matches('{').count();
        let expected = match about {
            Some(
                EntityType::Application | EntityType::TokenIntent | EntityType::ThreeDsSession,
            ) => ids == 1,
            Some(EntityType::ApiKey) => ids == 2,
            Some(EntityType::Token | EntityType::Tenant | EntityType::AccessSession) | None => {
                false
            }
        };
        assert_eq!(named, expected, "{route:?} {access:?}");
    }
    // Nobody is known.
    let (_, logs) = records_added_by(&AUDITED_SERVER, &harness.keys.tenant, || {
        AUDITED_SERVER
            .get_token("key_test_us_pvt_unknown", &harness.token)
            .expect_problem(401, "BT-API-KEY");
    });
    assert_eq!(logs, [vec![], vec![]]);
}

#[test]
fn read_record_states_visibility_and_contains_no_value() {
    let keys = AUDITED_SERVER.create_test_tenant(TenantSettings::default());
    let sees = |transform| {
        let all = [Permission::TokenRead, Permission::TokenSearch];
        AUDITED_SERVER.key_with_rules(&keys.tenant, vec![grant("/", transform, &all)])
    };
    let number = unique_card_number();
    let id = text_field(&AUDITED_SERVER.create_token_ok(&keys.private, &card_body(&number)), "id");
    let custom = format!("order-{}", Uuid::new_v4());
    let body = json!({"id": custom, "type": "token", "data": 1, "containers": ["/apart/"]});
    AUDITED_SERVER.create_token_ok(&keys.private, &body);
    let check = |expected: &[(&str, &str, &str)], act: &dyn Fn() -> TestResponse| {
        let (reply, [audit, access]) = records_added_by(&AUDITED_SERVER, &keys.tenant, act);
        assert_eq!(audit, []);
        assert_eq!(record_tuples(&access), expected, "{}", reply.text);
    };
    for (transform, word) in [
        (Transform::Reveal, "revealed"),
        (Transform::Mask, "masked"),
        (Transform::Redact, "redacted"),
    ] {
        let key = sees(transform);
        check(&[("get_token", &id, word)], &|| AUDITED_SERVER.get_token(&key, &id));
        let named = json!({"a": format!("{{{{ {id} }}}}"), "b": format!("{{{{ {custom} }}}}")});
        let both = [("detokenize", &*id, word), ("detokenize", &*custom, word)];
        check(&both, &|| AUDITED_SERVER.post(&key, "/detokenize", &named));
        check(&[("list_tokens", "", word)], &|| AUDITED_SERVER.get_path(&key, "/v2/tokens"));
        let none = "/v2/tokens?container=/none/";
        check(&[("list_tokens", "/none/", "empty")], &|| AUDITED_SERVER.get_path(&key, none));
        let like_a_card = format!("/v2/tokens?container=/{number}/");
        check(&[("list_tokens", "", "empty")], &|| AUDITED_SERVER.get_path(&key, &like_a_card));
    }
    let reader = sees(Transform::Mask);
    let uuid = Uuid::new_v4().to_string();
    let get = |key: &str, id: &str| AUDITED_SERVER.get_token(key, id);
    check(&[("get_token", &uuid, "not_found")], &|| get(&reader, &uuid));
    check(&[("get_token", "", "not_found")], &|| get(&reader, "never-made"));
    check(&[("get_token", "", "not_found")], &|| get(&reader, &number));
    let spread = format!("{}-{}-{}-0000-000000000000", &number[..8], &number[8..12], &number[12..]);
    check(&[("get_token", "", "not_found")], &|| get(&reader, &spread));
    let elsewhere = AUDITED_SERVER.key_with_rules(
        &keys.tenant,
        vec![grant("/other/", Transform::Mask, &[Permission::TokenRead])],
    );
    check(&[("get_token", &custom, "forbidden")], &|| get(&elsewhere, &custom));
    let bad = json!({"type": "card", "data": {"number": number, "cvc": "not one"}});
    check(&[("create_token", "", "invalid")], &|| AUDITED_SERVER.create_token(&keys.private, &bad));
    let taken = json!({"id": custom, "type": "token", "data": 1});
    check(&[("create_token", "", "conflict")], &|| {
        AUDITED_SERVER.create_token(&keys.private, &taken)
    });
    for log in LogKind::ALL {
        assert!(!format!("{:?}", records(&AUDITED_SERVER, log, &keys.tenant)).contains(&number));
    }
}

#[test]
fn replay_is_recorded_for_each_visible_token() {
    let keys = AUDITED_SERVER.create_test_tenant(TenantSettings::default());
    let ask = |path: &str, key: &str, body| {
        AUDITED_SERVER
            .request("POST", path)
            .key(key)
            .json(&body)
            .idempotency_key("again")
            .send()
            .expect_status(201)
    };
    let body = card_body(&unique_card_number());
    let id = text_field(&ask("/tokens", &keys.private, body.clone()), "id");
    let (_, [audit, access]) =
        records_added_by(&AUDITED_SERVER, &keys.tenant, || ask("/tokens", &keys.private, body));
    assert_eq!(audit, []);
    assert_eq!(record_tuples(&access), [("create_token", &*id, "replayed")]);
    // The key answers whatever it is used for, and what it shows is a token all the same.
    let other = card_body(&unique_card_number());
    let elsewhere = || {
        let request =
            AUDITED_SERVER.request("POST", "/token-intents").key(&keys.private).json(&other);
        request.idempotency_key("again").send_for("POST", "/tokens").expect_status(201)
    };
    let (_, [audit, access]) = records_added_by(&AUDITED_SERVER, &keys.tenant, elsewhere);
    assert_eq!(audit, []);
    assert_eq!(record_tuples(&access), [("get_token", &*id, "replayed")]);
    let body = json!({"name": "a", "type": "public", "permissions": ["token:create"]});
    let make = || {
        AUDITED_SERVER
            .request("POST", "/applications")
            .key(&keys.management)
            .json(&body)
            .idempotency_key("x")
            .send()
    };
    make().expect_status(201);
    let (_, [audit, access]) =
        records_added_by(&AUDITED_SERVER, &keys.tenant, || make().expect_status(201));
    assert_eq!(audit, []);
    assert_eq!(record_tuples(&access), [("create_application", "", "replayed")]);
}

/// One by one they are not a list, whatever the path is called.
#[test]
fn list_by_id_records_each_token() {
    let keys = AUDITED_SERVER.create_test_tenant(TenantSettings::default());
    let [a, b] = [(); 2].map(|()| {
        text_field(
            &AUDITED_SERVER
                .create_token(&keys.private, &card_body(&unique_card_number()))
                .expect_status(201),
            "id",
        )
    });
    let list = format!("/tokens?id={a}&id={b}");
    let (_, [_, access]) = records_added_by(&AUDITED_SERVER, &keys.tenant, || {
        AUDITED_SERVER.get_path(&keys.private, &list).expect_status(200)
    });
    let mut found = record_tuples(&access);
    found.sort_unstable();
    let mut expected = [&a, &b].map(|it| ("list_tokens_v1", &**it, "revealed"));
    expected.sort_unstable();
    assert_eq!(found, expected);
    let search = json!({"query": format!("id:{a}")});
    let (_, [_, access]) = records_added_by(&AUDITED_SERVER, &keys.tenant, || {
        AUDITED_SERVER.post(&keys.private, "/tokens/search", &search).expect_status(200)
    });
    assert_eq!(record_tuples(&access), [("search_tokens_v1", &*a, "revealed")]);
    let (_, [_, access]) = records_added_by(&AUDITED_SERVER, &keys.tenant, || {
        AUDITED_SERVER.get_path(&keys.private, "/tokens?id=none").expect_status(200)
    });
    assert_eq!(record_tuples(&access), [("list_tokens_v1", "", "empty")]);
}

#[test]
fn read_fails_when_the_read_log_cannot_be_written() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let number = unique_card_number();
    let body = card_body(&number);
    let once = || {
        server
            .request("POST", "/tokens")
            .key(&keys.private)
            .json(&body)
            .idempotency_key("first")
            .send()
    };
    let id = text_field(&once().expect_status(201), "id");
    let intent =
        text_field(&server.post(&keys.private, "/token-intents", &body).expect_status(201), "id");
    let named = json!({"a": format!("{{{{ {id} }}}}")});
    let search = json!({"query": format!("data:{}", &number[12..])});
    let reads: [&dyn Fn() -> TestResponse; 12] = [
        &|| server.get_token(&keys.private, &id),
        &|| server.post(&keys.private, "/detokenize", &named),
        &|| server.get_path(&keys.private, "/v2/tokens"),
        &|| server.get_path(&keys.private, "/tokens"),
        &|| server.post(&keys.private, "/v2/tokens/search", &search),
        &|| server.post(&keys.private, "/tokens/search", &search),
        &|| server.get_path(&keys.private, &format!("/token-intents/{intent}")),
        &once,
        &|| server.get_path(&keys.management, "/tenants/self"),
        &|| server.get_path(&keys.management, "/tenants/self/quotas"),
        &|| server.get_path(&keys.management, "/applications"),
        &|| server.get_path(&keys.management, "/applications/key"),
    ];
    for read in reads {
        assert!(read().status < 300);
    }
    server.engine.reject_read_log_writes();
    for read in reads {
        let reply = read();
        assert_eq!(reply.status, 503, "{}", reply.text);
        let told = [&*number, &*id, &number[12..], "data", "quota", "Application"];
        // A trace id is a count, in which any digits can stand.
        let body = reply.without_trace().to_string();
        assert!(!told.iter().any(|it| body.contains(it)), "{body}");
    }
    // To be told no is no secret, and what is changed is recorded elsewhere.
    assert_eq!(server.get_token(&keys.private, "never-made").status, 404);
    assert_eq!(server.create_token(&keys.private, &card_body(&unique_card_number())).status, 201);
    server.engine.allow_read_log_writes();
    for read in reads {
        assert!(read().status < 300);
    }
}

//! Every operation leaves a record: what was changed, what was seen, and what was refused. And when
//! it cannot, nobody sees anything.

use std::sync::LazyLock;

use scrip_api::routes::ROUTES;
use scrip_core::{
    audit::{EntityType, Log, Operation},
    policy::{ApplicationKind, Needs, Permission, Settings, Tenant, Transform},
};
use serde_json::json;
use uuid::Uuid;

use crate::{
    access::calls::TenantHarness,
    harness::server::{Reply, Server, card, grant, new_number, text},
};

static RECORDED: LazyLock<Server> = LazyLock::new(Server::start);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    operation: String,
    entity: String,
    outcome: String,
}

/// What was recorded of a tenant so far, in this log.
fn records(server: &Server, log: Log, tenant: &Tenant) -> Vec<Record> {
    let tenant = server.engine.id(tenant.id.0);
    let sql =
        format!("SELECT operation, entity, outcome FROM audit WHERE tenant = {tenant} ORDER BY n");
    let record = |row: Vec<String>| {
        let [operation, entity, outcome] = row.try_into().unwrap();
        Record { operation, entity, outcome }
    };
    server.engine.select_of(log, &sql).into_iter().map(record).collect()
}

/// What this adds to the audit log and to the access log.
fn added<T>(server: &Server, tenant: &Tenant, act: impl FnOnce() -> T) -> (T, [Vec<Record>; 2]) {
    let before = Log::ALL.map(|it| records(server, it, tenant).len());
    let outcome = act();
    let mut after = Log::ALL.map(|it| records(server, it, tenant));
    for (records, before) in after.iter_mut().zip(before) {
        records.drain(..before);
    }
    (outcome, after)
}

fn shown(records: &[Record]) -> Vec<(&str, &str, &str)> {
    records.iter().map(|it| (&*it.operation, &*it.entity, &*it.outcome)).collect()
}

fn reads(operation: Operation) -> bool {
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
            | O::GetSession
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
fn key_for<'a>(world: &'a TenantHarness<'_>, needs: Needs) -> &'a str {
    world.full(match needs {
        Needs::Key => ApplicationKind::Private,
        Needs::Kind(kind) => kind,
        Needs::Permission(it) => it.kinds()[0],
    })
}

#[test]
fn every_operation_leaves_one_record_in_the_log_where_it_belongs() {
    for route in ROUTES.iter() {
        let world = TenantHarness::new(&RECORDED);
        let key = key_for(&world, route.needs);
        let call = || world.call(route, Some(key)).status;
        let (status, [audit, access]) = added(&RECORDED, &world.keys.tenant, call);
        let names = |records: &[Record]| -> Vec<String> {
            records.iter().map(|it| it.operation.clone()).collect()
        };
        let name = route.operation.as_str().to_owned();
        let of_nothing = route.operation.entity_type().is_none();
        let (in_audit, in_access) = if of_nothing {
            (vec![], vec![])
        } else if status == 410 || reads(route.operation) {
            (vec![], vec![name])
        } else if route.operation == Operation::AuthenticateSession {
            // That it is about to ask, with which card, and what came of it.
            (vec![name.clone(), "use_token_intent".to_owned(), name], vec![])
        } else if route.operation == Operation::CreateSession {
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
fn every_refusal_of_a_known_caller_leaves_one_record() {
    let world = TenantHarness::new(&RECORDED);
    // A session that nobody authorized.
    let nobody = world.session(&[]);
    for route in ROUTES.iter().filter(|it| matches!(it.needs, Needs::Permission(_))) {
        let call = || world.call(route, Some(&nobody)).status;
        let (status, [audit, access]) = added(&RECORDED, &world.keys.tenant, call);
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
                EntityType::Application | EntityType::TokenIntent | EntityType::ThreedsSession,
            ) => ids == 1,
            Some(EntityType::ApiKey) => ids == 2,
            Some(EntityType::Token | EntityType::Tenant | EntityType::Session) | None => false,
        };
        assert_eq!(named, expected, "{route:?} {access:?}");
    }
    // Nobody is known.
    let (_, logs) = added(&RECORDED, &world.keys.tenant, || {
        RECORDED.get("key_test_us_pvt_unknown", &world.token).refused(401, "BT-API-KEY");
    });
    assert_eq!(logs, [vec![], vec![]]);
}

#[test]
fn a_record_says_what_was_seen_and_names_no_value() {
    let keys = RECORDED.tenant(Settings::default());
    let sees = |transform| {
        let all = [Permission::TokenRead, Permission::TokenSearch];
        RECORDED.rules(&keys.tenant, vec![grant("/", transform, &all)])
    };
    let number = new_number();
    let id = text(&RECORDED.created(&keys.private, &card(&number)), "id");
    let custom = format!("order-{}", Uuid::new_v4());
    let body = json!({"id": custom, "type": "token", "data": 1, "containers": ["/apart/"]});
    RECORDED.created(&keys.private, &body);
    let check = |expected: &[(&str, &str, &str)], act: &dyn Fn() -> Reply| {
        let (reply, [audit, access]) = added(&RECORDED, &keys.tenant, act);
        assert_eq!(audit, []);
        assert_eq!(shown(&access), expected, "{}", reply.text);
    };
    for (transform, word) in [
        (Transform::Reveal, "revealed"),
        (Transform::Mask, "masked"),
        (Transform::Redact, "redacted"),
    ] {
        let key = sees(transform);
        check(&[("get_token", &id, word)], &|| RECORDED.get(&key, &id));
        let named = json!({"a": format!("{{{{ {id} }}}}"), "b": format!("{{{{ {custom} }}}}")});
        let both = [("detokenize", &*id, word), ("detokenize", &*custom, word)];
        check(&both, &|| RECORDED.post(&key, "/detokenize", &named));
        check(&[("list_tokens", "", word)], &|| RECORDED.fetch(&key, "/v2/tokens"));
        let none = "/v2/tokens?container=/none/";
        check(&[("list_tokens", "/none/", "empty")], &|| RECORDED.fetch(&key, none));
        let like_a_card = format!("/v2/tokens?container=/{number}/");
        check(&[("list_tokens", "", "empty")], &|| RECORDED.fetch(&key, &like_a_card));
    }
    let reader = sees(Transform::Mask);
    let uuid = Uuid::new_v4().to_string();
    let get = |key: &str, id: &str| RECORDED.get(key, id);
    check(&[("get_token", &uuid, "not_found")], &|| get(&reader, &uuid));
    check(&[("get_token", "", "not_found")], &|| get(&reader, "never-made"));
    check(&[("get_token", "", "not_found")], &|| get(&reader, &number));
    let spread = format!("{}-{}-{}-0000-000000000000", &number[..8], &number[8..12], &number[12..]);
    check(&[("get_token", "", "not_found")], &|| get(&reader, &spread));
    let elsewhere = RECORDED
        .rules(&keys.tenant, vec![grant("/other/", Transform::Mask, &[Permission::TokenRead])]);
    check(&[("get_token", &custom, "forbidden")], &|| get(&elsewhere, &custom));
    let bad = json!({"type": "card", "data": {"number": number, "cvc": "not one"}});
    check(&[("create_token", "", "invalid")], &|| RECORDED.create(&keys.private, &bad));
    let taken = json!({"id": custom, "type": "token", "data": 1});
    check(&[("create_token", "", "conflict")], &|| RECORDED.create(&keys.private, &taken));
    for log in Log::ALL {
        assert!(!format!("{:?}", records(&RECORDED, log, &keys.tenant)).contains(&number));
    }
}

#[test]
fn a_replay_is_recorded_for_each_token_that_it_shows() {
    let keys = RECORDED.tenant(Settings::default());
    let ask = |path: &str, key: &str, body| {
        RECORDED.ask("POST", path).key(key).json(&body).once("again").send().is(201)
    };
    let body = card(&new_number());
    let id = text(&ask("/tokens", &keys.private, body.clone()), "id");
    let (_, [audit, access]) =
        added(&RECORDED, &keys.tenant, || ask("/tokens", &keys.private, body));
    assert_eq!(audit, []);
    assert_eq!(shown(&access), [("create_token", &*id, "replayed")]);
    // The key answers whatever it is used for, and what it shows is a token all the same.
    let other = card(&new_number());
    let elsewhere = || {
        let asked = RECORDED.ask("POST", "/token-intents").key(&keys.private).json(&other);
        asked.once("again").send_for("POST", "/tokens").is(201)
    };
    let (_, [audit, access]) = added(&RECORDED, &keys.tenant, elsewhere);
    assert_eq!(audit, []);
    assert_eq!(shown(&access), [("get_token", &*id, "replayed")]);
    let body = json!({"name": "a", "type": "public", "permissions": ["token:create"]});
    let make =
        || RECORDED.ask("POST", "/applications").key(&keys.management).json(&body).once("x").send();
    make().is(201);
    let (_, [audit, access]) = added(&RECORDED, &keys.tenant, || make().is(201));
    assert_eq!(audit, []);
    assert_eq!(shown(&access), [("create_application", "", "replayed")]);
}

/// One by one they are not a list, whatever the path is called.
#[test]
fn tokens_asked_for_by_id_are_named() {
    let keys = RECORDED.tenant(Settings::default());
    let [a, b] =
        [(); 2].map(|()| text(&RECORDED.create(&keys.private, &card(&new_number())).is(201), "id"));
    let list = format!("/tokens?id={a}&id={b}");
    let (_, [_, access]) =
        added(&RECORDED, &keys.tenant, || RECORDED.fetch(&keys.private, &list).is(200));
    let mut found = shown(&access);
    found.sort_unstable();
    let mut expected = [&a, &b].map(|it| ("list_tokens_v1", &**it, "revealed"));
    expected.sort_unstable();
    assert_eq!(found, expected);
    let search = json!({"query": format!("id:{a}")});
    let (_, [_, access]) = added(&RECORDED, &keys.tenant, || {
        RECORDED.post(&keys.private, "/tokens/search", &search).is(200)
    });
    assert_eq!(shown(&access), [("search_tokens_v1", &*a, "revealed")]);
    let (_, [_, access]) =
        added(&RECORDED, &keys.tenant, || RECORDED.fetch(&keys.private, "/tokens?id=none").is(200));
    assert_eq!(shown(&access), [("list_tokens_v1", "", "empty")]);
}

#[test]
fn what_cannot_be_recorded_is_not_shown() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let number = new_number();
    let body = card(&number);
    let once = || server.ask("POST", "/tokens").key(&keys.private).json(&body).once("first").send();
    let id = text(&once().is(201), "id");
    let intent = text(&server.post(&keys.private, "/token-intents", &body).is(201), "id");
    let named = json!({"a": format!("{{{{ {id} }}}}")});
    let search = json!({"query": format!("data:{}", &number[12..])});
    let reads: [&dyn Fn() -> Reply; 12] = [
        &|| server.get(&keys.private, &id),
        &|| server.post(&keys.private, "/detokenize", &named),
        &|| server.fetch(&keys.private, "/v2/tokens"),
        &|| server.fetch(&keys.private, "/tokens"),
        &|| server.post(&keys.private, "/v2/tokens/search", &search),
        &|| server.post(&keys.private, "/tokens/search", &search),
        &|| server.fetch(&keys.private, &format!("/token-intents/{intent}")),
        &once,
        &|| server.fetch(&keys.management, "/tenants/self"),
        &|| server.fetch(&keys.management, "/tenants/self/quotas"),
        &|| server.fetch(&keys.management, "/applications"),
        &|| server.fetch(&keys.management, "/applications/key"),
    ];
    for read in reads {
        assert!(read().status < 300);
    }
    server.engine.refuse_accesses();
    for read in reads {
        let reply = read();
        assert_eq!(reply.status, 503, "{}", reply.text);
        let told = [&*number, &*id, &number[12..], "data", "quota", "Application"];
        // A trace id is a count, in which any digits can stand.
        let body = reply.without_trace().to_string();
        assert!(!told.iter().any(|it| body.contains(it)), "{body}");
    }
    // To be told no is no secret, and what is changed is recorded elsewhere.
    assert_eq!(server.get(&keys.private, "never-made").status, 404);
    assert_eq!(server.create(&keys.private, &card(&new_number())).status, 201);
    server.engine.take_accesses();
    for read in reads {
        assert!(read().status < 300);
    }
}

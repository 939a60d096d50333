//! Authority, route by route: who is let in, and nobody else. The routes come from the table of the
//! server, so that a new one cannot be forgotten here.

use std::sync::LazyLock;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{
    audit::Operation,
    policy::{ApplicationKind, CallerRequirement, Permission, Transform::Reveal},
};
use scrip_testing::policy::permissions_for_kind;
use uuid::Uuid;

use crate::{
    access::operation_calls::{TenantHarness, ThreeDsSessions},
    harness::server::{TestServer, grant},
};

static COVERAGE_SERVER: LazyLock<TestServer> = LazyLock::new(TestServer::start);

/// Whose keys can be let in at a route.
fn allowed_kinds(requirement: CallerRequirement) -> Vec<ApplicationKind> {
    match requirement {
        CallerRequirement::AnyKey => ApplicationKind::ALL.to_vec(),
        CallerRequirement::Kind(kind) => vec![kind],
        CallerRequirement::Permission(permission) => permission.kinds().to_vec(),
    }
}

/// What a refusal has to name.
fn requirement_name(requirement: CallerRequirement) -> &'static str {
    match requirement {
        CallerRequirement::AnyKey => unreachable!("every key is enough"),
        CallerRequirement::Kind(kind) => kind.as_str(),
        CallerRequirement::Permission(permission) => permission.as_str(),
    }
}

/// The control: without it, a row that never works would pass for one that is well guarded.
#[test]
fn key_with_all_permissions_is_accepted_on_every_route() {
    for route in ROUTES.iter() {
        for kind in allowed_kinds(route.requirement) {
            let harness = TenantHarness::new(&COVERAGE_SERVER);
            let reply = harness.call_route(route, Some(harness.full_key(kind)));
            let gone = route.operation == Operation::RegenerateApplicationKey;
            let expected = if gone { 410..=410 } else { 200..=204 };
            assert!(expected.contains(&reply.status), "{route:?} {kind:?}: {}", reply.text);
        }
    }
}

#[test]
fn unknown_key_is_rejected_on_every_route() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    let before = harness.tenant_state();
    let cut = &harness.keys.management[..harness.keys.management.len() - 1];
    let unknown = ["pvt", "pub", "mgt", "ses"].map(|it| format!("key_test_us_{it}_{cut}"));
    for route in ROUTES.iter() {
        harness.call_route(route, None).expect_problem(401, "BT-API-KEY");
        harness.call_route(route, Some("")).expect_problem(401, "BT-API-KEY");
        harness.call_route(route, Some(cut)).expect_problem(401, "BT-API-KEY");
        for key in &unknown {
            harness.call_route(route, Some(key)).expect_problem(401, "BT-API-KEY");
        }
    }
    assert_eq!(harness.tenant_state(), before);
}

#[test]
fn wrong_application_type_is_denied_on_every_route() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    let stranger = harness.create_access_session(&[]);
    let lent_all = harness.create_access_session(&permissions_for_kind(ApplicationKind::Private));
    let before = harness.tenant_state();
    for route in ROUTES.iter().filter(|it| it.requirement != CallerRequirement::AnyKey) {
        let admitted = allowed_kinds(route.requirement);
        for kind in ApplicationKind::ALL.into_iter().filter(|it| !admitted.contains(it)) {
            harness
                .call_route(route, Some(harness.full_key(kind)))
                .expect_problem(403, requirement_name(route.requirement));
        }
        harness
            .call_route(route, Some(&stranger))
            .expect_problem(403, requirement_name(route.requirement));
        // A session has what a private application lends it, and is none itself.
        let lendable = matches!(route.requirement, CallerRequirement::Permission(it)
            if it.kinds().contains(&ApplicationKind::Private));
        if !lendable {
            harness
                .call_route(route, Some(&lent_all))
                .expect_problem(403, requirement_name(route.requirement));
        }
    }
    assert_eq!(harness.tenant_state(), before);
}

fn routes_with_permissions() -> impl Iterator<Item = (&'static Route, Permission)> {
    ROUTES.iter().filter_map(|route| match route.requirement {
        CallerRequirement::Permission(permission) => Some((route, permission)),
        CallerRequirement::AnyKey | CallerRequirement::Kind(_) => None,
    })
}

#[test]
fn all_other_permissions_together_do_not_allow_a_route() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    for (route, needed) in routes_with_permissions() {
        let others = |kind| {
            let mut all = permissions_for_kind(kind);
            all.retain(|it| *it != needed);
            all
        };
        let mut keys: Vec<_> = Vec::new();
        for kind in needed.kinds() {
            keys.push(COVERAGE_SERVER.key_with_permissions(
                &harness.keys.tenant,
                *kind,
                &others(*kind),
            ));
        }
        let others = others(ApplicationKind::Private);
        keys.push(
            COVERAGE_SERVER.key_with_rules(&harness.keys.tenant, vec![grant("/", Reveal, &others)]),
        );
        keys.push(harness.create_access_session(&others));
        let before = harness.tenant_state();
        for key in &keys {
            harness.call_route(route, Some(key)).expect_problem(403, needed.as_str());
        }
        assert_eq!(harness.tenant_state(), before, "{route:?}");
    }
}

#[test]
fn permission_in_another_container_does_not_allow_a_route() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    for (route, needed) in routes_with_permissions().filter(|(_, it)| it.is_container_scoped()) {
        let mut others = permissions_for_kind(ApplicationKind::Private);
        others.retain(|it| *it != needed);
        let mut keys = Vec::new();
        for elsewhere in ["/elsewhere/", "/covered/below/", "/covered-too/", "/cover/"] {
            let rules = vec![grant(elsewhere, Reveal, &[needed]), grant("/", Reveal, &others)];
            keys.push(COVERAGE_SERVER.key_with_rules(&harness.keys.tenant, rules));
        }
        let before = harness.tenant_state();
        for key in &keys {
            let reply = harness.call_route(route, Some(key));
            if is_list(route) {
                assert_eq!(reply.expect_status(200)["data"], serde_json::json!([]), "{route:?}");
            } else {
                reply.expect_problem(403, needed.as_str());
            }
        }
        if is_list(route) {
            let seen = harness.call_route(route, Some(&harness.keys.private)).expect_status(200);
            assert_eq!(seen["data"].as_array().map(Vec::len), Some(1), "{route:?}");
        }
        assert_eq!(harness.tenant_state(), before, "{route:?}");
    }
}

/// A list spans what its caller may see, which is nothing where it may see nothing.
fn is_list(route: &Route) -> bool {
    use Operation::{ListTokens, ListTokensV1, SearchTokens, SearchTokensV1};
    [ListTokens, ListTokensV1, SearchTokens, SearchTokensV1].contains(&route.operation)
}

/// Whoever may not ask is not told what is wrong with the question.
#[test]
fn permission_denial_precedes_every_other_error() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    let stranger = harness.create_access_session(&[]);
    for route in ROUTES.iter().filter(|it| it.requirement != CallerRequirement::AnyKey) {
        let path = route.path.replace("{id}", "nobodys").replace("{key_id}", "nobodys");
        let ask = || {
            COVERAGE_SERVER
                .request(route.method_name(), &path)
                .idempotency_key("refused")
                .key(&stranger)
        };
        ask().send().expect_problem(403, requirement_name(route.requirement));
        ask()
            .body("text/plain", "{")
            .send()
            .expect_problem(403, requirement_name(route.requirement));
        ask()
            .body("application/json", "{")
            .send()
            .expect_problem(403, requirement_name(route.requirement));
    }
}

/// The most that another tenant has finds nothing of this one, nor whether it is there.
#[test]
fn another_tenant_cannot_reach_or_detect_any_entity() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    let before = harness.tenant_state();
    let tenant = harness.keys.tenant.id.to_string();
    let (card, session) = (&harness.sessions.intent, &harness.sessions.new);
    let marks =
        [&harness.token, &harness.intent, &harness.application, &harness.api_key, &harness.nonce];
    let marks: Vec<_> = marks.into_iter().chain([&tenant, card, session]).collect();
    for route in ROUTES.iter() {
        for kind in allowed_kinds(route.requirement) {
            let stranger = TenantHarness::new(&COVERAGE_SERVER);
            let key = stranger.full_key(kind);
            let reply = harness.call_route(route, Some(key));
            for mark in &marks {
                assert!(!reply.text.contains(mark.as_str()), "{route:?}: {}", reply.text);
            }
            // Some name in the body what others name in the path.
            let in_body = [
                Operation::AuthorizeAccessSession,
                Operation::Detokenize,
                Operation::CreateThreeDsSession,
            ];
            if !route.path.contains("{id}") && !in_body.contains(&route.operation) {
                assert!((200..=204).contains(&reply.status), "{route:?}: {}", reply.text);
                continue;
            }
            let others = [
                (Operation::RegenerateApplicationKey, 410),
                (Operation::Detokenize, 400),
                (Operation::CreateThreeDsSession, 400),
            ];
            let other = others.iter().find(|it| it.0 == route.operation);
            let expected = other.map_or(404, |it| it.1);
            assert_eq!(reply.status, expected, "{route:?}: {}", reply.text);
            let nobodys = TenantHarness {
                token: "nobodys-token".to_owned(),
                intent: Uuid::new_v4().to_string(),
                application: Uuid::new_v4().to_string(),
                api_key: Uuid::new_v4().to_string(),
                nonce: "nobodys-nonce".to_owned(),
                sessions: ThreeDsSessions::unknown(),
                ..stranger
            };
            let unknown = nobodys.call_route(route, Some(nobodys.full_key(kind)));
            assert_eq!(reply.without_trace(), unknown.without_trace(), "{route:?}");
        }
    }
    assert_eq!(harness.tenant_state(), before);
}

//! Authorization of every route: each allowed caller is accepted and every other caller is denied.
//! The routes come from the route table of the server, so a new route is always covered.

use std::sync::LazyLock;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{
    policy::CallerRequirement,
    types::{ApplicationKind, Operation, Permission, Transform::Reveal},
};
use scrip_testing::policy::permissions_for_kind;
use uuid::Uuid;

use crate::{
    access::operation_calls::{TenantHarness, ThreeDsSessions},
    harness::server::{TestServer, grant},
};

static COVERAGE_SERVER: LazyLock<TestServer> = LazyLock::new(TestServer::start);

/// Returns the kinds of application that a route can accept.
fn allowed_kinds(requirement: CallerRequirement) -> Vec<ApplicationKind> {
    match requirement {
        CallerRequirement::AnyKey => ApplicationKind::ALL.to_vec(),
        CallerRequirement::Kind(kind) => vec![kind],
        CallerRequirement::Permission(permission) => permission.kinds().to_vec(),
    }
}

/// Returns the name that a denial must contain.
fn requirement_name(requirement: CallerRequirement) -> &'static str {
    match requirement {
        CallerRequirement::AnyKey => unreachable!("no key is denied"),
        CallerRequirement::Kind(kind) => kind.as_str(),
        CallerRequirement::Permission(permission) => permission.as_str(),
    }
}

/// Positive control: without this test, a route that always fails would look well protected.
#[test]
fn key_with_all_permissions_is_accepted_on_every_route() {
    for route in ROUTES.iter() {
        for kind in allowed_kinds(route.requirement) {
            let harness = TenantHarness::new(&COVERAGE_SERVER);
            let response = harness.call_route(route, Some(harness.full_key(kind)));
            let is_removed = route.operation == Operation::RegenerateApplicationKey;
            let expected = if is_removed { 410..=410 } else { 200..=204 };
            assert!(expected.contains(&response.status), "{route:?} {kind:?}: {}", response.text);
        }
    }
}

#[test]
fn unknown_key_is_rejected_on_every_route() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    let state_before = harness.tenant_state();
    let shortened_key = &harness.keys.management[..harness.keys.management.len() - 1];
    let unknown_keys =
        ["pvt", "pub", "mgt", "ses"].map(|it| format!("key_test_us_{it}_{shortened_key}"));
    for route in ROUTES.iter() {
        harness.call_route(route, None).expect_problem(401, "BT-API-KEY");
        harness.call_route(route, Some("")).expect_problem(401, "BT-API-KEY");
        harness.call_route(route, Some(shortened_key)).expect_problem(401, "BT-API-KEY");
        for key in &unknown_keys {
            harness.call_route(route, Some(key)).expect_problem(401, "BT-API-KEY");
        }
    }
    assert_eq!(harness.tenant_state(), state_before);
}

#[test]
fn wrong_application_type_is_denied_on_every_route() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    let unauthorized_session = harness.create_access_session(&[]);
    let fully_delegated =
        harness.create_access_session(&permissions_for_kind(ApplicationKind::Private));
    let state_before = harness.tenant_state();
    let expect_denied = |route: &Route, key: &str| {
        let response = harness.call_route(route, Some(key));
        response.expect_problem(403, requirement_name(route.requirement));
    };
    for route in ROUTES.iter().filter(|it| it.requirement != CallerRequirement::AnyKey) {
        let allowed = allowed_kinds(route.requirement);
        for kind in ApplicationKind::ALL.into_iter().filter(|it| !allowed.contains(it)) {
            expect_denied(route, harness.full_key(kind));
        }
        expect_denied(route, &unauthorized_session);
        // A session can only have permissions that a private application can delegate.
        let can_be_delegated = matches!(route.requirement, CallerRequirement::Permission(it)
            if it.kinds().contains(&ApplicationKind::Private));
        if !can_be_delegated {
            expect_denied(route, &fully_delegated);
        }
    }
    assert_eq!(harness.tenant_state(), state_before);
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
    for (route, required) in routes_with_permissions() {
        let permissions_without_required = |kind| {
            let mut permissions = permissions_for_kind(kind);
            permissions.retain(|it| *it != required);
            permissions
        };
        let tenant = &harness.keys.tenant;
        let key_of_kind = |kind: &ApplicationKind| {
            let permissions = permissions_without_required(*kind);
            COVERAGE_SERVER.key_with_permissions(tenant, *kind, &permissions)
        };
        let mut keys: Vec<_> = required.kinds().iter().map(key_of_kind).collect();
        let other_permissions = permissions_without_required(ApplicationKind::Private);
        keys.push(COVERAGE_SERVER.key_with_rule(tenant, "/", Reveal, &other_permissions));
        keys.push(harness.create_access_session(&other_permissions));
        let state_before = harness.tenant_state();
        for key in &keys {
            harness.call_route(route, Some(key)).expect_problem(403, required.as_str());
        }
        assert_eq!(harness.tenant_state(), state_before, "{route:?}");
    }
}

#[test]
fn permission_in_another_container_does_not_allow_a_route() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    for (route, required) in routes_with_permissions().filter(|(_, it)| it.is_container_scoped()) {
        let mut other_permissions = permissions_for_kind(ApplicationKind::Private);
        other_permissions.retain(|it| *it != required);
        let mut keys = Vec::new();
        for other_container in ["/elsewhere/", "/covered/below/", "/covered-too/", "/cover/"] {
            let rules = vec![
                grant(other_container, Reveal, &[required]),
                grant("/", Reveal, &other_permissions),
            ];
            keys.push(COVERAGE_SERVER.key_with_rules(&harness.keys.tenant, rules));
        }
        let state_before = harness.tenant_state();
        for key in &keys {
            let response = harness.call_route(route, Some(key));
            if is_list(route) {
                assert_eq!(response.expect_status(200)["data"], serde_json::json!([]), "{route:?}");
            } else {
                response.expect_problem(403, required.as_str());
            }
        }
        if is_list(route) {
            let list = harness.call_route(route, Some(&harness.keys.private)).expect_status(200);
            assert_eq!(list["data"].as_array().map(Vec::len), Some(1), "{route:?}");
        }
        assert_eq!(harness.tenant_state(), state_before, "{route:?}");
    }
}

/// A list is limited to the tokens that its caller may read. Without any right it is empty, not an
/// error.
fn is_list(route: &Route) -> bool {
    use Operation::{ListTokens, ListTokensV1, SearchTokens, SearchTokensV1};
    [ListTokens, ListTokensV1, SearchTokens, SearchTokensV1].contains(&route.operation)
}

/// A caller without permission learns nothing else about the request.
#[test]
fn permission_denial_precedes_every_other_error() {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    let unauthorized_session = harness.create_access_session(&[]);
    for route in ROUTES.iter().filter(|it| it.requirement != CallerRequirement::AnyKey) {
        let path = route.path.replace("{id}", "nobodys").replace("{key_id}", "nobodys");
        let request = || {
            COVERAGE_SERVER
                .request(route.method_name(), &path)
                .idempotency_key("refused")
                .key(&unauthorized_session)
        };
        let requirement = requirement_name(route.requirement);
        request().send().expect_problem(403, requirement);
        for content_type in ["text/plain", "application/json"] {
            request().body(content_type, "{").send().expect_problem(403, requirement);
        }
    }
}

/// The most privileged keys of another tenant neither reach an entity nor detect that it exists.
#[test]
fn another_tenant_cannot_reach_or_detect_any_entity() {
    // An access session that is not authorized lives for three minutes, and a busy machine is slow.
    for routes in ROUTES.chunks(10) {
        check_isolation(routes);
    }
}

fn check_isolation(routes: &[Route]) {
    let harness = TenantHarness::new(&COVERAGE_SERVER);
    let state_before = harness.tenant_state();
    let tenant = harness.keys.tenant.id.to_string();
    let (card, session) = (&harness.sessions.intent, &harness.sessions.new);
    let TenantHarness { token, intent, application, api_key, nonce, proxy, .. } = &harness;
    let values = [token, intent, application, api_key, nonce, &tenant, card, session, proxy];
    for route in routes {
        for kind in allowed_kinds(route.requirement) {
            let other_tenant = TenantHarness::new(&COVERAGE_SERVER);
            let key = other_tenant.full_key(kind);
            let response = harness.call_route(route, Some(key));
            for value in &values {
                assert!(!response.text.contains(value.as_str()), "{route:?}: {}", response.text);
            }
            // Some operations name the entity in the body instead of the path.
            let in_body = [
                Operation::AuthorizeAccessSession,
                Operation::Detokenize,
                Operation::CreateThreeDsSession,
            ];
            if !route.path.contains("{id}") && !in_body.contains(&route.operation) {
                assert!((200..=204).contains(&response.status), "{route:?}: {}", response.text);
                continue;
            }
            let exceptions = [
                (Operation::RegenerateApplicationKey, 410),
                (Operation::Detokenize, 400),
                (Operation::CreateThreeDsSession, 400),
            ];
            let exception = exceptions.iter().find(|it| it.0 == route.operation);
            let expected = exception.map_or(404, |it| it.1);
            assert_eq!(response.status, expected, "{route:?}: {}", response.text);
            let unknown_entities = TenantHarness {
                token: "nobodys-token".to_owned(),
                intent: Uuid::new_v4().to_string(),
                application: Uuid::new_v4().to_string(),
                api_key: Uuid::new_v4().to_string(),
                nonce: "nobodys-nonce".to_owned(),
                proxy: Uuid::new_v4().to_string(),
                webhook: Uuid::new_v4().to_string(),
                client_key: Uuid::new_v4().to_string(),
                sessions: ThreeDsSessions::unknown(),
                ..other_tenant
            };
            let response_for_unknown =
                unknown_entities.call_route(route, Some(unknown_entities.full_key(kind)));
            assert_eq!(response.without_trace(), response_for_unknown.without_trace(), "{route:?}");
        }
    }
    assert_eq!(harness.tenant_state(), state_before);
}

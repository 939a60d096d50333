//! Authority, route by route: who is let in, and nobody else. The routes come from the table of the
//! server, so that a new one cannot be forgotten here.

use std::sync::LazyLock;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{
    audit::Operation,
    policy::{ApplicationKind, Needs, Permission, Transform::Reveal},
};
use scrip_testing::policy::permissions_of;
use uuid::Uuid;

use crate::{
    access::calls::{Sessions, TenantHarness},
    harness::server::{Server, grant},
};

static COVERED: LazyLock<Server> = LazyLock::new(Server::start);

/// Whose keys can be let in at a route.
fn admitted(needs: Needs) -> Vec<ApplicationKind> {
    match needs {
        Needs::Key => ApplicationKind::ALL.to_vec(),
        Needs::Kind(kind) => vec![kind],
        Needs::Permission(permission) => permission.kinds().to_vec(),
    }
}

/// What a refusal has to name.
fn named(needs: Needs) -> &'static str {
    match needs {
        Needs::Key => unreachable!("every key is enough"),
        Needs::Kind(kind) => kind.as_str(),
        Needs::Permission(permission) => permission.as_str(),
    }
}

/// The control: without it, a row that never works would pass for one that is well guarded.
#[test]
fn a_key_with_everything_is_let_in() {
    for route in ROUTES.iter() {
        for kind in admitted(route.needs) {
            let world = TenantHarness::new(&COVERED);
            let reply = world.call(route, Some(world.full(kind)));
            let gone = route.operation == Operation::RegenerateApplicationKey;
            let expected = if gone { 410..=410 } else { 200..=204 };
            assert!(expected.contains(&reply.status), "{route:?} {kind:?}: {}", reply.text);
        }
    }
}

#[test]
fn without_a_known_key_nobody_is_let_in() {
    let world = TenantHarness::new(&COVERED);
    let before = world.state();
    let cut = &world.keys.management[..world.keys.management.len() - 1];
    let unknown = ["pvt", "pub", "mgt", "ses"].map(|it| format!("key_test_us_{it}_{cut}"));
    for route in ROUTES.iter() {
        world.call(route, None).refused(401, "BT-API-KEY");
        world.call(route, Some("")).refused(401, "BT-API-KEY");
        world.call(route, Some(cut)).refused(401, "BT-API-KEY");
        for key in &unknown {
            world.call(route, Some(key)).refused(401, "BT-API-KEY");
        }
    }
    assert_eq!(world.state(), before);
}

#[test]
fn another_kind_of_application_is_not_let_in() {
    let world = TenantHarness::new(&COVERED);
    let stranger = world.session(&[]);
    let lent_all = world.session(&permissions_of(ApplicationKind::Private));
    let before = world.state();
    for route in ROUTES.iter().filter(|it| it.needs != Needs::Key) {
        let admitted = admitted(route.needs);
        for kind in ApplicationKind::ALL.into_iter().filter(|it| !admitted.contains(it)) {
            world.call(route, Some(world.full(kind))).refused(403, named(route.needs));
        }
        world.call(route, Some(&stranger)).refused(403, named(route.needs));
        // A session has what a private application lends it, and is none itself.
        let lendable = matches!(route.needs, Needs::Permission(it)
            if it.kinds().contains(&ApplicationKind::Private));
        if !lendable {
            world.call(route, Some(&lent_all)).refused(403, named(route.needs));
        }
    }
    assert_eq!(world.state(), before);
}

fn routes_with_permissions() -> impl Iterator<Item = (&'static Route, Permission)> {
    ROUTES.iter().filter_map(|route| match route.needs {
        Needs::Permission(permission) => Some((route, permission)),
        Needs::Key | Needs::Kind(_) => None,
    })
}

#[test]
fn every_other_permission_is_not_enough() {
    let world = TenantHarness::new(&COVERED);
    for (route, needed) in routes_with_permissions() {
        let others = |kind| {
            let mut all = permissions_of(kind);
            all.retain(|it| *it != needed);
            all
        };
        let mut keys: Vec<_> = Vec::new();
        for kind in needed.kinds() {
            keys.push(COVERED.permissions(&world.keys.tenant, *kind, &others(*kind)));
        }
        let others = others(ApplicationKind::Private);
        keys.push(COVERED.rules(&world.keys.tenant, vec![grant("/", Reveal, &others)]));
        keys.push(world.session(&others));
        let before = world.state();
        for key in &keys {
            world.call(route, Some(key)).refused(403, needed.as_str());
        }
        assert_eq!(world.state(), before, "{route:?}");
    }
}

#[test]
fn a_permission_in_another_container_is_not_enough() {
    let world = TenantHarness::new(&COVERED);
    for (route, needed) in routes_with_permissions().filter(|(_, it)| it.is_of_containers()) {
        let mut others = permissions_of(ApplicationKind::Private);
        others.retain(|it| *it != needed);
        let mut keys = Vec::new();
        for elsewhere in ["/elsewhere/", "/covered/below/", "/covered-too/", "/cover/"] {
            let rules = vec![grant(elsewhere, Reveal, &[needed]), grant("/", Reveal, &others)];
            keys.push(COVERED.rules(&world.keys.tenant, rules));
        }
        let before = world.state();
        for key in &keys {
            let reply = world.call(route, Some(key));
            if lists(route) {
                assert_eq!(reply.is(200)["data"], serde_json::json!([]), "{route:?}");
            } else {
                reply.refused(403, needed.as_str());
            }
        }
        if lists(route) {
            let seen = world.call(route, Some(&world.keys.private)).is(200);
            assert_eq!(seen["data"].as_array().map(Vec::len), Some(1), "{route:?}");
        }
        assert_eq!(world.state(), before, "{route:?}");
    }
}

/// A list spans what its caller may see, which is nothing where it may see nothing.
fn lists(route: &Route) -> bool {
    use Operation::{ListTokens, ListTokensV1, SearchTokens, SearchTokensV1};
    [ListTokens, ListTokensV1, SearchTokens, SearchTokensV1].contains(&route.operation)
}

/// Whoever may not ask is not told what is wrong with the question.
#[test]
fn a_refusal_comes_before_any_other_answer() {
    let world = TenantHarness::new(&COVERED);
    let stranger = world.session(&[]);
    for route in ROUTES.iter().filter(|it| it.needs != Needs::Key) {
        let path = route.path.replace("{id}", "nobodys").replace("{key_id}", "nobodys");
        let ask = || COVERED.ask(route.method_name(), &path).once("refused").key(&stranger);
        ask().send().refused(403, named(route.needs));
        ask().text("text/plain", "{").send().refused(403, named(route.needs));
        ask().text("application/json", "{").send().refused(403, named(route.needs));
    }
}

/// The most that another tenant has finds nothing of this one, nor whether it is there.
#[test]
fn another_tenant_finds_nothing() {
    let world = TenantHarness::new(&COVERED);
    let before = world.state();
    let tenant = world.keys.tenant.id.to_string();
    let (card, session) = (&world.sessions.intent, &world.sessions.new);
    let marks = [&world.token, &world.intent, &world.application, &world.api_key, &world.nonce];
    let marks: Vec<_> = marks.into_iter().chain([&tenant, card, session]).collect();
    for route in ROUTES.iter() {
        for kind in admitted(route.needs) {
            let stranger = TenantHarness::new(&COVERED);
            let key = stranger.full(kind);
            let reply = world.call(route, Some(key));
            for mark in &marks {
                assert!(!reply.text.contains(mark.as_str()), "{route:?}: {}", reply.text);
            }
            // Some name in the body what others name in the path.
            let in_body = [
                Operation::AuthorizeAccessSession,
                Operation::Detokenize,
                Operation::CreateSession,
            ];
            if !route.path.contains("{id}") && !in_body.contains(&route.operation) {
                assert!((200..=204).contains(&reply.status), "{route:?}: {}", reply.text);
                continue;
            }
            let others = [
                (Operation::RegenerateApplicationKey, 410),
                (Operation::Detokenize, 400),
                (Operation::CreateSession, 400),
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
                sessions: Sessions::of_nobody(),
                ..stranger
            };
            let unknown = nobodys.call(route, Some(nobodys.full(kind)));
            assert_eq!(reply.without_trace(), unknown.without_trace(), "{route:?}");
        }
    }
    assert_eq!(world.state(), before);
}

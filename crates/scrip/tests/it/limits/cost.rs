//! The cost of every route: each has a worst input within the limits, or a written reason. A debug
//! build is too slow to measure processor time, so the test checks the charged work; `bench --cost`
//! measures.
//!
//! A proxied call charges what it is about to do, so that it runs in a slot if it is much.

use std::sync::LazyLock;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{
    types::Operation,
    work_meter::{INLINE_WORK_MAX, INLINE_WORK_PEAK},
};
use scrip_testing::{
    destination::behavior::CannedResponse,
    requests::worst_inputs::{
        EXCUSED_OPERATIONS, WORST_CALLS, WORST_INPUTS, WorstCaller, mask_rights,
    },
};

use crate::{
    access::operation_calls::TenantHarness, harness::server::TestServer, proxy::harness::PROXY,
};

static COST_SERVER: LazyLock<TestServer> = LazyLock::new(TestServer::start);

fn has_row(operation: Operation) -> bool {
    WORST_INPUTS.iter().any(|it| it.operation == operation)
}

#[test]
fn every_route_has_a_worst_input_or_a_written_reason() {
    for route in ROUTES {
        let is_excused = EXCUSED_OPERATIONS.iter().any(|it| it.0 == route.operation);
        assert!(has_row(route.operation) != is_excused, "{:?}", route.operation);
    }
    for (operation, reason) in EXCUSED_OPERATIONS {
        assert!(ROUTES.iter().any(|it| it.operation == *operation), "{operation:?} has no route");
        assert!(reason.len() > 10, "{operation:?} has no reason");
    }
}

/// The API key of each caller in one tenant.
struct CallerKeys {
    keys: Vec<(WorstCaller, String)>,
}

impl CallerKeys {
    fn new(harness: &TenantHarness<'_>) -> Self {
        let (server, keys) = (harness.server, &harness.keys);
        let create = |caller| match caller {
            WorstCaller::Reveal => keys.private.clone(),
            WorstCaller::Masks => {
                server.create_application(&keys.management, "private", &mask_rights()).key
            }
            WorstCaller::Browser => keys.public.clone(),
            WorstCaller::Session => {
                server.create_access_session(&keys.public, &keys.private, &mask_rights())
            }
            WorstCaller::Management => keys.management.clone(),
        };
        Self { keys: WorstCaller::ALL.map(|it| (it, create(it))).into() }
    }

    /// The callers that may call a route.
    fn of(&self, route: &Route) -> impl Iterator<Item = &(WorstCaller, String)> {
        self.keys.iter().filter(|it| it.0.may_call(route.requirement))
    }
}

/// An evaluation that is too expensive for one request is a 400, and some attributes are a 403 for
/// browsers.
#[test]
fn worst_input_of_every_route_charges_little_work_on_its_worker_for_every_caller() {
    for input in WORST_INPUTS {
        let harness = TenantHarness::new(&COST_SERVER);
        let callers = CallerKeys::new(&harness);
        let route = ROUTES.iter().find(|it| it.operation == input.operation).unwrap();
        let name = format!("{:?}, {}", input.operation, input.input);
        let mut count = 0;
        for (caller, key) in callers.of(route) {
            for patch in (input.stored)() {
                let private = Some(harness.keys.private.as_str());
                let stored = harness.call_with_body(route, private, "", Some(patch));
                let text: String = stored.text.chars().take(300).collect();
                assert_eq!(stored.status, 200, "{name}: {text}");
            }
            let response = harness.call_with_body(route, Some(key), input.query, (input.body)());
            let status = response.status;
            assert!(status < 500, "{name}, {caller:?}: {status} {}", response.text);
            assert_ne!(status, 413, "{name} is larger than a body may be");
            // Every request of this process counts, so a parallel test cannot hide a request.
            let peak = INLINE_WORK_PEAK.get();
            let work_max = u64::try_from(INLINE_WORK_MAX).unwrap();
            assert!(peak <= 2 * work_max, "{name}, {caller:?}: {peak} units on a worker");
            count += 1;
        }
        assert!(count > 0, "{name}: no caller may send it");
    }
}

/// A call that needs more work than its limit is rejected after this work: 400, or 502 for an answer.
#[test]
fn worst_call_of_every_kind_charges_little_work_on_its_worker() {
    for call in WORST_CALLS {
        let body = (call.body)();
        let answer = CannedResponse::new(200, call.content_type, body.as_bytes());
        let host = PROXY.destinations.host(&[answer.into()]);
        let proxy = PROXY.create_proxy_to(&host, (call.transforms)());
        let request = PROXY.post_to(&proxy).body(call.content_type, body);
        let request = call.header.iter().fold(request, |it, value| it.header("X-Cost", value));
        let response = request.send();
        let is_served = matches!(response.status(), 200..=499 | 502);
        assert!(is_served, "{}: {} {}", call.input, response.status(), response.text());
        let peak = INLINE_WORK_PEAK.get();
        let work_max = u64::try_from(INLINE_WORK_MAX).unwrap();
        assert!(peak <= 2 * work_max, "{}: {peak} units on a worker", call.input);
    }
}

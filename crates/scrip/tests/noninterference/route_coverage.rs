//! Every route of the table is part of the sequences.

use std::collections::BTreeMap;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::types::DisclosureRules;

use crate::{build_runtime, generator::generate, sequence_run::TwinVaults, step::Step};

/// The maximum number of sequences that contain every route.
const SEQUENCES_MAX: u64 = 3_000;

/// Entries that are not in the table: proxied calls by path, and by the host of a proxy.
const CALL_ENTRIES: [&str; 2] = ["call by path", "call by host"];

/// Routes that no sequence contains, with the reason.
const EXCUSED_ROUTES: [(&str, &str); 1] = [(
    "DELETE /tenants/self",
    "the engines cannot restore the tenant for the next sequence, and the response is empty",
)];

/// Routes whose requests never succeed, with the reason.
const REJECTED_ROUTES: [(&str, &str); 2] = [
    ("POST /applications/{id}/regenerate", "the operation was removed, and its response says so"),
    ("GET /3ds/sessions/{id}/challenge-result", "the directory server asks for no challenge"),
];

fn route_name(route: &Route) -> String {
    format!("{} {}", route.method_name(), route.path)
}

/// The name of the route of a step. A path without parameters has precedence.
fn find_route(step: &Step) -> Option<String> {
    if step.is_call() {
        return Some(CALL_ENTRIES[usize::from(step.has_host())].to_owned());
    }
    let path = step.path.split('?').next().unwrap_or_default();
    let matches_path = |route: &&Route| {
        let (pattern, path) = (route.path.split('/'), path.split('/'));
        route.method_name() == step.method
            && pattern.clone().count() == path.clone().count()
            && pattern.zip(path).all(|(expected, it)| expected == it || expected.starts_with('{'))
    };
    let routes = ROUTES.iter().filter(matches_path);
    routes.min_by_key(|it| it.path.matches('{').count()).map(route_name)
}

fn is_listed(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|it| it.0 == name)
}

/// The numbers of requests of a route: all, and successful ones.
#[derive(Debug, Clone, Copy, Default)]
struct RouteCounts {
    all: usize,
    successful: usize,
}

impl RouteCounts {
    fn is_covered(self, name: &str) -> bool {
        is_listed(&EXCUSED_ROUTES, name)
            || self.successful > 0
            || self.all > 0 && is_listed(&REJECTED_ROUTES, name)
    }
}

#[test]
fn sequences_contain_every_route() {
    let names = ROUTES.iter().map(route_name).chain(CALL_ENTRIES.map(str::to_owned));
    let mut counts: BTreeMap<_, _> = names.map(|it| (it, RouteCounts::default())).collect();
    build_runtime().block_on(async {
        let vaults = TwinVaults::in_memory(DisclosureRules::default()).await;
        for seed in 0..SEQUENCES_MAX {
            if counts.iter().all(|(name, counts)| counts.is_covered(name)) {
                break;
            }
            let mut observe_step = |step: &Step, status: u16| {
                let name = find_route(step);
                let name = name.unwrap_or_else(|| panic!("no route: {step}"));
                let counts = counts.get_mut(&name).unwrap();
                counts.all += 1;
                counts.successful += usize::from((200..300).contains(&status));
            };
            vaults.run_observed(&generate(seed, &vaults.plans), &mut observe_step).await;
        }
    });
    for (name, counts) in &counts {
        assert!(
            counts.is_covered(name),
            "{name}: {counts:?} requests. Add a production to the generator, or a reason."
        );
        let is_unused = is_listed(&EXCUSED_ROUTES, name) && counts.all > 0
            || is_listed(&REJECTED_ROUTES, name) && counts.successful > 0;
        assert!(!is_unused, "{name}: {counts:?} requests. The route needs no reason.");
    }
}

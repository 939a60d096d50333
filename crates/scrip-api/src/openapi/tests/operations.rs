//! Compares the operations of the document with the route tables.

use std::collections::BTreeSet;

use scrip_core::policy::CallerRequirement;
use serde_json::{Value, json};

use crate::{
    deprecation,
    openapi::{document, tests::operations},
    route::{AddressLimit, BodyKind, CallbackFormat, Route},
    routes::{ROUTES, callbacks::CALLBACKS, keyless::KEYLESS_ROUTES},
};

/// The operation id of a row: the name of its operation; with a number on a second route.
fn operation_id(at: usize, row: &Route) -> String {
    let before = ROUTES[..at].iter().filter(|it| it.operation == row.operation).count();
    let name = row.operation.as_str();
    if before == 0 { name.to_owned() } else { format!("{name}_{}", before + 1) }
}

fn operation(method: &str, path: &str) -> &'static Value {
    &document()["paths"][path][method.to_ascii_lowercase()]
}

fn operation_of_route(row: &Route) -> &'static Value {
    operation(row.method_name(), row.path)
}

fn statuses(operation: &Value) -> BTreeSet<u16> {
    let responses = operation["responses"].as_object().unwrap();
    responses.keys().map(|it| it.parse().unwrap()).collect()
}

fn content_types(operation: &Value) -> Vec<&str> {
    let content = operation["requestBody"]["content"].as_object();
    content.into_iter().flatten().map(|it| it.0.as_str()).collect()
}

#[test]
fn routes_and_documented_operations_are_the_same() {
    let mut routes = BTreeSet::new();
    for (at, row) in ROUTES.iter().enumerate() {
        routes.insert((row.path, row.method_name(), operation_id(at, row)));
    }
    for row in CALLBACKS {
        routes.insert((row.path, "POST", row.operation.as_str().to_owned()));
    }
    for row in KEYLESS_ROUTES {
        // These rows have no operation of the vault; the document names them.
        let id = operation("GET", row.path)["operationId"].as_str().unwrap_or_default();
        routes.insert((row.path, "GET", id.to_owned()));
    }
    let described = operations().into_iter().map(|it| {
        let method = ["GET", "POST", "PUT", "PATCH", "DELETE"]
            .into_iter()
            .find(|method| method.eq_ignore_ascii_case(it.method));
        (it.path, method.unwrap(), it.value["operationId"].as_str().unwrap().to_owned())
    });
    assert_eq!(described.collect::<BTreeSet<_>>(), routes);
    for (path, item) in document()["paths"].as_object().unwrap() {
        let methods = operations().iter().filter(|it| it.path == path).count();
        assert_eq!(item.as_object().unwrap().len(), methods, "{path} has another method");
    }
}

/// What an operation needs: in words, as roles, and for programs.
fn expected_requirements(needs: CallerRequirement) -> (String, Vec<&'static str>, Value) {
    match needs {
        CallerRequirement::AnyKey => {
            ("Any key will do.".to_owned(), Vec::new(), json!({"key": "any"}))
        }
        CallerRequirement::Kind(kind) => {
            let kind = kind.as_str();
            let who = format!("Needs the key of a {kind} application, whatever its permissions.");
            (who, Vec::new(), json!({"key": kind}))
        }
        CallerRequirement::Permission(permission) => {
            let name = permission.as_str();
            let kinds: Vec<_> = permission.kinds().iter().map(|it| it.as_str()).collect();
            let who = format!(
                "Needs the permission `{name}`, which {} applications can hold.",
                kinds.join(" and ")
            );
            (who, vec![name], json!({"permission": name, "application_types": kinds}))
        }
    }
}

#[test]
fn operation_requires_the_permission_of_its_route() {
    for row in ROUTES {
        let (operation, (who, roles, needs)) =
            (operation_of_route(row), expected_requirements(row.requirement));
        let id = &operation["operationId"];
        assert_eq!(operation["x-scrip-needs"], needs, "{id}");
        assert_eq!(operation["security"], json!([{"api_key": roles}]), "{id}");
        let description = operation["description"].as_str().unwrap();
        assert!(description.split("\n\n").any(|it| it == who), "{id} does not say: {who}");
    }
    let keyless = KEYLESS_ROUTES.iter().map(|it| operation("GET", it.path));
    for operation in keyless.chain(CALLBACKS.iter().map(|it| operation("POST", it.path))) {
        assert_eq!(operation["security"], json!([]), "{}", operation["operationId"]);
        assert!(operation.get("x-scrip-needs").is_none(), "{}", operation["operationId"]);
    }
}

#[test]
fn documented_request_body_matches_the_route() {
    for row in ROUTES {
        let (operation, expected) =
            (operation_of_route(row), Vec::from_iter(row.body.content_type()));
        let id = &operation["operationId"];
        assert_eq!(content_types(operation), expected, "{id}");
        assert!(expected.is_empty() || operation["requestBody"]["required"] == true, "{id}");
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let honours_a_key = parameters
            .filter_map(|it| it["$ref"].as_str())
            .any(|it| it == "#/components/parameters/IdempotencyKey");
        assert_eq!(honours_a_key, row.body.is_idempotent(), "{id}");
    }
    for row in CALLBACKS {
        assert_eq!(content_types(operation("POST", row.path)), [row.format.content_type]);
    }
}

/// The statuses that a row leads to, whatever its operation does.
fn statuses_implied_by(row: &Route) -> BTreeSet<u16> {
    let mut statuses = BTreeSet::from([400, 401, 429, 500, 503]);
    match row.requirement {
        CallerRequirement::AnyKey => (),
        CallerRequirement::Kind(_) | CallerRequirement::Permission(_) => statuses.extend([403]),
    }
    match row.body {
        BodyKind::None => (),
        BodyKind::Ignored => statuses.extend([409, 422]),
        BodyKind::ReadOnlyJson => statuses.extend([408, 413, 415]),
        BodyKind::Json | BodyKind::MergePatch => statuses.extend([408, 409, 413, 415, 422]),
    }
    if deprecation::find_by_operation(row.operation).is_some() {
        statuses.extend([410]);
    }
    if row.path_parameter_count > 0 && deprecation::find_by_operation(row.operation).is_none() {
        statuses.extend([404]);
    }
    statuses
}

#[test]
fn operation_documents_the_problem_statuses_of_its_route() {
    for row in ROUTES {
        let (id, described) =
            (&operation_of_route(row)["operationId"], statuses(operation_of_route(row)));
        let expected = statuses_implied_by(row);
        assert!(described.is_superset(&expected), "{id}: {expected:?} but {described:?}");
        // What no route of another kind can answer.
        for status in [401, 403, 408, 410, 413, 415] {
            assert_eq!(described.contains(&status), expected.contains(&status), "{id} {status}");
        }
    }
    for row in CALLBACKS {
        let (operation, mut expected) =
            (operation("POST", row.path), BTreeSet::from([400, 408, 413, 415, 429, 500, 503]));
        if row.format.needs_length {
            expected.insert(411);
        }
        let described = statuses(operation);
        assert!(described.is_superset(&expected), "{}: {described:?}", row.path);
        for (status, response) in operation["responses"].as_object().unwrap() {
            let is_page = response["content"].get("text/html").is_some();
            assert_eq!(is_page, row.format == CallbackFormat::FORM, "{} {status}", row.path);
        }
    }
    for row in KEYLESS_ROUTES {
        let described = statuses(operation("GET", row.path));
        let counted = row.address_limit == AddressLimit::Counted;
        assert_eq!(described.contains(&429), counted, "{}", row.path);
    }
}

#[test]
fn documented_deprecations_match_the_deprecation_table() {
    for row in ROUTES {
        let (operation, deprecated) =
            (operation_of_route(row), deprecation::find_by_operation(row.operation));
        let id = &operation["operationId"];
        assert_eq!(operation.get("deprecated"), deprecated.map(|_| &json!(true)), "{id}");
        let Some(deprecated) = deprecated else { continue };
        let told = format!("Deprecated since {}: {}.", deprecated.since, deprecated.replacement);
        assert!(operation["description"].as_str().unwrap().ends_with(&told), "{id}");
    }
}

/// The same status is told in the same words everywhere.
#[test]
fn inline_problem_responses_match_the_shared_ones() {
    let shared = document()["components"]["responses"].as_object().unwrap();
    let mut by_status = std::collections::BTreeMap::new();
    for operation in operations() {
        for (status, response) in operation.value["responses"].as_object().unwrap() {
            if status.starts_with('2') {
                continue;
            }
            let name = response["$ref"].as_str().and_then(|it| it.rsplit('/').next());
            let response = name.map_or(response, |it| &shared[it]);
            let description = response["description"].as_str().unwrap();
            let output = by_status.entry(status).or_insert(description);
            assert_eq!(*output, description, "{status} of {}", operation.value["operationId"]);
        }
    }
}

#[test]
fn links_point_to_operations_and_their_parameters() {
    let all = operations();
    for operation in &all {
        for response in operation.value["responses"].as_object().unwrap().values() {
            for (_, link) in response["links"].as_object().into_iter().flatten() {
                let target = all.iter().find(|it| it.value["operationId"] == link["operationId"]);
                let target = target.unwrap_or_else(|| panic!("{link} leads nowhere"));
                for name in link["parameters"].as_object().unwrap().keys() {
                    assert!(target.path.contains(&format!("{{{name}}}")), "{link}");
                }
            }
        }
    }
}

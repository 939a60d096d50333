//! Compares the operations of the document with the route tables.

use std::collections::BTreeSet;

use scrip_core::policy::CallerRequirement;
use serde_json::{Value, json};

use crate::{
    deprecation,
    openapi::{document, tests::operations},
    proxy::call::received_call::METHODS,
    route::{AddressLimit, BodyKind, CallbackFormat, PROXY_PATH, Route},
    routes::{KEYLESS_ROUTES, ROUTES, callbacks::CALLBACKS},
};

/// Returns the operation id of a route: the name of its operation, with a number for a second
/// route.
fn operation_id(index: usize, row: &Route) -> String {
    let earlier_count = ROUTES[..index].iter().filter(|it| it.operation == row.operation).count();
    let name = row.operation.as_str();
    if earlier_count == 0 { name.to_owned() } else { format!("{name}_{}", earlier_count + 1) }
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
    for (index, row) in ROUTES.iter().enumerate() {
        routes.insert((row.path, row.method_name(), operation_id(index, row)));
    }
    for row in CALLBACKS {
        routes.insert((row.path, "POST", row.operation.as_str().to_owned()));
    }
    for row in KEYLESS_ROUTES {
        // These rows have no operation of the vault; the names are in the document.
        let id = operation("GET", row.path)["operationId"].as_str().unwrap_or_default();
        routes.insert((row.path, "GET", id.to_owned()));
    }
    for (method, _) in METHODS {
        let id = format!("invoke_proxy_{}", method.to_ascii_lowercase());
        routes.insert((PROXY_PATH, method, id));
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
        assert_eq!(item.as_object().unwrap().len(), methods, "{path} has an unknown member");
    }
}

/// The requirement of an operation: as a sentence, as roles, and as an extension attribute.
fn expected_requirements(requirement: CallerRequirement) -> (String, Vec<&'static str>, Value) {
    match requirement {
        CallerRequirement::AnyKey => {
            ("Accepts any valid API key.".to_owned(), Vec::new(), json!({"key": "any"}))
        }
        CallerRequirement::Kind(kind) => {
            let kind = kind.as_str();
            let text =
                format!("Requires the API key of a {kind} application; no permission is needed.");
            (text, Vec::new(), json!({"key": kind}))
        }
        CallerRequirement::Permission(permission) => {
            let name = permission.as_str();
            let kinds: Vec<_> = permission.kinds().iter().map(|it| it.as_str()).collect();
            let text = format!(
                "Requires the permission `{name}`, available to {} applications.",
                kinds.join(" and ")
            );
            (text, vec![name], json!({"permission": name, "application_types": kinds}))
        }
    }
}

#[test]
fn operation_requires_the_permission_of_its_route() {
    for row in ROUTES {
        let (operation, (text, roles, requirement)) =
            (operation_of_route(row), expected_requirements(row.requirement));
        let id = &operation["operationId"];
        assert_eq!(operation["x-scrip-needs"], requirement, "{id}");
        assert_eq!(operation["security"], json!([{"api_key": roles}]), "{id}");
        let description = operation["description"].as_str().unwrap();
        assert!(description.split("\n\n").any(|it| it == text), "{id} does not state: {text}");
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
        let is_required = row.body != BodyKind::OptionalJson;
        let documented = &operation["requestBody"]["required"];
        assert!(expected.is_empty() || *documented == is_required, "{id}");
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let honors_key = parameters
            .filter_map(|it| it["$ref"].as_str())
            .any(|it| it == "#/components/parameters/IdempotencyKey");
        assert_eq!(honors_key, row.body.is_idempotent(), "{id}");
    }
    for row in CALLBACKS {
        assert_eq!(content_types(operation("POST", row.path)), [row.format.content_type]);
    }
}

/// A call can have the status of any destination.
#[test]
fn documented_calls_honor_an_idempotency_key_and_have_any_status() {
    for (method, honors_key) in METHODS {
        let operation = operation(method, PROXY_PATH);
        let parameters = operation["parameters"].as_array().unwrap();
        let is_documented = parameters
            .iter()
            .any(|it| it["$ref"].as_str() == Some("#/components/parameters/IdempotencyKey"));
        assert_eq!(is_documented, honors_key, "{method}");
        let statuses: Vec<_> = operation["responses"].as_object().unwrap().keys().collect();
        assert_eq!(statuses, ["default"], "{method}");
    }
}

/// The problem statuses that follow from the row alone.
fn statuses_implied_by(row: &Route) -> BTreeSet<u16> {
    // A page of a foreign origin is denied on every route.
    let mut statuses = BTreeSet::from([400, 401, 403, 429, 500, 503]);
    match row.body {
        BodyKind::None => (),
        BodyKind::Ignored => statuses.extend([409, 422]),
        BodyKind::ReadOnlyJson => statuses.extend([408, 413, 415]),
        BodyKind::Json | BodyKind::OptionalJson | BodyKind::MergePatch => {
            statuses.extend([408, 409, 413, 415, 422]);
        }
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
        assert!(
            described.is_superset(&expected),
            "{id}: expected {expected:?}, documented {described:?}"
        );
        // Routes of other kinds cannot respond with these statuses.
        for status in [401, 403, 408, 410, 413, 415] {
            let is_documented = described.contains(&status);
            assert_eq!(is_documented, expected.contains(&status), "status {status} of {id}");
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
            assert_eq!(
                is_page,
                row.format == CallbackFormat::FORM,
                "status {status} of {}",
                row.path
            );
        }
    }
    for row in KEYLESS_ROUTES {
        let described = statuses(operation("GET", row.path));
        let is_counted = row.address_limit == AddressLimit::Counted;
        assert_eq!(described.contains(&429), is_counted, "429 of {}", row.path);
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
        let notice = format!("Deprecated since {}: {}.", deprecated.since, deprecated.replacement);
        assert!(operation["description"].as_str().unwrap().ends_with(&notice), "{id}");
    }
}

/// A status has the same description everywhere.
#[test]
fn inline_problem_responses_match_the_shared_ones() {
    let shared_responses = document()["components"]["responses"].as_object().unwrap();
    let mut descriptions = std::collections::BTreeMap::new();
    for operation in operations() {
        for (status, response) in operation.value["responses"].as_object().unwrap() {
            if status.starts_with('2') {
                continue;
            }
            let name = response["$ref"].as_str().and_then(|it| it.rsplit('/').next());
            let response = name.map_or(response, |it| &shared_responses[it]);
            let description = response["description"].as_str().unwrap();
            let first_description = descriptions.entry(status).or_insert(description);
            let id = &operation.value["operationId"];
            assert_eq!(*first_description, description, "{status} of {id}");
        }
    }
}

#[test]
fn links_point_to_operations_and_their_parameters() {
    let operations_of_document = operations();
    for operation in &operations_of_document {
        for response in operation.value["responses"].as_object().unwrap().values() {
            for (_, link) in response["links"].as_object().into_iter().flatten() {
                let target = operations_of_document
                    .iter()
                    .find(|it| it.value["operationId"] == link["operationId"]);
                let target = target.unwrap_or_else(|| panic!("{link} has no target"));
                for name in link["parameters"].as_object().unwrap().keys() {
                    let is_parameter = target.path.contains(&format!("{{{name}}}"));
                    assert!(is_parameter, "{name} of {link} is not a parameter of its target");
                }
            }
        }
    }
}

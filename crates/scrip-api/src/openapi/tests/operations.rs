//! Compares the operations of the document with the route tables.

use std::collections::BTreeSet;

use scrip_core::policy::Needs;
use serde_json::{Value, json};

use crate::{
    deprecation,
    openapi::{document, tests::operations},
    route::{BodyKind, Counted, Route, Sent},
    routes::{ROUTES, callbacks::OUTSIDE, keyless::KEYLESS},
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

fn of_row(row: &Route) -> &'static Value {
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
fn every_route_has_an_operation_and_every_operation_a_route() {
    let mut routes = BTreeSet::new();
    for (at, row) in ROUTES.iter().enumerate() {
        routes.insert((row.path, row.method_name(), operation_id(at, row)));
    }
    for row in OUTSIDE {
        routes.insert((row.path, "POST", row.operation.as_str().to_owned()));
    }
    for row in KEYLESS {
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
fn needed(needs: Needs) -> (String, Vec<&'static str>, Value) {
    match needs {
        Needs::Key => ("Any key will do.".to_owned(), Vec::new(), json!({"key": "any"})),
        Needs::Kind(kind) => {
            let kind = kind.as_str();
            let who = format!("Needs the key of a {kind} application, whatever its permissions.");
            (who, Vec::new(), json!({"key": kind}))
        }
        Needs::Permission(permission) => {
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
fn operation_needs_the_permission_of_its_route() {
    for row in ROUTES {
        let (operation, (who, roles, needs)) = (of_row(row), needed(row.needs));
        let id = &operation["operationId"];
        assert_eq!(operation["x-scrip-needs"], needs, "{id}");
        assert_eq!(operation["security"], json!([{"api_key": roles}]), "{id}");
        let description = operation["description"].as_str().unwrap();
        assert!(description.split("\n\n").any(|it| it == who), "{id} does not say: {who}");
    }
    let keyless = KEYLESS.iter().map(|it| operation("GET", it.path));
    for operation in keyless.chain(OUTSIDE.iter().map(|it| operation("POST", it.path))) {
        assert_eq!(operation["security"], json!([]), "{}", operation["operationId"]);
        assert!(operation.get("x-scrip-needs").is_none(), "{}", operation["operationId"]);
    }
}

#[test]
fn operation_reads_the_body_of_its_route() {
    for row in ROUTES {
        let (operation, wanted) = (of_row(row), Vec::from_iter(row.body.content_type()));
        let id = &operation["operationId"];
        assert_eq!(content_types(operation), wanted, "{id}");
        assert!(wanted.is_empty() || operation["requestBody"]["required"] == true, "{id}");
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let honours_a_key = parameters
            .filter_map(|it| it["$ref"].as_str())
            .any(|it| it == "#/components/parameters/IdempotencyKey");
        assert_eq!(honours_a_key, row.body.is_idempotent(), "{id}");
    }
    for row in OUTSIDE {
        assert_eq!(content_types(operation("POST", row.path)), [row.sent.content_type]);
    }
}

/// The statuses that a row leads to, whatever its operation does.
fn follow_from(row: &Route) -> BTreeSet<u16> {
    let mut statuses = BTreeSet::from([400, 401, 429, 500, 503]);
    match row.needs {
        Needs::Key => (),
        Needs::Kind(_) | Needs::Permission(_) => statuses.extend([403]),
    }
    match row.body {
        BodyKind::None => (),
        BodyKind::Unread => statuses.extend([409, 422]),
        BodyKind::Question => statuses.extend([408, 413, 415]),
        BodyKind::Json | BodyKind::MergePatch => statuses.extend([408, 409, 413, 415, 422]),
    }
    if deprecation::of(row.operation).is_some() {
        statuses.extend([410]);
    }
    if row.ids > 0 && deprecation::of(row.operation).is_none() {
        statuses.extend([404]);
    }
    statuses
}

#[test]
fn operation_has_the_problems_that_follow_from_its_route() {
    for row in ROUTES {
        let (id, described) = (&of_row(row)["operationId"], statuses(of_row(row)));
        let wanted = follow_from(row);
        assert!(described.is_superset(&wanted), "{id}: {wanted:?} but {described:?}");
        // What no route of another kind can answer.
        for status in [401, 403, 408, 410, 413, 415] {
            assert_eq!(described.contains(&status), wanted.contains(&status), "{id} {status}");
        }
    }
    for row in OUTSIDE {
        let (operation, mut wanted) =
            (operation("POST", row.path), BTreeSet::from([400, 408, 413, 415, 429, 500, 503]));
        if row.sent.needs_length {
            wanted.insert(411);
        }
        let described = statuses(operation);
        assert!(described.is_superset(&wanted), "{}: {described:?}", row.path);
        for (status, response) in operation["responses"].as_object().unwrap() {
            let is_page = response["content"].get("text/html").is_some();
            assert_eq!(is_page, row.sent == Sent::FORM, "{} {status}", row.path);
        }
    }
    for row in KEYLESS {
        let described = statuses(operation("GET", row.path));
        let counted = row.counted == Counted::ByAddress;
        assert_eq!(described.contains(&429), counted, "{}", row.path);
    }
}

#[test]
fn deprecated_operations_are_those_of_the_table() {
    for row in ROUTES {
        let (operation, deprecated) = (of_row(row), deprecation::of(row.operation));
        let id = &operation["operationId"];
        assert_eq!(operation.get("deprecated"), deprecated.map(|_| &json!(true)), "{id}");
        let Some(deprecated) = deprecated else { continue };
        let told = format!("Deprecated since {}: {}.", deprecated.since, deprecated.instead);
        assert!(operation["description"].as_str().unwrap().ends_with(&told), "{id}");
    }
}

/// The same status is told in the same words everywhere.
#[test]
fn problems_that_are_written_out_say_what_the_shared_ones_say() {
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
            let said = by_status.entry(status).or_insert(description);
            assert_eq!(*said, description, "{status} of {}", operation.value["operationId"]);
        }
    }
}

#[test]
fn links_lead_to_operations_and_name_their_parameters() {
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

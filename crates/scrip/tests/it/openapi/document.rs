//! The OpenAPI document, the page generated from it, and its agreement with the code.

use std::collections::BTreeSet;

use scrip_api::{openapi::document, routes::ROUTES};
use scrip_core::{
    Timestamp,
    policy::DisplayName,
    types::{Container, id::TokenId},
};
use serde_json::Value;

use crate::{
    harness::server::SERVER,
    openapi::contract::{check_schema, matches_pattern, resolve},
};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Returns the path, the method and the operation of every operation in the document.
fn operations() -> Vec<(&'static str, &'static str, &'static Value)> {
    let paths = document()["paths"].as_object().unwrap().iter();
    let of_path = |(path, item): (&'static String, &'static Value)| {
        let of_method = |method| Some((path.as_str(), method, item.get(method)?));
        METHODS.into_iter().filter_map(of_method)
    };
    paths.flat_map(of_path).collect()
}

#[test]
fn openapi_document_is_served_without_a_key() {
    let response = SERVER.request("GET", "/openapi.json").send();
    assert_eq!(&response.expect_status(200), document());
    assert_eq!(response.headers["content-type"], "application/json; charset=utf-8");
}

#[test]
fn every_route_is_documented() {
    for route in ROUTES.iter() {
        let operation = &document()["paths"][route.path][route.method_name().to_ascii_lowercase()];
        let id = operation["operationId"].as_str();
        let id = id
            .unwrap_or_else(|| panic!("{} {} is not documented", route.method_name(), route.path));
        // Further routes of an operation have a number after the operation id.
        let suffix = id.strip_prefix(route.operation.as_str()).expect(id);
        let number = suffix.strip_prefix('_').is_some_and(|it| it.parse::<usize>().is_ok());
        assert!(suffix.is_empty() || number, "{id}");
        let has_body = ["POST", "PUT", "PATCH"].contains(&route.method_name());
        assert!(has_body || operation.get("requestBody").is_none(), "{id} documents a body");
    }
    let ids: BTreeSet<_> = operations().iter().map(|it| it.2["operationId"].as_str()).collect();
    assert_eq!(ids.len(), operations().len(), "an operation id is used twice");
}

/// Every response of a deprecated operation documents the headers, whatever its status. No other
/// operation does.
#[test]
fn only_deprecated_operations_document_deprecation_headers() {
    let mut deprecated_operations = Vec::new();
    for (_, _, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap();
        let is_deprecated = operation["deprecated"] == true;
        for (status, response) in operation["responses"].as_object().unwrap() {
            let headers = &resolve(response)["headers"];
            for name in ["Deprecation", "Sunset", "Link"] {
                let has_header = headers.get(name).is_some();
                assert_eq!(
                    has_header, is_deprecated,
                    "operation {id}, status {status}, header {name}"
                );
            }
        }
        assert_eq!(operation["responses"].get("410").is_some(), is_deprecated, "{id}");
        deprecated_operations.extend(is_deprecated.then_some(id));
    }
    deprecated_operations.sort_unstable();
    let expected_operations = ["list_tokens_v1", "regenerate_application_key", "search_tokens_v1"];
    assert_eq!(deprecated_operations, expected_operations);
}

/// A read-only operation has no response to replay.
#[test]
fn read_only_operations_document_no_idempotency_key() {
    let accepts_idempotency_key = |path: &str| {
        let parameters = document()["paths"][path]["post"]["parameters"].as_array();
        let mut references = parameters.into_iter().flatten().map(|it| it["$ref"].as_str());
        references.any(|it| it == Some("#/components/parameters/IdempotencyKey"))
    };
    for path in ["/tokens", "/tokenize", "/token-intents", "/applications/{id}/keys"] {
        assert!(accepts_idempotency_key(path), "{path}");
    }
    for path in ["/detokenize", "/v2/tokens/search", "/tokens/search", "/sessions"] {
        assert!(!accepts_idempotency_key(path), "{path}");
    }
}

#[test]
fn path_parameters_are_declared() {
    for (path, method, operation) in operations() {
        let path_names = path.split('/').filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let declared = parameters.filter(|it| it["in"] == "path");
        let declared: Vec<_> = declared.map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(declared, path_names.collect::<Vec<_>>(), "{method} {path}");
    }
}

fn collect_references(value: &'static Value, references: &mut BTreeSet<&'static str>) {
    match value {
        Value::Object(object) => {
            references.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|it| collect_references(it, references));
        }
        Value::Array(items) => items.iter().for_each(|it| collect_references(it, references)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

#[test]
fn openapi_references_resolve_and_every_component_is_used() {
    let mut references = BTreeSet::new();
    collect_references(document(), &mut references);
    for reference in &references {
        assert!(document().pointer(&reference[1..]).is_some(), "{reference} leads nowhere");
    }
    for (kind, components) in document()["components"].as_object().unwrap() {
        for name in components.as_object().unwrap().keys() {
            let is_used = references.contains(format!("#/components/{kind}/{name}").as_str());
            assert!(is_used || kind == "securitySchemes", "{kind} {name} is not used");
        }
    }
}

/// The code that renders responses also generates the examples, with every attribute. A schema with
/// a missing or an additional attribute therefore fails here.
#[test]
fn examples_match_their_schema_and_show_every_attribute() {
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        let examples = schema["examples"].as_array().into_iter().flatten();
        let mut attributes = BTreeSet::new();
        for example in examples {
            assert_eq!(check_schema(schema, example), Ok(()), "{name}: {example}");
            attributes.extend(example.as_object().unwrap().keys());
        }
        let is_response = schema["additionalProperties"] == false;
        if is_response && !attributes.is_empty() {
            let properties = schema["properties"].as_object().unwrap().keys().collect();
            assert_eq!(attributes, properties, "{name}");
        }
    }
}

#[track_caller]
fn check_pattern(pattern: &Value, texts: &[&str], is_parsed: impl Fn(&str) -> bool) {
    let pattern = pattern.as_str().unwrap();
    for text in texts {
        let is_matched = matches_pattern(pattern, text);
        assert_eq!(is_matched, is_parsed(text), "pattern {pattern}, text {text:?}");
    }
}

fn repeat(letter: &str, times: usize) -> String {
    letter.repeat(times)
}

fn attribute(schema: &str, name: &str) -> &'static Value {
    &document()["components"]["schemas"][schema]["properties"][name]
}

#[test]
fn name_pattern_matches_the_parser() {
    let names = [
        "",
        " ",
        "a",
        " a ",
        "\na",
        "a\nb",
        "a b",
        "é",
        "a\u{200b}",
        "\u{200b}",
        "a\u{202e}b",
        "\u{2028}a\u{2028}",
        "a\u{2028}b",
        "\u{1f}a",
        "a\u{85}",
        "\u{a0}a",
        "\u{ad}",
        "\u{feff}x",
        &repeat("x", 200),
        &repeat("x", 201),
        &repeat("é", 200),
        "a\u{7f}b",
        "\u{3000}",
        "a\u{2060}",
    ];
    check_pattern(&attribute("TenantUpdate", "name")["pattern"], &names, |it| {
        DisplayName::parse(it).is_ok()
    });
}

#[test]
fn id_pattern_matches_the_parser() {
    let ids = [
        "",
        "ab",
        "abc",
        "a b c",
        "a#b",
        "a/b",
        "a\\b",
        "a+b",
        "a?b",
        "a[b",
        "a]b",
        "a|b",
        "a&b",
        "a=b",
        "a%b",
        "a<b",
        "a>b",
        "a{b",
        "a}b",
        "a^b",
        "a\u{0}b",
        "a\u{7f}b",
        "a\u{9f}b",
        "a-b_c.d:e",
        "ééé",
        &repeat("x", 400),
        &repeat("x", 401),
    ];
    let id = &document()["paths"]["/tokens/{id}"]["get"]["parameters"][0]["schema"]["pattern"];
    check_pattern(id, &ids, |it| TokenId::parse(it).is_ok());
    // The id of a new token may be an expression.
    let expressions = ["{{ data }}", "a{{b", "{% if a %}", "{ {"];
    let all_ids: Vec<_> = ids.iter().chain(&expressions).copied().collect();
    let is_parsed = |it: &str| TokenId::parse(it).is_ok() || it.contains("{{") || it.contains("{%");
    check_pattern(&attribute("NewToken", "id")["pattern"], &all_ids, is_parsed);
    // The pattern accepts these ids, but they are names of operations.
    for text in ["search", "Search", "searches"] {
        let matches_schema = check_schema(attribute("NewToken", "id"), &text.into()).is_ok();
        assert_eq!(matches_schema, TokenId::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn container_pattern_matches_the_parser() {
    let containers =
        ["/", "", "//", "/a/", "/a", "a/", "/A-b_1/c/", "/a//b/", "/é/", "/a b/", "/a/\n", "\n/a/"];
    let pattern = &attribute("Token", "containers")["items"]["pattern"];
    check_pattern(pattern, &containers, |it| Container::parse(it).is_ok());
}

/// The pattern checks the form only: it accepts more than valid dates, and never less.
#[test]
fn expiry_pattern_accepts_every_expiry_that_the_parser_accepts() {
    let expiry = attribute("NewToken", "expires_at")["pattern"].as_str().unwrap();
    for text in [
        "2030-08-27T02:23:57+00:00",
        "2030-08-27t02:23:57z",
        "2030-08-27T02:23:57.25-07:00",
        "2030-08-27T02:23:57",
        "2030-08-27 02:23",
        "8/27/2030",
        "08/27/2030",
        "8/27/2030 7:23:57 PM +02:00",
        "8/27/2030 7:23:57 PM",
        "08/27/2030 19:23:57",
        "08/27/2030 19:23:57 +02:00",
    ] {
        assert!(Timestamp::parse_expiry(text).is_ok() && matches_pattern(expiry, text), "{text}");
    }
    for text in
        ["", "tomorrow", "2030-08-27", "8/27/30", "8/27/2030 7:23 PM", "2030-08-27T02:23:57[UTC]"]
    {
        assert!(Timestamp::parse_expiry(text).is_err() && !matches_pattern(expiry, text), "{text}");
    }
}

#[test]
fn contract_checker_detects_invalid_responses() {
    let schema = &document()["components"]["schemas"]["ApiKey"];
    let valid_body = schema["examples"][0].clone();
    assert_eq!(check_schema(schema, &valid_body), Ok(()));
    let change_attribute = |name: &str, value: Option<Value>| {
        let mut changed_body = valid_body.clone();
        match value {
            Some(value) => {
                drop(changed_body.as_object_mut().unwrap().insert(name.to_owned(), value))
            }
            None => drop(changed_body.as_object_mut().unwrap().remove(name)),
        }
        changed_body
    };
    for (name, value) in [
        ("id", None),
        ("id", Some("7".into())),
        ("created_by", Some(Value::Null)),
        ("created_at", Some("2026-11-01T09:30:00Z".into())),
        ("secret", Some("4242".into())),
    ] {
        assert!(check_schema(schema, &change_attribute(name, value)).is_err(), "{name}");
    }
}

#[test]
fn docs_page_shows_every_operation_and_loads_nothing_external() {
    let page = SERVER.request("GET", "/docs").send();
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let policy = &page.headers["content-security-policy"];
    assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
    for (path, _, operation) in operations() {
        let id = operation["operationId"].as_str().unwrap();
        assert!(page.text.contains(&format!("<article id=\"{id}\">")), "{id}");
        assert!(page.text.contains(path), "{path}");
        for status in operation["responses"].as_object().unwrap().values() {
            let description = resolve(status)["description"].as_str().unwrap();
            let start = description.split(['`', '<', '&']).next().unwrap();
            assert!(page.text.contains(start), "{description}");
        }
    }
    for name in document()["components"]["schemas"].as_object().unwrap().keys() {
        assert!(page.text.contains(&format!("<article id=\"schema-{name}\">")), "{name}");
    }
    let style_response = SERVER.request("GET", "/docs/style.css").send();
    assert_eq!(style_response.status, 200);
    assert_eq!(style_response.headers["content-type"], "text/css; charset=utf-8");
    for forbidden_text in ["<script", "<img", "<iframe", "<form", " on", "@import", "url("] {
        let attribute = |it: &str| {
            it.contains(&format!("{forbidden_text}click="))
                || it.contains(&format!("{forbidden_text}load="))
        };
        let is_found = |it: &str| {
            if forbidden_text == " on" { attribute(it) } else { it.contains(forbidden_text) }
        };
        assert!(!is_found(&page.text) && !is_found(&style_response.text), "{forbidden_text}");
    }
    for reference in ["href=\"", "src=\""] {
        for target in page.text.split(reference).skip(1).map(|it| it.split('"').next().unwrap()) {
            let anchor = target.strip_prefix('#');
            let is_local = ["/docs/style.css", "/openapi.json"].contains(&target);
            let anchored = anchor.is_some_and(|it| page.text.contains(&format!("id=\"{it}\"")));
            assert!(is_local || anchored, "{target}");
        }
    }
}

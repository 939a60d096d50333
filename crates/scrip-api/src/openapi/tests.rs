//! Compares the OpenAPI document with the tables of the code.

mod operations;
mod readme;
mod samples;
mod source;
mod values;

use serde_json::{Value, json};

use crate::openapi::document;

pub(crate) const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// One operation of the document.
pub(crate) struct DocumentOperation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) value: &'static Value,
}

pub(crate) fn operations() -> Vec<DocumentOperation> {
    let paths = document()["paths"].as_object().unwrap().iter();
    let path_operations = |(path, item): (&'static String, &'static Value)| {
        METHODS.into_iter().filter_map(move |method| {
            Some(DocumentOperation { method, path, value: item.get(method)? })
        })
    };
    paths.flat_map(path_operations).collect()
}

/// Compares the examples of a schema with rendered responses.
#[track_caller]
pub(crate) fn assert_examples(schema: &str, expected: impl IntoIterator<Item = Value>) {
    let expected = expected.into_iter().collect::<Vec<_>>();
    assert!(!expected.is_empty());
    let documented = document()["components"]["schemas"][schema]["examples"].as_array().unwrap();
    let documented: Vec<_> = documented.iter().map(pretty).collect();
    assert_eq!(documented, expected.iter().map(pretty).collect::<Vec<_>>(), "examples of {schema}");
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Asserts that the keyword of these attributes has the value of the limit. Attributes are named by
/// their schema or operation: `NewToken.metadata`.
#[track_caller]
pub(crate) fn assert_limit(attributes: &[&str], keyword: &str, limit: impl Into<Value>) {
    let (schemas, limit) = (named_schemas(), limit.into());
    for attribute in attributes {
        let values: Vec<_> = schemas
            .iter()
            .filter(|(name, _)| name == attribute)
            .filter_map(|(_, schema)| schema.get(keyword))
            .collect();
        assert!(!values.is_empty(), "{attribute} has no {keyword}");
        assert!(values.iter().all(|it| **it == limit), "{keyword} of {attribute}: {values:?}");
    }
}

#[track_caller]
pub(crate) fn assert_limit_usize(attributes: &[&str], keyword: &str, limit: usize) {
    assert_limit(attributes, keyword, json!(limit));
}

/// Every schema of the document with its name: component or operation, then the path of attributes.
/// Branches and items have the name of their parent.
pub(crate) fn named_schemas() -> Vec<(String, &'static Value)> {
    let mut schemas = Vec::new();
    for (name, schema) in document()["components"]["schemas"].as_object().unwrap() {
        collect_schemas(name, schema, &mut schemas);
    }
    for operation in operations() {
        let id = operation.value["operationId"].as_str().unwrap();
        let parameters = operation.value["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|it| it.get("name").is_some()) {
            let name = parameter["name"].as_str().unwrap();
            collect_schemas(&format!("{id}.{name}"), &parameter["schema"], &mut schemas);
        }
        let body = operation.value.get("requestBody");
        let responses = operation.value["responses"].as_object().unwrap().values();
        for content in body.into_iter().chain(responses).filter_map(|it| it.get("content")) {
            for media in content.as_object().unwrap().values() {
                collect_schemas(id, &media["schema"], &mut schemas);
            }
        }
    }
    schemas
}

fn collect_schemas(
    name: &str,
    schema: &'static Value,
    schemas: &mut Vec<(String, &'static Value)>,
) {
    schemas.push((name.to_owned(), schema));
    for (attribute, inner) in schema["properties"].as_object().into_iter().flatten() {
        collect_schemas(&format!("{name}.{attribute}"), inner, schemas);
    }
    let branches = ["oneOf", "anyOf"].into_iter().filter_map(|it| schema[it].as_array()).flatten();
    let items = ["items", "additionalProperties"].into_iter().filter_map(|it| schema.get(it));
    for inner in branches.chain(items) {
        collect_schemas(name, inner, schemas);
    }
}

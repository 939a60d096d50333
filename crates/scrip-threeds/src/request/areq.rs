//! Builds an `AReq` from request, session and card.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::{
    fault::{ErrorCode, FaultList},
    format::ElementContext,
    json::WipedObject,
    message::{AReq, KnownExtensions, TransactionContext, read_message},
    request::{AReqInput, Violation, elements, format_rules::format_rule, violations},
};

/// Returns the message, or the violations of the rules. If no rule is violated, returns the invalid
/// elements of the message, each named by the request attribute it comes from, if there is one.
pub fn build_areq(input: &AReqInput<'_>) -> Result<AReq, Vec<Violation>> {
    let violations = violations(&input.context);
    if !violations.is_empty() {
        return Err(violations);
    }
    let mut object = WipedObject(Map::new());
    for element in elements::all_mappings() {
        if let Some(value) = (element.value)(input) {
            insert_element(&mut object.0, element.name, value);
        }
    }
    let transaction = TransactionContext {
        known_extensions: KnownExtensions::All,
        ..TransactionContext::for_version(input.context.version)
    };
    let mut faults = FaultList::default();
    let mut element_context =
        ElementContext { path: String::new(), transaction: &transaction, faults: &mut faults };
    let message = read_message::<AReq>(&object.0, &mut element_context);
    match (message, faults.is_empty()) {
        (Some(message), true) => Ok(message),
        _ => Err(faults
            .into_vec()
            .iter()
            .map(|(code, name)| violation_for_element(*code, name))
            .collect()),
    }
}

/// Inserts an element. A name with a dot, such as `homePhone.cc`, is an element of an object, which
/// is created if it does not exist yet.
fn insert_element(object: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            object.insert(name.to_owned(), value);
        }
        Some((parent, child)) => {
            let parent = object.entry(parent).or_insert_with(|| Value::Object(Map::new()));
            if let Some(parent) = parent.as_object_mut() {
                parent.insert(child.to_owned(), value);
            }
        }
    }
}

fn violation_for_element(code: ErrorCode, name: &str) -> Violation {
    let exact = elements::all_mappings().find(|it| it.name == name);
    // Some elements have no mapping of their own, because the whole object is mapped from one
    // attribute. They are reported with that attribute.
    let parent = name.split('.').next().unwrap_or_default();
    let element = exact.or_else(|| elements::all_mappings().find(|it| it.name == parent));
    let path = element.map(|it| it.path).filter(|it| !it.is_empty());
    let path = path.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed);
    let is_missing = code == ErrorCode::ElementMissing;
    let message = if is_missing { "is required" } else { format_rule(&path) };
    Violation { path, message }
}

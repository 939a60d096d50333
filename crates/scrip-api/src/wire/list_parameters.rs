//! The query parameters of lists. A list with a misspelled filter would return everything, and a
//! program that deletes what it lists would delete everything. So each other parameter is an error.

#[cfg(test)]
mod tests;

use scrip_core::{
    Error, FieldError,
    types::{AttributePath, Operation},
};

use crate::wire::{ParseError, query::QueryParameters};

/// The lists, and the parameters that each accepts. All parameters are included that a version of an
/// official client can send, even if they have no effect: `children` and `children_type` belong to an
/// earlier kind of tokens, and `start` does not select a page of a list by page number.
#[rustfmt::skip]
const LIST_PARAMETERS: &[(Operation, &[&str])] = &[
    (Operation::ListTokens, &["container", "type", "fingerprint", "metadata", "size", "start"]),
    (Operation::ListTokensV1, &["id", "ids", "container", "type", "fingerprint", "metadata", "page", "size", "start", "children", "children_type"]),
    (Operation::ListApplications, &["id", "type", "page", "size", "start"]),
    (Operation::ListApiKeys, &["id", "type", "page", "size"]),
    (Operation::ListPermissions, &["application_type"]),
    (Operation::ListProxies, &["id", "name", "page", "size", "start"]),
    (Operation::ListWebhooks, &["start", "size"]),
    (Operation::ListWebhookDeliveries, &["start", "size"]),
    (Operation::ListLogs, &["entity_type", "entity_id", "operation", "outcome", "actor_id", "api_key_id", "start_date", "end_date", "start", "page", "size"]),
    (Operation::ListClientKeys, &[]),
    (Operation::ListWebhookEventTypes, &[]),
    (Operation::ListLogEntityTypes, &[]),
    (Operation::ListConnectionFormulas, &[]),
];

/// The parameters that a list accepts; `None` for an operation that is not a list.
fn list_parameters(operation: Operation) -> Option<&'static [&'static str]> {
    LIST_PARAMETERS.iter().find(|(it, _)| *it == operation).map(|(_, names)| *names)
}

/// More errors would be larger than the query that causes them.
const ERRORS_MAX: usize = 10;

/// Checks the names of the query parameters of a list.
/// Errors: the list does not have one of the parameters.
pub(crate) fn check(operation: Operation, query: Option<&str>) -> Result<(), ParseError> {
    let Some(accepted_names) = list_parameters(operation) else { return Ok(()) };
    let is_accepted = |name: &str| {
        let is_metadata = name.starts_with("metadata.") || name.starts_with("metadata[");
        accepted_names.contains(if is_metadata { &"metadata" } else { &name })
    };
    let query = QueryParameters::parse(query);
    let errors: Vec<_> = query
        .names()
        .filter(|it| !is_accepted(it))
        .take(ERRORS_MAX)
        .map(|it| {
            let mut path = AttributePath::default();
            path.enter(it);
            FieldError { field: path.as_str().to_owned().into(), problem: describe(accepted_names) }
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(Error::Invalid(errors).into()) }
}

fn describe(accepted_names: &[&str]) -> std::borrow::Cow<'static, str> {
    match accepted_names {
        [] => "is not a parameter of this list, which has none".into(),
        names => format!("is not a parameter of this list, which has {}", names.join(", ")).into(),
    }
}

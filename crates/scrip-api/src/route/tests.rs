//! Compares the parameters of lists with the official clients, the routes and the document.

use std::collections::BTreeSet;

use super::*;
use crate::{openapi::document, routes::ROUTES};

/// A list call of an official client, and every query parameter that it can send.
struct ClientCall {
    client: &'static str,
    operation: Operation,
    parameters: &'static [&'static str],
}

const fn call(
    client: &'static str,
    operation: Operation,
    parameters: &'static [&'static str],
) -> ClientCall {
    ClientCall { client, operation, parameters }
}

/// The query parameters in the sources of the clients. A call that is not in the table sends none.
/// Node and Python: 5.7.0 and 7.4.0, which the tests of clients install. Generated clients of
/// earlier versions sent the same parameters, and those of the calls that no longer exist.
#[rustfmt::skip]
const CLIENT_CALLS: &[ClientCall] = &[
    call("Python tokens.list_v2", Operation::ListTokens, &["type", "container", "fingerprint", "metadata", "start", "size"]),
    call("Python applications.list", Operation::ListApplications, &["id", "type", "page", "start", "size"]),
    call("Python application_keys.list", Operation::ListApiKeys, &["id", "type"]),
    call("Python permissions.list", Operation::ListPermissions, &["application_type"]),
    call("Python proxies.list", Operation::ListProxies, &["id", "name", "page", "start", "size"]),
    call("Python logs.list", Operation::ListLogs, &["entity_type", "entity_id", "start_date", "end_date", "page", "start", "size"]),
    call("Python webhooks.list", Operation::ListWebhooks, &[]),
    call("Python webhooks.events.list", Operation::ListWebhookEventTypes, &[]),
    call("Python keys.list", Operation::ListClientKeys, &[]),
    call("Python logs.get_entity_types", Operation::ListLogEntityTypes, &[]),
    call("Node tokens.listV2", Operation::ListTokens, &["type", "container", "fingerprint", "metadata", "start", "size"]),
    call("Node applications.list", Operation::ListApplications, &["id", "type", "page", "start", "size"]),
    call("Node applicationKeys.list", Operation::ListApiKeys, &["id", "type"]),
    call("Node permissions.list", Operation::ListPermissions, &["application_type"]),
    call("Node proxies.list", Operation::ListProxies, &["id", "name", "page", "start", "size"]),
    call("Node logs.list", Operation::ListLogs, &["entity_type", "entity_id", "start_date", "end_date", "page", "start", "size"]),
    call("Python before 7 tokens.list", Operation::ListTokensV1, &["id", "metadata", "page", "start", "size"]),
    call("Node before 5 tokens.list", Operation::ListTokensV1, &["id", "metadata", "page", "start", "size"]),
    call("basis-theory-js tokens.list", Operation::ListTokensV1, &["id", "metadata", "page", "start", "size"]),
    call("basis-theory-js logs.list", Operation::ListLogs, &["entity_type", "entity_id", "start_date", "end_date", "page", "start", "size"]),
    call("basis-theory-js proxies.list", Operation::ListProxies, &["id", "name", "page", "start", "size"]),
    call("basistheory 1 tokens.get_tokens", Operation::ListTokensV1, &["id", "type", "children", "children_type", "metadata", "page", "size"]),
    call("basistheory 3 tokens.list_v2", Operation::ListTokens, &["start", "size"]),
];

#[test]
fn every_parameter_of_an_official_client_is_accepted() {
    for ClientCall { client, operation, parameters } in CLIENT_CALLS {
        let accepted = list_parameters(*operation).unwrap();
        for name in *parameters {
            assert!(accepted.contains(name), "{name} of {client}");
        }
    }
}

#[test]
fn every_list_route_has_its_documented_parameters() {
    for row in ROUTES {
        let name = row.operation.as_str();
        let accepted = list_parameters(row.operation);
        assert_eq!(accepted.is_some(), name.starts_with("list_"), "{name}");
        let operation = &document()["paths"][row.path][row.method_name().to_ascii_lowercase()];
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let documented: BTreeSet<_> = parameters
            .filter(|it| it["in"] == "query")
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        let Some(accepted) = accepted else { continue };
        assert_eq!(documented, accepted.iter().copied().collect(), "{name}");
    }
}

#[track_caller]
fn check_query(operation: Operation, query: &str, unknown_names: &[&str]) {
    let Err(ParseError::Failed(Error::Invalid(errors))) =
        check_list_parameters(operation, Some(query))
    else {
        assert_eq!(unknown_names, [""; 0], "{query}");
        return;
    };
    assert_eq!(errors.iter().map(|it| it.field.as_ref()).collect::<Vec<_>>(), unknown_names);
}

#[test]
fn unknown_parameters_of_a_list_are_named() {
    let tokens = Operation::ListTokensV1;
    check_query(tokens, "", &[]);
    check_query(tokens, "type=card&metadata.a=b&metadata%5Bc%5D=d&metadata=%7B%7D", &[]);
    check_query(tokens, "typ=card&metadat.a=b&type=card&Type=card", &["typ", "*", "Type"]);
    // A name that could be a value is not repeated.
    check_query(tokens, "4242424242424242=x", &["*"]);
    check_query(Operation::ListApplications, "metadata.a=b", &["*"]);
    check_query(Operation::ListTokens, "id=a&ids=b&page=1", &["id", "ids", "page"]);
    check_query(Operation::ListClientKeys, "size=1", &["size"]);
    check_query(Operation::GetToken, "anything=x", &[]);
}

//! The message of a record: a sentence from its operation and its outcome, never with a value.

use crate::types::Operation;

/// Every outcome of a record, and its phrase in the message.
pub const OUTCOMES: &[(&str, &str)] = &[
    ("created", "was created"),
    ("updated", "was updated"),
    ("deleted", "was deleted"),
    ("expired", "was deleted because it expired"),
    ("converted", "was converted to a token"),
    ("deduplicated", "already existed"),
    ("done", "was changed"),
    ("read", "was read"),
    ("redacted", "was shown without its data"),
    ("masked", "was shown masked"),
    ("revealed", "was shown in clear"),
    ("empty", "was searched for; nothing matched"),
    ("replayed", "was shown again in a replayed response"),
    ("forbidden", "was denied: no permission"),
    ("not_found", "was requested but does not exist"),
    ("conflict", "was not changed: another request conflicts"),
    ("unprocessable", "could not be processed"),
    ("gone", "was rejected: this is no longer offered"),
    ("invalid", "was rejected: it is invalid"),
    ("used", "was opened for a 3-D Secure session"),
    ("authentication_requested", "is about to be authenticated"),
    ("successful", "was authenticated"),
    ("attempted", "was authenticated as far as its issuer supports it"),
    ("failed", "was not authenticated"),
    ("unavailable", "could not be authenticated"),
    ("rejected", "was rejected by its issuer"),
    ("informational", "was reported to its issuer"),
    ("challenge", "is being challenged"),
    ("decoupled_challenge", "is being challenged by its issuer"),
    ("number_guesses_day", "exhausted the guessing budget of a group of numbers for 24 hours"),
    ("number_guesses_quarter", "exhausted the guessing budget of a group of numbers for 90 days"),
    ("number_guesses_application", "exhausted its guessing budget for 24 hours"),
    ("search_misses_digits", "exhausted the search budget of a group of numbers for 24 hours"),
    ("search_misses_text", "exhausted its search budget for 24 hours"),
    (
        "rejected_evaluations",
        "exhausted the budget of rejected evaluations of a token for 24 hours",
    ),
    ("budget_exhausted", "was rejected: a budget is exhausted"),
    ("service_failed", "was not served: another service failed"),
    ("started", "was started"),
    ("completed", "was completed"),
    ("aborted", "ended with an error"),
    ("refused", "was refused: the user has no right to change something"),
    ("unauthenticated", "was denied: no valid API key"),
    ("used_in_call", "is used in a proxied call"),
    ("used_in_call_with_cvc", "is used in a proxied call, with its CVC"),
    ("used_in_rejected_call", "was evaluated for a proxied call that was rejected and not sent"),
    (
        "used_in_rejected_call_with_cvc",
        "was evaluated with its CVC for a proxied call that was rejected and not sent",
    ),
    ("collected_in_call", "was created by a transform of a proxied call"),
    ("call_started", "is about to be sent to the destination"),
    ("answered", "was answered by the destination"),
    ("maybe_sent", "may have been sent; the destination did not answer"),
    ("not_sent", "was not sent to the destination"),
];

/// Outcomes of the request itself. The entity may not exist, or there may be none.
const REQUEST_OUTCOMES: &[&str] = &[
    "forbidden",
    "unprocessable",
    "gone",
    "invalid",
    "budget_exhausted",
    "service_failed",
    "unauthenticated",
    "call_started",
    "answered",
    "maybe_sent",
    "not_sent",
];

const STORED_ANSWER: &str = "stored answer of a proxied call";

/// The outcome with this name in [`OUTCOMES`].
pub fn parse_outcome(text: &str) -> Option<&'static str> {
    OUTCOMES.iter().map(|(it, _)| *it).find(|it| *it == text)
}

/// The message, such as `Create token: the token was created.`, with the detail of the record;
/// `None` for an unknown operation or outcome.
pub fn message(operation: &str, outcome: &str, detail: Option<&str>) -> Option<String> {
    let operation = Operation::parse(operation)?;
    let (_, phrase) = OUTCOMES.iter().find(|(it, _)| *it == outcome)?;
    let entity = operation.entity_type()?.name();
    let words = operation.as_str().replace('_', " ");
    let (first, remaining) = words.split_at_checked(1)?;
    let subject = match REQUEST_OUTCOMES.contains(&outcome) {
        true => "request".to_owned(),
        false if entity.starts_with("API") => entity.to_owned(),
        false => entity.to_lowercase(),
    };
    let (subject, phrase) = match (operation, outcome) {
        (_, "done") => (subject, change_phrase(&words).unwrap_or(phrase)),
        // The entity is the proxy, but the response shows the answer of a destination.
        (Operation::InvokeProxy, "replayed") => (STORED_ANSWER.to_owned(), "was sent again"),
        _ => (subject, *phrase),
    };
    let detail = detail.map(|it| format!(" ({it})")).unwrap_or_default();
    Some(format!("{}{remaining}: the {subject} {phrase}{detail}.", first.to_uppercase()))
}

/// The phrase for a change that the name of the operation describes.
fn change_phrase(operation: &str) -> Option<&'static str> {
    match operation.split(' ').next()? {
        "delete" if operation != "delete proxy" && operation.starts_with("delete proxy ") => None,
        "create" => Some("was created"),
        "import" => Some("was imported"),
        "delete" => Some("was deleted"),
        "restore" if operation == "restore tenant" => Some("was restored"),
        "authorize" => Some("was authorized"),
        "revoke" => Some("was revoked"),
        "test" => Some("gets a test event"),
        "replay" => Some("gets events again"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(operation: &str, outcome: &str, expected: Option<&str>) {
        let message = message(operation, outcome, None);
        assert_eq!(message.as_deref(), expected, "message of {operation}, {outcome}");
    }

    #[test]
    fn audit_message_states_operation_and_outcome() {
        check("create_token", "created", Some("Create token: the token was created."));
        check("get_token", "masked", Some("Get token: the token was shown masked."));
        check("create_api_key", "done", Some("Create api key: the API key was created."));
        let removal = "Delete proxy client certificate: the proxy was changed.";
        check("delete_proxy_client_certificate", "done", Some(removal));
        check("delete_proxy", "done", Some("Delete proxy: the proxy was deleted."));
        check("delete_tenant", "done", Some("Delete tenant: the tenant was deleted."));
        check("set_tenant_quotas", "done", Some("Set tenant quotas: the tenant was changed."));
        let rejection = "Search tokens: the request was rejected: it is invalid.";
        check("search_tokens", "invalid", Some(rejection));
        check("get_token", "forbidden", Some("Get token: the request was denied: no permission."));
        let replay = "Invoke proxy: the stored answer of a proxied call was sent again.";
        check("invoke_proxy", "replayed", Some(replay));
        let replay = "Create token: the token was shown again in a replayed response.";
        check("create_token", "replayed", Some(replay));
        let replay = "Replay webhook deliveries: the webhook gets events again.";
        check("replay_webhook_deliveries", "done", Some(replay));
        check("test_webhook", "done", Some("Test webhook: the webhook gets a test event."));
        check("create_token", "4242", None);
        check("4242", "created", None);
        check("list_permissions", "read", None);
        let detail = Some("POST api.example.com");
        let expected =
            "Use token: the token is used in a proxied call (POST api.example.com).".to_owned();
        assert_eq!(message("use_token", "used_in_call", detail), Some(expected));
    }

    #[test]
    fn outcome_names_are_unique() {
        let mut names: Vec<_> = OUTCOMES.iter().map(|it| it.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OUTCOMES.len());
    }
}

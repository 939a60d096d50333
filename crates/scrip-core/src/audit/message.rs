//! What a record says, as a sentence: made of its operation and its outcome, never of a value.

use crate::audit::Operation;

/// Every outcome that a record has, and how it is told.
pub const OUTCOMES: &[(&str, &str)] = &[
    ("created", "was created"),
    ("updated", "was updated"),
    ("deleted", "was deleted"),
    ("expired", "was removed, because its time was over"),
    ("converted", "became a token"),
    ("deduplicated", "was there already"),
    ("done", "was changed"),
    ("read", "was read"),
    ("redacted", "was shown without its data"),
    ("masked", "was shown masked"),
    ("revealed", "was shown in clear"),
    ("empty", "was looked for, and there was none"),
    ("replayed", "was shown again, in a remembered answer"),
    ("forbidden", "was refused: no right to it"),
    ("not_found", "was asked for, and is not there"),
    ("conflict", "was not changed: something else held it"),
    ("unprocessable", "could not be processed"),
    ("gone", "was refused: this is not offered any more"),
    ("invalid", "was refused: the request was not valid"),
    ("used", "was opened for a 3-D Secure session"),
    ("asked", "is about to be authenticated"),
    ("successful", "was authenticated"),
    ("attempted", "was authenticated, as far as its issuer can"),
    ("failed", "was not authenticated"),
    ("unavailable", "could not be authenticated"),
    ("rejected", "was rejected by its issuer"),
    ("informational", "was made known to its issuer"),
    ("challenge", "is being challenged"),
    ("decoupled_challenge", "is being challenged by its issuer"),
    ("number_guesses_day", "spent the guessing budget of a group of numbers for 24 hours"),
    ("number_guesses_quarter", "spent the guessing budget of a group of numbers for 90 days"),
    ("number_guesses_application", "spent its guessing budget for 24 hours"),
    ("search_misses_digits", "spent the search budget of a group of numbers for 24 hours"),
    ("search_misses_text", "spent its search budget for 24 hours"),
    ("budget_spent", "was refused: a search budget is spent"),
    ("service_failed", "was not served: somebody else failed"),
    ("started", "was started"),
    ("completed", "was completed"),
    ("aborted", "ended with an error"),
    ("unauthenticated", "was refused: no valid API key"),
];

#[must_use]
pub fn parse_outcome(text: &str) -> Option<&'static str> {
    OUTCOMES.iter().map(|(it, _)| *it).find(|it| *it == text)
}

/// `Create token: the token was created.` Nothing for a record that is not one of ours.
#[must_use]
pub fn message(operation: &str, outcome: &str) -> Option<String> {
    let operation = Operation::parse(operation)?;
    let (_, phrase) = OUTCOMES.iter().find(|(it, _)| *it == outcome)?;
    let what = operation.entity_type()?.name();
    let words = operation.as_str().replace('_', " ");
    let (first, rest) = words.split_at_checked(1)?;
    let what = if what.starts_with("API") { what.to_owned() } else { what.to_lowercase() };
    Some(format!("{}{rest}: the {what} {phrase}.", first.to_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(operation: &str, outcome: &str, expected: Option<&str>) {
        assert_eq!(message(operation, outcome).as_deref(), expected);
    }

    #[test]
    fn audit_message_states_operation_and_outcome() {
        check("create_token", "created", Some("Create token: the token was created."));
        check("get_token", "masked", Some("Get token: the token was shown masked."));
        check("create_api_key", "done", Some("Create api key: the API key was changed."));
        check("create_token", "4242", None);
        check("4242", "created", None);
        check("list_permissions", "read", None);
    }

    #[test]
    fn outcome_names_are_unique() {
        let mut names: Vec<_> = OUTCOMES.iter().map(|it| it.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OUTCOMES.len());
    }
}

//! The inputs of an expression that a merge patch writes.
//!
//! A merge patch of an object of free form (type `token`) never covers it: whether it replaces all members
//! would tell the caller their names. A patch that is no object replaces the value, whatever it was.
//! So the result depends on the patch and on the inputs, and not on the data. Each input is looked up in
//! the patch, so the work is linear in the length of the expression, whatever the size of the data.

use serde_json::Value;

use crate::card::TokenType;

/// The share of the inputs of an expression that a patch writes. Their values do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchCoverage {
    /// No input.
    Absent,
    /// Some inputs, and not all hidden ones.
    Partial,
    /// All hidden inputs.
    Complete,
}

impl PatchCoverage {
    /// Whether an output over the inputs is withheld after the patch.
    pub(super) fn withholds(self, was_withheld: bool) -> bool {
        match self {
            Self::Absent => was_withheld,
            Self::Partial => true,
            Self::Complete => false,
        }
    }
}

/// Compares a patch with the inputs of an expression. Inputs are paths into the data; the empty path is
/// the whole data.
pub(crate) fn patch_coverage(
    token_type: TokenType,
    inputs: &[Vec<&str>],
    patch: &Value,
    writes_metadata: bool,
) -> PatchCoverage {
    let mut written = WrittenInputs::default();
    inputs.iter().for_each(|it| written.add_input(token_type, it, patch));
    written.coverage(writes_metadata)
}

/// Which kinds of inputs a patch writes.
#[derive(Default)]
struct WrittenInputs {
    /// A part of the hidden inputs is written.
    has_written_hidden: bool,
    /// A part of the hidden inputs is not written.
    has_unwritten_hidden: bool,
    /// An input that every mask shows is written.
    has_written_shown: bool,
}

impl WrittenInputs {
    fn add_input(&mut self, token_type: TokenType, input: &[&str], patch: &Value) {
        let shown_names = token_type.unmasked_properties();
        match (input.first(), token_type.secret_property()) {
            (Some(name), _) if shown_names.contains(name) => self.add_shown(input, patch),
            (None, Some(secret)) => {
                self.add_hidden(&[secret], patch);
                shown_names.iter().for_each(|it| self.add_shown(&[it], patch));
            }
            (Some(_), _) | (None, None) => self.add_hidden(input, patch),
        }
    }

    fn add_shown(&mut self, input: &[&str], patch: &Value) {
        self.has_written_shown |= find_written_share(patch, input) != WrittenShare::Nothing;
    }

    fn add_hidden(&mut self, input: &[&str], patch: &Value) {
        let share = find_written_share(patch, input);
        self.has_written_hidden |= share != WrittenShare::Nothing;
        self.has_unwritten_hidden |= share != WrittenShare::Everything;
    }

    fn coverage(&self, writes_metadata: bool) -> PatchCoverage {
        let writes_shown = self.has_written_shown || writes_metadata;
        match (self.has_written_hidden, self.has_unwritten_hidden) {
            (true, false) => PatchCoverage::Complete,
            (true, true) => PatchCoverage::Partial,
            (false, true) if writes_shown => PatchCoverage::Partial,
            // Without a hidden input, the caller knows all of them.
            (false, false) if writes_shown => PatchCoverage::Complete,
            (false, _) => PatchCoverage::Absent,
        }
    }
}

/// The share of one input that a patch writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrittenShare {
    Nothing,
    /// The patch has members for an object at this path. Which others remain is hidden.
    Members,
    Everything,
}

fn find_written_share(patch: &Value, input: &[&str]) -> WrittenShare {
    if is_empty_object(patch) {
        return WrittenShare::Nothing;
    }
    let mut value = patch;
    for step in input {
        let Value::Object(object) = value else { return WrittenShare::Everything };
        let Some(inner) = object.get(*step) else { return WrittenShare::Nothing };
        value = inner;
    }
    if value.is_object() { WrittenShare::Members } else { WrittenShare::Everything }
}

/// Whether a merge patch replaces the whole data, as far as the caller can know it.
pub(crate) fn replaces_all_data(token_type: TokenType, before: &Value, patch: &Value) -> bool {
    match (before, patch) {
        (Value::Object(before), Value::Object(patch)) if token_type != TokenType::Token => {
            !patch.is_empty() && before.keys().all(|it| patch.contains_key(it))
        }
        (_, patch) => !patch.is_object(),
    }
}

pub(super) fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(inputs: &[&[&str]], patch: Value, expected: PatchCoverage) {
        let inputs: Vec<Vec<&str>> = inputs.iter().map(|it| it.to_vec()).collect();
        let coverage = patch_coverage(TokenType::Token, &inputs, &patch, false);
        assert_eq!(coverage, expected, "coverage of {patch}");
    }

    #[test]
    fn patch_coverage_distinguishes_no_some_and_all_hidden_inputs() {
        let whole_data: &[&str] = &[];
        let (pin, name): (&[&str], &[&str]) = (&["pin"], &["name"]);
        let (first, last): (&[&str], &[&str]) = (&["name", "first"], &["name", "last"]);
        let both_names = || json!({"name": {"first": 1, "last": 2}});
        check(&[whole_data], json!({"pin": "1"}), PatchCoverage::Partial);
        check(&[whole_data], json!({"pin": null}), PatchCoverage::Partial);
        check(&[whole_data], json!("text"), PatchCoverage::Complete);
        check(&[whole_data], json!(null), PatchCoverage::Complete);
        check(&[whole_data], json!({}), PatchCoverage::Absent);
        check(&[name], both_names(), PatchCoverage::Partial);
        check(&[name], json!({"name": {}}), PatchCoverage::Partial);
        check(&[name], json!({"name": "x"}), PatchCoverage::Complete);
        check(&[first, last], both_names(), PatchCoverage::Complete);
        check(&[first, last], json!({"name": ["x"]}), PatchCoverage::Complete);
        check(&[last], json!({"name": {"first": 1}}), PatchCoverage::Absent);
        check(&[pin], json!({"pin": 1}), PatchCoverage::Complete);
        check(&[pin], json!({"name": 1}), PatchCoverage::Absent);
        check(&[pin, last], json!({"pin": 1}), PatchCoverage::Partial);
        check(&[], json!({"pin": 1}), PatchCoverage::Absent);
    }

    #[test]
    fn patch_of_a_shown_property_covers_a_part_of_an_expression_over_the_number() {
        let inputs = [vec!["number"], vec!["expiration_year"]];
        let coverage_of =
            |inputs: &[_], patch| patch_coverage(TokenType::Card, inputs, &patch, false);
        let year = || json!({"expiration_year": 2031});
        assert_eq!(coverage_of(&inputs, year()), PatchCoverage::Partial);
        assert_eq!(coverage_of(&inputs, json!({"number": "1"})), PatchCoverage::Complete);
        assert_eq!(coverage_of(&inputs[..1], year()), PatchCoverage::Absent);
        assert_eq!(coverage_of(&inputs[1..], year()), PatchCoverage::Complete);
        assert_eq!(coverage_of(&[vec![]], year()), PatchCoverage::Partial);
        assert_eq!(coverage_of(&[vec![]], json!({"number": "1"})), PatchCoverage::Complete);
    }

    #[test]
    fn object_patch_replaces_all_data_only_of_a_type_with_known_names() {
        let replaces = |token_type, before: Value, patch: Value| {
            replaces_all_data(token_type, &before, &patch)
        };
        let pin = || json!({"pin": "1"});
        assert!(!replaces(TokenType::Token, pin(), pin()));
        assert!(!replaces(TokenType::Token, json!({}), pin()));
        assert!(!replaces(TokenType::Token, json!("text"), pin()));
        assert!(replaces(TokenType::Token, pin(), json!("text")));
        let card = || json!({"number": "4242", "expiration_year": 2030});
        assert!(replaces(TokenType::Card, card(), card()));
        assert!(!replaces(TokenType::Card, card(), json!({"number": "4242"})));
        assert!(!replaces(TokenType::Card, card(), json!({})));
        assert!(replaces(TokenType::CardNumber, json!("4242"), json!("4111")));
    }
}

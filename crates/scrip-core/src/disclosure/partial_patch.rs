//! Partial patches of hidden data. A patch of some inputs of an expression could confirm guesses,
//! one input at a time: the fingerprint of the patched object equals the fingerprint of a copy
//! exactly when the guess is right. An input that is not hidden, such as the routing number or
//! metadata, can carry a guess too: next to hidden digits, it decides which numbers the text has.
//! Therefore a digest over hidden inputs that the patch does not write, and over any input that it
//! writes, is withheld, until the data is replaced completely or changed with a reveal right.
//!
//! A merge patch of an object of free form (type `token`) never covers it: whether it replaces all members
//! would tell the caller their names. A patch that is no object replaces the value, whatever it was.
//!
//! So no text of hidden and chosen characters is evaluated, and the numbers to count depend only on
//! what the caller submitted ([`KnownInputs`]).

use serde_json::Value;

use crate::{
    card::TokenType,
    expression::compilation::compile,
    token::{TokenBody, WithheldDigests},
    types::{DisclosureRule, DisclosureRules, Plaintext},
    work_meter::WorkMeter,
};

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

/// A patch by a caller without a reveal right.
pub(crate) struct PartialPatch<'a> {
    pub(crate) token_type: TokenType,
    /// The data before the patch.
    pub(crate) before: &'a Value,
    /// The patch of the data; an empty object if there is none.
    pub(crate) patch: &'a Value,
    pub(crate) writes_metadata: bool,
    pub(crate) rules: DisclosureRules,
    pub(crate) work: &'a WorkMeter,
}

/// What a caller without a reveal right knows of a patched token. Only this is counted: a counter of
/// anything else would depend on hidden data.
#[derive(Debug)]
pub(crate) struct KnownInputs {
    /// The data that the patch writes, and what every mask shows. Neither values nor names of other
    /// members are in it.
    pub(crate) data: Plaintext,
    /// Whether the fingerprint has no other inputs.
    pub(crate) covers_fingerprint: bool,
    /// The search indexes without other inputs.
    pub(crate) covered_indexes: Vec<String>,
}

impl PartialPatch<'_> {
    /// Sets the withheld digests of the body, which has the data and the expressions after the patch.
    pub(crate) fn withhold(&self, body: &mut TokenBody) -> KnownInputs {
        let is_rule_on = self.rules.applies(DisclosureRule::PartialPatch);
        let is_covered = |it: &str| !is_rule_on || self.coverage(it) == PatchCoverage::Complete;
        let sources = body.search_indexes.as_deref();
        let sources = sources.unwrap_or_else(|| self.token_type.default_indexes());
        let expression = body.fingerprint_expression.as_deref();
        let expression =
            expression.unwrap_or_else(|| self.token_type.default_fingerprint_expression());
        let known = KnownInputs {
            data: self.known_data(&body.data),
            covers_fingerprint: is_covered(expression),
            covered_indexes: sources.iter().filter(|it| is_covered(it)).cloned().collect(),
        };
        if is_rule_on {
            let fingerprint = self.is_withheld(expression, body.withheld.fingerprint);
            let is_index_withheld =
                |it: &&String| self.is_withheld(it, body.withheld.indexes.contains(*it));
            let indexes = sources.iter().filter(is_index_withheld).cloned().collect();
            body.withheld = WithheldDigests { fingerprint, indexes };
        }
        known
    }

    fn is_withheld(&self, source: &str, was_withheld: bool) -> bool {
        match self.coverage(source) {
            PatchCoverage::Absent => was_withheld,
            PatchCoverage::Partial => true,
            PatchCoverage::Complete => false,
        }
    }

    fn coverage(&self, source: &str) -> PatchCoverage {
        // The evaluation rejects an expression that cannot be parsed.
        let Ok(expression) = compile(self.work, source) else { return PatchCoverage::Partial };
        let inputs = expression.data_inputs();
        let writes_metadata = self.writes_metadata && expression.reads_metadata();
        InputLeaves::find(self.token_type, &inputs, self.before, self.patch)
            .coverage(writes_metadata)
    }

    fn known_data(&self, data: &Plaintext) -> Plaintext {
        let data = data.expose();
        let mut known = copy_written(self.patch, data);
        if let Some(members) = known.as_object_mut() {
            let shown = self.token_type.unmasked_properties().iter();
            let shown = shown.filter_map(|it| Some(((*it).to_owned(), data.get(it)?.clone())));
            members.extend(shown);
        }
        Plaintext::new(known)
    }
}

/// The members that the patch names, with their values in the patched data. Other members are missing:
/// their names are hidden too, and they may be numbers.
fn copy_written(patch: &Value, data: &Value) -> Value {
    let Value::Object(members) = patch else { return data.clone() };
    let copy_member = |(name, patch): (&String, &Value)| {
        (name.clone(), copy_written(patch, data.get(name).unwrap_or(&Value::Null)))
    };
    Value::Object(members.iter().map(copy_member).collect())
}

/// Compares the leaves of the data and of the patch with the inputs of an expression. Inputs are
/// paths into the data; the empty path is the whole data.
pub(crate) fn patch_coverage(
    token_type: TokenType,
    inputs: &[Vec<&str>],
    before: &Value,
    patch: &Value,
) -> PatchCoverage {
    InputLeaves::find(token_type, inputs, before, patch).coverage(false)
}

/// Which kinds of leaves the inputs of an expression have.
#[derive(Default)]
struct InputLeaves {
    /// A hidden leaf that the patch writes.
    has_written_hidden: bool,
    /// A hidden leaf that the patch does not write.
    has_unwritten_hidden: bool,
    /// A leaf that every mask shows, and that the patch writes.
    has_written_shown: bool,
}

impl InputLeaves {
    fn find(token_type: TokenType, inputs: &[Vec<&str>], before: &Value, patch: &Value) -> Self {
        let is_read = |leaf: &[&str]| {
            inputs.iter().any(|input| {
                input.iter().zip(leaf).all(|(input_step, leaf_step)| input_step == leaf_step)
            })
        };
        let mut leaves = Self::default();
        let mut record_leaf = |leaf: &[&str], is_written: bool| {
            if is_read(leaf) {
                let is_hidden = is_hidden_leaf(token_type, leaf);
                leaves.has_written_hidden |= is_hidden && is_written;
                leaves.has_unwritten_hidden |= is_hidden && !is_written;
                leaves.has_written_shown |= !is_hidden && is_written;
            }
        };
        visit_leaves(before, &mut Vec::new(), &mut |leaf| {
            record_leaf(leaf, replaces_leaf(patch, leaf));
        });
        if !is_empty_object(patch) {
            visit_leaves(patch, &mut Vec::new(), &mut |leaf| record_leaf(leaf, true));
            // Which members of an object of free form remain is hidden, and so is whether there were any.
            let is_merged = |it: &Vec<&str>| merges_object(patch, it);
            if token_type == TokenType::Token && inputs.iter().any(is_merged) {
                leaves.has_written_hidden = true;
                leaves.has_unwritten_hidden = true;
            }
        }
        leaves
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

fn is_hidden_leaf(token_type: TokenType, leaf: &[&str]) -> bool {
    leaf.first().is_none_or(|it| !token_type.unmasked_properties().contains(it))
}

/// Whether a merge patch replaces every leaf of the data.
pub(crate) fn replaces_all_data(before: &Value, patch: &Value) -> bool {
    let mut replaces_all = !is_empty_object(patch);
    visit_leaves(before, &mut Vec::new(), &mut |leaf| replaces_all &= replaces_leaf(patch, leaf));
    replaces_all
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Calls `visit` with the path of each leaf. Arrays are leaves, because a merge patch replaces them
/// as a whole.
fn visit_leaves<'v>(value: &'v Value, path: &mut Vec<&'v str>, visit: &mut dyn FnMut(&[&str])) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (name, value) in object {
                path.push(name);
                visit_leaves(value, path, visit);
                path.pop();
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => visit(path),
    }
}

/// Whether a merge patch replaces or removes this leaf.
fn replaces_leaf(patch: &Value, leaf: &[&str]) -> bool {
    let mut value = patch;
    for step in leaf {
        let Value::Object(object) = value else { return true };
        let Some(inner) = object.get(*step) else { return false };
        value = inner;
    }
    true
}

/// Whether the patch has members for the object at this path.
fn merges_object(patch: &Value, path: &[&str]) -> bool {
    let mut value = Some(patch);
    for step in path {
        value = value.and_then(Value::as_object).and_then(|it| it.get(*step));
    }
    value.is_some_and(Value::is_object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(inputs: &[&[&str]], before: Value, patch: Value, expected: PatchCoverage) {
        let inputs: Vec<Vec<&str>> = inputs.iter().map(|it| it.to_vec()).collect();
        assert_eq!(
            patch_coverage(TokenType::Token, &inputs, &before, &patch),
            expected,
            "coverage of {patch}"
        );
    }

    #[test]
    fn patch_coverage_distinguishes_no_some_and_all_hidden_inputs() {
        let person = || json!({"pin": "1234", "name": {"first": "a", "last": "b"}});
        let whole_data: &[&str] = &[];
        check(&[whole_data], person(), json!({"pin": "1"}), PatchCoverage::Partial);
        check(&[whole_data], person(), json!({"zip": "1"}), PatchCoverage::Partial);
        check(&[whole_data], person(), json!({"pin": null}), PatchCoverage::Partial);
        check(&[whole_data], person(), json!("text"), PatchCoverage::Complete);
        check(&[whole_data], person(), json!({"pin": 1, "name": "x"}), PatchCoverage::Partial);
        check(&[whole_data], json!("text"), json!({"pin": 1}), PatchCoverage::Partial);
        check(&[whole_data], person(), json!(null), PatchCoverage::Complete);
        check(
            &[&["name"]],
            person(),
            json!({"name": {"first": 1, "last": 2}}),
            PatchCoverage::Partial,
        );
        check(
            &[&["name"]],
            json!({"name": "x"}),
            json!({"name": {"a": 1}}),
            PatchCoverage::Partial,
        );
        check(&[&["name"]], person(), json!({"name": "x"}), PatchCoverage::Complete);
        check(
            &[whole_data],
            person(),
            json!({"pin": 1, "name": {"first": "x"}}),
            PatchCoverage::Partial,
        );
        check(
            &[whole_data],
            person(),
            json!({"pin": 1, "name": {"first": 1, "last": 2}}),
            PatchCoverage::Partial,
        );
        check(&[&["pin"]], person(), json!({"pin": 1}), PatchCoverage::Complete);
        check(&[&["pin"]], person(), json!({"name": 1}), PatchCoverage::Absent);
        check(&[&["pin"], &["name", "last"]], person(), json!({"pin": 1}), PatchCoverage::Partial);
        check(&[&["name", "last"]], person(), json!({"name": {"first": 1}}), PatchCoverage::Absent);
        check(&[], person(), json!({"pin": 1}), PatchCoverage::Absent);
        check(&[whole_data], person(), json!({}), PatchCoverage::Absent);
    }

    #[test]
    fn patch_of_a_shown_property_covers_a_part_of_an_expression_over_the_number() {
        let card = json!({"number": "4242424242424242", "expiration_year": 2030});
        let inputs = [vec!["number"], vec!["expiration_year"]];
        let coverage_of = |inputs, patch| patch_coverage(TokenType::Card, inputs, &card, &patch);
        let year = || json!({"expiration_year": 2031});
        assert_eq!(coverage_of(&inputs, year()), PatchCoverage::Partial);
        assert_eq!(coverage_of(&inputs, json!({"number": "1"})), PatchCoverage::Complete);
        assert_eq!(coverage_of(&inputs[..1], year()), PatchCoverage::Absent);
        assert_eq!(coverage_of(&inputs[1..], year()), PatchCoverage::Complete);
    }

    #[test]
    fn patch_of_metadata_covers_a_part_of_an_expression_over_hidden_data() {
        let card = json!({"number": "4242424242424242", "expiration_year": 2030});
        let patch = json!({});
        let work = WorkMeter::default();
        let coverage_of = |source: &str, writes_metadata| {
            let (token_type, rules) = (TokenType::Card, DisclosureRules::default());
            let (before, patch, work) = (&card, &patch, &work);
            PartialPatch { token_type, before, patch, writes_metadata, rules, work }
                .coverage(source)
        };
        let joined = "{{ metadata.m }}-{{ data.number }}";
        assert_eq!(coverage_of(joined, true), PatchCoverage::Partial);
        assert_eq!(coverage_of(joined, false), PatchCoverage::Absent);
        assert_eq!(coverage_of("{{ data.number }}", true), PatchCoverage::Absent);
        assert_eq!(coverage_of("{{ metadata.m }}", true), PatchCoverage::Complete);
    }
}

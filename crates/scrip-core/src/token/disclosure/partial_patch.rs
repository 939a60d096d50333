//! Partial patches of hidden data. A patch of some hidden inputs of an expression could confirm
//! guesses, one input at a time: the fingerprint of the patched object equals the fingerprint of a
//! copy exactly when the guess is right. Therefore a digest over partly known inputs is withheld,
//! until the data is replaced completely or changed with a reveal right.

use serde_json::Value;

use crate::token::{
    TokenBody, TokenType, WithheldDigests, WorkMeter,
    disclosure::{DisclosureRule, DisclosureRules},
    expression::compilation::compile,
};

/// The share of the hidden inputs of an expression that a patch names. Their values do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchCoverage {
    Absent,
    Partial,
    Complete,
}

/// A patch of data by a caller without a reveal right.
pub(crate) struct PartialPatch<'a> {
    pub(crate) token_type: TokenType,
    /// The data before the patch.
    pub(crate) before: &'a Value,
    pub(crate) patch: &'a Value,
    pub(crate) rules: DisclosureRules,
    pub(crate) work: &'a WorkMeter,
}

impl PartialPatch<'_> {
    /// Sets the withheld digests of the body. The body has the expressions after the patch.
    pub(crate) fn withhold(&self, body: &mut TokenBody) {
        if !self.rules.applies(DisclosureRule::PartialPatch) {
            return;
        }
        let expression = body.fingerprint_expression.as_deref();
        let expression =
            expression.unwrap_or_else(|| self.token_type.default_fingerprint_expression());
        let fingerprint = self.is_withheld(expression, body.withheld.fingerprint);
        let sources = body.search_indexes.as_deref();
        let sources = sources.unwrap_or_else(|| self.token_type.default_indexes());
        let is_index_withheld =
            |it: &&String| self.is_withheld(it, body.withheld.indexes.contains(*it));
        let indexes = sources.iter().filter(is_index_withheld).cloned().collect();
        body.withheld = WithheldDigests { fingerprint, indexes };
    }

    fn is_withheld(&self, source: &str, was_withheld: bool) -> bool {
        // The evaluation rejects an expression that cannot be parsed.
        let Ok(expression) = compile(self.work, source) else { return true };
        let inputs = expression.data_inputs();
        match patch_coverage(self.token_type, &inputs, self.before, self.patch) {
            PatchCoverage::Absent => was_withheld,
            PatchCoverage::Partial => true,
            PatchCoverage::Complete => false,
        }
    }
}

/// Compares the leaves of the data and of the patch with the inputs of an expression. Inputs are
/// paths into the data; the empty path is the whole data.
pub(crate) fn patch_coverage(
    token_type: TokenType,
    inputs: &[Vec<&str>],
    before: &Value,
    patch: &Value,
) -> PatchCoverage {
    let is_hidden = |leaf: &[&str]| {
        leaf.first().is_none_or(|it| !token_type.unmasked_properties().contains(it))
    };
    let is_read = |leaf: &[&str]| {
        inputs.iter().any(|input| {
            input.iter().zip(leaf).all(|(input_step, leaf_step)| input_step == leaf_step)
        })
    };
    let (mut has_named, mut has_unnamed) = (false, false);
    let mut record_leaf = |leaf: &[&str], is_named: bool| {
        if is_hidden(leaf) && is_read(leaf) {
            has_named |= is_named;
            has_unnamed |= !is_named;
        }
    };
    visit_leaves(before, &mut Vec::new(), &mut |leaf| {
        record_leaf(leaf, replaces_leaf(patch, leaf))
    });
    if !is_empty_object(patch) {
        visit_leaves(patch, &mut Vec::new(), &mut |leaf| record_leaf(leaf, true));
    }
    match (has_named, has_unnamed) {
        (false, _) => PatchCoverage::Absent,
        (true, true) => PatchCoverage::Partial,
        (true, false) => PatchCoverage::Complete,
    }
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
        check(&[whole_data], person(), json!({"pin": 1, "name": "x"}), PatchCoverage::Complete);
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
            PatchCoverage::Complete,
        );
        check(&[&["pin"]], person(), json!({"pin": 1}), PatchCoverage::Complete);
        check(&[&["pin"]], person(), json!({"name": 1}), PatchCoverage::Absent);
        check(&[&["pin"], &["name", "last"]], person(), json!({"pin": 1}), PatchCoverage::Partial);
        check(&[&["name", "last"]], person(), json!({"name": {"first": 1}}), PatchCoverage::Absent);
        check(&[], person(), json!({"pin": 1}), PatchCoverage::Absent);
        check(&[whole_data], person(), json!({}), PatchCoverage::Absent);
    }

    #[test]
    fn properties_shown_by_the_default_mask_are_not_hidden_inputs() {
        let card = json!({"number": "4242424242424242", "expiration_year": 2030});
        let inputs = [vec!["number"], vec!["expiration_year"]];
        let coverage_of = |patch| patch_coverage(TokenType::Card, &inputs, &card, &patch);
        assert_eq!(coverage_of(json!({"expiration_year": 2031})), PatchCoverage::Absent);
        assert_eq!(coverage_of(json!({"number": "1"})), PatchCoverage::Complete);
    }
}

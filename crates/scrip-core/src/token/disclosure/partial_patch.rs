//! A patch of some hidden inputs of an expression would confirm guesses, one input at a time: the
//! fingerprint of an object whose other attributes are unknown matches that of a copy exactly when
//! the guess is right. So what such a patch leaves half-known is not computed any more, until the
//! data is replaced whole or changed with a reveal right.

use serde_json::Value;

use crate::token::{
    TokenBody, TokenType, WithheldDigests, WorkMeter,
    disclosure::{DisclosureRule, DisclosureRules},
    expression::compilation::compile,
};

/// How many of the hidden inputs of an expression a patch names, whatever values it gives.
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
    /// `body` has the expressions that the token has after the patch.
    pub(crate) fn withhold(&self, body: &mut TokenBody) {
        if !self.rules.applies(DisclosureRule::PartialPatch) {
            return;
        }
        let fingerprint = body.fingerprint_expression.as_deref();
        let fingerprint =
            fingerprint.unwrap_or_else(|| self.token_type.default_fingerprint_expression());
        let fingerprint = self.is_withheld(fingerprint, body.withheld.fingerprint);
        let indexes = body.search_indexes.as_deref();
        let indexes = indexes.unwrap_or_else(|| self.token_type.default_indexes());
        let withheld = |it: &&String| self.is_withheld(it, body.withheld.indexes.contains(*it));
        let indexes = indexes.iter().filter(withheld).cloned().collect();
        body.withheld = WithheldDigests { fingerprint, indexes };
    }

    fn is_withheld(&self, source: &str, before: bool) -> bool {
        // What cannot be parsed is refused elsewhere.
        let Ok(expression) = compile(self.work, source) else { return true };
        let inputs = expression.data_inputs();
        match patch_coverage(self.token_type, &inputs, self.before, self.patch) {
            PatchCoverage::Absent => before,
            PatchCoverage::Partial => true,
            PatchCoverage::Complete => false,
        }
    }
}

/// Inputs are paths into the data; an empty path is all of it.
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
        inputs.iter().any(|input| input.iter().zip(leaf).all(|(read, at)| read == at))
    };
    let (mut named, mut unnamed) = (false, false);
    let mut count = |leaf: &[&str], is_named: bool| {
        if is_hidden(leaf) && is_read(leaf) {
            named |= is_named;
            unnamed |= !is_named;
        }
    };
    each_leaf(before, &mut Vec::new(), &mut |leaf| count(leaf, replaces_leaf(patch, leaf)));
    if !is_empty_object(patch) {
        each_leaf(patch, &mut Vec::new(), &mut |leaf| count(leaf, true));
    }
    match (named, unnamed) {
        (false, _) => PatchCoverage::Absent,
        (true, true) => PatchCoverage::Partial,
        (true, false) => PatchCoverage::Complete,
    }
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Arrays are leaves: a merge patch replaces them whole.
fn each_leaf<'v>(value: &'v Value, path: &mut Vec<&'v str>, visit: &mut dyn FnMut(&[&str])) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (name, value) in object {
                path.push(name);
                each_leaf(value, path, visit);
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
    let mut at = patch;
    for step in leaf {
        let Value::Object(object) = at else { return true };
        let Some(inner) = object.get(*step) else { return false };
        at = inner;
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
        assert_eq!(patch_coverage(TokenType::Token, &inputs, &before, &patch), expected, "{patch}");
    }

    #[test]
    fn patch_coverage_tells_no_some_and_all_hidden_inputs_apart() {
        let person = || json!({"pin": "1234", "name": {"first": "a", "last": "b"}});
        let whole: &[&str] = &[];
        check(&[whole], person(), json!({"pin": "1"}), PatchCoverage::Partial);
        check(&[whole], person(), json!({"zip": "1"}), PatchCoverage::Partial);
        check(&[whole], person(), json!({"pin": null}), PatchCoverage::Partial);
        check(&[whole], person(), json!("text"), PatchCoverage::Complete);
        check(&[whole], person(), json!({"pin": 1, "name": "x"}), PatchCoverage::Complete);
        check(
            &[whole],
            person(),
            json!({"pin": 1, "name": {"first": "x"}}),
            PatchCoverage::Partial,
        );
        check(
            &[whole],
            person(),
            json!({"pin": 1, "name": {"first": 1, "last": 2}}),
            PatchCoverage::Complete,
        );
        check(&[&["pin"]], person(), json!({"pin": 1}), PatchCoverage::Complete);
        check(&[&["pin"]], person(), json!({"name": 1}), PatchCoverage::Absent);
        check(&[&["pin"], &["name", "last"]], person(), json!({"pin": 1}), PatchCoverage::Partial);
        check(&[&["name", "last"]], person(), json!({"name": {"first": 1}}), PatchCoverage::Absent);
        check(&[], person(), json!({"pin": 1}), PatchCoverage::Absent);
        check(&[whole], person(), json!({}), PatchCoverage::Absent);
    }

    #[test]
    fn properties_shown_by_the_default_mask_are_not_hidden_inputs() {
        let card = json!({"number": "4242424242424242", "expiration_year": 2030});
        let inputs = [vec!["number"], vec!["expiration_year"]];
        let named = |patch| patch_coverage(TokenType::Card, &inputs, &card, &patch);
        assert_eq!(named(json!({"expiration_year": 2031})), PatchCoverage::Absent);
        assert_eq!(named(json!({"number": "1"})), PatchCoverage::Complete);
    }
}

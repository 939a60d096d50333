//! Partial patches of hidden data. A patch of some inputs of an expression could confirm guesses,
//! one input at a time: the fingerprint of the patched object equals the fingerprint of a copy
//! exactly when the guess is right. An input that is not hidden, such as the routing number or
//! metadata, can carry a guess too: next to hidden digits, it decides which numbers the text has.
//! Therefore a digest over hidden inputs that the patch does not write, and over any input that it
//! writes, is withheld, until the data is replaced completely or changed with a reveal right.
//!
//! A mask is one more output: `{{ data.note | replace: data.ssn, 'XXX' }}` shows the number in the note
//! after a patch of `ssn`. Each of its leaves is withheld by the same rule. The mask of a card reads only
//! BIN and last four, which every reader of masks sees, so nothing of it is withheld.
//!
//! So no text of hidden and chosen characters is evaluated, and the numbers to count depend only on
//! what the caller submitted ([`KnownInputs`]).

use std::collections::BTreeSet;

use scrip_expression::is_expression;
use serde_json::Value;

use crate::{
    card::TokenType,
    disclosure::patch_coverage::{PatchCoverage, patch_coverage},
    expression::compilation::compile,
    token::{TokenBody, WithheldOutputs},
    types::{DisclosureRule, DisclosureRules, Plaintext},
    work_meter::WorkMeter,
};

/// A patch by a caller without a reveal right.
pub(crate) struct PartialPatch<'a> {
    pub(crate) token_type: TokenType,
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
    /// Sets the withheld outputs of the body, which has the data and the expressions after the patch.
    pub(crate) fn withhold(&self, body: &mut TokenBody) -> KnownInputs {
        let is_rule_on = self.rules.applies(DisclosureRule::PartialPatch);
        let sources = body.search_indexes.as_deref();
        let sources = sources.unwrap_or_else(|| self.token_type.default_indexes());
        let expression = body.fingerprint_expression.as_deref();
        let expression =
            expression.unwrap_or_else(|| self.token_type.default_fingerprint_expression());
        let (mut covered_indexes, mut indexes) = (Vec::new(), Vec::new());
        for source in sources {
            let coverage = self.coverage(source);
            if coverage.withholds(body.withheld.indexes.contains(source)) {
                indexes.push(source.clone());
            }
            if !is_rule_on || coverage == PatchCoverage::Complete {
                covered_indexes.push(source.clone());
            }
        }
        let coverage = self.coverage(expression);
        let fingerprint = coverage.withholds(body.withheld.fingerprint);
        let mask_leaves = self.withheld_mask_leaves(body);
        if is_rule_on {
            body.withheld = WithheldOutputs { fingerprint, indexes, mask_leaves };
        } else {
            body.withheld.mask_leaves = mask_leaves;
        }
        KnownInputs {
            data: self.known_data(&body.data),
            covers_fingerprint: !is_rule_on || coverage == PatchCoverage::Complete,
            covered_indexes,
        }
    }

    fn withheld_mask_leaves(&self, body: &TokenBody) -> BTreeSet<String> {
        if self.token_type.is_card() || !self.rules.applies(DisclosureRule::PartialPatchOfMask) {
            return BTreeSet::new();
        }
        let mut leaves = BTreeSet::new();
        body.mask.iter().for_each(|it| collect_mask_leaves(it, &mut leaves));
        let is_withheld =
            |it: &&str| self.coverage(it).withholds(body.withheld.mask_leaves.contains(*it));
        leaves.into_iter().filter(is_withheld).map(str::to_owned).collect()
    }

    fn coverage(&self, source: &str) -> PatchCoverage {
        // The evaluation rejects an expression that cannot be parsed.
        let Ok(expression) = compile(self.work, source) else { return PatchCoverage::Partial };
        let inputs = expression.data_inputs();
        let writes_metadata = self.writes_metadata && expression.reads_metadata();
        patch_coverage(self.token_type, &inputs, self.patch, writes_metadata)
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

/// Adds the expressions of a mask.
fn collect_mask_leaves<'m>(mask: &'m Value, leaves: &mut BTreeSet<&'m str>) {
    match mask {
        Value::String(text) if is_expression(text) => _ = leaves.insert(text),
        Value::Array(items) => items.iter().for_each(|it| collect_mask_leaves(it, leaves)),
        Value::Object(members) => {
            members.values().for_each(|it| collect_mask_leaves(it, leaves));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn withhold(token_type: TokenType, patch: &Value, body: &mut TokenBody) {
        let work = WorkMeter::default();
        let rules = DisclosureRules::default();
        let writes_metadata = false;
        PartialPatch { token_type, patch, writes_metadata, rules, work: &work }.withhold(body);
    }

    #[test]
    fn patch_of_metadata_covers_a_part_of_an_expression_over_hidden_data() {
        let patch = json!({});
        let work = WorkMeter::default();
        let coverage_of = |source: &str, writes_metadata| {
            let (token_type, rules) = (TokenType::Card, DisclosureRules::default());
            let (patch, work) = (&patch, &work);
            PartialPatch { token_type, patch, writes_metadata, rules, work }.coverage(source)
        };
        let joined = "{{ metadata.m }}-{{ data.number }}";
        assert_eq!(coverage_of(joined, true), PatchCoverage::Partial);
        assert_eq!(coverage_of(joined, false), PatchCoverage::Absent);
        assert_eq!(coverage_of("{{ data.number }}", true), PatchCoverage::Absent);
        assert_eq!(coverage_of("{{ metadata.m }}", true), PatchCoverage::Complete);
    }

    #[test]
    fn mask_leaf_is_withheld_until_all_its_inputs_are_written() {
        let leaf = "{{ data.note | replace: data.ssn, 'XXX' }}";
        let mask = json!({"note": leaf, "list": ["{{ data.zip }}", "text"]});
        let mut body = TokenBody { mask: Some(mask), ..TokenBody::default() };
        let mut withheld_after = |patch: Value| {
            withhold(TokenType::Token, &patch, &mut body);
            body.withheld.mask_leaves.iter().cloned().collect::<Vec<_>>()
        };
        assert!(withheld_after(json!({"zip": "1"})).is_empty());
        assert_eq!(withheld_after(json!({"ssn": "9-"})), [leaf]);
        assert_eq!(withheld_after(json!({"zip": "2"})), [leaf]);
        assert_eq!(withheld_after(json!({"note": "x"})), [leaf]);
        assert!(withheld_after(json!({"note": "x", "ssn": "y"})).is_empty());
    }

    #[test]
    fn mask_of_a_card_is_not_withheld_and_that_of_a_bank_account_is() {
        let mask = json!("{{ data.number }}{{ data.expiration_year }}");
        let mut card = TokenBody { mask: Some(mask), ..TokenBody::default() };
        withhold(TokenType::Card, &json!({"expiration_year": 2031}), &mut card);
        assert!(card.withheld.mask_leaves.is_empty());
        let mask = json!("{{ data.account_number | remove: data.routing_number }}");
        let mut bank = TokenBody { mask: Some(mask), ..TokenBody::default() };
        withhold(TokenType::Bank, &json!({"routing_number": "011000015"}), &mut bank);
        assert_eq!(bank.withheld.mask_leaves.len(), 1);
    }
}

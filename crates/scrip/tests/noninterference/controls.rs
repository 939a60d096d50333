//! Negative controls: without one of the disclosure rules, the test must find a difference.

use scrip_core::types::{DisclosureRule, DisclosureRules};

use crate::{
    build_runtime, first_seed, generator::generate, sequence_run::TwinVaults, shrink::shrink,
};

/// The maximum number of sequences of a control, more than any control needs. Decision 0045 lists
/// the numbers of the first seed.
const SEQUENCES_MAX: u64 = 20_000;

/// # Panics
/// If no response differs.
fn expect_difference(name: &str, rules: &'static [DisclosureRule]) {
    build_runtime().block_on(async {
        let vaults = TwinVaults::in_memory(DisclosureRules::weakened_for_control_run(rules)).await;
        let first = first_seed();
        for seed in first..first + SEQUENCES_MAX {
            let sequence = generate(seed, &vaults.plans);
            if vaults.run(&sequence).await.is_none() {
                continue;
            }
            let sequence = shrink(&vaults, sequence).await;
            let count = seed - first + 1;
            eprintln!("without {name}: found after {count} sequences\n{sequence}");
            return;
        }
        panic!("no difference without {name} in {SEQUENCES_MAX} sequences");
    });
}

#[test]
fn templates_that_read_used_tokens_are_detected() {
    let rules = &[DisclosureRule::TemplatesReadClientMessage];
    expect_difference("the rule about templates of proxies", rules);
}

#[test]
fn configuration_that_browsers_read_is_detected() {
    let rules = &[DisclosureRule::ConfigurationHiddenFromBrowsers];
    expect_difference("the rule about the configuration of proxies", rules);
}

#[test]
fn uncounted_numbers_of_collecting_proxies_are_detected() {
    let rules = &[DisclosureRule::SenderCountsInCollection];
    expect_difference("the rule about numbers that a proxy collects", rules);
}

#[test]
fn uncounted_runs_of_digits_are_detected() {
    expect_difference("the rule about runs of digits", &[DisclosureRule::EveryDigitRunCounts]);
}

#[test]
fn compared_field_calls_are_detected() {
    let rules = &[DisclosureRule::FieldCallsAreNotCompared];
    expect_difference("the rule about repeated field calls", rules);
}

#[test]
fn removed_duplicate_rule_is_detected() {
    expect_difference("the rule about duplicates", &[DisclosureRule::MatchingExpressions]);
}

#[test]
fn removed_conversion_and_acceptance_rules_are_detected() {
    let rules = &[DisclosureRule::ConversionExpressions, DisclosureRule::LookalikeAcceptance];
    expect_difference("the rules about conversion and acceptance", rules);
}

#[test]
fn removed_stronger_rights_rule_is_detected() {
    expect_difference("the rule about stronger rights", &[DisclosureRule::StrongerRight]);
}

#[test]
fn removed_rule_about_masks_of_patched_data_is_detected() {
    let rules = &[DisclosureRule::PartialPatchOfMask];
    expect_difference("the rule about masks of patched data", rules);
}

#[test]
fn removed_partial_patch_rule_is_detected() {
    expect_difference("the rule about partial patches", &[DisclosureRule::PartialPatch]);
}

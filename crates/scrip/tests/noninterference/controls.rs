//! Controls: with a rule of disclosure taken out, the test must find the hole.

use scrip_core::token::disclosure::{DisclosureRules, Rule};

use crate::{first_seed, generate::generate, run::TwinVaults, runtime, shrink::shrink};

/// More than any control needs; decision 0045 has the figures.
const SEQUENCES_MAX: u64 = 4_000;

/// # Panics
/// No answer differs.
fn expect_difference(name: &str, rules: &'static [Rule]) {
    runtime().block_on(async {
        let world = TwinVaults::in_memory(DisclosureRules::weakened_for_control_run(rules)).await;
        let first = first_seed();
        for seed in first..first + SEQUENCES_MAX {
            let sequence = generate(seed, world.tenants);
            if world.run(&sequence).await.is_none() {
                continue;
            }
            let sequence = shrink(&world, sequence).await;
            let count = seed - first + 1;
            eprintln!("without {name}: found after {count} sequences\n{sequence}");
            return;
        }
        panic!("without {name}: not found in {SEQUENCES_MAX} sequences");
    });
}

#[test]
fn missing_rule_about_duplicates_is_found() {
    expect_difference("the rule about duplicates", &[Rule::MatchingExpressions]);
}

#[test]
fn missing_rules_about_conversion_and_acceptance_are_found() {
    let rules = &[Rule::ConversionExpressions, Rule::LookalikeAcceptance];
    expect_difference("the rules about conversion and acceptance", rules);
}

#[test]
fn missing_rule_about_stronger_rights_is_found() {
    expect_difference("the rule about stronger rights", &[Rule::StrongerRight]);
}

#[test]
fn missing_rule_about_partial_patches_is_found() {
    expect_difference("the rule about partial patches", &[Rule::PartialPatch]);
}

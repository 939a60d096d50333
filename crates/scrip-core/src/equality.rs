//! Answers whether a value that a caller submits equals stored hidden data.
//!
//! A fingerprint, a found duplicate, a search result, a taken id and a replayed response each
//! answer this question. [`comparison`] counts the numbers in a value, and defines the proof that such
//! an answer needs.
//!
//! The guessing budget limits the answers. BIN and last four digits of a card are not secret, so a
//! caller without a reveal right could try the other digits: about a thousand numbers for a card of
//! sixteen digits. The budget counts how many distinct numbers of one group (same kind, first
//! digits and last four) such callers have submitted for evaluation. When the budget is exhausted,
//! the vault does not return any result that depends on equality: no fingerprint, no deduplication,
//! no `data:` search.
//!
//! [`numbers`] finds the numbers to count. [`bucket`] defines the counters: one for each group and
//! for each application. [`ledger`] counts on this node, compares the counts with the limits and
//! writes them to the [`guess_store`] in the background. [`search`] counts search terms, and
//! [`rejected_evaluations`] expressions that fail on hidden data.

pub mod bucket;
mod comparison;
mod digit_runs;
pub(crate) mod evaluated_numbers;
pub mod guess_store;
mod identity_numbers;
pub mod ledger;
pub(crate) mod numbers;
mod rejected_evaluations;
pub mod search;
mod separated_digits;
mod sorted_texts;

pub use self::{
    bucket::{GuessBucket, GuessRecord},
    comparison::Comparison,
    guess_store::GuessStore,
    rejected_evaluations::EvaluatedEntity,
};

pub(crate) use self::{
    bucket::{CallerClass, GuessBucketKind},
    comparison::{Comparable, GuessCount},
};

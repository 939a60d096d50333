//! The one place that decides which expression may meet which data.
//!
//! The rule: **no expression is evaluated on data that its writer neither sent nor may read, if the
//! writer can observe the result.** Every operation in which a token's data meets an expression
//! asks this module:
//!
//! | where they meet | what decides |
//! |---|---|
//! | create, tokenize | the caller sent the data; for cards, look-alike numbers decide whether an expression is accepted ([`expressions`](crate::token::expression::evaluation)) |
//! | conversion of an intent | [`check_conversion`]: only harmless expressions, no stronger right in the new containers |
//! | deduplication | [`DuplicateKeys`]: which existing tokens may answer for, or absorb, new data |
//! | PATCH of an expression | [`check_expression_change`] |
//! | PATCH of data under expressions of another application | [`drop_inherited_expressions`]: they fall back to the type's own |
//! | PATCH of a part of hidden data | [`Withheld`](crate::token::Withheld): a fingerprint or index entry that would confirm a guess is withheld |
//! | moves | [`check_gain`] |
//! | searches | a search compares digests of values that the vault computed under the rules above |
//! | reads under a mask | the mask was written under the rules above, and sees a card number covered |

mod container_move;
mod conversion;
mod duplicates;
mod lifetime;
mod partial_patch;
mod rules;
mod trust;

use crate::policy::{AccessTarget, Caller, Transform};

pub(crate) use self::{
    container_move::check_no_added_rights,
    conversion::{check_conversion, is_harmless_fingerprint, is_last4_index},
    lifetime::{LifetimeChange, check_lifetime_change, check_public_move},
    partial_patch::{PartialPatch, PatchCoverage, patch_coverage},
    trust::{
        ExpressionSet, ExpressionTrust, check_expression_change, drop_inherited_expressions,
        effective_mask, has_default_fingerprint_expression,
    },
};
pub use self::{
    duplicates::{DuplicateKey, DuplicateKeys, DuplicateLookup},
    rules::{DisclosureRule, DisclosureRules},
};

/// Whether the caller has a reveal right on a token: token:read, token:search or token:update there
/// with the transform `reveal`.
pub(crate) fn has_reveal_right<'a>(caller: &Caller, target: impl Into<AccessTarget<'a>>) -> bool {
    caller.max_transform(target) == Some(Transform::Reveal)
}

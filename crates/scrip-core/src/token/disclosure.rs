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

mod conversion;
mod duplicates;
mod lifetime;
mod moves;
mod partial_patch;
mod rules;
mod trust;

use crate::policy::{Caller, Subject, Transform};

pub(crate) use self::{
    conversion::{check_conversion, is_harmless_fingerprint, is_last4_index},
    lifetime::{LifeChange, check_life, check_public_move},
    moves::check_gain,
    partial_patch::{Named, PartialPatch, named_inputs},
    trust::{
        ExpressionSet, ExpressionTrust, check_expression_change, drop_inherited_expressions,
        effective_mask, has_own_fingerprint_expression,
    },
};
pub use self::{
    duplicates::{DuplicateKey, DuplicateKeys, DuplicateLookup},
    rules::{DisclosureRules, Rule},
};

/// Whether the caller has a reveal right on a token: token:read, token:search or token:update there
/// with the transform `reveal`.
pub(crate) fn has_reveal_right<'a>(caller: &Caller, subject: impl Into<Subject<'a>>) -> bool {
    caller.sight(subject) == Some(Transform::Reveal)
}

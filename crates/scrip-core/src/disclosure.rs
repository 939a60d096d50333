//! Decides which expressions may be evaluated on which data.
//!
//! The rule: **no expression is evaluated on data that its writer neither sent nor may read, if the
//! writer can observe the result.** Every operation that evaluates an expression on a token's data
//! uses this module:
//!
//! | operation | rule |
//! |---|---|
//! | create, tokenize | the caller sent the data; for cards, look-alike numbers decide whether an expression is accepted ([`evaluation`](crate::writes::evaluation)) |
//! | conversion of an intent | [`check_conversion`]: only the expressions of the type, no stronger right in the new containers |
//! | create, tokenize or intent with encrypted data | the same: a client encrypted the data, and the caller need not know it |
//! | deduplication | [`DuplicateKeys`]: which existing tokens may be returned for, or updated with, new data |
//! | PATCH of an expression | [`check_expression_change`] |
//! | PATCH of data with expressions of another application | [`drop_inherited_expressions`]: the expressions are reset to the defaults of the type |
//! | PATCH of some inputs of a digest over hidden data, metadata included | [`WithheldDigests`](crate::token::WithheldDigests): a fingerprint or index entry that would confirm a guess is withheld |
//! | move | [`check_no_added_rights`] |
//! | search | a search compares digests of values that the vault computed under the rules above |
//! | read with a mask | the mask was written under the rules above, and its input has a masked card number |

mod container_move;
mod conversion;
mod duplicates;
mod field_place;
mod lifetime;
mod partial_patch;
mod trust;
mod typed_values;

pub use self::duplicates::{Deduplicate, DuplicateKey, DuplicateKeys, DuplicateLookup};

pub(crate) use self::{
    container_move::check_no_added_rights,
    conversion::{
        DataKnowledge, TokenDataSource, check_conversion, check_sender_rights, is_last4_index,
    },
    field_place::{
        check_browser_place, check_field_place, check_field_update, evaluates_field_values,
        misplaces_field_values,
    },
    lifetime::{LifetimeChange, check_lifetime_change, check_public_move},
    partial_patch::{KnownInputs, PartialPatch, PatchCoverage, patch_coverage, replaces_all_data},
    trust::{
        ExpressionSet, ExpressionTrust, check_expression_change, drop_inherited_expressions,
        effective_mask, has_default_fingerprint_expression, with_expression_digests,
    },
    typed_values::{ReadLimits, check_reader_update, may_read_clear, withholds_typed},
};

use crate::{
    Error, FieldError,
    card::TokenType,
    policy::{AccessTarget, Caller, has_reveal_right},
    types::Plaintext,
};

/// Whether responses show the fingerprint of this type to the caller. Data of type `token` is any
/// text, and a page could store each prefix of a text that a payer types.
pub(crate) fn shows_fingerprint(caller: &Caller, token_type: TokenType) -> bool {
    token_type != TokenType::Token || !caller.is_browser()
}

/// Whether a marked token or intent is hidden from the caller.
pub(crate) fn hides_marked(caller: &Caller, is_marked: bool) -> bool {
    is_marked && caller.is_browser()
}

/// Checks the data of a new or changed token or intent. If marked data is hidden from the caller, the
/// error has one text: otherwise each text that a payer types would have an answer of its own.
///
/// Errors: the data does not fit its type.
pub(crate) fn check_data(
    caller: &Caller,
    token_type: TokenType,
    data: &mut Plaintext,
    is_marked: bool,
) -> Result<(), Error> {
    let result = token_type.check(data.expose_mut(), caller.tenant().kind);
    result.map_err(|errors| match hides_marked(caller, is_marked) {
        true => FieldError::new("data", "does not fit its type").into(),
        false => Error::Invalid(errors),
    })
}

/// Whether a token or intent with encrypted data is marked. The caller chooses the type: as `token`, a
/// social security number would have a fingerprint that can be compared with uncounted guesses.
pub(crate) fn marks_encrypted(caller: &Caller, token_type: TokenType) -> bool {
    caller.is_browser() || token_type == TokenType::Token
}

/// Whether a write of a marked token or intent computes its fingerprint and its index entries.
pub(crate) fn may_digest_marked<'a>(caller: &Caller, target: impl Into<AccessTarget<'a>>) -> bool {
    !caller.is_browser() && has_reveal_right(caller, target)
}

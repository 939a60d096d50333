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
//! | PATCH of some inputs of an output over hidden data, metadata included | [`WithheldOutputs`](crate::token::WithheldOutputs): a fingerprint or index entry that would confirm a guess is withheld, and a mask leaf that would show what it hid |
//! | move | [`check_no_added_rights`] |
//! | search | a search compares digests of values that the vault computed under the rules above |
//! | read with a mask | the mask was written under the rules above, and its input has a masked card number |

mod conversion;
mod field_place;
mod lifetime;
mod partial_patch;
mod patch_coverage;
mod trust;
mod typed_values;

pub use self::trust::{Deduplicate, DuplicateKey, DuplicateKeys, DuplicateLookup};

pub(crate) use self::{
    conversion::{DataKnowledge, TokenDataSource, check_conversion, check_sender_rights},
    field_place::{
        check_browser_place, check_field_place, check_field_update, evaluates_field_values,
        misplaces_field_values,
    },
    lifetime::{LifetimeChange, check_lifetime_change, check_no_added_rights, check_public_move},
    partial_patch::{KnownInputs, PartialPatch},
    patch_coverage::{PatchCoverage, patch_coverage, replaces_all_data},
    trust::{
        ExpressionSet, ExpressionTrust, check_data, check_expression_change,
        drop_inherited_expressions, effective_mask, has_default_fingerprint_expression,
        hides_marked, is_last4_index, marks_encrypted, may_digest_marked, shows_fingerprint,
        with_expression_digests,
    },
    typed_values::{ReadLimits, check_reader_update, may_read_clear, withholds_typed},
};

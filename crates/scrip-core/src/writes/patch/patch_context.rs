//! What a patch of a token is applied with, and how it changes the CVC.

use crate::{
    Timestamp, Vault,
    card::TokenType,
    disclosure::{PatchCoverage, patch_coverage},
    policy::Caller,
    types::Plaintext,
};

#[derive(Clone, Copy)]
pub(super) enum CvcEdit {
    Keep,
    Set,
}

/// The caller and the cause of a patch.
#[derive(Clone, Copy)]
pub(crate) struct PatchContext<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) caller: &'a Caller,
    pub(crate) now: Timestamp,
    pub(crate) cause: PatchCause,
}

#[derive(Clone, Copy)]
pub(crate) enum PatchCause {
    /// A PATCH request.
    Request,
    /// A create request that found this token, possibly by conversion of an intent with this
    /// expiry. `is_typed`: a payer typed its data into a hosted field.
    Deduplication { intent_expires_at: Option<Timestamp>, is_typed: bool },
}

/// Whether a patch names the secret of the type, with any value.
pub(super) fn patch_has_secret(
    token_type: TokenType,
    before: &Plaintext,
    patch: &Plaintext,
) -> bool {
    let secret: Vec<&str> = token_type.secret_property().into_iter().collect();
    patch_coverage(token_type, &[secret], before.expose(), patch.expose()) != PatchCoverage::Absent
}

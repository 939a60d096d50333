//! Create Token.

use crate::{
    Error, Vault,
    audit::Operation,
    idempotency::Remember,
    policy::Caller,
    token::{
        NewToken, Written,
        write::{batch::Batch, conversion::open_source, draft::Draft},
    },
};

/// # Errors
/// The request breaks a rule, no rule lets the caller do it, or the id is taken.
pub async fn create_token(
    vault: &Vault,
    caller: &Caller,
    mut new: NewToken,
    remember: Option<Remember<Written>>,
) -> Result<Written, Error> {
    let now = vault.clock.now();
    let source = open_source(vault, caller, &mut new).await?;
    let mut draft = Draft::new(vault, caller, new, source, now)?;
    draft.spend_guesses(vault).await?;
    let batch = Batch::new(caller, Operation::CreateToken, vec![draft], now);
    let mut written = batch.write(vault, remember.map(Remember::for_single_token)).await?;
    written.pop().ok_or_else(|| Error::Internal("a batch of one wrote none".into()))
}

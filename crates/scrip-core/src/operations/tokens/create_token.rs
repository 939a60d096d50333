//! Create Token.

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    policy::Caller,
    token::{NewToken, WrittenToken},
    types::Operation,
    writes::{
        batch::PendingBatch,
        pending_token::{PendingToken, load_data_source},
    },
};

/// Errors: the request is invalid, no rule allows it, or the id is taken.
pub async fn create_token(
    vault: &Vault,
    caller: &Caller,
    mut new: NewToken,
    recorder: Option<ResponseRecorder<WrittenToken>>,
) -> Result<WrittenToken, Error> {
    let now = vault.clock.now();
    let source = load_data_source(vault, caller, &mut new).await?;
    let pending = PendingToken::new(vault, caller, new, source, now)?;
    let counted = pending.count_numbers(vault, 1).await?;
    let batch = PendingBatch::new(caller, Operation::CreateToken, vec![counted], now);
    let mut written = batch.write(vault, recorder.map(ResponseRecorder::for_single_token)).await?;
    written.pop().ok_or_else(|| Error::Internal("a batch of one token wrote no token".into()))
}

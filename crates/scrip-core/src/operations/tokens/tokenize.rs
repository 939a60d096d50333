//! Tokenize: creates a token for every value of a body, or none at all.

use crate::{
    Error, Vault,
    idempotency::ResponseRecorder,
    operations::check_request_quota,
    policy::Caller,
    token::{NewToken, WrittenToken},
    types::Operation,
    work_meter::yield_now,
    writes::{
        batch::PendingBatch,
        pending_token::{PendingToken, load_data_source},
    },
};

/// One token of a body.
#[derive(Debug)]
pub struct RequestedToken {
    /// The position in the body, for errors.
    pub path: String,
    pub new: NewToken,
}

/// Checks the number of tokens in a request.
/// Errors: the request has more tokens than the tenant's quota allows.
pub fn check_tokenize_quota(caller: &Caller, count: usize) -> Result<(), Error> {
    check_request_quota(count, caller.tenant().quotas.tokens_per_request(), "tokenize_limit")
}

/// Returns the written tokens in the order of the request.
/// Errors: one token is invalid, is not allowed, or has an id that is taken. Then no token is
/// written.
pub async fn tokenize(
    vault: &Vault,
    caller: &Caller,
    requested: Vec<RequestedToken>,
    recorder: Option<ResponseRecorder<[WrittenToken]>>,
) -> Result<Vec<WrittenToken>, Error> {
    check_tokenize_quota(caller, requested.len())?;
    let (now, tokens) = (vault.clock.now(), requested.len());
    let (mut counted_tokens, mut errors) = (Vec::with_capacity(requested.len()), Vec::new());
    for RequestedToken { path, mut new } in requested {
        let pending = match load_data_source(vault, caller, &mut new).await {
            Ok(source) => PendingToken::new(vault, caller, new, source, now),
            Err(error) => Err(error),
        };
        match pending {
            Ok(pending) => counted_tokens.push(pending.count_numbers(vault, tokens).await?),
            Err(Error::Invalid(fields)) => {
                errors.extend(fields.into_iter().map(|it| it.prefix_path(&path)));
            }
            Err(error) => return Err(error),
        }
        yield_now().await;
    }
    if !errors.is_empty() {
        return Err(Error::Invalid(errors));
    }
    PendingBatch::new(caller, Operation::Tokenize, counted_tokens, now).write(vault, recorder).await
}

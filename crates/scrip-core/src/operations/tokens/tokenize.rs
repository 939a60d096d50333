//! Tokenize: every value of a body becomes a token, or none does.

use crate::{
    Error, Vault,
    audit::Operation,
    idempotency::ResponseRecorder,
    operations::{check_request_quota, yield_now},
    policy::Caller,
    token::{
        NewToken, WrittenToken,
        write::{batch::PendingBatch, conversion::load_data_source, pending_token::PendingToken},
    },
};

/// One token of a body.
#[derive(Debug)]
pub struct RequestedToken {
    /// Where it stands in the body, for errors.
    pub path: String,
    pub new: NewToken,
}

/// # Errors
/// There are more than the tenant's quota allows.
pub fn check_tokenize_quota(caller: &Caller, count: usize) -> Result<(), Error> {
    check_request_quota(count, caller.tenant().quotas.tokenize_limit, "tokenize_limit")
}

/// What was written comes in the order of what was asked for.
///
/// # Errors
/// One of them breaks a rule, is not allowed, or has an id that is taken. Then there are none.
pub async fn tokenize(
    vault: &Vault,
    caller: &Caller,
    requested: Vec<RequestedToken>,
    recorder: Option<ResponseRecorder<[WrittenToken]>>,
) -> Result<Vec<WrittenToken>, Error> {
    check_tokenize_quota(caller, requested.len())?;
    let now = vault.clock.now();
    let (mut drafts, mut errors) = (Vec::with_capacity(requested.len()), Vec::new());
    for RequestedToken { path, mut new } in requested {
        let draft = match load_data_source(vault, caller, &mut new).await {
            Ok(source) => PendingToken::new(vault, caller, new, source, now),
            Err(error) => Err(error),
        };
        match draft {
            Ok(mut draft) => {
                draft.charge_guess_budget(vault).await?;
                drafts.push(draft);
            }
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
    PendingBatch::new(caller, Operation::Tokenize, drafts, now).write(vault, recorder).await
}

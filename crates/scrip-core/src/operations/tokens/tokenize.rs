//! Tokenize: every value of a body becomes a token, or none does.

use crate::{
    Error, Vault,
    audit::Operation,
    idempotency::Remember,
    operations::{check_count, give_way},
    policy::Caller,
    token::{
        NewToken, Written,
        write::{batch::Batch, conversion::open_source, draft::Draft},
    },
};

/// One token of a body.
#[derive(Debug)]
pub struct Requested {
    /// Where it stands in the body, for errors.
    pub path: String,
    pub new: NewToken,
}

/// # Errors
/// There are more than the tenant's quota allows.
pub fn check_tokens(caller: &Caller, count: usize) -> Result<(), Error> {
    check_count(count, caller.tenant().quotas.tokenize_limit, "tokenize_limit")
}

/// What was written comes in the order of what was asked for.
///
/// # Errors
/// One of them breaks a rule, is not allowed, or has an id that is taken. Then there are none.
pub async fn tokenize(
    vault: &Vault,
    caller: &Caller,
    requested: Vec<Requested>,
    remember: Option<Remember<[Written]>>,
) -> Result<Vec<Written>, Error> {
    check_tokens(caller, requested.len())?;
    let now = vault.clock.now();
    let (mut drafts, mut errors) = (Vec::with_capacity(requested.len()), Vec::new());
    for Requested { path, mut new } in requested {
        let draft = match open_source(vault, caller, &mut new).await {
            Ok(source) => Draft::new(vault, caller, new, source, now),
            Err(error) => Err(error),
        };
        match draft {
            Ok(mut draft) => {
                draft.spend_guesses(vault).await?;
                drafts.push(draft);
            }
            Err(Error::Invalid(fields)) => {
                errors.extend(fields.into_iter().map(|it| it.within(&path)));
            }
            Err(error) => return Err(error),
        }
        give_way().await;
    }
    if !errors.is_empty() {
        return Err(Error::Invalid(errors));
    }
    Batch::new(caller, Operation::Tokenize, drafts, now).write(vault, remember).await
}

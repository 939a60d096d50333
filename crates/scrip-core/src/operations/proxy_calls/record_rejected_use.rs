//! Records the tokens of a call that was rejected after they were loaded.

use crate::{
    Error, Vault,
    operations::proxy_calls::{
        start_proxy_call::{CallAudit, CallDestination, CallSender},
        use_tokens::UsedTokens,
    },
};

/// Records that tokens were loaded for a call that is not sent.
///
/// The failure may depend on the data, and so disclose a part of it. Call this before the client
/// gets the error. Does nothing if the call uses no token. As for a call that is sent, this is recorded even if the recording of reads is off.
/// Errors: the use cannot be recorded: the client must not learn why the call was rejected.
pub async fn record_rejected_use(
    vault: &Vault,
    sender: CallSender<'_>,
    destination: CallDestination,
    used: &UsedTokens,
) -> Result<(), Error> {
    if used.is_empty() {
        return Ok(());
    }
    let batch = CallAudit::new(sender, destination, vault.clock.now()).rejection_batch(used);
    Ok(vault.store.append_read_log(batch).await?)
}

/// Records a rejected call of a client without an API key, or one that created tokens before it could
/// be recorded. Waits for nothing.
pub fn queue_unsent_call(
    vault: &Vault,
    sender: CallSender<'_>,
    destination: CallDestination,
    outcome: &'static str,
    created_tokens: &[String],
) {
    let audit = CallAudit::new(sender, destination, vault.clock.now());
    vault.outcome_queue.push(audit.unsent_batch(outcome, created_tokens));
}

/// As [`record_rejected_use`], for a call that ends without an answer to its client. Waits for
/// nothing, so that a destructor can call it.
pub fn queue_rejected_use(
    vault: &Vault,
    sender: CallSender<'_>,
    destination: CallDestination,
    used: &UsedTokens,
) {
    if !used.is_empty() {
        let audit = CallAudit::new(sender, destination, vault.clock.now());
        vault.outcome_queue.push(audit.rejection_batch(used));
    }
}

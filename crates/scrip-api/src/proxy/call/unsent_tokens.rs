//! The tokens of a call between their loading and the start of the call.

use hyper::StatusCode;
use scrip_core::{
    equality::EvaluatedEntity,
    operations::proxy_calls::{
        record_rejected_use::{queue_rejected_use, queue_unsent_call, record_rejected_use},
        start_proxy_call::CallDestination,
        use_tokens::{UsedTokens, count_rejected_evaluation},
    },
    policy::Caller,
};

use crate::{
    app::App,
    metrics::CallFailureReason,
    proxy::{
        call::{plan::CallPlan, received_call::ReceivedCall},
        error::{CallDelivery, ProxyError},
    },
};

/// The outcome of a call that was rejected and used no token.
const REJECTED_CALL: &str = "invalid";

const DATA_RULE: &str =
    "an expression or a transform fails with data that this caller may use and not read";

/// The tokens that were loaded for a call which is not sent yet. If the call ends before, the log
/// says that they were evaluated: a failure that depends on the data discloses a part of it.
pub(super) struct UnsentTokens<'a> {
    app: &'a App,
    call: &'a ReceivedCall,
    plan: &'a CallPlan,
    pub(super) used: UsedTokens,
    /// The configuration, if the client's expressions read it and the client may not.
    configuration: Option<EvaluatedEntity>,
    /// Whether the log has the use of the tokens.
    is_recorded: bool,
}

impl<'a> UnsentTokens<'a> {
    pub(super) fn new(
        app: &'a App,
        call: &'a ReceivedCall,
        plan: &'a CallPlan,
        used: UsedTokens,
        configuration: Option<EvaluatedEntity>,
    ) -> Self {
        Self { app, call, plan, used, configuration, is_recorded: false }
    }

    /// The destination of the call, for its records.
    pub(super) fn destination(&self) -> CallDestination {
        CallDestination {
            proxy: self.call.selected.proxy().map(|it| it.record().id.to_string()),
            host: self.plan.destination.host().to_owned(),
            method: self.call.method_name(),
        }
    }

    /// The use is recorded as part of a started call.
    pub(super) fn start(mut self) {
        self.is_recorded = true;
    }

    /// Records the use in a rejected call. Returns the error for the client: another one if the
    /// record cannot be written, so that the client does not learn why the call was rejected.
    pub(super) async fn reject(self, error: ProxyError) -> ProxyError {
        let error = match self.count_rejection().await {
            Ok(()) => self.hide_cause(error),
            Err(count_error) => count_error.with_delivery(error.delivery()),
        };
        self.reject_openly(error).await
    }

    /// As [`UnsentTokens::reject`], and records the tokens that transforms had stored. After the
    /// rehearsal this is rare: another request took an id in between, for example.
    pub(super) async fn reject_after_storing(
        self,
        created_tokens: &[String],
        error: ProxyError,
    ) -> ProxyError {
        let sender = self.call.party.sender(&self.call.selected);
        if let Some(sender) = sender.ok().filter(|_| !created_tokens.is_empty()) {
            let (vault, outcome) = (&self.app.vault, CallDelivery::NotSent.as_str());
            queue_unsent_call(vault, sender, self.destination(), outcome, created_tokens);
        }
        self.reject(error).await
    }

    /// Counts the rejection for tokens that the caller may not read.
    async fn count_rejection(&self) -> Result<(), ProxyError> {
        let Some(caller) = self.call.party.caller() else { return Ok(()) };
        Ok(count_rejected_evaluation(&self.app.vault, caller, &self.hidden_data()).await?)
    }

    /// The data that the sender may not read, and on which its expressions are evaluated.
    pub(super) fn hidden_data(&self) -> Vec<EvaluatedEntity> {
        let mut hidden = self.used.hidden_data();
        hidden.extend(self.configuration);
        hidden
    }

    /// Like [`UnsentTokens::reject`], for an error that does not depend on the data.
    pub(super) async fn reject_openly(mut self, error: ProxyError) -> ProxyError {
        match self.record_rejection().await {
            Ok(()) => {
                self.is_recorded = true;
                error
            }
            Err(record_error) => {
                self.app.metrics.proxy_failures.increment(CallFailureReason::Record);
                record_error.with_delivery(error.delivery())
            }
        }
    }

    /// An error that depends on data which the caller may not read is the same for all causes:
    /// otherwise one body with many expressions would disclose many digits.
    fn hide_cause(&self, error: ProxyError) -> ProxyError {
        let is_hidden = self.are_hidden() || self.configuration.is_some();
        if is_hidden && error.status().is_client_error() {
            return error.with_detail(StatusCode::BAD_REQUEST, DATA_RULE);
        }
        error
    }

    /// Whether the sender may not read all of the data.
    pub(super) fn are_hidden(&self) -> bool {
        let is_readable = |it: &Caller| self.used.are_readable_by(it);
        !self.used.is_empty() && !self.call.party.caller().is_some_and(is_readable)
    }

    /// Whether the sender may learn why a transform of the answer failed. The answer can contain the
    /// data.
    pub(super) fn may_explain_answer(&self) -> bool {
        let is_backend = self.call.party.caller().is_some_and(|it| !it.is_browser());
        is_backend && !self.are_hidden()
    }

    async fn record_rejection(&self) -> Result<(), ProxyError> {
        let sender = self.call.party.sender(&self.call.selected)?;
        let (vault, destination) = (&self.app.vault, self.destination());
        if self.used.is_empty() && self.configuration.is_some() {
            // The failure may depend on the configuration, and so disclose a part of it.
            queue_unsent_call(vault, sender, destination, REJECTED_CALL, &[]);
            return Ok(());
        }
        Ok(record_rejected_use(vault, sender, destination, &self.used).await?)
    }
}

impl Drop for UnsentTokens<'_> {
    /// The client disconnected, or the evaluation panicked, or a record could not be written.
    fn drop(&mut self) {
        if self.is_recorded {
            return;
        }
        if let Ok(sender) = self.call.party.sender(&self.call.selected) {
            queue_rejected_use(&self.app.vault, sender, self.destination(), &self.used);
        }
    }
}

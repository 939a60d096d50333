//! One attempt to deliver an event.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, header::RETRY_AFTER};
use scrip_core::{Timestamp, events::AttemptOutcome};
use scrip_egress::{ConnectionScope, Destination, EgressBody, EgressClient, SendFailure};
use tokio::time::{Instant, timeout};

/// How long a receiver may take for its answer, from the lookup of its name on.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a delivery is claimed: longer than an attempt and the storage of its result. After it,
/// any node repeats an attempt that has no result.
pub(super) const LEASE: Duration = Duration::from_secs(30);
const _: () = assert!(LEASE.as_secs() > ATTEMPT_TIMEOUT.as_secs() + 10);

/// The part of an answer's body that is read, so that the connection can be used again.
const ANSWER_BYTES_MAX: usize = 1024;
/// The status is the answer. The attempt waits this long for the body, and not for a receiver that
/// stops within it.
const ANSWER_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// What happened in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptReport {
    pub outcome: AttemptOutcome,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Why there is no answer. Its text contains no part of the URL.
    pub failure: Option<SendFailure>,
    pub elapsed: Duration,
}

/// The receiver of deliveries: a webhook of a tenant.
#[derive(Debug, Clone, Copy)]
pub struct WebhookReceiver<'a> {
    pub client: &'a EgressClient,
    pub destination: &'a Destination,
    /// Webhooks share no connections.
    pub scope: ConnectionScope,
    pub timeout: Duration,
}

impl WebhookReceiver<'_> {
    /// Sends a signed delivery and classifies the answer. Redirects are not followed.
    pub async fn attempt(&self, request: Request<Bytes>, now: Timestamp) -> AttemptReport {
        let started = Instant::now();
        let deadline = started + self.timeout;
        let sent = self.client.send(self.destination, self.scope, None, request, deadline).await;
        let (outcome, status, failure) = match sent {
            Ok(response) => {
                let status = response.status().as_u16();
                let retry_after = response.headers().get(RETRY_AFTER);
                let retry_after = retry_after.and_then(|it| it.to_str().ok());
                let outcome = AttemptOutcome::classify_answer(status, retry_after, now);
                skip_body(response.into_body()).await;
                (outcome, Some(status), None)
            }
            Err(error) => (classify_failure(error.failure), None, Some(error.failure)),
        };
        AttemptReport { outcome, status, failure, elapsed: started.elapsed() }
    }
}

/// Reads a short body, so that its connection goes back to the pool. A longer one closes it.
async fn skip_body(body: EgressBody) {
    // The status alone decides, so it does not matter how the body ends.
    drop(timeout(ANSWER_BODY_TIMEOUT, body.collect(ANSWER_BYTES_MAX)).await);
}

fn classify_failure(failure: SendFailure) -> AttemptOutcome {
    match failure {
        // The receiver did not fail.
        SendFailure::Overloaded => AttemptOutcome::Postponed,
        SendFailure::InvalidRequest
        | SendFailure::Rejected(_)
        | SendFailure::Lookup
        | SendFailure::Connect(_)
        | SendFailure::ConnectTimeout
        | SendFailure::ForwardProxy
        | SendFailure::Tls(_)
        | SendFailure::Timeout
        | SendFailure::Closed
        | SendFailure::Malformed => AttemptOutcome::Failed { retry_after: None },
    }
}

#[cfg(test)]
mod tests;

//! The log line of a proxied call that failed. It never contains a part of a message, of a token or
//! of a URL.

use std::borrow::Cow;

use scrip_core::{idempotency::CallDelivery, types::id::ProxyId};

use crate::metrics::{CallFailureReason, label::Label};

/// Why a proxied call failed, for the operator. The text depends on no data of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFailureCause {
    reason: CallFailureReason,
    text: Cow<'static, str>,
}

impl CallFailureCause {
    pub(crate) fn new(reason: CallFailureReason, text: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, text: text.into() }
    }
}

/// A proxied call that failed.
#[derive(Debug)]
pub(crate) struct FailedCall<'c> {
    pub(crate) trace: &'c str,
    /// `None` if the client named the destination.
    pub(crate) proxy: Option<ProxyId>,
    pub(crate) delivery: CallDelivery,
    pub(crate) status: u16,
    pub(crate) cause: &'c CallFailureCause,
}

impl FailedCall<'_> {
    pub(crate) fn log(&self) {
        let Self { trace, proxy, delivery, status, cause } = self;
        let CallFailureCause { reason, text } = cause;
        macro_rules! log_at {
            ($level:ident) => {
                tracing::$level!(
                    trace,
                    proxy = proxy.map(|it| it.to_string()),
                    status,
                    delivery = delivery.as_str(),
                    reason = reason.as_str(),
                    cause = text.as_ref(),
                    advice = advice(*reason),
                    "a proxied call failed"
                )
            };
        }
        // Clients must not fill the log of warnings with requests that break a rule.
        match self.is_fault_of_client() {
            true => log_at!(info),
            false => log_at!(warn),
        }
    }

    fn is_fault_of_client(&self) -> bool {
        self.cause.reason == CallFailureReason::Transform && matches!(self.status, 400 | 413)
    }
}

/// What the operator can do.
fn advice(reason: CallFailureReason) -> &'static str {
    match reason {
        CallFailureReason::Guard => {
            "if the destination is one of yours, add it to proxy.allow and its port to \
             proxy.allowed_ports"
        }
        CallFailureReason::Lookup => {
            "check the host in the destination_url of the proxy, and the name server of this machine"
        }
        CallFailureReason::Connect => {
            "check the firewall and the route from this machine to the destination, or \
             proxy.forward_proxy"
        }
        CallFailureReason::Tls => {
            "check the certificate of the destination, and ca_pem and the client certificate of the \
             proxy"
        }
        CallFailureReason::Timeout => {
            "ask the operator of the destination; the proxy's timeout or proxy.timeout_seconds sets \
             the limit"
        }
        CallFailureReason::Closed | CallFailureReason::Malformed => {
            "ask the operator of the destination"
        }
        CallFailureReason::Overloaded => {
            "see proxy.calls_max and proxy.destination_calls_max, and whether a destination is slow"
        }
        CallFailureReason::TooLarge => "a larger proxy.body_max allows larger answers",
        CallFailureReason::Transform => "compare the transforms of the proxy with the message",
        CallFailureReason::Record => "check the disk of the vault, or PostgreSQL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_reason_has_advice() {
        for reason in CallFailureReason::ALL {
            assert!(!advice(*reason).is_empty(), "{}", reason.as_str());
        }
    }

    #[test]
    fn only_a_transform_of_a_wrong_message_is_a_fault_of_the_client() {
        let is_fault = |reason, status| {
            let (proxy, delivery) = (None, CallDelivery::NotSent);
            let cause = CallFailureCause::new(reason, "text");
            FailedCall { trace: "trace", proxy, delivery, status, cause: &cause }
                .is_fault_of_client()
        };
        assert!(is_fault(CallFailureReason::Transform, 400));
        assert!(!is_fault(CallFailureReason::Transform, 422), "the proxy has a code transform");
        assert!(!is_fault(CallFailureReason::Transform, 502));
        assert!(!is_fault(CallFailureReason::Guard, 403));
    }
}

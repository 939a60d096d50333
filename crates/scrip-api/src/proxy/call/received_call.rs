//! A call with a known sender and a complete body, and the methods of calls.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use scrip_core::{
    expression::ValueCounting,
    operations::reference_data::DecryptedCallData,
    policy::{Caller, CallerRequirement},
    types::Permission,
};

use super::{
    party::CallParty,
    selection::{CallEntry, SelectedProxy},
    target::AppendedTarget,
};
use crate::proxy::outgoing::UsablePlaintext;

/// The methods of calls, and whether a call with the method honors an idempotency key.
pub(crate) const METHODS: [(&str, bool); 5] =
    [("POST", true), ("GET", false), ("PUT", true), ("PATCH", true), ("DELETE", false)];

/// A call with a known sender and a complete body.
#[derive(Debug)]
pub(super) struct ReceivedCall {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) target: AppendedTarget,
    pub(super) body: Bytes,
    pub(super) entry: CallEntry,
    pub(super) selected: SelectedProxy,
    pub(super) party: CallParty,
    /// The data that the client encrypted for this call.
    pub(super) encrypted: Option<Arc<DecryptedCallData<UsablePlaintext>>>,
}

impl ReceivedCall {
    /// Whether `{{` begins an expression. A client without an API key has no rights by which an
    /// expression could be evaluated.
    pub(super) fn evaluates_expressions(&self) -> bool {
        let is_disabled =
            |it: &SelectedProxy| it.proxy().is_some_and(|it| it.record().disable_detokenization);
        self.party.caller().is_some() && !is_disabled(&self.selected)
    }

    pub(super) fn method_name(&self) -> &'static str {
        method_name(&self.method)
    }

    /// Whether the client may read the configuration and the transforms of the proxy.
    pub(super) fn may_read_proxy(&self) -> bool {
        let needed = CallerRequirement::Permission(Permission::ProxyRead);
        let may_read = |it: &Caller| it.check_requirement(needed).is_ok();
        self.selected.proxy().is_none() || self.party.caller().is_some_and(may_read)
    }

    /// How values count that can contain the configuration or a text of a transform.
    pub(super) fn count_configuration(&self) -> ValueCounting {
        if self.may_read_proxy() { ValueCounting::Exact } else { ValueCounting::Padded }
    }
}

/// The name of a supported method; empty for another one.
pub(crate) fn method_name(method: &Method) -> &'static str {
    METHODS.iter().find(|(it, _)| *it == method.as_str()).map_or("", |(it, _)| it)
}

/// Whether a call with this method honors an idempotency key.
pub(super) fn honors_idempotency_key(method: &str) -> bool {
    METHODS.contains(&(method, true))
}

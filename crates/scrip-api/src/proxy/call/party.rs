//! The sender of a call: a caller with an API key, or a client that has only the key or the host of a
//! proxy.

use hyper::{HeaderMap, StatusCode, http::request::Parts};
use scrip_core::{
    Error,
    operations::proxy_calls::start_proxy_call::CallSender,
    policy::{
        Caller, Proxy, RequestOrigin, Tenant, UseRight,
        rate_limit::{ClientNetwork, CounterDigest, RateLimitTarget},
    },
    types::{Operation, error::Denial},
};

use crate::{
    app::App,
    middleware::admission::{self, admit_caller},
    problem::not_ready::not_ready,
    proxy::{
        call::selection::{CallEntry, SelectedProxy},
        error::ProxyError,
    },
    route::request_host,
};

/// The sender of a call.
#[derive(Debug, Clone)]
pub(super) enum CallParty {
    Caller { caller: Caller, right: UseRight },
    Keyless(RequestOrigin),
}

impl CallParty {
    /// Identifies the sender and counts the request toward its rate limits.
    /// Errors: the API key is missing or invalid, a rate limit is full, or the caller may not use
    /// the proxy.
    pub(super) async fn identify(
        app: &App,
        head: &Parts,
        entry: CallEntry,
        selected: &SelectedProxy,
        origin: RequestOrigin,
    ) -> Result<Self, ProxyError> {
        let target = rate_limit_target(app, head, entry, selected)?;
        let network = ClientNetwork::from_address(origin.address);
        if let Some(proxy) = keyless_proxy(selected, &head.headers) {
            let keyless_target =
                RateLimitTarget::KeylessProxy(CounterDigest::from_digest(&proxy.record().digest));
            let target = if entry == CallEntry::Host { target } else { keyless_target };
            admission::count_keyless(app, network, target).await?;
            return Ok(Self::Keyless(origin));
        }
        let caller = admit_caller(app, &head.headers, origin, target).await?;
        Ok(Self::from_caller(caller, selected))
    }

    /// Identifies the sender again, after the policy has changed.
    /// Errors: as [`CallParty::identify`].
    pub(super) async fn identify_again(
        app: &App,
        head: &Parts,
        selected: &SelectedProxy,
        origin: RequestOrigin,
    ) -> Result<Self, ProxyError> {
        if keyless_proxy(selected, &head.headers).is_some() {
            return Ok(Self::Keyless(origin));
        }
        let caller = admission::authenticate(app, &head.headers, origin).await?.caller;
        Ok(Self::from_caller(caller, selected))
    }

    fn from_caller(caller: Caller, selected: &SelectedProxy) -> Self {
        let right = match selected {
            SelectedProxy::Ephemeral(_) => UseRight::EphemeralProxy,
            SelectedProxy::PreConfigured(_) => UseRight::PreConfiguredProxy,
        };
        Self::Caller { caller, right }
    }

    /// Checks that the sender may use the proxy.
    /// Errors: the caller has no right to use tokens through the proxy, or the proxy belongs to
    /// another tenant.
    pub(super) fn check_rights(
        &self,
        selected: &SelectedProxy,
        entry: CallEntry,
    ) -> Result<(), ProxyError> {
        let Self::Caller { caller, .. } = self else { return Ok(()) };
        match selected {
            SelectedProxy::Ephemeral(_) if caller.tenant().settings.disable_ephemeral_proxy => {
                Err(Error::Forbidden(Denial::EphemeralProxyDisabled).into())
            }
            // The proxy of another tenant does not exist for this caller.
            SelectedProxy::PreConfigured(proxy) if proxy.tenant().id != caller.tenant().id => {
                Err(entry.unknown_proxy_error().into())
            }
            SelectedProxy::PreConfigured(proxy) if !proxy.record().require_auth => Ok(()),
            SelectedProxy::Ephemeral(_) | SelectedProxy::PreConfigured(_) => {
                self.check_expression_right()
            }
        }
    }

    /// Checks that the sender may let the vault evaluate expressions. At a proxy without
    /// `require_auth`, a public API key is sufficient for a call, but it must not read the
    /// configuration of the proxy.
    ///
    /// Errors: the caller has no right to use tokens through the proxy.
    pub(super) fn check_expression_right(&self) -> Result<(), ProxyError> {
        if let Self::Caller { caller, right } = self {
            drop(caller.permit_use_lookup(*right)?);
        }
        Ok(())
    }

    /// Checks that the sender may use an idempotency key. Its record needs the right to use tokens,
    /// because a replay needs it too. To ignore the key would let a repetition be sent twice.
    ///
    /// Errors: the caller has no right to use tokens through the proxy.
    pub(super) fn check_idempotency_right(&self) -> Result<(), ProxyError> {
        match self.check_expression_right() {
            Err(error) if error.status() == StatusCode::FORBIDDEN => {
                Err(Error::Forbidden(Denial::IdempotencyKeyNeedsUse).into())
            }
            result => result,
        }
    }

    pub(super) fn caller(&self) -> Option<&Caller> {
        match self {
            Self::Caller { caller, .. } => Some(caller),
            Self::Keyless(_) => None,
        }
    }

    pub(super) fn origin(&self) -> &RequestOrigin {
        match self {
            Self::Caller { caller, .. } => caller.origin(),
            Self::Keyless(origin) => origin,
        }
    }

    /// The tenant of the call.
    /// Errors: never: a keyless call has a proxy.
    pub(super) fn tenant<'a>(&'a self, selected: &'a SelectedProxy) -> Result<&'a Tenant, Error> {
        match (self, selected) {
            (Self::Caller { caller, .. }, _) => Ok(caller.tenant()),
            (Self::Keyless(_), SelectedProxy::PreConfigured(proxy)) => Ok(proxy.tenant()),
            (Self::Keyless(_), SelectedProxy::Ephemeral(_)) => Err(no_tenant()),
        }
    }

    /// The sender, for the records of the call.
    /// Errors: as [`CallParty::tenant`].
    pub(super) fn sender<'a>(
        &'a self,
        selected: &'a SelectedProxy,
    ) -> Result<CallSender<'a>, Error> {
        match (self, selected) {
            (Self::Caller { caller, right }, _) => Ok(CallSender::Caller { caller, right: *right }),
            (Self::Keyless(origin), SelectedProxy::PreConfigured(proxy)) => {
                Ok(CallSender::Keyless { tenant: proxy.tenant(), origin })
            }
            (Self::Keyless(_), SelectedProxy::Ephemeral(_)) => Err(no_tenant()),
        }
    }
}

fn no_tenant() -> Error {
    Error::Internal("an ephemeral proxy has no tenant".into())
}

/// Whether the call needs no API key and has none.
pub(super) fn is_keyless(selected: &SelectedProxy, headers: &HeaderMap) -> bool {
    keyless_proxy(selected, headers).is_some()
}

/// The proxy, if the call needs no API key and has none.
fn keyless_proxy<'a>(selected: &'a SelectedProxy, headers: &HeaderMap) -> Option<&'a Proxy> {
    let proxy = selected.proxy().filter(|it| !it.record().require_auth)?;
    (!headers.contains_key(admission::HEADER)).then_some(&**proxy)
}

fn rate_limit_target(
    app: &App,
    head: &Parts,
    entry: CallEntry,
    selected: &SelectedProxy,
) -> Result<RateLimitTarget, ProxyError> {
    if entry == CallEntry::Path {
        return Ok(RateLimitTarget::Operation(Operation::InvokeProxy));
    }
    let pepper = app.pepper().map_err(|_| not_ready(app))?;
    // The name of the proxy's host, not the text of the request, which differs in case and port.
    let host = selected.proxy().and_then(|it| it.record().host.as_ref()).map(|it| it.as_str());
    let host = host.or_else(|| request_host(head)).unwrap_or_default();
    let digest = pepper.counter_name(&[b"proxy host", host.as_bytes()]);
    Ok(RateLimitTarget::ProxyHostname(CounterDigest::from_digest(&digest)))
}

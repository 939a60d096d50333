//! Requests to sources that the operator configured.

mod endpoint;
mod tls_trust;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method,
    header::{HeaderName, HeaderValue},
};
use scrip_egress::configured::{ConnectError, ConnectOptions, ServerResponse, connect};
use scrip_seal::Secret;
use serde::Serialize;
use zeroize::Zeroizing;

pub(crate) use self::{endpoint::Endpoint, tls_trust::TlsTrust};
use crate::source::UnlockError;

const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// The longest request has a web token of some kilobytes.
const REQUEST_BYTES_TYPICAL: usize = 16 * 1024;
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);

/// A request to a source. There is no `Debug`: the body may contain a key.
pub(crate) struct SourceRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

/// Sends a request and reads the response. The caller limits the time.
pub(crate) async fn send_request(
    endpoint: &Endpoint,
    trust: &TlsTrust,
    request: SourceRequest,
) -> Result<ServerResponse, UnlockError> {
    let address = &endpoint.address;
    let authority = &address.authority;
    let options = ConnectOptions {
        tls: address.is_https.then(|| trust.config()).transpose()?,
        is_allowed: endpoint.allowed_addresses(),
        address_timeout: ADDRESS_TIMEOUT,
    };
    let connection = connect(address, &options).await;
    let connection = connection.map_err(|it| explain_connect_error(authority, &it))?;
    let mut builder = address.request(request.method, &request.path);
    for (name, value) in request.headers {
        builder = builder.header(name, value);
    }
    // The body is wiped when the last reference is dropped.
    let request = builder.body(Full::new(Bytes::from_owner(request.body)));
    let request = request
        .map_err(|_| UnlockError::Settings("the path of a request is not valid".to_owned()))?;
    let response = connection.exchange(request, RESPONSE_BYTES_MAX).await.map_err(|cause| {
        UnlockError::Unavailable(format!("the exchange with {authority} failed: {cause}"))
    })?;
    if response.status.is_redirection() {
        return Err(UnlockError::Unavailable(format!(
            "{authority} redirects to another server (status {}), which is not followed: set the \
             address of the server that answers",
            response.status.as_u16()
        )));
    }
    Ok(response)
}

fn explain_connect_error(authority: &str, error: &ConnectError) -> UnlockError {
    let message = match error {
        ConnectError::NotAllowed(address) => {
            return UnlockError::Settings(format!(
                "{authority} has the address {address}, and http is for addresses of this machine \
                 only: use https"
            ));
        }
        ConnectError::Lookup(kind) => format!("cannot resolve the host of {authority}: {kind}"),
        ConnectError::Tls(error) => {
            let rustls_error = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
            let cause = match rustls_error {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    "its certificate is not valid for this name, expired, or not issued by a \
                     trusted authority: set a CA file, or correct the address"
                        .to_owned()
                }
                _ => error.kind().to_string(),
            };
            format!("no TLS connection to {authority}: {cause}")
        }
        ConnectError::NoAddress | ConnectError::Timeout(_) | ConnectError::Connect(..) => {
            format!("cannot connect to {authority}: {error}")
        }
    };
    UnlockError::Unavailable(message)
}

/// A header value that is wiped from memory and not printed.
pub(crate) fn secret_header(secret: &Secret) -> Result<HeaderValue, UnlockError> {
    let bytes = Bytes::from_owner(Zeroizing::new(secret.expose().to_vec()));
    let value = HeaderValue::from_maybe_shared(bytes);
    let mut value = value.map_err(|_| {
        UnlockError::Settings("a secret contains a line break or a control character".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// JSON in a buffer that is wiped. It does not grow, because that would leave copies in memory.
pub(crate) fn secret_json(value: &impl Serialize) -> Result<Zeroizing<Vec<u8>>, UnlockError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(REQUEST_BYTES_TYPICAL));
    serde_json::to_writer(&mut *bytes, value)
        .map_err(|_| UnlockError::Settings("a setting is not valid text".to_owned()))?;
    Ok(bytes)
}

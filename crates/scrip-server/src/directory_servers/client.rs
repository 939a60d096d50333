//! Sends one request to a directory server over HTTP. A message that may have been received is never
//! sent again.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use scrip_core::threeds::DirectoryServerError;
use scrip_egress::configured::{ExchangeError, ServerAddress, ServerConnection, connect};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::directory_servers::transport::Transport;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// Timeouts of a request to a directory server.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeTimeouts {
    /// From the DNS lookup to the end of the handshake, for each address.
    pub connect: Duration,
    /// From the first byte of the message to the last byte of the response.
    pub response: Duration,
}

/// A message, and the maximum size of the response.
#[derive(Debug)]
pub(crate) struct DirectoryRequest {
    pub(crate) message: Zeroizing<Vec<u8>>,
    pub(crate) response_bytes_max: usize,
}

/// Why a request failed, with a cause for the log. Contains no sent or received data.
#[derive(Debug)]
pub(crate) struct RequestFailure {
    pub(crate) error: DirectoryServerError,
    pub(crate) cause: String,
}

/// Sends the message to the first address that accepts a connection. Tries the next address only if
/// no byte of the message was written.
pub(crate) async fn send_request(
    transport: &impl Transport,
    request: DirectoryRequest,
    timeouts: ExchangeTimeouts,
) -> Result<Zeroizing<Vec<u8>>, RequestFailure> {
    let DirectoryRequest { message, response_bytes_max } = request;
    // The message is wiped when the last reference is dropped; clones share it.
    let message = Bytes::from_owner(message);
    let mut causes = Vec::new();
    let options = transport.connect_options(timeouts.connect);
    for address in transport.addresses() {
        let name = &address.authority;
        let connection = match timeout(timeouts.connect, connect(address, &options)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                causes.push(format!("{name}: {error}"));
                continue;
            }
            Err(_) => {
                causes.push(format!("{name}: connect timeout"));
                continue;
            }
        };
        let sent = connection.sent();
        let exchange = exchange(connection, address, message.clone(), response_bytes_max);
        let (error, cause) = match timeout(timeouts.response, exchange).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(cause)) => (DirectoryServerError::Broken, format!("{name}: {cause}")),
            Err(_) => (DirectoryServerError::TimedOut, format!("{name}: response timeout")),
        };
        if sent.has_left() {
            return Err(RequestFailure { error, cause });
        }
        causes.push(cause);
    }
    Err(RequestFailure { error: DirectoryServerError::NotSent, cause: causes.join("; ") })
}

/// Only status 200 is a response. Errors: the cause.
async fn exchange(
    connection: ServerConnection,
    address: &ServerAddress,
    message: Bytes,
    response_bytes_max: usize,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let request = address
        .request(Method::POST, &address.path)
        .header(CONTENT_TYPE, JSON)
        .header(ACCEPT, "application/json")
        .body(Full::new(message))
        .map_err(|it| it.to_string())?;
    let (status, result) = match connection.exchange(request, response_bytes_max).await {
        Ok(response) => (response.status, Ok(response.body)),
        Err(error @ ExchangeError::TooLarge { status, .. }) => (status, Err(error.to_string())),
        Err(error) => return Err(error.to_string()),
    };
    match status {
        StatusCode::OK => result,
        _ => Err(format!("HTTP status {}", status.as_u16())),
    }
}

//! Sends one request to a directory server over HTTP.
//!
//! Every request uses a new connection. On a reused connection it would be unknown whether the
//! server closed it before or after receiving the message, and a message that may have been
//! received is never sent again.

use std::{pin::pin, time::Duration};

use anyhow::bail;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Incoming},
    client::conn::http1,
    header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use scrip_core::threeds::DirectoryServerError;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::directory_servers::{
    address::HttpAddress,
    transport::{Duplex, Transport},
    write_tracking_stream::{WriteStarted, WriteTracking},
};

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const HEAD_BYTES_MAX: usize = 64 * 1024;

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
) -> Result<Vec<u8>, RequestFailure> {
    let DirectoryRequest { message, response_bytes_max } = request;
    // The message is wiped when the last reference is dropped; clones share it.
    let message = Bytes::from_owner(message);
    let mut causes = Vec::new();
    for address in transport.addresses() {
        let name = &address.authority;
        let stream = match timeout(timeouts.connect, transport.connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                causes.push(format!("{name}: {error}"));
                continue;
            }
            Err(_) => {
                causes.push(format!("{name}: connect timeout"));
                continue;
            }
        };
        let write_started = WriteStarted::default();
        let stream = WriteTracking::new(stream, write_started.clone());
        let exchange =
            exchange(stream, build_request(address, message.clone())?, response_bytes_max);
        let (error, cause) = match timeout(timeouts.response, exchange).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => (DirectoryServerError::Broken, format!("{name}: {error:#}")),
            Err(_) => (DirectoryServerError::TimedOut, format!("{name}: response timeout")),
        };
        if write_started.is_set() {
            return Err(RequestFailure { error, cause });
        }
        causes.push(cause);
    }
    Err(RequestFailure { error: DirectoryServerError::NotSent, cause: causes.join("; ") })
}

fn build_request(
    address: &HttpAddress,
    message: Bytes,
) -> Result<Request<Full<Bytes>>, RequestFailure> {
    let request = Request::post(&address.path)
        .header(HOST, &address.authority)
        .header(CONTENT_TYPE, JSON)
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .body(Full::new(message));
    request.map_err(|error| RequestFailure {
        error: DirectoryServerError::NotSent,
        cause: error.to_string(),
    })
}

async fn exchange(
    stream: WriteTracking<Box<dyn Duplex>>,
    request: Request<Full<Bytes>>,
    response_bytes_max: usize,
) -> anyhow::Result<Vec<u8>> {
    let mut builder = http1::Builder::new();
    // Vectored writes avoid a copy: the write buffer would not be wiped after sending a card
    // number.
    builder.writev(true).max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let response = async {
        let response = sender.send_request(request).await?;
        read_response(response, response_bytes_max).await
    };
    let (mut response, mut connection) = (pin!(response), pin!(connection));
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            result = &mut response => return result,
            // The other future returns the error of the connection.
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

/// Only status 200 is a response; redirects are not followed.
async fn read_response(response: Response<Incoming>, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    if response.status() != StatusCode::OK {
        bail!("HTTP status {}", response.status().as_u16());
    }
    let mut body = response.into_body();
    let too_large = || anyhow::anyhow!("the response has more than {bytes_max} bytes");
    let length_hint = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if length_hint > bytes_max {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(length_hint);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len().saturating_add(data.len()) > bytes_max {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

//! One question over HTTP, and its answer.
//!
//! Every question has a connection of its own. On one that was kept, nobody could tell whether the
//! other side had closed it before or after it saw the message; and what may have been seen is not
//! sent again.

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

/// How long others may take.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeTimeouts {
    /// From looking up the name to the end of the handshake, for each address.
    pub connect: Duration,
    /// From the first byte of the message to the last of the answer.
    pub response: Duration,
}

/// A message, and what is taken for an answer to it.
#[derive(Debug)]
pub(crate) struct DirectoryRequest {
    pub(crate) message: Zeroizing<Vec<u8>>,
    pub(crate) response_bytes_max: usize,
}

/// Why there is no answer, and more of it for the log. Never what was sent or received.
#[derive(Debug)]
pub(crate) struct RequestFailure {
    pub(crate) error: DirectoryServerError,
    pub(crate) cause: String,
}

/// Asks at the first address that lets us in; the next one only as long as nothing has left.
pub(crate) async fn send_request(
    transport: &impl Transport,
    request: DirectoryRequest,
    timeouts: ExchangeTimeouts,
) -> Result<Vec<u8>, RequestFailure> {
    let DirectoryRequest { message, response_bytes_max: answer_bytes_max } = request;
    // Wiped when the last part of it is dropped; a clone is no copy.
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
                causes.push(format!("{name}: no connection in time"));
                continue;
            }
        };
        let started = WriteStarted::default();
        let stream = WriteTracking::new(stream, started.clone());
        let exchange = exchange(stream, build_request(address, message.clone())?, answer_bytes_max);
        let (unanswered, cause) = match timeout(timeouts.response, exchange).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => (DirectoryServerError::Broken, format!("{name}: {error:#}")),
            Err(_) => (DirectoryServerError::TimedOut, format!("{name}: no answer in time")),
        };
        if started.is_set() {
            return Err(RequestFailure { error: unanswered, cause });
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
    // Written from where it lies: a buffer with a card number in it would not be wiped.
    builder.writev(true).max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let asking = async {
        let response = sender.send_request(request).await?;
        read_response(response, response_bytes_max).await
    };
    let (mut asking, mut connection) = (pin!(asking), pin!(connection));
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            answer = &mut asking => return answer,
            // Its end is told to the one above, with the cause.
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

/// Anything but 200 is no answer; where a redirection leads, nobody goes.
async fn read_response(response: Response<Incoming>, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    if response.status() != StatusCode::OK {
        bail!("HTTP status {}", response.status().as_u16());
    }
    let mut body = response.into_body();
    let too_large = || anyhow::anyhow!("the answer has more than {bytes_max} bytes");
    let told = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if told > bytes_max {
        return Err(too_large());
    }
    let mut answer = Vec::with_capacity(told);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if answer.len().saturating_add(data.len()) > bytes_max {
            return Err(too_large());
        }
        answer.extend_from_slice(&data);
    }
    Ok(answer)
}

//! A server for HTTP/1.1 on raw bytes: a test sees every byte that arrived, and can send bytes that
//! no library would send.

use std::{future::pending, io};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::destination::{
    behavior::{CannedResponse, DestinationBehavior},
    host_state::{ConnectionInfo, HostState},
    request::DestinationRequest,
};

/// A longer request ends the connection.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Serves requests until the client or a behavior closes the connection.
pub(super) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &HostState,
    connection: &ConnectionInfo,
) {
    let mut buffer = Vec::new();
    while let Ok(Some(request)) = read_request(&mut stream, &mut buffer, connection).await {
        let content_type = request.headers_named("content-type").first().map(|it| (*it).to_owned());
        let body = request.body.clone();
        let is_head = request.method == "HEAD";
        host.record(request);
        let behavior = host.next_reaction().await;
        let response = match behavior {
            DestinationBehavior::Echo => {
                CannedResponse::new(200, content_type.as_deref().unwrap_or("text/plain"), body)
            }
            DestinationBehavior::Respond(response) => response,
            DestinationBehavior::Raw(bytes) => {
                drop(stream.write_all(&bytes).await);
                break;
            }
            DestinationBehavior::RawThenSilent(bytes) => {
                drop(stream.write_all(&bytes).await);
                drop(stream.flush().await);
                pending().await
            }
            DestinationBehavior::HangUp => break,
            DestinationBehavior::Endless => return send_endless(&mut stream).await,
            DestinationBehavior::Silent
            | DestinationBehavior::Gated(_)
            | DestinationBehavior::Delayed(..) => pending().await,
        };
        if send_response(&mut stream, &response, is_head).await.is_err() {
            return;
        }
    }
    // Without this message of TLS, a closed connection would be an attack that cuts a response.
    drop(stream.shutdown().await);
}

async fn send_response(
    stream: &mut (impl AsyncWrite + Unpin),
    response: &CannedResponse,
    is_head: bool,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Reason\r\n", response.status);
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let has_body = !matches!(response.status, 204 | 304);
    if has_body {
        head.push_str(&format!("Content-Length: {}\r\n", response.body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    if has_body && !is_head {
        bytes.extend_from_slice(&response.body);
    }
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// Sends a body without an end, until the client closes the connection.
async fn send_endless(stream: &mut (impl AsyncWrite + Unpin)) {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
    if stream.write_all(head).await.is_err() {
        return;
    }
    let chunk = [b"1000\r\n".as_slice(), &[b' '; 4096], b"\r\n"].concat();
    while stream.write_all(&chunk).await.is_ok() {}
}

/// Reads the next request. Returns `None` at the end of the connection.
async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    connection: &ConnectionInfo,
) -> io::Result<Option<DestinationRequest>> {
    let head_end = loop {
        if let Some(position) = find(buffer, b"\r\n\r\n") {
            break position + 4;
        }
        if !fill(stream, buffer).await? {
            return Ok(None);
        }
    };
    let head: Vec<u8> = buffer.drain(..head_end).collect();
    let text = String::from_utf8(head.clone()).map_err(io::Error::other)?;
    let mut lines = text.trim_end().split("\r\n");
    let mut request_line = lines.next().unwrap_or_default().split(' ');
    let method = request_line.next().unwrap_or_default().to_owned();
    let target = request_line.next().unwrap_or_default().to_owned();
    let headers = lines.filter_map(|it| it.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let mut request = DestinationRequest {
        method,
        target,
        headers: headers.collect(),
        body: Vec::new(),
        head,
        is_http2: false,
        connection: connection.number,
        client_certificate: connection.client_certificate.clone(),
        tls_version: connection.tls_version.clone(),
    };
    let length = request.headers_named("content-length").first().map(|it| it.parse());
    let is_chunked = request.headers_named("transfer-encoding").contains(&"chunked");
    request.body = match length {
        Some(length) => take(stream, buffer, length.map_err(io::Error::other)?).await?,
        None if is_chunked => read_chunks(stream, buffer).await?,
        None => Vec::new(),
    };
    Ok(Some(request))
}

async fn read_chunks(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = loop {
            if let Some(position) = find(buffer, b"\r\n") {
                break position + 2;
            }
            if !fill(stream, buffer).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let line: Vec<u8> = buffer.drain(..line_end).collect();
        let line = String::from_utf8_lossy(&line).into_owned();
        let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        body.extend(take(stream, buffer, length).await?);
        take(stream, buffer, 2).await?;
        if length == 0 {
            return Ok(body);
        }
    }
}

async fn take(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    length: usize,
) -> io::Result<Vec<u8>> {
    if length > REQUEST_BYTES_MAX {
        return Err(io::Error::other("the request is too long"));
    }
    while buffer.len() < length {
        if !fill(stream, buffer).await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buffer.drain(..length).collect())
}

/// Reads more bytes. Returns `false` at the end.
async fn fill(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> io::Result<bool> {
    if buffer.len() > REQUEST_BYTES_MAX {
        return Err(io::Error::other("the request is too long"));
    }
    Ok(stream.read_buf(buffer).await? > 0)
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|it| it == pattern)
}

//! Requests that prepare a measurement, with the key of the management application.

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::process::BenchServer;

/// Sends one request and returns the JSON of the response; `Null` if it has no body.
pub(crate) async fn send_json(
    server: &BenchServer,
    request_line: &str,
    body: &Value,
) -> anyhow::Result<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{request_line} HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.management_key,
        body.len()
    );
    let mut stream = TcpStream::connect(server.address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").context("a response has no body")?;
    ensure!(head.starts_with("HTTP/1.1 2"), "{request_line} failed: {head}\n{body}");
    if body.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(body)?) }
}

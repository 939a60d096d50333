//! A client that knows what it sent and what came back, and nothing in between: no retries. Every
//! response must be in the OpenAPI document.

use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

use crate::contract::{Contract, Exchange, document};

/// Far longer than any answer takes: a server that hangs fails the test.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Where a server is, and what it said when it was ready: its keys.
#[derive(Debug, Clone)]
pub struct ServerAddress {
    pub address: SocketAddr,
    pub ready_message: Value,
}

pub struct HttpClient {
    stream: BufReader<TcpStream>,
    api_key: String,
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub body: String,
}

impl HttpClient {
    pub fn connect(batch: &ServerAddress) -> io::Result<Self> {
        let stream = TcpStream::connect(batch.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let api_key =
            batch.ready_message["keys"]["private"].as_str().unwrap_or_default().to_owned();
        Ok(Self { stream: BufReader::new(stream), api_key })
    }

    /// An error means that nobody knows what became of the request.
    pub fn send(
        &mut self,
        request_line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<HttpResponse> {
        let api_key = &self.api_key;
        let mut head =
            format!("{request_line} HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {api_key}\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.stream.get_mut().write_all(head.as_bytes())?;
        let exchange = self.read_response(request_line)?;
        assert_eq!(Contract::new(document(), &[]).check(&exchange), Ok(()));
        Ok(HttpResponse { status: exchange.status, body: exchange.body })
    }

    fn read_response(&mut self, request_line: &str) -> io::Result<Exchange> {
        let broken = |what: &str| io::Error::new(io::ErrorKind::UnexpectedEof, what.to_owned());
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or_else(|| broken("no status"))?;
        let (mut length, mut headers) = (0, HashMap::new());
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(broken("the head broke off"));
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| broken("no length"))?;
            }
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8(body).map_err(|_| broken("not text"))?;
        let (method, path) = request_line.split_once(' ').unwrap_or((request_line, ""));
        let (method, path) = (method.to_owned(), path.to_owned());
        Ok(Exchange { method, path, status, headers, body })
    }
}

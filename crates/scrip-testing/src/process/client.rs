//! An HTTP client without retries, so that a test knows exactly what was sent. Every response must
//! match the OpenAPI document.

use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

use crate::contract::{Contract, Exchange, document};

/// Far longer than any response takes: a server that hangs fails the test.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// The address of a server, and its ready message with the keys.
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
    pub fn connect(server: &ServerAddress) -> io::Result<Self> {
        let stream = TcpStream::connect(server.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let api_key =
            server.ready_message["keys"]["private"].as_str().unwrap_or_default().to_owned();
        Ok(Self { stream: BufReader::new(stream), api_key })
    }

    /// Sends a request. After an error the outcome of the request is unknown.
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
        let to_error =
            |reason: &str| io::Error::new(io::ErrorKind::UnexpectedEof, reason.to_owned());
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or_else(|| to_error("no status"))?;
        let (mut length, mut headers) = (0, HashMap::new());
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(to_error("incomplete head"));
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| to_error("no length"))?;
            }
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8(body).map_err(|_| to_error("body is not text"))?;
        let (method, path) = request_line.split_once(' ').unwrap_or((request_line, ""));
        let (method, path) = (method.to_owned(), path.to_owned());
        Ok(Exchange { method, path, status, headers, body })
    }
}

//! A request as the destination received it.

/// A request as the destination received it.
#[derive(Debug, Clone)]
pub struct DestinationRequest {
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// Names and values in the order and the letter case in which they arrived.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The bytes of the head; empty for HTTP/2.
    pub head: Vec<u8>,
    pub is_http2: bool,
    /// The number of the connection. A connection that is reused keeps its number.
    pub connection: usize,
    /// The certificate that the client presented.
    pub client_certificate: Option<Vec<u8>>,
    /// The protocol version of TLS, such as `TLSv1_3`; empty without TLS.
    pub tls_version: String,
}

impl DestinationRequest {
    /// The value of the only header with this name. Panics if there are several.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let values = self.headers_named(name);
        assert!(values.len() < 2, "{name} arrived {} times", values.len());
        values.first().copied()
    }

    pub fn headers_named(&self, name: &str) -> Vec<&str> {
        let matching = self.headers.iter().filter(|it| it.0.eq_ignore_ascii_case(name));
        matching.map(|it| it.1.as_str()).collect()
    }

    /// The names of all headers in lower case, sorted.
    pub fn header_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.headers.iter().map(|it| it.0.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names
    }

    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8 text")
    }
}

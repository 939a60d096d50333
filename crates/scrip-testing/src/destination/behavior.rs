//! The reactions of a destination to a request.

use std::time::Duration;

/// The reaction of a host after it has read a request completely.
#[derive(Debug, Clone)]
pub enum DestinationBehavior {
    /// Responds with the body and the content type of the request.
    Echo,
    Respond(CannedResponse),
    /// Waits until the test opens the gate, then reacts.
    Gated(Box<Self>),
    /// Waits this long, then reacts.
    Delayed(Duration, Box<Self>),
    /// Writes these bytes instead of a response and closes the connection. HTTP/1.1 only.
    Raw(Vec<u8>),
    /// Writes these bytes and keeps the connection open without another byte. HTTP/1.1 only.
    RawThenSilent(Vec<u8>),
    /// Never responds and keeps the connection open.
    Silent,
    /// Closes the connection without a response.
    HangUp,
    /// Responds with a body without an end.
    Endless,
}

/// A response with its headers in order.
#[derive(Debug, Clone)]
pub struct CannedResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl CannedResponse {
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let response = Self { status, headers: Vec::new(), body: body.into() };
        response.with_header("Content-Type", content_type)
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl From<CannedResponse> for DestinationBehavior {
    fn from(response: CannedResponse) -> Self {
        Self::Respond(response)
    }
}

impl DestinationBehavior {
    /// Responds with this status and JSON body.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        CannedResponse::new(status, "application/json", body.to_string()).into()
    }

    pub fn text(status: u16, body: &str) -> Self {
        CannedResponse::new(status, "text/plain", body).into()
    }

    /// Waits for the gate before this reaction.
    #[must_use]
    pub fn gated(self) -> Self {
        Self::Gated(Box::new(self))
    }
}

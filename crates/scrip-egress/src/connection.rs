//! Established HTTP connections.

pub(crate) mod http1;
pub(crate) mod http2;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;

use crate::error::SendError;

pub(crate) type OutgoingRequest = Request<Full<Bytes>>;

/// A failed exchange.
#[derive(Debug)]
pub(crate) struct ExchangeFailure {
    pub(crate) error: SendError,
    /// The request, if the connection closed before the request was taken. No byte of it left.
    pub(crate) request: Option<OutgoingRequest>,
}

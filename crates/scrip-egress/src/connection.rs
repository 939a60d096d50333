//! Established HTTP connections.

pub(crate) mod http1;
pub(crate) mod http2;

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::time::{Instant, Sleep};

use crate::error::SendError;

pub(crate) type OutgoingRequest = Request<Full<Bytes>>;

/// A failed exchange.
#[derive(Debug)]
pub(crate) struct ExchangeFailure {
    pub(crate) error: SendError,
    /// The request, if the connection closed before the request was taken. No byte of it left.
    pub(crate) request: Option<OutgoingRequest>,
}

/// Ready at the deadline. A timer alone stays pending while its task has used up its share of input,
/// which a peer can achieve by sending without end. So the time is compared too.
pub(crate) fn poll_deadline(mut deadline: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<()> {
    if deadline.deadline() <= Instant::now() {
        return Poll::Ready(());
    }
    deadline.as_mut().poll(context)
}

//! A request body that records when the request waits for the client.
//!
//! A request with a body that does not arrive does not count as work in progress: its connection
//! can be evicted.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::connections::activity::Activity;

/// This many bytes count as progress. A client that sends single bytes now and then makes none.
const PROGRESS_BYTES: usize = 256;

pub(crate) struct TrackedBody<B> {
    inner: B,
    activity: Arc<Activity>,
    is_waiting: bool,
    /// Bytes received since the last progress.
    bytes: usize,
}

impl<B> TrackedBody<B> {
    pub(crate) fn new(inner: B, activity: Arc<Activity>) -> Self {
        Self { inner, activity, is_waiting: false, bytes: 0 }
    }

    fn start_waiting(&mut self) {
        if !self.is_waiting {
            self.is_waiting = true;
            self.activity.start_waiting();
        }
    }

    fn stop_waiting(&mut self) {
        if self.is_waiting {
            self.is_waiting = false;
            self.activity.stop_waiting();
        }
    }

    fn count_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= PROGRESS_BYTES {
            self.bytes = 0;
            self.activity.record_progress();
        }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for TrackedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Pending => self.start_waiting(),
            Poll::Ready(frame) => {
                self.stop_waiting();
                let data = frame.as_ref().and_then(|it| it.as_ref().ok()?.data_ref());
                self.count_bytes(data.map_or(0, Bytes::len));
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for TrackedBody<B> {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}

//! A pause in a long request, so that other requests run meanwhile.

use std::{future::poll_fn, task::Poll};

/// Yields to other requests between two pieces of work of one request.
pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

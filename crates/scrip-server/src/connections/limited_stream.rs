//! A client stream with limits for the first byte and for reading responses.
//!
//! There are three limits: the time to the first byte, the time of a write without progress, and
//! the rate at which a response must be read. Without them, a client that sends nothing, or sends
//! requests and hardly reads, would occupy its connection forever.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use scrip_api::app::limits::MinimumRate;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::{
    clock::ticks,
    connections::{CloseReason, ConnectionLimits, table::Activity},
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamLimits {
    pub(crate) first_byte_deadline: Duration,
    /// Maximum time of a write without progress.
    pub(crate) write_deadline: Duration,
    pub(crate) response_rate: MinimumRate,
}

impl StreamLimits {
    pub(crate) fn from_connection_limits(limits: &ConnectionLimits) -> Self {
        Self {
            first_byte_deadline: limits.first_byte_deadline,
            write_deadline: limits.header_deadline,
            response_rate: limits.response_rate,
        }
    }
}

pub(crate) struct LimitedStream<S> {
    inner: S,
    limits: StreamLimits,
    activity: Arc<Activity>,
    /// Set until the first byte arrived.
    first_byte_timer: Option<Pin<Box<Sleep>>>,
    blocked_write: Option<BlockedWrite>,
    window: WriteWindow,
}

/// A write that the socket currently does not accept.
struct BlockedWrite {
    since: Duration,
    timer: Pin<Box<Sleep>>,
}

/// Time in which writes were blocked, and the bytes written since its start. Time without pending
/// writes does not count.
#[derive(Debug, Default)]
struct WriteWindow {
    waited: Duration,
    bytes: u64,
}

impl<S> LimitedStream<S> {
    pub(crate) fn new(inner: S, limits: StreamLimits, activity: Arc<Activity>) -> Self {
        let first_byte_timer = Some(Box::pin(sleep(limits.first_byte_deadline)));
        let window = WriteWindow::default();
        Self { inner, limits, activity, first_byte_timer, blocked_write: None, window }
    }

    /// Records the reason and returns a timeout error, which closes the connection.
    fn fail<T>(&self, reason: CloseReason) -> Poll<io::Result<T>> {
        self.activity.set_close_reason(reason);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn next_timer(&self, waited: Duration) -> Duration {
        let remaining = self.limits.write_deadline.saturating_sub(waited);
        if self.limits.response_rate.bytes_per_second == 0 {
            return remaining;
        }
        let blocked_time = self.window.waited.saturating_add(waited);
        remaining.min(self.limits.response_rate.window.saturating_sub(blocked_time))
    }

    /// Handles a blocked write. Returns an error when a limit is exceeded.
    fn poll_blocked<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.activity.start_write_blocked();
        loop {
            let mut blocked = match self.blocked_write.take() {
                Some(blocked) => blocked,
                None => {
                    let timer = Box::pin(sleep(self.next_timer(Duration::ZERO)));
                    BlockedWrite { since: ticks(), timer }
                }
            };
            if blocked.timer.as_mut().poll(context).is_pending() {
                self.blocked_write = Some(blocked);
                return Poll::Pending;
            }
            let waited = ticks().saturating_sub(blocked.since);
            if waited >= self.limits.write_deadline {
                return self.fail(CloseReason::ResponseNotRead);
            }
            let rate = self.limits.response_rate;
            let blocked_time = self.window.waited.saturating_add(waited);
            if rate.bytes_per_second > 0 && blocked_time >= rate.window {
                if rate.is_missed(self.window.bytes) {
                    return self.fail(CloseReason::ResponseTooSlow);
                }
                // Start the next window now; the blocked time so far belongs to the last one.
                self.window = WriteWindow { waited: Duration::ZERO, bytes: 0 };
                blocked.since = ticks();
            }
            let remaining = self.next_timer(ticks().saturating_sub(blocked.since));
            // A timer may fire slightly early compared to the other clock.
            blocked.timer = Box::pin(sleep(remaining.max(Duration::from_millis(1))));
            self.blocked_write = Some(blocked);
        }
    }

    fn track_write(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Ready(result) => self.record_progress(result.as_ref().map_or(0, |it| *it)),
            Poll::Pending => return self.poll_blocked(context),
        }
        polled
    }

    fn record_progress(&mut self, bytes: usize) {
        if let Some(blocked) = self.blocked_write.take() {
            let waited = ticks().saturating_sub(blocked.since);
            if self.window.waited.is_zero() {
                self.window.bytes = 0;
            }
            self.window.waited = self.window.waited.saturating_add(waited);
            self.activity.stop_write_blocked();
        }
        self.window.bytes =
            self.window.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(result) = Pin::new(&mut self.inner).poll_read(context, buffer) {
            self.first_byte_timer = None;
            return Poll::Ready(result);
        }
        let Some(timer) = &mut self.first_byte_timer else { return Poll::Pending };
        ready!(timer.as_mut().poll(context));
        self.fail(CloseReason::NoFirstByte)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.track_write(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.track_write(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(context);
        if polled.is_pending() { self.poll_blocked(context) } else { polled }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(context);
        if polled.is_pending() { self.poll_blocked(context) } else { polled }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const NEVER: Duration = Duration::from_secs(600);

    fn limits() -> StreamLimits {
        let response_rate = MinimumRate { bytes_per_second: 0, window: NEVER };
        StreamLimits { first_byte_deadline: NEVER, write_deadline: NEVER, response_rate }
    }

    fn limited_pair(
        buffer: usize,
        limits: StreamLimits,
    ) -> (LimitedStream<DuplexStream>, DuplexStream) {
        let (server, client) = duplex(buffer);
        (LimitedStream::new(server, limits, Arc::new(Activity::new())), client)
    }

    #[tokio::test]
    async fn client_that_never_reads_is_disconnected() {
        let write_timeout = Duration::from_millis(100);
        let (mut server, mut client) =
            limited_pair(8, StreamLimits { write_deadline: write_timeout, ..limits() });
        server.write_all(b"12345678").await.unwrap();
        let error = server.write_all(b"9").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(server.activity.close_reason(), Some(CloseReason::ResponseNotRead));
        let mut buffer = [0; 8];
        client.read_exact(&mut buffer).await.unwrap();
    }

    async fn read_slowly(mut client: DuplexStream, pause: Duration) {
        let mut chunk = [0; 100];
        loop {
            sleep(pause).await;
            if client.read_exact(&mut chunk).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test]
    async fn client_reading_below_the_minimum_rate_is_disconnected() {
        let window = Duration::from_millis(400);
        let response_rate = MinimumRate { bytes_per_second: 1_000_000, window };
        let (mut server, client) = limited_pair(100, StreamLimits { response_rate, ..limits() });
        let reader = tokio::spawn(read_slowly(client, Duration::from_millis(20)));
        let error = server.write_all(&[7; 100_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(server.activity.close_reason(), Some(CloseReason::ResponseTooSlow));
        drop(server);
        reader.await.unwrap();
    }

    #[tokio::test]
    async fn client_reading_above_the_minimum_rate_is_served() {
        let window = Duration::from_millis(50);
        let response_rate = MinimumRate { bytes_per_second: 1, window };
        let (mut server, client) = limited_pair(100, StreamLimits { response_rate, ..limits() });
        let reader = tokio::spawn(read_slowly(client, Duration::from_millis(5)));
        server.write_all(&[7; 5_000]).await.unwrap();
        assert_eq!(server.activity.close_reason(), None);
        drop(server);
        reader.await.unwrap();
    }

    #[tokio::test]
    async fn client_that_sends_nothing_is_disconnected() {
        let first_byte_timeout = Duration::from_millis(50);
        let strict_limits = StreamLimits { first_byte_deadline: first_byte_timeout, ..limits() };
        let (mut server, mut silent_client) = limited_pair(8, strict_limits);
        let mut buffer = [0; 1];
        assert!(server.read_exact(&mut buffer).await.is_err());
        assert_eq!(server.activity.close_reason(), Some(CloseReason::NoFirstByte));
        drop(server);

        let (mut server, mut client) = limited_pair(8, strict_limits);
        client.write_all(b"1").await.unwrap();
        server.read_exact(&mut buffer).await.unwrap();
        let delayed_write = tokio::spawn(async move {
            sleep(first_byte_timeout.saturating_mul(3)).await;
            client.write_all(b"2").await.unwrap();
        });
        server.read_exact(&mut buffer).await.unwrap();
        assert_eq!(buffer, *b"2");
        delayed_write.await.unwrap();
        drop(silent_client.shutdown().await);
    }
}

//! A client's stream with limits on the first byte and on the reading of answers.
//!
//! There are three: the time to the first byte, the time without progress of a write, and the rate
//! at which an answer must be read. Without them a client that connects and says nothing, or asks
//! and hardly reads, would keep its connection for good.

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
    listen::{
        connection::Activity, connection_counts::CloseReason, connection_limits::ConnectionLimits,
    },
    process::clock::ticks,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamLimits {
    pub(crate) first_byte_deadline: Duration,
    /// How long a write may make no progress at all.
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
    /// Until the first byte has come.
    first_byte_timer: Option<Pin<Box<Sleep>>>,
    blocked_write: Option<BlockedWrite>,
    window: WriteWindow,
}

/// A write that the socket does not take at the moment.
struct BlockedWrite {
    since: Duration,
    timer: Pin<Box<Sleep>>,
}

/// Time in which writes had to wait, and what was written since its start. Time in which nothing
/// had to be written does not count.
#[derive(Debug, Default)]
struct WriteWindow {
    waited: Duration,
    bytes: u64,
}

impl<S> LimitedStream<S> {
    pub(crate) fn new(inner: S, limits: StreamLimits, activity: Arc<Activity>) -> Self {
        let first_byte = Some(Box::pin(sleep(limits.first_byte_deadline)));
        let window = WriteWindow::default();
        Self { inner, limits, activity, first_byte_timer: first_byte, blocked_write: None, window }
    }

    fn reason<T>(&self, cut: CloseReason) -> Poll<io::Result<T>> {
        self.activity.reason(cut);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn next_timer(&self, waited: Duration) -> Duration {
        let rest = self.limits.write_deadline.saturating_sub(waited);
        if self.limits.response_rate.bytes_per_second == 0 {
            return rest;
        }
        let used = self.window.waited.saturating_add(waited);
        rest.min(self.limits.response_rate.window.saturating_sub(used))
    }

    /// The write cannot go on: how long that is tolerated.
    fn poll_blocked<T>(&mut self, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.activity.start_write_blocked();
        loop {
            let mut waiting = match self.blocked_write.take() {
                Some(waiting) => waiting,
                None => {
                    let timer = Box::pin(sleep(self.next_timer(Duration::ZERO)));
                    BlockedWrite { since: ticks(), timer }
                }
            };
            if waiting.timer.as_mut().poll(context).is_pending() {
                self.blocked_write = Some(waiting);
                return Poll::Pending;
            }
            let waited = ticks().saturating_sub(waiting.since);
            if waited >= self.limits.write_deadline {
                return self.reason(CloseReason::ResponseNotRead);
            }
            let rate = self.limits.response_rate;
            let used = self.window.waited.saturating_add(waited);
            if rate.bytes_per_second > 0 && used >= rate.window {
                if rate.is_missed(self.window.bytes) {
                    return self.reason(CloseReason::ResponseTooSlow);
                }
                // The next window begins now; what it has waited so far belongs to the last one.
                self.window = WriteWindow { waited: Duration::ZERO, bytes: 0 };
                waiting.since = ticks();
            }
            let rest = self.next_timer(ticks().saturating_sub(waiting.since));
            // A timer may be a little early by the other clock.
            waiting.timer = Box::pin(sleep(rest.max(Duration::from_millis(1))));
            self.blocked_write = Some(waiting);
        }
    }

    fn note_write(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Ready(done) => self.record_progress(done.as_ref().map_or(0, |it| *it)),
            Poll::Pending => return self.poll_blocked(context),
        }
        polled
    }

    fn record_progress(&mut self, bytes: usize) {
        if let Some(waiting) = self.blocked_write.take() {
            let waited = ticks().saturating_sub(waiting.since);
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
        if let Poll::Ready(done) = Pin::new(&mut self.inner).poll_read(context, buffer) {
            self.first_byte_timer = None;
            return Poll::Ready(done);
        }
        let Some(timer) = &mut self.first_byte_timer else { return Poll::Pending };
        ready!(timer.as_mut().poll(context));
        self.reason(CloseReason::NoFirstByte)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.note_write(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.note_write(context, polled)
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
        let answer_rate = MinimumRate { bytes_per_second: 0, window: NEVER };
        StreamLimits {
            first_byte_deadline: NEVER,
            write_deadline: NEVER,
            response_rate: answer_rate,
        }
    }

    fn limited_pair(
        buffer: usize,
        limits: StreamLimits,
    ) -> (LimitedStream<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(buffer);
        (LimitedStream::new(near, limits, Arc::new(Activity::new())), far)
    }

    #[tokio::test]
    async fn client_that_never_reads_is_disconnected() {
        let deadline = Duration::from_millis(100);
        let (mut near, mut far) =
            limited_pair(8, StreamLimits { write_deadline: deadline, ..limits() });
        near.write_all(b"12345678").await.unwrap();
        let rejected = near.write_all(b"9").await.unwrap_err();
        assert_eq!(rejected.kind(), io::ErrorKind::TimedOut);
        assert_eq!(near.activity.close_reason(), Some(CloseReason::ResponseNotRead));
        let mut read = [0; 8];
        far.read_exact(&mut read).await.unwrap();
    }

    async fn read_slowly(mut far: DuplexStream, pause: Duration) {
        let mut chunk = [0; 100];
        loop {
            sleep(pause).await;
            if far.read_exact(&mut chunk).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test]
    async fn client_reading_below_the_minimum_rate_is_disconnected() {
        let window = Duration::from_millis(400);
        let answer_rate = MinimumRate { bytes_per_second: 1_000_000, window };
        let (mut near, far) =
            limited_pair(100, StreamLimits { response_rate: answer_rate, ..limits() });
        let reader = tokio::spawn(read_slowly(far, Duration::from_millis(20)));
        let rejected = near.write_all(&[7; 100_000]).await.unwrap_err();
        assert_eq!(rejected.kind(), io::ErrorKind::TimedOut);
        assert_eq!(near.activity.close_reason(), Some(CloseReason::ResponseTooSlow));
        drop(near);
        reader.await.unwrap();
    }

    #[tokio::test]
    async fn client_reading_above_the_minimum_rate_is_served() {
        let window = Duration::from_millis(50);
        let answer_rate = MinimumRate { bytes_per_second: 1, window };
        let (mut near, far) =
            limited_pair(100, StreamLimits { response_rate: answer_rate, ..limits() });
        let reader = tokio::spawn(read_slowly(far, Duration::from_millis(5)));
        near.write_all(&[7; 5_000]).await.unwrap();
        assert_eq!(near.activity.close_reason(), None);
        drop(near);
        reader.await.unwrap();
    }

    #[tokio::test]
    async fn client_that_sends_nothing_is_disconnected() {
        let deadline = Duration::from_millis(50);
        let strict = StreamLimits { first_byte_deadline: deadline, ..limits() };
        let (mut near, mut far) = limited_pair(8, strict);
        let mut read = [0; 1];
        assert!(near.read_exact(&mut read).await.is_err());
        assert_eq!(near.activity.close_reason(), Some(CloseReason::NoFirstByte));
        drop(near);

        let (mut near, mut other) = limited_pair(8, strict);
        other.write_all(b"1").await.unwrap();
        near.read_exact(&mut read).await.unwrap();
        let later = tokio::spawn(async move {
            sleep(deadline.saturating_mul(3)).await;
            other.write_all(b"2").await.unwrap();
        });
        near.read_exact(&mut read).await.unwrap();
        assert_eq!(read, *b"2");
        later.await.unwrap();
        drop(far.shutdown().await);
    }
}

//! A stream whose reader has to read: when nothing can be written for as long as the deadline, the
//! connection ends. Otherwise a client that asks and never reads would keep its place for good.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

pub(crate) struct Patient<S> {
    inner: S,
    deadline: Duration,
    /// Since when nothing could be written.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> Patient<S> {
    pub(crate) fn new(inner: S, deadline: Duration) -> Self {
        Self { inner, deadline, waiting: None }
    }

    /// What the stream says, unless it has said nothing for too long.
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = poll(Pin::new(&mut self.inner), context) {
            self.waiting = None;
            return Poll::Ready(done);
        }
        let deadline = self.deadline;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(deadline)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.within(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.within(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within(context, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_reader_that_never_reads_is_given_up() {
        let (near, mut far) = duplex(8);
        let mut near = Patient::new(near, Duration::from_millis(100));
        near.write_all(b"12345678").await.unwrap();
        let refused = near.write_all(b"9").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        let mut read = [0; 8];
        far.read_exact(&mut read).await.unwrap();
    }

    #[tokio::test]
    async fn a_slow_reader_is_not() {
        let (near, mut far) = duplex(8);
        let mut near = Patient::new(near, Duration::from_millis(400));
        let reader = tokio::spawn(async move {
            let mut byte = [0; 1];
            for _ in 0..20 {
                sleep(Duration::from_millis(40)).await;
                far.read_exact(&mut byte).await.unwrap();
            }
        });
        near.write_all(&[7; 20]).await.unwrap();
        reader.await.unwrap();
    }
}

//! A stream that knows whether anything was written to it: what may have been seen is never sent
//! again.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whether a request has begun to leave.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteStarted(Arc<AtomicBool>);

impl WriteStarted {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct WriteTracking<S> {
    inner: S,
    write_started: WriteStarted,
}

impl<S> WriteTracking<S> {
    pub(crate) fn new(inner: S, write_started: WriteStarted) -> Self {
        Self { inner, write_started }
    }

    /// Before it is tried: a write that fails may have left in part.
    fn mark_started(&self, is_empty: bool) {
        if !is_empty {
            self.write_started.0.store(true, Ordering::SeqCst);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTracking<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTracking<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.mark_started(bytes.is_empty());
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.mark_started(slices.iter().all(|it| it.is_empty()));
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn write_is_tracked_from_the_first_byte_and_reads_are_not() {
        let (near, mut far) = duplex(8);
        let started = WriteStarted::default();
        let mut near = WriteTracking::new(near, started.clone());
        far.write_all(b"1").await.unwrap();
        near.read_exact(&mut [0]).await.unwrap();
        near.flush().await.unwrap();
        assert!(!started.is_set());
        near.write_all(b"1").await.unwrap();
        assert!(started.is_set());
    }

    #[tokio::test]
    async fn failed_write_is_tracked_as_started() {
        let (near, far) = duplex(8);
        drop(far);
        let started = WriteStarted::default();
        assert!(WriteTracking::new(near, started.clone()).write_all(b"1").await.is_err());
        assert!(started.is_set());
    }
}

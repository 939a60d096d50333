//! A stream that records whether a write was attempted: a message that may have been received is
//! never sent again.

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

/// Whether the first write of a request was attempted.
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

    /// Records that a write starts, before the write: a failed write may have sent some bytes.
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
    async fn stream_reports_a_write_from_its_first_byte_and_no_read() {
        let (client, mut server) = duplex(8);
        let write_started = WriteStarted::default();
        let mut client = WriteTracking::new(client, write_started.clone());
        server.write_all(b"1").await.unwrap();
        client.read_exact(&mut [0]).await.unwrap();
        client.flush().await.unwrap();
        assert!(!write_started.is_set());
        client.write_all(b"1").await.unwrap();
        assert!(write_started.is_set());
    }

    #[tokio::test]
    async fn failed_write_is_tracked_as_started() {
        let (client, server) = duplex(8);
        drop(server);
        let write_started = WriteStarted::default();
        assert!(WriteTracking::new(client, write_started.clone()).write_all(b"1").await.is_err());
        assert!(write_started.is_set());
    }
}

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
pub(crate) struct Begun(Arc<AtomicBool>);

impl Begun {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct Noting<S> {
    inner: S,
    begun: Begun,
}

impl<S> Noting<S> {
    pub(crate) fn new(inner: S, begun: Begun) -> Self {
        Self { inner, begun }
    }

    /// Before it is tried: a write that fails may have left in part.
    fn note(&self, is_empty: bool) {
        if !is_empty {
            self.begun.0.store(true, Ordering::SeqCst);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.note(bytes.is_empty());
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.note(slices.iter().all(|it| it.is_empty()));
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
    async fn one_byte_is_enough_and_reading_is_not() {
        let (near, mut far) = duplex(8);
        let begun = Begun::default();
        let mut near = Noting::new(near, begun.clone());
        far.write_all(b"1").await.unwrap();
        near.read_exact(&mut [0]).await.unwrap();
        near.flush().await.unwrap();
        assert!(!begun.get());
        near.write_all(b"1").await.unwrap();
        assert!(begun.get());
    }

    #[tokio::test]
    async fn a_write_that_fails_counts() {
        let (near, far) = duplex(8);
        drop(far);
        let begun = Begun::default();
        assert!(Noting::new(near, begun.clone()).write_all(b"1").await.is_err());
        assert!(begun.get());
    }
}

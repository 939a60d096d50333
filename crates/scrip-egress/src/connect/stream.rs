//! The stream of a connection: TCP with or without TLS, and a count of the bytes that left and that
//! arrived.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// The number of bytes that the operating system accepted for sending, and that it received.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteCounts(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    read: AtomicU64,
}

impl ByteCounts {
    pub(crate) fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.read.load(Ordering::Relaxed)
    }
}

/// TCP below TLS: bytes that TLS only buffers have not left.
#[derive(Debug)]
pub(crate) struct CountedTcp {
    stream: TcpStream,
    counts: ByteCounts,
}

impl CountedTcp {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, counts: ByteCounts::default() }
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let count = ready!(written)?;
        let added = u64::try_from(count).unwrap_or(u64::MAX);
        self.counts.0.written.fetch_add(added, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }
}

impl AsyncRead for CountedTcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let added = buffer.filled().len().saturating_sub(filled_before);
        let added = u64::try_from(added).unwrap_or(u64::MAX);
        self.counts.0.read.fetch_add(added, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedTcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A connection to a destination.
#[derive(Debug)]
pub(crate) enum EgressStream {
    Plain(CountedTcp),
    Tls(Box<TlsStream<CountedTcp>>),
}

impl EgressStream {
    pub(crate) fn byte_counts(&self) -> ByteCounts {
        match self {
            Self::Plain(it) => it.counts.clone(),
            Self::Tls(it) => it.get_ref().0.counts.clone(),
        }
    }

    /// Whether the destination chose HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(it) => it.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl AsyncRead for EgressStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_read(context, buffer),
            Self::Tls(it) => Pin::new(it).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for EgressStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_write(context, bytes),
            Self::Tls(it) => Pin::new(it).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_write_vectored(context, slices),
            Self::Tls(it) => Pin::new(it).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_flush(context),
            Self::Tls(it) => Pin::new(it).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_shutdown(context),
            Self::Tls(it) => Pin::new(it).poll_shutdown(context),
        }
    }
}

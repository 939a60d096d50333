//! The connection to a source.

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection, with or without TLS.
pub(crate) trait SourceStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> SourceStream for S {}

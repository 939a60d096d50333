//! The interface to the directory servers. The implementation knows the network.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use scrip_threeds::{code::Scheme, range::CardRanges};
use zeroize::Zeroizing;

use crate::types::{FailureReason, ServiceFailure, TenantKind, id::ThreeDsSessionId};

/// The connections to directory servers.
///
/// Test tenants and production tenants have separate servers, so every call names the tenant kind.
/// A production tenant never gets a response from a server for test tenants.
pub trait DirectoryServers: Send + Sync + fmt::Debug {
    fn settings(&self) -> &ThreeDsSettings;

    /// The card ranges of every connected scheme, in the order of preference for a card with
    /// several brands. Sends no request.
    fn ranges(&self, kind: TenantKind) -> Vec<SchemeRanges>;

    /// The identity of this 3DS server at a scheme; `None` when the scheme is not connected.
    fn connection(&self, kind: TenantKind, scheme: Scheme) -> Option<SchemeConnection>;

    /// Sends a message with a card number, once, and waits for the response.
    fn send_message<'a>(
        &'a self,
        kind: TenantKind,
        scheme: Scheme,
        message: Zeroizing<Vec<u8>>,
    ) -> DirectoryServerFuture<'a>;
}

pub type DirectoryServerFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Zeroizing<Vec<u8>>, DirectoryServerError>> + Send + 'a>>;

/// The ranges of one scheme; `None` when they could not be fetched yet.
#[derive(Debug, Clone)]
pub struct SchemeRanges {
    pub scheme: Scheme,
    pub ranges: Option<Arc<CardRanges>>,
}

/// The operator's settings of 3-D Secure.
#[derive(Debug, Clone, Default)]
pub struct ThreeDsSettings {
    /// The URL of this vault for browsers, without a slash at the end.
    pub public_url: String,
    /// Whether attributes that official samples omit get default values.
    pub lenient: bool,
    /// The prefix of the merchant name that some schemes require.
    pub server_name: String,
}

/// The identity of this 3DS server at a scheme.
#[derive(Debug, Clone)]
pub struct SchemeConnection {
    pub reference_number: String,
    pub operator_id: Option<String>,
    /// The URL for results of this scheme, without a slash at the end.
    pub results_url: String,
}

/// The reason for a missing response. The variants differ in what the server may have received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryServerError {
    /// The server cannot have received the message.
    NotSent,
    /// The message was sent, and no response arrived in time.
    TimedOut,
    /// The message was sent, but there is no valid HTTP response: the connection broke, or the
    /// status is an error.
    Broken,
}

/// The implementation for a process without 3-D Secure: no scheme is connected.
#[derive(Debug, Default)]
pub struct NoDirectoryServers(ThreeDsSettings);

impl DirectoryServers for NoDirectoryServers {
    fn settings(&self) -> &ThreeDsSettings {
        &self.0
    }

    fn ranges(&self, _: TenantKind) -> Vec<SchemeRanges> {
        Vec::new()
    }

    fn connection(&self, _: TenantKind, _: Scheme) -> Option<SchemeConnection> {
        None
    }

    fn send_message<'a>(
        &'a self,
        _: TenantKind,
        _: Scheme,
        _: Zeroizing<Vec<u8>>,
    ) -> DirectoryServerFuture<'a> {
        Box::pin(std::future::ready(Err(DirectoryServerError::NotSent)))
    }
}

impl ServiceFailure {
    pub(crate) fn from_directory_server_error(
        error: DirectoryServerError,
        session: ThreeDsSessionId,
    ) -> Self {
        let reason = match error {
            DirectoryServerError::NotSent => FailureReason::NotSent,
            DirectoryServerError::TimedOut => FailureReason::TimedOut,
            DirectoryServerError::Broken => FailureReason::Broken,
        };
        Self::new(reason, Some(session))
    }
}

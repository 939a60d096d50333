//! The directory servers, as an operation sees them. What is behind it knows the network.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use scrip_threeds::{code::Scheme, range::CardRanges};
use zeroize::Zeroizing;

use crate::policy::TenantKind;

/// Test tenants and production tenants have servers of their own: whoever asks says for which. A
/// production tenant is never answered by the servers of the others.
pub trait DirectoryServers: Send + Sync + fmt::Debug {
    fn settings(&self) -> &ThreeDsSettings;

    /// What every connected scheme has told of its cards, in the order in which a card with several
    /// brands prefers them. Nothing is asked for it.
    fn ranges(&self, kind: TenantKind) -> Vec<SchemeRanges>;

    /// Who we are to a scheme; nothing when it is not connected.
    fn connection(&self, kind: TenantKind, scheme: Scheme) -> Option<SchemeConnection>;

    /// Sends a message with a card number in it, once, and waits for the answer.
    fn send_message<'a>(
        &'a self,
        kind: TenantKind,
        scheme: Scheme,
        message: Zeroizing<Vec<u8>>,
    ) -> DirectoryServerFuture<'a>;
}

pub type DirectoryServerFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<u8>, DirectoryServerError>> + Send + 'a>>;

/// The ranges of one scheme; nothing when they could not be fetched yet.
#[derive(Debug, Clone)]
pub struct SchemeRanges {
    pub scheme: Scheme,
    pub ranges: Option<Arc<CardRanges>>,
}

/// What the operator said of the service as a whole.
#[derive(Debug, Clone, Default)]
pub struct ThreeDsSettings {
    /// Where browsers reach this vault, without a slash at the end.
    pub public_url: String,
    /// Whether what official samples leave out is filled in.
    pub lenient: bool,
    /// What some schemes want in front of a merchant's name.
    pub server_name: String,
}

/// What a scheme has to be told of us.
#[derive(Debug, Clone)]
pub struct SchemeConnection {
    pub reference_number: String,
    pub operator_id: Option<String>,
    /// Where this scheme's results are received, without a slash at the end.
    pub results_url: String,
}

/// Why there is no answer, sorted by what the other side may have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryServerError {
    /// Nobody can have seen it.
    NotSent,
    /// It was sent, and the time is over.
    TimedOut,
    /// It was sent, and what came back is no answer: the connection broke, or HTTP said no.
    Broken,
}

/// For whoever serves no sessions: no scheme is connected.
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

//! Errors of requests. None contains a part of a request, of a response or of a URL.

use std::{error::Error, io};

use rustls::CertificateError;

use crate::guard::{GuardRejection, NO_USABLE_ADDRESS};

/// Whether the destination may have received a part of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// No byte of the request left. It is safe to send the request again.
    NotSent,
    /// At least one byte may have left.
    MaybeSent,
}

/// A request without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{failure}")]
pub struct SendError {
    pub delivery: Delivery,
    pub failure: SendFailure,
}

/// Why a request got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    #[error("the request has a method or target that cannot be sent")]
    InvalidRequest,
    #[error("{0}")]
    Rejected(GuardRejection),
    #[error("too many requests to destinations are in progress")]
    Overloaded,
    #[error("{NO_USABLE_ADDRESS}")]
    Lookup,
    #[error("the connection to the destination failed")]
    Connect(io::ErrorKind),
    #[error("the connection to the destination took too long")]
    ConnectTimeout,
    #[error("the forward proxy did not connect to the destination")]
    ForwardProxy,
    #[error("{0}")]
    Tls(TlsFailure),
    #[error("the destination did not respond in time")]
    Timeout,
    #[error("the destination closed the connection before its response")]
    Closed,
    #[error("the response of the destination is malformed")]
    Malformed,
}

/// Why a TLS connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TlsFailure {
    #[error("the certificate of the destination has another name")]
    CertificateName,
    #[error("the certificate of the destination is expired or not yet valid")]
    CertificateTime,
    #[error("the certificate of the destination is from an unknown authority")]
    CertificateAuthority,
    #[error("the certificate of the destination is invalid")]
    Certificate,
    #[error("the destination requires or rejects a client certificate")]
    ClientCertificate,
    #[error("the destination offers no common version of TLS")]
    Version,
    #[error("the TLS handshake with the destination failed")]
    Handshake,
}

/// Why a check gave no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error("{0}")]
    Rejected(#[from] GuardRejection),
    #[error("{NO_USABLE_ADDRESS}")]
    Lookup,
    #[error("too many lookups are in progress")]
    Overloaded,
}

impl SendError {
    pub(crate) fn not_sent(failure: SendFailure) -> Self {
        Self { delivery: Delivery::NotSent, failure }
    }

    pub(crate) fn maybe_sent(failure: SendFailure) -> Self {
        Self { delivery: Delivery::MaybeSent, failure }
    }
}

impl From<CheckError> for SendFailure {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Rejected(rejection) => Self::Rejected(rejection),
            CheckError::Lookup => Self::Lookup,
            CheckError::Overloaded => Self::Overloaded,
        }
    }
}

impl SendFailure {
    /// The failure of a connection, handshake included.
    pub(crate) fn from_connect_error(error: &io::Error) -> Self {
        let tls_failure = find_tls_error(error).map(TlsFailure::from_error);
        tls_failure.map_or_else(|| Self::Connect(error.kind()), Self::Tls)
    }

    /// The failure of an exchange on an established connection.
    pub(crate) fn from_http_error(error: &hyper::Error) -> Self {
        if let Some(tls_error) = find_tls_error(error) {
            return Self::Tls(TlsFailure::from_error(tls_error));
        }
        if error.is_parse() {
            return Self::Malformed;
        }
        if error.is_timeout() {
            return Self::Timeout;
        }
        // An HTTP/2 error of the protocol has no cause in the network.
        let is_network = find_cause::<io::Error>(error).is_some();
        let is_closed = is_network
            || error.is_incomplete_message()
            || error.is_canceled()
            || error.is_closed()
            || error.is_user();
        if is_closed { Self::Closed } else { Self::Malformed }
    }
}

impl TlsFailure {
    fn from_error(error: &rustls::Error) -> Self {
        use rustls::{AlertDescription as Alert, Error as TlsError};
        if let TlsError::InvalidCertificate(it) = error {
            return Self::from_certificate_error(it);
        }
        let is_version = matches!(
            error,
            TlsError::PeerIncompatible(_) | TlsError::AlertReceived(Alert::ProtocolVersion)
        );
        let is_client_certificate = matches!(
            error,
            TlsError::AlertReceived(
                Alert::CertificateRequired
                    | Alert::BadCertificate
                    | Alert::UnsupportedCertificate
                    | Alert::CertificateRevoked
                    | Alert::CertificateExpired
                    | Alert::CertificateUnknown
                    | Alert::UnknownCA
                    | Alert::AccessDenied
            )
        );
        match (is_version, is_client_certificate) {
            (true, _) => Self::Version,
            (false, true) => Self::ClientCertificate,
            (false, false) => Self::Handshake,
        }
    }

    fn from_certificate_error(error: &CertificateError) -> Self {
        use CertificateError as Invalid;
        let is_name =
            matches!(error, Invalid::NotValidForName | Invalid::NotValidForNameContext { .. });
        let is_time = matches!(
            error,
            Invalid::Expired
                | Invalid::ExpiredContext { .. }
                | Invalid::NotValidYet
                | Invalid::NotValidYetContext { .. }
        );
        match (is_name, is_time) {
            (true, _) => Self::CertificateName,
            (false, true) => Self::CertificateTime,
            (false, false) if *error == Invalid::UnknownIssuer => Self::CertificateAuthority,
            (false, false) => Self::Certificate,
        }
    }
}

/// An [`io::Error`] does not return the error that it wraps as its source, but the source of that.
fn find_tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref() {
            return Some(found);
        }
        let wrapped = current.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(it) => Some(it),
            None => current.source(),
        };
    }
    None
}

fn find_cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref() {
            return Some(found);
        }
        next = current.source();
    }
    None
}

//! The guarded HTTP client for every request that leaves the vault.
//!
//! Tenants choose the destinations, so each destination is hostile until it is checked:
//! [`Destination`] accepts one strict form of URL, [`EgressClient::check`] decides about names, ports
//! and addresses, and a connection goes to a checked address only. Redirects are never followed.
//! [`SendError::delivery`] says whether a byte of the request may have left.

mod body;
mod client;
pub mod configured;
mod connect;
mod connection;
mod destination;
mod error;
mod guard;
mod limiter;
mod pool;
mod resolve;
mod scope;
mod settings;
mod tls;

pub use crate::{
    body::{BodyError, EgressBody},
    client::{EgressClient, EgressStats},
    destination::{Destination, DestinationError},
    error::{CheckError, Delivery, SendError, SendFailure, TlsFailure},
    guard::{
        CheckedAddresses, GuardRejection,
        address::{AddressClass, classify_address},
        allow_list::{AllowEntry, AllowEntryError, AllowList},
    },
    limiter::{KeyedLimiter, KeyedLimits, KeyedPermit, LimiterFull},
    resolve::{LookupFuture, Resolve, SystemResolver},
    scope::ConnectionScope,
    settings::{EgressLimits, EgressSettings, ForwardProxy, ForwardProxyCredentials},
    tls::{ClientCertificate, TlsMaterial, TlsMinimum, TlsOptions, TlsOptionsError, TrustedRoots},
};

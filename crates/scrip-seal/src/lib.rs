//! Envelope encryption: the only crate that names an algorithm.
//!
//! Architecture invariant: plaintext keys never leave this crate. Decoding is total: any stored
//! bytes give a value or a typed error, never a panic.

#![warn(clippy::arithmetic_side_effects)]

mod audit;
mod checksum;
mod client_key;
mod digest;
mod epoch;
mod place;
mod private_key;
mod random;
mod record;
mod root;
mod sealed;
mod secret;
mod tenant;
mod webhook;

pub use crate::{
    audit::AuditKey,
    checksum::{Checksum, sha384_checksum},
    client_key::{ClientKeyError, ClientKeyPair, Jwe, JweError},
    digest::{
        ExpressionDigest, Fingerprint, IndexDigest, KeyCheck, KeyedHash, Mac, Pepper,
        RequestSigningKey, sha256_hex,
    },
    epoch::{
        EpochFileError, EpochKeyError, EpochKeys, KeyExchange, KeyExchangeFuture, KeyOffer,
        KeyPresence, OpenedValue, SharedEpoch, WrappedEpochKey,
    },
    place::Place,
    private_key::{PrivateKeyEncoding, is_key_of_certificate},
    random::fill_random,
    root::{KeySource, KeySourceError, RootKey},
    sealed::{OpenError, Sealed},
    secret::Secret,
    tenant::{Purpose, TenantKeys, WrappedTenantKeys},
    webhook::{
        WebhookKeyError, WebhookSecret, WebhookSecretError, WebhookSigningKey, sign_with_secrets,
        verify_with_public_key, verify_with_secret,
    },
};

/// One version number covers the stored form, its algorithms and their limits.
pub const FORMAT_VERSION: u8 = 1;

//! Envelope encryption: the only crate that names an algorithm.
//!
//! Architecture invariant: plaintext keys never leave this crate. Decoding is total: any stored
//! bytes give a value or a typed error, never a panic.

#![warn(clippy::arithmetic_side_effects)]

/// `Debug` prints the name of these types and nothing of their content, which is confidential.
macro_rules! hide_in_debug {
    ($($Name:ident),+) => { $(
        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($Name))
            }
        }
    )+ };
}

mod audit;
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
mod shares;
mod tenant;
mod webhook;

pub use crate::{
    audit::{AuditKey, AuditKeyPhase, KeyHistory},
    client_key::{ClientKeyError, ClientKeyPair, Jwe, JweError},
    digest::{
        Checksum, ExpressionDigest, Fingerprint, IndexDigest, KeyCheck, KeyedHash, Mac, Pepper,
        request_signature::{RequestSigningKey, sha256_hex},
        sha384_checksum,
    },
    epoch::{
        EpochFileError, EpochKeyError, EpochKeys, KeyExchange, KeyExchangeFuture, KeyOffer,
        KeyPresence, OpenedValue, SharedEpoch, WrappedEpochKey,
    },
    place::Place,
    private_key::{PrivateKeyEncoding, is_key_of_certificate},
    random::fill_random,
    root::{KeySource, KeySourceError, RootKey, VaultKey, VaultKeyRing, WrappingKey},
    sealed::{OpenError, Sealed},
    secret::Secret,
    shares::{
        AgeRecipient, AgeRecipientError, Share, ShareCollection, ShareError, ShareLabel,
        ShareProgress, SplitError, split_secret,
    },
    tenant::{Purpose, TenantKeys, WrappedTenantKeys},
    webhook::{
        WebhookKeyError, WebhookSecret, WebhookSecretError, WebhookSigningKey, sign_with_secrets,
        verify_with_public_key, verify_with_secret,
    },
};

/// One version number covers the stored form, its algorithms and their limits.
pub const FORMAT_VERSION: u8 = 1;

/// Whether the algorithms come from the FIPS module of AWS-LC and its self-tests passed.
pub fn has_fips_module() -> bool {
    aws_lc_rs::try_fips_mode().is_ok()
}

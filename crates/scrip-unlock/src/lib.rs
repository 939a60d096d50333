//! The unlock sources: services and devices that wrap the vault key.
//!
//! A source receives the vault key and returns bytes that only the same source can turn back into
//! the vault key. The crate knows how to ask each source. It does not know which sources a vault
//! uses, and it stores nothing.

mod aws_kms;
mod http_client;
mod pkcs11;
mod secret_file;
mod source;
mod transit;
mod wrapped_key;

pub use crate::{
    aws_kms::{AwsCredentialSource, AwsKms, AwsKmsSettings, AwsVariables, WallClock},
    pkcs11::{PinAttempts, Pkcs11, Pkcs11Settings, TokenSelector},
    source::{DEFAULT_DEADLINE, UnlockContext, UnlockError, UnlockFuture, UnlockSource},
    transit::{Transit, TransitAuth, TransitSettings},
};

//! Signatures of webhook deliveries.
//!
//! A delivery has two signatures: one with the key pair of the vault, which every receiver can
//! verify with the public key, and one with a secret that only the vault and one receiver have.

mod secret;
mod signing_key;
mod verify;

pub use self::{
    secret::{WebhookSecret, WebhookSecretError, sign_with_secrets},
    signing_key::{WebhookKeyError, WebhookSigningKey},
    verify::{verify_with_public_key, verify_with_secret},
};

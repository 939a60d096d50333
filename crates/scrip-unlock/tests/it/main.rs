//! The unlock sources against peers on this machine: `moto` as AWS KMS, a fake of the Transit
//! engine, `SoftHSM` as a device, and hostile peers.

#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod aws_kms;
mod faulty_peers;
mod pkcs11;
mod support;
mod tls_connections;
mod transit;

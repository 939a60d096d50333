//! The unlock sources for tests: `SoftHSM` as a device, a fake of the Transit engine, `moto` as AWS
//! KMS, and HTTP servers that answer as a test requires.

pub mod fake_kms;
pub mod fake_peer;
pub mod moto_server;
pub mod observed_library;
pub mod soft_hsm;
pub mod transit_server;

//! TLS, rate limits across nodes, and PostgreSQL.

mod certificate_dates;
mod fips;
mod hosted_fields;
mod limits;
#[cfg(target_os = "linux")]
mod policy_restore;
#[cfg(target_os = "linux")]
pub(crate) mod postgres;
mod proxied_calls;
mod tls;
pub(crate) mod tls_client;

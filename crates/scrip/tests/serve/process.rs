//! The server process: settings, secrets, resource limits and background tasks.

mod control;
mod demo;
#[cfg(target_os = "linux")]
mod descriptors;
mod expensive_expressions;
#[cfg(target_os = "linux")]
mod hardening;
mod sealed;
mod secret_files;
mod settings;
mod sweeps;
#[cfg(target_os = "linux")]
pub(crate) mod verification_codes;

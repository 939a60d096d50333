//! The server process: settings, secrets, resource limits, background tasks, start and shutdown.

mod closed_pipes;
mod control;
mod demo;
#[cfg(target_os = "linux")]
mod descriptors;
mod drain;
mod expensive_expressions;
mod hang_up;
#[cfg(target_os = "linux")]
mod hardening;
mod raw_scan;
mod root_key;
mod sealed;
mod secret_files;
mod settings;
mod sweeps;
#[cfg(target_os = "linux")]
pub(crate) mod verification_codes;

//! The audit log for operators.

#[cfg(target_os = "linux")]
mod sink;
#[cfg(target_os = "linux")]
mod verify;

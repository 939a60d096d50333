//! Data that responses must not disclose.

mod error_details;
mod expressions;
mod planted_tokens;

//! Data that responses must not disclose.

mod error_details;
mod expressions;
mod field_marks;
mod planted_tokens;

//! Data that responses must not disclose.

mod error_details;
mod expressions;
mod field_marks;
mod field_readers;
mod planted_tokens;
mod stored_masks;

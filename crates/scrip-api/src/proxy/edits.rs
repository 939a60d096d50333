//! Edits of a message by transforms: masks and appended values.

pub(in crate::proxy) mod append;
pub(in crate::proxy) mod body_type;
pub(in crate::proxy) mod error;
pub(in crate::proxy) mod mask;
pub(in crate::proxy) mod masked_bytes;
pub(in crate::proxy) mod match_finder;
pub(in crate::proxy) mod message;
mod stratus;

pub(in crate::proxy) use self::error::TransformError;
pub use self::{error::TransformKind, mask::MaskEdit, message::TransformMessage};

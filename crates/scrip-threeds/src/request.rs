//! The client's request and the `AReq` that is built from it.
//!
//! The reader of the client's JSON fills these structs without checks. The rules then name
//! attributes of the client's request. Formats are checked in the message itself.

mod areq;
mod attribute_reader;
mod attributes;
mod authenticate_context;
mod defaults;
mod elements;
mod format_rules;
mod rules;
#[cfg(test)]
mod tests;

pub use areq::build_areq;
pub use attribute_reader::{AttributeReader, AttributeShape, AttributeValue, Violation};
pub use attributes::*;
pub use authenticate_context::AuthenticateContext;
pub use defaults::{Strictness, fill_defaults};
pub use elements::{AReqCard, AReqInput, AReqSession, ServerIdentity};
pub use rules::{RequestRule, violations};

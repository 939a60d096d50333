//! The client's request and the `AReq` that is built from it.
//!
//! The reader of the client's JSON fills these structs without checks. The rules then name
//! attributes of the client's request. Formats are checked in the message itself.

mod areq;
mod attribute_reader;
mod attributes;
mod defaults;
mod elements;
mod format_rules;
mod rules;

pub use areq::{AReqCard, AReqInput, AReqSession, ServerIdentity, build_areq};
pub use attribute_reader::{AttributeReader, AttributeShape, AttributeValue};
pub use attributes::*;
pub use defaults::{Strictness, fill_defaults};
pub use rules::{AuthenticateContext, RequestRule, Violation, violations};

#[cfg(test)]
mod tests;

//! What a client asks for, and the `AReq` that is made of it.
//!
//! Whoever reads the client's JSON fills these structures; nothing is checked then. The rules name
//! attributes of the client's request; the formats are those of the message itself.

mod areq;
mod attribute_reader;
mod attributes;
mod defaults;
mod elements;
mod rules;

pub use areq::{AReqCard, AReqInput, AReqSession, ServerIdentity, build_areq};
pub use attribute_reader::{AttributeReader, AttributeShape, AttributeValue};
pub use attributes::*;
pub use defaults::{Strictness, fill_defaults};
pub use rules::{AuthenticateContext, RequestRule, Violation, violations};

#[cfg(test)]
mod tests;

//! The message to a destination, and the plaintext that only this message may contain.
//!
//! A caller that may use data, and may not read it, sends the data to a destination: the data of used
//! tokens, data that a client encrypted for the call, and the configuration of the proxy. This module
//! is the only one that opens such data. It yields bytes of the outgoing message, or the data of a new
//! token, which only the write of the token opens. No other code can turn the data into JSON, a text,
//! an error or a log field.

mod message;
mod usable_plaintext;

pub(in crate::proxy) use self::message::{TemplateInputs, evaluate_template};
pub use self::{
    message::{ExpressionInputs, HiddenInputs, OutgoingMessage},
    usable_plaintext::UsablePlaintext,
};

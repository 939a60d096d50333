//! Expressions in the messages that a proxy forwards.
//!
//! ```text
//! body       {{ <id> }}  {{ token: <id> }}  {{ token_intent: <id> }}  {{ config: <name> }}
//! header     {{ proxy.request.headers.<Name> }}  {{ proxy.request.body }}  {{ config: <name> }}
//! transform  {{ req.… }}  {{ res.… }}  {{ transform_identifier: '<name>' }}  {{ config: <name> }}
//! ```
//! All forms can have filters. There are no tags.

mod counted_size;
mod evaluation;
mod expression;
mod reader;
mod selection;
mod text;
mod value_reads;

pub use self::{
    counted_size::CountedSize,
    evaluation::{
        EvaluatedMessage, MessageInputs, NoReferences, ResolveReference, UNKNOWN_REFERENCE,
    },
    expression::{ExpressionPlace, MessageExpression, MessagePart, MessageSource},
    selection::FilteredPath,
    text::{MessageTemplate, MessageText},
    value_reads::{MessageRead, ReadStep},
};

//! What a client asks for, and the `AReq` that is made of it.
//!
//! Whoever reads the client's JSON fills these structures; nothing is checked then. The rules name
//! attributes of the client's request; the formats are those of the message itself.

mod areq;
mod compose;
mod elements;
mod parts;
mod read;
mod rules;

pub use areq::{Card, Question, Server, Subject, make_areq};
pub use compose::{Strictness, completed};
pub use parts::*;
pub use read::{Part, Reader, Shape};
pub use rules::{Rule, Situation, Violation, violations};

#[cfg(test)]
mod tests;

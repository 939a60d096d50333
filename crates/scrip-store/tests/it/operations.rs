//! Operations of the vault on every engine.

mod card_number;
mod cvc;
mod cvc_unrecoverable;
mod duplicates;
mod expiry;
mod intents;
mod replay;
mod rights;
mod tokenize;

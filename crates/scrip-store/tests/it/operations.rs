//! Operations of the vault on every engine.

mod card_number;
mod cvc;
mod cvc_unrecoverable;
mod duplicates;
mod expiry;
mod intents;
mod large_requests;
mod permissions;
mod proxy_calls;
mod replay;
mod tokenize;

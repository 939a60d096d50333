//! What an operator can do with a vault: actions, each with its input, its right and its output.
//!
//! A running server executes an action for a person on the control socket. Without a server, a command
//! executes the same action on the vault that it opened. Both call [`run_action`](action::run_action), which
//! records start and outcome.

pub mod action;
pub mod actions;
pub mod alterations;
pub mod error;
pub mod operator;
pub mod output;
pub mod record_failure;
pub mod secret_text;

//! A directory server and an access control server to try 3-D Secure with.
//!
//! It plays another company: a real HTTP peer with its own listener, its own keys and its own idea of
//! time. What comes of a card is written in a table; what goes wrong on the way is set by knobs.

mod acs;
pub mod behavior;
pub mod card;
mod directory;
mod outgoing_client;
mod page;
mod range;
mod request_checks;
mod server;
mod settings;
mod state;
mod transaction;

pub use server::{Simulator, SimulatorHandle, start};
pub use settings::{ResultDestinations, SimulatorSettings, StartError, Timers};

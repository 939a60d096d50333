//! A simulated directory server and access control server for testing 3-D Secure.
//!
//! The simulator is a real HTTP peer with its own listener, keys and clock. A table defines the
//! scenario of each test card; the simulated behavior adds failures.

mod acs;
mod app_encryption;
pub mod behavior;
pub mod card;
mod directory;
mod outgoing_client;
mod page;
mod range;
mod server;
mod settings;
mod signer;
mod state;
mod transaction;

pub use server::{Simulator, SimulatorHandle, start};
pub use settings::{ResultDestinations, SimulatorSettings, StartError, Timers};

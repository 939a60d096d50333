//! A directory server and an access control server to try 3-D Secure with.
//!
//! It plays another company: a real HTTP peer with its own listener, its own keys and its own idea of
//! time. What comes of a card is written in a table; what goes wrong on the way is set by knobs.

mod acs;
pub mod card;
mod directory;
mod door;
pub mod knob;
mod outgoing;
mod page;
mod range;
mod server;
mod settings;
mod transaction;
mod world;

pub use server::{Handle, Simulator, start};
pub use settings::{Results, Settings, Timers, Unusable};

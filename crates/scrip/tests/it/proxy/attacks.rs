//! Attackers: with a key of the tenant, in control of the destination, and against the network of
//! the vault.

mod browsers;
mod exhaustion;
mod failing_expressions;
mod hostile_destinations;
mod limited_keys;
mod own_network;

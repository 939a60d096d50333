//! The directory server client against real sockets with mutual TLS.

mod card_ranges;
mod failover;
mod harness;
mod requests;
mod tenant_kinds;

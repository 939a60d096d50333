//! Clients that use more than their share of connections, memory or time.

mod connections;
mod late_bodies;
mod slow_bodies;
mod stalled_clients;

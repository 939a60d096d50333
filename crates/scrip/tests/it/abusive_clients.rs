//! Clients that take more than their share.

mod connections;
mod late_bodies;
mod slow_bodies;
mod stalled_clients;

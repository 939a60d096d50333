//! The client of directory servers, against real ones: through sockets, with certificates on both
//! sides.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test says what it expects by failing"
)]

mod asking;
#[expect(dead_code, reason = "clients of ours are for tests of the listener for results")]
#[path = "../support/authority.rs"]
mod authority;
#[path = "../support/directory_server.rs"]
mod directory_server;
mod failing_over;
mod fetching;
mod scene;
mod worlds;

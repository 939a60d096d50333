//! What the background tasks of the logs work with: the newest authentic time, the file of saved
//! heads, and the queue of outcomes of proxied calls.

pub mod authentic_time;
pub mod head_file;
pub mod outcome_queue;

pub use self::{head_file::SavedHeads, outcome_queue::OutcomeQueue};

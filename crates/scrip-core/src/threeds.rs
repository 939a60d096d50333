//! 3-D Secure, as the vault runs it: whose session it is, which card, whom it asks, what is kept.
//!
//! What a session may do is decided by `scrip-threeds`, which is pure; here its states are sealed and
//! written, and its effects done.

mod card;
mod card_reference;
mod converted;
mod directory_servers;
mod event;
mod event_record;
mod failure;
mod held;
mod lookup;
mod notify;
mod number;
mod rail;
mod record;
mod view;

pub use card_reference::CardReference;
pub use converted::{Conversion, ConvertedIntent, SessionCard, SessionCardColumns};
pub use directory_servers::{
    Asking, DirectoryServers, Link, NoDirectoryServers, SchemeRanges, Terms, Unanswered,
};
pub use event_record::{EVENT_RETENTION, EventRecord};
pub use failure::{FailureReason, ServiceFailure};
pub use rail::Rail;
pub use record::{ChallengeMode, SessionBody, SessionRecord, SessionWrite};
pub use view::{AuthenticationView, SessionView};

pub(crate) use card::{FoundCard, find_card};
pub(crate) use event::{Cause, SessionStep};
pub(crate) use held::{
    Held, OpenedSession, TRIES_MAX, Writing, check_access, check_outcome, find_held, find_notified,
    moment, not_possible, overtaken,
};
pub(crate) use lookup::find_rails;
pub(crate) use notify::notify;
pub(crate) use number::{named_by_session, names_number, refuse_number_change};

//! 3-D Secure in the vault: sessions, their cards, directory servers, and stored state.
//!
//! The pure crate `scrip-threeds` decides the transitions of a session. This module seals and
//! stores its states, and performs its effects.

mod card;
mod card_reference;
mod directory_servers;
mod event;
mod failure;
mod intent_conversion;
mod loaded_session;
mod lookup;
mod notification;
mod number;
pub(crate) mod record;
mod scheme_support;
mod view;

pub use card_reference::CardReference;
pub use directory_servers::{
    DirectoryServerError, DirectoryServerFuture, DirectoryServers, NoDirectoryServers,
    SchemeConnection, SchemeRanges, ThreeDsSettings,
};
pub use failure::{FailureReason, ServiceFailure};
pub use intent_conversion::{
    Conversion, ConvertedIntent, ThreeDsSessionCard, ThreeDsSessionCardColumns,
};
pub use record::{ChallengeMode, ThreeDsSessionBody, ThreeDsSessionRecord, ThreeDsSessionWrite};
pub use scheme_support::SchemeSupport;
pub use view::{AuthenticationView, ThreeDsSessionView};

pub(crate) use card::{FoundCard, find_card};
pub(crate) use event::raise_session_events;
pub(crate) use loaded_session::{
    LoadedSession, OpenedSession, SESSION_ATTEMPTS_MAX, SessionChange, check_replayed_outcome,
    check_threeds_enabled, load_notified_session, load_session, rejection_error,
    session_conflict_error, to_moment,
};
pub(crate) use lookup::find_supported_schemes;
pub(crate) use notification::apply_notification;
pub(crate) use number::{number_in_use_error, patch_has_card_number, reject_number_change};

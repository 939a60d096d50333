//! Sessions of 3-D Secure in the vault: loaded, changed by an event, and written back.

mod card;
mod event;
mod loaded_session;

pub(crate) use self::{
    card::{FoundCard, find_card, find_supported_schemes, reject_number_change},
    event::raise_session_events,
    loaded_session::{
        LoadedSession, OpenedSession, SESSION_ATTEMPTS_MAX, SessionChange, apply_notification,
        check_replayed_outcome, check_threeds_enabled, load_notified_session, load_session,
        rejection_error, session_conflict_error, to_moment,
    },
};

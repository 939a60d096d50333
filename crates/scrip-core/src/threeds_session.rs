//! Sessions of 3-D Secure in the vault: loaded, changed by an event, and written back.

mod card;
mod event;
mod loaded_session;
mod lookup;
mod notification;
mod number;
mod session_view;

pub(crate) use self::{
    card::{FoundCard, find_card},
    event::raise_session_events,
    loaded_session::{
        LoadedSession, OpenedSession, SESSION_ATTEMPTS_MAX, SessionChange, check_replayed_outcome,
        check_threeds_enabled, load_notified_session, load_session, rejection_error,
        session_conflict_error, to_moment,
    },
    lookup::find_supported_schemes,
    notification::apply_notification,
    number::reject_number_change,
};

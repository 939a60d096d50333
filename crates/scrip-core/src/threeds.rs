//! 3-D Secure in the vault: sessions, their cards, directory servers, and stored state.
//!
//! The pure crate `scrip-threeds` decides the transitions of a session. This module seals and
//! stores its states, and performs its effects.

mod directory_servers;
mod intent_conversion;
pub(crate) mod record;

pub use self::{
    directory_servers::{
        DirectoryServerError, DirectoryServerFuture, DirectoryServers, NoDirectoryServers,
        SchemeConnection, SchemeRanges, ThreeDsSettings,
    },
    intent_conversion::{
        ConvertedIntent, ThreeDsSessionCard, ThreeDsSessionCardColumns, sign_conversion,
    },
    record::{
        AuthenticationView, CardReference, ChallengeMode, SchemeSupport, ThreeDsSessionBody,
        ThreeDsSessionRecord, ThreeDsSessionView, ThreeDsSessionWrite,
    },
};

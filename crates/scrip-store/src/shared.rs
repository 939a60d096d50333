//! What both engines do alike: the statements that both take, how rows and records are made of each
//! other, and the rules of every write. An engine fetches and puts; what is decided is decided here.

pub(crate) mod access_sessions;
pub(crate) mod answers;
pub(crate) mod directory;
pub(crate) mod policy;
pub(crate) mod sessions;
pub(crate) mod time;

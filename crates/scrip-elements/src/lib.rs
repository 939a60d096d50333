//! The hosted card fields: the files of `web/`, embedded into the program, and their release.
//!
//! Architecture invariant: this crate knows no HTTP. The API serves the files.

mod files;
mod release;

pub use self::{
    files::WebFile,
    release::{FramePage, PageContent, PageOrigins, Release, ReleaseFile, release},
};

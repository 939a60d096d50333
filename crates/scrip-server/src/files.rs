//! Files in the data directory and in other configured locations.

pub mod atomic_file;
pub mod bin_file;
pub mod disk_space;
pub mod folder;
pub mod head_file;
pub mod secret_file;
pub mod stamp;

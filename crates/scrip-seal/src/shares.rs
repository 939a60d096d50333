//! Shares of a secret for its holders: a threshold of them reconstructs the secret, and fewer
//! reveal nothing about it.
//!
//! The scheme is Shamir's (ISO/IEC 19592-2), byte by byte over the field of AES. A holder gets a
//! share as a text, or as an age file that only the key of the holder opens.
//!
//! Nothing here proves that a share is genuine. The checksum of a share detects typing errors, and
//! everybody can compute it. A forged share with a correct checksum gives a wrong secret, so the
//! caller must verify the secret, for example by opening a value that the secret has encrypted.

mod age;
mod base32;
mod collection;
mod field;
mod label;
mod share;
mod split;

#[cfg(test)]
mod tests;

pub use self::{
    age::{AgeRecipient, AgeRecipientError},
    collection::{ShareCollection, ShareProgress},
    label::ShareLabel,
    share::{Share, ShareError},
    split::{SplitError, split_secret},
};

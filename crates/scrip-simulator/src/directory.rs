//! The directory server of each scheme: which cards there are, and the way to their issuer.

mod answer;
mod message;
mod report;

pub(crate) use message::receive;
pub(crate) use report::report;

use scrip_threeds::code::Scheme;

/// The last part of a directory server's address: `/sim/ds/visa`.
#[must_use]
pub fn directory_path(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Visa => "visa",
        Scheme::Mastercard => "mastercard",
        Scheme::AmericanExpress => "american-express",
        Scheme::Discover => "discover",
        Scheme::Jcb => "jcb",
        Scheme::CartesBancaires => "cartes-bancaires",
        Scheme::UnionPay => "unionpay",
    }
}

pub(crate) fn scheme_at(path: &str) -> Option<Scheme> {
    Scheme::ALL.iter().copied().find(|it| directory_path(*it) == path)
}

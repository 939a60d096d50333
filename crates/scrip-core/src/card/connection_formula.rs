//! The catalog of connection formulas: which processors can be connected, and what each asks for.
//!
//! Reviewed data, a file for each processor with its sources beside it. Where these disagree, or a
//! thing is not sure, the smaller list and the weaker claim stand.

mod adyen;
mod authipay;
mod authorizenet;
mod braintree;
mod chaseorbital;
mod checkoutcom;
mod cybersource;
mod dlocal;
mod ebanx;
mod fiserv;
mod nmi;
mod nuvei;
mod planet;
mod razorpay;
mod stripe;
#[cfg(test)]
mod tests;
mod trustpayments;
mod usaepay;
mod worldpayvap;

/// Every formula, by id.
pub static CATALOG: [Formula; 18] = [
    adyen::FORMULA,
    authipay::FORMULA,
    authorizenet::FORMULA,
    braintree::FORMULA,
    chaseorbital::FORMULA,
    checkoutcom::FORMULA,
    cybersource::FORMULA,
    dlocal::FORMULA,
    ebanx::FORMULA,
    fiserv::FORMULA,
    nmi::FORMULA,
    nuvei::FORMULA,
    planet::FORMULA,
    razorpay::FORMULA,
    stripe::FORMULA,
    trustpayments::FORMULA,
    usaepay::FORMULA,
    worldpayvap::FORMULA,
];

/// How one processor is connected. All are for cards; there are none for banks and wallets yet.
#[derive(Debug)]
pub struct Formula {
    pub id: &'static str,
    pub display_name: &'static str,
    pub fields: &'static [Field],
    /// ISO 4217, alphabetic.
    pub currencies: &'static [&'static str],
    /// ISO 3166-1, two letters.
    pub countries: &'static [&'static str],
    pub features: Features,
}

/// A credential. Every one so far is a line of text.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub key: &'static str,
    pub display_name: &'static str,
    pub required: bool,
    pub secret: bool,
}

impl Field {
    const fn secret(key: &'static str, display_name: &'static str) -> Self {
        Self { key, display_name, required: true, secret: true }
    }

    /// Names whom the secret belongs to, and can be shown.
    const fn open(key: &'static str, display_name: &'static str) -> Self {
        Self { key, display_name, required: true, secret: false }
    }

    const fn optional(mut self) -> Self {
        self.required = false;
        self
    }
}

#[derive(Debug)]
pub struct Features {
    /// Takes the data of an authentication that was made elsewhere.
    pub three_d_secure_pass_through: bool,
    /// Authorizes now and captures later.
    pub delayed_capture: bool,
    pub partial_capture: bool,
    pub partial_refunds: bool,
    pub refunds: bool,
    /// Authorizes an amount of zero.
    pub zero_auth: bool,
    /// Gives an authorization back that was not captured.
    pub void: bool,
}

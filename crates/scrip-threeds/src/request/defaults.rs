//! Defaults that are filled in before the rules are checked, if the operator allows it.

use crate::{
    code::{AuthenticationCategory, Scheme},
    request::{AuthenticateRequest, MerchantInfo, PurchaseInfo, RequestorInfo},
};

/// How strictly clients must follow the API. Official samples omit some attributes.
#[derive(Debug, Clone, Copy)]
pub enum Strictness<'a> {
    Strict,
    /// A payment without a transaction type is a purchase, and the requestor is derived from the
    /// merchant.
    Lenient {
        scheme: Scheme,
        /// For the requestor name that Mastercard requires.
        server_name: &'a str,
        /// The requestor URL if the merchant has none.
        requestor_url: &'a str,
    },
}

/// The request with its defaults, as the rules check it.
pub fn fill_defaults(
    request: &AuthenticateRequest,
    strictness: Strictness<'_>,
) -> AuthenticateRequest {
    let mut request = request.clone();
    let Strictness::Lenient { scheme, server_name, requestor_url } = strictness else {
        return request;
    };
    let category = request.authentication_category.as_deref();
    let is_payment = category == Some(AuthenticationCategory::Payment.name());
    let purchase: Option<&mut PurchaseInfo> = request.purchase_info.as_mut().filter(|_| is_payment);
    if let Some(purchase) = purchase {
        purchase.transaction_type.get_or_insert_with(|| "purchase".to_owned());
    }
    let merchant = request.merchant_info.clone().unwrap_or_default();
    let requestor = request.requestor_info.get_or_insert_default();
    let (id, name) = requestor_names(scheme, server_name, &merchant, requestor);
    requestor.id = requestor.id.take().or(id);
    requestor.name = requestor.name.take().or(name);
    let url = merchant.url.or_else(|| Some(requestor_url.to_owned()));
    requestor.url = requestor.url.take().or(url);
    request
}

/// The requestor id and name that each scheme requires.
fn requestor_names(
    scheme: Scheme,
    server_name: &str,
    merchant: &MerchantInfo,
    requestor: &RequestorInfo,
) -> (Option<String>, Option<String>) {
    let (mid, name) = (merchant.mid.clone(), merchant.name.clone());
    match scheme {
        Scheme::Visa | Scheme::UnionPay => (mid, name),
        Scheme::Mastercard => {
            let joined = mid.as_ref().map(|it| format!("{server_name}_{it}"));
            (mid, joined)
        }
        Scheme::Discover => {
            let second = requestor.discover_requestor_id.as_ref().or(name.as_ref());
            let id = requestor.discover_client_id.as_ref().map(|client| match second {
                Some(second) => format!("{client}_{second}"),
                None => client.clone(),
            });
            (id.or(mid), name)
        }
        Scheme::Jcb => {
            let bin = merchant.acquirer_bin.as_ref();
            let id = bin.zip(mid.as_ref()).map(|(bin, mid)| format!("{bin}MCT{mid}"));
            (id, mid)
        }
        Scheme::AmericanExpress => {
            let kind = requestor.amex_requestor_type.as_deref().unwrap_or("MER");
            let id = mid.as_ref().map(|mid| format!("{kind}{mid}"));
            (id, mid)
        }
        Scheme::CartesBancaires => {
            let id = requestor.cb_siret_number.clone().or_else(|| name.clone());
            (id, name)
        }
    }
}

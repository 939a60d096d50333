//! The list of all elements.

use crate::message::{
    AReq, ARes, AccountInfo, AcsRendering, AuthenticationInfo, CReq, CRes, CardRange,
    DeviceRendering, EphemeralKey, Erro, Extension, Image, MerchantRisk, PReq, PRes, Phone,
    PriorAuthenticationInfo, RReq, RRes,
    record::{ElementDefinition, ElementTable},
};

/// The elements of all messages and of all objects in messages.
pub(in crate::message) fn element_tables() -> [&'static [ElementDefinition]; 20] {
    [
        PReq::FIELDS,
        PRes::FIELDS,
        CardRange::FIELDS,
        AReq::FIELDS,
        AccountInfo::FIELDS,
        AuthenticationInfo::FIELDS,
        PriorAuthenticationInfo::FIELDS,
        Phone::FIELDS,
        MerchantRisk::FIELDS,
        DeviceRendering::FIELDS,
        EphemeralKey::FIELDS,
        ARes::FIELDS,
        AcsRendering::FIELDS,
        CReq::FIELDS,
        CRes::FIELDS,
        RReq::FIELDS,
        RRes::FIELDS,
        Erro::FIELDS,
        Extension::FIELDS,
        Image::FIELDS,
    ]
}

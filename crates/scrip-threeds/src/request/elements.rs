//! Tables of the elements of an `AReq` and the request attributes they come from. A name with a dot
//! is an element of an object: `homePhone.cc` is the element `cc` of the object `homePhone`.

mod cardholder;
mod device;
mod envelope;
mod mapping;
mod purchase;

pub(crate) use self::mapping::ElementMapping;
pub(super) use self::mapping::extension_data;

pub(crate) fn all_mappings() -> impl Iterator<Item = &'static ElementMapping> {
    let envelope = envelope::ELEMENTS.iter().chain(device::ELEMENTS);
    envelope.chain(purchase::ELEMENTS).chain(cardholder::ELEMENTS).chain(cardholder::ADDRESSES)
}

//! `PReq` and `PRes`: the enrolled card ranges and their protocol versions.

use crate::{
    code::{AcsInformation, RangeAction},
    format::{Digits, List, Text, TransId, Url, Version, VersionNumber},
    message::{
        ElementPresence, Extensions, Message, MessageElements, MessageType, RANGES_BYTES_MAX,
        record::record,
    },
};

/// More ranges than any scheme has.
pub const RANGES_MAX: usize = 250_000;

record! {
    /// The request for all ranges, or for the changes since a serial number.
    #[derive(Clone)]
    pub struct PReq {
        must message_version: Version = "messageVersion";
        must server_trans_id: TransId = "threeDSServerTransID";
        must server_ref_number: Text<1, 32> = "threeDSServerRefNumber";
        may server_operator_id: Text<1, 32> = "threeDSServerOperatorID";
        may serial_number: Text<1, 20> = "serialNum";
        may extensions: Extensions = "messageExtension";
    }
}

impl Message for PReq {
    const TYPE: MessageType = MessageType::PReq;
}

record! {
    /// The ranges. An absent list means that nothing changed.
    pub struct PRes {
        must message_version: Version = "messageVersion";
        must server_trans_id: TransId = "threeDSServerTransID";
        must ds_trans_id: TransId = "dsTransID";
        must ds_start: VersionNumber = "dsStartProtocolVersion";
        must ds_end: VersionNumber = "dsEndProtocolVersion";
        may serial_number: Text<1, 20> = "serialNum";
        may ranges: List<CardRange, RANGES_MAX> = "cardRangeData";
        may extensions: Extensions = "messageExtension";
    }
}

impl Message for PRes {
    const TYPE: MessageType = MessageType::PRes;
    const BYTES_MAX: usize = RANGES_BYTES_MAX;
}

record! {
    /// One range of card numbers, inclusive.
    #[derive(Clone)]
    pub struct CardRange {
        must start: Digits<13, 19> = "startRange";
        must end: Digits<13, 19> = "endRange";
        may action: RangeAction = "actionInd";
        may acs_start: VersionNumber = "acsStartProtocolVersion" if acs_versions;
        may acs_end: VersionNumber = "acsEndProtocolVersion" if acs_versions;
        may ds_start: VersionNumber = "dsStartProtocolVersion";
        may ds_end: VersionNumber = "dsEndProtocolVersion";
        /// From 2.2.0; also accepted in a `PRes` of 2.1.0, because it does no harm there.
        may acs_information: List<AcsInformation, 24> = "acsInfoInd";
        may method_url: Url<256> = "threeDSMethodURL";
    }
}

/// A deleted range needs no versions.
fn acs_versions(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(!elements.has_code("actionInd", &["D"]))
}

//! The fault of a message in EMV terms: an error code and element names, never values.

use crate::code::codes;

codes! {
    /// The error codes of EMV 3DS. The second column is our description.
    pub enum ErrorCode {
        MessageInvalid = "101" "message received invalid",
        VersionUnsupported = "102" "message version not supported",
        SentLimitExceeded = "103" "sent messages limit exceeded",
        ElementMissing = "201" "required data element missing",
        CriticalExtensionUnknown = "202" "critical message extension not recognised",
        FormatInvalid = "203" "format of one or more data elements is invalid",
        ElementDuplicate = "204" "duplicate data element",
        TransactionUnknown = "301" "transaction id not recognised",
        DecryptionFailure = "302" "data decryption failure",
        AccessDenied = "303" "access denied, invalid endpoint",
        IsoCodeInvalid = "304" "ISO code not valid",
        TransactionDataInvalid = "305" "transaction data not valid",
        CategoryCodeInvalid = "306" "merchant category code not valid",
        SerialNumberInvalid = "307" "serial number not valid",
        TimedOut = "402" "transaction timed out",
        TransientFailure = "403" "transient system failure",
        PermanentFailure = "404" "permanent system failure",
        ConnectionFailure = "405" "system connection failure",
    }

    /// The component that detected an error.
    pub enum Component {
        Sdk = "C" "SDK",
        Server = "S" "3DS Server",
        DirectoryServer = "D" "Directory Server",
        AccessControlServer = "A" "Access Control Server",
    }
}

/// Limits the names in a fault, because more are not helpful and the length of `errorDetail` is
/// limited.
const ELEMENTS_MAX: usize = 20;

/// Why a message is rejected. The names come from our element tables, not from the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", code.name())]
pub struct Fault {
    pub code: ErrorCode,
    pub elements: Vec<String>,
}

impl Fault {
    pub fn new(code: ErrorCode) -> Self {
        Self { code, elements: Vec::new() }
    }

    pub fn for_element(code: ErrorCode, name: &str) -> Self {
        Self { code, elements: vec![name.to_owned()] }
    }
}

/// All faults of a message. They become one fault in the end.
#[derive(Debug, Default)]
pub(crate) struct FaultList(Vec<(ErrorCode, String)>);

impl FaultList {
    pub(crate) fn add(&mut self, code: ErrorCode, name: String) {
        // Always accept a new code: it may be the one that is reported.
        let is_new = !self.0.iter().any(|(it, _)| *it == code);
        if self.0.len() < ELEMENTS_MAX || is_new {
            self.0.push((code, name));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_vec(self) -> Vec<(ErrorCode, String)> {
        self.0
    }

    /// An `Erro` has one code. The lowest code is reported, because a missing element explains most
    /// other faults.
    pub(crate) fn into_lowest_fault(self) -> Option<Fault> {
        let code = self.0.iter().map(|(code, _)| *code).min()?;
        let names = self.0.into_iter().filter(|(it, _)| *it == code).map(|(_, name)| name);
        Some(Fault { code, elements: names.take(ELEMENTS_MAX).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_list_reports_the_lowest_code_with_its_elements() {
        let mut faults = FaultList::default();
        for _ in 0..30 {
            faults.add(ErrorCode::FormatInvalid, "b".to_owned());
        }
        faults.add(ErrorCode::ElementMissing, "a".to_owned());
        let fault = faults.into_lowest_fault().unwrap();
        assert_eq!(fault, Fault::for_element(ErrorCode::ElementMissing, "a"));
        assert_eq!(fault.to_string(), "required data element missing");
        assert!(FaultList::default().into_lowest_fault().is_none());
    }
}

//! Errors of devices, and what the operator can do about them.

use cryptoki::{
    context::Function,
    error::{Error, RvError},
};

use crate::source::UnlockError;

/// `CKR_AEAD_DECRYPT_FAILED` of PKCS#11 3.0.
const AEAD_DECRYPT_FAILED: u64 = 0x35;

/// The PIN is wrong, so that another attempt with it can lock the token.
pub(super) fn is_about_pin(error: &Error) -> bool {
    matches!(
        error,
        Error::Pkcs11(
            RvError::PinIncorrect
                | RvError::PinInvalid
                | RvError::PinLenRange
                | RvError::PinExpired
                | RvError::PinLocked,
            _
        )
    )
}

/// An error of a decryption. Devices report a wrong tag in different ways.
pub(super) fn explain_decrypt(error: &Error) -> UnlockError {
    let is_rejection = matches!(
        error,
        Error::Pkcs11(
            RvError::EncryptedDataInvalid
                | RvError::EncryptedDataLenRange
                | RvError::DataInvalid
                | RvError::DataLenRange
                | RvError::GeneralError
                | RvError::FunctionFailed
                | RvError::SignatureInvalid
                | RvError::UnknownErrorCode(AEAD_DECRYPT_FAILED),
            Function::Decrypt
        )
    );
    if is_rejection {
        return UnlockError::Rejected(
            "it was altered, or belongs to another vault, unlock method, version or key".to_owned(),
        );
    }
    explain(error)
}

pub(super) fn explain(error: &Error) -> UnlockError {
    let Error::Pkcs11(code, function) = error else {
        return UnlockError::Settings(
            "the library does not work as PKCS#11 requires: check that it is a PKCS#11 library"
                .to_owned(),
        );
    };
    // The name of the error in the standard, such as `TokenNotPresent`.
    let name = format!("{code:?} in {function:?}");
    let settings = |text: &str| UnlockError::Settings(format!("{text} ({name})"));
    let denied = |text: &str| UnlockError::Denied(format!("{text} ({name})"));
    if matches!(code, RvError::PinLocked) {
        denied("the PIN is locked: let the security officer of the token unlock it")
    } else if matches!(code, RvError::PinExpired) {
        denied("the PIN has expired: change it")
    } else if is_about_pin(error) {
        denied("the token rejects the PIN: correct it")
    } else if matches!(code, RvError::UserPinNotInitialized) {
        denied("the token has no PIN for users: let its security officer set one")
    } else if matches!(code, RvError::UserNotLoggedIn | RvError::UserAnotherAlreadyLoggedIn) {
        denied("the token requires another login")
    } else if matches!(code, RvError::KeyFunctionNotPermitted | RvError::ActionProhibited) {
        settings("the key must permit CKA_ENCRYPT and CKA_DECRYPT")
    } else if matches!(code, RvError::MechanismInvalid | RvError::MechanismParamInvalid) {
        settings("the token does not support CKM_AES_GCM")
    } else if matches!(code, RvError::KeyTypeInconsistent | RvError::KeySizeRange) {
        settings("the key must be an AES key with 256 bits")
    } else {
        UnlockError::Unavailable(format!("the device failed with {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_mapped_to_what_the_operator_can_do() {
        for (code, function, expected) in [
            (RvError::PinIncorrect, Function::Login, "Denied(the token rejects the PIN"),
            (RvError::PinLocked, Function::Login, "Denied(the PIN is locked"),
            (RvError::PinExpired, Function::Login, "Denied(the PIN has expired"),
            (RvError::UserPinNotInitialized, Function::Login, "Denied(the token has no PIN"),
            (RvError::KeyFunctionNotPermitted, Function::DecryptInit, "Settings(the key must"),
            (RvError::MechanismInvalid, Function::DecryptInit, "Settings(the token does not"),
            (RvError::DeviceRemoved, Function::Decrypt, "Unavailable(the device failed with"),
            (RvError::GeneralError, Function::DecryptInit, "Unavailable(the device failed with"),
            (RvError::GeneralError, Function::Decrypt, "Rejected(it was altered"),
            (RvError::EncryptedDataInvalid, Function::Decrypt, "Rejected(it was altered"),
            (RvError::UnknownErrorCode(0x35), Function::Decrypt, "Rejected(it was altered"),
        ] {
            let error = explain_decrypt(&Error::Pkcs11(code, function));
            let shown = format!("{error:?}").replace('"', "");
            assert!(shown.starts_with(expected), "{shown}");
        }
    }
}

//! One key of one token: sessions, login, encryption and decryption. The functions block.

use std::{
    fmt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use cryptoki::{
    context::Pkcs11 as Context,
    error::{Error, RvError},
    mechanism::{Mechanism, aead::GcmParams},
    object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle},
    session::{Session, UserType},
    slot::Slot,
    types::AuthPin,
};
use scrip_seal::{Secret, fill_random};

use super::{
    failure::{explain, explain_decrypt, is_about_pin},
    library,
    settings::{PinAttempts, Pkcs11Settings, TokenSelector},
};
use crate::source::UnlockError;

const NONCE_BYTES: usize = 12;
const TAG_BITS: u64 = 128;
/// The wrapping key is at least as strong as the vault key.
const KEY_BYTES_MIN: u64 = 32;

pub(super) struct Device {
    settings: Pkcs11Settings,
    /// A token locks itself after some wrong PINs, so a rejected PIN is never tried again.
    is_pin_rejected: AtomicBool,
}

impl Device {
    pub(super) fn new(settings: Pkcs11Settings) -> Self {
        Self { settings, is_pin_rejected: AtomicBool::new(false) }
    }

    pub(super) fn library_name(&self) -> String {
        let name = self.settings.library.file_name().map(Path::new);
        name.unwrap_or(&self.settings.library).display().to_string()
    }

    /// Returns the nonce, the ciphertext and the tag.
    pub(super) fn encrypt(
        &self,
        associated_data: &[u8],
        plaintext: &Secret,
    ) -> Result<Vec<u8>, UnlockError> {
        let session = self.log_in()?;
        let key = self.find_key(&session)?;
        let mut nonce = [0; NONCE_BYTES];
        fill_random(&mut nonce);
        let ciphertext = {
            let parameters = GcmParams::new(&mut nonce, associated_data, TAG_BITS.into());
            let mechanism = Mechanism::AesGcm(parameters.map_err(|error| explain(&error))?);
            session.encrypt(&mechanism, key, plaintext.expose())
        };
        let ciphertext = ciphertext.map_err(|error| explain(&error))?;
        // Some devices generate the nonce themselves, and replace ours.
        let mut bytes = nonce.to_vec();
        bytes.extend_from_slice(&ciphertext);
        Ok(bytes)
    }

    pub(super) fn decrypt(
        &self,
        associated_data: &[u8],
        bytes: &[u8],
    ) -> Result<Secret, UnlockError> {
        let (nonce, ciphertext) = bytes
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or_else(|| UnlockError::Rejected("it is too short".to_owned()))?;
        let session = self.log_in()?;
        let key = self.find_key(&session)?;
        let mut nonce = *nonce;
        let parameters = GcmParams::new(&mut nonce, associated_data, TAG_BITS.into());
        let mechanism = Mechanism::AesGcm(parameters.map_err(|error| explain(&error))?);
        let plaintext = session.decrypt(&mechanism, key, ciphertext);
        plaintext.map(Secret::new).map_err(|error| explain_decrypt(&error))
    }

    /// Opens a session and logs in. The login ends with the last session of the process.
    fn log_in(&self) -> Result<Session, UnlockError> {
        if self.is_pin_rejected.load(Ordering::Relaxed) {
            return Err(UnlockError::Denied(
                "the token rejected the PIN, which is not tried again, so that the token does not \
                 lock itself: correct the PIN in pin_file; the server tries the new one by itself \
                 (with pin_variable, restart it)"
                    .to_owned(),
            ));
        }
        let context = library::load(&self.settings.library)?;
        let slot = self.find_slot(&context)?;
        self.check_attempts(&context, slot)?;
        let session = context.open_ro_session(slot).map_err(|error| explain(&error))?;
        let pin = str::from_utf8(self.settings.pin.expose()).unwrap_or_default();
        match session.login(UserType::User, Some(&AuthPin::new(pin.into()))) {
            // Another session of this process has logged in.
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(session),
            Err(error) => {
                if is_about_pin(&error) {
                    self.is_pin_rejected.store(true, Ordering::Relaxed);
                }
                Err(explain(&error))
            }
        }
    }

    /// Rejects a login that could lock the token.
    fn check_attempts(&self, context: &Context, slot: Slot) -> Result<(), UnlockError> {
        let token = context.get_token_info(slot).map_err(|error| explain(&error))?;
        if token.user_pin_final_try() {
            return Err(UnlockError::Denied(
                "the token allows one more attempt to log in, which is not used: correct the PIN, \
                 then log in once with the tool of the token"
                    .to_owned(),
            ));
        }
        let is_command = self.settings.pin_attempts == PinAttempts::WithoutEarlierFailure;
        if is_command && token.user_pin_count_low() {
            return Err(UnlockError::Denied(
                "the token has rejected a PIN since its last login, so this command does not try \
                 one: correct the PIN in pin_file; the server tries the new one by itself"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn find_slot(&self, context: &Context) -> Result<Slot, UnlockError> {
        let slots = context.get_slots_with_token().map_err(|error| explain(&error))?;
        let label = match &self.settings.token {
            TokenSelector::Slot(number) => {
                return slots.into_iter().find(|it| it.id() == *number).ok_or_else(|| {
                    UnlockError::Unavailable(format!(
                        "there is no token in slot {number}: insert it, correct the number, or \
                         restart the server if the token is new"
                    ))
                });
            }
            TokenSelector::Label(label) => label,
        };
        let mut matches = Vec::new();
        for slot in slots {
            // A slot without an initialized token may not answer.
            if context.get_token_info(slot).is_ok_and(|it| it.label() == label) {
                matches.push(slot);
            }
        }
        match matches.as_slice() {
            [slot] => Ok(*slot),
            [] => Err(UnlockError::Unavailable(format!(
                "there is no token with the label {label}: insert it, correct the label, or \
                 restart the server if the token is new"
            ))),
            _ => Err(UnlockError::Settings(format!(
                "several tokens have the label {label}: set the slot instead"
            ))),
        }
    }

    fn find_key(&self, session: &Session) -> Result<ObjectHandle, UnlockError> {
        let label = &self.settings.key_label;
        let template = [
            Attribute::Class(ObjectClass::SECRET_KEY),
            Attribute::KeyType(KeyType::AES),
            Attribute::Label(label.as_bytes().to_vec()),
        ];
        let keys = session.find_objects(&template).map_err(|error| explain(&error))?;
        let key = match keys.as_slice() {
            [key] => *key,
            [] => {
                return Err(UnlockError::KeyMissing(format!(
                    "the token has no AES key with the label {label}: create it, or correct the \
                     label"
                )));
            }
            _ => {
                return Err(UnlockError::Settings(format!(
                    "the token has several AES keys with the label {label}: give one a label of its \
                     own"
                )));
            }
        };
        let lengths = session.get_attributes(key, &[AttributeType::ValueLen]).unwrap_or_default();
        let is_short =
            |it: &Attribute| matches!(it, Attribute::ValueLen(it) if **it < KEY_BYTES_MIN);
        if lengths.iter().any(is_short) {
            return Err(UnlockError::Settings(format!(
                "the key {label} has fewer than 256 bits: create an AES key with 256 bits"
            )));
        }
        Ok(key)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.settings, f)
    }
}

//! PKCS#11: a key of a hardware security module encrypts the vault key.
//!
//! A call into the library of a device can hang, and cannot be stopped. So each operation has a
//! thread of its own, which may outlive the operation. Their number is limited.

mod device;
mod failure;
mod library;
mod settings;

use std::{fmt, sync::Arc, thread, time::Duration};

use scrip_seal::Secret;
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, timeout_at},
};

use self::device::Device;
pub use self::settings::{PinAttempts, Pkcs11Settings, TokenSelector};
use crate::{
    source::{UnlockContext, UnlockError, UnlockFuture, UnlockSource},
    wrapped_key::WrappedKey,
};

/// After this number of calls that hang, no more are started.
const CALLS_MAX: usize = 4;

/// A key of a token.
pub struct Pkcs11 {
    device: Arc<Device>,
    calls: Arc<Semaphore>,
    deadline: Duration,
}

impl Pkcs11 {
    /// The kind of the source in an [`UnlockContext`].
    pub const KIND: &'static str = "pkcs11";

    /// Does not load the library. The first operation does, within its deadline.
    /// Errors: a setting is not valid.
    pub fn new(settings: Pkcs11Settings) -> Result<Self, UnlockError> {
        settings.check()?;
        let deadline = settings.deadline;
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        Ok(Self { device: Arc::new(Device::new(settings)), calls, deadline })
    }

    /// Runs an operation of the device on a thread. The deadline includes the wait for other calls.
    async fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Device) -> Result<T, UnlockError> + Send + 'static,
    ) -> Result<T, UnlockError> {
        let ends_at = Instant::now() + self.deadline;
        let library = self.device.library_name();
        let permit = timeout_at(ends_at, Arc::clone(&self.calls).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(UnlockError::Unavailable(format!(
                "{CALLS_MAX} calls into {library} have not returned: check the device, then restart \
                 this process"
            )));
        };
        let (sender, receiver) = oneshot::channel();
        let device = Arc::clone(&self.device);
        let call = move || {
            // If the deadline has passed, the result is dropped, which wipes a key.
            drop(sender.send(operation(&device)));
            drop(permit);
        };
        // The thread is not joined, because the call may never return.
        let thread = thread::Builder::new().name("pkcs11".to_owned()).spawn(call);
        thread.map_err(|_| UnlockError::Unavailable("the system has no thread left".to_owned()))?;
        match timeout_at(ends_at, receiver).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(UnlockError::Unavailable(format!(
                "the call into {library} ended without a result"
            ))),
            Err(_) => Err(UnlockError::Unavailable(format!(
                "the device has not answered a call into {library} within {} ms: check the device \
                 and the connection to it",
                self.deadline.as_millis()
            ))),
        }
    }

    async fn encrypt(&self, context: &UnlockContext, key: &Secret) -> Result<Vec<u8>, UnlockError> {
        let associated_data = context.associated_data();
        let plaintext = Secret::new(key.expose().to_vec());
        let ciphertext =
            self.run(move |device| device.encrypt(&associated_data, &plaintext)).await?;
        Ok(WrappedKey::encode(key, &ciphertext))
    }

    async fn decrypt(&self, context: &UnlockContext, bytes: &[u8]) -> Result<Secret, UnlockError> {
        let wrapped = WrappedKey::parse(bytes)?;
        let associated_data = context.associated_data();
        let ciphertext = wrapped.source_bytes.to_vec();
        let key = self.run(move |device| device.decrypt(&associated_data, &ciphertext)).await?;
        wrapped.verify(key)
    }
}

impl UnlockSource for Pkcs11 {
    fn wrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        key: &'a Secret,
    ) -> UnlockFuture<'a, Vec<u8>> {
        Box::pin(self.encrypt(context, key))
    }

    fn unwrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        wrapped: &'a [u8],
    ) -> UnlockFuture<'a, Secret> {
        Box::pin(self.decrypt(context, wrapped))
    }
}

impl fmt::Debug for Pkcs11 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pkcs11").field("device", &self.device).finish_non_exhaustive()
    }
}

//! Simulation of an authentication: the session is written before the directory server is called,
//! then the server is called, then the result is written. Anything can happen in between.

use scrip_core::{
    operations::threeds_sessions::authenticate_threeds_session::{
        NewAuthentication, authenticate_threeds_session,
    },
    threeds::DirectoryServerError,
};
use scrip_testing::faults::schedule::{PausePoint, RunOutcome};
use scrip_threeds::session::{StateMachineEvent, ThreeDsRejection, ThreeDsSession};
use serde_json::json;

use crate::sessions::{
    messages::{authenticate_request, secret_of},
    model::{ModelEvent, ModelOutcome, authentication_parameters},
    random_steps::{AuthenticateStep, ServerReply, WriteFate},
    simulation::{OperationFuture, SessionSimulation},
};

impl SessionSimulation {
    pub(crate) async fn authenticate(&mut self, step: &AuthenticateStep) {
        let Some(session) = self.session_index(step.session) else { return };
        let (vault, caller) = (self.vault.clone(), self.caller.clone());
        let id = self.model.sessions[session].id;
        let new_authentication = NewAuthentication {
            request: authenticate_request(self.model.sessions[session].kind, step.decoupled),
            card_brand: None,
        };
        let mut operation: OperationFuture = Box::pin(async move {
            authenticate_threeds_session(&vault, &caller, id, new_authentication, None)
                .await
                .map(|_| "done".to_owned())
        });
        if !self.begin_authentication(session, &mut operation, step).await {
            return;
        }
        let run_outcome = self.schedule.run(&mut operation).await;
        let RunOutcome::Paused(PausePoint::SendMessage(message, response)) = run_outcome else {
            panic!("expected a call of the directory server: {run_outcome:?}")
        };
        let state = self.model.sessions[session].row.clone().unwrap();
        let model_session = &mut self.model.sessions[session];
        model_session.secret = Some(secret_of(&message));
        if !matches!(step.reply, ServerReply::Unanswered(DirectoryServerError::NotSent)) {
            model_session.delivered += 1;
            assert_eq!(
                model_session.delivered, 1,
                "the directory server was called twice for {id}"
            );
        }
        self.check().await;
        self.run_steps(&step.concurrent_steps).await;
        let Some(server_response) = self.server_reply(session, &step.reply) else { return };
        response.send(server_response.clone().map(Into::into)).unwrap();
        self.conclude(session, &state, operation, &server_response, &step.second_write).await;
    }

    /// Runs until the session is written before the call. Returns whether it was written.
    async fn begin_authentication(
        &mut self,
        session: usize,
        operation: &mut OperationFuture,
        step: &AuthenticateStep,
    ) -> bool {
        let model_event = ModelEvent {
            event: StateMachineEvent::Authenticate {
                parameters: authentication_parameters(step.decoupled),
            },
            operation: "authenticate_threeds_session",
            outcome: "authentication_requested",
            refusal_result: |it| {
                let is_missing = *it == ThreeDsRejection::DeviceInfoMissing;
                if is_missing { "invalid".to_owned() } else { "conflict".to_owned() }
            },
            missing_result: "not found",
            writes_without_change: true,
        };
        let mut fate = &step.first_write;
        loop {
            let planned = match self.model.plan(session, &model_event) {
                ModelOutcome::Write(planned) => planned,
                ModelOutcome::Nothing(expected) => {
                    self.expect_end(operation, &expected).await;
                    return false;
                }
            };
            match self.run_write(session, operation, *planned, fate).await {
                Some(Some("done")) => return true,
                Some(None) => fate = &WriteFate::Commit,
                None => return false,
                Some(Some(expected)) => {
                    self.expect_end(operation, expected).await;
                    return false;
                }
            }
        }
    }

    fn server_reply(
        &self,
        session: usize,
        reply: &ServerReply,
    ) -> Option<Result<Vec<u8>, DirectoryServerError>> {
        let model_session = &self.model.sessions[session];
        let response = match reply {
            ServerReply::ProcessDies => return None,
            ServerReply::Unanswered(error) => return Some(Err(*error)),
            ServerReply::Status(status) => {
                model_session.authentication_response(status).to_string()
            }
            ServerReply::OtherSession => {
                let mut response = model_session.authentication_response("Y");
                response["threeDSServerTransID"] = "00000000-0000-4000-8000-000000000000".into();
                response.to_string()
            }
            ServerReply::ErrorMessage => json!({
                "messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "203",
                "errorComponent": "D", "errorDescription": "no", "errorDetail": "purchaseAmount",
                "threeDSServerTransID": model_session.ids()[0],
            })
            .to_string(),
            ServerReply::Garbage => "<html>".to_owned(),
        };
        Some(Ok(response.into_bytes()))
    }

    async fn conclude(
        &mut self,
        session: usize,
        state: &ThreeDsSession,
        mut operation: OperationFuture,
        server_response: &Result<Vec<u8>, DirectoryServerError>,
        fate: &WriteFate,
    ) {
        let planned = self.model.conclude(state, server_response);
        match self.run_write(session, &mut operation, planned, fate).await {
            None => (),
            Some(Some(expected)) => self.expect_end(&mut operation, expected).await,
            Some(None) => {
                self.outcomes.insert("session missing after call".to_owned());
                self.expect_end(&mut operation, "not found").await;
            }
        }
    }
}

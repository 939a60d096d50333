// Samples of the tag 3-D Secure. One section for each operation: see CONTRIBUTING.md.

// operation: create_threeds_session
// A session of a merchant. For a customer, pass device: "browser" and deviceInfo instead of the type.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, TOKEN_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const session = await client.threeds.sessions.create({ type: "merchant", tokenId: TOKEN_ID });
console.log(session.id, session.cardBrand, session.recommendedVersion);

// operation: get_threeds_session
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, SESSION_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const session = await client.threeds.sessions.get(SESSION_ID);
console.log(session.id, session.type, session.version.recommendedVersion);

// operation: update_threeds_session
// The values come from the 3-D Secure SDK of the app.
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_KEY, SESSION_ID } = process.env;
const device_info = {
  sdk_transaction_id: "b2385523-a66c-4907-ac3c-91848e8c0067",
  sdk_application_id: "a2385523-a66c-4907-ac3c-91848e8c0068",
  sdk_encryption_data: "e30.e30.e30.e30.e30",
  sdk_ephemeral_public_key: {
    kty: "EC",
    crv: "P-256",
    x: "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    y: "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
  },
  sdk_max_timeout: "05",
  sdk_reference_number: "3DS_LOA_SDK_1",
  sdk_render_options: { sdk_interface: "01", sdk_ui_type: ["01", "02", "03", "04"] },
};
const response = await fetch(`${SCRIP_URL}/3ds/sessions/${SESSION_ID}`, {
  method: "PUT",
  headers: { "BT-API-KEY": SCRIP_KEY, "Content-Type": "application/json" },
  body: JSON.stringify({ device_info }),
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.json());

// operation: authenticate_threeds_session
// A merchant session. In a session of a customer, use payment-transaction and no decoupled_challenge_max_time.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, SESSION_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const result = await client.threeds.sessions.authenticate(SESSION_ID, {
  authenticationCategory: "payment",
  authenticationType: "other-payment",
  decoupledChallengeMaxTime: 5,
  purchaseInfo: {
    amount: "8000",
    currency: "826",
    exponent: "2",
    date: "20261109141010",
    transactionType: "purchase",
  },
  merchantInfo: {
    mid: "9876543210001",
    acquirerBin: "000000999",
    name: "A shop",
    categoryCode: "7922",
    countryCode: "826",
  },
  requestorInfo: { id: "1", name: "A shop", url: "https://shop.example" },
  cardholderInfo: { name: "Ada Lovelace", email: "ada@mail.example" },
});
console.log(result.authenticationStatus, result.eci, result.dsTransactionId);

// operation: get_challenge_result
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, SESSION_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const result = await client.threeds.sessions.getChallengeResult(SESSION_ID);
console.log(result.authenticationStatus, result.eci, result.dsTransactionId);

// operation: notify_method
// The browser of the cardholder sends this form. No key, and no method in the client library.
const { SCRIP_URL, SESSION_ID } = process.env;
const message = JSON.stringify({ threeDSServerTransID: SESSION_ID });
const threeDSMethodData = Buffer.from(message).toString("base64url");
const response = await fetch(`${SCRIP_URL}/3ds/sessions/${SESSION_ID}/method-notification`, {
  method: "POST",
  body: new URLSearchParams({ threeDSMethodData }),
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.text());

// operation: notify_challenge
// The browser of the cardholder sends this form at the end of the challenge.
// No key, and no method in the client library.
const { SCRIP_URL, SESSION_ID, ACS_TRANSACTION_ID } = process.env;
const message = JSON.stringify({
  messageType: "CRes",
  messageVersion: "2.2.0",
  threeDSServerTransID: SESSION_ID,
  acsTransID: ACS_TRANSACTION_ID,
  challengeCompletionInd: "Y",
  transStatus: "Y",
});
const cres = Buffer.from(message).toString("base64url");
const response = await fetch(`${SCRIP_URL}/3ds/sessions/${SESSION_ID}/challenge-notification`, {
  method: "POST",
  body: new URLSearchParams({ cres }),
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.text());

// operation: receive_result
// The directory server sends this message. Only the directory server knows the secret.
// No key, and no method in the client library.
const { SCRIP_URL, SESSION_ID, ACS_TRANSACTION_ID, DS_TRANSACTION_ID, RESULT_SECRET } = process.env;
const response = await fetch(`${SCRIP_URL}/3ds/sessions/${SESSION_ID}/results/${RESULT_SECRET}`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({
    messageType: "RReq",
    messageVersion: "2.2.0",
    messageCategory: "01",
    threeDSServerTransID: SESSION_ID,
    acsTransID: ACS_TRANSACTION_ID,
    dsTransID: DS_TRANSACTION_ID,
    transStatus: "Y",
    authenticationValue: "AAECAwQFBgcICQoLDA0ODxAREhM=",
    eci: "05",
    interactionCounter: "01",
  }),
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.json());

// operation: get_method_page
// A page for a hidden frame in the browser of the cardholder.
// No key, and no method in the client library.
const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/pages/method.html`);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.text());

// operation: get_challenge_page
// A page for a frame in the browser of the cardholder. No key, and no method in the client library.
const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/pages/challenge.html`);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.text());

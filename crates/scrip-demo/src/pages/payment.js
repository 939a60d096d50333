// A payment, from the card to the charge. A real shop uses the official SDK and its own backend.

import { encodeBase64Url, runChallenge, runMethod } from "/demo/frames.js";

// A failed step. The checkout shows it to the payer.
export class PaymentError extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? "The vault does not respond.");
    this.status = status;
    this.problem = problem;
  }
}

export async function pay(payer, { journal, publicKey, elements, cardFields }) {
  const vault = { publicKey, name: "the public key" };
  const intent = await createIntent(elements, cardFields, journal);
  const session = await createSession(intent, journal, vault);
  await checkBrowser(session, journal);
  let authentication = await authenticate(session, payer, journal);
  if (authentication.authentication_status === "challenge") {
    authentication = await challenge(session, authentication, journal);
  }
  if (!isGood(authentication.authentication_status)) return { authentication };
  return { authentication, charge: await charge(session, journal) };
}

// The card goes from the frames of the vault to the vault. The script of this page gets an id.
async function createIntent(elements, cardFields, journal) {
  const step = journal.begin("Store the card in the vault", "The fields send the card to Scrip…");
  const intent = await elements.tokenIntents.create({ type: "card", data: cardFields.data() }).catch((error) => {
    step.end("bad", `Rejected: ${error.message}`);
    throw new PaymentError(error.status ?? 0, error.data ?? { detail: error.message });
  });
  const hidden = "(in the frame)";
  const data = { number: hidden, expiration_month: hidden, expiration_year: hidden, cvc: hidden };
  step.show(
    { line: "POST /token-intents, from the frame of the vault with the public key", value: { type: "card", data } },
    { line: "result for this page", value: intent },
  );
  step.end("done", "The fields sent the card to the vault. The page and the shop received an id instead of the number.");
  return intent;
}

async function createSession(intent, journal, vault) {
  const step = journal.begin("Create a 3DS session", "Scrip finds the bank that issued the card…");
  const body = { token_intent_id: intent.id, device: "browser", device_info: device(), web_challenge_mode: "iframe" };
  const session = await callVault(step, vault, "/3ds/sessions", body);
  const versions = session.recommended_version ? ` 3-D Secure version: ${session.recommended_version}.` : "";
  step.end("done", `The bank of the card supports 3-D Secure (${session.card_brand}).${versions}`);
  return session;
}

async function checkBrowser(session, journal) {
  const title = "The bank checks the browser";
  const step = journal.begin(title, "The bank checks this browser in a hidden frame…");
  if (!session.method_url) {
    step.end("skipped", "This bank does not check browsers.");
    return;
  }
  const data = {
    threeDSServerTransID: session.id,
    threeDSMethodNotificationURL: session.method_notification_url,
  };
  const message = {
    type: "startMethod",
    threeDSMethodURL: session.method_url,
    threeDSMethodData: encodeBase64Url(data),
  };
  const reply = await runMethod(message);
  step.show(
    { line: `form to ${session.method_url}`, value: { threeDSMethodData: data } },
    { line: "message from the frame", value: reply ?? undefined },
  );
  if (reply) step.end("done", "The bank checked the browser in a hidden frame. It may trust this browser more in the future.");
  else step.end("skipped", "The check did not finish within ten seconds. The payment continues.");
}

async function authenticate(session, payer, journal) {
  const step = journal.begin("Authenticate the payment", "The shop's backend sends the payment to the bank through Scrip…");
  const { name, email } = payer;
  const response = await callShop(step, "/demo/authenticate", { session_id: session.id, name, email });
  const status = response.authentication_status;
  const text = status === "challenge" ? "The bank asks the payer to confirm first." : `Result of the bank: ${status}.`;
  step.end(isGood(status) || status === "challenge" ? "done" : "bad", text);
  return response;
}

async function challenge(session, authentication, journal) {
  const step = journal.begin("The payer confirms the payment", "Confirm the payment in the dialog of your bank.");
  const creq = {
    messageType: "CReq",
    messageVersion: authentication.threeds_version,
    threeDSServerTransID: session.id,
    acsTransID: authentication.acs_transaction_id,
    challengeWindowSize: "05",
  };
  const message = { type: "startChallenge", acsURL: authentication.acs_challenge_url, creq: encodeBase64Url(creq) };
  const reply = await runChallenge(message);
  step.show(
    { line: `form to ${authentication.acs_challenge_url}`, value: { creq } },
    { line: "message from the frame", value: reply ?? undefined },
  );
  if (!reply) {
    step.end("bad", "You left before the bank confirmed the payment.");
    throw new PaymentError(0, { title: "You left", detail: "You left before the bank confirmed the payment. Nothing is paid." });
  }
  step.end("done", "The bank's page is finished. The result that the bank sends to Scrip directly is decisive.");
  return result(session, journal);
}

async function result(session, journal) {
  const step = journal.begin("Fetch the result", "The shop's backend fetches the result from Scrip…");
  const response = await callShop(step, "/demo/challenge-result", { session_id: session.id });
  const status = response.authentication_status;
  step.end(isGood(status) ? "done" : "bad", `Result of the bank: ${status}.`);
  return response;
}

// The backend sends references to the card; the provider receives the card. The page of the provider is in a frame
// of another origin, which the shop cannot read.
async function charge(session, journal) {
  const title = "Charge the card through the proxy";
  const step = journal.begin(title, "The shop's backend charges the card through Scrip, without the number…");
  const { answer, page } = await callShop(step, "/demo/charge", { session_id: session.id }, readCharge);
  if (page) step.showFrame("What the provider received", page);
  const text = `The shop sent references, Scrip replaced them, and the provider answered: ${answer.status}. Then the shop removed the card and its code from the vault.`;
  step.end(answer.status === "approved" ? "done" : "bad", text);
  return answer;
}

const readCharge = ({ answer, provider_page: page }) => ({ answer, page });

const isGood = (status) => status === "successful" || status === "attempted";

// Calls the vault from the browser.
async function callVault(step, vault, path, body) {
  const headers = { "BT-API-KEY": vault.publicKey, "Content-Type": "application/json" };
  const { status, body: response } = await fetchJson(step, path, { method: "POST", headers, body: JSON.stringify(body) });
  step.show(
    { line: `POST ${path}, from the browser with ${vault.name}`, value: body },
    { line: String(status), value: response },
  );
  return checkStatus(step, status, response);
}

// Calls the shop's backend, which calls the vault and returns request and response.
async function callShop(step, path, body, read = ({ answer }) => answer) {
  const headers = { "Content-Type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  const { status, body: response } = await fetchJson(step, path, init);
  if (status !== 200) return checkStatus(step, status, response);
  const { request } = response;
  step.show(
    {
      line: `${request.method} ${request.path}, from the backend with the private key`,
      value: request.body ?? undefined,
    },
    { line: String(response.status), value: response.answer },
  );
  checkStatus(step, response.status, response.answer?.proxy_error ?? response.answer);
  return read(response);
}

async function fetchJson(step, path, init) {
  try {
    const response = await fetch(path, init);
    return { status: response.status, body: await response.json() };
  } catch {
    step.end("bad", "No response. Is scrip dev still running?");
    throw new PaymentError(0, null);
  }
}

function checkStatus(step, status, body) {
  if (status >= 200 && status < 300) return body;
  const error = new PaymentError(status, body);
  step.end("bad", `Rejected with ${status}: ${error.message}`);
  throw error;
}

// The browser data that EMV 3-D Secure requires. The server adds the rest.
function device() {
  const depth = [48, 32, 24, 16, 15, 8, 4, 1].find((it) => it <= screen.colorDepth) ?? 24;
  return {
    browser_color_depth: String(depth),
    browser_java_enabled: false,
    browser_javascript_enabled: true,
    browser_language: navigator.language.split("-").slice(0, 2).join("-"),
    browser_screen_height: String(screen.height),
    browser_screen_width: String(screen.width),
    browser_tz: String(new Date().getTimezoneOffset()),
    browser_user_agent: navigator.userAgent,
  };
}

// A saved card: its owner sees the number in a frame of the vault, and types the security code again for a payment.

import { CardFields, brandName, fieldStyle, loadElements } from "/demo/card-fields.js";
import { Journal } from "/demo/journal.js";

const at = (id) => document.getElementById(id);
const journal = new Journal(at("steps"), at("status"));
const TEST_CARD = { number: "4242424242424242", month: 12, year: new Date().getFullYear() + 4, cvc: "123" };

const { elements } = await loadElements();
const cardFields = new CardFields(elements);
let token = null;

// Runs one step and shows its messages. A failure ends the step, and the page stays usable.
async function runStep(title, text, run) {
  const step = journal.begin(title, text);
  try {
    return await run(step);
  } catch (error) {
    step.end("bad", `Failed: ${error.message}`);
    return null;
  } finally {
    journal.say("", false);
  }
}

at("save").addEventListener("submit", async (event) => {
  event.preventDefault();
  const wrong = cardFields.findError();
  if (wrong) return cardFields.fields[wrong].focus();
  token = await runStep("Save the card", "The fields send the card to Scrip…", async (step) => {
    const created = await elements.tokens.create({ type: "card", data: cardFields.data() });
    step.show(
      { line: "POST /tokens, from the frame of the vault with the public key", value: { type: "card", data: "(in the frames)" } },
      { line: "result for this page", value: created },
    );
    step.end("done", "The shop stores the id of the token. It never had the number.");
    return created;
  });
  if (!token) return;
  at("card-brand").textContent = brandName(token.card?.brand) || "Card";
  at("card-last4").textContent = `•••• ${token.card?.last4 ?? ""}`;
  at("save").hidden = true;
  at("saved").hidden = false;
  await freshCode.mount("#fresh-cvc");
});

// A session for this browser: the vault creates it, and the backend of the shop authorizes it. Its key stays in the frame
// of the vault; with the key, a script of this page could read the card itself.
async function authorize(step, purpose) {
  const kept = await elements.sessions.create({ keepInFrame: true });
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ nonce: kept.nonce, token_id: token.id, purpose });
  const response = await fetch("/demo/authorize", { method: "POST", headers, body });
  const { request, status, answer } = await response.json();
  step.show(
    { line: `${request.method} ${request.path}, from the backend with the private key`, value: request.body },
    { line: String(status), value: answer ?? undefined },
  );
  if (status !== 204) throw new Error(answer?.detail ?? `the backend answered ${status}`);
  return kept.session;
}

const shownNumber = elements.createElement("cardNumber", {
  targetId: "shown-number",
  style: fieldStyle(),
  readOnly: true,
  iconPosition: "none",
  "aria-label": "Card number",
});
const shownExpiry = elements.createElement("cardExpirationDate", {
  targetId: "shown-expiry",
  style: fieldStyle(),
  readOnly: true,
  "aria-label": "Expiration date",
});
const copyButton = elements.createElement("copyButton", {
  targetId: "copy",
  text: "Copy the number",
  style: { base: { color: fieldStyle().base.color, fontFamily: fieldStyle().base.fontFamily, fontWeight: "600" } },
});
const freshCode = elements.createElement("cardVerificationCode", {
  targetId: "fresh-cvc",
  style: fieldStyle(),
  "aria-label": "Security code",
});

at("reveal").addEventListener("click", () =>
  runStep("Show the card to its owner", "The backend authorizes this browser…", async (step) => {
    const session = await authorize(step, "reveal");
    const found = await elements.tokens.retrieve(token.id, { session });
    at("revealed").hidden = false;
    if (!shownNumber.mounted) {
      await Promise.all([shownNumber.mount("#shown-number"), shownExpiry.mount("#shown-expiry"), copyButton.mount("#copy")]);
    }
    // References: this page can say where the values appear, and cannot read them.
    shownNumber.setValue(found.data.number);
    shownExpiry.setValue({ month: found.data.expiration_month, year: found.data.expiration_year });
    copyButton.setValueRef(shownNumber);
    step.show({ line: `GET /tokens/${token.id}, from the frame of the vault with the session key` }, { line: "result for this page", value: found });
    step.end("done", "The number is in the frame. The page received references only.");
  }),
);

copyButton.on("copy", () => journal.say("The number is in the clipboard.", false));

at("fresh").addEventListener("submit", async (event) => {
  event.preventDefault();
  freshCode.validate();
  const { complete } = freshCode.metadata;
  at("fresh-cvc-message").textContent = complete ? "" : "Type the whole security code.";
  if (!complete) return freshCode.focus();
  await runStep("Add the security code", "The backend authorizes this browser…", async (step) => {
    const session = await authorize(step, "security_code");
    await elements.tokens.update(token.id, { data: { cvc: freshCode } }, { session });
    step.end("done", "The code is stored for the next payment, for one hour at most.");
    freshCode.clear();
  });
});

at("fresh-cvc-label").addEventListener("click", () => freshCode.focus());
freshCode.on("focus", () => at("fresh-cvc").classList.add("focused"));
freshCode.on("blur", () => at("fresh-cvc").classList.remove("focused"));

await cardFields.mount();
await cardFields.fill(TEST_CARD);
at("save-button").disabled = false;
document.body.dataset.ready = "true";

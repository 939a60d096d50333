// The checkout form: card fields of the vault, fields of the shop, and the start of the payment.

import { CardFields, loadElements } from "/demo/card-fields.js";
import { Journal, element } from "/demo/journal.js";
import { describePayment, describeFailure, show } from "/demo/outcome.js";
import { PaymentError, pay } from "/demo/payment.js";
import { CARDS, CARD_GROUPS } from "/demo/sandbox.js";

const at = (id) => document.getElementById(id);
const inputs = { name: at("name"), email: at("email") };
const journal = new Journal(at("steps"), at("status"));
const OTHER_NUMBER = "own";

const RULES = {
  name: (text) => (text.trim().length >= 2 ? "" : "Type the name on the card."),
  email: (text) => (/^[^@\s]+@[^@\s]+$/.test(text.trim()) ? "" : "Type an email address."),
};

// Returns true if there is no error.
function check(id) {
  const wrong = RULES[id](inputs[id].value);
  const message = at(`${id}-message`);
  message.textContent = wrong;
  message.classList.toggle("wrong", wrong !== "");
  inputs[id].setAttribute("aria-invalid", String(wrong !== ""));
  return wrong === "";
}

for (const id of Object.keys(inputs)) {
  inputs[id].addEventListener("blur", () => inputs[id].value !== "" && check(id));
}

// The page knows the first and last digits of a number only.
function selectScenario({ complete, cardBin, cardLast4 }) {
  const isMatch = ({ number }) => complete && number.startsWith(cardBin) && number.endsWith(cardLast4);
  at("sandbox").value = CARDS.find(isMatch)?.number ?? OTHER_NUMBER;
}

const { publicKey, elements } = await loadElements();
const cardFields = new CardFields(elements, { onNumber: selectScenario });

function pick({ number }) {
  const isAmericanExpress = number.startsWith("37");
  const card = { number, month: 12, year: new Date().getFullYear() + 4, cvc: isAmericanExpress ? "1234" : "123" };
  return cardFields.fill(card);
}

function fillPicker() {
  for (const { title, cards } of CARD_GROUPS) {
    const group = element("optgroup", { label: title });
    for (const { number, label } of cards) {
      group.append(element("option", { value: number, textContent: label }));
    }
    at("sandbox").append(group);
  }
  at("sandbox").append(element("option", { value: OTHER_NUMBER, textContent: "Another card number" }));
}

at("sandbox").addEventListener("change", (event) => {
  const card = CARDS.find((it) => it.number === event.target.value);
  if (card) pick(card);
  else cardFields.fields.number.focus();
});

at("checkout").addEventListener("submit", async (event) => {
  event.preventDefault();
  const wrongField = cardFields.findError();
  const wrongInputs = Object.keys(inputs).filter((id) => !check(id));
  if (wrongField) cardFields.fields[wrongField].focus();
  else if (wrongInputs.length > 0) inputs[wrongInputs[0]].focus();
  if (wrongField || wrongInputs.length > 0) return;
  busy(true);
  journal.clear();
  at("outcome").hidden = true;
  bringIntoView(at("journal-title"));
  const outcome = await attempt();
  show(outcome);
  journal.say("", false);
  busy(false);
  at("outcome-title").focus({ preventScroll: true });
  bringIntoView(at("journal-title"));
});

async function attempt() {
  try {
    const payer = { name: inputs.name.value.trim(), email: inputs.email.value.trim() };
    return describePayment(await pay(payer, { journal, publicKey, elements, cardFields }));
  } catch (error) {
    return describeFailure(error instanceof PaymentError ? error : new PaymentError(0, null));
  }
}

function busy(isBusy) {
  at("fields").disabled = at("sandbox").disabled = at("pay").disabled = isBusy;
  at("pay").textContent = isBusy ? "Paying…" : "Pay €28.50";
  cardFields.setDisabled(isBusy);
}

// On a phone, the steps are below the form.
function bringIntoView(target) {
  const { top } = target.getBoundingClientRect();
  if (top < 0 || top > window.innerHeight * 0.6) target.scrollIntoView({ block: "start" });
}

at("again").addEventListener("click", () => {
  at("outcome").hidden = true;
  journal.clear();
  journal.say("Select another card, or pay with the same card again.", false);
  at("sandbox").focus();
  at("sandbox").scrollIntoView({ block: "center" });
});

fillPicker();
await cardFields.mount();
await pick(CARDS[0]);
// Before, the form has no card, and the first card would replace an early choice.
at("sandbox").disabled = at("pay").disabled = false;
document.body.dataset.ready = "true";

// The checkout form: validates input while it is typed, and starts the payment.

import { brandOf, digitsOf, expiryOf, rules, spaced, spacedExpiry } from "/demo/card.js";
import { Journal, element } from "/demo/journal.js";
import { describePayment, describeFailure, show } from "/demo/outcome.js";
import { PaymentError, pay } from "/demo/payment.js";
import { CARDS, CARD_GROUPS } from "/demo/sandbox.js";

const at = (id) => document.getElementById(id);
const fields = Object.fromEntries(["number", "expiry", "cvc", "name", "email"].map((id) => [id, at(id)]));
const journal = new Journal(at("steps"), at("status"));
const OTHER_NUMBER = "own";

const number = () => digitsOf(fields.number.value);
const isSandbox = () => CARDS.some((it) => it.number === number());

const checks = {
  number: () => rules.number(fields.number.value, isSandbox()),
  expiry: () => rules.expiry(fields.expiry.value, new Date()),
  cvc: () => rules.cvc(fields.cvc.value, brandOf(number())),
  name: () => rules.name(fields.name.value),
  email: () => rules.email(fields.email.value),
};

// Returns true if there is no error; a hint is not an error.
function check(id) {
  const { wrong, hint } = checks[id]();
  const message = at(`${id}-message`);
  message.textContent = wrong ?? hint ?? "";
  message.classList.toggle("wrong", wrong !== undefined);
  fields[id].setAttribute("aria-invalid", String(wrong !== undefined));
  return wrong === undefined;
}

function clearError(id) {
  at(`${id}-message`).textContent = "";
  fields[id].removeAttribute("aria-invalid");
}

function showBrand() {
  const brand = brandOf(number());
  at("brand").textContent = brand?.name ?? "";
  fields.cvc.maxLength = brand?.code ?? 3;
}

// Formats the input, and keeps the cursor after the digit that was just typed.
function respace(input, format) {
  const before = digitsOf(input.value.slice(0, input.selectionStart)).length;
  const isAtEnd = input.selectionStart === input.value.length;
  input.value = format(input.value);
  if (isAtEnd) return;
  let position = 0;
  for (let seen = 0; seen < before && position < input.value.length; position += 1) {
    if (/\d/.test(input.value[position])) seen += 1;
  }
  input.setSelectionRange(position, position);
}

function pick(card) {
  const year = (new Date().getFullYear() + 4) % 100;
  fields.number.value = spaced(card.number);
  fields.expiry.value = `12/${String(year).padStart(2, "0")}`;
  fields.cvc.value = brandOf(card.number)?.code === 4 ? "1234" : "123";
  showBrand();
  ["number", "expiry", "cvc"].forEach(clearError);
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
  pick(CARDS[0]);
}

at("sandbox").addEventListener("change", (event) => {
  const card = CARDS.find((it) => it.number === event.target.value);
  if (card) pick(card);
  else fields.number.select();
});

fields.number.addEventListener("input", () => {
  respace(fields.number, (text) => spaced(digitsOf(text).slice(0, 19)));
  showBrand();
  clearError("number");
  at("sandbox").value = isSandbox() ? number() : OTHER_NUMBER;
});
fields.expiry.addEventListener("input", (event) => {
  const isErasing = event.inputType?.startsWith("delete") ?? false;
  respace(fields.expiry, (text) => spacedExpiry(text, isErasing));
  clearError("expiry");
});
fields.cvc.addEventListener("input", () => {
  respace(fields.cvc, (text) => digitsOf(text));
  clearError("cvc");
});
for (const id of Object.keys(fields)) {
  fields[id].addEventListener("blur", () => fields[id].value !== "" && check(id));
}

let publicKey = null;

async function settings() {
  const response = await fetch("/demo/settings");
  return (await response.json()).public_key;
}

at("checkout").addEventListener("submit", async (event) => {
  event.preventDefault();
  const wrong = Object.keys(fields).filter((id) => !check(id));
  if (wrong.length > 0) {
    fields[wrong[0]].focus();
    return;
  }
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
  const { month, year } = expiryOf(fields.expiry.value);
  const card = { number: number(), expiration_month: month, expiration_year: year, cvc: fields.cvc.value };
  try {
    publicKey ??= await settings();
    const payer = { card, name: fields.name.value.trim(), email: fields.email.value.trim() };
    return describePayment(await pay(payer, { journal, publicKey }));
  } catch (error) {
    return describeFailure(error instanceof PaymentError ? error : new PaymentError(0, null));
  }
}

function busy(isBusy) {
  at("fields").disabled = at("sandbox").disabled = at("pay").disabled = isBusy;
  at("pay").textContent = isBusy ? "Paying…" : "Pay €28.50";
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

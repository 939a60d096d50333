// Autofill across frames. A browser fills only the inputs of one document, so each frame has hidden
// inputs for the other parts of a card. A value that the browser puts there goes to the field of the
// same instance that is made for it, and is cleared at once.

import { siblingFields } from "./siblings.js";

/** Autocomplete tokens with the usual names of their inputs, which browsers look at too. */
export const CARD_TOKENS = {
  "cc-name": "cardholder",
  "cc-number": "cardnumber",
  "cc-exp": "exp-date",
  "cc-csc": "cvc",
};

/** The only tokens that a text field accepts from another frame: the names of a person. */
export const NAME_TOKENS = ["cc-name", "name"];

/**
 * Adds the hidden inputs of the tokens that the field itself does not have.
 * @param {HTMLFormElement} form
 * @param {readonly string[]} ownTokens
 * @param {string} nonce
 */
export function addHiddenInputs(form, ownTokens, nonce) {
  const group = document.createElement("div");
  group.className = "autofill";
  group.setAttribute("aria-hidden", "true");
  for (const [token, name] of Object.entries(CARD_TOKENS)) {
    if (ownTokens.includes(token)) continue;
    const input = document.createElement("input");
    input.type = "text";
    input.name = name;
    input.tabIndex = -1;
    input.setAttribute("autocomplete", token);
    const take = () => {
      const value = input.value;
      input.value = "";
      if (value !== "") siblingFields(nonce).some((it) => it.offer(token, value));
    };
    input.addEventListener("input", take);
    input.addEventListener("change", take);
    group.append(input);
  }
  form.append(group);
}

// The page of one field: connects the field with the page that embeds it and with its siblings.

import { CopyButtonField } from "./copy-button-field.js";
import { InputField } from "./input-field.js";
import { isInputType } from "./part-kinds.js";
import { frameApplication, openParentChannel } from "../parent-channel.js";

/**
 * @typedef {import("../parent-channel.js").ParentChannel} ParentChannel
 * @typedef {InputField | CopyButtonField} Field
 */

function connect() {
  /** @type {Field | undefined} */
  let field;
  const channel = openParentChannel((message) => {
    if (message.type === "init") field = start(channel, message.options);
    else if (field !== undefined) handle(field, message);
  });
}

/**
 * @param {ParentChannel} channel
 * @param {unknown} options
 * @returns {Field | undefined}
 */
function start(channel, options) {
  const { nonce, element, type } = channel;
  /** @type {Field} */
  let field;
  if (isInputType(type)) field = new InputField(channel, options);
  else if (type === "copyButton") field = new CopyButtonField(channel, options);
  else return undefined;
  // Only frames of the vault's origin can reach this object.
  Object.defineProperty(globalThis, "scripField", {
    value: Object.freeze({
      nonce,
      element,
      application: frameApplication(),
      type,
      read: (/** @type {unknown} */ part, /** @type {boolean} */ isPlain) => field.read(part, isPlain),
      readPlain: () => field.readPlain(),
      readCopy: () => field.readCopy(),
      arrival: field.arrival,
      useAdvance: () => field.useAdvance(),
      showValidation: () => field.showValidation(),
      offer: (/** @type {string} */ token, /** @type {string} */ value) => field.offer(token, value),
      follow: (/** @type {() => void} */ listener) => field.follow(listener),
    }),
  });
  channel.send("ready");
  return field;
}

/**
 * @param {Field} field
 * @param {import("../parent-channel.js").PageMessage} message
 */
function handle(field, message) {
  switch (message.type) {
    case "update":
      return field.update(message.options);
    case "validate":
      return field.showValidation();
    case "clear":
      return field.clear();
    case "focus":
      return field.focus();
    case "blur":
      return field.blur();
    case "set":
      return message.from === undefined ? field.setReference(message.reference) : field.setFrom(message.from);
    default:
      return undefined;
  }
}

// Opened as a page of its own, the document stays empty.
// With an opaque origin, as in a sandbox, a field does not find the other ones.
if (window.parent !== window && window.origin !== "null") connect();

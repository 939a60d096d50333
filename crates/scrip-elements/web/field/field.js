// The page of one field: connects the field with the page that embeds it and with its siblings.

import { Arrival } from "./arrival.js";
import { CopyButtonField } from "./copy-button-field.js";
import { InputField } from "./input-field.js";
import { isInputType } from "./part-kinds.js";
import { plainCopy } from "./plain-message.js";
import { lookAtPage } from "./siblings.js";
import { frameApplication, openParentChannel } from "../parent-channel.js";

/**
 * @typedef {import("../parent-channel.js").ParentChannel} ParentChannel
 * @typedef {import("../parent-channel.js").PageMessage} PageMessage
 * @typedef {InputField | CopyButtonField} Field
 */

function connect() {
  const arrival = new Arrival(lookAtPage);
  // Before the first input: a field whose start fails must still be found. Only frames of the vault's origin can
  // reach the object.
  Object.defineProperty(globalThis, "scripArrival", { value: arrival });
  if (!arrival.isSeen) throw new Error("A field in a shadow root does not start.");
  /** @type {Field | undefined} */
  let field;
  const channel = openParentChannel((sent) => {
    try {
      const message = /** @type {PageMessage} */ (plainCopy(sent));
      if (message.type === "init") field = start(channel, arrival, message.options);
      else if (field !== undefined) handle(field, message);
    } catch (error) {
      field = undefined;
      close(channel);
      throw error;
    }
  });
}

/**
 * After an error, nothing of the field remains. A field in an unknown state could report what it must not.
 * @param {ParentChannel} channel
 */
function close(channel) {
  channel.end();
  document.body.replaceChildren();
  Reflect.deleteProperty(globalThis, "scripField");
}

/**
 * @param {ParentChannel} channel
 * @param {Arrival} arrival
 * @param {unknown} options
 * @returns {Field | undefined}
 */
function start(channel, arrival, options) {
  const { nonce, element, type } = channel;
  /** @type {Field} */
  let field;
  if (isInputType(type)) field = new InputField(channel, arrival, options);
  else if (type === "copyButton") field = new CopyButtonField(channel, options);
  else return undefined;
  // Only frames of the vault's origin can reach this object.
  Object.defineProperty(globalThis, "scripField", {
    configurable: true,
    value: Object.freeze({
      nonce,
      element,
      application: frameApplication(),
      type,
      read: (/** @type {unknown} */ part, /** @type {boolean} */ isPlain) => field.read(part, isPlain),
      readPlain: () => field.readPlain(),
      readCopy: () => field.readCopy(),
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
 * @param {PageMessage} message
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

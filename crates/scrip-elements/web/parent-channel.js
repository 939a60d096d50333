// The message channel between a frame and the page that embeds it.
//
// The frame's URL fragment has the instance nonce, the element id and the element type. The frame
// accepts a message only from its parent window, with its own nonce and element id. The first
// accepted message must be `init`; its origin is the only origin that the frame listens to and
// answers from then on. `controller.js` and `field.js` share this module.

/**
 * A message of the page, after the checks. Every other property is unchecked input of the page.
 * @typedef {{ type: string, [property: string]: unknown }} PageMessage
 */

/**
 * @typedef {object} ParentChannel
 * @property {string} nonce 128 random bits of the instance, hexadecimal
 * @property {string} element id of the element, or "controller"
 * @property {string} type element type of the fragment, for example "cardNumber"; "" for the controller
 * @property {() => string | undefined} origin origin of the page; undefined before `init`
 * @property {(type: string, fields?: Record<string, unknown>) => void} send sends to the bound origin
 * @property {() => void} end receives and sends nothing from now on
 */

const NONCE = /^[0-9a-f]{32}$/;
const NAME = /^[A-Za-z0-9-]{0,64}$/;

/**
 * The public key of the application that the frame's URL names. The server checked its origins.
 * @returns {string | undefined}
 */
export function frameApplication() {
  return new URLSearchParams(window.location.search).get("application") ?? undefined;
}

/**
 * Whether the frame has the origin that the server wrote into its page. The server compares host names only. On a
 * second port, the same host would be a second origin, whose frames do not find the others. For development the
 * page names no origin.
 */
function isFieldOrigin() {
  const origin = document.querySelector('meta[name="scrip-field-origin"]')?.getAttribute("content");
  return origin === "" || origin === window.location.origin;
}

/** 128 random bits, hexadecimal. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Reads nonce, element and type from a URL fragment.
 * @param {string} fragment with or without `#`
 * @returns {{ nonce: string, element: string, type: string } | undefined}
 */
export function parseFragment(fragment) {
  const values = new URLSearchParams(fragment.replace(/^#/, ""));
  const nonce = values.get("nonce") ?? "";
  const element = values.get("element") ?? "";
  const type = values.get("type") ?? "";
  const valid = NONCE.test(nonce) && element !== "" && NAME.test(element) && NAME.test(type);
  return valid ? { nonce, element, type } : undefined;
}

/**
 * Decides about one message event. Pure, so that tests need no window.
 * @param {{ source: unknown, origin: string, data: unknown }} event
 * @param {{ parent: unknown, nonce: string, element: string, boundOrigin: string | undefined }} channel
 * @returns {PageMessage | undefined} the message, or undefined if it must be ignored
 */
export function acceptMessage(event, channel) {
  if (event.source !== channel.parent) return undefined;
  const data = event.data;
  if (typeof data !== "object" || data === null) return undefined;
  const message = /** @type {Record<string, unknown>} */ (data);
  if (message.scrip !== 1 || message.nonce !== channel.nonce || message.element !== channel.element) {
    return undefined;
  }
  if (typeof message.type !== "string") return undefined;
  const isInit = message.type === "init";
  // An opaque origin cannot be the target of an answer, so a page without an origin is ignored.
  if (channel.boundOrigin === undefined) {
    if (!isInit || event.origin === "null" || event.origin === "") return undefined;
  } else if (isInit || event.origin !== channel.boundOrigin) {
    return undefined;
  }
  return /** @type {PageMessage} */ (message);
}

/**
 * Opens the channel and reports `loaded` to the page. `receive` gets `init` first, then the others.
 * @param {(message: PageMessage) => void} receive
 * @returns {ParentChannel}
 */
export function openParentChannel(receive) {
  const fragment = parseFragment(window.location.hash);
  if (fragment === undefined || window.parent === window) {
    throw new Error("No frame of client.js");
  }
  if (!isFieldOrigin()) {
    throw new Error(`Fields do not run at ${window.location.origin}`);
  }
  const { nonce, element, type } = fragment;
  const parent = window.parent;
  /** @type {string | undefined} */
  let boundOrigin;

  const listen = (/** @type {MessageEvent} */ event) => {
    const message = acceptMessage(event, { parent, nonce, element, boundOrigin });
    if (message === undefined) return;
    boundOrigin ??= event.origin;
    receive(message);
  };
  window.addEventListener("message", listen);

  // Every origin may see `loaded`: the message has only values that the page itself has chosen.
  parent.postMessage({ scrip: 1, nonce, element, type: "loaded" }, "*");

  return {
    nonce,
    element,
    type,
    origin: () => boundOrigin,
    send(messageType, fields = {}) {
      if (boundOrigin === undefined) return;
      parent.postMessage({ ...fields, scrip: 1, nonce, element, type: messageType }, boundOrigin);
    },
    end() {
      window.removeEventListener("message", listen);
      boundOrigin = undefined;
    },
  };
}

// Other frames of the same instance: the controller and the fields, all of the vault's origin.
//
// Frames are found by index in the page's list. A frame of another origin throws on access and is
// skipped; a frame of another instance has another nonce. A page chooses the nonce, and could add a
// frame of an application of its own with the same one, so the application must be the same too.

import { frameApplication } from "../parent-channel.js";

/**
 * @typedef {object} FieldReading
 * @property {boolean} complete
 * @property {boolean} valid
 * @property {boolean} empty
 * @property {{ targetId: string, type: string }[]} errors
 * @property {unknown} value
 * @property {string} version
 * @property {string | undefined} kind
 * @property {boolean} isHidden
 */

/**
 * The object that other frames of the vault's origin may use.
 * @typedef {object} FieldAccess
 * @property {string} nonce
 * @property {string} element
 * @property {string | undefined} application
 * @property {string} type
 * @property {(part?: unknown, isPlain?: boolean) => Promise<FieldReading>} read `isPlain`: without `transform`
 * @property {() => string} readPlain the value of one input, without `transform`
 * @property {() => string} readCopy the value for the clipboard, which nobody typed
 * @property {() => boolean} useAdvance whether the payer has just finished a number there, once for each number
 * @property {() => void} showValidation
 * @property {(token: string, value: string) => boolean} offer takes a value of the browser's autofill
 * @property {(listener: () => void) => void} follow calls the listener after each change
 */

/**
 * @typedef {object} ControllerAccess
 * @property {string} nonce
 * @property {string | undefined} application
 * @property {(reference: unknown) => { value: unknown, kind: string } | undefined} resolve
 * @property {(bin: string) => Promise<unknown>} lookUpBin
 */

/**
 * The global object `name` of every other frame of this instance.
 * @param {"scripField" | "scripController"} name
 * @param {string} nonce
 * @returns {unknown[]}
 */
function accessObjects(name, nonce) {
  const found = [];
  const application = frameApplication();
  for (let index = 0; index < window.parent.length; index += 1) {
    try {
      const frame = /** @type {any} */ (window.parent[index]);
      const access = /** @type {Record<string, unknown> | undefined} */ (frame[name]);
      const isOwn = typeof access === "object" && access.nonce === nonce && access.application === application;
      if (frame !== window && isOwn) found.push(access);
    } catch {
      // The frame has another origin.
    }
  }
  return found;
}

/**
 * All windows of the vault's origin in the page, of every instance and at every depth. Every page may read the
 * number and the places of the frames of another one, also if its origin is another.
 * @param {Window} [page]
 * @returns {any[]}
 */
function pageWindows(page = window.top ?? window) {
  const found = [];
  for (let index = 0; index < page.length; index += 1) {
    const frame = /** @type {any} */ (page[index]);
    try {
      // A frame of another origin throws, or gives a frame of its own that has this name.
      if (frame.origin === window.origin) found.push(frame);
    } catch {
      // The frame has another origin.
    }
    found.push(...pageWindows(frame));
  }
  return found;
}

/**
 * What the fields of the page know, and whether they find this field. A frame in a shadow root has no index.
 * @returns {import("./arrival.js").PageView}
 */
export function lookAtPage() {
  const windows = pageWindows();
  const others = windows.flatMap(({ scripArrival }) => scripArrival ?? []);
  return { others, isSeen: windows.includes(window) };
}

/**
 * @param {string} nonce
 * @returns {FieldAccess[]}
 */
export function siblingFields(nonce) {
  return /** @type {FieldAccess[]} */ (accessObjects("scripField", nonce));
}

/**
 * @param {string} nonce
 * @param {unknown} element
 */
export function findField(nonce, element) {
  return siblingFields(nonce).find((it) => it.element === element);
}

/**
 * @param {string} nonce
 * @returns {ControllerAccess | undefined}
 */
export function findController(nonce) {
  return /** @type {ControllerAccess | undefined} */ (accessObjects("scripController", nonce)[0]);
}

/**
 * Calls `find` until it gives a result. A field may be mounted after the call that refers to it.
 * @template T
 * @param {() => T | undefined} find
 * @param {(found: T) => void} use
 * @returns {() => void} ends the search
 */
export function waitFor(find, use) {
  let timer = 0;
  const attempt = () => {
    const found = find();
    if (found === undefined) timer = window.setTimeout(attempt, 300);
    else use(found);
  };
  attempt();
  return () => window.clearTimeout(timer);
}

/**
 * Shows the value of another field, now and after each change.
 * @param {{ nonce: string, type: string }} own
 * @param {unknown} element
 * @param {(value: string, source: FieldAccess) => void} show
 * @returns {() => void} ends it
 */
export function followField({ nonce, type }, element, show) {
  let isActive = true;
  const endSearch = waitFor(
    () => findField(nonce, element),
    (source) => {
      // Another type would show a part of the value as something else, such as a month.
      if (source.type !== type || type === "card") return;
      const pull = () => {
        if (isActive) show(source.readPlain(), source);
      };
      source.follow(pull);
      pull();
    },
  );
  return () => {
    isActive = false;
    endSearch();
  };
}

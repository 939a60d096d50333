// Other frames of the same instance: the controller and the fields, all of the vault's origin.
//
// Frames are found by index in the page's list. A frame of another origin throws on access and is
// skipped; a frame of another instance has another nonce.

/**
 * @typedef {object} FieldReading
 * @property {boolean} complete
 * @property {boolean} valid
 * @property {boolean} empty
 * @property {{ targetId: string, type: string }[]} errors
 * @property {unknown} value
 */

/**
 * The object that other frames of the vault's origin may use.
 * @typedef {object} FieldAccess
 * @property {string} nonce
 * @property {string} element
 * @property {string} type
 * @property {(part?: unknown) => FieldReading} read
 * @property {() => string} readPlain the value of one input, without `transform`
 * @property {() => void} showValidation
 * @property {(token: string, value: string) => boolean} offer takes a value of the browser's autofill
 * @property {(listener: () => void) => void} follow calls the listener after each change
 */

/**
 * @typedef {object} ControllerAccess
 * @property {string} nonce
 * @property {(reference: unknown) => unknown} resolve
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
  for (let index = 0; index < window.parent.length; index += 1) {
    try {
      const frame = /** @type {any} */ (window.parent[index]);
      const access = /** @type {Record<string, unknown> | undefined} */ (frame[name]);
      if (frame !== window && typeof access === "object" && access.nonce === nonce) found.push(access);
    } catch {
      // The frame has another origin.
    }
  }
  return found;
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

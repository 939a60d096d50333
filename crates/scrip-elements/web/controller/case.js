// Key names: camelCase in the page, snake_case on the wire, as in the official packages. The
// contents of `data` and `metadata` belong to the caller and keep their names.

/** @typedef {Record<string, unknown>} JsonObject */

/**
 * @param {string} key
 * @returns {string}
 */
export function snakeCase(key) {
  return key
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toLowerCase();
}

/**
 * @param {string} key
 * @returns {string}
 */
export function camelCase(key) {
  return snakeCase(key)
    .replace(/_+([a-z0-9])/g, (_, letter) => letter.toUpperCase())
    .replace(/\d+[a-z]/g, (part) => part.toUpperCase());
}

/**
 * Renames the keys of all objects inside `value`.
 * @param {unknown} value
 * @param {(key: string) => string} rename
 * @returns {unknown}
 */
export function renameKeys(value, rename) {
  if (Array.isArray(value)) return value.map((item) => renameKeys(item, rename));
  if (typeof value !== "object" || value === null) return value;
  return fromEntries(Object.entries(value).map(([key, item]) => [rename(key), renameKeys(item, rename)]));
}

/**
 * @param {JsonObject} model token or token intent in the spelling of the page
 * @returns {JsonObject} the request body
 */
export function tokenRequest(model) {
  return renameExcept(model, snakeCase);
}

/**
 * @param {JsonObject} body token or token intent in the spelling of the vault
 * @returns {JsonObject}
 */
export function tokenAnswer(body) {
  return renameExcept(body, camelCase);
}

/**
 * @param {JsonObject} object
 * @param {(key: string) => string} rename
 * @returns {JsonObject}
 */
function renameExcept(object, rename) {
  const { data, metadata, _debug, ...others } = object;
  const renamed = /** @type {JsonObject} */ (renameKeys(others, rename));
  if (data !== undefined) renamed.data = data;
  if (metadata !== undefined) renamed.metadata = metadata;
  return renamed;
}

/**
 * Object.fromEntries for untrusted keys: `__proto__` becomes an ordinary property.
 * @param {[string, unknown][]} entries
 * @returns {JsonObject}
 */
export function fromEntries(entries) {
  /** @type {JsonObject} */
  const object = {};
  for (const [key, value] of entries) {
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  }
  return object;
}

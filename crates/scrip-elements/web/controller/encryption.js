// Token requests as JWE for a client encryption key.

import { fromEntries } from "./case.js";
import { validationFailure } from "./failure.js";
import { encryptJwe, parsePublicKeyPem } from "./jwe.js";
import { child, isObject, listTokenRequests } from "./payload.js";

/**
 * @typedef {object} EncryptionKey
 * @property {string} keyId
 * @property {Uint8Array<ArrayBuffer>} publicKey
 * @property {(pem: unknown) => boolean} equals whether the PEM has the same key
 */

/**
 * @param {unknown} payload of `tokens.encrypt`
 * @returns {EncryptionKey}
 */
export function readKey(payload) {
  if (!isObject(payload)) throw validationFailure("The payload must be an object.");
  const { publicKeyPem, keyId } = payload;
  const publicKey = parsePublicKeyPem(publicKeyPem);
  if (typeof keyId !== "string" || keyId === "" || keyId.length > 200) {
    throw validationFailure("keyId must be the key_id of the public key.", { keyId: { type: "invalid" } });
  }
  const equals = (/** @type {unknown} */ pem) => parsePublicKeyPem(pem).every((byte, index) => byte === publicKey[index]);
  return { keyId, publicKey, equals };
}

/** A typed text of up to this many bytes has the size of every other one. */
const SIZE_STEP = 1024;

const encoder = new TextEncoder();

/**
 * Spaces that give values of any length one size. The page sees the size of a JWE.
 * @param {unknown[]} values
 */
function padding(values) {
  const missing = values.map((it) => {
    const size = encoder.encode(JSON.stringify(it) ?? "").length;
    return Math.ceil(size / SIZE_STEP) * SIZE_STEP - size;
  });
  return " ".repeat(missing.reduce((sum, it) => sum + it, 0));
}

/**
 * @param {unknown} payload as the page sent it: the answer repeats the types of its requests
 * @param {unknown} filled the payload with the values of fields, which are only encrypted
 * @param {EncryptionKey} key
 * @param {{ path: import("./payload.js").Path, value: unknown }[]} values of fields, by their paths in the payload
 * @returns {Promise<unknown>} in the shape of the requests
 */
export async function encryptRequests(payload, filled, { keyId, publicKey }, values) {
  /** @type {[string, unknown][]} */
  const answers = [];
  for (const { path, token } of listTokenRequests(payload)) {
    const data = [...path, "data"].reduce(child, filled);
    const own = values.filter((value) => path.every((key, index) => value.path[index] === key));
    const text = JSON.stringify(data) + padding(own.map((it) => it.value));
    const answer = { encrypted: await encryptJwe(text, publicKey, keyId), type: token.type };
    const [, name] = path;
    if (name === undefined) return answer;
    answers.push([String(name), answer]);
  }
  return fromEntries(answers);
}

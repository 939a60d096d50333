// JWE compact serialization (RFC 7516) with ECDH-ES over X25519 (RFC 7518, RFC 8037) and A256GCM.
// The vault's PEM contains the raw 32-byte public key.

import { configurationFailure, validationFailure } from "./failure.js";

const KEY_BYTES = 32;
// DER header of an X25519 SubjectPublicKeyInfo. Other tools write this form of the same key.
const SPKI_HEADER = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00];

/**
 * @param {unknown} pem
 * @returns {Uint8Array<ArrayBuffer>} the raw X25519 public key
 */
export function parsePublicKeyPem(pem) {
  const match =
    typeof pem === "string"
      ? /^\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*$/.exec(pem)
      : null;
  const bytes = match?.[1] === undefined ? undefined : decodeBase64(match[1].replace(/\s+/g, ""));
  if (bytes?.length === KEY_BYTES) return bytes;
  const isSpki = bytes?.length === SPKI_HEADER.length + KEY_BYTES && SPKI_HEADER.every((byte, i) => bytes[i] === byte);
  if (bytes !== undefined && isSpki) return bytes.slice(SPKI_HEADER.length);
  throw validationFailure("publicKeyPem must be the PEM of an X25519 public key, as POST /keys returns it.", {
    publicKeyPem: { type: "invalid" },
  });
}

/**
 * @param {string} plaintext
 * @param {Uint8Array<ArrayBuffer>} publicKey raw X25519 key
 * @param {string} keyId
 * @returns {Promise<string>} the compact JWE
 */
export async function encryptJwe(plaintext, publicKey, keyId) {
  const subtle = globalThis.crypto?.subtle;
  if (subtle === undefined) {
    throw configurationFailure("Encryption needs a page on https or localhost: this browser has no WebCrypto here.");
  }
  const { ephemeralKey, sharedSecret } = await agree(subtle, publicKey);
  const header = encodeText(
    JSON.stringify({
      alg: "ECDH-ES",
      enc: "A256GCM",
      kid: keyId,
      epk: { kty: "OKP", crv: "X25519", x: encodeBase64Url(ephemeralKey) },
    }),
  );
  const protectedHeader = encodeBase64Url(header);
  const key = await subtle.importKey("raw", await concatKdf(subtle, sharedSecret), "AES-GCM", false, ["encrypt"]);
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const additionalData = encodeText(protectedHeader);
  const sealed = new Uint8Array(
    await subtle.encrypt({ name: "AES-GCM", iv, additionalData, tagLength: 128 }, key, encodeText(plaintext)),
  );
  const tagStart = sealed.length - 16;
  const parts = [iv, sealed.subarray(0, tagStart), sealed.subarray(tagStart)].map(encodeBase64Url);
  return `${protectedHeader}..${parts.join(".")}`;
}

/**
 * @param {SubtleCrypto} subtle
 * @param {Uint8Array<ArrayBuffer>} publicKey
 */
async function agree(subtle, publicKey) {
  /** @type {CryptoKeyPair} */
  let pair;
  try {
    pair = /** @type {CryptoKeyPair} */ (await subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]));
  } catch {
    throw configurationFailure("This browser does not support X25519, which encryption needs.");
  }
  try {
    const recipient = await subtle.importKey("raw", publicKey, { name: "X25519" }, false, []);
    // The browser rejects public keys of low order: the shared secret would be zero.
    const bits = await subtle.deriveBits({ name: "X25519", public: recipient }, pair.privateKey, 256);
    const ephemeralKey = new Uint8Array(await subtle.exportKey("raw", pair.publicKey));
    return { ephemeralKey, sharedSecret: new Uint8Array(bits) };
  } catch {
    throw validationFailure("publicKeyPem is not a usable X25519 key.", { publicKeyPem: { type: "invalid" } });
  }
}

/**
 * Concat KDF of RFC 7518, section 4.6.2: one round of SHA-256, empty PartyUInfo and PartyVInfo.
 * @param {SubtleCrypto} subtle
 * @param {Uint8Array} sharedSecret
 */
function concatKdf(subtle, sharedSecret) {
  const algorithm = encodeText("A256GCM");
  const input = [number32(1), sharedSecret, number32(algorithm.length), algorithm, number32(0), number32(0), number32(256)];
  return subtle.digest("SHA-256", new Uint8Array(input.flatMap((part) => [...part])));
}

/** @param {number} value */
function number32(value) {
  return new Uint8Array([value >>> 24, value >>> 16, value >>> 8, value]);
}

/**
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
function encodeText(text) {
  return new TextEncoder().encode(text);
}

/** @param {Uint8Array} bytes */
function encodeBase64Url(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/**
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer> | undefined}
 */
function decodeBase64(text) {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

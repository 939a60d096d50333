// JWE of the controller, decrypted with an independent implementation.

import assert from "node:assert/strict";
import { test } from "node:test";

import { encryptJwe, parsePublicKeyPem } from "../../crates/scrip-elements/web/controller/jwe.js";
import { importPackage } from "./installed-packages.js";

const jose = await importPackage("jose");

async function createRecipient() {
  const { publicKey, privateKey } = await jose.generateKeyPair("ECDH-ES", { crv: "X25519", extractable: true });
  const { x } = await jose.exportJWK(publicKey);
  return { privateKey, publicKey, raw: Uint8Array.from(Buffer.from(x, "base64url")) };
}

const pem = (base64) => `-----BEGIN PUBLIC KEY-----\n${base64}\n-----END PUBLIC KEY-----\n`;

test("independent_implementation_decrypts_the_jwe", async () => {
  const { privateKey, raw } = await createRecipient();
  for (const value of ["4242424242424242", { number: "4242", name: "Zoë 💳" }, "", "x".repeat(100_000)]) {
    const jwe = await encryptJwe(JSON.stringify(value), raw, "key-1");
    const { plaintext, protectedHeader } = await jose.compactDecrypt(jwe, privateKey);
    assert.deepEqual(JSON.parse(new TextDecoder().decode(plaintext)), value);
    const { epk, ...header } = protectedHeader;
    assert.deepEqual(header, { alg: "ECDH-ES", enc: "A256GCM", kid: "key-1" });
    assert.deepEqual([epk.kty, epk.crv, Object.keys(epk).length], ["OKP", "X25519", 3]);
    assert.equal(jwe.split(".")[1], "");
  }
});

test("each_jwe_has_its_own_key_and_nonce", async () => {
  const { raw } = await createRecipient();
  const [first, second] = await Promise.all([1, 2].map(() => encryptJwe('"x"', raw, "k")));
  for (const part of [0, 2, 3]) assert.notEqual(first.split(".")[part], second.split(".")[part]);
});

test("pem_with_a_raw_key_and_pem_with_spki_give_the_same_key", async () => {
  const { publicKey, raw } = await createRecipient();
  assert.deepEqual(parsePublicKeyPem(pem(Buffer.from(raw).toString("base64"))), raw);
  assert.deepEqual(parsePublicKeyPem(await jose.exportSPKI(publicKey)), raw);
});

test("malformed_pem_is_rejected_as_a_validation_error", () => {
  const key = Buffer.alloc(32, 7).toString("base64");
  const wrong = [undefined, 5, "", key, pem("AAAA"), pem("*"), pem(`${key}AAAA`), `${pem(key)}x`, pem(Buffer.alloc(44).toString("base64"))];
  for (const text of wrong) {
    assert.throws(() => parsePublicKeyPem(text), { name: "BasisTheoryValidationError" }, String(text));
  }
});

test("public_key_of_low_order_is_rejected", async () => {
  await assert.rejects(encryptJwe('"x"', new Uint8Array(32), "k"), { name: "BasisTheoryValidationError" });
});

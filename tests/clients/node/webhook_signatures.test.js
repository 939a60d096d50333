// The Node.js code of docs/webhooks.md verifies deliveries that the program signed.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { constants, createVerify } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import stringify from "json-stable-stringify";
import { WebhookVerificationError } from "standardwebhooks";

const root = fileURLToPath(new URL("../../../", import.meta.url));
let folder, verifyDelivery, verifyWithPublicKey;

// A delivery that was signed this many seconds ago.
function sign(age = 0, ...options) {
  const seconds = String(Math.floor(Date.now() / 1000) - age);
  return JSON.parse(execFileSync(join(root, "target/debug/examples/sign_delivery"), [seconds, ...options]));
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "scrip-"));
  await symlink(fileURLToPath(new URL("node_modules", import.meta.url)), join(folder, "node_modules"));
  const page = await readFile(join(root, "docs/webhooks.md"), "utf8");
  const blocks = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map((it) => it[1]);
  assert.equal(blocks.length, 3);
  await writeFile(join(folder, "receiver.mjs"), blocks[1]);
  const load = async (index) => {
    const file = join(folder, `block${index}.mjs`);
    await writeFile(file, blocks[index]);
    return import(pathToFileURL(file).href);
  };
  ({ verifyDelivery } = await load(0));
  ({ verifyWithPublicKey } = await load(2));
});
after(() => rm(folder, { recursive: true }));

const withSecret = ({ secret, headers, body }) => verifyDelivery(secret, headers, body);
const withPublicKey = ({ public_key, headers, body }) =>
  verifyWithPublicKey(public_key, headers, JSON.parse(body));

test("signed delivery is accepted with secret and public key", () => {
  const delivery = sign();
  assert.deepEqual(withSecret(delivery), JSON.parse(delivery.body));
  assert.deepEqual(withPublicKey(delivery), JSON.parse(delivery.body));
});

test("delivery during a rotation is accepted with the previous secret", () => {
  assert.ok(withSecret(sign(0, "--rotated")));
});

test("body is the canonical JSON of json-stable-stringify", () => {
  const { body, headers, public_key } = sign();
  assert.equal(stringify(JSON.parse(body)), body);
  const verifier = createVerify("RSA-SHA256").update(stringify(JSON.parse(body)));
  const key = { key: public_key, padding: constants.RSA_PKCS1_PSS_PADDING };
  assert.ok(verifier.verify(key, headers["bt-signature"], "base64"));
});

test("salt of the signature has 32 bytes", () => {
  const { body, headers, public_key } = sign();
  const isValid = (saltLength) => {
    const key = { key: public_key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength };
    return createVerify("RSA-SHA256").update(body).verify(key, headers["bt-signature"], "base64");
  };
  assert.ok(isValid(32));
  assert.ok(!isValid(0));
});

test("altered body is rejected with secret and public key", () => {
  const delivery = sign();
  delivery.body = delivery.body.replace("token.created", "token.deleted");
  assert.throws(() => withSecret(delivery), WebhookVerificationError);
  assert.throws(() => withPublicKey(delivery), /signature/);
});

test("old delivery is rejected with secret and public key", () => {
  const delivery = sign(600);
  assert.throws(() => withSecret(delivery), WebhookVerificationError);
  assert.throws(() => withPublicKey(delivery), /old/);
});

test("secret and public key of another vault are rejected", () => {
  const [delivery, other] = [sign(), sign()];
  const { secret, public_key } = other;
  assert.throws(() => withSecret({ ...delivery, secret }), WebhookVerificationError);
  assert.throws(() => withPublicKey({ ...delivery, public_key }), /signature/);
});

test("delivery without signatures is rejected", () => {
  const delivery = { ...sign(), headers: {} };
  assert.throws(() => withSecret(delivery), WebhookVerificationError);
  assert.throws(() => withPublicKey(delivery), /signature/);
});

test("receiver of the page accepts signed deliveries, prints each event once and rejects altered ones", async () => {
  const delivery = sign();
  const environment = { ...process.env, WEBHOOK_SECRET: delivery.secret, PORT: "0" };
  const child = spawn(process.execPath, ["receiver.mjs"], { cwd: folder, env: environment, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const lines = [];
    const output = createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
    await once(output, "line");
    const send = async (body) => (await fetch(lines[0], { method: "POST", headers: delivery.headers, body })).status;
    assert.equal(await send(delivery.body), 204);
    assert.equal(await send(delivery.body), 204);
    assert.equal(await send(delivery.body.replace("{", "{ ")), 400);
    const { event } = JSON.parse(delivery.body);
    assert.deepEqual(lines.slice(1), [`${event.type} ${event.id}`]);
  } finally {
    child.kill();
  }
});

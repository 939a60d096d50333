// A receiver verifies deliveries of the real program, with the secret and with the served public key.

import assert from "node:assert/strict";
import { constants, createVerify, generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import stringify from "json-stable-stringify";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

import { startVault } from "./vault.js";

let vault, publicKey;
const receivers = [];

before(async () => {
  vault = await startVault();
  const response = await fetch(`${vault.url}/.well-known/webhooks.v1.key`);
  assert.equal(response.status, 200);
  publicKey = await response.text();
});
after(async () => {
  for (const { server } of receivers) server.close();
  assert.equal(await vault.stop(), 0);
});

async function send(kind, method, path, body) {
  const response = await fetch(vault.url + path, {
    method,
    headers: { "BT-API-KEY": vault.keys[kind], "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  assert.ok(response.ok, `${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

// A server on this machine and a webhook to it.
async function createReceiver(events) {
  const deliveries = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    deliveries.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.writeHead(204).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}/webhooks`;
  const webhook = await send("management", "POST", "/webhooks", { name: "Orders", url, events });
  const receiver = { server, webhook, deliveries };
  receivers.push(receiver);
  return receiver;
}

async function waitFor(find) {
  for (let attempts = 0; attempts < 300; attempts += 1) {
    const found = await find();
    if (found) return found;
    await sleep(50);
  }
  throw new Error("there is no delivery");
}

// Creates a token and returns its delivery.
async function deliverToken({ deliveries }) {
  const token = await send("private", "POST", "/tokens", {
    type: "token",
    data: "secret value",
    metadata: { "\u{1f600}": "\u00e9 \" \\ / \u2028 <&>", 10: "a", 9: "b" },
  });
  const delivery = await waitFor(() => deliveries.find((it) => it.body.includes(token.id)));
  return { token, ...delivery };
}

const withSecret = (secret, { headers, body }) => new Webhook(secret).verify(body, headers);

function withPublicKey(pem, { headers, body }) {
  const key = { key: pem, padding: constants.RSA_PKCS1_PSS_PADDING };
  const verify = (text) =>
    createVerify("RSA-SHA256").update(text).verify(key, headers["bt-signature"], "base64");
  // A verifier that gets the parsed body must agree with one that gets the bytes.
  const [raw, canonical] = [verify(body), verify(stringify(JSON.parse(body)))];
  assert.equal(raw, canonical);
  return raw;
}

test("delivery of a new token verifies with its secret and the served public key", async () => {
  const receiver = await createReceiver(["token.created"]);
  const delivery = await deliverToken(receiver);
  const { event } = withSecret(receiver.webhook.secret, delivery);
  assert.ok(withPublicKey(publicKey, delivery));
  assert.equal(delivery.headers["bt-signature-version"], "v1");
  assert.equal(event.type, "token.created");
  assert.equal(event.id, delivery.headers["webhook-id"]);
  assert.equal(event.tenant_id, vault.tenant_id);
  assert.deepEqual(event.data.token.metadata, delivery.token.metadata);
  assert.ok(!delivery.body.includes("secret value"));
});

test("altered delivery is rejected", async () => {
  const receiver = await createReceiver(["token.created"]);
  const delivery = await deliverToken(receiver);
  const { secret } = receiver.webhook;
  const altered = { ...delivery, body: delivery.body.replace("token.created", "token.deleted") };
  assert.throws(() => withSecret(secret, altered), WebhookVerificationError);
  assert.ok(!withPublicKey(publicKey, altered));
  for (const name of ["webhook-id", "webhook-timestamp"]) {
    const value = name === "webhook-id" ? "another" : String(Math.floor(Date.now() / 1000) + 1);
    const headers = { ...delivery.headers, [name]: value };
    assert.throws(() => withSecret(secret, { ...delivery, headers }), WebhookVerificationError);
  }
});

test("old delivery is rejected", async () => {
  const receiver = await createReceiver(["token.created"]);
  const delivery = await deliverToken(receiver);
  mock.timers.enable({ apis: ["Date"], now: Date.now() + 10 * 60 * 1000 });
  try {
    assert.throws(() => withSecret(receiver.webhook.secret, delivery), WebhookVerificationError);
  } finally {
    mock.timers.reset();
  }
  assert.ok(withSecret(receiver.webhook.secret, delivery));
});

test("secret of another webhook and another key are rejected", async () => {
  const [receiver, other] = [await createReceiver(["token.created"]), await createReceiver(["token.deleted"])];
  const delivery = await deliverToken(receiver);
  assert.throws(() => withSecret(other.webhook.secret, delivery), WebhookVerificationError);
  const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const pem = pair.publicKey.export({ type: "spki", format: "pem" });
  assert.ok(!withPublicKey(pem, delivery));
  await send("management", "DELETE", `/webhooks/${other.webhook.id}`);
  await send("management", "DELETE", `/webhooks/${receiver.webhook.id}`);
});

test("both secrets verify during a rotation", async () => {
  const receiver = receivers[0];
  const rotated = await send("management", "POST", `/webhooks/${receiver.webhook.id}/secret`);
  const delivery = await deliverToken(receiver);
  assert.equal(delivery.headers["webhook-signature"].split(" ").length, 2);
  assert.ok(withSecret(rotated.secret, delivery));
  assert.ok(withSecret(receiver.webhook.secret, delivery));
  const again = await send("management", "POST", `/webhooks/${receiver.webhook.id}/secret`);
  const later = await deliverToken(receiver);
  assert.ok(withSecret(again.secret, later));
  assert.ok(withSecret(rotated.secret, later));
  assert.throws(() => withSecret(receiver.webhook.secret, later), WebhookVerificationError);
});

test("test event and replayed event arrive with valid signatures", async () => {
  const receiver = await createReceiver(["token.deleted"]);
  const path = `/webhooks/${receiver.webhook.id}`;
  const { event_id } = await send("management", "POST", `${path}/test`);
  const first = await waitFor(() => receiver.deliveries[0]);
  const { event } = withSecret(receiver.webhook.secret, first);
  assert.deepEqual([event.type, event.id], ["webhook.test", event_id]);
  assert.deepEqual(event.data.webhook, { id: receiver.webhook.id, name: "Orders" });
  await waitFor(async () => {
    const { data } = await send("management", "GET", `${path}/deliveries`);
    return data[0].status === "delivered" && data[0].last_status_code === 204;
  });
  const replayed = await send("management", "POST", `${path}/replay`, { from: event.timestamp });
  assert.deepEqual(replayed, { replayed: 1 });
  const second = await waitFor(() => receiver.deliveries[1]);
  assert.equal(withSecret(receiver.webhook.secret, second).event.id, event_id);
  assert.ok(withPublicKey(publicKey, second));
});

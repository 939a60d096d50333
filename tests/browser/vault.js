// The real program on a free port, with its simulator and its own data.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

export async function startVault(environment = {}) {
  const folder = await mkdtemp(join(tmpdir(), "scrip-"));
  const place = ["--data-dir", join(folder, "data"), "--listen", "127.0.0.1:0"];
  const child = spawn(process.env.SCRIP, ["dev", ...place, "--json", "--rate-limits", "off"], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, ...environment },
  });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  const announced = JSON.parse(line);
  return {
    ...announced,

    // The variables that `scrip dev` prints as export lines, and that the guides use.
    variables: {
      SCRIP_URL: announced.url,
      SCRIP_KEY: announced.keys.private,
      SCRIP_PUBLIC_KEY: announced.keys.public,
      SCRIP_MANAGEMENT_KEY: announced.keys.management,
    },

    // Sends an API request with the key of one of the three applications.
    async send(kind, method, path, body) {
      const headers = { "BT-API-KEY": announced.keys[kind], "Content-Type": "application/json" };
      const response = await fetch(announced.url + path, { method, headers, body: JSON.stringify(body) });
      const text = await response.text();
      return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
    },

    async intentOf(number) {
      const data = { number, expiration_month: 12, expiration_year: 2030, cvc: "123" };
      const { status, body } = await this.send("public", "POST", "/token-intents", { type: "card", data });
      if (status !== 201) throw new Error(`no token intent: ${status}`);
      return body.id;
    },

    // Like the backend of a shop.
    authenticate(session, changes = {}) {
      return this.send("private", "POST", `/3ds/sessions/${session}/authenticate`, { ...REQUEST, ...changes });
    },

    challengeResult(session) {
      return this.send("private", "GET", `/3ds/sessions/${session}/challenge-result`);
    },

    // Turns the guessing budgets of production on, which the tenant of `scrip dev` does not have.
    async limitGuesses() {
      // The program that compares responses with the OpenAPI document runs servers only.
      const program = process.env.SCRIP_CONTRACT_CHECK_PROGRAM ?? process.env.SCRIP;
      const operate = async (...words) => (await promisify(execFile)(program, [...words, "--data-dir", join(folder, "data")])).stdout;
      const [line] = (await operate("tenant", "list", "--json")).trim().split("\n");
      const limits = { number_guesses_day: 20, number_guesses_quarter: 40, number_guesses_application: 1000 };
      const quotas = Object.entries(limits).map(([name, limit]) => `${name}=${limit}`);
      await operate("tenant", "quota", "set", String(JSON.parse(line).tenants[0].id), ...quotas);
    },

    async setBehavior(behavior) {
      const response = await fetch(`${announced.simulator}/sim/behavior`, {
        method: "PUT",
        body: JSON.stringify(behavior),
      });
      if (!response.ok) throw new Error(`unknown simulator behavior: ${await response.text()}`);
    },

    async stop() {
      child.kill("SIGTERM");
      const [code] = await once(child, "exit");
      await rm(folder, { recursive: true });
      return code;
    },
  };
}

export const REQUEST = {
  authentication_category: "payment",
  authentication_type: "payment-transaction",
  purchase_info: {
    amount: "8000",
    currency: "826",
    exponent: "2",
    date: "20261115103000",
    transaction_type: "purchase",
  },
  merchant_info: {
    mid: "9876543210001",
    acquirer_bin: "000000999",
    name: "Example Shop",
    country_code: "826",
    category_code: "7922",
  },
  requestor_info: { id: "example-shop", name: "Example Shop", url: "https://shop.example" },
  cardholder_info: { name: "Jo Doe", email: "jo@example.com" },
};

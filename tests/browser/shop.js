// A shop of another origin with the official SDK as published. It serves only its page and the SDK.

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const PAGE = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>A shop</title></head>
<body><h1>A shop</h1><div id="here"></div><script src="/sdk.js"></script></body></html>`;

export async function startShop(vault) {
  const main = createRequire(import.meta.url).resolve("@basis-theory/web-threeds");
  const sdk = await readFile(join(dirname(main), "../bundle/index.js"));
  // The minimum that the SDK requires of the policy of a shop.
  const policy = `default-src 'none'; script-src 'self'; connect-src ${vault.url}; frame-src ${vault.url}; style-src 'unsafe-inline'`;
  const server = createServer((request, response) => {
    const isSdk = request.url === "/sdk.js";
    response.setHeader("Content-Type", isSdk ? "text/javascript" : "text/html; charset=utf-8");
    if (!isSdk) response.setHeader("Content-Security-Policy", policy);
    response.end(isSdk ? sdk : PAGE);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

// Opens the shop and starts the SDK against the vault.
export async function enter(page, shop, vault, key = vault.keys.public) {
  await page.goto(shop.url);
  await page.evaluate(
    ([url, key]) => {
      const options = { apiBaseUrl: url, sdkBaseUrl: url, disableTelemetry: true };
      window.threeds = window.BasisTheory3ds(key, options);
    },
    [vault.url, key],
  );
}

// The result of the promise: a value or an error.
export function createSession(page, request) {
  return page.evaluate(
    (request) =>
      window.threeds.createSession(request).then(
        (value) => ({ value }),
        (error) => ({ error: typeof error === "string" ? error : error.message }),
      ),
    request,
  );
}

export function startChallenge(page, session, authentication, options = {}) {
  const request = {
    sessionId: session.id,
    acsTransactionId: authentication.acs_transaction_id,
    acsChallengeUrl: authentication.acs_challenge_url,
    threeDSVersion: authentication.threeds_version,
    ...options,
  };
  const pending = page.evaluate(
    (request) =>
      window.threeds.startChallenge(request).then(
        (value) => ({ value }),
        (error) => ({ error: typeof error === "string" ? error : error.message }),
      ),
    request,
  );
  // A failing test reports its own error first.
  pending.catch(() => {});
  return pending;
}

// The page of the bank, in whichever frame of this page it is.
export async function bankOf(page) {
  const began = performance.now();
  while (performance.now() - began < 60_000) {
    const frame = page.frames().find((it) => new URL(it.url(), "http://x").pathname.startsWith("/sim/acs/"));
    if (frame && (await frame.locator("button.main").count().catch(() => 0)) > 0) return frame;
    await page.waitForTimeout(25);
  }
  throw new Error("the page of the bank does not load");
}

// Shops and a vault on several sites with https: `shop.test` and `vault.test`. Chromium maps both names to relays on this
// machine, which end TLS. The vault serves its hosted fields at `https://vault.test` only.

import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { request as sendRequest } from "node:http";
import { createServer } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { startBrowser } from "./browser.js";
import { startVault } from "./vault.js";

export const SHOP = "https://shop.test";
export const FIELDS = "https://vault.test";
// A page of a third site.
export const OTHER_SITE = "https://other.test";
// A shop on the site of the hosted fields.
export const NEIGHBOR = "https://shop.vault.test";

// `pages` maps paths to HTML or `{ type, text }`. The shop and the other site serve the same pages.
export async function startSites(pages) {
  const folder = await mkdtemp(join(tmpdir(), "scrip-sites-"));
  const certificate = await createCertificate(folder);
  const vault = await startVault({ SCRIP_ELEMENTS_ORIGIN: FIELDS });
  const fields = await serve(certificate, (request, response) => relay(vault.url, request, response));
  const shop = await serve(certificate, (request, response) => {
    const page = pages[new URL(request.url, SHOP).pathname];
    if (page === undefined) return response.writeHead(404).end();
    const { type = "text/html; charset=utf-8", text = page } = typeof page === "string" ? {} : page;
    response.writeHead(200, { "Content-Type": type }).end(text);
  });
  // The vault compares names of hosts only, so it answers at another port too.
  const rules = [443, 8443].map((port) => `MAP vault.test:${port} 127.0.0.1:${fields.port}`);
  const names = ["shop.test", "other.test", "shop.vault.test", "plain.vault.test"];
  for (const name of names) rules.push(`MAP ${name}:443 127.0.0.1:${shop.port}`);
  const args = [`--host-resolver-rules=${rules.join(", ")}`, "--ignore-certificate-errors"];
  const browser = await startBrowser({ hosts: ["vault.test", ...names], args });
  return {
    vault,
    browser,
    pages,
    async stop() {
      await browser.stop();
      fields.stop();
      shop.stop();
      await rm(folder, { recursive: true });
      return vault.stop();
    },
  };
}

async function createCertificate(folder) {
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const names = "subjectAltName=DNS:shop.test,DNS:vault.test,DNS:other.test,DNS:*.vault.test";
  const options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=shop.test", "-addext", names];
  await promisify(execFile)("openssl", ["req", ...options, "-keyout", key, "-out", cert]);
  return { key: await readFile(key), cert: await readFile(cert) };
}

async function serve(certificate, handle) {
  const server = createServer(certificate, handle);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: server.address().port, stop: () => server.close().closeAllConnections() };
}

// Forwards a request with its `Host`, as a load balancer does.
function relay(target, request, response) {
  const { method, headers } = request;
  const forwarded = sendRequest(target + request.url, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  forwarded.on("error", () => response.destroy());
  request.pipe(forwarded);
}

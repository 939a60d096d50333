// Runs the payment programs of docs/proxy.md against a provider that imitates errors of the vault.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ENVIRONMENT = fileURLToPath(new URL("../../target/clients/python/bin/python", import.meta.url));
const PYTHON = process.env.PYTHON ?? (existsSync(ENVIRONMENT) ? ENVIRONMENT : "python3");
const ERROR = { errors: { proxy: ["not_sent"] }, status: 503, detail: "try again" };

async function readProgram(name) {
  const text = await readFile(new URL("../../docs/proxy.md", import.meta.url), "utf8");
  const blocks = [...text.matchAll(/```(?:js|python)\n([^]*?)```/g)].map((it) => it[1]);
  const program = blocks.find((it) => it.split("\n")[0].endsWith(` ${name}`));
  assert.ok(program, name);
  return program;
}

// The standard and the error output of the program, if each of its calls gets this answer.
async function run(name, { status, headers, body }) {
  const server = createServer((_, response) => response.writeHead(status, headers).end(body));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const folder = await mkdtemp(join(tmpdir(), "scrip-forged-"));
  try {
    const file = join(folder, name);
    await writeFile(file, await readProgram(name));
    const variables = { SCRIP_URL: `http://127.0.0.1:${server.address().port}`, SHOP: "k", ADYEN: "k", CARD: "c" };
    const program = name.endsWith(".py") ? PYTHON : process.execPath;
    return await new Promise((resolve) => {
      const options = { env: { ...process.env, ...variables }, timeout: 30_000 };
      execFile(program, [file], options, (_, output, errors) => resolve({ output, errors }));
    });
  } finally {
    server.close();
    await rm(folder, { recursive: true });
  }
}

const answered = { "Content-Type": "application/json", "BT-PROXY-DESTINATION-STATUS": "200" };
const UNKNOWN = { "adyen_payment.py": /Unknown: /, "adyen_payment.mjs": /state: 'unknown'/ };

for (const name of Object.keys(UNKNOWN)) {
  test(`${name} trusts not_sent only without the status of the destination`, async () => {
    const body = JSON.stringify({ proxy_error: ERROR });
    const { errors } = await run(name, { status: 200, headers: answered, body });
    assert.match(errors, UNKNOWN[name]);
  });

  test(`${name} returns an answer that repeats the name of an error`, async () => {
    const body = JSON.stringify({ resultCode: "proxy_error" });
    const { output } = await run(name, { status: 200, headers: answered, body });
    assert.match(output, /^200 proxy_error/);
  });

  test(`${name} does not know the outcome of an answer without an error of the vault`, async () => {
    const { errors } = await run(name, { status: 502, headers: {}, body: "<html>" });
    assert.match(errors, UNKNOWN[name]);
  });
}

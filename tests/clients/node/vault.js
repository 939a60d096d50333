// The real program on a free port, with its own data.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { BasisTheoryClient } from "@basis-theory/node-sdk";

// Without rate limits, or with this limit for test tenants.
export async function startVault(limit) {
  const folder = await mkdtemp(join(tmpdir(), "scrip-"));
  const options = ["dev", "--data-dir", join(folder, "data"), "--listen", "127.0.0.1:0"];
  const limits = ["--rate-limits", limit === undefined ? "off" : "on"];
  const limited = limit === undefined ? {} : { SCRIP_LIMITS_TEST_TENANT: limit };
  const child = spawn(process.env.SCRIP, [...options, "--json", ...limits], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...limited },
  });
  const lines = createInterface({ input: child.stdout });
  const [line] = await once(lines, "line");
  const announced = JSON.parse(line);
  return {
    ...announced,
    client: (kind, maxRetries = 0) =>
      new BasisTheoryClient({
        apiKey: announced.keys[kind] ?? kind,
        environment: announced.url,
        maxRetries,
      }),
    async stop() {
      child.kill("SIGTERM");
      const [code] = await once(child, "exit");
      await rm(folder, { recursive: true });
      return code;
    },
  };
}

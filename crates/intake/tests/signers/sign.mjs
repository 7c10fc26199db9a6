// Reads one JSON object per line, answers with one per line: signatures by the services' own packages where they publish
// one, by node's crypto where they publish the recipe only.
import { createHmac, createPrivateKey, sign as ed25519 } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { sign as github } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";

const hex = (secret, text) => createHmac("sha256", secret).update(text).digest("hex");

// A raw Ed25519 seed as PKCS #8.
const ed25519Key = (seed) =>
  createPrivateKey({
    key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.from(seed, "hex")]),
    format: "der",
    type: "pkcs8",
  });

const schemes = {
  github: ({ secret, body }) => github(secret, body),
  "standard-webhooks": ({ secret, id, time, body }) => new Webhook(secret).sign(id, new Date(time * 1000), body),
  hex: ({ secret, body }) => hex(secret, body),
  slack: ({ secret, time, body }) => `v0=${hex(secret, `v0:${time}:${body}`)}`,
  discord: ({ secret, time, body }) => ed25519(null, Buffer.from(time + body), ed25519Key(secret)).toString("hex"),
};

async function examples(secret) {
  const path = "node_modules/@octokit/webhooks-examples/api.github.com/index.json";
  for (const { name, examples } of JSON.parse(readFileSync(path, "utf8"))) {
    for (const example of examples) {
      const body = JSON.stringify(example);
      console.log(JSON.stringify({ event: name, body, signature: await github(secret, body) }));
    }
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  if (request.scheme === "github-examples") await examples(request.secret);
  else console.log(JSON.stringify({ signature: await schemes[request.scheme](request) }));
}

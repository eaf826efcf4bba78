// OAuth by a TypeScript SDK's client, used as its documentation says. Speaks in lines of JSON: {"open": URL} where a user
// is needed, who answers with the address that he was sent back to; {"saw": ...} at the end.
//
//     node oauth.mjs NODE_MODULES PACKAGE GATEWAY_URL OPTIONS
//
// PACKAGE is @modelcontextprotocol/sdk (1.x) or @modelcontextprotocol/client (2.x). OPTIONS is JSON: redirect, published
// (the address of a client metadata document), scope, modern, tools (to call, one after the other), pause (for a line of
// input between them).
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [home, name, url, given] = process.argv.slice(2);
const options = JSON.parse(given);
const require = createRequire(`${home}/`);
const old = name.endsWith("/sdk");
const sdk = old
  ? {
      ...require(`${name}/client/index.js`),
      ...require(`${name}/client/streamableHttp.js`),
      ...require(`${name}/client/auth.js`),
    }
  : require(name);

const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const told = async () => (await input.next()).value;
const say = (message) => console.log(JSON.stringify(message));

const kept = {};
let back;
const provider = {
  redirectUrl: options.redirect,
  clientMetadataUrl: options.published,
  clientMetadata: {
    client_name: "The SDK for TypeScript",
    redirect_uris: [options.redirect],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
    scope: options.scope,
  },
  state: () => (kept.state = crypto.randomUUID()),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (state) => (kept.discovery = state),
  redirectToAuthorization: async (address) => {
    say({ open: String(address) });
    back = new URL(await told()).searchParams;
  },
};

const negotiation = options.modern ? { versionNegotiation: { mode: "auto" } } : {};
const client = new sdk.Client({ name: "oauth", version: "1.0.0" }, negotiation);
let transport;
const finish = async (error) => {
  if (!(error instanceof sdk.UnauthorizedError)) throw error;
  if (back.get("state") !== kept.state) throw new Error("another state");
  await transport.finishAuth(old ? back.get("code") : back);
};
const connect = () => {
  transport = new sdk.StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  return client.connect(transport);
};

await connect().catch(async (error) => {
  await finish(error);
  await connect();
});
const saw = { tools: (await client.listTools()).tools.map((tool) => tool.name), texts: [] };
for (const [tool, args] of options.tools) {
  if (options.pause) {
    say({ paused: kept.tokens });
    await told();
  }
  const call = () => client.callTool({ name: tool, arguments: args });
  const result = await call().catch(async (error) => {
    await finish(error);
    return call();
  });
  saw.texts.push(result.content[0].text);
}
saw.tokens = kept.tokens;
await client.close();
say({ saw });
process.exit(0);

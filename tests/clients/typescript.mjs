// The TypeScript SDK's client, used as its README says. Prints one JSON object of what it saw.
//
//     node typescript.mjs NODE_MODULES GATEWAY_URL CONTROL_URL
//
// CONTROL_URL is the backend's: it is told to change, to see whether the client is.
import { createRequire } from "node:module";

const [home, url, control] = process.argv.slice(2);
const require = createRequire(`${home}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const client = new Client({ name: "typescript", version: "1.0.0" }, { capabilities });
const saw = { logged: [], progress: [] };

client.setRequestHandler(types.ElicitRequestSchema, async ({ params }) => ({
  action: "accept",
  content: { name: `${params.message} Ann` },
}));
client.setRequestHandler(types.CreateMessageRequestSchema, async ({ params }) => ({
  role: "assistant",
  model: "none",
  content: { type: "text", text: `re: ${params.messages[0].content.text}` },
}));
client.setRequestHandler(types.ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///ann" }] }));
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
  saw.logged.push(params.data);
});

const heard = (schema) => new Promise((resolve) => client.setNotificationHandler(schema, resolve));
const toolsChanged = heard(types.ToolListChangedNotificationSchema);
const resourceUpdated = heard(types.ResourceUpdatedNotificationSchema);
const tell = (body) => fetch(control, { method: "POST", body: JSON.stringify(body) });
const text = async (name, args, options) => {
  const result = await client.callTool({ name, arguments: args }, undefined, options);
  return result.content[0].text;
};

await client.connect(new StreamableHTTPClientTransport(new URL(url)));
saw.server = client.getServerVersion().name;
saw.tools = (await client.listTools()).tools;
saw.echo = await text("s1_echo", { text: "grüße" });
saw.structured = (await client.callTool({ name: "s1_structured" })).structuredContent;
saw.slow = await text("s1_slow", { seconds: 0.2, steps: 2 }, { onprogress: (step) => saw.progress.push(step) });
saw.elicited = JSON.parse(await text("s1_elicit", { message: "Who?" }));
saw.sampled = JSON.parse(await text("s1_sample", { prompt: "hello" }));
saw.roots = JSON.parse(await text("s1_roots", {}));
await client.setLoggingLevel("warning");
await text("s1_log", { level: "info", text: "too quiet" });
await text("s1_log", { level: "error", text: "loud" });
saw.prompt = (await client.getPrompt({ name: "s1_greet", arguments: { name: "Ann" } })).messages[0].content.text;
saw.resource = (await client.readResource({ uri: "echo://item/7" })).contents[0].uri;
saw.completion = (
  await client.complete({ ref: { type: "ref/prompt", name: "s1_greet" }, argument: { name: "name", value: "A" } })
).completion.values;
saw.refused = await client.callTool({ name: "nobody" }).catch((error) => error.code);

await tell({ do: "add_tool", name: "for_typescript" });
await tell({ do: "notify", method: "notifications/tools/list_changed" });
await toolsChanged;
saw.added = (await client.listTools()).tools.map((tool) => tool.name).includes("s1_for_typescript");

await client.subscribeResource({ uri: "echo://static/one" });
await tell({ do: "update_resource", uri: "echo://static/one" });
saw.updated = (await resourceUpdated).params.uri;

await client.transport.terminateSession();
await client.close();
console.log(JSON.stringify(saw));

// Chat, a stream, tools by an agent, structured output with zod's .int() by schema and by a forced call, Responses
import assert from "node:assert/strict";
import { execSync } from "node:child_process";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";
import { z } from "zod";

const { SMALL, AGENT, KEY } = process.env;
const Person = z.object({ name: z.string(), age: z.number().int() });
const common = { apiKey: KEY, maxRetries: 0 };
const small = (more) => new ChatOpenAI({ model: "small", configuration: { baseURL: `${SMALL}/v1` }, ...common, ...more });
const agent = (more) => new ChatOpenAI({ model: "agent", configuration: { baseURL: `${AGENT}/v1` }, ...common, ...more });
const prompt = "Reverse the word robot.";
const bash = tool(({ command }) => execSync(command).toString(), {
  name: "bash",
  description: "Runs a command.",
  schema: z.object({ command: z.string() }),
});

for (const useResponsesApi of [false, true]) {
  const said = await small({ useResponsesApi, topP: 0.9 }).invoke(prompt);
  assert.equal(said.text, "tobor");
  assert.equal(said.usage_metadata.output_tokens, 5);
  let text = "";
  for await (const chunk of await small({ useResponsesApi }).stream(prompt)) text += chunk.text;
  assert.equal(text, "tobor");
  const made = createAgent({ model: agent({ useResponsesApi }), tools: [bash] });
  const ended = await made.invoke({ messages: [{ role: "user", content: "Write the proof." }] });
  assert.equal(ended.messages.at(-1).text, "The command said: safelight");
  const structured = small({ useResponsesApi, maxTokens: 500 }).withStructuredOutput(Person, { method: "jsonSchema" });
  Person.parse(await structured.invoke("A person."));
}
const forced = small({ maxTokens: 500 }).withStructuredOutput(Person, { method: "functionCalling" });
Person.parse(await forced.invoke("A person."));

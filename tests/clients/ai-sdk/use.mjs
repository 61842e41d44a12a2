// generateText, streamText, generateObject with .int(), tools in steps: by openai-compatible, openai chat and Responses
import assert from "node:assert/strict";
import { execSync } from "node:child_process";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { SMALL, AGENT, KEY } = process.env;
const schema = z.object({ name: z.string(), age: z.number().int() });
const prompt = "Reverse the word robot.";
const bash = tool({
  description: "Runs a command.",
  inputSchema: z.object({ command: z.string() }),
  execute: ({ command }) => execSync(command).toString(),
});
const compatible = { name: "safelight", apiKey: KEY, supportsStructuredOutputs: true, includeUsage: true };
const providers = {
  "openai-compatible": (url) => createOpenAICompatible({ baseURL: `${url}/v1`, ...compatible }),
  "openai chat": (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).chat,
  "openai responses": (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).responses,
};

for (const [name, provider] of Object.entries(providers)) {
  const small = provider(SMALL)("small");
  const agent = provider(AGENT)("agent");
  const said = await generateText({ model: small, prompt, topP: 0.9, seed: 1 });
  assert.equal(said.text, "tobor", name);
  assert.equal(said.finishReason, "stop", name);
  assert.equal(said.usage.outputTokens, 5, name);
  const stream = streamText({ model: small, prompt });
  assert.equal(await stream.text, "tobor", name);
  assert.equal((await stream.usage).outputTokens, 5, name);
  const formed = await generateObject({ model: small, schema, prompt, maxOutputTokens: 500, maxRetries: 0 });
  schema.parse(formed.object);
  const output = Output.object({ schema });
  schema.parse((await generateText({ model: small, prompt, output, maxOutputTokens: 500, maxRetries: 0 })).output);
  const options = { model: agent, prompt: "Write the proof.", tools: { bash }, stopWhen: stepCountIs(5) };
  const ended = await generateText(options);
  assert.equal(ended.text, "The command said: safelight", name);
  assert.equal(ended.steps.length, 2, name);
  assert.equal(await streamText(options).text, "The command said: safelight", name);
}

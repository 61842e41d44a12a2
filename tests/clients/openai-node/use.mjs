// Chat, a stream, parse with zod, tools by its runner, responses streamed and parsed
import assert from "node:assert/strict";
import { execSync } from "node:child_process";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const { SMALL, AGENT, KEY } = process.env;
const small = new OpenAI({ baseURL: `${SMALL}/v1`, apiKey: KEY });
const agent = new OpenAI({ baseURL: `${AGENT}/v1`, apiKey: KEY });
const messages = [{ role: "user", content: "Reverse the word robot." }];
const Person = z.object({ name: z.string(), age: z.number().int() });

const said = await small.chat.completions.create({ model: "small", messages });
assert.equal(said.choices[0].message.content, "tobor");
assert.equal(said.usage.completion_tokens, 5);
const stream = small.chat.completions.stream({ model: "small", messages, stream_options: { include_usage: true } });
assert.equal(await stream.finalContent(), "tobor");
assert.equal((await stream.totalUsage()).completion_tokens, 5);

const format = { model: "small", messages, response_format: zodResponseFormat(Person, "person"), max_tokens: 500, seed: 1 };
Person.parse((await small.chat.completions.parse(format)).choices[0].message.parsed);

const bash = {
  name: "bash",
  description: "Runs a command.",
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
  parse: JSON.parse,
  function: ({ command }) => execSync(command).toString(),
};
const runner = agent.chat.completions.runTools({
  model: "agent",
  messages: [{ role: "user", content: "Write the proof." }],
  tools: [{ type: "function", function: bash }],
  stream: true,
});
assert.equal(await runner.finalContent(), "The command said: safelight");

const answer = await small.responses.create({ model: "small", input: "Reverse the word robot." });
assert.equal(answer.output_text, "tobor");
const kinds = [];
for await (const event of await small.responses.create({ model: "small", input: "A word.", stream: true })) kinds.push(event.type);
assert.equal(kinds.at(-1), "response.completed");
const text = { format: zodTextFormat(Person, "person") };
Person.parse((await small.responses.parse({ model: "small", input: "A person.", text, max_output_tokens: 500 })).output_parsed);

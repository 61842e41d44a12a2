// Its providers for Inception and OpenAI: gaps streamed by both routes
import assert from "node:assert/strict";
import { constructLlmApi } from "@continuedev/openai-adapters";

const { AGENT, KEY } = process.env;
const apiBase = `${AGENT}/v1/`;
const signal = new AbortController().signal;
const gap = { model: "mercury-coder", prompt: "# Say «number / 2».\n    return ", suffix: "\n\nprint(half(4))\n", stream: true };

async function joined(stream) {
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0].delta.content ?? "";
  return text;
}

const inception = constructLlmApi({ provider: "inception", apiKey: KEY, apiBase });
assert.equal(await joined(inception.fimStream({ ...gap }, signal)), "number / 2");
assert.equal(await joined(inception.fimStream({ ...gap, suffix: " \n" }, signal)), "number / 2");

const openai = constructLlmApi({ provider: "openai", apiKey: KEY, apiBase });
assert.equal(await joined(openai.fimStream({ ...gap, max_tokens: 64 }, signal)), "number / 2");

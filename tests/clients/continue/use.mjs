// Its providers for Inception and OpenAI: gaps streamed by both routes, a next edit and a change applied, whole and streamed
import assert from "node:assert/strict";
import { constructLlmApi } from "@continuedev/openai-adapters";

const { AGENT, KEY } = process.env;
const apiBase = `${AGENT}/v1/`;
const signal = new AbortController().signal;
const gap = { model: "mercury-coder", prompt: "# Say «number / 2».\n    return ", suffix: "\n\nprint(half(4))\n", stream: true };
const code = "def half(number):\n    return number / 2";
const content =
  "<|recently_viewed_code_snippets|>\n\n<|/recently_viewed_code_snippets|>\n\n<|current_file_content|>\n" +
  "current_file_path: half.py\nimport math\n<|code_to_edit|>\ndef half(number):\n    return nu<|cursor|>\n" +
  "<|/code_to_edit|>\nprint(half(4))\n<|/current_file_content|>\n\n<|edit_diff_history|>\n" +
  `--- half.py\n+++ half.py\n+    return nu\n<|/edit_diff_history|>`;

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

function asked(text, mark) {
  const system = { role: "system", content: "You are an expert at coding." };
  return { model: "mercury-coder", messages: [system, { role: "user", content: text + mark }], max_tokens: 1024 };
}

const saying = content.replace("import math", `# «${code}»`);
const EDIT = "<|!@#IS_NEXT_EDIT!@#|>";
const edit = await joined(inception.chatCompletionStream({ ...asked(saying, EDIT), stream: true }, signal));
const whole = await inception.chatCompletionNonStream(asked(saying, EDIT), signal);
for (const message of [edit, whole.choices[0].message.content]) {
  // as its MercuryCoderNextEditProvider reads it
  assert.equal(message.slice(message.indexOf("```\n") + 4, message.lastIndexOf("\n```")), code);
}
const same = content.replace("import math", "# «def half(number):\n    return nu»");
assert.equal((await inception.chatCompletionNonStream(asked(same, EDIT), signal)).choices[0].message.content, "None");

const change = `<|original_code|>\ndef half(number): pass\n<|/original_code|>\n\n<|update_snippet|>\n«${code}»\n<|/update_snippet|>`;
const APPLY = "<|!@#IS_APPLY!@#|>";
assert.equal(await joined(inception.chatCompletionStream({ ...asked(change, APPLY), stream: true }, signal)), code);

# A command run to its end by /v1/chat/completions, streamed, with all of its tools
set -e
cat > opencode.json <<JSON
{
  "model": "safelight/agent",
  "small_model": "safelight/agent",
  "permission": "allow",
  "provider": {
    "safelight": {
      "npm": "@ai-sdk/openai-compatible",
      "options": { "baseURL": "$AGENT/v1", "apiKey": "$KEY" },
      "models": { "agent": { "name": "Agent", "tool_call": true } }
    }
  }
}
JSON
opencode run "Write the proof." | tee said.txt
grep -q "The command said: safelight" said.txt
test "$(cat proof.txt)" = safelight

# A command run to its end by /v1/messages, streamed, with all of its tools
set -e
export ANTHROPIC_BASE_URL="$AGENT" ANTHROPIC_API_KEY="$KEY" DISABLE_TELEMETRY=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
claude --print "Write the proof." --allowedTools Bash --output-format json > said.json
cat said.json
grep -q '"The command said: safelight"' said.json
test "$(cat proof.txt)" = safelight
